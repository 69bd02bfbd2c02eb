// For tests: the goldens under tests/data/tokenizers (scripts/goldens/tokenizer_goldens.py), and metadata of GGUF kind
// made from them. One thread.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "text/tokenizer.h"

namespace dspark::golden {

inline std::string read_file(const std::string& name) {
  const std::string path = std::string(DSPARK_TEST_DATA) + "/tokenizers/" + name;
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(file.good() && !text.str().empty()) << "cannot read " << path;
  return text.str();
}

inline nlohmann::json read_json(const std::string& name) { return nlohmann::json::parse(read_file(name)); }

// As ids_hash of the script: of the ids in decimal with spaces between.
template <class Range>
std::string ids_hash(const Range& ids) {
  std::string text;
  for (const auto& id : ids) text += (text.empty() ? "" : " ") + std::to_string(id);
  return to_hex(sha256(text)).substr(0, 12);
}

inline const std::vector<std::string>& texts(const std::string& kind) {
  static const auto all = read_json("texts.json").get<std::map<std::string, std::vector<std::string>>>();
  return all.at(kind);
}

// The tokenizer of a spec that must be right.
inline Tokenizer make(Result<TokenizerSpec> spec) {
  EXPECT_TRUE(spec.ok()) << spec.error().message;
  auto tokenizer = Tokenizer::create(std::move(spec).value());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return std::move(tokenizer).value();
}

inline Tokenizer from_json(const std::string& name) {
  return make(tokenizer_spec_from_json(read_file(name + "/tokenizer.json"), ""));
}

// Key/value pairs set by hand.
class FakeMetadata final : public MetadataView {
 public:
  std::map<std::string, std::string, std::less<>> strings;
  std::map<std::string, int64_t, std::less<>> ints;
  std::map<std::string, bool, std::less<>> bools;
  std::map<std::string, std::vector<std::string>, std::less<>> string_arrays;
  std::map<std::string, std::vector<float>, std::less<>> float_arrays;
  std::map<std::string, std::vector<int32_t>, std::less<>> int_arrays;
  std::map<std::string, std::string, std::less<>> byte_arrays;

  bool contains(std::string_view key) const override {
    return strings.contains(key) || ints.contains(key) || bools.contains(key) || string_arrays.contains(key) ||
           float_arrays.contains(key) || int_arrays.contains(key) || byte_arrays.contains(key);
  }
  std::optional<std::string_view> get_string(std::string_view key) const override {
    return get<std::string_view>(strings, key);
  }
  std::optional<int64_t> get_int(std::string_view key) const override { return get<int64_t>(ints, key); }
  std::optional<bool> get_bool(std::string_view key) const override { return get<bool>(bools, key); }
  std::optional<std::vector<std::string_view>> get_strings(std::string_view key) const override {
    const auto it = string_arrays.find(key);
    if (it == string_arrays.end()) return std::nullopt;
    return std::vector<std::string_view>(it->second.begin(), it->second.end());
  }
  std::optional<std::vector<float>> get_floats(std::string_view key) const override {
    return get<std::vector<float>>(float_arrays, key);
  }
  std::optional<std::vector<int32_t>> get_ints(std::string_view key) const override {
    return get<std::vector<int32_t>>(int_arrays, key);
  }
  std::optional<std::string_view> get_bytes(std::string_view key) const override {
    return get<std::string_view>(byte_arrays, key);
  }

 private:
  template <class T, class Map>
  static std::optional<T> get(const Map& map, std::string_view key) {
    const auto it = map.find(key);
    if (it == map.end()) return std::nullopt;
    return T(it->second);
  }
};

// The vocabulary of NAME/tokenizer.json as a GGUF file with tokenizer.ggml.pre = `pre` has it (empty: without).
inline FakeMetadata byte_level_metadata(const std::string& name, const std::string& pre) {
  const auto root = read_json(name + "/tokenizer.json");
  FakeMetadata out;
  out.strings["tokenizer.ggml.model"] = "gpt2";
  if (!pre.empty()) out.strings["tokenizer.ggml.pre"] = pre;
  auto& tokens = out.string_arrays["tokenizer.ggml.tokens"];
  auto& kinds = out.int_arrays["tokenizer.ggml.token_type"];
  auto put = [&](const std::string& text, size_t id, TokenKind kind) {
    if (tokens.size() <= id) {
      tokens.resize(id + 1);
      kinds.resize(id + 1, 1);
    }
    tokens[id] = text;
    kinds[id] = static_cast<int32_t>(kind);
  };
  for (const auto& [text, id] : root["model"]["vocab"].items()) put(text, id.get<size_t>(), TokenKind::kNormal);
  for (const auto& token : root["added_tokens"]) {
    put(token["content"], token["id"].get<size_t>(),
        token["special"].get<bool>() ? TokenKind::kControl : TokenKind::kUserDefined);
  }
  auto& merges = out.string_arrays["tokenizer.ggml.merges"];
  for (const auto& merge : root["model"]["merges"]) {
    merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  return out;
}

// A SentencePiece model (NAME/model.json) as a GGUF file has it.
inline FakeMetadata sentencepiece_metadata(const nlohmann::json& model) {
  FakeMetadata out;
  out.strings["tokenizer.ggml.model"] = model["model"].get<std::string>();
  out.string_arrays["tokenizer.ggml.tokens"] = model["tokens"].get<std::vector<std::string>>();
  out.float_arrays["tokenizer.ggml.scores"] = model["scores"].get<std::vector<float>>();
  out.int_arrays["tokenizer.ggml.token_type"] = model["types"].get<std::vector<int32_t>>();
  out.ints["tokenizer.ggml.unknown_token_id"] = model["unknown"].get<int64_t>();
  out.bools["tokenizer.ggml.add_space_prefix"] = model["add_space_prefix"].get<bool>();
  out.bools["tokenizer.ggml.remove_extra_whitespaces"] = model["remove_extra_whitespaces"].get<bool>();
  return out;
}

}  // namespace dspark::golden
