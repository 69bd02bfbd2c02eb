// Tokenizer beyond the goldens: hostile specs and texts, parts and threads, decoding.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "text/golden_data.h"
#include "text/stream_decoder.h"
#include "text/utf8.h"

namespace dspark {
namespace {

using Ids = std::vector<int32_t>;

const char* const kFamilies[] = {"command-r", "deepseek-coder", "deepseek-llm", "deepseek-v3", "default",  "falcon",
                                 "flags",     "gemma-4",        "gpt-2",        "gpt-4o",      "gpt-neox", "llama-2",
                                 "llama-bpe", "qwen2",          "qwen35",       "smollm",      "t5",       "tekken"};

// Bytes 0 to 255 and a few merges.
TokenizerSpec byte_spec() {
  TokenizerSpec spec = tokenizer_spec_from_gguf(golden::byte_level_metadata("gpt-2", "gpt-2")).value();
  return spec;
}

std::string long_text(size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::string text;
  const auto& written = golden::texts("written");
  const auto& mixtures = golden::texts("random");
  while (text.size() < bytes) {
    const auto& from = random() % 2 == 0 ? written : mixtures;
    text += from[random() % from.size()];
    if (random() % 4 == 0) text += ' ';
  }
  return text;
}

// A text in parts has the ids of the whole, for every pipeline, however small the parts are.
TEST(Tokenizer, PartsAndThreadsDoNotChangeIds) {
  for (const char* family : kFamilies) {
    const Tokenizer tokenizer = golden::from_json(family);
    for (unsigned seed = 0; seed < 2; ++seed) {
      const std::string text = long_text(10'000, seed);
      const Ids whole = tokenizer.encode(text);
      for (const size_t part : {1, 7, 100, 3000}) {
        for (const int threads : {2, 3}) {
          EncodeOptions options;
          options.threads = threads;
          options.min_part_bytes = part;
          ASSERT_EQ(tokenizer.encode(text, options), whole) << family << ", parts of " << part;
        }
      }
    }
  }
}

TEST(Tokenizer, BytesThatAreNotUtf8SurviveWhereThereAreByteTokens) {
  std::mt19937 random(3);
  for (const char* family : {"gpt-2", "smollm", "llama-bpe", "deepseek-llm", "gemma-4"}) {
    const Tokenizer tokenizer = golden::from_json(family);
    for (int round = 0; round < 200; ++round) {
      std::string text;
      for (size_t i = random() % 60; i > 0; --i) {
        text += random() % 3 == 0 ? static_cast<char>(random()) : static_cast<char>('a' + random() % 4);
      }
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, {.add_special = false, .parse_special = false}), false), text)
          << family;
    }
  }
}

TEST(Tokenizer, AnyBytesAreEncodedByEveryFamily) {
  std::mt19937 random(4);
  for (const char* family : kFamilies) {
    const Tokenizer tokenizer = golden::from_json(family);
    for (int round = 0; round < 50; ++round) {
      std::string text = golden::texts("random")[random() % 400];
      for (int i = 0; i < 5 && !text.empty(); ++i) text[random() % text.size()] = static_cast<char>(random());
      for (const int32_t id : tokenizer.encode(text)) {
        ASSERT_GE(id, 0);
        ASSERT_LT(id, tokenizer.size());
      }
    }
  }
}

// Texts that make naive algorithms quadratic. (Their ids are compared with those of a prefix, to look at them at all.)
TEST(Tokenizer, LongPiecesAreEncoded) {
  for (const char* family : {"gpt-2", "llama-bpe", "deepseek-llm", "gpt-4o", "gemma-4", "llama-2", "t5"}) {
    const Tokenizer tokenizer = golden::from_json(family);
    for (const std::string unit : {"a", " ", "\n", "ab", "\xE4\xB8\xAD", "!", "1", "\xCC\x81", "A", " \n", "\xFF"}) {
      std::string text;
      while (text.size() < 100'000) text += unit;
      const Ids ids = tokenizer.encode(text, {.add_special = false});
      if (std::string_view(family) == "t5") continue;  // normalises
      EXPECT_EQ(tokenizer.decode(ids, false).size(), text.size()) << family << " " << unit;
    }
  }
}

TEST(Tokenizer, ControlTokensOnlyWhereTheTextIsTrusted) {
  const Tokenizer tokenizer = golden::from_json("smollm");
  const std::string text = "<|im_start|>user\nhi<|im_end|>";
  const int32_t start = tokenizer.find_special("<|im_start|>"), end = tokenizer.find_special("<|im_end|>");
  const Ids trusted = tokenizer.encode(text);
  EXPECT_EQ(trusted.front(), start);
  EXPECT_EQ(trusted.back(), end);
  const Ids plain = tokenizer.encode(text, {.parse_special = false});
  for (const int32_t id : plain) EXPECT_FALSE(tokenizer.is_special(id));
  EXPECT_EQ(tokenizer.decode(plain), text);
  EXPECT_EQ(tokenizer.decode(trusted, /*skip_special=*/true), "user\nhi");
  EXPECT_EQ(tokenizer.decode(trusted, /*skip_special=*/false), text);
  EXPECT_TRUE(tokenizer.is_end_of_generation(end));
  EXPECT_FALSE(tokenizer.is_end_of_generation(start));
  EXPECT_EQ(tokenizer.eot(), end);
  EXPECT_EQ(tokenizer.find_special("<|nope|>"), -1);
}

TEST(Tokenizer, DecodingIgnoresIdsOutOfRange) {
  const Tokenizer tokenizer = golden::from_json("gpt-2");
  const Ids ids = {-1, tokenizer.size(), INT32_MAX, INT32_MIN};
  EXPECT_EQ(tokenizer.decode(ids), "");
}

TEST(StreamDecoder, NeverHalfACharacterAndNothingLost) {
  for (const char* family : kFamilies) {
    const Tokenizer tokenizer = golden::from_json(family);
    for (const std::string& text : golden::texts("random")) {
      const Ids ids = tokenizer.encode(text, {.add_special = false});
      StreamDecoder decoder(tokenizer, {.skip_special = false, .at_text_start = true});
      std::string streamed;
      for (const int32_t id : ids) {
        const std::string part = decoder.push(id);
        ASSERT_EQ(replace_invalid_utf8(part), part);
        streamed += part;
      }
      streamed += decoder.flush();
      ASSERT_EQ(streamed, replace_invalid_utf8(tokenizer.decode(ids, false))) << family;
    }
  }
}

TEST(StreamDecoder, BytesThatCannotGoOnAreReplacedAtOnce) {
  const Tokenizer tokenizer = golden::from_json("gpt-2");
  const auto byte = [&](const char* text) { return tokenizer.encode(text, {.add_special = false}).at(0); };
  StreamDecoder decoder(tokenizer, {});
  EXPECT_EQ(decoder.push(byte("\xE4")), "");
  EXPECT_EQ(decoder.push(byte("\xB8")), "");
  EXPECT_EQ(decoder.push(byte("\xAD")), "\xE4\xB8\xAD");
  EXPECT_EQ(decoder.push(byte("\xE4")), "");
  EXPECT_EQ(decoder.push(byte("x")), "\xEF\xBF\xBDx");
  EXPECT_EQ(decoder.push(byte("\xF0")), "");
  EXPECT_EQ(decoder.push(-7), "");
  EXPECT_EQ(decoder.flush(), "\xEF\xBF\xBD");
  EXPECT_EQ(decoder.flush(), "");
}

// Each hostile spec, and a part of the message that tells what is wrong.
struct Hostile {
  const char* message;
  void (*spoil)(TokenizerSpec&);
};

TEST(TokenizerSpec, HostileSpecsAreRefused) {
  const Hostile cases[] = {
      {"0 tokens", [](TokenizerSpec& s) { s.tokens.clear(); }},
      {"types", [](TokenizerSpec& s) { s.kinds.pop_back(); }},
      {"scores", [](TokenizerSpec& s) { s.model = TokenizerSpec::Model::kScores; }},
      {"finite",
       [](TokenizerSpec& s) {
         s.model = TokenizerSpec::Model::kScores;
         s.scores.assign(s.tokens.size(), std::numeric_limits<double>::quiet_NaN());
       }},
      {"each token once", [](TokenizerSpec& s) { s.tokens[300] = s.tokens[301]; }},
      {"expected a byte", [](TokenizerSpec& s) { s.kinds[300] = TokenKind::kByte; }},
      {"are tokens",
       [](TokenizerSpec& s) {
         s.merges[0] = {"nope!", 2};
       }},
      {"are tokens", [](TokenizerSpec& s) { s.merges[0].left_size = 0; }},
      {"are tokens", [](TokenizerSpec& s) { s.merges[0].left_size = 1'000'000; }},
      {"begin-of-text", [](TokenizerSpec& s) { s.bos = static_cast<int32_t>(s.tokens.size()); }},
      {"end-of-text", [](TokenizerSpec& s) { s.eos = -2; }},
      {"end-of-generation", [](TokenizerSpec& s) { s.end_of_generation = {INT32_MAX}; }},
      {"added token", [](TokenizerSpec& s) { s.added_tokens.push_back({.id = -1, .content = "x"}); }},
      {"added token", [](TokenizerSpec& s) { s.added_tokens.push_back({.id = 1, .content = std::string(5000, 'x')}); }},
      {"regular expression", [](TokenizerSpec& s) { s.pretokenizer[0].pattern = "(a"; }},
      {"steps", [](TokenizerSpec& s) { s.pretokenizer.resize(100); }},
      {"65537 bytes", [](TokenizerSpec& s) { s.tokens[300] = std::string(65'537, 'x'); }},
      {"charsmap",
       [](TokenizerSpec& s) {
         s.normalizer.resize(1);
         s.normalizer[0].kind = NormalizerStep::Kind::kSentencePiece;
         s.normalizer[0].charsmap = "\xFF\xFF\xFF\xFF";
       }},
      {"unknown token",
       [](TokenizerSpec& s) {
         s.model = TokenizerSpec::Model::kUnigram;
         s.scores.assign(s.tokens.size(), 0.0);
       }},
  };
  ASSERT_TRUE(Tokenizer::create(byte_spec()).ok());
  for (const Hostile& hostile : cases) {
    TokenizerSpec spec = byte_spec();
    hostile.spoil(spec);
    const auto tokenizer = Tokenizer::create(std::move(spec));
    ASSERT_FALSE(tokenizer.ok()) << hostile.message;
    EXPECT_NE(tokenizer.error().message.find(hostile.message), std::string::npos) << tokenizer.error().message;
  }
}

TEST(TokenizerSpec, HostileMetadataIsRefused) {
  using Metadata = golden::FakeMetadata;
  const std::pair<const char*, void (*)(Metadata&)> cases[] = {
      {"tokenizer.ggml.model is 'bert'", [](Metadata& m) { m.strings["tokenizer.ggml.model"] = "bert"; }},
      {"tokenizer.ggml.pre is 'nope'", [](Metadata& m) { m.strings["tokenizer.ggml.pre"] = "nope"; }},
      {"no tokenizer.ggml.merges", [](Metadata& m) { m.string_arrays.erase("tokenizer.ggml.merges"); }},
      {"two tokens", [](Metadata& m) { m.string_arrays["tokenizer.ggml.merges"][3] = "abc"; }},
      {"two tokens", [](Metadata& m) { m.string_arrays["tokenizer.ggml.merges"][3] = "abc "; }},
      {"no tokenizer.ggml.tokens", [](Metadata& m) { m.string_arrays.erase("tokenizer.ggml.tokens"); }},
      {"token_type", [](Metadata& m) { m.int_arrays["tokenizer.ggml.token_type"][3] = 9; }},
      {"bos_token_id is 5000000", [](Metadata& m) { m.ints["tokenizer.ggml.bos_token_id"] = 5'000'000; }},
      {"eos_token_id is -2", [](Metadata& m) { m.ints["tokenizer.ggml.eos_token_id"] = -2; }},
      {"another type", [](Metadata& m) { m.strings["tokenizer.ggml.add_bos_token"] = "yes"; }},
      {"another type",
       [](Metadata& m) {
         m.string_arrays.erase("tokenizer.ggml.merges");
         m.ints["tokenizer.ggml.merges"] = 1;
       }},
  };
  for (const auto& [message, spoil] : cases) {
    auto metadata = golden::byte_level_metadata("gpt-2", "gpt-2");
    spoil(metadata);
    const auto spec = tokenizer_spec_from_gguf(metadata);
    ASSERT_FALSE(spec.ok()) << message;
    EXPECT_NE(spec.error().message.find(message), std::string::npos) << spec.error().message;
  }
}

TEST(TokenizerSpec, SpecialTokensOfGgufMetadata) {
  auto metadata = golden::byte_level_metadata("gpt-2", "llama-bpe");
  metadata.ints["tokenizer.ggml.bos_token_id"] = 0;
  metadata.ints["tokenizer.ggml.eos_token_id"] = 2;
  metadata.ints["tokenizer.ggml.padding_token_id"] = 0xFFFFFFFF;  // none
  Tokenizer tokenizer = golden::make(tokenizer_spec_from_gguf(metadata));
  EXPECT_TRUE(tokenizer.adds_bos()) << "Llama 3 files may leave it out";
  EXPECT_EQ(tokenizer.encode("a").front(), 0);
  EXPECT_EQ(tokenizer.pad(), -1);
  metadata.bools["tokenizer.ggml.add_bos_token"] = false;
  metadata.bools["tokenizer.ggml.add_eos_token"] = true;
  tokenizer = golden::make(tokenizer_spec_from_gguf(metadata));
  EXPECT_EQ(tokenizer.encode("").size(), 1U);
  EXPECT_EQ(tokenizer.encode("").front(), 2);
  EXPECT_TRUE(tokenizer.encode("", {.add_special = false}).empty());
}

TEST(TokenizerSpec, ConfigNamesSpecialTokens) {
  const std::string file = golden::read_file("smollm/tokenizer.json");
  const std::string config = R"({"bos_token": {"content": "<|im_start|>"}, "eos_token": "<|im_end|>",
                                 "pad_token": null, "add_bos_token": true})";
  const Tokenizer tokenizer = golden::make(tokenizer_spec_from_json(file, config));
  EXPECT_EQ(tokenizer.bos(), tokenizer.find_special("<|im_start|>"));
  EXPECT_EQ(tokenizer.eos(), tokenizer.find_special("<|im_end|>"));
  EXPECT_EQ(tokenizer.encode("x").front(), tokenizer.bos());
}

TEST(TokenizerSpec, HostileJsonIsRefused) {
  const std::string good = golden::read_file("gpt-2/tokenizer.json");
  const auto spoilt = [&](void (*spoil)(nlohmann::json&)) {
    auto root = nlohmann::json::parse(good);
    spoil(root);
    return root.dump();
  };
  using Json = nlohmann::json;
  const std::pair<const char*, std::string> cases[] = {
      {"JSON", "{"},
      {"nested", std::string(100, '[')},
      {"model", "{}"},
      {"WordPiece", spoilt([](Json& j) { j["model"]["type"] = "WordPiece"; })},
      {"BertNormalizer", spoilt([](Json& j) {
         j["normalizer"] = {{"type", "BertNormalizer"}};
       })},
      {"Bert", spoilt([](Json& j) {
         j["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
       })},
      {"##", spoilt([](Json& j) { j["model"]["continuing_subword_prefix"] = "##"; })},
      {"dropout", spoilt([](Json& j) { j["model"]["dropout"] = 0.5; })},
      {"expected an integer", spoilt([](Json& j) { j["model"]["vocab"]["x!"] = "1"; })},
      {"has id -1", spoilt([](Json& j) { j["model"]["vocab"]["x!"] = -1; })},
      {"has id", spoilt([](Json& j) { j["model"]["vocab"]["x!"] = 4'000'000'000; })},
      {"both have id 7", spoilt([](Json& j) { j["model"]["vocab"]["x!"] = 7; })},
      {"merge 0", spoilt([](Json& j) { j["model"]["merges"][0] = 1; })},
      {"merge 0", spoilt([](Json& j) {
         j["model"]["merges"][0] = {"a", "b", "c"};
       })},
      {"in the vocabulary", spoilt([](Json& j) { j["added_tokens"][0]["id"] = 77; })},
      {"added_tokens", spoilt([](Json& j) { j["added_tokens"] = 1; })},
      {"behavior", spoilt([](Json& j) {
         j["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "Odd"}};
       })},
      {"at most one token", spoilt([](Json& j) {
         const Json token = {{"SpecialToken", {{"id", "<|im_start|>"}, {"type_id", 0}}}};
         j["post_processor"] = {{"type", "TemplateProcessing"}, {"single", {token, token}}};
       })},
  };
  for (const auto& [message, text] : cases) {
    const auto spec = tokenizer_spec_from_json(text, "");
    ASSERT_FALSE(spec.ok()) << message;
    EXPECT_NE(spec.error().message.find(message), std::string::npos) << spec.error().message;
  }
}

}  // namespace
}  // namespace dspark
