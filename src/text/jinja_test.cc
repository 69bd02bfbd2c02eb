// The template language, feature by feature, against jinja2 (scripts/goldens/template_features.py), and templates that
// try to use up the machine.
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/chat_template.h"

namespace dspark {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;
using testing::StartsWith;

// Errors that CPython words by its own rules of argument parsing or code generation; the line is compared all the same.
const std::set<std::string> kWordedDifferently = {"{% call(x) [1, 2].count() %}{% endcall %}",
                                                  "{{ 'a'.upper(1) }}",
                                                  "{{ 'a'.replace('b') }}",
                                                  "{{ '{}'.format() }}",
                                                  "{{ '{'.format() }}",
                                                  "{{ range() }}",
                                                  "{{ 'abc }}",
                                                  "{{ 'a' 'b }}",
                                                  "{% break %}",
                                                  "{% macro m() %}{% continue %}{% endmacro %}",
                                                  "{% macro m(a, a) %}{% endmacro %}",
                                                  "{{ f(a=1, a=2) }}"};

std::tm golden_time() {
  std::tm time{};
  time.tm_year = 125, time.tm_mon = 6, time.tm_mday = 4, time.tm_hour = 15, time.tm_min = 5, time.tm_sec = 9;
  time.tm_wday = 5, time.tm_yday = 184;
  return time;
}

Result<std::string> render(const std::string& source, const ordered_json& context = ordered_json::object(),
                           const jinja::Limits& limits = {}) {
  DSPARK_TRY(const ChatTemplate chat_template, ChatTemplate::parse(source));
  ChatInput input;
  input.extra = context;
  input.now = golden_time;
  return chat_template.render(input, limits);
}

void expect_golden(const ordered_json& golden, const ordered_json& context) {
  const auto source = golden["template"].get<std::string>();
  SCOPED_TRACE(golden["group"].get<std::string>() + ": " + source);
  const auto result = render(source, context);
  if (golden.contains("text")) {
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_EQ(*result, golden["text"].get<std::string>());
    return;
  }
  ASSERT_FALSE(result.ok()) << *result;
  // Python compiles what jinja2 generates; where that fails, there is no line of the template.
  const int line = golden["line"].is_null() ? 1 : golden["line"].get<int>();
  const std::string place = "chat template, line " + std::to_string(line) + ": ";
  EXPECT_THAT(result.error().message, StartsWith(place));
  if (!kWordedDifferently.contains(source)) {
    EXPECT_EQ(result.error().message, place + golden["error"].get<std::string>());
  }
}

TEST(JinjaTest, FeaturesEqualJinja2) {
  std::ifstream file(std::string(DSPARK_TEST_DATA) + "/templates/features.json");
  const auto goldens = ordered_json::parse(file);
  ASSERT_GT(goldens["cases"].size(), 300u);
  for (const auto& golden : goldens["cases"]) expect_golden(golden, goldens["context"]);
}

struct Hostile {
  const char* what;
  std::string source;
};

std::string repeat(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

// Templates that would take all memory or run for ever.
std::vector<Hostile> exhausting_templates() {
  return {
      {"doubled text",
       "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}"},
      {"doubled list",
       "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}"},
      {"multiplied text", "{{ 'x' * 99999999999 }}"},
      {"multiplied list", "{{ [1] * 999999999 }}"},
      {"multiplied twice", "{{ ('x' * 6000000) * 60000000 }}"},
      {"output", "{% set s = 'x' * 1000000 %}{% for i in range(1000) %}{{ s }}{% endfor %}"},
      {"captured output", "{% macro m(n) %}{{ 'x' * 3000000 }}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}"},
      {"kept texts",
       "{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = ns.l + ['x' * 1000000 ~ i] %}"
       "{% endfor %}"},
      {"loops", "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"},
      {"loops that break",
       "{% for a in range(99999) %}{% for b in range(99999) %}{% if b == 9000 %}{% break %}{% endif %}"
       "{% endfor %}{% endfor %}"},
      {"endless recursion", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"},
      {"exponential recursion",
       "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}"},
      {"recursive loop", "{% for x in [[]] recursive %}{{ loop([x]) }}{% endfor %}"},
      {"mutual recursion by call",
       "{% macro a() %}{{ caller }}{% call b() %}{% endcall %}{% endmacro %}"
       "{% macro b() %}{{ caller() }}{% call a() %}{% endcall %}{% endmacro %}{{ a() }}"},
      {"range", "{% for x in range(100001) %}{% endfor %}"},
      {"ranges", "{{ range(2147483648) }}"},
      {"shared list as JSON",
       "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}"
       "{{ ns.l | tojson }}"},
      {"shared list as text",
       "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}"
       "{{ ns.l }}"},
      {"shared lists compared",
       "{% set a = namespace(l=[1], m=[1]) %}{% for i in range(60) %}{% set a.l = [a.l, a.l] %}"
       "{% set a.m = [a.m, a.m] %}{% endfor %}{{ a.l == a.m }}"},
      {"deep list", "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = [ns.l] %}{% endfor %}"},
      {"deep dict",
       "{% set ns = namespace(l={}) %}{% for i in range(99999) %}{% set ns.l = {'a': ns.l} %}{% endfor %}"},
      {"deep methods",
       "{% set ns = namespace(l={}) %}{% for i in range(9999) %}{% set ns.l = {'a': ns.l.get} %}{% endfor %}"},
      {"namespace in itself", "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}"},
      {"namespaces in each other",
       "{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = [b, b] %}{{ b }}"},
      {"wide format", "{{ '%999999999d' % 1 }}"},
      {"wide format from a star", "{{ '%*d' % (999999999, 1) }}"},
      {"wide braces", "{{ '{:>999999999}'.format(1) }}"},
      {"wide text", "{{ 'x'.center(99999999999) }}{{ 'x'.zfill(99999999999) }}"},
      {"wide tabs", "{{ '\\t'.expandtabs(99999999999) }}"},
      {"wide indent", "{{ 'a\\nb' | indent(99999999999) }}"},
      {"wide JSON", "{{ [1] | tojson(indent=99999999999) }}"},
      {"replacement", "{{ ('x' * 60000).replace('', 'y' * 60000) }}"},
      {"joined", "{{ ('y' * 60000).join(['a'] * 60000) }}"},
      {"joined by the filter", "{{ (['a'] * 60000) | join('y' * 60000) }}"},
      {"filled batch", "{{ [1] | batch(99999999999, 0) | list }}"},
      {"slices", "{{ [1] | slice(99999999999) | list }}"},
      {"formats of times", "{{ strftime_now('%A' * 1000000) }}"},
      {"stripped characters",
       "{% set s = 'x' * 500000 %}{% for i in range(99999) %}{% set b = 'y'.strip(s) %}{% endfor %}"},
      {"long keys",
       "{% set s = 'x' * 500000 %}{% set d = {s: 1} %}{% for i in range(99999) %}{% set b = s in d %}{% endfor %}"},
      {"escapes", "{{ ['\\x00' * 4000000] }}"},
      {"searches", "{% set s = 'x' * 3000000 %}{% for i in range(99999) %}{% set b = 'y' in s %}{% endfor %}"},
      {"splits", "{% set s = 'x,' * 3000000 %}{{ s.split(',') | length }}"},
      {"sorts", "{% for i in range(99999) %}{% set l = range(99999) | sort %}{% endfor %}"},
      {"arguments",
       "{% macro m() %}{{ varargs[0] }}{% endmacro %}{% for i in range(99999) %}{{ m(*range(99999)) }}{% endfor %}"},
      {"kept namespaces",
       "{% for i in range(99999) %}{% for j in range(999) %}{% set n = namespace(a=1) %}{% endfor %}{% endfor %}"},
  };
}

TEST(JinjaTest, ExhaustingTemplatesStopAtALimit) {
  const jinja::Limits limits{.max_steps = 1'000'000, .max_text_bytes = 8u << 20, .max_memory_bytes = 32u << 20};
  for (const Hostile& hostile : exhausting_templates()) {
    SCOPED_TRACE(hostile.what);
    const auto result = render(hostile.source, ordered_json::object(), limits);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::kExhausted) << result.error().message;
  }
}

TEST(JinjaTest, NestedSourceIsBounded) {
  for (const char* open : {"(", "[", "{1:", "-", "not ", "1 if ", "x[", "f(", "x|default("}) {
    SCOPED_TRACE(open);
    const auto result = render("{{ " + repeat(open, 100'000));
    ASSERT_FALSE(result.ok());
    EXPECT_THAT(result.error().message, HasSubstr("nested deeper than the limit"));
  }
  for (const char* open : {"{% if x %}", "{% for x in y %}", "{% macro m() %}", "{% set x %}", "{% filter upper %}"}) {
    SCOPED_TRACE(open);
    EXPECT_THAT(render(repeat(open, 10'000)).error().message, HasSubstr("nested deeper than the limit"));
  }
  for (const char* link : {".a", "[0]", "()", "|e"}) {
    SCOPED_TRACE(link);
    EXPECT_THAT(render("{{ x" + repeat(link, 100'000) + " }}").error().message,
                HasSubstr("nested deeper than the limit"));
  }
  EXPECT_FALSE(render("{% for " + repeat("(", 100'000)).ok());
  EXPECT_FALSE(render(std::string(jinja::kMaxSourceBytes + 1, 'x')).ok());
}

TEST(JinjaTest, LongChainsAreNoNesting) {
  EXPECT_EQ(render("{{ 0" + repeat(" + 1", 20'000) + " }}").value(), "20000");
  EXPECT_EQ(render("{{ ''" + repeat(" ~ 'a'", 20'000) + " }}").value(), repeat("a", 20'000));
  EXPECT_EQ(render("{{ 0" + repeat(" or 0", 20'000) + " }}").value(), "0");
  EXPECT_EQ(render("{{ 1" + repeat(" == 1", 20'000) + " }}").value(), "True");
  EXPECT_EQ(render("{% if x %}a" + repeat("{% elif x %}b", 20'000) + "{% else %}c{% endif %}").value(), "c");
}

TEST(JinjaTest, SearchTakesLinearTime) {
  // Text and needle on which comparing at every position takes a quarter of 10^12 steps.
  const auto result = render(
      "{{ ('a' * 1000000 ~ 'b').find('a' * 500000 ~ 'c') }}"
      "{{ ('a' * 1000000).rfind('c' ~ 'a' * 500000) }}{{ ('a' * 1000000).count('a' * 999 ~ 'b') }}");
  EXPECT_EQ(result.value(), "-1-10");
}

TEST(JinjaTest, ManyKeysTakeLogarithmicTime) {
  ordered_json::array_t pairs;
  for (int i = 0; i < 20'000; ++i) pairs.push_back({"key " + std::to_string(i), i});
  const auto result =
      render("{% set d = dict(pairs) %}{{ d | length }}{% for k, v in pairs %}{{ '!' if d[k] != v }}{% endfor %}",
             {{"pairs", std::move(pairs)}});
  EXPECT_EQ(result.value(), "20000");
}

TEST(JinjaTest, IntegersBeyond128BitsAreAnError) {
  EXPECT_EQ(render("{{ 2 ** 126 }}").value(), "85070591730234615865843651857942052864");
  for (const char* source : {"{{ 2 ** 127 }}", "{{ 2 ** 126 * 2 }}", "{{ 2 ** 126 + 2 ** 126 }}",
                             "{{ (-2) ** 127 - 1 }}", "{{ ('9' * 99) | int }}", "{{ 3 ** 99999999999 }}"}) {
    EXPECT_FALSE(render(source).ok()) << source;
  }
  EXPECT_FALSE(render("{{ " + repeat("9", 60) + " }}").ok());
}

TEST(JinjaTest, LoadingOtherTemplatesIsNotSupported) {
  for (const char* source :
       {"{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}", "{% from 'x' import y %}"}) {
    EXPECT_THAT(render(source).error().message, HasSubstr("is not supported in chat templates")) << source;
  }
}

}  // namespace
}  // namespace dspark
