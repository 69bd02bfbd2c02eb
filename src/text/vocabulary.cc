// See vocabulary.h.
#include "text/vocabulary.h"

#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/printable.h"
#include "text/byte_alphabet.h"

namespace dspark {
namespace {

constexpr size_t kMaxTokens = size_t{1} << 22;
constexpr size_t kMaxTokenBytes = 65'536;
constexpr std::string_view kMetaspace = "\xE2\x96\x81";  // U+2581

// The byte that "<0x41>" names, or -1.
int parse_byte_token(std::string_view text) {
  auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  const int high = digit(text[3]), low = digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

Status check_counts(const TokenizerSpec& spec) {
  if (spec.tokens.empty() || spec.tokens.size() > kMaxTokens) {
    return make_error(ErrorCode::kCorrupt, "the tokenizer has {} tokens, expected 1 to {}", spec.tokens.size(),
                      kMaxTokens);
  }
  const bool scored = spec.model != TokenizerSpec::Model::kMerges;
  if (spec.kinds.size() != spec.tokens.size() || (scored && spec.scores.size() != spec.tokens.size())) {
    return make_error(ErrorCode::kCorrupt,
                      "the tokenizer has {} tokens with {} types and {} scores, expected one of each per token",
                      spec.tokens.size(), spec.kinds.size(), spec.scores.size());
  }
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.tokens[id].size() > kMaxTokenBytes) {
      return make_error(ErrorCode::kCorrupt, "token {} is {} bytes long, expected at most {}", id,
                        spec.tokens[id].size(), kMaxTokenBytes);
    }
    if (scored && !std::isfinite(spec.scores[id])) {
      return make_error(ErrorCode::kCorrupt, "token {} has score {}, expected a finite number", id, spec.scores[id]);
    }
  }
  return Ok{};
}

}  // namespace

bool Vocabulary::append_unspelt(const TokenizerSpec& spec, std::string_view spelling, std::string& out) {
  if (spec.byte_level) return append_spelt_bytes(spelling, out);
  if (!spec.metaspace) {
    out += spelling;
    return true;
  }
  size_t at = 0;
  for (size_t hit; (hit = spelling.find(kMetaspace, at)) != std::string_view::npos; at = hit + kMetaspace.size()) {
    out.append(spelling.substr(at, hit - at)).append(1, ' ');
  }
  out += spelling.substr(at);
  return spelling.find(' ') == std::string_view::npos;
}

Result<std::unique_ptr<const Vocabulary>> Vocabulary::create(const TokenizerSpec& spec) {
  DSPARK_RETURN_IF_ERROR(check_counts(spec));
  std::unique_ptr<Vocabulary> out(new Vocabulary);
  out->kinds_ = spec.kinds;
  out->unknown_ = spec.unknown;
  DSPARK_RETURN_IF_ERROR(out->build_pieces(spec));
  DSPARK_RETURN_IF_ERROR(out->build_table(spec));
  if (spec.byte_level) {
    for (int byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      out->byte_ids_[byte] = out->find(std::string_view(&c, 1));
    }
  }
  return std::unique_ptr<const Vocabulary>(std::move(out));
}

Status Vocabulary::build_pieces(const TokenizerSpec& spec) {
  byte_ids_.fill(-1);
  std::vector<size_t> ends;
  ends.reserve(spec.tokens.size());
  spelt_.resize(spec.tokens.size());
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const std::string& text = spec.tokens[id];
    const TokenKind kind = kinds_[id];
    if (kind == TokenKind::kByte) {
      const int byte = parse_byte_token(text);
      if (byte < 0) {
        return make_error(ErrorCode::kCorrupt, "token {} is {}, expected a byte like '<0x41>' by its type", id,
                          quote(text));
      }
      bytes_ += static_cast<char>(byte);
      if (!spec.byte_level) byte_ids_[byte] = static_cast<int32_t>(id);
    } else if (kind == TokenKind::kNormal || kind == TokenKind::kUnused) {
      spelt_[id] = append_unspelt(spec, text, bytes_);
      if (spec.byte_level && !spelt_[id]) bytes_ += text;
    } else {
      bytes_ += text;
    }
    ends.push_back(bytes_.size());
  }
  size_t begin = 0;
  pieces_.reserve(ends.size());
  for (const size_t end : ends) {
    pieces_.push_back(std::string_view(bytes_).substr(begin, end - begin));
    begin = end;
  }
  return Ok{};
}

Status Vocabulary::build_table(const TokenizerSpec& spec) {
  table_ = std::make_unique<PieceTable>(pieces_, pieces_.size());
  findable_.reserve(pieces_.size());
  auto insert = [&](size_t id) {
    if (pieces_[id].empty()) return true;
    if (!table_->insert(static_cast<int32_t>(id))) return false;
    findable_.push_back(static_cast<int32_t>(id));
    longest_ = std::max(longest_, pieces_[id].size());
    return true;
  };
  for (size_t id = 0; id < pieces_.size(); ++id) {
    if (kinds_[id] == TokenKind::kNormal && spelt_[id] && !insert(id)) {
      return make_error(ErrorCode::kCorrupt, "tokens {} and {} are both {}, expected each token once",
                        table_->find(pieces_[id]), id, quote(spec.tokens[id]));
    }
  }
  // The rest is found where no normal token has the same bytes. Only a list of merges may name control tokens.
  for (size_t id = 0; id < pieces_.size(); ++id) {
    const TokenKind kind = kinds_[id];
    const bool by_merges =
        spec.model == TokenizerSpec::Model::kMerges && (kind == TokenKind::kControl || kind == TokenKind::kUnknown);
    if (kind == TokenKind::kUserDefined || (kind == TokenKind::kUnused && spelt_[id]) || by_merges) insert(id);
  }
  return Ok{};
}

}  // namespace dspark
