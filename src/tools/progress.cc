// See progress.h. One thread at a time.
#include "tools/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

namespace dspark {
namespace {

constexpr auto kQuietStart = std::chrono::milliseconds(500);
constexpr auto kRedraw = std::chrono::milliseconds(100);

std::string amount(ProgressUnit unit, double value) {
  switch (unit) {
    case ProgressUnit::kBytes:
      return value >= 0x1p30 ? fmt::format("{:.2f} GiB", value / 0x1p30) : fmt::format("{:.1f} MiB", value / 0x1p20);
    case ProgressUnit::kTokens:
      return fmt::format("{:.0f} tokens", value);
    case ProgressUnit::kSteps:
      return fmt::format("{:.0f} steps", value);
  }
  return "";
}

std::string time_left(double seconds) {
  const auto s = static_cast<int64_t>(seconds + 0.5);
  if (s < 120) return fmt::format("{} s left", s);
  if (s < 7200) return fmt::format("{} min left", s / 60);
  return fmt::format("{} h {} min left", s / 3600, s % 3600 / 60);
}

}  // namespace

std::string progress_line(ProgressUnit unit, int64_t done, int64_t total, double elapsed_s) {
  const auto part = static_cast<double>(done), whole = static_cast<double>(total);
  std::string line = amount(unit, part);
  if (total > 0) line += fmt::format(" of {}  {:.0f}%", amount(unit, whole), 100 * part / whole);
  if (done > 0 && elapsed_s > 0) {
    line += fmt::format("  {}/s", amount(unit, part / elapsed_s));
    if (total > done) line += fmt::format("  {}", time_left(elapsed_s * (whole - part) / part));
  }
  return line;
}

Progress::Progress(std::string label, ProgressUnit unit, int64_t total)
    : label_(std::move(label)),
      unit_(unit),
      total_(total),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      next_draw_(start_ + kQuietStart) {}

Progress::~Progress() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

void Progress::update(int64_t done) { update(done, total_); }

void Progress::update(int64_t done, int64_t total) {
  total_ = total;
  if (!terminal_) return;
  const auto now = Clock::now();
  if (now < next_draw_) return;
  next_draw_ = now + kRedraw;
  const double elapsed_s = std::chrono::duration<double>(now - start_).count();
  fmt::print(stderr, "\r{}: {}\x1b[K", label_, progress_line(unit_, done, total_, elapsed_s));
  drawn_ = true;
}

ReportProgress show_progress(const InterruptScope& interrupt) {
  struct Line {
    std::string what;
    std::unique_ptr<Progress> progress;
  };
  return [&interrupt, line = std::make_shared<Line>()](std::string_view what, int64_t done, int64_t total) {
    if (line->progress == nullptr || line->what != what) {
      line->what = what;
      line->progress.reset();  // clears its line before the next one is drawn
      line->progress = std::make_unique<Progress>(line->what, ProgressUnit::kBytes, total);
    }
    line->progress->update(done, total);
    return !interrupt.requested();
  };
}

}  // namespace dspark
