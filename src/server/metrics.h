// Metrics: the counters and histograms of the server for Prometheus, under the names that dashboards for vLLM know and
// under dspark_. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/request_record.h"

namespace dspark {

// What the engine knows at this moment.
struct MetricSample {
  std::string name;
  std::string help;
  bool counter = false;  // else a gauge
  double value = 0;
  std::vector<std::pair<std::string, std::string>> labels = {};
  // Of a histogram: how many observations were at most so large, the last bound being infinity; `value` is their sum.
  std::vector<std::pair<double, int64_t>> buckets = {};
};

class Metrics {
 public:
  explicit Metrics(std::string model_name);
  ~Metrics();

  void request_done(const RequestRecord& record);
  void token_gap(double seconds);
  void refused(int status);  // answered without reaching the engine

  // Everything in the text format; samples get the label of the model's name, too.
  std::string text(const std::vector<MetricSample>& engine) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dspark
