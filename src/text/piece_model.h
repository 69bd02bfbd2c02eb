// PieceModel: turns one piece of text into token ids; one implementation per TokenizerSpec::Model. Const after
// creation: any thread, each with its own Scratch.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer_spec.h"
#include "text/vocabulary.h"

namespace dspark {

// A symbol on its way to become a token: bytes [begin, end) of the piece. `id` is -1 while they are no token.
struct Symbol {
  uint32_t begin = 0;
  uint32_t end = 0;
  int32_t id = -1;
};

// What a pair of neighbouring symbols may become: lowest rank first, leftmost first among equals.
struct PairMerge {
  static constexpr uint32_t kNever = 0xFFFFFFFF;
  uint32_t rank = kNever;
  int32_t id = -1;
};

class PieceModel {
 public:
  // Working memory, reused from piece to piece.
  struct Scratch {
    struct PathNode {
      double score = 0;
      uint32_t begin = 0;  // of the token that ends here
      int32_t id = -1;     // -1: nothing ends here yet
    };
    std::vector<Symbol> symbols;
    std::vector<PairMerge> merges;
    std::vector<uint64_t> heap;
    std::vector<uint32_t> next, previous;
    std::vector<PathNode> path;
  };

  virtual ~PieceModel() = default;

  // Appends the ids of `piece`, which has 1 to 2^31 bytes.
  virtual void encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const = 0;

  // Whether `piece` may be cut between piece[at - 1] and the space piece[at], with the same ids.
  virtual bool can_cut_before_space(std::string_view piece, size_t at) const = 0;
};

// The model of `spec`. `vocabulary` must outlive it.
Result<std::unique_ptr<const PieceModel>> create_piece_model(const TokenizerSpec& spec, const Vocabulary& vocabulary);

}  // namespace dspark
