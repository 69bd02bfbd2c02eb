// See prompt_sources.h.
#include "train/prompt_sources.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "train/prompt_template.h"
#include "train/python_functions.h"

namespace dspark {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Strings = std::vector<std::string>;

Result<std::string> file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) return make_error(ErrorCode::kNotFound, "{}: cannot be read; check the path", path);
  return std::move(text).str();
}

std::string under(const std::string& folder, const std::string& path) {
  return fs::path(path).is_absolute() ? path : (fs::path(folder) / path).string();
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

// One of `list`, by the prompt's id.
const std::string& pick(const Strings& list, const std::string& id, uint64_t seed) {
  return list[stable_hash(id, seed) % list.size()];
}

void add_prompt(PromptSource* source, Strings turns) {
  const std::string id = fmt::format("{}/{}", source->name, source->prompts.size());
  source->prompts.push_back({id, source->name, std::move(turns)});
}

Status add_jsonl(const json& entry, const std::string& folder, uint64_t seed, PromptSource* source) {
  DSPARK_TRY(const std::string path, json_require<std::string>(entry, "path", source->name));
  DSPARK_TRY(const Strings endings, json_get_or<Strings>(entry, "endings", {""}, source->name));
  DSPARK_TRY(auto conversations, load_turns(under(folder, path)));
  for (Strings& turns : conversations) {
    add_prompt(source, std::move(turns));
    if (endings.empty()) continue;
    TrainPrompt& prompt = source->prompts.back();
    for (std::string& turn : prompt.turns) turn += pick(endings, prompt.id, seed);
  }
  return Ok{};
}

Status add_python(const json& entry, const std::string& folder, uint64_t seed, PromptSource* source) {
  DSPARK_TRY(const std::string path, json_require<std::string>(entry, "path", source->name));
  DSPARK_TRY(const Strings wordings, json_require<Strings>(entry, "wordings", source->name));
  if (wordings.empty()) return make_error(ErrorCode::kCorrupt, "{}: wordings is empty, expected texts", source->name);
  const std::string root = under(folder, path);
  std::error_code failed;
  Strings files;
  for (fs::recursive_directory_iterator it(root, failed), end; !failed && it != end; it.increment(failed)) {
    if (it->path().extension() == ".py") files.push_back(it->path().string());
  }
  if (failed || files.empty()) {
    return make_error(ErrorCode::kNotFound, "{}: no Python files in {}; give the folder of a standard library",
                      source->name, root);
  }
  std::sort(files.begin(), files.end());
  constexpr size_t kMaxSource = 1600;  // bytes of a function that enters a prompt whole
  for (const std::string& file : files) {
    DSPARK_TRY(const std::string text, file_text(file));
    for (const PythonFunction& function : find_python_functions(text)) {
      std::string turn = pick(wordings, fmt::format("{}/{}", source->name, source->prompts.size()), seed);
      if (function.source.size() > kMaxSource && turn.find("{source}") != std::string::npos) turn = wordings.front();
      turn = replaced(std::move(turn), "{signature}", function.signature);
      turn = replaced(std::move(turn), "{documentation}", function.documentation);
      turn = replaced(std::move(turn), "{head}", function.head);
      add_prompt(source, {replaced(std::move(turn), "{source}", function.source)});
    }
  }
  return Ok{};
}

Status read_slots(const json& object, const std::string& name, std::map<std::string, Strings>* slots) {
  if (!object.is_object()) return make_error(ErrorCode::kCorrupt, "{}: slots is no object", name);
  for (const auto& [slot, values] : object.items()) {
    DSPARK_TRY((*slots)[slot], json_require<Strings>(object, slot, name));
  }
  return Ok{};
}

Status add_template(const json& entry, const std::map<std::string, Strings>& shared, uint64_t seed,
                    PromptSource* source) {
  PromptTemplate pattern = {.name = source->name, .slots = shared};
  DSPARK_TRY(pattern.count, json_require<int32_t>(entry, "count", source->name));
  const auto conversations = entry.find("conversations");
  if (conversations == entry.end() || !conversations->is_array()) {
    return make_error(ErrorCode::kCorrupt, "{}: no list \"conversations\"", source->name);
  }
  for (const json& turns : *conversations) {
    DSPARK_TRY(Strings texts, json_require<Strings>(json{{"turns", turns}}, "turns", source->name));
    pattern.conversations.push_back(std::move(texts));
  }
  if (entry.contains("slots")) DSPARK_RETURN_IF_ERROR(read_slots(entry["slots"], source->name, &pattern.slots));
  for (Strings& turns : fill_template(pattern, seed)) add_prompt(source, std::move(turns));
  return Ok{};
}

Result<PromptSource> load_source(const json& entry, const std::map<std::string, Strings>& slots,
                                 const std::string& folder, uint64_t seed, const std::string& path) {
  PromptSource source;
  DSPARK_TRY(source.name, json_require<std::string>(entry, "name", path));
  DSPARK_TRY(source.kind, json_require<std::string>(entry, "kind", source.name));
  DSPARK_TRY(source.licence, json_require<std::string>(entry, "licence", source.name));
  DSPARK_TRY(source.origin, json_get_or<std::string>(entry, "origin", "", source.name));
  DSPARK_TRY(source.samples, json_get_or<int32_t>(entry, "samples", 1, source.name));
  if (source.kind == "jsonl") {
    DSPARK_RETURN_IF_ERROR(add_jsonl(entry, folder, seed, &source));
  } else if (source.kind == "python") {
    DSPARK_RETURN_IF_ERROR(add_python(entry, folder, seed, &source));
  } else if (source.kind == "template") {
    DSPARK_RETURN_IF_ERROR(add_template(entry, slots, seed, &source));
  } else if (source.kind == "self") {
    DSPARK_TRY(const int32_t count, json_require<int32_t>(entry, "count", source.name));
    for (int32_t i = 0; i < count; ++i) add_prompt(&source, {});
  } else {
    return make_error(ErrorCode::kCorrupt, "{}: kind \"{}\", expected jsonl, template, python or self", source.name,
                      source.kind);
  }
  return source;
}

}  // namespace

Result<std::vector<Strings>> load_turns(const std::string& path) {
  DSPARK_TRY(const std::string text, file_text(path));
  std::vector<Strings> all;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \r\t") == std::string::npos) continue;
    const std::string name = fmt::format("{}:{}", path, number);
    DSPARK_TRY(const json object, parse_json(line, name));
    DSPARK_TRY(Strings turns, json_require<Strings>(object, "turns", name));
    if (turns.empty()) return make_error(ErrorCode::kCorrupt, "{}: turns is empty, expected the user's texts", name);
    all.push_back(std::move(turns));
  }
  return all;
}

Result<PromptSources> load_prompt_sources(const std::string& path, const std::string& data_folder) {
  DSPARK_TRY(const std::string text, file_text(path));
  DSPARK_TRY(const json document, parse_json(text, path));
  PromptSources all;
  DSPARK_TRY(all.seed, json_get_or<uint64_t>(document, "seed", 0, path));
  DSPARK_TRY(all.temperatures, json_require<std::vector<double>>(document, "temperatures", path));
  if (std::none_of(all.temperatures.begin(), all.temperatures.end(), [](double t) { return t > 0; })) {
    return make_error(ErrorCode::kCorrupt, "{}: temperatures has none above 0; further samples need one", path);
  }
  DSPARK_TRY(all.fixed_instructions, json_get_or<Strings>(document, "fixed_instructions", {}, path));
  DSPARK_TRY(const Strings evaluation, json_get_or<Strings>(document, "evaluation", {}, path));
  for (const std::string& file : evaluation) {
    DSPARK_TRY(const auto conversations, load_turns(under(data_folder, file)));
    for (const Strings& turns : conversations) all.evaluation.insert(all.evaluation.end(), turns.begin(), turns.end());
  }
  std::map<std::string, Strings> slots;
  if (document.contains("slots")) DSPARK_RETURN_IF_ERROR(read_slots(document["slots"], path, &slots));
  const auto entries = document.find("sources");
  if (entries == document.end() || !entries->is_array() || entries->empty()) {
    return make_error(ErrorCode::kCorrupt, "{}: no list \"sources\"", path);
  }
  for (const json& entry : *entries) {
    DSPARK_TRY(PromptSource source, load_source(entry, slots, data_folder, all.seed, path));
    all.sources.push_back(std::move(source));
  }
  return all;
}

}  // namespace dspark
