// See split_regex.h.
#include "text/split_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <bitset>
#include <utility>

#include "base/check.h"
#include "base/printable.h"
#include "text/utf8.h"

namespace dspark {
namespace {

// Backtracking steps and KiB of heap for one match. The published patterns need a handful of steps per byte.
constexpr uint32_t kMatchLimit = 20'000'000;
constexpr uint32_t kHeapLimitKib = 64 * 1024;

// Bytes that are not UTF-8 count as control characters: no letter, number, mark, punctuation, symbol or space.
constexpr char kInvalidByteShape = '\x01';

struct ShapeRange {
  uint32_t first, last, stand_in;
};
constexpr ShapeRange kShapeRanges[] = {
#include "text/regex_shapes.inc"
};

// Which blocks of 256 code points hold any range, so that most text never searches the table.
const std::bitset<0x1100>& shape_blocks() {
  static const auto blocks = [] {
    std::bitset<0x1100> bits;
    for (const ShapeRange& range : kShapeRanges) {
      for (uint32_t block = range.first >> 8; block <= range.last >> 8; ++block) bits.set(block);
    }
    return bits;
  }();
  return blocks;
}

uint32_t shape_of(uint32_t code_point) {
  if (!shape_blocks()[code_point >> 8]) return code_point;
  const auto* range = std::lower_bound(std::begin(kShapeRanges), std::end(kShapeRanges), code_point,
                                       [](const ShapeRange& r, uint32_t c) { return r.last < c; });
  const bool inside = range != std::end(kShapeRanges) && range->first <= code_point;
  return inside ? range->stand_in : code_point;
}

}  // namespace

SplitRegex::Scratch::Scratch() {
  match_data_ = pcre2_match_data_create(1, nullptr);
  auto* context = pcre2_match_context_create(nullptr);
  DSPARK_CHECK(match_data_ != nullptr && context != nullptr, "out of memory");
  pcre2_set_match_limit(context, kMatchLimit);
  pcre2_set_heap_limit(context, kHeapLimitKib);
  context_ = context;
}

SplitRegex::Scratch::~Scratch() {
  pcre2_match_data_free(static_cast<pcre2_match_data*>(match_data_));
  pcre2_match_context_free(static_cast<pcre2_match_context*>(context_));
}

Result<SplitRegex> SplitRegex::compile(std::string_view oniguruma_pattern) {
  DSPARK_TRY(const std::string pattern, pcre2_pattern(oniguruma_pattern));
  int code = 0;
  PCRE2_SIZE offset = 0;
  // PCRE2_MULTILINE: in Ruby syntax ^ and $ are always the ends of a line. PCRE2_UTF without a check of each subject:
  // shapes are well-formed.
  auto* compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code, &offset, nullptr);
  if (compiled == nullptr) {
    PCRE2_UCHAR message[128];
    pcre2_get_error_message(code, message, sizeof(message));
    return make_error(ErrorCode::kCorrupt, "pre-tokenizer pattern {} is no regular expression: {} at byte {}",
                      quote(oniguruma_pattern), reinterpret_cast<const char*>(message), offset);
  }
  // Without JIT support (or memory for it) pcre2_match interprets: slower, same matches.
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
  return SplitRegex(compiled);
}

SplitRegex::~SplitRegex() { pcre2_code_free(static_cast<pcre2_code*>(code_)); }
SplitRegex::SplitRegex(SplitRegex&& other) noexcept : code_(std::exchange(other.code_, nullptr)) {}
SplitRegex& SplitRegex::operator=(SplitRegex&& other) noexcept {
  std::swap(code_, other.code_);
  return *this;
}

bool SplitRegex::find(std::string_view shape, size_t from, Scratch& scratch, Match* match) const {
  auto* match_data = static_cast<pcre2_match_data*>(scratch.match_data_);
  auto run = [&](uint32_t options) {
    return pcre2_match(static_cast<const pcre2_code*>(code_), reinterpret_cast<PCRE2_SPTR>(shape.data()), shape.size(),
                       from, PCRE2_NO_UTF_CHECK | options, match_data,
                       static_cast<pcre2_match_context*>(scratch.context_));
  };
  int count = run(0);
  if (count == PCRE2_ERROR_JIT_STACKLIMIT) count = run(PCRE2_NO_JIT);
  if (count < 0) return false;
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(match_data);
  *match = {offsets[0], offsets[1]};
  return true;
}

RegexShape::RegexShape(std::string_view text) : text_(text) {
  const auto is_ascii = [](char c) { return static_cast<signed char>(c) >= 0; };
  size_t at = 0;
  while (true) {
    while (at < text.size() && is_ascii(text[at])) ++at;
    if (at == text.size()) return;
    const Utf8Char c = decode_utf8(text.substr(at));
    const uint32_t shape = c.valid ? shape_of(c.code_point) : 0;
    if (!c.valid || shape != c.code_point) {
      if (!copied_) copy_ = text;
      copied_ = true;
      std::string stand_in;
      if (c.valid) append_utf8(stand_in, shape);
      if (!c.valid) stand_in.assign(c.length, kInvalidByteShape);
      copy_.replace(at, c.length, stand_in);
    }
    at += c.length;
  }
}

}  // namespace dspark
