// Vocabulary: the tokens as bytes, and the ids of the pieces that a model may produce. Const after create(): any
// thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/piece_table.h"
#include "text/tokenizer_spec.h"

namespace dspark {

class Vocabulary {
 public:
  // Checks what the spec says of single tokens: counts, kinds, scores, spellings, duplicates.
  static Result<std::unique_ptr<const Vocabulary>> create(const TokenizerSpec& spec);
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  size_t size() const { return pieces_.size(); }
  // The bytes that token `id` adds to a text: the spelling undone (byte alphabet, U+2581, "<0x41>").
  std::string_view piece(int32_t id) const { return pieces_[id]; }
  TokenKind kind(int32_t id) const { return kinds_[id]; }

  // The token that is `piece`, or -1. Byte tokens are not found, nor control tokens unless merges may name them.
  int32_t find(std::string_view piece) const { return piece.size() <= longest_ ? table_->find(piece) : -1; }
  // find() of each of `pieces`, much faster for many.
  void find_all(std::span<const std::string_view> pieces, std::span<int32_t> ids) const {
    table_->find_all(pieces, ids);
  }
  // What find() may return.
  const std::vector<int32_t>& findable() const { return findable_; }

  // The token for one byte: of a byte-level vocabulary, or its byte token; -1 if there is none.
  int32_t byte_id(char byte) const { return byte_ids_[static_cast<uint8_t>(byte)]; }
  int32_t unknown() const { return unknown_; }

  // Appends `spelling` with the spec's spelling of normal tokens undone; false if it is not spelt that way.
  static bool append_unspelt(const TokenizerSpec& spec, std::string_view spelling, std::string& out);

 private:
  Vocabulary() = default;
  Status build_pieces(const TokenizerSpec& spec);
  Status build_table(const TokenizerSpec& spec);

  std::string bytes_;  // of all pieces
  std::vector<std::string_view> pieces_;
  std::vector<TokenKind> kinds_;
  std::vector<bool> spelt_;  // the token's text was a valid spelling, so that a model may produce it
  std::unique_ptr<PieceTable> table_;
  std::vector<int32_t> findable_;
  size_t longest_ = 0;
  std::array<int32_t, 256> byte_ids_;
  int32_t unknown_ = -1;
};

}  // namespace dspark
