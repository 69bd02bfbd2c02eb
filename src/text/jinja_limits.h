// What a template may use up. Templates come with models from strangers: each of these bounds something that a hostile
// one could make endless. Plain data, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dspark::jinja {

struct Limits {
  uint64_t max_steps = 20'000'000;       // nodes evaluated, items visited, and 32-byte pieces of text scanned
  size_t max_text_bytes = 64u << 20;     // the output, and any single string on the way
  size_t max_memory_bytes = 512u << 20;  // all values alive at one time
  int max_depth = 800;                   // nested evaluation, macro recursion included
};

constexpr size_t kMaxSourceBytes = 1u << 20;  // of a template; published ones have at most some 30 KB
constexpr int kMaxNesting = 100;              // of expressions and statements in a template
constexpr int kMaxValueDepth = 200;           // of lists and dicts in each other
constexpr int64_t kMaxRange = 100'000;        // items of range(), as in jinja2's sandbox

// Bytes in use, against a maximum. One render's, not shared between threads.
class Meter {
 public:
  explicit Meter(size_t max_bytes) : max_bytes_(max_bytes) {}
  void take(size_t bytes);  // fails (jinja_error.h) beyond the maximum
  void give_back(size_t bytes) { used_ -= bytes; }

 private:
  size_t max_bytes_;
  size_t used_ = 0;
};

// Holds bytes of a meter for as long as the value that it is part of lives. Without a meter: a constant of the
// template.
class Charge {
 public:
  Charge() = default;
  explicit Charge(Meter* meter) : meter_(meter) {}
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;
  ~Charge() {
    if (meter_ != nullptr) meter_->give_back(bytes_);
  }

  // Takes `bytes` of the meter, once.
  void attach(Meter* meter, size_t bytes) {
    meter_ = meter;
    grow(bytes);
  }
  void grow(size_t bytes) {
    meter_->take(bytes);
    bytes_ += bytes;
  }

 private:
  Meter* meter_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace dspark::jinja
