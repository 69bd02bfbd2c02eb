// See bench.h.
#include "engine/bench.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <span>

#include "base/median.h"
#include "engine/request_stream.h"
#include "kernels/kernel_bench.h"

namespace dspark {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmUpSteps = 3;  // before decoding is measured

// Any tokens do: the time of a step does not depend on them.
int32_t some_token(const Runner& runner, int64_t i) {
  return static_cast<int32_t>((i * 7919 + 13) % runner.config().vocab);
}

Status fill(Runner& runner, SequenceKv& sequence, int tokens, int chunk) {
  std::vector<RunRow> rows;
  for (int first = 0; first < tokens; first += chunk) {
    rows.clear();
    for (int i = first; i < std::min(tokens, first + chunk); ++i) {
      rows.push_back({&sequence, some_token(runner, i), false});
    }
    rows.back().wants_logits = first + chunk >= tokens;
    DSPARK_TRY([[maybe_unused]] const StepOutput out, runner.run(rows));
  }
  return Ok{};
}

// Whether `sequences` of so many positions each are within the model's context and the KV memory.
Status check_positions(Runner& runner, int sequences, int64_t positions) {
  if (positions > runner.config().context) {
    return make_error(ErrorCode::kInvalidArgument,
                      "the measurement needs {} positions, this model has {}; measure a shorter prompt or fewer steps",
                      positions, runner.config().context);
  }
  const int64_t blocks = sequences * ((positions + kTilePositions - 1) / kTilePositions);
  if (blocks > runner.kv().capacity_blocks()) {
    return make_error(ErrorCode::kExhausted,
                      "the measurement needs {} bytes of KV memory, there are {}; see --kv-memory",
                      blocks * runner.kv().block_bytes(), runner.kv().capacity_blocks() * runner.kv().block_bytes());
  }
  return Ok{};
}

double run_ms(Runner& runner, std::span<const RunRow> rows, Status* status) {
  const auto start = Clock::now();
  if (auto out = runner.run(rows); !out.ok()) *status = out.error();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Bytes that a step over `positions` positions of KV reads. Of the embedding only a row is read, unless it is the head.
double bytes_read(const Runner& runner, int64_t positions) {
  const Model& model = runner.model();
  const bool tied = model.weights().head.empty();
  const double weights = static_cast<double>(model.weights().bytes() - (tied ? 0 : model.weights().embedding.bytes()));
  return weights +
         static_cast<double>(positions) * static_cast<double>(model.kv_block_bytes(runner.kv_type())) / kTilePositions;
}

std::vector<SequenceKv> new_sequences(Runner& runner, int count) {
  std::vector<SequenceKv> out;
  for (int i = 0; i < count; ++i) out.push_back(runner.new_sequence());
  return out;
}

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

Result<DecodeBench> bench_decode(Runner& runner, int batch, int prompt_tokens, int steps) {
  DSPARK_RETURN_IF_ERROR(check_positions(runner, batch, int64_t{prompt_tokens} + kWarmUpSteps + steps));
  std::vector<SequenceKv> sequences = new_sequences(runner, batch);
  for (SequenceKv& sequence : sequences) DSPARK_RETURN_IF_ERROR(fill(runner, sequence, prompt_tokens, 512));
  std::vector<RunRow> rows;
  for (size_t i = 0; i < sequences.size(); ++i) {
    rows.push_back({&sequences[i], some_token(runner, static_cast<int64_t>(i)), true});
  }
  Status status = Ok{};
  for (int i = 0; i < kWarmUpSteps; ++i) run_ms(runner, rows, &status);
  runner.step().set_timed(true);
  runner.step().take_phase_seconds();
  std::vector<double> times;
  BandwidthMeter memory(runner.pool(), runner.model().weights().bytes());
  for (int i = 0; i < steps; ++i) {
    if (i % ((steps + 2) / 3) == 0) memory.sample();
    times.push_back(run_ms(runner, rows, &status));
  }
  runner.step().set_timed(false);
  DecodeBench out;
  out.phase_ms = runner.step().take_phase_seconds();
  for (double& phase : out.phase_ms) phase *= 1e3 / steps;
  DSPARK_RETURN_IF_ERROR(status);
  out.batch = batch;
  out.prompt_tokens = prompt_tokens;
  out.steps = steps;
  out.step_ms = median(times);
  out.step_ms_mean = mean(times);
  out.step_ms_min = *std::min_element(times.begin(), times.end());
  out.step_ms_max = *std::max_element(times.begin(), times.end());
  out.tokens_per_second = batch / out.step_ms * 1e3;
  out.bytes_per_step = bytes_read(runner, int64_t{batch} * (prompt_tokens + kWarmUpSteps + steps / 2));
  out.bandwidth_bytes_per_second = memory.best();
  out.bandwidth_fraction = out.bytes_per_step / (out.step_ms * 1e-3) / out.bandwidth_bytes_per_second;
  return out;
}

Result<PrefillBench> bench_prefill(Runner& runner, int tokens, int chunk, int repeats) {
  DSPARK_RETURN_IF_ERROR(check_positions(runner, 1, tokens));
  SequenceKv sequence = runner.new_sequence();
  DSPARK_RETURN_IF_ERROR(fill(runner, sequence, std::min(tokens, 64), chunk));
  DSPARK_RETURN_IF_ERROR(sequence.truncate(0));
  runner.step().set_timed(true);
  runner.step().take_phase_seconds();
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    const auto start = Clock::now();
    DSPARK_RETURN_IF_ERROR(fill(runner, sequence, tokens, chunk));
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    DSPARK_RETURN_IF_ERROR(sequence.truncate(0));
  }
  runner.step().set_timed(false);
  PrefillBench out = {.tokens = tokens, .chunk = chunk};
  out.phase_ms = runner.step().take_phase_seconds();
  for (double& phase : out.phase_ms) phase *= 1e3 / repeats;
  out.seconds = median(times);
  out.seconds_mean = mean(times);
  out.tokens_per_second = tokens / out.seconds;
  return out;
}

Result<RowsReport> bench_rows(Runner& runner, std::span<const int> rows, int prompt_tokens, int repeats) {
  const int most_rows = rows.empty() ? 0 : *std::max_element(rows.begin(), rows.end());
  DSPARK_RETURN_IF_ERROR(check_positions(runner, 1, int64_t{prompt_tokens} + most_rows));
  SequenceKv sequence = runner.new_sequence();
  DSPARK_RETURN_IF_ERROR(fill(runner, sequence, prompt_tokens, 512));
  std::vector<std::vector<double>> times(rows.size());
  RowsReport out;
  for (const int count : rows) out.rows.push_back({count, 0.0});
  Status status = Ok{};
  BandwidthMeter memory(runner.pool(), runner.model().weights().bytes());
  runner.step().set_timed(true);
  // In turn, so that a slow moment of the machine meets every row count.
  for (int repeat = 0; repeat < repeats + 1; ++repeat) {
    if (repeat % ((repeats + 3) / 3) == 0) memory.sample();
    for (size_t i = 0; i < rows.size(); ++i) {
      std::vector<RunRow> step;
      runner.step().take_phase_seconds();
      for (int r = 0; r < rows[i]; ++r) step.push_back({&sequence, some_token(runner, r), true});
      const double ms = run_ms(runner, step, &status);
      if (const Status back = sequence.truncate(prompt_tokens); !back.ok()) status = back.error();
      if (repeat == 0) continue;
      times[i].push_back(ms);
      const std::array<double, kPhases> phases = runner.step().take_phase_seconds();
      for (size_t p = 0; p < phases.size(); ++p) out.rows[i].phase_ms[p] += phases[p] * 1e3 / repeats;
    }
  }
  runner.step().set_timed(false);
  DSPARK_RETURN_IF_ERROR(status);
  for (size_t i = 0; i < rows.size(); ++i) out.rows[i].step_ms = median(times[i]);
  out.row_bound_ms = bytes_read(runner, prompt_tokens) / memory.best() * 1e3;
  return out;
}

Result<RequestsBench> bench_requests(StepLoop& loop, int64_t vocab, int requests, int prompt_tokens,
                                     int answer_tokens) {
  const LoopStats before = loop.stats();
  const auto start = Clock::now();
  RequestStream stream(loop, requests);
  for (int i = 0; i < requests; ++i) {
    Request request;
    for (int t = 0; t < prompt_tokens; ++t) {  // no two prompts begin alike
      request.prompt.push_back(static_cast<int32_t>(((int64_t{i} + 1) * 104729 + int64_t{t} * 7919) % vocab));
    }
    request.max_tokens = answer_tokens;
    request.sampling.ignore_eos = true;
    DSPARK_RETURN_IF_ERROR(stream.add(static_cast<uint64_t>(i), std::move(request)));
  }
  while (stream.active() > 0) {
    if (const auto done = stream.take(); !done.ok()) return done.error();
  }
  RequestsBench out = {.requests = requests, .prompt_tokens = prompt_tokens, .answer_tokens = answer_tokens};
  out.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  out.output_tokens_per_second = static_cast<double>(requests) * answer_tokens / out.seconds;
  loop.wait_until_idle(std::chrono::seconds(10));  // so that the statistics are whole
  out.loop = loop.stats() - before;
  return out;
}

}  // namespace dspark
