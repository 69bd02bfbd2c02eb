// CostModel: how many milliseconds a step takes, by its shape (plan law). A belief that starts from a profile and is
// corrected by every step that runs: the cost of each number of rows, times one fast factor for the mood of the host,
// plus terms for the context that attention walks, for drafting and for the experts touched. No clock, no thread: the
// engine's step thread owns it, the simulator drives it with a virtual clock.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace dspark {

// Drafters that cost time side by side, at most: each is a number below this wherever costs are told apart.
inline constexpr int kCostlyDrafters = 2;
using DraftRows = std::array<int, kCostlyDrafters>;  // positions that each of them computes

// What a step computes.
struct StepShape {
  int rows = 0;         // that go through the target
  int64_t context = 0;  // positions that they look at, summed over the rows
  DraftRows draft_rows = {};
  int experts = 0;  // that are touched, summed over the layers
  int draws = 0;    // tokens that are drawn
};

// One measured step time.
struct CostPoint {
  int rows = 0;
  double ms = 0.0;
};

// What a drafter takes.
struct DraftCost {
  double ms = 0.0;      // once, where it drafts anything
  double row_ms = 0.0;  // a position that it computes
};

// What the costs beyond the rows are believed to be, in milliseconds each.
struct CostTerms {
  double context_ms = 0.0;  // a position that a row looks at
  std::array<DraftCost, kCostlyDrafters> drafts = {};
  double expert_ms = 0.0;  // an expert's weights
  double draw_ms = 0.0;    // a token drawn
};

class CostModel {
 public:
  // Without a profile: a step of one row takes a millisecond and every further one a tenth of that, until steps run.
  CostModel();
  // kInvalidArgument for an empty profile and for rows or times that are not positive and finite.
  static Result<CostModel> create(std::span<const CostPoint> profile, const CostTerms& terms);

  // Whether there was a profile, or a step.
  bool known() const { return known_; }

  // Expected time of a step. Grows with the rows.
  double ms(const StepShape& shape) const;

  // A step of this shape took `actual_ms`. One outlier moves the belief only a little; a size that was believed wrong
  // is right after two or three steps, the host's mood after about five.
  void observe(const StepShape& shape, double actual_ms);

  // What is timed apart: a drafter's drafting of `rows` positions, and drawing so many tokens, took so long.
  void observe_draft(int drafter, int rows, double actual_ms);
  void observe_draws(int draws, double actual_ms);

  // Another drafter has this one's number from now on: its cost is the best guess, and an unsure one.
  void doubt_draft(int drafter);

  // The fast factor: 1 when the host is as it was while profiled, 2 when all takes twice as long.
  double mood() const;

  // Steps in a row that took more than twice, or less than half, of what was expected.
  int steps_off() const { return steps_off_; }

 private:
  // A logarithm and how sure it is.
  struct Belief {
    double mean = 0.0;
    double variance = 0.0;
    bool known = false;   // of a size: profiled or seen
    double factor = 1.0;  // e^mean: plans ask for it thousands of times

    static Belief of_ms(double ms, double variance);  // of a size
    void set(double new_mean);
  };

  // 1, 2, ..., 32, then 40, 48, ..., 512 (kernels work in tiles of rows), then 576, 640, ..., 1152.
  static constexpr int kSingles = 32, kByEight = 60, kBySixtyFour = 10;
  static constexpr int kSizes = kSingles + kByEight + kBySixtyFour;
  static int size_rows(int index);
  static int size_index(int rows);  // of the largest size that is not above

  double sized_ms(int rows) const;  // of the rows alone, in the usual mood
  void refresh();
  void interpolate_unknown(std::span<const int> known);
  double context_part(const StepShape& shape) const;
  double draft_part(int drafter, int rows) const;
  double drafts_part(const DraftRows& rows) const;
  double expert_part(const StepShape& shape) const;
  double draw_part(const StepShape& shape) const;
  void correct(Belief& term, double expected_ms, double actual_ms);

  std::array<Belief, kSizes> sizes_;
  std::array<double, kSizes> table_;  // ms of each size, made of the beliefs by refresh()
  CostTerms terms_;
  Belief mood_, context_, experts_, draws_;
  std::array<Belief, kCostlyDrafters> drafts_;
  int steps_off_ = 0;
  bool known_ = false;
};

}  // namespace dspark
