// See stream_decoder.h.
#include "text/stream_decoder.h"

#include <utility>

#include "text/utf8.h"

namespace dspark {

std::string StreamDecoder::push(int32_t id) {
  if (id < 0 || id >= tokenizer_.size() || (options_.skip_special && tokenizer_.is_special(id))) return {};
  std::string_view piece = tokenizer_.piece(id);
  if (options_.at_text_start && !any_text_ && tokenizer_.strips_leading_space() && piece.starts_with(' ')) {
    piece.remove_prefix(1);
  }
  any_text_ = true;
  pending_ += piece;
  const size_t incomplete = incomplete_utf8_suffix(pending_);
  std::string tail = pending_.substr(pending_.size() - incomplete);
  pending_.resize(pending_.size() - incomplete);
  std::string text = replace_invalid_utf8(pending_);
  pending_ = std::move(tail);
  return text;
}

std::string StreamDecoder::flush() {
  std::string text = replace_invalid_utf8(pending_);
  pending_.clear();
  return text;
}

}  // namespace dspark
