// DraftHealth: whether a request should draft at all, by what became of its drafts (self-healing). Pure; the step
// thread owns one for each request.
#pragma once

namespace dspark {

class DraftHealth {
 public:
  // A step verified `drafted` tokens of the request and accepted `accepted`. With drafted = 0: it decoded one token.
  void step(int drafted, int accepted);

  // False while the request pauses. The pause doubles each time that drafting fails again, and is forgotten once a
  // draft has paid.
  bool may_draft() const { return pause_left_ == 0; }

  // Verifications in a row that brought next to nothing.
  int failures() const { return failures_; }
  int pauses() const { return pauses_; }

 private:
  int failures_ = 0;
  int drafted_ = 0;   // in that row
  int accepted_ = 0;  // in that row
  int pause_left_ = 0;
  int next_pause_ = 8;  // steps
  int pauses_ = 0;
};

// A row of verifications fails with at least so many of them and less than this part accepted.
inline constexpr int kFailedRow = 5;
inline constexpr double kFailedShare = 0.05;
inline constexpr int kLongestPause = 1024;  // steps

}  // namespace dspark
