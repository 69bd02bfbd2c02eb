// See unigram.h.
#include "text/unigram.h"

#include <algorithm>
#include <limits>

#include "text/utf8.h"

namespace dspark {
namespace {

// How far below the lowest score an unknown character is.
constexpr double kUnknownPenalty = 10.0;
constexpr size_t kMaxTrieBytes = size_t{1} << 24;

}  // namespace

Result<std::unique_ptr<const PieceModel>> UnigramModel::create(const TokenizerSpec& spec,
                                                               const Vocabulary& vocabulary) {
  size_t bytes = 0;
  for (const int32_t id : vocabulary.findable()) bytes += vocabulary.piece(id).size();
  if (bytes >= kMaxTrieBytes) {
    return make_error(ErrorCode::kUnsupported, "the unigram vocabulary has {} bytes of text, expected less than {}",
                      bytes, kMaxTrieBytes);
  }
  if (spec.unknown < 0) {
    return make_error(ErrorCode::kCorrupt, "the unigram vocabulary has no unknown token, expected one");
  }
  return std::unique_ptr<const PieceModel>(new UnigramModel(spec, vocabulary));
}

UnigramModel::UnigramModel(const TokenizerSpec& spec, const Vocabulary& vocabulary)
    : vocabulary_(vocabulary),
      byte_fallback_(spec.byte_fallback),
      fuse_unknown_(spec.fuse_unknown),
      scores_(spec.scores),
      trie_(vocabulary.size() * 4) {
  double lowest = std::numeric_limits<double>::max();
  std::vector<std::string_view> pieces;
  for (const int32_t id : vocabulary.findable()) {
    trie_.insert(vocabulary.piece(id), id);
    pieces.push_back(vocabulary.piece(id));
  }
  for (size_t id = 0; id < scores_.size(); ++id) {
    if (spec.kinds[id] == TokenKind::kNormal) lowest = std::min(lowest, scores_[id]);
  }
  unknown_score_ = lowest - kUnknownPenalty;
  breaks_ = WordBreaks(pieces);
}

void UnigramModel::encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const {
  breaks_.for_each_word(piece, [&](std::string_view word) { encode_word(word, scratch, out); });
}

void UnigramModel::encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const {
  auto& path = scratch.path;  // path[end]: the best way to reach byte `end`
  path.assign(word.size() + 1, {});
  for (size_t begin = 0; begin < word.size();) {
    const size_t character = decode_utf8(word.substr(begin)).length;
    const double score_here = path[begin].score;
    bool covers_character = false;
    auto offer = [&](size_t length, int32_t id, double score) {
      auto& node = path[begin + length];
      if (node.id >= 0 && score_here + score <= node.score) return;
      node = {score_here + score, static_cast<uint32_t>(begin), id};
    };
    trie_.prefixes(word.substr(begin), [&](size_t length, int32_t id) {
      offer(length, id, scores_[id]);
      covers_character |= length == character;
    });
    if (!covers_character) offer(character, vocabulary_.unknown(), unknown_score_);
    begin += character;
  }
  const auto first = static_cast<ptrdiff_t>(out.size());
  for (size_t end = word.size(); end > 0;) {
    const auto& node = path[end];
    size_t begin = node.begin;
    if (node.id == vocabulary_.unknown()) {
      while (fuse_unknown_ && begin > 0 && path[begin].id == node.id) begin = path[begin].begin;
      append_unknown(word.substr(begin, end - begin), out);
    } else {
      out.push_back(node.id);
    }
    end = begin;
  }
  std::reverse(out.begin() + first, out.end());
}

// The byte tokens of `text`, last first, or the unknown token.
void UnigramModel::append_unknown(std::string_view text, std::vector<int32_t>& reversed) const {
  const size_t before = reversed.size();
  for (size_t i = text.size(); byte_fallback_ && i > 0; --i) {
    const int32_t id = vocabulary_.byte_id(text[i - 1]);
    if (id < 0) {
      reversed.resize(before);
      break;
    }
    reversed.push_back(id);
  }
  if (reversed.size() == before) reversed.push_back(vocabulary_.unknown());
}

}  // namespace dspark
