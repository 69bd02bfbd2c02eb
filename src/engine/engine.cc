// See engine.h.
#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <limits>

#include "base/cpu.h"
#include "base/exact_math.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/stopwatch.h"
#include "engine/cost_profile.h"
#include "engine/model_text.h"
#include "model/model_digest.h"

namespace dspark {
namespace {

using Clock = std::chrono::steady_clock;
// The bits of all logits, NaN in one form.
void add_bits(const float* logits, size_t count, Sha256* digest) {
  std::vector<float> canonical(logits, logits + count);
  for (float& x : canonical) x = x == x ? x : std::numeric_limits<float>::quiet_NaN();
  digest->update({reinterpret_cast<const uint8_t*>(canonical.data()), count * sizeof(float)});
}

// log softmax(logits)[token]; NaN where a logit is NaN. `maxima` is scratch.
double log_probability(const Ops& ops, const float* logits, int64_t vocab, int32_t token, Buffer<float>* maxima) {
  maxima->ensure(static_cast<size_t>(survey_size(vocab)));
  if (!ops.survey(logits, vocab, maxima->data())) return std::numeric_limits<double>::quiet_NaN();
  const float max = (*maxima)[static_cast<size_t>(ops.argmax(maxima->data(), survey_size(vocab)))];
  const float lowest = -std::numeric_limits<float>::infinity();
  const int64_t sum = ops.exp_sum(logits, maxima->data(), vocab, max, 1.0f, lowest);
  constexpr double kLogTwo = 0x1.62e42fefa39efp-1;
  const double log_sum = exact_log(static_cast<double>(sum)) - kWeightBits * kLogTwo;
  return static_cast<double>(logits[token]) - static_cast<double>(max) - log_sum;
}

// Gathers an answer of one choice for a caller who waits.
class Collector final : public RequestListener {
 public:
  explicit Collector(const TokenCallback& on_text) : on_text_(on_text) {}

  bool on_token(const TokenEvent& event) override {
    result_.tokens.push_back(event.token);
    return show(event.text);
  }
  void on_choice_end(const ChoiceEnd& end) override {
    result_.finish = end.reason;
    result_.seed = end.seed;
    show(end.text);
  }
  void on_end(const Status& status, const RequestStats& stats) override {
    result_.prompt_tokens = stats.prompt_tokens;
    result_.cached_tokens = stats.cached_tokens;
    result_.drafted = stats.drafted;
    result_.accepted = stats.accepted;
    result_.prompt_seconds = stats.queue_seconds + stats.prefill_seconds;
    result_.decode_seconds = stats.decode_seconds;
    // A caller who said stop knows: what there is of the answer is the result.
    if (status.ok() || (cancelled_ && status.error().code == ErrorCode::kCancelled)) {
      done_.set_value(std::move(result_));
    } else {
      done_.set_value(status.error());
    }
  }

  // Waits for the end; once `unwanted` is true, calls cancel() and waits for what comes of it.
  template <class Cancel>
  Result<GenerateResult> wait(const std::function<bool()>& unwanted, Cancel cancel) {
    constexpr std::chrono::milliseconds kPatience{20};
    std::future<Result<GenerateResult>> result = done_.get_future();
    while (unwanted && !cancelled_ && result.wait_for(kPatience) != std::future_status::ready) {
      if (!unwanted()) continue;
      cancelled_ = true;
      cancel();
    }
    return result.get();
  }

 private:
  bool show(std::string_view text) {
    result_.text += text;
    if (on_text_ != nullptr && !cancelled_) cancelled_ = !on_text_(text);
    return !cancelled_;
  }

  const TokenCallback& on_text_;
  GenerateResult result_;
  std::atomic<bool> cancelled_ = false;
  std::promise<Result<GenerateResult>> done_;
};

// What is known of the cost of steps before any has run: from the folder, else measured and kept there.
Result<CostModel> known_costs(const CostOptions& options, Runner& runner, const LoadedDrafters& loaded) {
  constexpr double kBudgetSeconds = 2.0;
  if (!options.measure) return CostModel();
  const std::string key = cost_key(runner, loaded.costly);
  if (!options.again && !options.folder.empty()) {
    if (const auto kept = read_costs(options.folder, key); kept.ok()) {
      if (auto model = CostModel::create(kept->points, kept->terms); model.ok()) return model;
    }
  }
  std::vector<Drafter*> costly;
  for (const auto& drafter : loaded.drafters) {
    if (drafter->costs_time()) costly.push_back(drafter.get());
  }
  const auto start = Clock::now();
  DSPARK_TRY(const CostProfile profile, measure_costs(runner, costly, kBudgetSeconds));
  log(LogLevel::kInfo, "measured what steps cost, in {:.2f} s: 1 row {:.2f} ms, {} rows {:.2f} ms",
      seconds_since(start), profile.points.front().ms, profile.points.back().rows, profile.points.back().ms);
  // The folder only saves time.
  if (!options.folder.empty()) (void)write_costs(options.folder, key, profile).ok();
  return CostModel::create(profile.points, profile.terms);
}

}  // namespace

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "?";
}

Engine::Engine(std::unique_ptr<Runner> runner, Tokenizer tokenizer, ChatTemplate chat_template, int context)
    : runner_(std::move(runner)),
      tokenizer_(std::move(tokenizer)),
      template_(std::move(chat_template)),
      context_(context) {}

Result<std::unique_ptr<Engine>> Engine::open(const EngineOptions& options) {
  const auto start = Clock::now();
  DSPARK_TRY(const ModelFile file, ModelFile::open(options.model));
  DSPARK_TRY(Tokenizer tokenizer, load_tokenizer(file));
  DSPARK_TRY(ChatTemplate chat_template, load_chat_template(file));
  RunnerOptions runs = options.runner;
  if (runs.threads == 0) runs.threads = usable_cores();
  DSPARK_TRY(runs.digest, model_digest(file.tensors(), {.folder = runs.digest_folder}, runs.threads, {}));
  DSPARK_TRY(const std::optional<DrafterFile> drafter,
             choose_drafter(options.drafter, *runs.digest, runs.digest_folder, runs.threads));
  if (drafter) {
    runs.draft_layers = drafter->kv_layouts(runs.kv_type);
    runs.drafter = drafter->digest;
  }
  DSPARK_TRY(std::unique_ptr<Runner> runner, Runner::create(file, runs));
  if (tokenizer.size() > runner->config().vocab) {
    return make_error(ErrorCode::kCorrupt, "{}: the tokenizer has {} tokens, the model only {}", options.model,
                      tokenizer.size(), runner->config().vocab);
  }
  const int trained = runner->config().context;
  if (options.context > trained) {
    return make_error(ErrorCode::kInvalidArgument, "context {} is beyond the {} positions of this model",
                      options.context, trained);
  }
  // A sequence that is alone must be able to reach the end of the context, or it would fail on its way.
  const int64_t room = runner->kv().capacity_blocks() * kTilePositions;
  if (options.context > room) {
    return make_error(ErrorCode::kExhausted,
                      "a context of {} needs more than the {} positions of the KV memory; raise --kv-memory",
                      options.context, room);
  }
  const int context = options.context > 0 ? options.context : static_cast<int>(std::min<int64_t>(trained, room));
  if (options.context == 0 && context < trained) {
    log(LogLevel::kWarning, "the KV memory holds {} positions: that is the context, instead of {}", context, trained);
  }
  std::unique_ptr<Engine> engine(
      new Engine(std::move(runner), std::move(tokenizer), std::move(chat_template), context));
  StepLoopOptions loop = {.schedule = options.schedule,
                          .context = context,
                          .max_queue = options.max_queue,
                          .defrag_every = options.defrag_every,
                          .speculation = options.speculation};
#ifndef NDEBUG
  loop.check_accounting = true;
#endif
  if (!options.decision_log.empty()) {
    DSPARK_TRY(loop.decisions, DecisionLog::open(options.decision_log));
  }
  DSPARK_TRY(const LoadedDrafters loaded,
             load_drafters(options.drafter, drafter ? &*drafter : nullptr, *engine->runner_, engine->tokenizer_,
                           engine->store_, runs.digest_folder));
  loop.drafters = loaded.drafters;
  engine->digest_folder_ = runs.digest_folder;
  for (const auto& each : loop.drafters) {
    if (!each->hidden_layers().empty()) engine->draft_layers_ = runs.draft_layers;
  }
  if (options.speculation.enabled && !loop.drafters.empty()) {
    DSPARK_TRY(loop.cost, known_costs(options.costs, *engine->runner_, loaded));
  }
  if (options.watch) {
    for (auto& each : loop.drafters) each = options.watch(each, engine->config().vocab);
  }
  for (int32_t id = 0; id < engine->tokenizer_.size(); ++id) {
    if (engine->tokenizer_.is_end_of_generation(id)) loop.end_tokens.push_back(id);
  }
  engine->loop_ = std::make_unique<StepLoop>(*engine->runner_, engine->tokenizer_, std::move(loop));
  engine->load_seconds_ = seconds_since(start);
  return engine;
}

Result<NewDrafter> Engine::load_new_drafter(const DrafterOptions& options) {
  if (draft_layers_.empty()) {
    return make_error(ErrorCode::kUnsupported,
                      "no trained drafter was loaded at the start, so the KV blocks have no room for one; restart with "
                      "--drafter FILE");
  }
  return dspark::load_new_drafter(options, draft_layers_, *runner_, store_, digest_folder_);
}

Result<std::string> Engine::render(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools) const {
  ChatInput input;
  input.messages = messages;
  input.tools = tools;
  return render_chat(template_, tokenizer_, std::move(input));
}

std::vector<int32_t> Engine::encode_rendered(std::string_view prompt) const {
  return dspark::encode_rendered(tokenizer_, prompt, runner_->pool().size());
}

Result<GenerateResult> Engine::generate(const GenerateRequest& request, const TokenCallback& on_text,
                                        const std::function<bool()>& unwanted) {
  const auto collector = std::make_shared<Collector>(on_text);
  Request wanted;
  wanted.prompt = request.prompt;
  wanted.sampling = request.sampling;
  wanted.max_tokens = request.max_tokens;
  wanted.stop = request.stop;
  DSPARK_TRY(const RequestId id, loop_->submit(std::move(wanted), collector));
  return collector->wait(unwanted, [&] { loop_->cancel(id); });
}

Result<ScoreResult> Engine::score(std::span<const int32_t> tokens, const ScoreOptions& options,
                                  const std::function<void(size_t done)>& progress) {
  ScoreResult result;
  Sha256 digest;
  Buffer<float> maxima;
  const size_t vocab = static_cast<size_t>(config().vocab);
  const size_t window = static_cast<size_t>(std::min(options.window, context_));
  SequenceKv sequence = runner_->new_sequence();
  double total = 0.0;
  std::vector<RunRow> rows;
  for (size_t start = 0; start < tokens.size(); start += window) {
    const size_t end = std::min(tokens.size(), start + window);
    for (size_t first = start; first < end; first += static_cast<size_t>(options.chunk)) {
      const size_t last = std::min(end, first + static_cast<size_t>(options.chunk));
      rows.clear();
      for (size_t i = first; i < last; ++i) rows.push_back({&sequence, tokens[i], true});
      DSPARK_TRY(const StepOutput out, runner_->run(rows));
      for (size_t i = first; i < last; ++i) {
        const float* logits = out.logits + (i - first) * vocab;
        add_bits(logits, vocab, &digest);
        if (i + 1 == end) continue;
        result.log_probs.push_back(
            log_probability(runner_->ops(), logits, static_cast<int64_t>(vocab), tokens[i + 1], &maxima));
        if (std::isnan(result.log_probs.back())) {
          return make_error(ErrorCode::kCorrupt, "the logits of position {} hold NaN; the model's weights are broken",
                            i);
        }
        total += result.log_probs.back();
      }
      if (progress) progress(last);
    }
    DSPARK_RETURN_IF_ERROR(sequence.truncate(0));
  }
  result.perplexity = exact_exp(-total / static_cast<double>(std::max<size_t>(1, result.log_probs.size())));
  result.digest = to_hex(digest.finish());
  return result;
}

}  // namespace dspark
