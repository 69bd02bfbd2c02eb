// The row law on whole models: the logits of a sequence have the same bits for every chunk size, thread count,
// instruction set and set of neighbours. On the tiny models always; on the default model where DSPARK_TEST_MODEL
// names its file (make test sets it).
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>

#include "engine/runner.h"

namespace dspark {
namespace {

struct Setting {
  Isa isa = best_isa();
  int threads = 1;
  int chunk = 1 << 20;
  int neighbours = 0;
  DType kv_type = DType::kF16;
};

// Logits of every position of `tokens`, [tokens, vocab].
std::vector<float> logits_of(const std::string& path, const std::vector<int32_t>& tokens, const Setting& setting) {
  Result<ModelFile> file = ModelFile::open(path);
  EXPECT_TRUE(file.ok()) << file.error().message;
  auto created = Runner::create(*file, {.threads = setting.threads, .isa = setting.isa, .kv_type = setting.kv_type});
  EXPECT_TRUE(created.ok()) << created.error().message;
  Runner& runner = **created;
  const size_t vocab = static_cast<size_t>(runner.config().vocab);
  std::mt19937 random(7);
  std::vector<SequenceKv> others;
  for (int i = 0; i < setting.neighbours; ++i) others.push_back(runner.new_sequence());
  SequenceKv sequence = runner.new_sequence();
  std::vector<float> out;
  for (size_t first = 0; first < tokens.size();) {
    const size_t end = std::min(tokens.size(), first + static_cast<size_t>(setting.chunk));
    // Some neighbours in front, some behind; each takes 1 to 5 rows of its own.
    std::vector<RunRow> rows;
    auto add_neighbours = [&](size_t begin, size_t stop) {
      for (size_t n = begin; n < stop; ++n) {
        const int count = 1 + static_cast<int>(random() % 5);
        for (int i = 0; i < count; ++i) {
          rows.push_back({&others[n], static_cast<int32_t>(random() % vocab), random() % 2 == 0});
        }
      }
    };
    const size_t split = others.empty() ? 0 : random() % (others.size() + 1);
    add_neighbours(0, split);
    size_t ahead = 0;
    for (const RunRow& row : rows) ahead += row.wants_logits ? 1 : 0;
    for (size_t i = first; i < end; ++i) rows.push_back({&sequence, tokens[i], true});
    add_neighbours(split, others.size());
    const Result<StepOutput> step = runner.run(rows);
    EXPECT_TRUE(step.ok());
    const float* own = step->logits + ahead * vocab;
    out.insert(out.end(), own, own + (end - first) * vocab);
    first = end;
  }
  return out;
}

std::vector<int32_t> random_tokens(size_t count, int vocab) {
  std::mt19937 random(11);
  std::vector<int32_t> out(count);
  for (int32_t& token : out) token = static_cast<int32_t>(random() % static_cast<unsigned>(vocab));
  return out;
}

void expect_same(const std::vector<float>& a, const std::vector<float>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << what;
}

void check_row_law(const std::string& path, size_t length, size_t portable_length, int vocab) {
  const std::vector<int32_t> tokens = random_tokens(length, vocab);
  const std::vector<float> whole = logits_of(path, tokens, {});
  for (float x : whole) ASSERT_TRUE(x == x) << "NaN";
  for (int chunk : {1, 7, 128}) expect_same(logits_of(path, tokens, {.chunk = chunk}), whole, "chunk");
  for (int threads : {2, 3}) expect_same(logits_of(path, tokens, {.threads = threads}), whole, "threads");
  for (int neighbours : {1, 5, 40}) {
    expect_same(logits_of(path, tokens, {.threads = 2, .chunk = 50, .neighbours = neighbours}), whole, "neighbours");
  }
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (!isa_supported(isa)) {
      std::cout << "[ here     ] this CPU has no " << isa_name(isa) << "\n";
      continue;
    }
    std::cout << "[ here     ] compared " << isa_name(isa) << "\n";
    expect_same(logits_of(path, tokens, {.isa = isa, .threads = 2}), whole, isa_name(isa));
  }
  const std::vector<int32_t> few(tokens.begin(), tokens.begin() + static_cast<int64_t>(portable_length));
  const std::vector<float> part(whole.begin(),
                                whole.begin() + static_cast<int64_t>(portable_length * whole.size() / length));
  expect_same(logits_of(path, few, {.isa = Isa::kPortable, .threads = 2}), part, "portable");
}

class TinyRowLaw : public testing::TestWithParam<const char*> {};

TEST_P(TinyRowLaw, HoldsBitForBit) {
  check_row_law(std::string(DSPARK_TEST_DATA "/models/") + GetParam(), 300, 150, 60);
}

INSTANTIATE_TEST_SUITE_P(EveryArchitecture, TinyRowLaw,
                         testing::Values("llama/llama.gguf", "llama3/llama3-00001-of-00002.gguf", "qwen2/qwen2.gguf",
                                         "qwen3/qwen3.gguf", "qwen3moe/qwen3moe.gguf", "gemma3/gemma3.gguf",
                                         "quant/quant-q4_k.gguf", "quant/quant-q6_k.gguf", "quant/quant-q2_k.gguf",
                                         "quant-moe/quant-moe-q4_0.gguf"));

TEST(KvTypes, EachObeysTheRowLaw) {
  const std::string path = DSPARK_TEST_DATA "/models/qwen3moe/qwen3moe.gguf";
  const std::vector<int32_t> tokens = random_tokens(200, 60);
  std::vector<std::vector<float>> all;
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0}) {
    all.push_back(logits_of(path, tokens, {.kv_type = type}));
    expect_same(logits_of(path, tokens, {.threads = 3, .chunk = 13, .neighbours = 3, .kv_type = type}), all.back(),
                dtype_info(type).name);
    expect_same(logits_of(path, tokens, {.isa = Isa::kPortable, .kv_type = type}), all.back(), dtype_info(type).name);
  }
  EXPECT_NE(all[0], all[3]);  // the type is really used
}

TEST(DefaultModelRowLaw, HoldsBitForBit) {
  const char* path = std::getenv("DSPARK_TEST_MODEL");
  if (path == nullptr) {
    std::cout << "[ note     ] DSPARK_TEST_MODEL is not set: the default model was NOT checked (make test sets it)\n";
    return;
  }
  check_row_law(path, 200, 6, 49152);
}

}  // namespace
}  // namespace dspark
