// See added_tokens.h.
#include "text/added_tokens.h"

#include <algorithm>
#include <string>

#include "base/printable.h"
#include "text/char_class.h"
#include "text/utf8.h"

namespace dspark {
namespace {

constexpr size_t kMaxContentBytes = 4096;
constexpr size_t kMaxTotalBytes = size_t{1} << 23;

}  // namespace

Result<AddedTokens> AddedTokens::create(const TokenizerSpec& spec, bool normalized, const Normalizer& normalizer) {
  AddedTokens out;
  size_t total = 0;
  for (const AddedToken& token : spec.added_tokens) {
    if (token.id < 0 || static_cast<size_t>(token.id) >= spec.tokens.size()) {
      return make_error(ErrorCode::kCorrupt, "added token {} has id {}, expected 0 to {}", quote(token.content),
                        token.id, spec.tokens.size() - 1);
    }
    if (token.normalized != normalized) continue;
    std::string storage;
    const std::string_view content = normalized ? normalizer.run(token.content, storage) : token.content;
    total += content.size();
    if (content.size() > kMaxContentBytes || total > kMaxTotalBytes) {
      return make_error(ErrorCode::kCorrupt,
                        "added token {} has {} bytes ({} with those before), expected at most {} ({})",
                        quote(token.content), content.size(), total, kMaxContentBytes, kMaxTotalBytes);
    }
    if (content.empty()) continue;  // is found nowhere
    out.trie_.insert(content, static_cast<int32_t>(out.tokens_.size()));
    out.tokens_.push_back(token);
  }
  return out;
}

void AddedTokens::split(std::string_view text, bool with_special, std::vector<Segment>& out) const {
  size_t done = 0;
  for (size_t at = 0; at < text.size() && !tokens_.empty();) {
    if (!trie_.may_begin_with(text[at])) {
      ++at;
      continue;
    }
    size_t end = at;
    int32_t index = -1;
    trie_.prefixes(text.substr(at), [&](size_t length, int32_t id) {
      end = at + length;
      index = id;
    });
    if (index < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[index];
    const bool counts = (with_special || !token.special) && !(token.single_word && is_word_inside(text, at, end));
    size_t begin = at;
    at = end;  // nothing is found inside a match, even one that does not count
    if (!counts) continue;
    if (token.lstrip && begin > done) begin -= trailing_white_space(text.substr(done, begin - done));
    // As in the reference, a token inside white space that was taken along is found all the same.
    if (token.rstrip) end += leading_white_space(text.substr(end));
    if (begin > done) out.push_back({text.substr(done, begin - done), -1});
    out.push_back({text.substr(begin, end - begin), token.id});
    done = end;
  }
  if (done < text.size()) out.push_back({text.substr(done), -1});
}

bool AddedTokens::is_word_inside(std::string_view text, size_t begin, size_t end) const {
  return (begin > 0 && is_word_character(last_code_point(text.substr(0, begin)))) ||
         (end < text.size() && is_word_character(decode_utf8(text.substr(end)).code_point));
}

}  // namespace dspark
