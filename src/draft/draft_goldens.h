// The tiny drafters of tests/data/drafters and what PyTorch computes with them, and what tests need to run them: for
// tests only. The files are made by scripts/goldens/drafters.py, which describes them. One thread.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/mmap.h"
#include "draft/dspark_drafter.h"

namespace dspark {

inline constexpr int kGoldenPositions = 150, kGoldenHidden = 64, kGoldenVocab = 283;

struct GoldenDraft {
  std::vector<int32_t> tokens, proposal, draft;
  int count = 0;
  int window = 0;
  std::vector<float> confidences;
  std::vector<float> logits;  // [count, draft vocabulary]
};

inline std::string drafter_path(const std::string& name) { return DSPARK_TEST_DATA "/drafters/" + name; }

template <class T>
T checked(Result<T> result) {
  DSPARK_CHECK(result.ok(), "{}", result.error().message);
  return std::move(result).value();
}

inline std::vector<float> read_floats(const std::string& path) {
  const MappedFile file = checked(MappedFile::open(path));
  std::vector<float> out(file.bytes().size() / sizeof(float));
  std::memcpy(out.data(), file.bytes().data(), out.size() * sizeof(float));
  return out;
}

inline std::vector<GoldenDraft> golden_drafts(const std::string& name, int draft_vocab) {
  const std::vector<float> floats = read_floats(drafter_path(name) + "/goldens.bin");
  const MappedFile text = checked(MappedFile::open(drafter_path(name) + "/goldens.json"));
  std::vector<GoldenDraft> out;
  const auto json = nlohmann::json::parse(text.bytes().begin(), text.bytes().end());
  for (const auto& from : json.at("drafts")) {
    GoldenDraft& draft = out.emplace_back();
    draft.tokens = from.at("tokens").get<std::vector<int32_t>>();
    draft.proposal = from.at("proposal").get<std::vector<int32_t>>();
    draft.draft = from.at("draft").get<std::vector<int32_t>>();
    draft.count = from.at("count");
    draft.window = from.at("window");
    draft.confidences = from.at("confidences").get<std::vector<float>>();
    const float* first = floats.data() + from.at("logits").get<size_t>();
    draft.logits.assign(first, first + draft.count * draft_vocab);
  }
  return out;
}

// Draws the likeliest token and keeps the logits.
class RecordingSampler : public DraftSampler {
 public:
  int32_t draw(const float* logits, int position, std::span<const int32_t> drafted) override {
    rows.emplace_back(logits, logits + kGoldenVocab);
    positions.push_back(position);
    return static_cast<int32_t>(ops(Isa::kPortable).argmax(logits, kGoldenVocab));
  }
  std::vector<std::vector<float>> rows;
  std::vector<int> positions;
};

// A tiny drafter with the KV of one sequence, whose features are features.bin.
class GoldenRig {
 public:
  struct Options {
    Isa isa = Isa::kPortable;
    int threads = 2;
    DType kv_type = DType::kF32;
    LoadOptions load = {};
    Calibration calibration = {};
  };

  GoldenRig(const std::string& path, const Options& options)
      : pool_({.threads = options.threads}),
        target_(checked(Model::load(checked(ModelFile::open(DSPARK_TEST_DATA "/models/llama/hf")), pool_, {}))),
        features_(read_floats(drafter_path("features.bin"))) {
    drafter_ = checked(DsparkDrafter::load(
        checked(ModelFile::open(path)), target_, pool_, options.isa, std::make_shared<NgramStore>(),
        {.kv_type = options.kv_type, .kv_offset = 64, .load = options.load, .calibration = options.calibration}));
    int64_t bytes = 64;
    for (const KvLayout& layout : drafter_->kv_layouts()) bytes += layout.tile_bytes();
    for (int b = 0; b < 2; ++b) {
      // What was never written must not matter.
      memory_.emplace_back(static_cast<size_t>(bytes), uint8_t{0xFF});
      blocks_.push_back(memory_.back().data());
    }
  }

  // Positions [first, last) of the features.
  void inject(int first, int last) {
    std::vector<ComputedRow> rows;
    for (int p = first; p < last; ++p) rows.push_back({blocks_[static_cast<size_t>(p / kTilePositions)], p, p});
    drafter_->computed(rows, features_.data(), kGoldenPositions);
  }

  DraftRequest request(const GoldenDraft& golden, DraftSampler* sampler, uint64_t sequence) {
    return {.sequence = sequence,
            .tokens = golden.tokens,
            .blocks = blocks_,
            .window = golden.window,
            .max_tokens = golden.count,
            .sampler = sampler};
  }

  DsparkDrafter& drafter() { return *drafter_; }
  const std::vector<std::vector<uint8_t>>& memory() const { return memory_; }
  const Model& target() const { return target_; }

 private:
  ThreadPool pool_;
  Model target_;
  std::vector<float> features_;
  std::unique_ptr<DsparkDrafter> drafter_;
  std::vector<std::vector<uint8_t>> memory_;
  std::vector<uint8_t*> blocks_;
};

}  // namespace dspark
