// See python_functions.h.
#include "train/python_functions.h"

#include <optional>

namespace dspark {
namespace {

constexpr size_t kMinDocumentation = 20;
constexpr size_t kMaxDocumentation = 800;  // bytes
constexpr size_t kMaxSignatureLines = 6;

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

size_t indentation(std::string_view line) {
  const size_t at = line.find_first_not_of(' ');
  return at == std::string_view::npos ? line.size() : at;
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

// Lines [first, end) with `indent` leading spaces taken off each.
std::string dedented(const std::vector<std::string_view>& lines, size_t first, size_t end, size_t indent) {
  std::string out;
  for (size_t i = first; i < end; ++i) {
    if (i > first) out += '\n';
    if (lines[i].size() > indent) out += lines[i].substr(indent);
  }
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

// One past the last line of the signature that starts at `first`; nothing if it does not end soon.
std::optional<size_t> signature_end(const std::vector<std::string_view>& lines, size_t first) {
  int depth = 0;
  for (size_t i = first; i < lines.size() && i < first + kMaxSignatureLines; ++i) {
    for (const char c : lines[i]) depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
    if (depth <= 0) return lines[i].ends_with(':') ? std::optional(i + 1) : std::nullopt;
  }
  return std::nullopt;
}

// One past the last line of the docstring that starts on line `first`, and its text between the quotes.
struct Docstring {
  size_t end;
  std::string text;
};
std::optional<Docstring> docstring_at(const std::vector<std::string_view>& lines, size_t first) {
  constexpr std::string_view kQuotes = "\"\"\"";
  if (first >= lines.size()) return std::nullopt;
  std::string_view line = lines[first].substr(indentation(lines[first]));
  if (line.starts_with('r')) line.remove_prefix(1);
  if (!line.starts_with(kQuotes)) return std::nullopt;
  line.remove_prefix(kQuotes.size());
  Docstring out = {first, ""};
  for (;;) {
    const size_t close = line.find(kQuotes);
    out.text += line.substr(0, close);
    ++out.end;
    if (close != std::string_view::npos) return out;
    if (out.end >= lines.size() || out.text.size() > kMaxDocumentation) return std::nullopt;
    out.text += '\n';
    line = lines[out.end];
  }
}

std::string first_paragraph(std::string_view text) {
  std::string out;
  for (const std::string_view line : lines_of(text)) {
    if (is_blank(line)) {
      if (!out.empty()) break;
      continue;
    }
    if (!out.empty()) out += ' ';
    std::string_view words = line.substr(indentation(line));
    while (!words.empty() && (words.back() == ' ' || words.back() == '\r')) words.remove_suffix(1);
    out += words;
  }
  return out;
}

size_t body_end(const std::vector<std::string_view>& lines, size_t first, size_t indent) {
  size_t end = first;
  for (size_t i = first; i < lines.size(); ++i) {
    if (is_blank(lines[i])) continue;
    if (indentation(lines[i]) <= indent) break;
    end = i + 1;
  }
  return end;
}

}  // namespace

std::vector<PythonFunction> find_python_functions(std::string_view text) {
  const std::vector<std::string_view> lines = lines_of(text);
  std::vector<PythonFunction> found;
  for (size_t i = 0; i < lines.size(); ++i) {
    const size_t indent = indentation(lines[i]);
    const std::string_view line = lines[i].substr(indent);
    if (!line.starts_with("def ") || line.starts_with("def _") || line.starts_with("def test")) continue;
    const std::optional<size_t> body = signature_end(lines, i);
    if (!body) continue;
    const std::optional<Docstring> docstring = docstring_at(lines, *body);
    if (!docstring || docstring->text.size() < kMinDocumentation || docstring->text.size() > kMaxDocumentation)
      continue;
    found.push_back({.signature = dedented(lines, i, *body, indent),
                     .documentation = first_paragraph(docstring->text),
                     .head = dedented(lines, i, docstring->end, indent),
                     .source = dedented(lines, i, body_end(lines, docstring->end, indent), indent)});
    i = docstring->end - 1;
  }
  return found;
}

}  // namespace dspark
