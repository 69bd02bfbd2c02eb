// The loop that the dspark_*.cc files share. Not for other files.
#pragma once

#include <algorithm>

#include "draft/dspark_pass.h"

namespace dspark {

// fn(row) for each row, a few to a task: so few that waking a worker for them costs more.
template <class Fn>
void DsparkPass::for_each_row(int rows, Fn fn) {
  constexpr int kRowsPerTask = 4;
  pool_.run((rows + kRowsPerTask - 1) / kRowsPerTask, [&](int task) {
    const int end = std::min(rows, (task + 1) * kRowsPerTask);
    for (int row = task * kRowsPerTask; row < end; ++row) fn(row);
  });
}

}  // namespace dspark
