// Loops over rows, and sums over rows, for the parts of the trainer. Results do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/thread_pool.h"

namespace dspark {

// fn(row) for each row, several to a task.
template <class Fn>
void for_each_row(ThreadPool& pool, int64_t rows, Fn&& fn) {
  constexpr int64_t kRows = 16;
  pool.run(static_cast<int>((rows + kRows - 1) / kRows), [&](int task) {
    for (int64_t row = task * kRows; row < std::min(rows, (task + 1) * kRows); ++row) fn(row);
  });
}

// sum[j] += value(row, j) over all rows in ascending order, for each j < n.
template <class Fn>
void add_over_rows(ThreadPool& pool, int64_t rows, int64_t n, float* sum, Fn&& value) {
  constexpr int64_t kColumns = 64;
  pool.run(static_cast<int>((n + kColumns - 1) / kColumns), [&](int task) {
    const int64_t first = task * kColumns, end = std::min(n, first + kColumns);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t j = first; j < end; ++j) sum[j] += value(row, j);
    }
  });
}

}  // namespace dspark
