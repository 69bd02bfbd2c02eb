// TokenizerSpec: everything that defines a tokenizer, as plain data. Made from GGUF metadata or from tokenizer.json,
// checked and turned into tables by Tokenizer::create. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/normalize.h"
#include "text/pretokenize.h"

namespace dspark {

// As tokenizer.ggml.token_type numbers them.
enum class TokenKind : uint8_t {
  kNormal = 1,
  kUnknown = 2,      // stands for what the vocabulary cannot spell
  kControl = 3,      // has a meaning of its own and no text
  kUserDefined = 4,  // its text is always this token
  kUnused = 5,
  kByte = 6,  // "<0x41>": one byte
};

// A token that is found in the text before the vocabulary is applied (`added_tokens` of tokenizer.json).
struct AddedToken {
  int32_t id = 0;
  std::string content;       // what is looked for
  bool special = false;      // a control token: only found where the caller trusts the text
  bool normalized = false;   // looked for in the normalised text
  bool single_word = false;  // not inside a word
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // ... and behind it
};

// Merge rule: `text`, of which the first `left_size` bytes are the left token, may become one token.
struct MergeRule {
  std::string text;
  uint32_t left_size = 0;
};

struct TokenizerSpec {
  enum class Model {
    kMerges,   // byte pair encoding by a list of merges (GPT-2, Llama 3, Gemma 4)
    kScores,   // SentencePiece BPE: merges the pair whose token scores highest (Llama 2, Gemma 3)
    kUnigram,  // the segmentation with the highest sum of scores (T5)
  };
  Model model = Model::kMerges;

  std::vector<std::string> tokens;  // by id
  std::vector<TokenKind> kinds;     // one per token
  std::vector<double> scores;       // one per token: kScores, kUnigram
  std::vector<MergeRule> merges;    // kMerges: most important first

  bool byte_level = false;     // normal tokens and merges are spelt in GPT-2's byte alphabet
  bool metaspace = false;      // normal tokens and merges spell a space as U+2581, and no token has a real one
  bool byte_fallback = false;  // what is no token becomes its kByte tokens
  bool fuse_unknown = false;   // unknown characters in a row are one unknown token
  bool ignore_merges = false;  // a piece that is a token is that token, whatever the merges say

  std::vector<NormalizerStep> normalizer;
  std::vector<PretokenizerStep> pretokenizer;
  std::vector<AddedToken> added_tokens;

  // -1: there is none.
  int32_t bos = -1, eos = -1, eot = -1, unknown = -1, pad = -1;
  std::vector<int32_t> end_of_generation;  // besides eos and eot
  bool add_bos = false;                    // in front of every text
  bool add_eos = false;
  bool strip_leading_space = false;  // decoding: encoding has put a space in front of the text
};

// Read access to a model file's key/value pairs; values stay valid as long as the view. A getter returns nothing where
// the key is absent or has another type: contains() tells which.
class MetadataView {
 public:
  virtual ~MetadataView() = default;
  virtual bool contains(std::string_view key) const = 0;
  virtual std::optional<std::string_view> get_string(std::string_view key) const = 0;
  virtual std::optional<int64_t> get_int(std::string_view key) const = 0;  // any integer type that fits
  virtual std::optional<bool> get_bool(std::string_view key) const = 0;
  virtual std::optional<std::vector<std::string_view>> get_strings(std::string_view key) const = 0;
  virtual std::optional<std::vector<float>> get_floats(std::string_view key) const = 0;
  virtual std::optional<std::vector<int32_t>> get_ints(std::string_view key) const = 0;  // arrays of 32-bit integers
  virtual std::optional<std::string_view> get_bytes(std::string_view key) const = 0;     // arrays of 8-bit integers
};

// From the keys tokenizer.ggml.* (and general.architecture) of a GGUF file.
Result<TokenizerSpec> tokenizer_spec_from_gguf(const MetadataView& metadata);

// From a Hugging Face folder's tokenizer.json; `tokenizer_config_json` may be empty. What the file asks for and this
// library cannot do exactly is refused (kUnsupported), never approximated.
Result<TokenizerSpec> tokenizer_spec_from_json(std::string_view tokenizer_json, std::string_view tokenizer_config_json);

}  // namespace dspark
