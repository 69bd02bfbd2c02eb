// Byte pair encoding, by a list of merges (BpeModel) or by the scores of the tokens that merging makes
// (ScoredBpeModel, as SentencePiece has it). Const after creation but for the notes on whole pieces, which are atomic:
// any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "text/piece_model.h"
#include "text/word_breaks.h"

namespace dspark {

// Most pieces of real text are a token as a whole, and then one look-up is enough. Whether that token is also what
// merging arrives at is found out when it is first met, and noted here.
class WholePieceNotes {
 public:
  enum Note : uint8_t { kUnknown, kIsWhole, kIsNot };
  explicit WholePieceNotes(size_t tokens) : notes_(new std::atomic<uint8_t>[tokens]()) {}
  Note get(int32_t id) const { return static_cast<Note>(notes_[id].load(std::memory_order_relaxed)); }
  void set(int32_t id, bool is_whole) const {
    notes_[id].store(is_whole ? kIsWhole : kIsNot, std::memory_order_relaxed);
  }

 private:
  std::unique_ptr<std::atomic<uint8_t>[]> notes_;
};

// What both models share: words by WordBreaks, whole tokens at once, else merging.
class MergingModel : public PieceModel {
 public:
  void encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const final;
  bool can_cut_before_space(std::string_view piece, size_t at) const final { return breaks_.at(piece, at); }

 protected:
  MergingModel(const TokenizerSpec& spec, const Vocabulary& vocabulary);

  // Fills scratch.symbols with what `word` becomes; every symbol has an id.
  virtual void merge_word(std::string_view word, Scratch& scratch) const = 0;

  // Appends the byte tokens for `bytes` as symbols, if all are there.
  bool append_byte_symbols(std::string_view bytes, std::vector<Symbol>& symbols) const;

  const Vocabulary& vocabulary_;
  const bool byte_fallback_;
  const bool fuse_unknown_;

 private:
  void encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const;
  WordBreaks breaks_;
  WholePieceNotes notes_;
};

// The (left id, right id) pairs that merge: open addressing, 16 bytes a slot.
class PairTable {
 public:
  explicit PairTable(size_t capacity);
  // A pair that is there already gets the new merge.
  void insert(int32_t left, int32_t right, PairMerge merge);
  void prefetch(int32_t left, int32_t right) const { __builtin_prefetch(&slots_[slot(key(left, right))]); }
  PairMerge find(int32_t left, int32_t right) const {
    const uint64_t wanted = key(left, right);
    for (size_t at = slot(wanted);; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].key == wanted) return slots_[at].merge;
      if (slots_[at].key == kFree) return {};
    }
  }

 private:
  struct Slot {
    uint64_t key = kFree;
    PairMerge merge;
  };
  static constexpr uint64_t kFree = ~uint64_t{0};
  static uint64_t key(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  size_t slot(uint64_t wanted) const { return (wanted * 0x9E3779B97F4A7C15) >> shift_; }

  std::vector<Slot> slots_;
  int shift_;
};

// Merges in the order of a list. Symbols are at first bytes (byte-level vocabularies) or characters.
class BpeModel final : public MergingModel {
 public:
  static Result<std::unique_ptr<const PieceModel>> create(const TokenizerSpec& spec, const Vocabulary& vocabulary);

 private:
  BpeModel(const TokenizerSpec& spec, const Vocabulary& vocabulary);
  Status add_merges(const TokenizerSpec& spec);
  Status add_merges(const TokenizerSpec& spec, size_t first, size_t count);
  void merge_word(std::string_view word, Scratch& scratch) const override;
  void append_bytes(std::string_view word, std::vector<Symbol>& symbols) const;
  void append_characters(std::string_view word, std::vector<Symbol>& symbols) const;

  const bool byte_level_;
  PairTable pairs_;
};

// Merges the neighbours whose joint text is the token of the highest score. Symbols are at first characters; they need
// not be tokens themselves.
class ScoredBpeModel final : public MergingModel {
 public:
  ScoredBpeModel(const TokenizerSpec& spec, const Vocabulary& vocabulary);

 private:
  void merge_word(std::string_view word, Scratch& scratch) const override;
  std::vector<uint32_t> ranks_;  // by id: the higher the score, the lower
};

}  // namespace dspark
