// See normalize.h.
#include "text/normalize.h"

#include <utf8proc.h>

#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "text/char_class.h"
#include "text/utf8.h"

namespace dspark {
namespace {

using Kind = NormalizerStep::Kind;

int utf8proc_options(Kind kind) {
  int options = UTF8PROC_STABLE;
  options |= kind == Kind::kNfc || kind == Kind::kNfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (kind == Kind::kNfkc || kind == Kind::kNfkd) options |= UTF8PROC_COMPAT;
  return options;
}

// Appends the normal form of well-formed `text`.
void append_normal_form(std::string_view text, int options, std::string& out) {
  utf8proc_uint8_t* mapped = nullptr;
  const auto length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &mapped, static_cast<utf8proc_option_t>(options));
  DSPARK_CHECK(length >= 0, "utf8proc: {}", utf8proc_errmsg(length));
  out.append(reinterpret_cast<const char*>(mapped), static_cast<size_t>(length));
  std::free(mapped);
}

// An ASCII character never changes or joins what is before it. So each run of other characters is normalised together
// with the one ASCII character before it, and the rest is copied.
void append_normalized(std::string_view text, Kind kind, std::string& out) {
  const int options = utf8proc_options(kind);
  const auto is_ascii = [&](size_t i) { return static_cast<signed char>(text[i]) >= 0; };
  size_t at = 0;
  while (at < text.size()) {
    size_t begin = at;
    while (at < text.size() && is_ascii(at)) ++at;
    const size_t run = at > begin ? at - 1 : at;
    out.append(text.substr(begin, run - begin));
    begin = run;
    while (at < text.size() && !is_ascii(at)) {
      const Utf8Char c = decode_utf8(text.substr(at));
      if (!c.valid) {  // passes unchanged, and nothing joins across it
        append_normal_form(text.substr(begin, at - begin), options, out);
        out.append(text.substr(at, c.length));
        begin = at + c.length;
      }
      at += c.length;
    }
    if (at > begin) append_normal_form(text.substr(begin, at - begin), options, out);
  }
}

// The least code point that the form may change or reorder.
uint32_t first_affected(Kind kind) { return kind == Kind::kNfc ? 0x300 : kind == Kind::kNfd ? 0xC0 : 0xA0; }

bool is_normal_already(std::string_view text, Kind kind) {
  const uint32_t limit = first_affected(kind);
  size_t at = 0;
  while (at < text.size()) {
    if (static_cast<signed char>(text[at]) >= 0) {
      ++at;
      continue;
    }
    const Utf8Char c = decode_utf8(text.substr(at));
    if (c.valid && c.code_point >= limit) return false;
    at += c.length;
  }
  return true;
}

void replace_literal(std::string_view text, std::string_view pattern, std::string_view content, std::string& out) {
  size_t at = 0;
  for (size_t hit; (hit = text.find(pattern, at)) != std::string_view::npos; at = hit + pattern.size()) {
    out.append(text.substr(at, hit - at)).append(content);
  }
  out.append(text.substr(at));
}

void replace_regex(std::string_view text, const SplitRegex& regex, std::string_view content, std::string& out) {
  const RegexShape shape(text);
  SplitRegex::Scratch scratch;
  SplitRegex::Match match;
  size_t done = 0, from = 0;
  while (from <= text.size() && regex.find(shape.view(), from, scratch, &match)) {
    out.append(text.substr(done, match.begin - done)).append(content);
    done = from = match.end;
    if (match.begin == match.end) from += from < text.size() ? decode_utf8(shape.view().substr(from)).length : 1;
  }
  out.append(text.substr(done));
}

// The first grapheme cluster of `text`, in bytes.
size_t first_grapheme(std::string_view text) {
  Utf8Char c = decode_utf8(text);
  size_t bytes = c.length;
  utf8proc_int32_t state = 0;
  while (bytes < text.size()) {
    const Utf8Char next = decode_utf8(text.substr(bytes));
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(c.code_point),
                                         static_cast<utf8proc_int32_t>(next.code_point), &state)) {
      break;
    }
    bytes += next.length;
    c = next;
  }
  return bytes;
}

// As `tokenizers` applies a charsmap: a grapheme cluster of less than 6 bytes that begins with a rule becomes that
// rule's replacement whole; else each of its characters is looked up alone.
void apply_charsmap_by_grapheme(std::string_view text, const Charsmap& charsmap, std::string& out) {
  constexpr size_t kMaxGraphemeBytes = 5;
  while (!text.empty()) {
    const std::string_view grapheme = text.substr(0, first_grapheme(text));
    text.remove_prefix(grapheme.size());
    if (grapheme.size() <= kMaxGraphemeBytes) {
      const Charsmap::Match match = charsmap.shortest(grapheme);
      if (match.length != 0) {
        out.append(match.replacement);
        continue;
      }
    }
    for (size_t at = 0; at < grapheme.size();) {
      const std::string_view character = grapheme.substr(at, decode_utf8(grapheme.substr(at)).length);
      const Charsmap::Match match = charsmap.shortest(character);
      out.append(match.length != 0 ? match.replacement : character);
      at += character.size();
    }
  }
}

// SentencePiece's Normalizer::Normalize, with spaces as spaces.
void apply_sentencepiece(std::string_view text, const NormalizerStep& spec, const Charsmap* charsmap,
                         std::string& out) {
  bool space_before = spec.squeeze_space;  // spaces at the beginning go as well
  std::string body;
  while (!text.empty()) {
    const Charsmap::Match match = charsmap != nullptr ? charsmap->longest(text) : Charsmap::Match{};
    std::string_view piece = match.length != 0 ? match.replacement : text.substr(0, decode_utf8(text).length);
    text.remove_prefix(match.length != 0 ? match.length : piece.size());
    while (space_before && piece.starts_with(' ')) piece.remove_prefix(1);
    if (piece.empty()) continue;
    body.append(piece);
    space_before = spec.squeeze_space && piece.ends_with(' ');
  }
  if (spec.squeeze_space) {
    while (body.ends_with(' ')) body.pop_back();
  }
  if (body.empty()) return;
  if (spec.add_prefix) out += ' ';
  out += body;
}

}  // namespace

Result<Normalizer> Normalizer::create(std::vector<NormalizerStep> steps) {
  constexpr size_t kMaxSteps = 64;
  if (steps.size() > kMaxSteps) {
    return make_error(ErrorCode::kCorrupt, "the normalizer has {} steps, expected at most {}", steps.size(), kMaxSteps);
  }
  Normalizer out;
  for (NormalizerStep& spec : steps) {
    Step step;
    if (spec.kind == Kind::kReplace) {
      if (spec.pattern.empty()) return make_error(ErrorCode::kCorrupt, "a normalizer step replaces an empty pattern");
      if (spec.is_regex) {
        DSPARK_TRY(step.regex, SplitRegex::compile(spec.pattern));
      }
    }
    if (!spec.charsmap.empty()) {
      DSPARK_TRY(step.charsmap, Charsmap::parse(std::move(spec.charsmap)));
    }
    step.spec = std::move(spec);
    out.steps_.push_back(std::move(step));
  }
  return out;
}

std::string_view Normalizer::run(std::string_view text, std::string& storage) const {
  std::string next;
  for (const Step& step : steps_) {
    next.clear();
    switch (step.spec.kind) {
      case Kind::kNfc:
      case Kind::kNfd:
      case Kind::kNfkc:
      case Kind::kNfkd:
        if (is_normal_already(text, step.spec.kind)) continue;
        append_normalized(text, step.spec.kind, next);
        break;
      case Kind::kPrepend:
        if (text.empty()) continue;
        next.append(step.spec.content).append(text);
        break;
      case Kind::kReplace:
        if (step.regex) {
          replace_regex(text, *step.regex, step.spec.content, next);
        } else {
          if (text.find(step.spec.pattern) == std::string_view::npos) continue;
          replace_literal(text, step.spec.pattern, step.spec.content, next);
        }
        break;
      case Kind::kStrip:
        if (step.spec.strip_left) text.remove_prefix(leading_white_space(text));
        if (step.spec.strip_right) text.remove_suffix(trailing_white_space(text));
        continue;
      case Kind::kCharsmap:
        if (!step.charsmap) continue;
        apply_charsmap_by_grapheme(text, *step.charsmap, next);
        break;
      case Kind::kSentencePiece:
        apply_sentencepiece(text, step.spec, step.charsmap ? &*step.charsmap : nullptr, next);
        break;
    }
    storage.swap(next);  // `text` may be a view of the old storage, which `next` keeps until here
    text = storage;
  }
  return text;
}

}  // namespace dspark
