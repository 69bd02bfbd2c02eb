// The real SmolLM2 vocabulary against ids by the reference tokenizers (scripts/goldens/tokenizer_goldens.py). Needs the
// model: DSPARK_TEST_MODEL, which `make test` sets.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "engine/model_text.h"

namespace dspark {
namespace {

nlohmann::json read_golden(const std::string& name) {
  std::ifstream file(std::string(DSPARK_TEST_DATA) + "/tokenizers/" + name);
  return nlohmann::json::parse(file);
}

std::string ids_hash(const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) {
    if (!text.empty()) text += ' ';
    text += std::to_string(id);
  }
  return to_hex(sha256(text)).substr(0, 12);
}

TEST(TokenizerOfTheDefaultModel, EncodesLikeTheReference) {
  const char* path = std::getenv("DSPARK_TEST_MODEL");
  if (path == nullptr || *path == '\0') {
    std::cout << "[ note     ] DSPARK_TEST_MODEL is not set: the real tokenizer was NOT checked (make test sets it)\n";
    return;
  }
  auto file = ModelFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  auto tokenizer = load_tokenizer(*file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  const auto texts = read_golden("texts.json");
  const auto goldens = read_golden("smollm2-135m.json");
  std::string all;
  for (size_t i = 0; i < texts["written"].size(); ++i) {
    const auto text = texts["written"][i].get<std::string>();
    const auto ids = tokenizer->encode(text, {.add_special = false});
    EXPECT_EQ(ids, goldens["ids"][i].get<std::vector<int32_t>>()) << text;
    EXPECT_EQ(tokenizer->decode(ids, /*skip_special=*/false), text);
  }
  for (size_t i = 0; i < texts["random"].size(); ++i) {
    const auto text = texts["random"][i].get<std::string>();
    EXPECT_EQ(ids_hash(tokenizer->encode(text, {.add_special = false})), goldens["hashes"][i].get<std::string>())
        << text;
    all += text;
  }
  EncodeOptions parts;
  parts.threads = 3;
  parts.min_part_bytes = 64;
  EXPECT_EQ(tokenizer->encode(all, parts), tokenizer->encode(all));
}

}  // namespace
}  // namespace dspark
