// The tiny models of tests/data/models and what transformers computes from them: for tests only. The files are made by
// scripts/goldens/models.py and quantised.py, which describe them. Any thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/mmap.h"

namespace dspark {

// What a prompt gives at some of its positions. Logits are [positions, vocab].
struct GoldenPrompt {
  std::vector<int32_t> tokens;
  std::vector<int> positions;
  std::span<const float> logits;

  struct Hidden {
    int layer;
    std::span<const float> values;  // [hidden_positions, hidden_size]: the layer's output, before any final norm
  };
  std::vector<int> hidden_positions;
  std::vector<Hidden> hidden;
  std::vector<int32_t> greedy;  // continues the prompt by argmax
};

// A quantised file, and the logits of its dequantised weights at the positions of each prompt.
struct GoldenFile {
  struct Logits {
    std::span<const float> exact;    // float activations
    std::span<const float> rounded;  // activations rounded to int8 in blocks of 32
    std::vector<float> sigma;        // [positions]: standard deviation of a logit under that rounding
    std::vector<bool> steady;        // [positions]: whether float rounding cannot change what is rounded to int8
  };
  std::string name;
  std::string type;
  std::vector<Logits> prompts;
};

struct TinyGoldens {
  int vocab = 0;
  int hidden_size = 0;
  std::vector<GoldenPrompt> prompts;
  std::vector<GoldenFile> files;
  std::vector<std::span<const float>> unquantised;  // logits of the prompts with the weights of the folder
  std::vector<float> values;                        // what the spans point into
};

inline std::string tiny_path(const std::string& name) { return std::string(DSPARK_TEST_DATA "/models/") + name; }

// `name` is a folder of tests/data/models. A broken file ends the test program.
inline TinyGoldens load_tiny_goldens(const std::string& name) {
  const auto read = [](const std::string& path) {
    auto file = MappedFile::open(path);
    DSPARK_CHECK(file.ok(), "{}", file.error().message);
    return std::move(file).value();
  };
  TinyGoldens out;
  const MappedFile floats = read(tiny_path(name) + "/goldens.bin");
  out.values.resize(floats.bytes().size() / sizeof(float));
  std::memcpy(out.values.data(), floats.bytes().data(), out.values.size() * sizeof(float));
  const MappedFile text = read(tiny_path(name) + "/goldens.json");
  const auto json = nlohmann::json::parse(text.bytes().begin(), text.bytes().end());
  out.vocab = json.at("vocab");
  out.hidden_size = json.at("hidden_size");
  const auto rows = [&](const nlohmann::json& offset, size_t count, int width) {
    return std::span<const float>(out.values).subspan(offset.get<size_t>(), count * static_cast<size_t>(width));
  };
  for (const auto& from : json.at("prompts")) {
    GoldenPrompt& prompt = out.prompts.emplace_back();
    prompt.tokens = from.at("tokens").get<std::vector<int32_t>>();
    prompt.positions = from.at("positions").get<std::vector<int>>();
    if (!from.contains("logits")) continue;
    prompt.logits = rows(from.at("logits"), prompt.positions.size(), out.vocab);
    prompt.hidden_positions = from.at("hidden_positions").get<std::vector<int>>();
    prompt.greedy = from.at("greedy").get<std::vector<int32_t>>();
    for (const auto& hidden : from.at("hidden")) {
      prompt.hidden.push_back(
          {hidden.at("layer"), rows(hidden.at("values"), prompt.hidden_positions.size(), out.hidden_size)});
    }
  }
  for (const auto& from : json.value("files", nlohmann::json::array())) {
    GoldenFile& file = out.files.emplace_back(GoldenFile{from.at("file"), from.at("type"), {}});
    for (size_t i = 0; i < out.prompts.size(); ++i) {
      const auto& of = from.at("prompts").at(i);
      const size_t count = out.prompts[i].positions.size();
      file.prompts.push_back({rows(of.at("logits"), count, out.vocab), rows(of.at("rounded"), count, out.vocab),
                              of.at("sigma").get<std::vector<float>>(), of.at("steady").get<std::vector<bool>>()});
    }
  }
  for (const auto& from : json.value("unquantised", nlohmann::json::array())) {
    const size_t i = out.unquantised.size();
    out.unquantised.push_back(rows(from.at("logits"), out.prompts[i].positions.size(), out.vocab));
  }
  return out;
}

}  // namespace dspark
