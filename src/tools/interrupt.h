// Ctrl-C as a request instead of an end. Main thread sets it up; any thread may ask.
#pragma once

#include <csignal>

namespace dspark {

// While one lives, SIGINT raises a flag and makes wake_fd() readable instead of ending the process. A second SIGINT
// before the flag is cleared ends the process with code 130: whoever insists gets out. At most one at a time.
class InterruptScope {
 public:
  // `and_terminate`: SIGTERM counts as SIGINT.
  explicit InterruptScope(bool and_terminate = false);
  ~InterruptScope();  // what the signals did before
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  bool requested() const;
  void clear();
  // To poll() beside what is waited for: whichever thread gets the signal, and whenever, the wait ends.
  int wake_fd() const { return pipe_[0]; }

 private:
  struct sigaction before_ {};
  struct sigaction before_terminate_ {};
  const bool and_terminate_;
  int pipe_[2] = {-1, -1};
};

}  // namespace dspark
