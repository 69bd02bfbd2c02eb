// See debug_request.h.
#include "tools/debug_request.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/read_file.h"
#include "server/prepare.h"

namespace dspark {
namespace {

constexpr const char* kPrompt = "Count from one to ten in words, then do it again.";
constexpr int kUsualTokens = 64;  // of the answer, unless somebody says otherwise

Result<std::vector<int32_t>> prompt_of(const Settings& settings, const Engine& engine) {
  const auto length = static_cast<size_t>(settings.get<"prompt-len">());
  std::string text = settings.get<"prompt">();
  if (text.empty()) text = kPrompt;
  auto rendered = engine.render({{{"role", "user"}, {"content", text}}});
  std::vector<int32_t> tokens = rendered.ok() ? engine.encode_rendered(*rendered) : engine.tokenizer().encode(text, {});
  if (tokens.empty()) return make_error(ErrorCode::kInvalidArgument, "the prompt is empty");
  const std::vector<int32_t> once = tokens;
  while (tokens.size() < length) tokens.insert(tokens.end(), once.begin(), once.end());
  if (length > 0) tokens.erase(tokens.begin(), tokens.end() - static_cast<std::ptrdiff_t>(length));  // its end stays
  return tokens;
}

// The body of a chat, where it has messages, or of a completion, as the server would take it.
Result<Request> sent_request(const std::string& path, Engine& engine) {
  DSPARK_TRY(const std::string body, read_file(path, kMaxDocumentBytes));
  DSPARK_TRY(const nlohmann::json json, parse_json(body, path, {.max_bytes = kMaxDocumentBytes}));
  if (!json.is_object())
    return make_error(ErrorCode::kCorrupt, "{}: expected the JSON object that a client sent", path);
  const ServedModel model{.tokenizer = engine.tokenizer(),
                          .chat_template = engine.chat_template(),
                          .serving = engine.loop(),
                          .context = engine.context(),
                          .vocab = engine.config().vocab,
                          .hidden_size = engine.config().hidden,
                          .fingerprint = ""};
  const auto name = json.find("model");
  const ServingNames names = {.models = {name != json.end() && name->is_string() ? name->get<std::string>() : "model"},
                              .limits = {}};
  const ApiKey anybody;
  const Caller caller = {.key = &anybody, .task = "", .prompt_type = "", .arrival = std::chrono::system_clock::now()};
  auto prepared = prepare_generation(model, names, caller, body, json.contains("messages"));
  if (const auto* error = std::get_if<ApiError>(&prepared)) {
    return make_error(ErrorCode::kInvalidArgument, "{}: the server answers {}: {}", path, error->status,
                      error->message);
  }
  Request request = std::move(std::get<PreparedGeneration>(prepared).requests.front());
  request.choices = 1;
  request.max_tokens = std::min(request.max_tokens, kUsualTokens);
  return request;
}

}  // namespace

Result<Request> debug_request(const Settings& settings, Engine& engine) {
  const std::string path = settings.get<"request">();
  Request request;
  if (path.empty()) {
    DSPARK_TRY(request.prompt, prompt_of(settings, engine));
    request.sampling.temperature = 0.0;
    request.sampling.seed = static_cast<uint64_t>(settings.get<"seed">());
    request.max_tokens = kUsualTokens;
  } else {
    DSPARK_TRY(request, sent_request(path, engine));
    if (settings.is_set<"seed">()) request.sampling.seed = static_cast<uint64_t>(settings.get<"seed">());
  }
  if (settings.is_set<"temp">()) request.sampling.temperature = settings.get<"temp">();
  if (settings.is_set<"max-tokens">()) request.max_tokens = static_cast<int>(settings.get<"max-tokens">());
  return request;
}

}  // namespace dspark
