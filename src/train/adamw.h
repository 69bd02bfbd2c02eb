// AdamW (Loshchilov and Hutter, 2019) with clipping of the gradient's norm, and the learning rate over the steps. One
// thread; loops run on the pool.
#pragma once

#include "base/thread_pool.h"
#include "train/parameters.h"

namespace dspark {

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  double clip = 1.0;  // the norm of all gradients together is cut to it; 0: never
};

// Linear from 0 to `peak` over the first `warm_up` steps, then half a cosine down to peak * floor at `steps`, and from
// there on constant. Steps count from 0.
double learning_rate(int64_t step, int64_t warm_up, int64_t steps, double peak, double floor);

// One step, the `step`-th (from 0); returns the norm before clipping. A norm that is not finite changes nothing.
double adamw_step(ThreadPool& pool, const AdamWOptions& options, int64_t step, double rate,
                  DrafterParameters* parameters);

}  // namespace dspark
