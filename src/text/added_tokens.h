// AddedTokens: finds the tokens that stand for a fixed text (control tokens, user-defined ones) before the vocabulary
// is applied, as `added_tokens` of tokenizer.json define it: the leftmost and there the longest content wins. Const
// after create(): any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/byte_trie.h"
#include "text/normalize.h"
#include "text/tokenizer_spec.h"

namespace dspark {

class AddedTokens {
 public:
  // A stretch of text: an added token, or (id -1) text for the vocabulary.
  struct Segment {
    std::string_view text;
    int32_t id = -1;
  };

  // Those tokens of `spec` that are looked for in the normalised text, or those that are looked for before. Contents
  // of the former are normalised too.
  static Result<AddedTokens> create(const TokenizerSpec& spec, bool normalized, const Normalizer& normalizer);

  // Appends the segments of `text`, in order. `with_special`: whether control tokens count.
  void split(std::string_view text, bool with_special, std::vector<Segment>& out) const;

  bool empty() const { return tokens_.empty(); }

 private:
  bool is_word_inside(std::string_view text, size_t begin, size_t end) const;

  std::vector<AddedToken> tokens_;
  ByteTrie trie_;  // ids are indices into tokens_
};

}  // namespace dspark
