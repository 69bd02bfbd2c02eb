// DSpark drafters of every head against PyTorch, and the row law. Test thread.
#include "draft/dspark_drafter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "draft/draft_goldens.h"

namespace dspark {
namespace {

const char* const kDrafters[] = {"none", "markov", "gated", "rnn", "reduced", "lookup"};

using Rows = std::vector<std::vector<float>>;

// Every golden draft, one request at a time.
struct Drafts {
  std::vector<std::vector<DraftToken>> drafts;
  std::vector<Rows> logits;
};

Drafts run_alone(GoldenRig& rig, const std::vector<GoldenDraft>& goldens) {
  Drafts out;
  for (const GoldenDraft& golden : goldens) {
    RecordingSampler sampler;
    DraftRequest request = rig.request(golden, &sampler, out.drafts.size());
    DraftRequest* const requests[] = {&request};
    rig.drafter().propose(requests);
    EXPECT_FALSE(request.broken);
    out.drafts.push_back(request.draft);
    out.logits.push_back(sampler.rows);
  }
  return out;
}

Drafts run(const std::string& path, const std::vector<GoldenDraft>& goldens, const GoldenRig::Options& options) {
  GoldenRig rig(path, options);
  rig.inject(0, kGoldenPositions);
  return run_alone(rig, goldens);
}

bool same_bits(const Drafts& a, const Drafts& b) {
  if (a.logits != b.logits || a.drafts.size() != b.drafts.size()) return false;
  for (size_t i = 0; i < a.drafts.size(); ++i) {
    const auto equal = [](const DraftToken& x, const DraftToken& y) {
      const bool confident = x.confidence == y.confidence || (std::isnan(x.confidence) && std::isnan(y.confidence));
      return x.token == y.token && x.survival == y.survival && confident;
    };
    if (!std::equal(a.drafts[i].begin(), a.drafts[i].end(), b.drafts[i].begin(), b.drafts[i].end(), equal)) {
      return false;
    }
  }
  return true;
}

class Drafters : public ::testing::TestWithParam<const char*> {
 protected:
  Drafters() : path_(drafter_path(GetParam())) {
    vocabulary_ = GoldenRig(path_, {}).drafter().weights().vocabulary;
    for (int32_t v = 0; vocabulary_.empty() && v < kGoldenVocab; ++v) all_.push_back(v);
    goldens_ = golden_drafts(GetParam(), static_cast<int>(ids().size()));
  }
  // Target ids of the drafter's rows.
  const std::vector<int32_t>& ids() const { return vocabulary_.empty() ? all_ : vocabulary_; }

  std::string path_;
  std::vector<int32_t> vocabulary_, all_;
  std::vector<GoldenDraft> goldens_;
};

TEST_P(Drafters, EqualsPyTorch) {
  const Drafts found = run(path_, goldens_, {});
  for (size_t d = 0; d < goldens_.size(); ++d) {
    const GoldenDraft& golden = goldens_[d];
    ASSERT_EQ(found.drafts[d].size(), static_cast<size_t>(golden.count)) << d;
    for (size_t k = 0; k < found.drafts[d].size(); ++k) {
      const DraftToken& token = found.drafts[d][k];
      EXPECT_EQ(token.token, golden.draft[k]) << d << ", " << k;
      float worst = 0.0f;
      for (size_t i = 0; i < ids().size(); ++i) {
        const float logit = found.logits[d][k][static_cast<size_t>(ids()[i])];
        worst = std::max(worst, std::abs(logit - golden.logits[k * ids().size() + i]));
      }
      EXPECT_LT(worst, 1e-4f) << d << ", " << k;
      if (golden.confidences.empty()) {
        EXPECT_TRUE(std::isnan(token.confidence));
      } else {
        EXPECT_NEAR(token.confidence, golden.confidences[k], 1e-4f) << d << ", " << k;
      }
    }
  }
}

TEST_P(Drafters, MayEndWhereLittleSurvives) {
  GoldenRig rig(path_, {});
  rig.inject(0, kGoldenPositions);
  const Drafts whole = run_alone(rig, goldens_);
  for (size_t d = 0; d < goldens_.size(); ++d) {
    for (size_t k = 0; k < whole.drafts[d].size(); ++k) {
      RecordingSampler sampler;
      DraftRequest request = rig.request(goldens_[d], &sampler, d);
      request.least_survival = std::nextafter(static_cast<double>(whole.drafts[d][k].survival), 2.0) + 1e-7;
      DraftRequest* const requests[] = {&request};
      rig.drafter().propose(requests);
      size_t expected = 0;
      while (static_cast<double>(whole.drafts[d][expected].survival) >= request.least_survival) ++expected;
      ASSERT_EQ(request.draft.size(), expected + 1) << d << ", " << k;
      for (size_t i = 0; i <= expected; ++i) EXPECT_EQ(request.draft[i].token, whole.drafts[d][i].token);
    }
  }
}

// However many positions wait for each other, once settled their KV holds the same bits.
TEST_P(Drafters, SettledKvDoesNotDependOnHowPositionsCame) {
  GoldenRig at_once(path_, {}), in_turn(path_, {}), ragged(path_, {});
  at_once.inject(0, kGoldenPositions);
  for (int p = 0; p < kGoldenPositions; ++p) in_turn.inject(p, p + 1);
  for (int p = 0; p < kGoldenPositions;) {
    const int end = std::min(kGoldenPositions, p + 1 + p * 7 % 90);
    ragged.inject(p, end);
    p = end;
  }
  for (GoldenRig* rig : {&at_once, &in_turn, &ragged}) rig->drafter().settle();
  EXPECT_EQ(in_turn.memory(), at_once.memory());
  EXPECT_EQ(ragged.memory(), at_once.memory());
}

TEST_P(Drafters, TokensOutsideTheMapCannotBeSaid) {
  const Drafts found = run(path_, goldens_, {});
  size_t finite = 0;
  for (const float logit : found.logits[0][0]) finite += std::isfinite(logit) ? 1 : 0;
  EXPECT_EQ(finite, ids().size());
}

TEST_P(Drafters, SurvivalIsTheProductOfChances) {
  const Drafts found = run(path_, goldens_, {});
  for (const auto& draft : found.drafts) {
    double product = 1.0;
    for (const DraftToken& token : draft) {
      if (std::isnan(token.confidence)) return;
      product /= 1.0 + std::exp(-static_cast<double>(token.confidence));
      EXPECT_NEAR(token.survival, product, 1e-6);
    }
  }
}

TEST_P(Drafters, SameBitsTogetherInPiecesAndWithAnyThreads) {
  GoldenRig alone(path_, {});
  alone.inject(0, kGoldenPositions);
  const Drafts expected = run_alone(alone, goldens_);

  GoldenRig rig(path_, {.threads = 1});
  for (const auto& [first, last] : {std::pair(100, 150), {0, 1}, {1, 60}, {60, 100}}) rig.inject(first, last);
  std::vector<RecordingSampler> samplers(goldens_.size());
  std::vector<DraftRequest> requests;
  std::vector<DraftRequest*> order;
  for (size_t i = 0; i < goldens_.size(); ++i) requests.push_back(rig.request(goldens_[i], &samplers[i], i));
  for (size_t i = goldens_.size(); i-- > 0;) order.push_back(&requests[i]);
  rig.drafter().propose(order);
  Drafts found;
  for (size_t i = 0; i < goldens_.size(); ++i) {
    found.drafts.push_back(requests[i].draft);
    found.logits.push_back(samplers[i].rows);
  }
  EXPECT_TRUE(same_bits(expected, found));
}

TEST_P(Drafters, SameBitsOnEveryInstructionSet) {
  for (const bool quantised : {false, true}) {
    LoadOptions load;
    if (quantised) load.quantize = DType::kQ8_0;
    const Drafts expected = run(path_, goldens_, {.kv_type = DType::kF16, .load = load});
    for (const Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
      if (!isa_supported(isa)) continue;
      const Drafts found = run(path_, goldens_, {.isa = isa, .kv_type = DType::kF16, .load = load});
      EXPECT_TRUE(same_bits(expected, found)) << isa_name(isa) << (quantised ? ", q8_0" : "");
    }
  }
}

TEST_P(Drafters, QuantisedWeightsComeClose) {
  const Drafts exact = run(path_, goldens_, {});
  const Drafts found = run(path_, goldens_, {.kv_type = DType::kF16, .load = {.quantize = DType::kQ8_0}});
  double error = 0.0, size = 0.0;
  for (size_t d = 0; d < goldens_.size(); ++d) {
    // Of the first prediction, which no other token has led astray.
    for (const int32_t id : ids()) {
      const double logit = exact.logits[d][0][static_cast<size_t>(id)];
      error += std::pow(found.logits[d][0][static_cast<size_t>(id)] - logit, 2);
      size += logit * logit;
    }
  }
  EXPECT_LT(std::sqrt(error / size), 0.03);
  EXPECT_GT(error, 0.0);
}

INSTANTIATE_TEST_SUITE_P(All, Drafters, ::testing::ValuesIn(kDrafters),
                         [](const auto& test) { return std::string(test.param); });

TEST(DsparkDrafter, LlamaCppsLayoutGivesTheSame) {
  GoldenRig folder(drafter_path("reduced"), {});
  const auto goldens = golden_drafts("reduced", folder.drafter().config().draft_vocab);
  folder.inject(0, kGoldenPositions);
  EXPECT_TRUE(same_bits(run_alone(folder, goldens), run(drafter_path("reduced/reduced.gguf"), goldens, {})));
}

TEST(DsparkDrafter, LooksNoFurtherBackThanItsWindowAndItsContext) {
  GoldenRig rig(drafter_path("markov"), {});
  GoldenDraft golden = golden_drafts("markov", kGoldenVocab)[0];
  golden.window = 20;
  // The rest stays unwritten memory, which is NaN.
  rig.inject(static_cast<int>(golden.tokens.size()) - 1 - 20, kGoldenPositions);
  const auto draft = [&](int window, int context_begin) {
    RecordingSampler sampler;
    DraftRequest request = rig.request(golden, &sampler, 0);
    request.window = window;
    request.context_begin = context_begin;
    DraftRequest* const requests[] = {&request};
    rig.drafter().propose(requests);
    return sampler.rows;
  };
  const Rows by_window = draft(20, 0), by_context = draft(2048, static_cast<int>(golden.tokens.size()) - 21);
  EXPECT_EQ(by_window, by_context);
  EXPECT_TRUE(std::isfinite(by_window[0][0]));
}

TEST(DsparkDrafter, BrokenFeaturesBreakTheDraftAndNothingElse) {
  GoldenRig rig(drafter_path("markov"), {});
  const auto goldens = golden_drafts("markov", kGoldenVocab);
  RecordingSampler sampler;
  DraftRequest request = rig.request(goldens[0], &sampler, 0);
  DraftRequest* const requests[] = {&request};
  rig.drafter().propose(requests);  // of a context that was never written
  EXPECT_TRUE(request.broken);
  EXPECT_THAT(request.draft, ::testing::IsEmpty());
  rig.inject(0, kGoldenPositions);
  rig.drafter().propose(requests);
  EXPECT_FALSE(request.broken);
  EXPECT_EQ(request.draft.size(), static_cast<size_t>(goldens[0].count));
}

TEST(DsparkDrafter, DraftsNothingWhereNothingIsAsked) {
  GoldenRig rig(drafter_path("markov"), {});
  const auto goldens = golden_drafts("markov", kGoldenVocab);
  RecordingSampler sampler;
  DraftRequest request = rig.request(goldens[0], &sampler, 0);
  request.max_tokens = 0;
  DraftRequest* const requests[] = {&request};
  rig.drafter().propose(requests);
  EXPECT_THAT(request.draft, ::testing::IsEmpty());
  EXPECT_THAT(sampler.rows, ::testing::IsEmpty());
}

TEST(DsparkDrafter, LearnsHowOftenItIsRightWithoutAConfidenceHead) {
  GoldenRig rig(drafter_path("none"), {});
  rig.inject(0, kGoldenPositions);
  const auto goldens = golden_drafts("none", kGoldenVocab);
  RecordingSampler sampler;
  DraftRequest request = rig.request(goldens[0], &sampler, 0);
  DraftRequest* const requests[] = {&request};
  rig.drafter().propose(requests);
  const float before = request.draft[1].survival;
  for (int i = 0; i < 2000; ++i) rig.drafter().verified({0, request.draft, i % 10 == 0 ? 1 : 0});
  rig.drafter().propose(requests);
  EXPECT_NEAR(request.draft[0].survival, 0.1, 0.02);
  EXPECT_LT(request.draft[1].survival, before);
}

TEST(DsparkDrafter, ConfidencesAreCalibratedAndCorrectedByBucketAndSequence) {
  GoldenRig rig(drafter_path("markov"), {.calibration = {{4.0}}});
  rig.inject(0, kGoldenPositions);
  const auto goldens = golden_drafts("markov", kGoldenVocab);
  RecordingSampler sampler;
  DraftRequest request = rig.request(goldens[0], &sampler, 0);
  DraftRequest* const requests[] = {&request};
  rig.drafter().propose(requests);
  const float calibrated = request.draft[0].survival;
  EXPECT_NEAR(calibrated, 1.0 / (1.0 + std::exp(-static_cast<double>(request.draft[0].confidence) / 4.0)), 1e-6);
  constexpr uint64_t kOther = 7;
  for (int i = 0; i < 300; ++i) rig.drafter().verified({kOther, request.draft, 0, 1});
  rig.drafter().propose(requests);
  EXPECT_EQ(request.draft[0].survival, calibrated);
  request.bucket = 1;
  rig.drafter().propose(requests);
  EXPECT_LT(request.draft[0].survival, 0.3f * calibrated);
  request.bucket = 0;
  for (int i = 0; i < 300; ++i) rig.drafter().verified({0, request.draft, 0, 1});
  rig.drafter().propose(requests);
  EXPECT_LT(request.draft[0].survival, 0.7f * calibrated);
  rig.drafter().release(0);
  rig.drafter().propose(requests);
  EXPECT_EQ(request.draft[0].survival, calibrated);
}

}  // namespace
}  // namespace dspark
