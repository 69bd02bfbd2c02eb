// See bpe.h.
#include "text/bpe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "base/printable.h"
#include "text/merge.h"
#include "text/unigram.h"
#include "text/utf8.h"

namespace dspark {
namespace {

constexpr size_t kMaxMerges = size_t{1} << 24;

// Larger scores give smaller ranks, equal ones equal ranks.
uint32_t rank_of_score(double score) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(score) + 0.0F);  // -0 becomes 0
  const uint32_t ascending = bits & 0x80000000 ? ~bits : bits | 0x80000000;
  return ~ascending;
}

std::vector<std::string_view> findable_pieces(const Vocabulary& vocabulary) {
  std::vector<std::string_view> pieces;
  pieces.reserve(vocabulary.findable().size());
  for (const int32_t id : vocabulary.findable()) pieces.push_back(vocabulary.piece(id));
  return pieces;
}

}  // namespace

MergingModel::MergingModel(const TokenizerSpec& spec, const Vocabulary& vocabulary)
    : vocabulary_(vocabulary),
      byte_fallback_(spec.byte_fallback),
      fuse_unknown_(spec.fuse_unknown),
      // Byte-level tokens may begin inside a character; their pre-tokenizers make words anyway.
      breaks_(spec.byte_level ? WordBreaks() : WordBreaks(findable_pieces(vocabulary))),
      notes_(vocabulary.size()) {
  if (!spec.ignore_merges) return;
  for (const int32_t id : vocabulary.findable()) {
    if (vocabulary.kind(id) == TokenKind::kNormal) notes_.set(id, true);
  }
}

void MergingModel::encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const {
  breaks_.for_each_word(piece, [&](std::string_view word) { encode_word(word, scratch, out); });
}

void MergingModel::encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const {
  const int32_t whole = vocabulary_.find(word);
  const auto note = whole >= 0 ? notes_.get(whole) : WholePieceNotes::kIsNot;
  if (note == WholePieceNotes::kIsWhole) {
    out.push_back(whole);
    return;
  }
  scratch.symbols.clear();
  merge_word(word, scratch);
  if (note == WholePieceNotes::kUnknown) {
    notes_.set(whole, scratch.symbols.size() == 1 && scratch.symbols[0].id == whole);
  }
  for (const Symbol& symbol : scratch.symbols) out.push_back(symbol.id);
}

bool MergingModel::append_byte_symbols(std::string_view bytes, std::vector<Symbol>& symbols) const {
  for (const char byte : bytes) {
    if (vocabulary_.byte_id(byte) < 0) return false;
  }
  for (const char byte : bytes) symbols.push_back({0, 0, vocabulary_.byte_id(byte)});
  return true;
}

PairTable::PairTable(size_t capacity) {
  size_t slots = 16;
  while (slots < capacity * 2) slots *= 2;
  slots_.resize(slots);
  shift_ = 64 - std::countr_zero(slots);
}

void PairTable::insert(int32_t left, int32_t right, PairMerge merge) {
  const uint64_t wanted = key(left, right);
  size_t at = slot(wanted);
  while (slots_[at].key != wanted && slots_[at].key != kFree) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = {wanted, merge};
}

Result<std::unique_ptr<const PieceModel>> BpeModel::create(const TokenizerSpec& spec, const Vocabulary& vocabulary) {
  if (spec.merges.size() > kMaxMerges) {
    return make_error(ErrorCode::kCorrupt, "the tokenizer has {} merges, expected at most {}", spec.merges.size(),
                      kMaxMerges);
  }
  std::unique_ptr<BpeModel> model(new BpeModel(spec, vocabulary));
  DSPARK_RETURN_IF_ERROR(model->add_merges(spec));
  return std::unique_ptr<const PieceModel>(std::move(model));
}

BpeModel::BpeModel(const TokenizerSpec& spec, const Vocabulary& vocabulary)
    : MergingModel(spec, vocabulary), byte_level_(spec.byte_level), pairs_(spec.merges.size()) {}

Status BpeModel::add_merges(const TokenizerSpec& spec) {
  constexpr size_t kBatch = 1024;  // whose texts stay in the cache
  for (size_t first = 0; first < spec.merges.size(); first += kBatch) {
    DSPARK_RETURN_IF_ERROR(add_merges(spec, first, std::min(kBatch, spec.merges.size() - first)));
  }
  return Ok{};
}

Status BpeModel::add_merges(const TokenizerSpec& spec, size_t first, size_t count) {
  std::string bytes;
  std::vector<std::array<size_t, 3>> bounds;  // of each rule: begin, end of the left side, end
  for (size_t i = 0; i < count; ++i) {
    const MergeRule& rule = spec.merges[first + i];
    const std::string_view left = std::string_view(rule.text).substr(0, rule.left_size);
    const size_t begin = bytes.size();
    const bool left_spelt = Vocabulary::append_unspelt(spec, left, bytes);
    const size_t middle = bytes.size();
    const bool spelt =
        left_spelt && Vocabulary::append_unspelt(spec, std::string_view(rule.text).substr(left.size()), bytes);
    // What is not spelt right is no token: neither is the empty string.
    bounds.push_back(spelt ? std::array{begin, middle, bytes.size()} : std::array{begin, begin, begin});
  }
  std::vector<std::string_view> texts;  // left, right, both of each rule
  for (const auto& [begin, middle, end] : bounds) {
    const std::string_view both = std::string_view(bytes).substr(begin, end - begin);
    texts.insert(texts.end(), {both.substr(0, middle - begin), both.substr(middle - begin), both});
  }
  std::vector<int32_t> ids(texts.size());
  vocabulary_.find_all(texts, ids);
  for (size_t i = 0; i < ids.size(); i += 3) {
    if (std::min({ids[i], ids[i + 1], ids[i + 2]}) < 0) {
      const MergeRule& rule = spec.merges[first + i / 3];
      const size_t left_size = std::min<size_t>(rule.left_size, rule.text.size());
      return make_error(ErrorCode::kCorrupt,
                        "merge {} joins {} and {}, expected that they and what they make are tokens", first + i / 3,
                        quote(rule.text.substr(0, left_size)), quote(rule.text.substr(left_size)));
    }
    pairs_.prefetch(ids[i], ids[i + 1]);
  }
  for (size_t i = 0; i < ids.size(); i += 3) {
    pairs_.insert(ids[i], ids[i + 1], {static_cast<uint32_t>(first + i / 3), ids[i + 2]});
  }
  return Ok{};
}

void BpeModel::merge_word(std::string_view word, Scratch& scratch) const {
  if (byte_level_) {
    append_bytes(word, scratch.symbols);
  } else {
    append_characters(word, scratch.symbols);
  }
  merge_symbols(scratch, [this](const Symbol& left, const Symbol& right) { return pairs_.find(left.id, right.id); });
}

// A byte without a token becomes the unknown token, or else, as in the reference, nothing. A byte that occurs in no
// UTF-8 text, for which some vocabularies have no token, then becomes U+FFFD.
void BpeModel::append_bytes(std::string_view word, std::vector<Symbol>& symbols) const {
  for (const char byte : word) {
    const int32_t id = vocabulary_.byte_id(byte);
    if (id >= 0) {
      symbols.push_back({0, 0, id});
    } else if (vocabulary_.unknown() >= 0) {
      symbols.push_back({0, 0, vocabulary_.unknown()});
    } else if (static_cast<uint8_t>(byte) >= 0xC0) {
      append_byte_symbols("\xEF\xBF\xBD", symbols);
    }
  }
}

// A character without a token becomes its byte tokens, or else the unknown token, or else nothing.
void BpeModel::append_characters(std::string_view word, std::vector<Symbol>& symbols) const {
  bool unknown_pending = false;
  while (!word.empty()) {
    const std::string_view character = word.substr(0, decode_utf8(word).length);
    word.remove_prefix(character.size());
    const int32_t id = vocabulary_.find(character);
    if (id < 0 && byte_fallback_ && append_byte_symbols(character, symbols)) continue;
    if (id < 0 && vocabulary_.unknown() < 0) continue;
    // An unknown character waits for the next one that is known, as in the reference, so that a run can be one token.
    if (unknown_pending && !(id < 0 && fuse_unknown_)) symbols.push_back({0, 0, vocabulary_.unknown()});
    unknown_pending = id < 0;
    if (id >= 0) symbols.push_back({0, 0, id});
  }
  if (unknown_pending) symbols.push_back({0, 0, vocabulary_.unknown()});
}

ScoredBpeModel::ScoredBpeModel(const TokenizerSpec& spec, const Vocabulary& vocabulary)
    : MergingModel(spec, vocabulary) {
  ranks_.reserve(spec.scores.size());
  for (const double score : spec.scores) ranks_.push_back(rank_of_score(score));
}

void ScoredBpeModel::merge_word(std::string_view word, Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  for (uint32_t at = 0; at < word.size();) {
    const uint32_t length = decode_utf8(word.substr(at)).length;
    symbols.push_back({at, at + length, vocabulary_.find(word.substr(at, length))});
    at += length;
  }
  merge_symbols(scratch, [&](const Symbol& left, const Symbol& right) {
    const int32_t id = vocabulary_.find(word.substr(left.begin, right.end - left.begin));
    return id < 0 ? PairMerge{} : PairMerge{ranks_[id], id};
  });
  // What is still no token becomes byte tokens or unknown.
  bool all_known = true;
  for (const Symbol& symbol : symbols) all_known &= symbol.id >= 0;
  if (all_known) return;
  std::vector<Symbol> raw;
  raw.swap(symbols);
  bool after_unknown = false;
  for (const Symbol& symbol : raw) {
    const std::string_view text = word.substr(symbol.begin, symbol.end - symbol.begin);
    if (symbol.id >= 0) {
      symbols.push_back(symbol);
    } else if (!(byte_fallback_ && append_byte_symbols(text, symbols)) && vocabulary_.unknown() >= 0) {
      if (!(after_unknown && fuse_unknown_)) symbols.push_back({0, 0, vocabulary_.unknown()});
      after_unknown = true;
      continue;
    }
    after_unknown = false;
  }
}

Result<std::unique_ptr<const PieceModel>> create_piece_model(const TokenizerSpec& spec, const Vocabulary& vocabulary) {
  switch (spec.model) {
    case TokenizerSpec::Model::kMerges:
      return BpeModel::create(spec, vocabulary);
    case TokenizerSpec::Model::kScores:
      return std::unique_ptr<const PieceModel>(std::make_unique<ScoredBpeModel>(spec, vocabulary));
    case TokenizerSpec::Model::kUnigram:
      return UnigramModel::create(spec, vocabulary);
  }
  return make_error(ErrorCode::kInternal, "tokenizer model {}", static_cast<int>(spec.model));
}

}  // namespace dspark
