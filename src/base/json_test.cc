// Tests of json.h.
#include "base/json.h"

#include <gmock/gmock.h>

namespace dspark {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string parse_error(std::string_view text, const JsonLimits& limits = {}) {
  const auto parsed = parse_json(text, "f.json", limits);
  return parsed.ok() ? "" : parsed.error().message;
}

TEST(Json, ParsesLikeTheLibrary) {
  const char* text = R"({"a": [1, -2, 3.5, true, null, "x\u00e9"], "b": {"c": {}, "d": []}, "": 18446744073709551615})";
  EXPECT_EQ(parse_json(text, "f.json").value(), json::parse(text));
  EXPECT_EQ(parse_json("7", "f.json").value(), json(7));
}

TEST(Json, RefusesHostileDocuments) {
  EXPECT_THAT(parse_error(""), HasSubstr("f.json: not valid JSON at byte"));
  EXPECT_THAT(parse_error("{\"a\": }"), HasSubstr("f.json: not valid JSON at byte 7"));
  EXPECT_THAT(parse_error("{} {}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(parse_error("1e999"), HasSubstr("not valid JSON"));
  EXPECT_THAT(parse_error("\"\xff\""), HasSubstr("not valid JSON"));
  EXPECT_THAT(parse_error(R"({"a": 1, "a": 2})"), HasSubstr("the key 'a' stands twice in one object"));
  EXPECT_THAT(parse_error(std::string(1'000'000, '[')), HasSubstr("nested deeper than 64 levels"));
  EXPECT_EQ(parse_error("[[[1]]]", {.max_depth = 3}), "");
  EXPECT_THAT(parse_error("[[[1]]]", {.max_depth = 2}), HasSubstr("nested deeper than 2 levels"));
  EXPECT_EQ(parse_error("[1, 2]", {.max_values = 3}), "");
  EXPECT_THAT(parse_error("[1, 2, 3]", {.max_values = 3}), HasSubstr("more than 3 values"));
  EXPECT_THAT(parse_error("[1, 2]", {.max_bytes = 5}), HasSubstr("6 bytes of JSON, expected at most 5"));
}

TEST(Json, TypedMembers) {
  const json object = json::parse(R"({"i": -3, "big": 4294967296, "f": 2.5, "s": "x", "b": true, "n": null,
                                      "ints": [1, 2], "mixed": [1, "x"], "huge": 1e300})");
  EXPECT_EQ(json_require<int32_t>(object, "i", "f").value(), -3);
  EXPECT_EQ(json_require<int64_t>(object, "big", "f").value(), 4294967296);
  EXPECT_EQ(json_require<float>(object, "f", "f").value(), 2.5f);
  EXPECT_EQ(json_require<double>(object, "i", "f").value(), -3.0);
  EXPECT_EQ(json_require<std::string>(object, "s", "f").value(), "x");
  EXPECT_EQ(json_require<bool>(object, "b", "f").value(), true);
  EXPECT_EQ(json_require<std::vector<int32_t>>(object, "ints", "f").value(), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(json_get_or<int32_t>(object, "absent", 5, "f").value(), 5);
  EXPECT_EQ(json_get_or<int32_t>(object, "n", 5, "f").value(), 5);
}

TEST(Json, WrongMembersSayWhatWasExpected) {
  const json object = json::parse(R"({"i": -3, "big": 4294967296, "f": 2.5, "s": "x", "n": null, "mixed": [1, "x"],
                                      "huge": 1e300})");
  const auto message = [](const auto& result) { return result.ok() ? "" : result.error().message; };
  EXPECT_EQ(message(json_require<int32_t>(object, "big", "c.json")),
            "c.json: key 'big' is 4294967296, expected an integer from -2147483648 to 2147483647");
  EXPECT_EQ(message(json_require<uint32_t>(object, "i", "c.json")),
            "c.json: key 'i' is -3, expected an integer from 0 to 4294967295");
  EXPECT_EQ(message(json_require<bool>(object, "s", "c.json")),
            "c.json: key 's' is the string 'x', expected true or false");
  EXPECT_THAT(message(json_require<int32_t>(object, "f", "c.json")), HasSubstr("key 'f' is 2.5, expected an integer"));
  EXPECT_THAT(message(json_require<float>(object, "huge", "c.json")), HasSubstr("expected a finite number"));
  EXPECT_THAT(message(json_require<float>(object, "n", "c.json")), HasSubstr("key 'n' is null"));
  EXPECT_THAT(message(json_require<std::vector<int32_t>>(object, "mixed", "c.json")),
              HasSubstr("key 'mixed' is an array of 2, expected an array, each an integer"));
  EXPECT_THAT(message(json_require<float>(object, "absent", "c.json")), HasSubstr("key 'absent' is missing"));
  EXPECT_THAT(message(json_get_or<float>(object, "s", 1.0f, "c.json")), HasSubstr("expected a finite number"));
  EXPECT_THAT(message(json_get_or<float>(json(3), "s", 1.0f, "c.json")), HasSubstr("found 3, expected an object"));
}

}  // namespace
}  // namespace dspark
