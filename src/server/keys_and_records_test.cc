// Tests of api_keys.h, access_log.h and task_bucket.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "server/access_log.h"
#include "server/api_keys.h"
#include "server/task_bucket.h"

namespace dspark {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

std::string key_error(const std::string& text) {
  const auto keys = ApiKeys::parse(text, "k.json");
  return keys.ok() ? "no error" : keys.error().message;
}

TEST(ApiKeys, AreFoundByTheirHash) {
  // printf %s secret | sha256sum
  const auto keys = ApiKeys::parse(
      R"({"keys": [{"sha256": "2BB80D537B1DA3E38BD30361AA855686BDE0EACD7162FEF6A25FE97BF527A25B", "tenant": "t",
          "rights": ["metrics"], "limits": {"max_tokens": 5}}]})",
      "k.json");
  ASSERT_TRUE(keys.ok()) << keys.error().message;
  EXPECT_EQ(keys->find(""), nullptr);
  EXPECT_EQ(keys->find("secret"), nullptr);
  EXPECT_EQ(keys->find("Bearer secre"), nullptr);
  const ApiKey* key = keys->find("Bearer secret");
  ASSERT_NE(key, nullptr);
  EXPECT_EQ(keys->find("bearer secret"), key);
  EXPECT_EQ(keys->find("Bearersecret"), nullptr);
  EXPECT_EQ(key->tenant, "t");
  EXPECT_TRUE(key->metrics);
  EXPECT_FALSE(key->admin);
  EXPECT_EQ(key->max_tokens, 5);
  EXPECT_TRUE(ApiKeys().find("")->admin);
}

TEST(ApiKeys, BadFilesNameWhatIsWrong) {
  const std::string hash(64, 'a');
  EXPECT_THAT(key_error("[]"), HasSubstr("expected an object with a list \"keys\""));
  EXPECT_THAT(key_error(R"({"keys": []})"), HasSubstr("not empty"));
  EXPECT_THAT(key_error(R"({"keys": [{"sha256": "abc", "tenant": "t"}]})"), HasSubstr("64 hexadecimal digits"));
  EXPECT_THAT(key_error(R"({"keys": [{"sha256": ")" + hash + R"("}]})"), HasSubstr("'tenant' is missing"));
  EXPECT_THAT(key_error(R"({"keys": [{"sha256": ")" + hash + R"(", "tenant": "t", "rights": ["root"]}]})"),
              HasSubstr("unknown right 'root', expected admin or metrics"));
  EXPECT_THAT(key_error(R"({"keys": [{"sha256": ")" + hash + R"(", "tenant": "t", "limit": {}}]})"),
              HasSubstr("unknown member 'limit'"));
  EXPECT_THAT(key_error(R"({"keys": [{"sha256": ")" + hash + R"(", "tenant": "t"}, {"sha256": ")" + hash +
                        R"(", "tenant": "u"}]})"),
              HasSubstr("keys[1] has the sha256 of a key before it"));
}

TEST(KeyUse, LimitsRateAndConcurrency) {
  const ApiKey key{.max_concurrent = 2, .requests_per_minute = 3};
  KeyUse use;
  KeyUse::Clock::time_point now{std::chrono::hours(1)};
  EXPECT_FALSE(use.enter(key, now));
  EXPECT_FALSE(use.enter(key, now));
  EXPECT_EQ(use.enter(key, now)->status, 429);
  use.leave();
  EXPECT_FALSE(use.enter(key, now));
  use.leave();
  const auto refused = use.enter(key, now);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->retry_after_s, 20);
  EXPECT_FALSE(use.enter(key, now + std::chrono::seconds(21)));
}

RequestRecord record() {
  RequestRecord out;
  out.id = "cmpl-1";
  out.endpoint = "completions";
  out.tenant = "t";
  out.bucket = "code";
  out.ttft_seconds = 0.25;
  out.itl_seconds = {0.01, 0.03};
  out.stats.drafted = 4;
  out.finish_reasons = {"stop"};
  out.prompts = {std::vector<int32_t>(300, 7)};
  out.prompt_text = "geheim";
  return out;
}

TEST(AccessLog, LinesHoldHashesInsteadOfText) {
  const auto line = log_line(record(), "salt", "id");
  EXPECT_EQ(line["blocks"].size(), 2u);  // whole blocks only
  EXPECT_NE(line["blocks"][0], line["blocks"][1]);
  EXPECT_EQ(line["ttft_ms"], 250.0);
  EXPECT_EQ(line["itl_ms"]["mean"], 20.0);
  EXPECT_EQ(line["drafted"], 4);
  EXPECT_THAT(line.dump(), Not(HasSubstr("geheim")));
  EXPECT_EQ(log_line(record(), "salt", "id"), line);
  EXPECT_NE(log_line(record(), "pepper", "id")["blocks"][0], line["blocks"][0]);
  RequestRecord other = record();
  other.tenant = "u";
  EXPECT_NE(log_line(other, "salt", "id")["blocks"][0], line["blocks"][0]);
  RequestRecord longer = record();
  longer.prompts[0][200] = 8;
  EXPECT_EQ(log_line(longer, "salt", "id")["blocks"][0], line["blocks"][0]);
  EXPECT_NE(log_line(longer, "salt", "id")["blocks"][1], line["blocks"][1]);
}

TEST(AccessLog, TellsThePromptsOfARequestApart) {
  EXPECT_FALSE(log_line(record(), "salt", "id").contains("parts"));
  RequestRecord both = record();
  both.prompts.emplace_back(200, 9);
  const auto line = log_line(both, "salt", "id");
  EXPECT_EQ(line["parts"].dump(), R"([{"tokens":300},{"tokens":200}])");
  EXPECT_EQ(line["blocks"].size(), 3u);
}

TEST(AccessLog, WritesTextOnlyWhereItIsAskedTo) {
  for (const bool with_text : {false, true}) {
    const std::string path = testing::TempDir() + (with_text ? "/text.jsonl" : "/log.jsonl");
    {
      auto log = AccessLog::open(path, with_text);
      ASSERT_TRUE(log.ok()) << log.error().message;
      for (int i = 0; i < 3; ++i) log.value()->write(record());
    }
    std::ifstream file(path);
    std::string line;
    int lines = 0;
    while (std::getline(file, line)) {
      ++lines;
      EXPECT_EQ(json::parse(line).value("prompt", ""), with_text ? "geheim" : "");
    }
    EXPECT_EQ(lines, 3);
  }
  EXPECT_FALSE(AccessLog::open("/dev/null/x", false).ok());
}

TEST(TaskBucket, NamesOfPromptSetsAndGuesses) {
  EXPECT_EQ(bucket_of_name("humaneval"), "code");
  EXPECT_EQ(bucket_of_name("reasoning"), "math");
  EXPECT_EQ(bucket_of_name("mt-bench"), "chat");
  EXPECT_EQ(bucket_of_name("copy-edit"), "other");
  EXPECT_EQ(bucket_of_name("anything"), "other");
  EXPECT_EQ(bucket_of_text("Write a python function to reverse a list.", 1), "code");
  EXPECT_EQ(bucket_of_text("Janet's ducks lay 16 eggs per day. How much in dollars does she make?", 1), "math");
  EXPECT_EQ(bucket_of_text("Describe a library as one JSON object.", 1), "json");
  EXPECT_EQ(bucket_of_text("Compose an engaging travel blog post about Hawaii.", 1), "chat");
  EXPECT_EQ(bucket_of_text("Escribe un correo breve a un vecino.", 1), "other");
}

}  // namespace
}  // namespace dspark
