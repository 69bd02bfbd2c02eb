// The ids of the reference implementations (`tokenizers`, sentencepiece) for every kind of tokenizer, from
// tokenizer.json and from GGUF metadata: scripts/goldens/tokenizer_goldens.py.
#include <gtest/gtest.h>

#include "text/base64.h"
#include "text/golden_data.h"
#include "text/utf8.h"

namespace dspark {
namespace {

using golden::ids_hash;
using Ids = std::vector<int32_t>;

constexpr EncodeOptions kWithoutSpecial{.add_special = false};

// `goldens`: the "ids" of the texts of `kind` and the "hashes" of the random ones.
void expect_goldens(const Tokenizer& tokenizer, const nlohmann::json& goldens, const std::string& kind,
                    const EncodeOptions& options = kWithoutSpecial) {
  const auto& written = golden::texts(kind);
  ASSERT_EQ(written.size(), goldens["ids"].size());
  for (size_t i = 0; i < written.size(); ++i) {
    EXPECT_EQ(tokenizer.encode(written[i], options), goldens["ids"][i].get<Ids>()) << i << ": " << written[i];
  }
  const auto& random = golden::texts("random");
  ASSERT_EQ(random.size(), goldens["hashes"].size());
  for (size_t i = 0; i < random.size(); ++i) {
    EXPECT_EQ(ids_hash(tokenizer.encode(random[i], options)), goldens["hashes"][i].get<std::string>())
        << i << ": " << random[i];
  }
}

class JsonGoldens : public testing::TestWithParam<const char*> {};

TEST_P(JsonGoldens, EncodesLikeTheReference) {
  const std::string name = GetParam();
  const auto goldens = golden::read_json(name + "/ids.json");
  const Tokenizer tokenizer = golden::from_json(name);
  const std::string kind = name == "flags" ? "flags" : "written";
  expect_goldens(tokenizer, goldens, kind);
  EXPECT_EQ(tokenizer.encode(golden::texts(kind)[2]), goldens["with_special"].get<Ids>());
}

TEST_P(JsonGoldens, DecodesLikeTheReference) {
  const std::string name = GetParam();
  // The reference reads an added token's own text as byte alphabet when it decodes: "\u00e9t" becomes a broken byte.
  if (name == "flags") return;
  const auto goldens = golden::read_json(name + "/ids.json");
  const Tokenizer tokenizer = golden::from_json(name);
  for (size_t i = 0; i < goldens["ids"].size(); ++i) {
    const std::string text = replace_invalid_utf8(tokenizer.decode(goldens["ids"][i].get<Ids>(), false));
    const std::string hash = to_hex(sha256(text)).substr(0, 12);
    EXPECT_EQ(hash, goldens["decoded"][i].get<std::string>()) << i << ": " << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, JsonGoldens,
                         testing::Values("command-r", "deepseek-coder", "deepseek-llm", "deepseek-v3", "default",
                                         "falcon", "flags", "gemma-4", "gpt-2", "gpt-4o", "gpt-neox", "llama-2",
                                         "llama-bpe", "qwen2", "qwen35", "smollm", "t5", "tekken"));

struct Named {
  const char* pre;      // tokenizer.ggml.pre
  const char* goldens;  // the family with the same pre-tokenizer
};

class GgufGoldens : public testing::TestWithParam<Named> {};

TEST_P(GgufGoldens, NamedPreTokenizerEncodesLikeTheReference) {
  const auto [pre, family] = GetParam();
  auto goldens = golden::read_json(std::string(family) + "/ids.json");
  const Tokenizer tokenizer = golden::make(tokenizer_spec_from_gguf(golden::byte_level_metadata(family, pre)));
  // Without the family's normaliser, which a GGUF file does not name, some ids differ.
  const auto& written = golden::texts("written");
  const auto plain = goldens.value("plain", nlohmann::json::object());
  for (const auto& [index, hash] : plain.items()) {
    const size_t i = std::stoul(index);
    if (i >= written.size()) {
      goldens["hashes"][i - written.size()] = hash;
    } else {
      const Ids ids = tokenizer.encode(written[i], kWithoutSpecial);
      EXPECT_EQ(ids_hash(ids), hash.get<std::string>()) << written[i];
      goldens["ids"][i] = ids;
    }
  }
  expect_goldens(tokenizer, goldens, "written");
}

INSTANTIATE_TEST_SUITE_P(Names, GgufGoldens,
                         testing::Values(Named{"command-r", "command-r"}, Named{"deepseek-coder", "deepseek-coder"},
                                         Named{"deepseek-llm", "deepseek-llm"}, Named{"deepseek-v3", "deepseek-v3"},
                                         Named{"default", "default"}, Named{"", "default"}, Named{"falcon", "falcon"},
                                         Named{"gpt-2", "gpt-2"}, Named{"gpt-4o", "gpt-4o"},
                                         Named{"gpt-neox", "gpt-neox"}, Named{"mpt", "gpt-neox"},
                                         Named{"llama-bpe", "llama-bpe"}, Named{"llama3", "llama-bpe"},
                                         Named{"qwen2", "qwen2"}, Named{"qwen35", "qwen35"}, Named{"refact", "smollm"},
                                         Named{"smollm", "smollm"}, Named{"starcoder", "smollm"},
                                         Named{"tekken", "tekken"}));

class SentencePieceGoldens : public testing::TestWithParam<const char*> {};

TEST_P(SentencePieceGoldens, EncodesLikeSentencePiece) {
  const auto model = golden::read_json(std::string(GetParam()) + "/model.json");
  auto metadata = golden::sentencepiece_metadata(model);
  auto charsmap = decode_base64(model["charsmap"].get<std::string>());
  ASSERT_TRUE(charsmap.ok());
  if (!charsmap->empty()) metadata.byte_arrays["tokenizer.ggml.precompiled_charsmap"] = *charsmap;
  // sentencepiece knows no control tokens in texts.
  expect_goldens(golden::make(tokenizer_spec_from_gguf(metadata)), model, "written",
                 {.add_special = false, .parse_special = false});
}

INSTANTIATE_TEST_SUITE_P(Models, SentencePieceGoldens, testing::Values("llama-spm", "gemma-spm", "t5-spm"));

// Gemma 4's kind of GGUF file: a list of merges over U+2581.
TEST(GgufGoldens, MergesOverMetaspace) {
  auto metadata = golden::byte_level_metadata("gemma-4", "");
  metadata.strings["tokenizer.ggml.model"] = "gemma4";
  metadata.bools["tokenizer.ggml.add_space_prefix"] = false;
  metadata.ints["tokenizer.ggml.bos_token_id"] = 1;
  auto& tokens = metadata.string_arrays["tokenizer.ggml.tokens"];
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id].starts_with("<0x")) metadata.int_arrays["tokenizer.ggml.token_type"][id] = 6;
  }
  const auto goldens = golden::read_json("gemma-4/ids.json");
  const Tokenizer tokenizer = golden::make(tokenizer_spec_from_gguf(metadata));
  expect_goldens(tokenizer, goldens, "written");
  EXPECT_EQ(tokenizer.encode("a").front(), 1);
}

}  // namespace
}  // namespace dspark
