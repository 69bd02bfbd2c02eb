// The tiny models of tests/data/models through the whole engine, against transformers. See tiny_goldens.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "engine/runner.h"
#include "engine/tiny_goldens.h"

namespace dspark {
namespace {

// Float weights with F32 KV, as a share of the largest logit. Float sums in another order give about 1e-6.
constexpr float kFloatTolerance = 1e-4f;

// Quantised weights. The engine rounds the inputs of every product to int8: x becomes s * round(x / s) with
// s = amax / 127 in each block of 32, which moves each input by a nearly uniform error within s / 2 and nothing else
// (the integer dot products are exact). An error of that kind gives a logit the standard deviation `sigma`, which
// quantised.py measured for each position by moving the inputs at random by up to s / 2. Six of it is a bound that a
// sum of hundreds of independent errors does not pass.
constexpr float kSigmas = 6.0f;
// Against the same rounding done in floats only the order of float sums differs. At the positions that the golden calls
// steady that changes no q, so that there the engine must agree as closely as with float weights: a wrong scale,
// minimum or code would show, however small. (Elsewhere one q may differ by a step, and everything behind it with it.)

struct Source {
  const char* model;
  const char* file;  // below the model's folder
};
void PrintTo(const Source& source, std::ostream* out) { *out << source.model << "/" << source.file; }

constexpr Source kFloatSources[] = {
    {"llama", "llama.gguf"},
    {"llama", "hf"},
    {"llama3", "llama3-00001-of-00002.gguf"},
    {"llama3", "hf"},
    {"llama-bias", "llama-bias.gguf"},
    {"llama-bias", "hf"},
    {"qwen2", "qwen2.gguf"},
    {"qwen2", "hf"},
    {"qwen3", "qwen3.gguf"},
    {"qwen3", "hf"},
    {"qwen3moe", "qwen3moe.gguf"},
    {"qwen3moe", "hf"},
    {"qwen3moe-nonorm", "hf"},
    {"gemma3", "gemma3.gguf"},
    {"gemma3", "hf"},
    {"gemma3-types", "hf"},
};

std::unique_ptr<Runner> open_runner(const std::string& path, RunnerOptions options = {}) {
  options.threads = 2;
  options.kv_type = DType::kF32;
  const auto file = ModelFile::open(tiny_path(path));
  DSPARK_CHECK(file.ok(), "{}", file.error().message);
  auto runner = Runner::create(*file, options);
  DSPARK_CHECK(runner.ok(), "{}", runner.error().message);
  return std::move(runner).value();
}

struct Outcome {
  std::vector<float> logits;  // [tokens, vocab]
  std::vector<float> hidden;  // [layers, tokens, hidden]
};

// All logits of `tokens`, computed `chunk` rows a step.
Outcome forward(Runner& runner, const std::vector<int32_t>& tokens, size_t chunk, std::span<const int> layers = {}) {
  const size_t vocab = static_cast<size_t>(runner.config().vocab);
  const size_t hidden = static_cast<size_t>(runner.config().hidden);
  Outcome out;
  out.hidden.resize(layers.size() * tokens.size() * hidden);
  SequenceKv sequence = runner.new_sequence();
  for (size_t at = 0; at < tokens.size(); at += chunk) {
    const size_t count = std::min(chunk, tokens.size() - at);
    std::vector<RunRow> rows;
    for (size_t i = 0; i < count; ++i) rows.push_back({&sequence, tokens[at + i], true});
    const auto step = runner.run(rows, layers);
    DSPARK_CHECK(step.ok(), "{}", step.error().message);
    out.logits.insert(out.logits.end(), step->logits, step->logits + count * vocab);
    for (size_t l = 0; l < layers.size(); ++l) {
      std::copy_n(step->hidden + l * count * hidden, count * hidden,
                  out.hidden.begin() + static_cast<ptrdiff_t>((l * tokens.size() + at) * hidden));
    }
  }
  return out;
}

// The rows `positions` of a [*, width] array.
std::vector<float> rows_at(std::span<const float> values, const std::vector<int>& positions, int width) {
  std::vector<float> out;
  for (const int p : positions) {
    const auto row = values.subspan(static_cast<size_t>(p) * static_cast<size_t>(width), static_cast<size_t>(width));
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

float largest(std::span<const float> values) {
  float out = 0.0f;
  for (const float x : values) out = std::max(out, std::abs(x));
  return out;
}

// The largest |a - b|; infinity where either is no number.
float distance(std::span<const float> a, std::span<const float> b) {
  DSPARK_CHECK(a.size() == b.size(), "{} values against {}", a.size(), b.size());
  float out = 0.0f;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return INFINITY;
    out = std::max(out, std::abs(a[i] - b[i]));
  }
  return out;
}

double rms_distance(std::span<const float> a, std::span<const float> b) {
  DSPARK_CHECK(a.size() == b.size(), "{} values against {}", a.size(), b.size());
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - double{b[i]}, 2);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

class FloatModel : public testing::TestWithParam<Source> {
 protected:
  const std::string path_ = std::string(GetParam().model) + "/" + GetParam().file;
  const TinyGoldens goldens_ = load_tiny_goldens(GetParam().model);
  const std::unique_ptr<Runner> runner_ = open_runner(path_);
};
INSTANTIATE_TEST_SUITE_P(Tiny, FloatModel, testing::ValuesIn(kFloatSources), [](const auto& test) {
  std::string name = std::string(test.param.model) + "_" + (std::string(test.param.file) == "hf" ? "hf" : "gguf");
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(FloatModel, LogitsEqualTransformers) {
  ASSERT_EQ(runner_->config().vocab, goldens_.vocab);
  for (const GoldenPrompt& prompt : goldens_.prompts) {
    const Outcome outcome = forward(*runner_, prompt.tokens, prompt.tokens.size());
    const auto logits = rows_at(outcome.logits, prompt.positions, goldens_.vocab);
    EXPECT_LE(distance(logits, prompt.logits), kFloatTolerance * largest(prompt.logits))
        << "prompt of " << prompt.tokens.size();
  }
}

TEST_P(FloatModel, HiddenStatesEqualTransformers) {
  for (const GoldenPrompt& prompt : goldens_.prompts) {
    std::vector<int> layers;
    for (const auto& hidden : prompt.hidden) layers.push_back(hidden.layer);
    const Outcome outcome = forward(*runner_, prompt.tokens, prompt.tokens.size(), layers);
    const size_t layer_size = prompt.tokens.size() * static_cast<size_t>(goldens_.hidden_size);
    for (size_t l = 0; l < layers.size(); ++l) {
      const auto layer = std::span(outcome.hidden).subspan(l * layer_size, layer_size);
      const auto values = rows_at(layer, prompt.hidden_positions, goldens_.hidden_size);
      EXPECT_LE(distance(values, prompt.hidden[l].values), kFloatTolerance * largest(prompt.hidden[l].values))
          << "layer " << layers[l] << ", prompt of " << prompt.tokens.size();
    }
  }
}

// row_law_test.cc has the logits.
TEST_P(FloatModel, ChunksChangeNoHiddenState) {
  const GoldenPrompt& prompt = goldens_.prompts.back();
  const std::vector<int> layers = {0, runner_->config().layers - 1};
  const Outcome whole = forward(*runner_, prompt.tokens, prompt.tokens.size(), layers);
  for (const size_t chunk : {size_t{1}, size_t{7}, size_t{64}}) {
    EXPECT_TRUE(same_bits(forward(*runner_, prompt.tokens, chunk, layers).hidden, whole.hidden)) << chunk;
  }
}

TEST_P(FloatModel, GreedyEqualsTransformers) {
  for (const GoldenPrompt& prompt : goldens_.prompts) {
    SequenceKv sequence = runner_->new_sequence();
    std::vector<RunRow> rows;
    for (const int32_t token : prompt.tokens) rows.push_back({&sequence, token});
    rows.back().wants_logits = true;
    std::vector<int32_t> continuation;
    while (continuation.size() < prompt.greedy.size()) {
      const auto step = runner_->run(rows);
      ASSERT_TRUE(step.ok()) << step.error().message;
      continuation.push_back(static_cast<int32_t>(runner_->ops().argmax(step->logits, goldens_.vocab)));
      rows = {{&sequence, continuation.back(), true}};
    }
    EXPECT_EQ(continuation, prompt.greedy) << "prompt of " << prompt.tokens.size();
  }
}

// The folder holds F32, BF16 or F16 and the GGUF F32, BF16 or F16 of the same values: the arithmetic is the same.
TEST(TinyModels, FolderAndGgufGiveTheSameBits) {
  for (const Source& source : kFloatSources) {
    const std::string name = source.model;
    if (std::string(source.file) == "hf") continue;
    const auto gguf = open_runner(name + "/" + source.file);
    const auto folder = open_runner(name + "/hf");
    const std::vector<int32_t> tokens = load_tiny_goldens(name).prompts.back().tokens;
    const Outcome a = forward(*gguf, tokens, tokens.size());
    const Outcome b = forward(*folder, tokens, tokens.size());
    if (name == "llama3") {
      // The converter computed rope_freqs in float32, we compute the factors from the folder's numbers in double.
      EXPECT_LE(distance(a.logits, b.logits), 1e-5f * largest(a.logits)) << name;
    } else {
      EXPECT_TRUE(same_bits(a.logits, b.logits)) << name;
    }
  }
}

void check_quantised_files(const std::string& folder) {
  const TinyGoldens goldens = load_tiny_goldens(folder);
  const size_t vocab = static_cast<size_t>(goldens.vocab);
  for (const GoldenFile& file : goldens.files) {
    const auto runner = open_runner(folder + "/" + file.name);
    int steady = 0;
    for (size_t i = 0; i < goldens.prompts.size(); ++i) {
      const GoldenPrompt& prompt = goldens.prompts[i];
      const GoldenFile::Logits& golden = file.prompts[i];
      const Outcome outcome = forward(*runner, prompt.tokens, prompt.tokens.size());
      const auto logits = rows_at(outcome.logits, prompt.positions, goldens.vocab);
      for (size_t p = 0; p < prompt.positions.size(); ++p) {
        SCOPED_TRACE(fmt::format("{}, prompt {}, position {}", file.name, i, prompt.positions[p]));
        const auto row = std::span(logits).subspan(p * vocab, vocab);
        EXPECT_LE(distance(row, golden.exact.subspan(p * vocab, vocab)), kSigmas * golden.sigma[p]);
        if (!golden.steady[p]) continue;
        ++steady;
        EXPECT_LE(distance(row, golden.rounded.subspan(p * vocab, vocab)), kFloatTolerance * largest(golden.rounded));
      }
    }
    EXPECT_GE(steady, 4) << file.name;
  }
}

TEST(QuantisedModels, EqualDequantisedWeights) { check_quantised_files("quant"); }
TEST(QuantisedModels, ExpertsEqualDequantisedWeights) { check_quantised_files("quant-moe"); }

// A folder quantised while it is loaded, against the same weights quantised by llama-quantize. The plain formats have
// one right answer, hence the same bits; for the others a search decides, and ours must come as close to the
// unquantised model. A third is allowed for luck: a few rows of one layer make few independent errors. (The errors of
// the weights themselves are compared in kernels/formats.)
TEST(QuantisedModels, LoadTimeQuantisationIsAsGoodAsLlamaQuantize) {
  constexpr double kLuck = 1.33;
  const TinyGoldens goldens = load_tiny_goldens("quant");
  for (const GoldenFile& file : goldens.files) {
    const auto type = dtype_from_name(file.type);
    ASSERT_TRUE(type.ok()) << type.error().message;
    const auto loaded = open_runner("quant/hf", {.quantize = *type});
    const auto from_file = open_runner("quant/" + file.name);
    std::vector<float> ours, theirs, exact;
    for (size_t i = 0; i < goldens.prompts.size(); ++i) {
      const GoldenPrompt& prompt = goldens.prompts[i];
      const auto append = [&](std::vector<float>* to, Runner& runner) {
        const Outcome outcome = forward(runner, prompt.tokens, prompt.tokens.size());
        const auto rows = rows_at(outcome.logits, prompt.positions, goldens.vocab);
        to->insert(to->end(), rows.begin(), rows.end());
      };
      append(&ours, *loaded);
      append(&theirs, *from_file);
      exact.insert(exact.end(), goldens.unquantised[i].begin(), goldens.unquantised[i].end());
    }
    const bool plain = *type == DType::kQ8_0 || *type == DType::kQ4_0 || *type == DType::kQ4_1 ||
                       *type == DType::kQ5_0 || *type == DType::kQ5_1;
    if (plain) {
      EXPECT_TRUE(same_bits(ours, theirs)) << file.type << ", differ by up to " << distance(ours, theirs);
    }
    EXPECT_LE(rms_distance(ours, exact), kLuck * rms_distance(theirs, exact)) << file.type;
  }
}

// llama-quantize leaves the router in floats, and so do we.
TEST(QuantisedModels, LoadTimeQuantisedExpertsEqualTheFile) {
  const std::vector<int32_t> tokens = load_tiny_goldens("quant-moe").prompts[0].tokens;
  const auto loaded = open_runner("qwen3moe/hf", {.quantize = DType::kQ4_0});
  const auto from_file = open_runner("quant-moe/quant-moe-q4_0.gguf");
  EXPECT_TRUE(
      same_bits(forward(*loaded, tokens, tokens.size()).logits, forward(*from_file, tokens, tokens.size()).logits));
}

}  // namespace
}  // namespace dspark
