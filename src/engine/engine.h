// Engine: the public C++ interface. A model is opened once; then prompts become tokens and text, reproducibly: the
// tokens depend on the model, its numeric settings, the prompt, the sampling parameters and the seed, on nothing else.
// Any thread may serve and generate; runner() and score() are for one thread while no request is here.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/drafter_choice.h"
#include "engine/request.h"
#include "engine/runner.h"
#include "engine/sampling_params.h"
#include "engine/step_loop.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace dspark {

// Whether steps are timed while the engine is opened, where there is anything to plan.
struct CostOptions {
  bool measure = false;
  bool again = false;       // although there is a profile in the folder
  std::string folder = {};  // where profiles are kept; "": nowhere
};

struct EngineOptions {
  std::string model;  // a GGUF file or a Hugging Face folder
  RunnerOptions runner;
  int context = 0;  // positions a sequence may have; 0: what the model was trained for and the KV memory holds
  ScheduleOptions schedule;
  int max_queue = 1024;                       // requests that may wait
  std::chrono::milliseconds defrag_every{0};  // compactions of the KV cache while nobody asks; 0: none
  SpeculationOptions speculation;
  DrafterOptions drafter;
  CostOptions costs;
  std::string decision_log;  // file; "": none
  // Stands between each drafter and the loop, where somebody wants to watch; the model's vocabulary comes with it.
  std::function<std::shared_ptr<Drafter>(std::shared_ptr<Drafter>, int vocab)> watch = {};
};

struct GenerateRequest {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  int max_tokens = 256;           // at most; the context is a limit of its own
  std::vector<std::string> stop;  // texts that end the answer and are not part of it
};

struct GenerateResult {
  std::vector<int32_t> tokens;  // of the answer, without the one that ended it
  std::string text;
  FinishReason finish = FinishReason::kStop;
  uint64_t seed = 0;
  int prompt_tokens = 0;
  int cached_tokens = 0;  // of the prompt, whose KV was already there
  int64_t drafted = 0, accepted = 0;
  double prompt_seconds = 0.0;
  double decode_seconds = 0.0;  // from the first token to the last
};

// What a stream gets for each token: its text may be empty, or held back while it may become a stop text. False
// cancels. Called on the step thread, which waits for it.
using TokenCallback = std::function<bool(std::string_view text)>;

struct ScoreOptions {
  int window = 2048;  // the context starts again every so many tokens
  int chunk = 128;    // rows a step
};

struct ScoreResult {
  std::vector<double> log_probs;  // of token i + 1 of each window, given those before it
  double perplexity = 0.0;
  std::string digest;  // SHA-256 over the bits of all logits, in order
};

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> open(const EngineOptions& options);

  const Tokenizer& tokenizer() const { return tokenizer_; }
  const ChatTemplate& chat_template() const { return template_; }
  const ModelConfig& config() const { return runner_->config(); }
  Runner& runner() { return *runner_; }
  int context() const { return context_; }
  double load_seconds() const { return load_seconds_; }

  // The prompt of a conversation (OpenAI's messages), as text.
  Result<std::string> render(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools = {}) const;
  // Tokens of a rendered prompt: special tokens in it count, and a BOS that the template wrote is not doubled.
  std::vector<int32_t> encode_rendered(std::string_view prompt) const;

  // Every request goes through here, in whatever way it came in.
  StepLoop& loop() { return *loop_; }

  // Another trained drafter in the place of the one that drafts, chosen as `options` say: the step loop may be told to
  // take it (replace_drafter). kUnsupported where the engine was opened without one, or its KV would not fit. Any
  // thread, one at a time; the loop goes on meanwhile.
  Result<NewDrafter> load_new_drafter(const DrafterOptions& options);

  // One request, waited for. Errors as StepLoop::submit has them, and what befell the request. `unwanted` is asked
  // now and then on the calling thread, also while the prompt is computed; once it is true the request is cancelled.
  Result<GenerateResult> generate(const GenerateRequest& request, const TokenCallback& on_text,
                                  const std::function<bool()>& unwanted = {});

  Result<ScoreResult> score(std::span<const int32_t> tokens, const ScoreOptions& options,
                            const std::function<void(size_t done)>& progress);

 private:
  Engine(std::unique_ptr<Runner> runner, Tokenizer tokenizer, ChatTemplate chat_template, int context);

  std::unique_ptr<Runner> runner_;
  Tokenizer tokenizer_;
  ChatTemplate template_;
  int context_;
  std::shared_ptr<NgramStore> store_ = std::make_shared<NgramStore>();  // the step loop's
  std::vector<KvLayout> draft_layers_;  // of the trained drafter's KV in each block; empty: there is none
  std::string digest_folder_;
  std::unique_ptr<StepLoop> loop_;
  double load_seconds_ = 0.0;
};

}  // namespace dspark
