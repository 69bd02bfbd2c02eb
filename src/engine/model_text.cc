// See model_text.h.
#include "engine/model_text.h"

#include "base/json.h"

namespace dspark {
namespace {

// GGUF metadata as the tokenizer reads it.
class GgufMetadata : public MetadataView {
 public:
  explicit GgufMetadata(const GgufFile& file) : file_(file) {}

  bool contains(std::string_view key) const override { return file_.entry(key) != nullptr; }
  std::optional<std::string_view> get_string(std::string_view key) const override { return get<std::string_view>(key); }
  std::optional<int64_t> get_int(std::string_view key) const override { return get<int64_t>(key); }
  std::optional<bool> get_bool(std::string_view key) const override { return get<bool>(key); }
  std::optional<std::vector<std::string_view>> get_strings(std::string_view key) const override {
    return get<std::vector<std::string_view>>(key);
  }
  std::optional<std::vector<float>> get_floats(std::string_view key) const override {
    return get<std::vector<float>>(key);
  }
  std::optional<std::vector<int32_t>> get_ints(std::string_view key) const override {
    return get<std::vector<int32_t>>(key);
  }
  std::optional<std::string_view> get_bytes(std::string_view key) const override {
    const GgufEntry* entry = file_.entry(key);
    if (entry == nullptr || entry->type != GgufType::kArray || gguf_scalar_bytes(entry->element) != 1) return {};
    return std::string_view(reinterpret_cast<const char*>(entry->data.data()), entry->data.size());
  }

 private:
  template <class T>
  std::optional<T> get(std::string_view key) const {
    Result<T> value = file_.require<T>(key);
    if (!value.ok()) return {};
    return std::move(*value);
  }
  const GgufFile& file_;
};

// chat_template of tokenizer_config.json: a text, or a list of named ones of which "default" counts.
Result<std::string> template_from_config(const HfFolder& folder) {
  if (folder.tokenizer_config_json().empty()) return std::string();
  const std::string name = folder.path() + "/tokenizer_config.json";
  DSPARK_TRY(const nlohmann::json config, parse_json(folder.tokenizer_config_json(), name));
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return std::string();
  if (found->is_string()) return found->get<std::string>();
  if (found->is_array()) {
    for (const nlohmann::json& entry : *found) {
      DSPARK_TRY(const std::string kind, json_require<std::string>(entry, "name", name));
      if (kind == "default") return json_require<std::string>(entry, "template", name);
    }
  }
  return make_error(ErrorCode::kCorrupt, "{}: 'chat_template' is neither a text nor a list with a 'default'", name);
}

// generation_config.json names one or several tokens that end an answer, besides those that the tokenizer knows. Ids
// beyond the tokenizer's are never drawn.
Status add_configured_ends(const HfFolder& folder, TokenizerSpec* spec) {
  if (folder.generation_config_json().empty()) return Ok{};
  constexpr std::string_view kKey = "eos_token_id";
  const std::string name = folder.path() + "/generation_config.json";
  DSPARK_TRY(const nlohmann::json config, parse_json(folder.generation_config_json(), name));
  if (!config.is_object()) return make_error(ErrorCode::kCorrupt, "{}: no JSON object, expected one", name);
  std::vector<int32_t> ends;
  if (const auto found = config.find(kKey); found != config.end() && found->is_array()) {
    DSPARK_TRY(ends, json_require<std::vector<int32_t>>(config, kKey, name));
  } else {
    DSPARK_TRY(const int32_t end, json_get_or<int32_t>(config, kKey, -1, name));
    ends = {end};
  }
  for (const int32_t end : ends) {
    if (end >= 0 && static_cast<size_t>(end) < spec->tokens.size()) spec->end_of_generation.push_back(end);
  }
  return Ok{};
}

Result<Tokenizer> tokenizer_of(Result<TokenizerSpec> spec) {
  if (!spec.ok()) return spec.error();
  return Tokenizer::create(std::move(spec).value());
}

// `text` knows nothing of files: its errors get the path of the one that is wrong.
template <class T>
Result<T> of_file(const std::string& path, Result<T> result) {
  if (result.ok()) return result;
  return make_error(result.error().code, "{}: {}", path, result.error().message);
}

}  // namespace

Result<Tokenizer> load_tokenizer(const ModelFile& file) {
  if (file.gguf() != nullptr) {
    return of_file(file.gguf()->path(), tokenizer_of(tokenizer_spec_from_gguf(GgufMetadata(*file.gguf()))));
  }
  const HfFolder& folder = *file.hf();
  if (folder.tokenizer_json().empty()) {
    return make_error(ErrorCode::kNotFound, "{}: no tokenizer.json; add the one published with the model",
                      folder.path());
  }
  DSPARK_TRY(TokenizerSpec spec,
             of_file(folder.path(), tokenizer_spec_from_json(folder.tokenizer_json(), folder.tokenizer_config_json())));
  DSPARK_RETURN_IF_ERROR(add_configured_ends(folder, &spec));
  return of_file(folder.path(), Tokenizer::create(std::move(spec)));
}

Result<ChatTemplate> load_chat_template(const ModelFile& file) {
  std::string source;
  if (file.gguf() != nullptr) {
    DSPARK_TRY(const std::string_view in_file, file.gguf()->get_or<std::string_view>("tokenizer.chat_template", ""));
    source = in_file;
  } else if (!file.hf()->chat_template().empty()) {
    source = file.hf()->chat_template();
  } else {
    DSPARK_TRY(source, template_from_config(*file.hf()));
  }
  if (source.empty()) return ChatTemplate::chatml();
  return of_file(file.gguf() != nullptr ? file.gguf()->path() : file.hf()->path(), ChatTemplate::parse(source));
}

Result<std::string> render_chat(const ChatTemplate& chat_template, const Tokenizer& tokenizer, ChatInput input) {
  DSPARK_TRY(input.messages, adapt_content(input.messages, chat_template.content_style()));
  if (tokenizer.bos() >= 0) input.bos_token = tokenizer.piece(tokenizer.bos());
  if (tokenizer.eos() >= 0) input.eos_token = tokenizer.piece(tokenizer.eos());
  return chat_template.render(input);
}

std::vector<int32_t> encode_rendered(const Tokenizer& tokenizer, std::string_view prompt, int threads) {
  std::vector<int32_t> ids = tokenizer.encode(prompt, {.threads = threads});
  if (tokenizer.adds_bos() && ids.size() >= 2 && ids[0] == tokenizer.bos() && ids[1] == tokenizer.bos()) {
    ids.erase(ids.begin());
  }
  return ids;
}

}  // namespace dspark
