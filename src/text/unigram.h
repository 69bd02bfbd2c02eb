// UnigramModel: the segmentation of a word with the highest sum of token scores (Kudo 2018), as SentencePiece and
// `tokenizers` compute it: Viterbi's algorithm with double sums, earlier tokens win ties. Const after create(): any
// thread.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "text/byte_trie.h"
#include "text/piece_model.h"
#include "text/word_breaks.h"

namespace dspark {

class UnigramModel final : public PieceModel {
 public:
  static Result<std::unique_ptr<const PieceModel>> create(const TokenizerSpec& spec, const Vocabulary& vocabulary);

  void encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const override;
  bool can_cut_before_space(std::string_view piece, size_t at) const override { return breaks_.at(piece, at); }

 private:
  UnigramModel(const TokenizerSpec& spec, const Vocabulary& vocabulary);
  void encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const;
  void append_unknown(std::string_view text, std::vector<int32_t>& reversed) const;

  const Vocabulary& vocabulary_;
  const bool byte_fallback_;
  const bool fuse_unknown_;
  std::vector<double> scores_;
  double unknown_score_ = 0;
  ByteTrie trie_;
  WordBreaks breaks_;
};

}  // namespace dspark
