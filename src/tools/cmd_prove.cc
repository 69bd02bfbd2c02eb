// `dspark prove`: shows on this machine that nothing but model, prompt, sampling and seed decides a token. A set of
// prompts runs over every axis that must not matter, and the first difference ends it. Main thread; the engine's
// workers compute.
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "tools/command.h"
#include "tools/compute.h"
#include "tools/interrupt.h"
#include "tools/io.h"
#include "tools/progress.h"
#include "tools/prompt_set.h"
#include "tools/proof.h"

namespace dspark {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;
using Answers = std::vector<StreamedAnswer>;

constexpr int kUsualAnswer = 48, kQuickAnswer = 16;  // tokens
constexpr int64_t kUsualLimit = 8;                   // prompts of a file

constexpr const char* kUsualPrompts[] = {
    "Write a Python function that returns the n-th Fibonacci number.",
    "A train goes 60 km in 45 minutes. How fast is it in km/h?",
    "Repeat this list three times: red, green, blue, red, green, blue, red, green, blue.",
    "Give a JSON object with the fields name, age and city for three people.",
    "Translate into French: The weather is nice today.",
    "Why is the sky blue?",
    "Write a haiku about rivers.",
    "List the prime numbers below 50.",
};
constexpr const char* kFiller =
    "The tokens of a request depend on the model, its numeric settings, the prompt, the sampling parameters and the "
    "seed. Nothing else: not speculation, batch, neighbours, scheduling, cache hits, threads, or which CPU ran it. ";

// What a case gave.
struct Ran {
  Answers answers;
  LoopStats stats;
  double seconds = 0.0;
};

// All requests, `at_once` of them at a time; the answers stand in the order of the requests.
Result<Answers> ask(Engine& engine, std::span<const ProofRequest> requests, int at_once, CacheUse cache,
                    const InterruptScope& interrupt, Progress& progress) {
  RequestStream stream(engine.loop(), at_once);
  Answers answers(requests.size());
  for (size_t asked = 0, done = 0; done < requests.size();) {
    for (; stream.has_room() && asked < requests.size(); ++asked) {
      if (cache == CacheUse::kEmpty) {
        // An answer is out before its sequence has left; only then is all of the cache unused.
        engine.loop().wait_until_idle(std::chrono::minutes(1));
        engine.runner().kv().drop_cached();
      }
      DSPARK_RETURN_IF_ERROR(stream.add(asked, requests[asked].request));
    }
    DSPARK_TRY(Answers taken, stream.take());
    done += taken.size();
    for (StreamedAnswer& answer : taken) answers[answer.tag] = std::move(answer);
    if (interrupt.requested()) return make_error(ErrorCode::kCancelled, "stopped; nothing had differed so far");
    progress.update(static_cast<int64_t>(done));
  }
  engine.loop().wait_until_idle(std::chrono::minutes(1));
  return answers;
}

Result<Ran> run_case(const ProofCase& each, EngineOptions options, std::span<const ProofRequest> requests,
                     const InterruptScope& interrupt) {
  each.change(options);
  if (each.crowded) {
    DSPARK_TRY(const std::unique_ptr<Engine> roomy, Engine::open(options));
    options.context = 0;  // as far as the memory reaches
    options.runner.kv_memory_bytes = crowded_blocks(requests) * roomy->runner().kv().block_bytes();
  }
  DSPARK_TRY(const std::unique_ptr<Engine> engine, Engine::open(options));
  Progress progress(fmt::format("{} {}", each.axis, each.value), ProgressUnit::kSteps,
                    static_cast<int64_t>(requests.size()));
  const Clock::time_point start = Clock::now();
  Ran ran;
  LoopStats before;
  if (each.cache == CacheUse::kTwice) {
    DSPARK_RETURN_IF_ERROR(ask(*engine, requests, each.at_once, each.cache, interrupt, progress));
    before = engine->loop().stats();
  }
  DSPARK_TRY(ran.answers, ask(*engine, requests, each.at_once, each.cache, interrupt, progress));
  ran.stats = engine->loop().stats() - before;
  ran.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return ran;
}

Result<std::vector<std::vector<int32_t>>> load_prompts(const Settings& settings, const Engine& engine) {
  std::vector<std::vector<int32_t>> prompts;
  for (const std::string& file : settings.get<"prompts">()) {
    DSPARK_TRY(PromptSet set,
               load_prompt_set(engine, file, settings.is_set<"limit">() ? settings.get<"limit">() : kUsualLimit));
    for (auto& prompt : set.prompts) prompts.push_back(std::move(prompt));
  }
  if (!prompts.empty()) return prompts;
  for (const char* text : kUsualPrompts) {
    if (settings.get<"limit">() > 0 && static_cast<int64_t>(prompts.size()) == settings.get<"limit">()) break;
    DSPARK_TRY(const std::string rendered, engine.render({{{"role", "user"}, {"content", text}}}));
    prompts.push_back(engine.encode_rendered(rendered));
  }
  return prompts;
}

ordered_json case_json(const ProofCase& each, const Ran& ran, const std::string& digest) {
  return {{"axis", each.axis},
          {"value", each.value},
          {"runs", ran.answers.size()},
          {"digest", digest},
          {"drafted", ran.stats.drafted},
          {"accepted", ran.stats.accepted},
          {"cached_tokens", ran.stats.cached_tokens},
          {"preemptions", ran.stats.preemptions},
          {"most_running", ran.stats.most_running},
          {"seconds", ran.seconds}};
}

std::string case_text(const ProofCase& each, const Ran& ran, const std::string& digest) {
  return fmt::format("{:<12} {:<9} {:>5} {:>8} {:>9} {:>7} {:>10} {:>8} {:>8.1f}  {}\n", each.axis, each.value,
                     ran.answers.size(), ran.stats.drafted, ran.stats.accepted, ran.stats.cached_tokens,
                     ran.stats.preemptions, ran.stats.most_running, ran.seconds, digest.substr(0, 16));
}

// The whole run, and where its rows go as they come.
class Proof {
 public:
  Proof(const Settings& settings, EngineOptions asked, std::vector<ProofRequest> requests)
      : json_(settings.get<"json">()), asked_(std::move(asked)), requests_(std::move(requests)) {}

  // Ok if every case gave the reference's answers and showed what it is there for.
  Status run(const ProofScope& scope) {
    report_ = {{"model", asked_.model}, {"identical", true}, {"cases", ordered_json::array()}};
    ProofCase plain = {
        .axis = "reference", .value = "plain", .change = [](EngineOptions& o) { o = without_drafts(o); }};
    plain.at_once = 1;
    plain.cache = CacheUse::kEmpty;
    if (!json_) {
      DSPARK_RETURN_IF_ERROR(write_output(
          "axis         value      runs  drafted  accepted  cached  preempted  at once  seconds  digest\n"));
    }
    DSPARK_TRY(const Ran reference, run_case(plain, asked_, requests_, interrupt_));
    DSPARK_RETURN_IF_ERROR(show(plain, reference));
    for (const ProofCase& each : proof_cases(scope)) {
      const std::vector<ProofRequest> some = every(each.every, requests_);
      DSPARK_TRY(const Ran ran, run_case(each, asked_, some, interrupt_));
      DSPARK_RETURN_IF_ERROR(show(each, ran));
      const Status judged = judge(each, ran, some, every(each.every, reference.answers));
      if (judged.ok()) continue;
      report_["identical"] = false;
      report_["error"] = judged.error().message;
      if (json_) DSPARK_RETURN_IF_ERROR(write_json(report_));
      return judged;
    }
    if (json_) return write_json(report_);
    return write_output(fmt::format("all {} answers of every case are identical\n", requests_.size()));
  }

 private:
  template <class T>
  static std::vector<T> every(int step, const std::vector<T>& all) {
    std::vector<T> out;
    for (size_t i = 0; i < all.size(); i += static_cast<size_t>(step)) out.push_back(all[i]);
    return out;
  }

  Status show(const ProofCase& each, const Ran& ran) {
    const std::string digest = answers_digest(ran.answers);
    report_["cases"].push_back(case_json(each, ran, digest));
    return json_ ? Status(Ok{}) : write_output(case_text(each, ran, digest));
  }

  Status judge(const ProofCase& each, const Ran& ran, std::span<const ProofRequest> requests, const Answers& expected) {
    if (const auto found = first_difference(ran.answers, expected)) {
      const ProofRequest& request = requests[found->request];
      const SamplingParams& sampling = request.request.sampling;
      report_["difference"] = {{"axis", each.axis},        {"value", each.value},
                               {"prompt", request.prompt}, {"temperature", sampling.temperature},
                               {"seed", sampling.seed},    {"position", found->position},
                               {"got", found->got},        {"expected", found->expected}};
      return make_error(
          ErrorCode::kInternal,
          "{} {}: the answer to prompt {} (temperature {}, seed {}) parts from plain decoding at its token "
          "{}: {}, expected {}. This must never happen: please report it",
          each.axis, each.value, request.prompt, sampling.temperature, sampling.seed, found->position, found->got,
          found->expected);
    }
    if (const std::string missing = missing_evidence(each.needs, ran.stats); !missing.empty()) {
      return make_error(ErrorCode::kInternal,
                        "{} {} has shown nothing: {}; ask for longer answers (--max-tokens) or other prompts",
                        each.axis, each.value, missing);
    }
    return Ok{};
  }

  const bool json_;
  const EngineOptions asked_;
  const std::vector<ProofRequest> requests_;
  const InterruptScope interrupt_;
  ordered_json report_;
};

}  // namespace

Result<ExitCode> cmd_prove(const Invocation& call) {
  const Settings& settings = call.settings;
  DSPARK_TRY(EngineOptions asked, engine_options(settings));
  asked.costs.measure = false;  // plans learn from the first steps: what they are like must not matter
  ProofScope scope = {.quick = settings.get<"quick">(),
                      .guesses = asked.speculation.enabled && asked.drafter.with != DraftWith::kNone,
                      .dspark = false,
                      .isa = asked.runner.isa};
  const int answer = settings.is_set<"max-tokens">() ? static_cast<int>(settings.get<"max-tokens">())
                     : scope.quick                   ? kQuickAnswer
                                                     : kUsualAnswer;
  std::vector<ProofRequest> requests;
  {
    DSPARK_TRY(const std::unique_ptr<Engine> engine, open_engine(without_drafts(asked)));
    DSPARK_TRY(const auto prompts, load_prompts(settings, *engine));
    requests = proof_requests(prompts, engine->tokenizer().encode(kFiller, {}), answer, engine->context(),
                              static_cast<uint64_t>(settings.get<"seed">()));
    DSPARK_TRY(const auto drafter, choose_drafter(asked.drafter, engine->runner().digest(), asked.runner.digest_folder,
                                                  asked.runner.threads));
    scope.dspark = drafter.has_value();
  }
  // Drafters that pause and a cache that is small are what some cases are there for, and no warnings here.
  if (!settings.get<"verbose">()) set_log_level(LogLevel::kError);
  DSPARK_RETURN_IF_ERROR(Proof(settings, asked, std::move(requests)).run(scope));
  return ExitCode::kOk;
}

}  // namespace dspark
