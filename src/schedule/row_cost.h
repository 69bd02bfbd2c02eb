// RowCost: how many milliseconds a step takes by its number of rows, learnt from the steps that were run. No clock, no
// thread: the engine's step thread owns it and tells it what it measured.
#pragma once

#include <array>

namespace dspark {

class RowCost {
 public:
  // A step of `rows` rows took `ms`. A single slow step (the host was busy) moves the estimate only a little.
  void observe(int rows, double ms);

  bool known() const;

  // Of a step of `rows` rows; grows with the rows. Between observed sizes on the line between them, beyond the largest
  // in proportion to the rows, which is never too cheap. 0 where nothing has been observed.
  double ms(int rows) const;

 private:
  // Steps of 2^i to 2^(i+1) - 1 rows: means that forget.
  struct Bucket {
    double rows = 0.0;
    double ms = 0.0;
    int seen = 0;
  };
  std::array<Bucket, 20> buckets_;
};

}  // namespace dspark
