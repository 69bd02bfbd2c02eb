// See pretokenize_patterns.h. Sources: the tokenizer.json of each model family, and for "default" the pre-tokenizer
// that llama.cpp uses for files without a name.
#include "text/pretokenize_patterns.h"

#include <algorithm>
#include <iterator>

#include "base/printable.h"

namespace dspark {

const std::string_view kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// The class in the look-behind: punctuation newer than the Unicode version of the step.
const std::string_view kPunctuationPattern =
    R"([\p{P}$+<=>^`|~\x{166D}\x{111C9}](?<![)"
    R"(\x{61D}\x{9FD}\x{A76}\x{C77}\x{C84}\x{1B4E}-\x{1B4F}\x{1B7D}-\x{1B7F}\x{2E43}-\x{2E4F})"
    R"(\x{2E52}-\x{2E5D}\x{10D6E}\x{10EAD}\x{10F55}-\x{10F59}\x{10F86}-\x{10F89}\x{113D4}-\x{113D5})"
    R"(\x{113D7}-\x{113D8}\x{1144B}-\x{1144F}\x{1145A}-\x{1145B}\x{1145D}\x{11660}-\x{1166C}\x{116B9})"
    R"(\x{1183B}\x{11944}-\x{11946}\x{119E2}\x{11A3F}-\x{11A46}\x{11A9A}-\x{11A9C}\x{11A9E}-\x{11AA2})"
    R"(\x{11B00}-\x{11B09}\x{11BE1}\x{11C41}-\x{11C45}\x{11C70}-\x{11C71}\x{11EF7}-\x{11EF8})"
    R"(\x{11F43}-\x{11F4F}\x{11FFF}\x{12FF1}-\x{12FF2}\x{16D6D}-\x{16D6F}\x{16E97}-\x{16E9A}\x{16FE2})"
    R"(\x{1E5FF}\x{1E95E}-\x{1E95F})"
    R"(]))";

namespace {

using Behavior = PretokenizerStep::Behavior;
using Kind = PretokenizerStep::Kind;
using Steps = std::vector<PretokenizerStep>;

constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)"
    R"(\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)"
    R"(\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4oPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kDeepseekLetters =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
    R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C})"
    R"(\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5})"
    R"(\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B})"
    R"(\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45})"
    R"(\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4})"
    R"(\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB})"
    R"(\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115})"
    R"(\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F})"
    R"(\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2})"
    R"(\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E})"
    R"(\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A})"
    R"(\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
    R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)";
constexpr std::string_view kDeepseekMarks =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)";
constexpr std::string_view kDeepseekCjk = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr std::string_view kDeepseek3Cjk = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr std::string_view kDeepseek3Pattern =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kLineEnd = R"([\r\n])";
constexpr std::string_view kTrailingSpace = R"(\s+$)";
constexpr std::string_view kSpacedLetters = R"(\s?\p{L}+)";
constexpr std::string_view kSpacedPunctuation = R"(\s?\p{P}+)";
constexpr std::string_view kUpToThreeNumbers = R"(\p{N}{1,3})";
constexpr std::string_view kNumbers = R"(\p{N}+)";
constexpr std::string_view kThreeDigits = "[0-9][0-9][0-9]";
constexpr std::string_view kDefaultMarks = R"([\p{P}\$\+<=>\^~\|]+)";

PretokenizerStep split(std::string_view pattern, Behavior behavior = Behavior::kIsolated) {
  return {Kind::kSplit, std::string(pattern), behavior, false, PretokenizerStep::Prefix::kNever};
}

Steps gpt2() { return {split(kGpt2Pattern)}; }
Steps digits_then_gpt2() { return {split(kNumberPattern), split(kGpt2Pattern)}; }
Steps llama3() { return {split(kLlama3Pattern)}; }
Steps qwen2() { return {split(kQwen2Pattern)}; }
Steps qwen35() { return {split(kQwen35Pattern)}; }
Steps gpt4o() { return {split(kGpt4oPattern)}; }
Steps tekken() { return {split(kTekkenPattern)}; }
Steps deepseek_llm() {
  return {split(kLineEnd),       split(kDeepseekLetters), split(kDeepseekMarks),
          split(kTrailingSpace), split(kDeepseekCjk),     split(kNumberPattern)};
}
Steps deepseek_coder() {
  return {split(kLineEnd), split(kSpacedLetters), split(kSpacedPunctuation), split(kDeepseekCjk),
          split(kNumberPattern)};
}
Steps deepseek_v3() { return {split(kUpToThreeNumbers), split(kDeepseek3Cjk), split(kDeepseek3Pattern)}; }
// Falcon looks for numbers behind its ByteLevel step, hence in the byte alphabet.
Steps falcon() {
  return {split(kPunctuationPattern, Behavior::kContiguous),
          split(kGpt2Pattern),
          {Kind::kByteAlphabet, "", Behavior::kIsolated, false, PretokenizerStep::Prefix::kNever},
          split(kNumberPattern, Behavior::kContiguous),
          split(kThreeDigits)};
}
Steps unnamed() { return {split(kDefaultMarks), split(kGpt2Pattern), split(kNumbers), split(kThreeDigits)}; }

struct NameEntry {
  std::string_view name;
  Steps (*steps)();
  bool ignore_merges;
  bool add_bos;
};
constexpr NameEntry kNames[] = {
    {"command-r", digits_then_gpt2, false, false},
    {"dbrx", llama3, false, false},
    {"deepseek-coder", deepseek_coder, false, false},
    {"deepseek-llm", deepseek_llm, false, false},
    {"deepseek-r1-qwen", qwen2, false, false},
    {"deepseek-v3", deepseek_v3, false, false},
    {"default", unnamed, false, false},
    {"falcon", falcon, false, false},
    {"falcon3", llama3, true, true},
    {"gpt-2", gpt2, false, false},
    {"gpt-4o", gpt4o, false, false},
    {"gpt-neox", gpt2, false, false},
    {"jais", gpt2, false, false},
    {"llama-bpe", llama3, true, true},
    {"llama-v3", llama3, true, true},
    {"llama3", llama3, true, true},
    {"llama4", gpt4o, false, false},
    {"mpt", gpt2, false, false},
    {"olmo", gpt2, false, false},
    {"phi-2", gpt2, false, false},
    {"pixtral", llama3, true, true},
    {"qwen2", qwen2, false, false},
    {"qwen35", qwen35, false, false},
    {"refact", digits_then_gpt2, false, false},
    {"smaug-bpe", llama3, false, false},
    {"smollm", digits_then_gpt2, false, false},
    {"stablelm2", qwen2, false, false},
    {"starcoder", digits_then_gpt2, false, false},
    {"tekken", tekken, true, true},
};

}  // namespace

Result<NamedPretokenizer> named_pretokenizer(std::string_view name) {
  std::string known;
  for (const NameEntry& entry : kNames) {
    if (entry.name == name) return NamedPretokenizer{entry.steps(), entry.ignore_merges, entry.add_bos};
    known += known.empty() ? "" : ", ";
    known += entry.name;
  }
  return make_error(ErrorCode::kUnsupported, "tokenizer.ggml.pre is {}, expected one of {}", quote(name), known);
}

PatternTraits pattern_traits(std::string_view pattern) {
  constexpr std::string_view kEndsWords[] = {kLlama3Pattern, kQwen2Pattern,    kQwen35Pattern, kGpt4oPattern,
                                             kTekkenPattern, kDeepseekLetters, kSpacedLetters, kDeepseek3Pattern};
  constexpr std::string_view kNeverJoins[] = {kDeepseekMarks, kDeepseekCjk,       kDeepseek3Cjk, kLineEnd,
                                              kTrailingSpace, kSpacedPunctuation, kDefaultMarks};
  constexpr std::string_view kOnlyDigits[] = {kNumberPattern, kNumbers, kUpToThreeNumbers, kThreeDigits};
  auto among = [&](const auto& list) { return std::find(std::begin(list), std::end(list), pattern) != std::end(list); };
  PatternTraits traits;
  traits.only_digits = among(kOnlyDigits);
  traits.ends_words_before_space = among(kEndsWords) || pattern == kGpt2Pattern;
  traits.never_joins_letter_and_space =
      traits.ends_words_before_space || traits.only_digits || among(kNeverJoins) || pattern == kPunctuationPattern;
  return traits;
}

}  // namespace dspark
