// See speculation_causes.h.
#include "tools/speculation_causes.h"

#include <fmt/format.h>

namespace dspark {
namespace {

constexpr int kShortPrompt = 16;  // tokens, in which hardly anything comes again
constexpr int kShortAnswer = 3;   // the first token comes with the prompt, and the last one needs no guess

// What the settings alone say.
void by_settings(const SpeculationFacts& facts, std::vector<SpeculationCause>* out) {
  if (!facts.enabled) out->push_back({"switched_off", "--enable-dspark is off; auto or on lets guess"});
  if (!facts.varying_length) {
    out->push_back(
        {"varlen_off", "--no-enable-mtp-varlen (DEEPINFER_ENABLE_MTP_VARLEN) lets nothing be guessed; leave it on"});
  }
  if (facts.fixed == 0) out->push_back({"fixed_zero", "--dspark-mode fixed:0 checks no guesses; take planned"});
  if (facts.with == DraftWith::kNone) {
    out->push_back({"no_drafters", "--draft-with none: nobody guesses; take auto"});
  }
  if (facts.draft_tokens == 0) {
    out->push_back({"opted_out", "the request itself wants no guesses (\"speculation\": {\"enabled\": false})"});
  }
}

// Why nothing was proposed, beyond that.
void by_silence(const SpeculationFacts& facts, std::vector<SpeculationCause>* out) {
  const SpeculationStats& stats = facts.stats.speculation;
  if (facts.output_tokens < kShortAnswer) {
    out->push_back({"short_answer",
                    fmt::format("the answer had {} tokens: there was nothing to guess ahead of", facts.output_tokens)});
    return;
  }
  if (facts.trained_drafter && stats.left_out > 0) {
    out->push_back(
        {"load", fmt::format("the plan left {} drafts out, since by the measured cost of steps they do not pay "
                             "with so many sequences at once; --dspark-mode fixed:K guesses all the same",
                             stats.left_out)});
  }
  if (facts.trained_drafter) return;
  if (facts.with != DraftWith::kNgram) {
    out->push_back({"no_trained_drafter",
                    "no trained drafter belongs to this model (--drafter FILE, or docs/training.md "
                    "to train one); only repetition in the text guesses"});
  }
  if (facts.prompt_tokens < kShortPrompt) {
    out->push_back({"short_prompt", fmt::format("the prompt has {} tokens, too few for anything in it to come again",
                                                facts.prompt_tokens)});
  } else {
    out->push_back({"no_repetition", "nothing in prompt and answer came again, so that nothing could be looked up"});
  }
}

}  // namespace

std::vector<SpeculationCause> speculation_causes(const SpeculationFacts& facts) {
  std::vector<SpeculationCause> out;
  const LoopStats& stats = facts.stats;
  by_settings(facts, &out);
  if (!out.empty()) return out;
  if (stats.speculation.broken > 0) {
    out.push_back({"broken_drafter", fmt::format("the drafter gave NaN {} times and was not asked again; its file is "
                                                 "damaged, or does not belong to this model",
                                                 stats.speculation.broken)});
  }
  if (stats.speculation.pauses > 0) {
    out.push_back({"paused", fmt::format("guesses failed five times in a row, {} times, so that there were none for a "
                                         "while; they do not fit this text or this temperature",
                                         stats.speculation.pauses)});
  }
  if (stats.accepted > 0) return out;
  if (facts.proposals == 0) {
    by_silence(facts, &out);
  } else if (stats.speculation.verifications == 0) {
    if (facts.threshold > 0.0 && facts.best_survival < facts.threshold) {
      out.push_back({"threshold", fmt::format("every guess is less likely than --dflash-validation-threshold {}; the "
                                              "likeliest had {:.2f}",
                                              facts.threshold, facts.best_survival)});
    } else {
      out.push_back(
          {"load", fmt::format("checking guesses does not pay by the measured cost of steps: the likeliest of "
                               "{} had {:.2f}",
                               facts.proposals, facts.best_survival)});
    }
  } else {
    out.push_back(
        {"wrong_guesses", fmt::format("{} drafts were checked and none of their tokens was right; the drafter "
                                      "does not fit this text or this temperature",
                                      stats.speculation.verifications)});
  }
  if (out.empty())
    out.push_back({"unknown", "none of the usual causes; please report it with the output of --verbose"});
  return out;
}

}  // namespace dspark
