// Tokenizer: text to token ids and back, with the ids of the reference implementations (docs/tokenizers.md).
// Immutable after create(): any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer_spec.h"

namespace dspark {

struct EncodeOptions {
  bool add_special = true;         // begin- and end-of-text tokens where the model's metadata asks for them
  bool parse_special = true;       // control tokens in the text are those tokens; false for text that is not trusted
  int threads = 1;                 // long texts are encoded by up to so many threads; the ids do not depend on it
  size_t min_part_bytes = 65'536;  // ... each taking at least so much text at a time
};

class Tokenizer {
 public:
  // Builds the tables; kCorrupt or kUnsupported names what is wrong with `spec`.
  static Result<Tokenizer> create(TokenizerSpec spec);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // The ids of `text`, in O(n log n) for any text. Bytes that are not UTF-8 are kept where the vocabulary has tokens
  // for bytes, else they become the unknown token (or U+FFFD, or nothing).
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The bytes that the ids stand for; not UTF-8 where they are not. Control and unknown tokens give nothing if
  // `skip_special`, else their text; ids out of range give nothing.
  std::string decode(std::span<const int32_t> ids, bool skip_special = true) const;

  // The bytes that a valid id stands for.
  std::string_view piece(int32_t id) const;
  TokenKind kind(int32_t id) const;
  // Control or unknown.
  bool is_special(int32_t id) const;
  // Whether generation ends with this token.
  bool is_end_of_generation(int32_t id) const;
  // Whether decoding from the beginning of a text drops one leading space.
  bool strips_leading_space() const;

  int32_t size() const;  // of the vocabulary; valid ids are 0 to size() - 1
  // -1: there is none.
  int32_t bos() const;
  int32_t eos() const;
  int32_t eot() const;
  int32_t unknown() const;
  int32_t pad() const;
  bool adds_bos() const;
  bool adds_eos() const;
  // The id of the added or control token with this text, or -1.
  int32_t find_special(std::string_view text) const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace dspark
