// `dspark tokenize`: text to token ids and back. Main thread.
#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "engine/model_text.h"
#include "tools/command.h"
#include "tools/compute.h"
#include "tools/io.h"
#include "tools/model_choice.h"

namespace dspark {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The numbers in `text`, whatever stands between them (lines, commas, a JSON list), or what `tokenize --json` printed.
Result<std::vector<int32_t>> parse_ids(std::string_view text, const std::string& source, int32_t size) {
  constexpr std::string_view kJsonStart = "{\"tokens\":";
  if (text.starts_with(kJsonStart)) text.remove_prefix(kJsonStart.size());
  std::vector<int32_t> ids;
  for (size_t i = 0; i < text.size();) {
    if (!is_digit(text[i])) {
      if (text[i] == '-' || std::isalpha(static_cast<unsigned char>(text[i]))) {
        return make_error(ErrorCode::kInvalidArgument, "{}: {} is no list of token numbers", source,
                          quote(text.substr(i), 20));
      }
      ++i;
      continue;
    }
    size_t end = i;
    while (end < text.size() && is_digit(text[end])) ++end;
    int32_t id = 0;
    const auto parsed = std::from_chars(text.data() + i, text.data() + end, id);
    if (parsed.ec != std::errc() || id >= size) {
      return make_error(ErrorCode::kInvalidArgument, "{}: token {}, expected 0 to {}", source,
                        text.substr(i, std::min<size_t>(end - i, 20)), size - 1);
    }
    ids.push_back(id);
    i = end;
  }
  return ids;
}

// The inverse of encoding: what encoding put around the text goes, and all other tokens are their texts.
std::string text_of(const Tokenizer& tokenizer, std::span<const int32_t> ids, bool drop_ends) {
  if (drop_ends && tokenizer.adds_bos() && !ids.empty() && ids.front() == tokenizer.bos()) ids = ids.subspan(1);
  if (drop_ends && tokenizer.adds_eos() && !ids.empty() && ids.back() == tokenizer.eos())
    ids = ids.first(ids.size() - 1);
  return tokenizer.decode(ids, false);
}

std::string table(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  std::string out;
  for (const int32_t id : ids) out += fmt::format("{:>8}  {}\n", id, quote(tokenizer.piece(id)));
  return out;
}

}  // namespace

Result<ExitCode> cmd_tokenize(const Invocation& call) {
  const Settings& settings = call.settings;
  const bool json = settings.get<"json">();
  const bool ends = settings.get<"bos">();
  DSPARK_TRY(const std::string path, local_model(settings.get<"model">()));
  DSPARK_TRY(const ModelFile file, ModelFile::open(path));
  DSPARK_TRY(const Tokenizer tokenizer, load_tokenizer(file));
  const std::string source = settings.is_set<"file">() ? settings.get<"file">() : "-";
  DSPARK_TRY(const std::string input, read_input(source, kMaxTextBytes));
  if (settings.get<"detokenize">()) {
    DSPARK_TRY(const std::vector<int32_t> ids, parse_ids(input, input_name(source), tokenizer.size()));
    const std::string text = text_of(tokenizer, ids, ends);
    DSPARK_RETURN_IF_ERROR(json ? write_json({{"text", text}}) : write_output(text));
    return ExitCode::kOk;
  }
  const std::vector<int32_t> ids = tokenizer.encode(input, {.add_special = ends,
                                                            .parse_special = settings.get<"parse-special">(),
                                                            .threads = pool_options(settings).threads});
  DSPARK_RETURN_IF_ERROR(json ? write_json({{"tokens", ids}}) : write_output(table(tokenizer, ids)));
  return ExitCode::kOk;
}

}  // namespace dspark
