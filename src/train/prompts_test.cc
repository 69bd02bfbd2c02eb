// Where prompts come from: functions in Python source, templates, the sources file, and the filter against overlap.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "engine/model_text.h"
#include "train/overlap_filter.h"
#include "train/prompt_sources.h"
#include "train/prompt_template.h"
#include "train/python_functions.h"

namespace dspark {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kSource[] = R"py(import os

class Shelf:
    def place(self, book,
              where=None):
        """Put a book on the shelf.

        Books without a place go to the left end.
        """
        if where is None:

            where = 0
        return where

    def _hidden(self):
        """Not for others to see, so it is left out."""

def short(x):
    """Too short."""
    return x

def plain(x): return x

def last(x: dict) -> str:
    r"""Render a mapping
    as text."""
    return str(x)
)py";

TEST(PythonFunctions, SignatureDocumentationAndBodyLoseTheirIndentation) {
  const auto found = find_python_functions(kSource);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].signature, "def place(self, book,\n          where=None):");
  EXPECT_EQ(found[0].documentation, "Put a book on the shelf.");
  EXPECT_THAT(found[0].head, testing::EndsWith("Books without a place go to the left end.\n    \"\"\""));
  EXPECT_THAT(found[0].source, testing::EndsWith("\n        where = 0\n    return where"));
  EXPECT_EQ(found[1].signature, "def last(x: dict) -> str:");
  EXPECT_EQ(found[1].documentation, "Render a mapping as text.");
  EXPECT_THAT(found[1].source, testing::EndsWith("    return str(x)"));
}

TEST(PythonFunctions, AnyTextIsFine) {
  for (const char* text : {"", "def", "def f(", "def f():\n", "def f():\n  \"\"\"no end", "    def g():\n\"\"\""}) {
    EXPECT_TRUE(find_python_functions(text).empty()) << text;
  }
}

TEST(PromptTemplate, SlotsKeepTheirValueAndNumbersGiveOthers) {
  const PromptTemplate pattern = {.name = "t",
                                  .count = 50,
                                  .conversations = {{"{a} {a} {a.1} {other} {", "{nested}"}},
                                  .slots = {{"a", {"x", "y", "z"}}, {"nested", {"<{a}>"}}}};
  const auto prompts = fill_template(pattern, 7);
  std::set<std::string> firsts;
  for (const auto& turns : prompts) {
    ASSERT_EQ(turns.size(), 2u);
    EXPECT_EQ(turns[0][0], turns[0][2]);
    EXPECT_NE(turns[0][0], turns[0][4]);
    EXPECT_THAT(turns[0], HasSubstr(" {other} {"));
    EXPECT_EQ(turns[1], std::string("<") + turns[0][0] + ">");
    firsts.insert(turns[0]);
  }
  EXPECT_EQ(prompts.size(), 3u);  // three fillings; repeated ones count once
  EXPECT_EQ(firsts.size(), 3u);
  EXPECT_EQ(fill_template(pattern, 7), prompts);
}

TEST(PromptTemplate, AValueThatNamesItselfEnds) {
  const PromptTemplate pattern = {.name = "t", .count = 1, .conversations = {{"{a}"}}, .slots = {{"a", {"({a})"}}}};
  EXPECT_THAT(fill_template(pattern, 1), ElementsAre(ElementsAre("(((({a}))))")));
}

class Overlap : public testing::Test {
 protected:
  Overlap()
      : file_(ModelFile::open(std::string(DSPARK_TEST_DATA) + "/models/llama/llama.gguf").value()),
        tokenizer_(load_tokenizer(file_).value()) {}
  ModelFile file_;
  Tokenizer tokenizer_;
};

TEST_F(Overlap, RunsOfThirteenTokensAndWholePromptsAreFound) {
  OverlapFilter filter(tokenizer_, {"Please reason."});
  const std::string evaluation = "abcdefghijklmnopqrstuvwxyz0123456789 Please reason.";
  filter.add_evaluation(evaluation);
  filter.add_evaluation("Tiny One");
  EXPECT_TRUE(filter.overlaps(evaluation));
  EXPECT_TRUE(filter.overlaps(" tiny   one\n")) << "case and white space do not matter for whole prompts";
  const auto tokens = tokenizer_.encode("abcdefghijklmnopqrstuvwxyz0123456789", {.add_special = false});
  ASSERT_GE(tokens.size(), 14u);
  EXPECT_TRUE(filter.overlaps(std::span(tokens).subspan(1, 13)));
  EXPECT_FALSE(filter.overlaps(std::span(tokens).subspan(1, 12)));
  EXPECT_FALSE(filter.overlaps("Another text. Please reason."));
}

TEST_F(Overlap, RepeatedTurnsAreSeen) {
  OverlapFilter filter(tokenizer_, {});
  const std::vector<std::string> one = {"a b"}, same = {"A  b "}, other = {"a b", "c"};
  EXPECT_FALSE(filter.seen_before(one));
  EXPECT_TRUE(filter.seen_before(same));
  EXPECT_FALSE(filter.seen_before(other));
}

class Sources : public testing::Test {
 protected:
  Sources() : folder_(std::filesystem::temp_directory_path() / fmt::format("dspark-sources-test-{}", getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~Sources() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) {
    const std::string path = (folder_ / name).string();
    std::ofstream(path) << text;
    return path;
  }
  std::filesystem::path folder_;
};

TEST_F(Sources, EveryKindGivesPrompts) {
  write("a.jsonl", "{\"turns\": [\"one\"]}\n\n{\"turns\": [\"two\", \"three\"]}\n");
  write("code.py", kSource);
  const std::string path = write("sources.json", R"({
    "temperatures": [0, 1], "evaluation": ["a.jsonl"],
    "sources": [
      {"name": "file", "kind": "jsonl", "licence": "MIT", "path": "a.jsonl", "endings": ["!"]},
      {"name": "code", "kind": "python", "licence": "MIT", "path": ".", "wordings": ["Do {documentation}"]},
      {"name": "made", "kind": "template", "licence": "MIT", "count": 2, "conversations": [["{x}"]],
       "slots": {"x": ["1", "2"]}},
      {"name": "own", "kind": "self", "licence": "MIT", "count": 3, "samples": 2}]})");
  const auto loaded = load_prompt_sources(path, folder_.string());
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_THAT(loaded->evaluation, ElementsAre("one", "two", "three"));
  ASSERT_EQ(loaded->sources.size(), 4u);
  EXPECT_THAT(loaded->sources[0].prompts[1].turns, ElementsAre("two!", "three!"));
  EXPECT_EQ(loaded->sources[0].prompts[1].id, "file/1");
  EXPECT_THAT(loaded->sources[1].prompts[0].turns, ElementsAre("Do Put a book on the shelf."));
  EXPECT_FALSE(loaded->sources[2].prompts.empty());
  EXPECT_EQ(loaded->sources[3].prompts.size(), 3u);
  EXPECT_TRUE(loaded->sources[3].prompts[0].turns.empty());
}

TEST_F(Sources, WrongFilesAreRefusedWithTheirName) {
  for (const char* text : {"[]", "{}", R"({"temperatures": [0], "sources": [{}]})",
                           R"({"temperatures": [1], "sources": [{"name": "n", "kind": "x", "licence": "MIT"}]})",
                           R"({"temperatures": [1], "sources": []})"}) {
    EXPECT_FALSE(load_prompt_sources(write("bad.json", text), folder_.string()).ok()) << text;
  }
  EXPECT_THAT(load_turns(write("bad.jsonl", "{\"turns\": [1]}\n")).error().message, HasSubstr("bad.jsonl:1"));
}

}  // namespace
}  // namespace dspark
