// See jinja_print.h.
#include "text/jinja_print.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja_ops.h"
#include "text/jinja_unicode.h"
#include "text/utf8.h"

namespace dspark::jinja {
namespace {

// Namespaces can hold themselves, so that their depth is counted while they are printed.
constexpr int kMaxPrintDepth = 2 * kMaxValueDepth;

void append_text_repr(Runtime& rt, std::string& out, const std::string& text) {
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  out += quote;
  for (size_t at = 0; at < text.size();) {
    rt.check_text(out.size());
    const size_t start = at;
    const uint32_t cp = next_code_point(text, at);
    if (cp == '\\' || cp == static_cast<uint32_t>(quote)) {
      out += '\\';
      out += static_cast<char>(cp);
    } else if (cp == '\n' || cp == '\r' || cp == '\t') {
      out += cp == '\n' ? "\\n" : cp == '\r' ? "\\r" : "\\t";
    } else if (is_printable(cp)) {
      out.append(text, start, at - start);
    } else if (cp < 0x100) {
      out += fmt::format("\\x{:02x}", cp);
    } else {
      out += cp < 0x10000 ? fmt::format("\\u{:04x}", cp) : fmt::format("\\U{:08x}", cp);
    }
  }
  out += quote;
}

// Appends repr() of nested values; counts how deep it is.
class ReprWriter {
 public:
  ReprWriter(Runtime& rt, std::string& out) : rt_(rt), out_(out) {}

  void write(const Value& value) {
    rt_.work(1);
    rt_.check_text(out_.size());
    if (++depth_ > kMaxPrintDepth) fail_limit("a printed value is nested deeper than the limit of {}", kMaxPrintDepth);
    if (auto* list = value.get<List>()) {
      write_list(*list);
    } else if (auto* dict = value.get<Dict>()) {
      write_dict(*dict);
    } else if (auto* view = value.get<View>()) {
      write_view(value, *view);
    } else if (auto* name_space = value.object_as<Namespace>()) {
      write_namespace(*name_space);
    } else {
      write_scalar(value);
    }
    --depth_;
  }

 private:
  void write_list(const List& list) {
    out_ += list.is_tuple ? '(' : '[';
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_ += ", ";
      write(list.items[i]);
    }
    if (list.is_tuple && list.items.size() == 1) out_ += ',';
    out_ += list.is_tuple ? ')' : ']';
  }

  void write_dict(const Dict& dict) {
    out_ += '{';
    for (size_t i = 0; i < dict.size(); ++i) {
      if (i > 0) out_ += ", ";
      write(dict.entries()[i].first);
      out_ += ": ";
      write(dict.entries()[i].second);
    }
    out_ += '}';
  }

  void write_view(const Value& value, const View& view) {
    out_ += fmt::format("{}([", value.type_name());
    const auto& entries = view.dict->entries();
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_ += ", ";
      if (view.part == View::Part::kItems) out_ += '(';
      if (view.part != View::Part::kValues) write(entries[i].first);
      if (view.part == View::Part::kItems) out_ += ", ";
      if (view.part != View::Part::kKeys) write(entries[i].second);
      if (view.part == View::Part::kItems) out_ += ')';
    }
    out_ += "])";
  }

  void write_namespace(const Namespace& name_space) {
    out_ += "<Namespace {";
    for (size_t i = 0; i < name_space.attributes.size(); ++i) {
      if (i > 0) out_ += ", ";
      append_text_repr(rt_, out_, name_space.attributes[i].first);
      out_ += ": ";
      write(name_space.attributes[i].second);
    }
    out_ += "}>";
  }

  void write_scalar(const Value& value) {
    if (auto* text = value.text()) {
      rt_.scan(text->size());
      if (value.is_markup()) out_ += "Markup(";
      append_text_repr(rt_, out_, *text);
      if (value.is_markup()) out_ += ')';
    } else if (value.is_none()) {
      out_ += "None";
    } else if (auto* flag = value.get<bool>()) {
      out_ += *flag ? "True" : "False";
    } else if (auto* integer = value.get<Int>()) {
      out_ += fmt::format("{}", *integer);
    } else if (auto* real = value.get<double>()) {
      out_ += real_repr(*real);
    } else if (auto* range = value.get<Range>()) {
      out_ += fmt::format("range({}, {}", range->start, range->stop);
      out_ += range->step == 1 ? ")" : fmt::format(", {})", range->step);
    } else if (auto* object = value.object_as<Object>()) {
      out_ += object->describe(rt_);
    } else if (auto* method = value.get<Method>()) {
      out_ += fmt::format("<built-in method {} of {} object>", method->function->name, method->self.type_name());
    } else if (auto* native = value.get<const Native*>()) {
      out_ += fmt::format("<function {}>", (*native)->name);
    } else {
      out_ += "Undefined";
    }
  }

  Runtime& rt_;
  std::string& out_;
  int depth_ = 0;
};

class JsonWriter {
 public:
  JsonWriter(Runtime& rt, const JsonStyle& style) : rt_(rt), style_(style) {}

  std::string take() { return std::move(out_); }

  void write(const Value& value) {
    rt_.work(1);
    rt_.check_text(out_.size());
    if (auto* text = value.text()) {
      write_text(*text);
    } else if (value.is_none()) {
      out_ += "null";
    } else if (auto* flag = value.get<bool>()) {
      out_ += *flag ? "true" : "false";
    } else if (auto* integer = value.get<Int>()) {
      out_ += fmt::format("{}", *integer);
    } else if (auto* real = value.get<double>()) {
      out_ += json_real(*real);
    } else if (auto* list = value.get<List>()) {
      write_list(*list);
    } else if (auto* dict = value.get<Dict>()) {
      write_dict(*dict);
    } else {
      fail("Object of type {} is not JSON serializable", value.type_name());
    }
  }

 private:
  static std::string json_real(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return real_repr(value);
  }

  void write_text(const std::string& text) {
    rt_.scan(text.size());
    out_ += '"';
    for (size_t at = 0; at < text.size();) {
      rt_.check_text(out_.size());
      const size_t start = at;
      const uint32_t cp = next_code_point(text, at);
      switch (cp) {
        case '"':
          out_ += "\\\"";
          break;
        case '\\':
          out_ += "\\\\";
          break;
        case '\n':
          out_ += "\\n";
          break;
        case '\r':
          out_ += "\\r";
          break;
        case '\t':
          out_ += "\\t";
          break;
        case '\b':
          out_ += "\\b";
          break;
        case '\f':
          out_ += "\\f";
          break;
        default:
          if (cp < 0x20 || (cp >= 0x7F && style_.ensure_ascii)) {
            write_escape(cp);
          } else {
            out_.append(text, start, at - start);
          }
      }
    }
    out_ += '"';
  }

  void write_escape(uint32_t cp) {
    if (cp < 0x10000) {
      out_ += fmt::format("\\u{:04x}", cp);
    } else {
      out_ += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((cp - 0x10000) >> 10), 0xDC00 + (cp & 0x3FF));
    }
  }

  void new_line() {
    if (!style_.indented) return;
    rt_.check_text(out_.size() + style_.indent.size() * static_cast<size_t>(depth_));
    out_ += '\n';
    for (int i = 0; i < depth_; ++i) out_ += style_.indent;
  }

  void write_list(const List& list) {
    if (list.items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    ++depth_;
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line();
      write(list.items[i]);
    }
    --depth_;
    new_line();
    out_ += ']';
  }

  void write_key(const Value& key) {
    if (auto* text = key.text()) return write_text(*text);
    if (key.get<Int>() == nullptr && key.get<double>() == nullptr && key.get<bool>() == nullptr && !key.is_none()) {
      fail("keys must be str, int, float, bool or None, not {}", key.type_name());
    }
    out_ += '"';
    write(key);
    out_ += '"';
  }

  void write_dict(const Dict& dict) {
    if (dict.size() == 0) {
      out_ += "{}";
      return;
    }
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
        return compare(rt_, CompareOp::kLess, a->first, b->first);
      });
    }
    out_ += '{';
    ++depth_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line();
      write_key(entries[i]->first);
      out_ += style_.key_separator;
      write(entries[i]->second);
    }
    --depth_;
    new_line();
    out_ += '}';
  }

  Runtime& rt_;
  const JsonStyle& style_;
  std::string out_;
  int depth_ = 0;
};

}  // namespace

std::string real_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  const std::string_view scientific(buffer, static_cast<size_t>(end - buffer));
  const size_t e = scientific.find('e');
  int exponent = 0;
  const char* digits_of_exponent = scientific.data() + e + (scientific[e + 1] == '+' ? 2 : 1);
  std::from_chars(digits_of_exponent, end, exponent);
  if (exponent < -4 || exponent >= 16) return std::string(scientific);  // Python switches at the same exponents

  std::string out = value < 0 || (value == 0 && std::signbit(value)) ? "-" : "";
  std::string digits;
  for (char c : scientific.substr(0, e)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() < whole) digits.append(whole - digits.size(), '0');
  const std::string fraction = digits.substr(whole);
  return out + digits.substr(0, whole) + "." + (fraction.empty() ? "0" : fraction);
}

void append_repr(Runtime& rt, std::string& out, const Value& value) { ReprWriter(rt, out).write(value); }

void append_str(Runtime& rt, std::string& out, const Value& value) {
  if (auto* text = value.text()) {
    rt.check_text(out.size() + text->size());
    rt.scan(text->size());
    out += *text;
  } else if (!value.is_undefined()) {
    append_repr(rt, out, value);
  }
}

std::string to_str(Runtime& rt, const Value& value) {
  std::string out;
  append_str(rt, out, value);
  return out;
}

std::string to_repr(Runtime& rt, const Value& value) {
  std::string out;
  append_repr(rt, out, value);
  return out;
}

std::string to_json(Runtime& rt, const Value& value, const JsonStyle& style) {
  JsonWriter writer(rt, style);
  writer.write(value);
  return writer.take();
}

}  // namespace dspark::jinja
