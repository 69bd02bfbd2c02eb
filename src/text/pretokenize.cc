// See pretokenize.h.
#include "text/pretokenize.h"

#include <utility>

#include "text/byte_alphabet.h"
#include "text/pretokenize_patterns.h"
#include "text/utf8.h"

namespace dspark {
namespace {

using Behavior = PretokenizerStep::Behavior;
using Kind = PretokenizerStep::Kind;

// Joins the segments of a split (matches and what is between them, in order) to pieces as `behavior` says. Emits
// ranges of bytes, empty ones too.
template <class Emit>
class SegmentJoiner {
 public:
  SegmentJoiner(Behavior behavior, Emit emit) : behavior_(behavior), emit_(emit) {}

  void add(size_t begin, size_t end, bool is_match) {
    switch (behavior_) {
      case Behavior::kIsolated:
        emit_(begin, end);
        return;
      case Behavior::kRemoved:
        if (!is_match) emit_(begin, end);
        return;
      case Behavior::kMergedWithPrevious:
        hold(begin, end, is_match, /*join=*/is_match && !held_is_match_);
        return;
      case Behavior::kMergedWithNext:
        hold(begin, end, is_match, /*join=*/held_is_match_ && !is_match);
        return;
      case Behavior::kContiguous:
        hold(begin, end, is_match, /*join=*/is_match == held_is_match_);
        return;
    }
  }

  void finish() {
    if (holding_) emit_(held_begin_, held_end_);
  }

 private:
  void hold(size_t begin, size_t end, bool is_match, bool join) {
    if (!(holding_ && join)) {
      finish();
      held_begin_ = begin;
      holding_ = true;
    }
    held_end_ = end;
    held_is_match_ = is_match;
  }

  Behavior behavior_;
  Emit emit_;
  bool holding_ = false;
  bool held_is_match_ = false;
  size_t held_begin_ = 0;
  size_t held_end_ = 0;
};

constexpr std::string_view kMetaspace = "\xE2\x96\x81";  // U+2581

std::string with_spaces(std::string_view text) {
  std::string out;
  for (size_t at = 0, hit; at < text.size(); at = hit + kMetaspace.size()) {
    hit = text.find(kMetaspace, at);
    out.append(text.substr(at, hit - at));
    if (hit == std::string_view::npos) break;
    out += ' ';
  }
  return out;
}

}  // namespace

Result<Pretokenizer> Pretokenizer::create(std::vector<PretokenizerStep> steps) {
  constexpr size_t kMaxSteps = 64;
  if (steps.size() > kMaxSteps) {
    return make_error(ErrorCode::kCorrupt, "the pre-tokenizer has {} steps, expected at most {}", steps.size(),
                      kMaxSteps);
  }
  Pretokenizer out;
  bool all_known = true, in_byte_alphabet = false;
  for (PretokenizerStep& step : steps) {
    std::optional<SplitRegex> regex;
    if (in_byte_alphabet && (step.kind != Kind::kSplit || step.behavior == Behavior::kRemoved)) {
      return make_error(ErrorCode::kUnsupported,
                        "the pre-tokenizer goes on behind its ByteLevel step with one that adds or removes text, "
                        "expected splits that keep all of it");
    }
    if (step.kind == Kind::kByteAlphabet) in_byte_alphabet = true;
    if (step.kind == Kind::kSplit) {
      DSPARK_TRY(regex, SplitRegex::compile(step.pattern));
      const PatternTraits traits = pattern_traits(step.pattern);
      all_known = all_known && (in_byte_alphabet ? traits.only_digits : traits.never_joins_letter_and_space);
      out.ends_words_before_space_ |= !in_byte_alphabet && traits.ends_words_before_space;
    }
    out.steps_.push_back({std::move(step), std::move(regex)});
  }
  out.ends_words_before_space_ &= all_known;
  // The byte alphabet changes what later patterns see; without any it changes nothing.
  if (!out.steps_.empty() && out.steps_.back().spec.kind == Kind::kByteAlphabet) out.steps_.pop_back();
  return out;
}

void Pretokenizer::run(std::string_view text, bool at_text_start, SplitRegex::Scratch& scratch,
                       const Sink& sink) const {
  if (steps_.empty()) {
    if (!text.empty()) sink(text);
    return;
  }
  const RegexShape shape(text);
  run_from(0, {text, shape.view(), at_text_start}, scratch, sink);
}

void Pretokenizer::run_from(size_t step, const Piece& piece, SplitRegex::Scratch& scratch, const Sink& sink) const {
  if (piece.text.empty()) return;
  if (step == steps_.size()) return sink(piece.text);
  const PretokenizerStep& spec = steps_[step].spec;
  if (spec.kind == Kind::kSplit) return split(step, piece, scratch, sink);
  if (spec.kind == Kind::kByteAlphabet) return run_in_byte_alphabet(step, piece, scratch, sink);
  std::string text, shape;
  Piece changed = piece;
  if (spec.kind == Kind::kMetaspace && piece.text.find(kMetaspace) != std::string_view::npos) {
    text = with_spaces(piece.text);
    shape = with_spaces(piece.shape);
    changed = {text, shape, piece.at_text_start};
  }
  const bool wanted = spec.prefix == PretokenizerStep::Prefix::kAlways ||
                      (spec.prefix == PretokenizerStep::Prefix::kTextStart && piece.at_text_start);
  if (wanted && changed.text.front() != ' ') {
    text = std::string(" ").append(changed.text);
    shape = std::string(" ").append(changed.shape);
    changed = {text, shape, piece.at_text_start};
  }
  run_from(step + 1, changed, scratch, sink);
}

void Pretokenizer::split(size_t step, const Piece& piece, SplitRegex::Scratch& scratch, const Sink& sink) const {
  const PretokenizerStep& spec = steps_[step].spec;
  const SplitRegex& regex = *steps_[step].regex;
  SegmentJoiner joiner(spec.behavior, [&](size_t begin, size_t end) {
    const Piece part{piece.text.substr(begin, end - begin), piece.shape.substr(begin, end - begin),
                     piece.at_text_start && begin == 0};
    run_from(step + 1, part, scratch, sink);
  });
  size_t done = 0, from = 0;  // segments are emitted up to `done`; the next match may begin at `from`
  bool any_match = false;
  SplitRegex::Match match;
  while (from <= piece.shape.size() && regex.find(piece.shape, from, scratch, &match)) {
    const bool is_empty = match.begin == match.end;
    if (is_empty && any_match && match.begin == done) {  // an empty match right behind a match does not count
      from = match.end + (match.end < piece.shape.size() ? decode_utf8(piece.shape.substr(match.end)).length : 1);
      continue;
    }
    if (match.begin > done) joiner.add(done, match.begin, spec.invert);
    joiner.add(match.begin, match.end, !spec.invert);
    any_match = true;
    done = from = match.end;
  }
  if (done < piece.text.size()) joiner.add(done, piece.text.size(), spec.invert);
  joiner.finish();
}

void Pretokenizer::run_in_byte_alphabet(size_t step, const Piece& piece, SplitRegex::Scratch& scratch,
                                        const Sink& sink) const {
  std::string spelt;
  for (const char c : piece.text) append_utf8(spelt, byte_alphabet_code_point(static_cast<uint8_t>(c)));
  size_t done = 0;
  run_from(step + 1, {spelt, spelt, piece.at_text_start}, scratch, [&](std::string_view part) {
    size_t bytes = 0;  // one per character
    for (const char c : part) bytes += (static_cast<uint8_t>(c) & 0xC0) != 0x80;
    sink(piece.text.substr(done, bytes));
    done += bytes;
  });
}

}  // namespace dspark
