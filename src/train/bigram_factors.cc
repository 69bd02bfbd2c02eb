// See bigram_factors.h.
#include "train/bigram_factors.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "train/batch_maker.h"

namespace dspark {
namespace {

struct Entry {
  int32_t row, column;
  float value;
};

std::vector<Entry> bigram_table(const TrainData& data, const DraftVocabulary& vocabulary) {
  std::map<std::pair<int32_t, int32_t>, int64_t> pairs;
  std::vector<int64_t> before(static_cast<size_t>(vocabulary.target_size)),
      after(static_cast<size_t>(vocabulary.rows()));
  int64_t total = 0;
  for (const TrainConversation& conversation : data.train) {
    for (const auto& [first, end] : conversation.answers) {
      for (int32_t i = first; i < end; ++i) {
        const int32_t previous = conversation.tokens[static_cast<size_t>(i) - 1];
        const int32_t row = vocabulary.row(conversation.tokens[static_cast<size_t>(i)]);
        ++total;
        ++before[static_cast<size_t>(previous)];
        if (row < 0) continue;
        ++pairs[{previous, row}];
        ++after[static_cast<size_t>(row)];
      }
    }
  }
  std::vector<Entry> table;
  for (const auto& [pair, count] : pairs) {
    const double expected = static_cast<double>(before[static_cast<size_t>(pair.first)]) *
                            static_cast<double>(after[static_cast<size_t>(pair.second)]) / static_cast<double>(total);
    const double value = std::log((static_cast<double>(count) + expected) / (1.0 + expected));
    if (value > 0) table.push_back({pair.first, pair.second, static_cast<float>(value)});
  }
  return table;
}

// out [rows, width] = table in, in [columns, width]; with `back`, out [columns, width] = table^T in.
void apply(const std::vector<Entry>& table, bool back, int64_t width, const std::vector<float>& in,
           std::vector<float>* out) {
  std::fill(out->begin(), out->end(), 0.0f);
  for (const Entry& entry : table) {
    const float* from = in.data() + (back ? entry.row : entry.column) * width;
    float* to = out->data() + (back ? entry.column : entry.row) * width;
    for (int64_t i = 0; i < width; ++i) to[i] += entry.value * from[i];
  }
}

// Gram-Schmidt over the columns of x [rows, width], twice, as floats lose orthogonality.
void orthonormalise(int64_t width, std::vector<float>* x) {
  const int64_t rows = static_cast<int64_t>(x->size()) / width;
  std::vector<float> columns(x->size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < width; ++c)
      columns[static_cast<size_t>(c * rows + r)] = (*x)[static_cast<size_t>(r * width + c)];
  }
  for (int pass = 0; pass < 2; ++pass) {
    for (int64_t c = 0; c < width; ++c) {
      float* column = columns.data() + c * rows;
      for (int64_t other = 0; other < c; ++other) {
        const float* before = columns.data() + other * rows;
        double dot = 0;
        for (int64_t r = 0; r < rows; ++r) dot += double{column[r]} * before[r];
        for (int64_t r = 0; r < rows; ++r) column[r] -= static_cast<float>(dot) * before[r];
      }
      double squares = 0;
      for (int64_t r = 0; r < rows; ++r) squares += double{column[r]} * column[r];
      const auto length = static_cast<float>(std::sqrt(squares));
      const float inverse = length > 1e-20f ? 1.0f / length : 0.0f;
      for (int64_t r = 0; r < rows; ++r) column[r] *= inverse;
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < width; ++c)
      (*x)[static_cast<size_t>(r * width + c)] = columns[static_cast<size_t>(c * rows + r)];
  }
}

}  // namespace

BigramFactors bigram_factors(const TrainData& data, const DraftVocabulary& vocabulary, int rank, uint64_t seed) {
  const std::vector<Entry> table = bigram_table(data, vocabulary);
  const auto rows = static_cast<size_t>(vocabulary.target_size), columns = static_cast<size_t>(vocabulary.rows());
  const auto width = static_cast<size_t>(rank);
  BigramFactors out = {std::vector<float>(rows * width), std::vector<float>(columns * width)};
  StepRandom random(seed, 0);
  for (float& x : out.w2) x = static_cast<float>(random.uniform() - 0.5);
  constexpr int kRounds = 4;  // each sharpens the subspace of the largest singular values
  for (int round = 0; round < kRounds; ++round) {
    apply(table, false, rank, out.w2, &out.w1);
    orthonormalise(rank, &out.w1);
    apply(table, true, rank, out.w1, &out.w2);
    if (round + 1 < kRounds) orthonormalise(rank, &out.w2);
  }
  // table ~ w1 w2^T with w1 orthonormal; both sides get the same lengths, column by column.
  for (size_t c = 0; c < width; ++c) {
    double squares = 0;
    for (size_t r = 0; r < columns; ++r) squares += double{out.w2[r * width + c]} * out.w2[r * width + c];
    const double root = std::sqrt(std::sqrt(squares));
    if (root <= 0) continue;
    for (size_t r = 0; r < rows; ++r) out.w1[r * width + c] *= static_cast<float>(root);
    for (size_t r = 0; r < columns; ++r) out.w2[r * width + c] /= static_cast<float>(root);
  }
  return out;
}

}  // namespace dspark
