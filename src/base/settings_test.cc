// Tests of settings.h: precedence, where values come from, and what is said about wrong ones.
#include "base/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace dspark {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A configuration file that lives as long as the test.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) : path_(std::filesystem::path(testing::TempDir()) / "config.toml") {
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~ConfigFile() { std::filesystem::remove(path_); }
  const std::filesystem::path& path() const { return path_; }
  std::string at(int line) const { return fmt::format("{}:{}", path_.string(), line); }

 private:
  std::filesystem::path path_;
};

std::string error_of(const SettingSources& sources) {
  const auto loaded = load_settings(sources);
  return loaded.ok() ? "no error" : loaded.error().message;
}

TEST(Settings, EveryRowOfTheSchemaIsConsistent) {
  std::vector<std::string> names;
  for (const SettingSpec& spec : kSettings) {
    EXPECT_FALSE(spec.help.empty()) << spec.name;
    EXPECT_NE(spec.commands.bits, 0u) << spec.name;
    EXPECT_EQ(spec.type == SettingType::kEnum, !spec.choices[0].empty()) << spec.name;
    names.emplace_back(spec.name);
    for (std::string_view alias : spec.aliases) {
      if (!alias.empty()) names.emplace_back(alias);
    }
    for (std::string_view name : {spec.name, spec.aliases[0], spec.aliases[1]}) {
      EXPECT_EQ(name.find('_'), std::string_view::npos) << name << ": the schema uses '-'";
      EXPECT_FALSE(name.starts_with("no-")) << name << ": --no-" << name << " would read badly";
    }
    if (spec.letter != 0) names.emplace_back(1, spec.letter);
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end()) << "a name stands twice";
  EXPECT_TRUE(load_settings({}).ok());  // every default is valid
}

TEST(Settings, FlagBeatsVariableBeatsFileBeatsDefault) {
  const ConfigFile file("# mine\nmodel = 'from-file'\n");
  const size_t model = setting_index("model");
  SettingSources sources;
  EXPECT_EQ(load_settings(sources)->settings.get<"model">(), kSettings[model].fallback);
  EXPECT_FALSE(load_settings(sources)->settings.is_set<"model">());

  sources.default_config_file = file.path();
  EXPECT_EQ(load_settings(sources)->settings.get<"model">(), "from-file");
  EXPECT_EQ(load_settings(sources)->settings.entry(model).origin, file.at(2));

  sources.environment = {"PATH=/bin", "DSPARK_MODEL=from-variable"};
  EXPECT_EQ(load_settings(sources)->settings.get<"model">(), "from-variable");
  EXPECT_EQ(load_settings(sources)->settings.entry(model).origin, "DSPARK_MODEL");

  sources.flags[model] = {"from-flag"};
  const auto loaded = load_settings(sources);
  EXPECT_EQ(loaded->settings.get<"model">(), "from-flag");
  EXPECT_EQ(loaded->settings.entry(model).source, SettingSource::kFlag);
  EXPECT_TRUE(loaded->settings.is_set<"model">());
  EXPECT_THAT(loaded->warnings, IsEmpty());
}

TEST(Settings, AliasesAndBothSpellingsNameTheSame) {
  EXPECT_EQ(find_setting("model-path"), setting_index("model"));
  EXPECT_EQ(find_setting("model_path"), setting_index("model"));
  EXPECT_EQ(find_setting(""), kSettings.size());
  EXPECT_EQ(find_setting("_"), kSettings.size());
  EXPECT_EQ(load_settings({.environment = {"DSPARK_MODEL_PATH=x"}})->settings.get<"model">(), "x");
  EXPECT_THAT(error_of({.environment = {"DSPARK_MODEL=x", "DSPARK_MODEL_PATH=y"}}),
              HasSubstr("DSPARK_MODEL_PATH sets what DSPARK_MODEL has set"));
}

TEST(Settings, TheFileIsNamedByFlagOrVariable) {
  const ConfigFile file("verbose = true");
  EXPECT_TRUE(load_settings({.environment = {"DSPARK_CONFIG=" + file.path().string()}})->settings.get<"verbose">());
  EXPECT_FALSE(load_settings({.default_config_file = "/nonexistent/config.toml"})->settings.get<"verbose">());
  EXPECT_THAT(error_of({.flags = {{setting_index("config"), {"/nonexistent/config.toml"}}}}),
              HasSubstr("configuration file '/nonexistent/config.toml' cannot be opened"));
}

TEST(Settings, AVariableHoldsAListOfTexts) {
  const auto stops = [](const std::string& value) {
    return load_settings({.environment = {"DSPARK_STOP=" + value}})->settings.get<"stop">();
  };
  EXPECT_THAT(stops("a, b"), ElementsAre("a, b"));
  EXPECT_THAT(stops(R"(["a", "[", "\n"])"), ElementsAre("a", "[", "\n"));
  EXPECT_THAT(error_of({.environment = {"DSPARK_STOP=[\"a\", 1]"}}), "DSPARK_STOP: 1 in the list, expected strings");
  EXPECT_THAT(error_of({.environment = {"DSPARK_STOP=[a]"}}), HasSubstr("DSPARK_STOP"));
}

TEST(Settings, ErrorsNameSourceValueAndWhatIsAllowed) {
  EXPECT_EQ(error_of({.environment = {"DSPARK_VERBOSE=loud"}}), "DSPARK_VERBOSE: 'loud' is not true or false");
  EXPECT_EQ(error_of({.flags = {{setting_index("verbose"), {"2"}}}}), "--verbose: '2' is not true or false");
  const ConfigFile file("model = 'x'\nverbose = 'loud'\n");
  // A value that a stronger source overrides is checked all the same.
  EXPECT_EQ(error_of({.flags = {{setting_index("verbose"), {"true"}}}, .default_config_file = file.path()}),
            file.at(2) + ": verbose: 'loud' is not true or false");
}

TEST(Settings, UnknownNamesAreAnsweredWithTheNearest) {
  const ConfigFile file("modle = 'x'");
  EXPECT_EQ(error_of({.default_config_file = file.path()}),
            file.at(1) + ": modle is not a setting; did you mean 'model'?");
  const auto loaded = load_settings({.environment = {"DSPARK_MODLE=x", "DSPARK_TEST_MODEL=y", "DSPARKLE=1"}});
  ASSERT_TRUE(loaded.ok());
  EXPECT_THAT(loaded->warnings, ElementsAre("the variable DSPARK_MODLE sets nothing; did you mean DSPARK_MODEL?"));
  EXPECT_THAT(
      load_settings({.environment = {"DSPARK_PROMPT=x"}})->warnings,
      ElementsAre("the variable DSPARK_PROMPT sets nothing: it belongs to one call; give it as the flag --prompt"));
}

TEST(Settings, BrokenFilesAreRefusedWithTheirLine) {
  const struct {
    const char* text;
    int line;
    const char* cause;
  } cases[] = {
      {"model = 'x'\nmodel = 'y'\n", 2, "not valid TOML"},
      {"model 'x'", 1, "not valid TOML"},
      {"\n\nmodel = ['x']", 3, "has the wrong form"},
      {"[model]\npath = 'x'", 1, "has the wrong form"},
      {"verbose = 1979-05-27", 1, "has the wrong form"},
      {"json = true", 1, "give it as the flag --json"},
      {"config = 'x'", 1, "give it as the flag --config"},
      {"model = 'x'\nmodel_path = 'y'\n", 2, "sets what"},
      {"\xff\xfe = 1", 1, "not valid TOML"},
  };
  for (const auto& c : cases) {
    const ConfigFile file(c.text);
    const std::string error = error_of({.default_config_file = file.path()});
    EXPECT_THAT(error, HasSubstr(file.at(c.line) + ":")) << c.text;
    EXPECT_THAT(error, HasSubstr(c.cause)) << c.text;
    EXPECT_EQ(error.find('\n'), std::string::npos) << c.text;
  }
}

}  // namespace
}  // namespace dspark
