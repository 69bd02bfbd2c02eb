// DraftHealth: whether a request should draft at all, by what became of its drafts (self-healing). Pure; the step
// thread owns one for each request.
#pragma once

namespace dspark {

class DraftHealth {
 public:
  // A step verified `drafted` tokens of the request and accepted `accepted`; the first was foretold to survive with
  // this chance. With drafted = 0: it decoded one token.
  void step(int drafted, int accepted, double chance);

  // False while the request pauses. The pause doubles each time that drafting fails again, and is forgotten once a
  // draft has paid.
  bool may_draft() const { return pause_left_ == 0; }

  // Verifications in a row that brought next to nothing.
  int failures() const { return failures_; }
  int pauses() const { return pauses_; }

 private:
  int failures_ = 0;
  int drafted_ = 0;    // in that row
  int accepted_ = 0;   // in that row
  double luck_ = 1.0;  // the chance that so much fails if drafts are as good as they say
  int pause_left_ = 0;
  int next_pause_ = 8;  // steps
  int pauses_ = 0;
};

// A row of verifications fails with at least so many of them and less than this part accepted, where it was not to be
// expected: tokens of which half survive fail five times in a row in every second answer.
inline constexpr int kFailedRow = 5;
inline constexpr double kFailedShare = 0.05;
inline constexpr double kBadLuck = 0.01;
inline constexpr int kLongestPause = 1024;  // steps

}  // namespace dspark
