// See metrics.h.
#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <map>

namespace dspark {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Histogram;
using Buckets = Histogram::BucketBoundaries;

// vLLM's, so that quantiles of both can be compared.
const Buckets kFirstToken = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
                             1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
const Buckets kTokenGap = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,  0.15, 0.2,  0.3,
                           0.4,   0.5,    0.75,  1.0,  2.5,   5.0,  7.5,   10.0, 20.0, 40.0, 80.0};
const Buckets kRequest = {0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,   15.0,  20.0,
                          30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
const Buckets kTokens = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};

}  // namespace

struct Metrics::Impl {
  explicit Impl(std::string name) : model(std::move(name)), labels({{"model_name", model}}) {}

  Histogram& histogram(const char* name, const char* help, const Buckets& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels, buckets);
  }
  Counter& counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
  }
  Family<Counter>& family(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Labels(labels).Register(registry);
  }

  prometheus::Registry registry;
  std::string model;
  std::map<std::string, std::string> labels;
  Histogram& first_token =
      histogram("vllm:time_to_first_token_seconds", "From arrival to the first token", kFirstToken);
  Histogram& gap = histogram("vllm:inter_token_latency_seconds", "Between tokens of one answer", kTokenGap);
  Histogram& whole = histogram("vllm:e2e_request_latency_seconds", "From arrival to the end", kRequest);
  Histogram& queue = histogram("vllm:request_queue_time_seconds", "From arrival to the first row", kRequest);
  Histogram& prefill =
      histogram("vllm:request_prefill_time_seconds", "From the first row to the first token", kRequest);
  Histogram& decode = histogram("vllm:request_decode_time_seconds", "From the first token to the last", kRequest);
  Histogram& prompt_size = histogram("vllm:request_prompt_tokens", "Tokens of a prompt", kTokens);
  Histogram& output_size = histogram("vllm:request_generation_tokens", "Tokens of an answer", kTokens);
  Counter& prompt_tokens = counter("vllm:prompt_tokens_total", "Tokens of prompts");
  Counter& output_tokens = counter("vllm:generation_tokens_total", "Tokens of answers");
  Counter& cached_tokens = counter("dspark_cached_prompt_tokens_total", "Prompt tokens whose KV was reused");
  Family<Counter>& success = family("vllm:request_success_total", "Answers by how they ended");
  Family<Counter>& requests = family("dspark_requests_total", "Requests by task bucket and HTTP status");
  Family<Counter>& drafted = family("dspark_drafted_tokens_total", "Tokens that a drafter proposed, by task bucket");
  Family<Counter>& accepted = family("dspark_accepted_tokens_total", "Drafted tokens that were right, by task bucket");
  Family<Counter>& refused = family("dspark_refused_requests_total", "Requests refused before the engine, by status");
};

Metrics::Metrics(std::string model_name) : impl_(std::make_unique<Impl>(std::move(model_name))) {}
Metrics::~Metrics() = default;

void Metrics::request_done(const RequestRecord& record) {
  Impl& m = *impl_;
  const RequestStats& stats = record.stats;
  m.requests.Add({{"bucket", record.bucket}, {"status", std::to_string(record.status)}}).Increment();
  if (record.ttft_seconds >= 0) m.first_token.Observe(record.ttft_seconds);
  m.whole.Observe(record.e2e_seconds);
  m.queue.Observe(stats.queue_seconds);
  m.prefill.Observe(stats.prefill_seconds);
  m.decode.Observe(stats.decode_seconds);
  m.prompt_size.Observe(stats.prompt_tokens);
  m.output_size.Observe(stats.output_tokens);
  m.prompt_tokens.Increment(stats.prompt_tokens);
  m.output_tokens.Increment(stats.output_tokens);
  m.cached_tokens.Increment(stats.cached_tokens);
  m.drafted.Add({{"bucket", record.bucket}}).Increment(static_cast<double>(stats.drafted));
  m.accepted.Add({{"bucket", record.bucket}}).Increment(static_cast<double>(stats.accepted));
  for (const std::string& reason : record.finish_reasons) {
    m.success.Add({{"finished_reason", reason}}).Increment();
  }
}

void Metrics::token_gap(double seconds) { impl_->gap.Observe(seconds); }

void Metrics::refused(int status) { impl_->refused.Add({{"status", std::to_string(status)}}).Increment(); }

std::string Metrics::text(const std::vector<MetricSample>& engine) const {
  using prometheus::MetricType;
  std::vector<prometheus::MetricFamily> families = impl_->registry.Collect();
  for (const MetricSample& sample : engine) {
    if (families.empty() || families.back().name != sample.name) {
      const MetricType type = !sample.buckets.empty() ? MetricType::Histogram
                              : sample.counter        ? MetricType::Counter
                                                      : MetricType::Gauge;
      families.push_back({sample.name, sample.help, type, {}});
    }
    prometheus::ClientMetric& metric = families.back().metric.emplace_back();
    metric.label.push_back({"model_name", impl_->model});
    for (const auto& [name, value] : sample.labels) metric.label.push_back({name, value});
    (sample.counter ? metric.counter.value : metric.gauge.value) = sample.value;
    for (const auto& [bound, count] : sample.buckets) {
      metric.histogram.bucket.push_back({static_cast<uint64_t>(count), bound});
      metric.histogram.sample_count = static_cast<uint64_t>(count);
    }
    metric.histogram.sample_sum = sample.value;
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace dspark
