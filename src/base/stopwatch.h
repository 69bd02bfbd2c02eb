// How long something took, by the clock that never goes back. Any thread.
#pragma once

#include <chrono>

namespace dspark {

inline double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}
inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return seconds_between(start, std::chrono::steady_clock::now());
}

}  // namespace dspark
