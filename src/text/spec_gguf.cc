// tokenizer_spec_from_gguf: see tokenizer_spec.h. Keys: the GGUF specification ("Tokenizer"); what they leave open is
// as llama.cpp reads it. A GGUF file names no Unicode normalisation, so none is applied.
#include <utility>

#include "base/printable.h"
#include "text/end_of_generation.h"
#include "text/pretokenize_patterns.h"
#include "text/tokenizer_spec.h"

namespace dspark {
namespace {

using Model = TokenizerSpec::Model;

class GgufSpecReader {
 public:
  explicit GgufSpecReader(const MetadataView& metadata) : metadata_(metadata) {}

  Result<TokenizerSpec> run() {
    DSPARK_TRY(const auto model, text_or("model", ""));
    if (model == "gpt2") {
      DSPARK_RETURN_IF_ERROR(read_byte_level());
    } else if (model == "gemma4") {
      DSPARK_RETURN_IF_ERROR(read_metaspace_merges());
    } else if (model == "llama") {
      DSPARK_RETURN_IF_ERROR(read_scored());
    } else if (model == "t5") {
      DSPARK_RETURN_IF_ERROR(read_unigram());
    } else {
      return make_error(ErrorCode::kUnsupported,
                        "tokenizer.ggml.model is {}, expected one of gpt2, gemma4, llama, t5; use a model with such a "
                        "tokenizer",
                        quote(model));
    }
    DSPARK_RETURN_IF_ERROR(read_tokens());
    DSPARK_RETURN_IF_ERROR(read_special_ids());
    add_end_of_generation(spec_);
    // Some files call such a token normal: it would be found nowhere.
    for (const int32_t id : spec_.end_of_generation) {
      if (spec_.kinds[id] == TokenKind::kNormal) spec_.kinds[id] = TokenKind::kControl;
    }
    add_added_tokens();
    return std::move(spec_);
  }

 private:
  static std::string full(std::string_view key) { return fmt::format("tokenizer.ggml.{}", key); }

  // The value that `get` finds under tokenizer.ggml.`key`; nothing if there is no such key.
  template <class T>
  Result<std::optional<T>> read(std::optional<T> (MetadataView::*get)(std::string_view) const, std::string_view key,
                                std::string_view type) const {
    std::optional<T> value = (metadata_.*get)(full(key));
    if (!value && metadata_.contains(full(key))) {
      return make_error(ErrorCode::kCorrupt, "{} has another type, expected {}; the file was not made right", full(key),
                        type);
    }
    return value;
  }
  Result<std::string_view> text_or(std::string_view key, std::string_view fallback) const {
    DSPARK_TRY(const auto value, read(&MetadataView::get_string, key, "a string"));
    return value.value_or(fallback);
  }
  Result<bool> flag_or(std::string_view key, bool fallback) const {
    DSPARK_TRY(const auto value, read(&MetadataView::get_bool, key, "a bool"));
    return value.value_or(fallback);
  }
  // -1 in the file, or its 32-bit two's complement, is "none".
  Result<int32_t> id_or(std::string_view key, int32_t fallback) const {
    DSPARK_TRY(const auto value, read(&MetadataView::get_int, key, "an integer"));
    if (!value) return fallback;
    if (*value == -1 || *value == 0xFFFFFFFF) return -1;
    if (*value < 0 || *value >= static_cast<int64_t>(spec_.tokens.size())) {
      return make_error(ErrorCode::kCorrupt, "{} is {}, expected 0 to {}", full(key), *value, spec_.tokens.size() - 1);
    }
    return static_cast<int32_t>(*value);
  }

  Status read_byte_level() {
    spec_.model = Model::kMerges;
    spec_.byte_level = true;
    DSPARK_TRY(const auto name, text_or("pre", "default"));
    DSPARK_TRY(auto pretokenizer, named_pretokenizer(name));
    spec_.pretokenizer = std::move(pretokenizer.steps);
    spec_.ignore_merges = pretokenizer.ignore_merges;
    spec_.add_bos = pretokenizer.add_bos;
    return read_merges();
  }

  Status read_metaspace_merges() {
    spec_.model = Model::kMerges;
    spec_.metaspace = spec_.byte_fallback = spec_.fuse_unknown = spec_.add_bos = true;
    spec_.normalizer.push_back(metaspace_to_space());
    return read_merges();
  }

  Status read_scored() {
    spec_.model = Model::kScores;
    spec_.metaspace = spec_.byte_fallback = spec_.fuse_unknown = spec_.add_bos = true;
    spec_.bos = 1;
    spec_.eos = 2;
    spec_.unknown = 0;
    DSPARK_TRY(const bool prefix, flag_or("add_space_prefix", true));
    if (prefix) {
      NormalizerStep step;
      step.kind = NormalizerStep::Kind::kPrepend;
      step.content = " ";
      spec_.normalizer.push_back(step);
    }
    spec_.normalizer.push_back(metaspace_to_space());
    spec_.strip_leading_space = prefix;
    // SentencePiece looks for user-defined tokens in the normalised text, but for the prefix.
    user_defined_normalized_ = !prefix;
    return Ok{};
  }

  Status read_unigram() {
    spec_.model = Model::kUnigram;
    spec_.metaspace = spec_.fuse_unknown = spec_.add_eos = true;
    spec_.eos = 1;
    spec_.unknown = 2;
    spec_.pad = 0;
    NormalizerStep step;
    step.kind = NormalizerStep::Kind::kSentencePiece;
    DSPARK_TRY(step.add_prefix, flag_or("add_space_prefix", true));
    DSPARK_TRY(step.squeeze_space, flag_or("remove_extra_whitespaces", false));
    DSPARK_TRY(const auto charsmap, read(&MetadataView::get_bytes, "precompiled_charsmap", "an array of bytes"));
    if (charsmap) step.charsmap = *charsmap;
    spec_.strip_leading_space = step.add_prefix;
    spec_.normalizer.push_back(std::move(step));
    spec_.normalizer.push_back(metaspace_to_space());
    return Ok{};
  }

  static NormalizerStep metaspace_to_space() {
    NormalizerStep step;
    step.kind = NormalizerStep::Kind::kReplace;
    step.pattern = std::string("\xE2\x96\x81");
    step.content = std::string(1, ' ');
    return step;
  }

  Status read_merges() {
    DSPARK_TRY(const auto merges, read(&MetadataView::get_strings, "merges", "an array of strings"));
    if (!merges) {
      return make_error(ErrorCode::kCorrupt, "there is no tokenizer.ggml.merges, expected one with this tokenizer");
    }
    spec_.merges.reserve(merges->size());
    for (const std::string_view merge : *merges) {
      // "left right"; the left side may begin with a space.
      const size_t space = merge.find(' ', 1);
      if (space == std::string_view::npos || space + 1 == merge.size()) {
        return make_error(ErrorCode::kCorrupt, "merge {} is {}, expected two tokens with a space between",
                          spec_.merges.size(), quote(merge));
      }
      MergeRule rule;
      rule.text.reserve(merge.size() - 1);
      rule.text.append(merge.substr(0, space)).append(merge.substr(space + 1));
      rule.left_size = static_cast<uint32_t>(space);
      spec_.merges.push_back(std::move(rule));
    }
    return Ok{};
  }

  Status read_tokens() {
    DSPARK_TRY(const auto tokens, read(&MetadataView::get_strings, "tokens", "an array of strings"));
    DSPARK_TRY(const auto scores, read(&MetadataView::get_floats, "scores", "an array of 32-bit floats"));
    DSPARK_TRY(const auto kinds, read(&MetadataView::get_ints, "token_type", "an array of 32-bit integers"));
    if (!tokens || tokens->empty()) {
      return make_error(ErrorCode::kCorrupt,
                        "there is no tokenizer.ggml.tokens, or it is empty; expected the vocabulary");
    }
    spec_.tokens.assign(tokens->begin(), tokens->end());
    if (scores && spec_.model != Model::kMerges) spec_.scores.assign(scores->begin(), scores->end());
    if (!kinds) {
      spec_.kinds.assign(tokens->size(), TokenKind::kNormal);
      return Ok{};
    }
    for (const int32_t kind : *kinds) {
      if (kind < 0 || kind > 6) {
        return make_error(ErrorCode::kCorrupt, "tokenizer.ggml.token_type has {} for token {}, expected 0 to 6", kind,
                          spec_.kinds.size());
      }
      spec_.kinds.push_back(kind == 0 ? TokenKind::kNormal : static_cast<TokenKind>(kind));
    }
    return Ok{};
  }

  Status read_special_ids() {
    const auto size = static_cast<int32_t>(spec_.tokens.size());
    for (int32_t* id : {&spec_.bos, &spec_.eos, &spec_.unknown, &spec_.pad}) {
      if (*id >= size) *id = -1;  // a default of the kind of tokenizer
    }
    DSPARK_TRY(spec_.bos, id_or("bos_token_id", spec_.bos));
    DSPARK_TRY(spec_.eos, id_or("eos_token_id", spec_.eos));
    DSPARK_TRY(spec_.eot, id_or("eot_token_id", -1));
    DSPARK_TRY(spec_.unknown, id_or("unknown_token_id", spec_.unknown));
    DSPARK_TRY(spec_.pad, id_or("padding_token_id", spec_.pad));
    DSPARK_TRY(const int32_t eom, id_or("eom_token_id", -1));
    if (eom >= 0) spec_.end_of_generation.push_back(eom);
    DSPARK_TRY(spec_.add_bos, flag_or("add_bos_token", spec_.add_bos));
    DSPARK_TRY(spec_.add_eos, flag_or("add_eos_token", spec_.add_eos));
    // A byte-level vocabulary spells everything: its "unknown" token (often the end-of-text token) is never made.
    if (spec_.byte_level) spec_.unknown = -1;
    return Ok{};
  }

  void add_added_tokens() {
    // Phi-3's tokenizer.json lets its control tokens take the white space behind them along; GGUF cannot say so.
    const bool is_phi3 = metadata_.get_string("general.architecture").value_or("") == "phi3";
    for (size_t id = 0; id < spec_.tokens.size(); ++id) {
      const TokenKind kind = spec_.kinds[id];
      const bool special = kind == TokenKind::kControl || kind == TokenKind::kUnknown;
      if (!special && kind != TokenKind::kUserDefined) continue;
      AddedToken token;
      token.id = static_cast<int32_t>(id);
      token.content = spec_.tokens[id];
      token.special = special;
      token.normalized = user_defined_normalized_ && !special;
      token.rstrip = is_phi3 && (special || token.content == "</s>") && token.id != spec_.bos &&
                     token.id != spec_.unknown && token.content != "<|endoftext|>";
      spec_.added_tokens.push_back(std::move(token));
    }
  }

  const MetadataView& metadata_;
  TokenizerSpec spec_;
  bool user_defined_normalized_ = false;
};

}  // namespace

Result<TokenizerSpec> tokenizer_spec_from_gguf(const MetadataView& metadata) { return GgufSpecReader(metadata).run(); }

}  // namespace dspark
