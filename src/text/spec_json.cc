// tokenizer_spec_from_json: see tokenizer_spec.h. Format: the serialisation of Hugging Face's `tokenizers` 0.2x.
//
// Spaces: where the file spells a space as U+2581 (by a Replace normaliser or a Metaspace pre-tokeniser), the spec does
// the opposite and reads U+2581 as a space (TokenizerSpec::metaspace): the same segmentation, without rewriting texts.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "base/printable.h"
#include "text/base64.h"
#include "text/end_of_generation.h"
#include "text/pretokenize_patterns.h"
#include "text/tokenizer_spec.h"

namespace dspark {
namespace {

using nlohmann::json;
using Model = TokenizerSpec::Model;
using Behavior = PretokenizerStep::Behavior;

constexpr std::string_view kFile = "tokenizer.json";
constexpr std::string_view kConfigFile = "tokenizer_config.json";
constexpr std::string_view kMetaspace = "\xE2\x96\x81";
constexpr int64_t kMaxTokens = int64_t{1} << 22;

Error unsupported(std::string_view what, std::string_view found, std::string_view expected) {
  return make_error(ErrorCode::kUnsupported, "{}: {} is {}, expected {}", kFile, what, quote(found), expected);
}

// "type" of a component, or of the component that `object` has under `key`.
Result<std::string> type_of(const json& object) { return json_require<std::string>(object, "type", kFile); }

const json* member(const json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

Result<const json*> require_member(const json& object, std::string_view key, json::value_t type,
                                   std::string_view type_name) {
  const json* found = member(object, key);
  if (found != nullptr && found->type() == type) return found;
  return make_error(ErrorCode::kCorrupt, "{}: {} is {}, expected {}", kFile, quote(key),
                    found == nullptr ? "missing" : found->type_name(), type_name);
}

class JsonSpecReader {
 public:
  JsonSpecReader(const json& root, const json& config) : root_(root), config_(config) {}

  Result<TokenizerSpec> run() {
    if (const json* normalizer = member(root_, "normalizer")) DSPARK_RETURN_IF_ERROR(add_normalizer(*normalizer));
    const bool spelt_before_splitting = spec_.metaspace;
    if (const json* pretokenizer = member(root_, "pre_tokenizer")) {
      DSPARK_RETURN_IF_ERROR(add_pretokenizer(*pretokenizer, spelt_before_splitting));
    }
    DSPARK_TRY(const json* model, require_member(root_, "model", json::value_t::object, "an object"));
    DSPARK_RETURN_IF_ERROR(read_model(*model));
    DSPARK_RETURN_IF_ERROR(read_added_tokens());
    if (const json* post = member(root_, "post_processor")) DSPARK_RETURN_IF_ERROR(read_post_processor(*post));
    DSPARK_RETURN_IF_ERROR(read_config());
    if (const json* decoder = member(root_, "decoder")) spec_.strip_leading_space = strips_leading_space(*decoder);
    return std::move(spec_);
  }

 private:
  // A pattern: {"String": literal} or {"Regex": expression}.
  struct Pattern {
    std::string text;
    bool is_regex = false;
  };
  static Result<Pattern> read_pattern(const json& object) {
    DSPARK_TRY(const json* pattern, require_member(object, "pattern", json::value_t::object, "an object"));
    if (member(*pattern, "Regex") != nullptr) {
      DSPARK_TRY(auto text, json_require<std::string>(*pattern, "Regex", kFile));
      return Pattern{std::move(text), true};
    }
    DSPARK_TRY(auto text, json_require<std::string>(*pattern, "String", kFile));
    return Pattern{std::move(text), false};
  }

  // A literal as a regular expression.
  static std::string escaped(std::string_view literal) {
    std::string out;
    for (const char c : literal) {
      const bool plain = c == ' ' || static_cast<signed char>(c) < 0 || (c >= '0' && c <= '9') ||
                         (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
      if (static_cast<uint8_t>(c) < ' ') {
        out += fmt::format("\\x{:02X}", static_cast<uint8_t>(c));
      } else {
        if (!plain) out += '\\';
        out += c;
      }
    }
    return out;
  }

  Status add_normalizer(const json& object) {
    DSPARK_TRY(const std::string type, type_of(object));
    if (type == "Sequence") {
      DSPARK_TRY(const json* list, require_member(object, "normalizers", json::value_t::array, "an array"));
      for (const json& step : *list) DSPARK_RETURN_IF_ERROR(add_normalizer(step));
      return Ok{};
    }
    NormalizerStep step;
    using Kind = NormalizerStep::Kind;
    if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
      step.kind = type == "NFC" ? Kind::kNfc : type == "NFD" ? Kind::kNfd : type == "NFKC" ? Kind::kNfkc : Kind::kNfkd;
    } else if (type == "Prepend") {
      step.kind = Kind::kPrepend;
      DSPARK_TRY(step.content, json_require<std::string>(object, "prepend", kFile));
      if (step.content == kMetaspace) step.content = " ";
    } else if (type == "Replace") {
      DSPARK_TRY(auto pattern, read_pattern(object));
      DSPARK_TRY(step.content, json_require<std::string>(object, "content", kFile));
      step.kind = Kind::kReplace;
      step.pattern = std::move(pattern.text);
      step.is_regex = pattern.is_regex;
      if (!step.is_regex && step.pattern == " " && step.content == kMetaspace) {
        spec_.metaspace = true;
        step.pattern.swap(step.content);
      }
    } else if (type == "Strip") {
      step.kind = Kind::kStrip;
      DSPARK_TRY(step.strip_left, json_get_or<bool>(object, "strip_left", true, kFile));
      DSPARK_TRY(step.strip_right, json_get_or<bool>(object, "strip_right", true, kFile));
    } else if (type == "Precompiled") {
      step.kind = Kind::kCharsmap;
      DSPARK_TRY(const auto charsmap, json_get_or<std::string>(object, "precompiled_charsmap", "", kFile));
      DSPARK_TRY(step.charsmap, decode_base64(charsmap));
    } else {
      return unsupported("a normalizer", type, "one of NFC, NFD, NFKC, NFKD, Prepend, Precompiled, Replace, Strip");
    }
    spec_.normalizer.push_back(std::move(step));
    return Ok{};
  }

  void add_split(std::string_view pattern, Behavior behavior, bool invert = false) {
    PretokenizerStep step;
    step.pattern = pattern;
    step.behavior = behavior;
    step.invert = invert;
    spec_.pretokenizer.push_back(std::move(step));
  }

  static Result<Behavior> read_behavior(const json& object) {
    DSPARK_TRY(const auto name, json_require<std::string>(object, "behavior", kFile));
    if (name == "Isolated") return Behavior::kIsolated;
    if (name == "Removed") return Behavior::kRemoved;
    if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
    if (name == "MergedWithNext") return Behavior::kMergedWithNext;
    if (name == "Contiguous") return Behavior::kContiguous;
    return unsupported("a split's behavior", name,
                       "one of Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous");
  }

  // `spelt`: the normaliser has turned all spaces into U+2581.
  Status add_pretokenizer(const json& object, bool spelt) {
    DSPARK_TRY(const std::string type, type_of(object));
    if (type == "Sequence") {
      DSPARK_TRY(const json* list, require_member(object, "pretokenizers", json::value_t::array, "an array"));
      for (const json& step : *list) DSPARK_RETURN_IF_ERROR(add_pretokenizer(step, spelt));
      return Ok{};
    }
    if (type == "Split") return add_split_step(object, spelt);
    if (type == "Metaspace") return add_metaspace(object);
    if (spec_.metaspace) return unsupported("a pre-tokenizer behind U+2581 for spaces", type, "Split or Metaspace");
    if (type == "ByteLevel") return add_byte_level(object);
    if (type == "Digits") {
      DSPARK_TRY(const bool each, json_get_or<bool>(object, "individual_digits", false, kFile));
      add_split(kNumberPattern, each ? Behavior::kIsolated : Behavior::kContiguous);
    } else if (type == "Punctuation") {
      Behavior behavior = Behavior::kIsolated;
      if (member(object, "behavior") != nullptr) {
        DSPARK_TRY(behavior, read_behavior(object));
      }
      add_split(kPunctuationPattern, behavior);
    } else if (type == "WhitespaceSplit") {
      add_split(R"(\s)", Behavior::kRemoved);
    } else {
      return unsupported("a pre-tokenizer", type,
                         "one of ByteLevel, Digits, Metaspace, Punctuation, Split, WhitespaceSplit");
    }
    return Ok{};
  }

  Status add_split_step(const json& object, bool spelt) {
    DSPARK_TRY(const Pattern pattern, read_pattern(object));
    DSPARK_TRY(const Behavior behavior, read_behavior(object));
    DSPARK_TRY(const bool invert, json_get_or<bool>(object, "invert", false, kFile));
    if (spec_.metaspace) {
      // Gemma's: a split at spaces, of which there are none.
      if (spelt && !pattern.is_regex && pattern.text == " " && !invert) return Ok{};
      return unsupported("a split behind U+2581 for spaces", pattern.text, "a split at the literal ' '");
    }
    add_split(pattern.is_regex ? pattern.text : escaped(pattern.text), behavior, invert);
    return Ok{};
  }

  Status add_byte_level(const json& object) {
    spec_.byte_level = true;
    DSPARK_TRY(const bool prefix, json_get_or<bool>(object, "add_prefix_space", true, kFile));
    DSPARK_TRY(const bool use_regex, json_get_or<bool>(object, "use_regex", true, kFile));
    if (prefix) {
      PretokenizerStep step;
      step.kind = PretokenizerStep::Kind::kPrefixSpace;
      spec_.pretokenizer.push_back(step);
    }
    if (use_regex) add_split(kGpt2Pattern, Behavior::kIsolated);
    PretokenizerStep step;
    step.kind = PretokenizerStep::Kind::kByteAlphabet;
    spec_.pretokenizer.push_back(step);
    return Ok{};
  }

  Status add_metaspace(const json& object) {
    DSPARK_TRY(const auto replacement, json_get_or<std::string>(object, "replacement", std::string(kMetaspace), kFile));
    if (replacement != kMetaspace) return unsupported("Metaspace's replacement", replacement, "U+2581");
    DSPARK_TRY(const bool legacy_prefix, json_get_or<bool>(object, "add_prefix_space", true, kFile));
    DSPARK_TRY(const auto scheme,
               json_get_or<std::string>(object, "prepend_scheme", legacy_prefix ? "always" : "never", kFile));
    DSPARK_TRY(const bool split, json_get_or<bool>(object, "split", true, kFile));
    if (scheme != "always" && scheme != "first" && scheme != "never") {
      return unsupported("Metaspace's prepend_scheme", scheme, "one of always, first, never");
    }
    spec_.metaspace = true;
    PretokenizerStep step;
    step.kind = PretokenizerStep::Kind::kMetaspace;
    step.prefix = scheme == "always"  ? PretokenizerStep::Prefix::kAlways
                  : scheme == "first" ? PretokenizerStep::Prefix::kTextStart
                                      : PretokenizerStep::Prefix::kNever;
    spec_.pretokenizer.push_back(step);
    if (split) add_split(" ", Behavior::kMergedWithNext);
    return Ok{};
  }

  Status read_model(const json& model) {
    // Files from before 2020 do not name the type of a BPE model.
    DSPARK_TRY(const auto type, json_get_or<std::string>(model, "type", "BPE", kFile));
    DSPARK_TRY(spec_.byte_fallback, json_get_or<bool>(model, "byte_fallback", false, kFile));
    if (type == "BPE") return read_bpe(model);
    if (type == "Unigram") return read_unigram(model);
    return unsupported("the model", type, "BPE or Unigram");
  }

  Status put_token(std::string text, int64_t id) {
    if (id < 0 || id >= kMaxTokens) {
      return make_error(ErrorCode::kCorrupt, "{}: token {} has id {}, expected 0 to {}", kFile, quote(text), id,
                        kMaxTokens - 1);
    }
    const auto at = static_cast<size_t>(id);
    if (at >= spec_.tokens.size()) {
      spec_.tokens.resize(at + 1);
      spec_.kinds.resize(at + 1, TokenKind::kUnused);
    }
    if (spec_.kinds[at] != TokenKind::kUnused) {
      return make_error(ErrorCode::kCorrupt, "{}: tokens {} and {} both have id {}, expected one", kFile,
                        quote(spec_.tokens[at]), quote(text), id);
    }
    spec_.kinds[at] = spec_.byte_fallback && is_byte_token(text) ? TokenKind::kByte : TokenKind::kNormal;
    spec_.tokens[at] = std::move(text);
    return Ok{};
  }

  // "<0x41>", as byte fallback looks them up.
  static bool is_byte_token(std::string_view text) {
    return text.size() == 6 && text.starts_with("<0x") && text[5] == '>' &&
           text.substr(3, 2).find_first_not_of("0123456789ABCDEF") == std::string_view::npos;
  }

  Status read_bpe(const json& model) {
    spec_.model = Model::kMerges;
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      DSPARK_TRY(const auto value, json_get_or<std::string>(model, key, "", kFile));
      if (!value.empty()) return unsupported(key, value, "none");
    }
    DSPARK_TRY(const double dropout, json_get_or<double>(model, "dropout", 0.0, kFile));
    if (dropout != 0) return unsupported("dropout", fmt::format("{}", dropout), "0");
    DSPARK_TRY(spec_.fuse_unknown, json_get_or<bool>(model, "fuse_unk", false, kFile));
    DSPARK_TRY(spec_.ignore_merges, json_get_or<bool>(model, "ignore_merges", false, kFile));
    DSPARK_TRY(const json* vocab, require_member(model, "vocab", json::value_t::object, "an object"));
    for (const auto& [text, id] : vocab->items()) {
      if (!id.is_number_integer()) {
        return make_error(ErrorCode::kCorrupt, "{}: token {} has {} for an id, expected an integer", kFile, quote(text),
                          id.type_name());
      }
      DSPARK_RETURN_IF_ERROR(put_token(text, id.get<int64_t>()));
    }
    DSPARK_TRY(const auto unknown, json_get_or<std::string>(model, "unk_token", "", kFile));
    if (const json* id = unknown.empty() ? nullptr : member(*vocab, unknown)) {
      spec_.unknown = id->get<int32_t>();
      spec_.kinds[spec_.unknown] = TokenKind::kUnknown;
    }
    DSPARK_TRY(const json* merges, require_member(model, "merges", json::value_t::array, "an array"));
    spec_.merges.reserve(merges->size());
    for (const json& merge : *merges) DSPARK_RETURN_IF_ERROR(add_merge(merge));
    return Ok{};
  }

  // ["left", "right"], or in older files "left right".
  Status add_merge(const json& merge) {
    std::string_view left, right;
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      left = merge[0].get_ref<const std::string&>();
      right = merge[1].get_ref<const std::string&>();
    } else if (merge.is_string()) {
      const std::string_view text = merge.get_ref<const std::string&>();
      const size_t space = text.find(' ');
      if (space != std::string_view::npos) {
        left = text.substr(0, space);
        right = text.substr(space + 1);
      }
    }
    if (left.empty() || right.empty()) {
      return make_error(ErrorCode::kCorrupt, "{}: merge {} is no pair of tokens, expected [left, right]", kFile,
                        spec_.merges.size());
    }
    spec_.merges.push_back({std::string(left).append(right), static_cast<uint32_t>(left.size())});
    return Ok{};
  }

  Status read_unigram(const json& model) {
    spec_.model = Model::kUnigram;
    spec_.fuse_unknown = true;
    DSPARK_TRY(const json* vocab, require_member(model, "vocab", json::value_t::array, "an array"));
    for (const json& entry : *vocab) {
      if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
        return make_error(ErrorCode::kCorrupt, "{}: entry {} of the vocabulary is no [token, score] pair", kFile,
                          spec_.tokens.size());
      }
      DSPARK_RETURN_IF_ERROR(put_token(entry[0].get<std::string>(), static_cast<int64_t>(spec_.tokens.size())));
      spec_.scores.push_back(entry[1].get<double>());
    }
    DSPARK_TRY(spec_.unknown, json_get_or<int32_t>(model, "unk_id", -1, kFile));
    if (spec_.unknown >= 0 && static_cast<size_t>(spec_.unknown) < spec_.kinds.size()) {
      spec_.kinds[spec_.unknown] = TokenKind::kUnknown;
    }
    return Ok{};
  }

  Status read_added_tokens() {
    const json* list = member(root_, "added_tokens");
    if (list == nullptr) return Ok{};
    if (!list->is_array()) {
      return make_error(ErrorCode::kCorrupt, "{}: 'added_tokens' is {}, expected an array", kFile, list->type_name());
    }
    for (const json& entry : *list) {
      AddedToken token;
      DSPARK_TRY(token.id, json_require<int32_t>(entry, "id", kFile));
      DSPARK_TRY(token.content, json_require<std::string>(entry, "content", kFile));
      DSPARK_TRY(token.special, json_get_or<bool>(entry, "special", false, kFile));
      DSPARK_TRY(token.normalized, json_get_or<bool>(entry, "normalized", !token.special, kFile));
      DSPARK_TRY(token.single_word, json_get_or<bool>(entry, "single_word", false, kFile));
      DSPARK_TRY(token.lstrip, json_get_or<bool>(entry, "lstrip", false, kFile));
      DSPARK_TRY(token.rstrip, json_get_or<bool>(entry, "rstrip", false, kFile));
      DSPARK_RETURN_IF_ERROR(put_added_token(token));
      spec_.added_tokens.push_back(std::move(token));
    }
    if (!spec_.scores.empty()) spec_.scores.resize(spec_.tokens.size(), 0.0);
    return Ok{};
  }

  // Added tokens may be in the model's vocabulary or extend it.
  Status put_added_token(const AddedToken& token) {
    const auto at = static_cast<size_t>(token.id);
    const bool is_new = token.id < 0 || at >= spec_.tokens.size() || spec_.kinds[at] == TokenKind::kUnused;
    if (is_new) {
      DSPARK_RETURN_IF_ERROR(put_token(token.content, token.id));
    } else if (spec_.tokens[at] != token.content) {
      return make_error(ErrorCode::kCorrupt, "{}: added token {} has id {}, which is {} in the vocabulary", kFile,
                        quote(token.content), token.id, quote(spec_.tokens[at]));
    }
    TokenKind& kind = spec_.kinds[at];
    if (token.special && kind != TokenKind::kUnknown) kind = TokenKind::kControl;
    if (!token.special && is_new) kind = TokenKind::kUserDefined;
    return Ok{};
  }

  // What is put around a single text: nothing, or one token in front and one behind.
  Status read_post_processor(const json& object) {
    DSPARK_TRY(const std::string type, type_of(object));
    if (type == "Sequence") {
      DSPARK_TRY(const json* list, require_member(object, "processors", json::value_t::array, "an array"));
      for (const json& step : *list) DSPARK_RETURN_IF_ERROR(read_post_processor(step));
      return Ok{};
    }
    if (type == "ByteLevel") return Ok{};  // only moves offsets
    if (type != "TemplateProcessing") {
      return unsupported("a post-processor", type, "one of ByteLevel, Sequence, TemplateProcessing");
    }
    DSPARK_TRY(const json* single, require_member(object, "single", json::value_t::array, "an array"));
    bool behind_text = false;
    for (const json& part : *single) {
      if (member(part, "Sequence") != nullptr) {
        behind_text = true;
        continue;
      }
      DSPARK_TRY(const json* token, require_member(part, "SpecialToken", json::value_t::object, "an object"));
      DSPARK_TRY(const auto text, json_require<std::string>(*token, "id", kFile));
      int32_t& id = behind_text ? spec_.eos : spec_.bos;
      bool& add = behind_text ? spec_.add_eos : spec_.add_bos;
      if (add) return unsupported("the post-processor's template", text, "at most one token on each side of the text");
      id = find_added(text);
      add = true;
      if (id < 0) {
        return make_error(ErrorCode::kCorrupt, "{}: the post-processor names {}, expected an added token", kFile,
                          quote(text));
      }
    }
    return Ok{};
  }

  int32_t find_added(std::string_view content) const {
    for (const AddedToken& token : spec_.added_tokens) {
      if (token.content == content) return token.id;
    }
    return -1;
  }

  // A special token in tokenizer_config.json: its text, or an object with it; -1 if it is not set or not known.
  int32_t config_token(std::string_view key) const {
    const json* value = member(config_, key);
    if (value != nullptr && value->is_object()) value = member(*value, "content");
    if (value == nullptr || !value->is_string()) return -1;
    return find_added(value->get_ref<const std::string&>());
  }

  Status read_config() {
    if (spec_.bos < 0) spec_.bos = config_token("bos_token");
    if (spec_.eos < 0 || !spec_.add_eos) {
      const int32_t eos = config_token("eos_token");
      if (eos >= 0) spec_.eos = eos;
    }
    spec_.pad = config_token("pad_token");
    if (member(root_, "post_processor") == nullptr) {
      // transformers makes the template from these flags where the file has none.
      DSPARK_TRY(spec_.add_bos, json_get_or<bool>(config_, "add_bos_token", spec_.add_bos, kConfigFile));
      DSPARK_TRY(spec_.add_eos, json_get_or<bool>(config_, "add_eos_token", spec_.add_eos, kConfigFile));
    }
    add_end_of_generation(spec_);
    return Ok{};
  }

  // Whether the decoder removes a space from the beginning: a Strip step, or Metaspace with a prefix.
  static bool strips_leading_space(const json& decoder) {
    const auto type = decoder.is_object() ? decoder.value("type", json()) : json();
    if (type == "Sequence") {
      const json* list = member(decoder, "decoders");
      if (list == nullptr || !list->is_array()) return false;
      return std::any_of(list->begin(), list->end(), [](const json& step) { return strips_leading_space(step); });
    }
    if (type == "Strip") return member(decoder, "start") != nullptr && *member(decoder, "start") != 0;
    if (type != "Metaspace") return false;
    const json* scheme = member(decoder, "prepend_scheme");
    return scheme == nullptr || *scheme != "never";
  }

  const json& root_;
  const json& config_;
  TokenizerSpec spec_;
};

}  // namespace

Result<TokenizerSpec> tokenizer_spec_from_json(std::string_view tokenizer_json,
                                               std::string_view tokenizer_config_json) {
  DSPARK_TRY(const json root, parse_json(tokenizer_json, kFile));
  json config = json::object();
  if (!tokenizer_config_json.empty()) {
    DSPARK_TRY(config, parse_json(tokenizer_config_json, kConfigFile));
  }
  return JsonSpecReader(root, config).run();
}

}  // namespace dspark
