// Tests of setting_value.h: each type's forms, limits and messages.
#include "base/setting_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dspark {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

Result<SettingValue> parse(const SettingSpec& spec, const std::string& text) {
  return parse_setting(spec, std::vector<std::string>{text});
}

TEST(SettingValue, NumbersAreWholeTextsInRange) {
  const SettingSpec count = {.name = "count", .type = SettingType::kInt, .min = 1, .max = 64};
  EXPECT_EQ(std::get<int64_t>(*parse(count, "64")), 64);
  for (const char* bad : {"", "0", "65", "4x", " 4", "4.0", "1e1", "99999999999999999999"}) {
    EXPECT_FALSE(parse(count, bad).ok()) << bad;
  }
  EXPECT_EQ(parse(count, "lots").error().message, "'lots' is not a whole number from 1 to 64");
  const SettingSpec seed = {.name = "seed", .type = SettingType::kInt};
  EXPECT_EQ(std::get<int64_t>(*parse(seed, "-9223372036854775808")), std::numeric_limits<int64_t>::min());
  const SettingSpec temp = {.name = "temp", .type = SettingType::kFloat, .min = 0};
  EXPECT_EQ(std::get<double>(*parse(temp, "0.25")), 0.25);
  for (const char* bad : {"nan", "inf", "-0.1", "0,5", "1.5GiB"}) EXPECT_FALSE(parse(temp, bad).ok()) << bad;
  EXPECT_THAT(parse(temp, "nan").error().message, HasSubstr("of at least 0"));
}

TEST(SettingValue, SizesHaveBinaryAndDecimalUnits) {
  const SettingSpec size = {.name = "memory", .type = SettingType::kSize, .min = 1024};
  EXPECT_EQ(std::get<int64_t>(*parse(size, "2GiB")), int64_t{2} << 30);
  EXPECT_EQ(std::get<int64_t>(*parse(size, "1.5MiB")), 3 << 19);
  EXPECT_EQ(std::get<int64_t>(*parse(size, "2GB")), 2'000'000'000);
  EXPECT_EQ(std::get<int64_t>(*parse(size, "4096")), 4096);
  for (const char* bad : {"2G", "GiB", "-1GiB", "1.3B", "1e30TiB", "nanGiB", "2 GiB", "512"}) {
    EXPECT_FALSE(parse(size, bad).ok()) << bad;
  }
  EXPECT_EQ(parse(size, "2G").error().message, "'2G' is not a size like 512MiB or 2GiB of at least 1KiB");
}

TEST(SettingValue, DurationsNeedAUnit) {
  const SettingSpec wait = {.name = "wait", .type = SettingType::kDuration, .max = 3600e3};
  EXPECT_EQ(std::get<milliseconds>(*parse(wait, "250ms")), milliseconds(250));
  EXPECT_EQ(std::get<milliseconds>(*parse(wait, "1.5s")), milliseconds(1500));
  EXPECT_EQ(std::get<milliseconds>(*parse(wait, "5m")), milliseconds(300'000));
  EXPECT_EQ(std::get<milliseconds>(*parse(wait, "0")), milliseconds(0));
  for (const char* bad : {"30", "0.1ms", "2h", "s", "-1s"}) EXPECT_FALSE(parse(wait, bad).ok()) << bad;
}

TEST(SettingValue, EnumsAndBoolsListWhatTheyTake) {
  const SettingSpec isa = {.name = "isa", .type = SettingType::kEnum, .choices = {"auto", "avx2"}};
  EXPECT_EQ(std::get<std::string>(*parse(isa, "avx2")), "avx2");
  EXPECT_FALSE(parse(isa, "").ok());
  EXPECT_EQ(parse(isa, "avx3").error().message, "'avx3' is not one of auto, avx2");
  const SettingSpec flag = {.name = "flag", .type = SettingType::kBool};
  EXPECT_TRUE(std::get<bool>(*parse(flag, "on")));
  EXPECT_FALSE(std::get<bool>(*parse(flag, "0")));
  EXPECT_EQ(parse(flag, "maybe").error().message, "'maybe' is not true or false");
}

TEST(SettingValue, ListsKeepOrderAndBytes) {
  const SettingSpec rows = {.name = "rows", .type = SettingType::kIntList, .min = 1};
  EXPECT_THAT(std::get<std::vector<int64_t>>(*parse(rows, "8,1,2")), testing::ElementsAre(8, 1, 2));
  EXPECT_THAT(std::get<std::vector<int64_t>>(*parse(rows, "")), testing::IsEmpty());
  for (const char* bad : {"1,", "0", "1;2"}) EXPECT_FALSE(parse(rows, bad).ok()) << bad;
  const SettingSpec stop = {.name = "stop", .type = SettingType::kStringList};
  const std::vector<std::string> texts = {"a,b", "", "\n"};
  EXPECT_EQ(std::get<std::vector<std::string>>(*parse_setting(stop, texts)), texts);
}

TEST(SettingValue, FormattedValuesParseBack) {
  const SettingSpec size = {.name = "memory", .type = SettingType::kSize};
  const SettingSpec wait = {.name = "wait", .type = SettingType::kDuration};
  const SettingSpec temp = {.name = "temp", .type = SettingType::kFloat};
  for (const char* text : {"2GiB", "1000", "0", "1536MiB"}) {
    EXPECT_EQ(*parse(size, format_setting(size, *parse(size, text))), *parse(size, text));
  }
  for (const char* text : {"90s", "0", "1h", "1ms"}) {
    EXPECT_EQ(*parse(wait, format_setting(wait, *parse(wait, text))), *parse(wait, text));
  }
  EXPECT_EQ(format_setting(temp, *parse(temp, "0.1")), "0.1");
}

TEST(SettingValue, MessagesStayOnOneLine) {
  const SettingSpec count = {.name = "count", .type = SettingType::kInt};
  const std::string message = parse(count, "a\nb\x1b[31m" + std::string(1000, 'x')).error().message;
  EXPECT_THAT(message, HasSubstr("a\\nb\\x1b[31m"));
  EXPECT_LT(message.size(), 200u);
}

}  // namespace
}  // namespace dspark
