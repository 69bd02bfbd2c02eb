// Filters on text and numbers, and the table of all filters (jinja_filters.h). Those on sequences are in
// jinja_sequence_filters.cc.
#include "text/jinja_filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja_format.h"
#include "text/jinja_markup.h"
#include "text/jinja_ops.h"
#include "text/jinja_print.h"
#include "text/jinja_sequence_filters.h"
#include "text/jinja_strings.h"
#include "text/jinja_unicode.h"
#include "text/utf8.h"

namespace dspark::jinja {
namespace {

using std::string_view;

// Unlike str.title(), words begin only behind white space and - ( { [ <.
std::string title_words(string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const auto separates = [](uint32_t cp) {
      return is_space(cp) || (cp < 0x80 && strchr("-({[<", static_cast<int>(cp)));
    };
    const size_t start = at;
    const bool separator = separates(next_code_point(text, at));
    const size_t second = at;
    while (at < text.size()) {
      size_t next = at;
      if (separates(next_code_point(text, next)) != separator) break;
      at = next;
    }
    out += separator ? std::string(text.substr(start, at - start))
                     : upper(text.substr(start, second - start)) + lower(text.substr(second, at - second));
  }
  return out;
}

template <std::string (*kRewrite)(string_view)>
Value filter_rewrite(Runtime& rt, const Value& self, const Args&) {
  return rt.text_like(self, kRewrite(to_str(rt, self)));
}

Value filter_title(Runtime& rt, const Value& self, const Args&) { return rt.text(title_words(to_str(rt, self))); }

Value filter_string(Runtime& rt, const Value& self, const Args&) {
  return self.text() != nullptr ? self : rt.text(to_str(rt, self));
}

Value filter_trim(Runtime& rt, const Value& self, const Args& args) {
  const std::string text = to_str(rt, self);
  const string_view characters = args.given(0) ? string_view(args.text(0)) : string_view();
  rt.work(characters.size());
  return rt.text_like(self, std::string(strip(text, {true, true}, args.given(0) ? &characters : nullptr)));
}

Value filter_replace(Runtime& rt, const Value& self, const Args& args) {
  const Int most = args.given(2) ? args.integer(2, -1) : -1;
  return rt.text(replace_text(rt, to_str(rt, self), to_str(rt, args[0]), to_str(rt, args[1]), most));
}

Value filter_center(Runtime& rt, const Value& self, const Args& args) {
  return rt.text_like(self, justify_text(rt, to_str(rt, self), args.integer(0, 80), " ", true, true));
}

Value filter_indent(Runtime& rt, const Value& self, const Args& args) {
  if (self.text() == nullptr) fail("unsupported operand type(s) for +=: '{}' and 'str'", self.type_name());
  const std::string indention = args.has(0) && args[0].text() != nullptr
                                    ? *args[0].text()
                                    : justify_text(rt, "", args.integer(0, 4), " ", false, true);
  const bool blank = args.truth(2, false);
  const std::string text = *self.text() + "\n";
  const auto lines = split_lines(text, false);
  rt.work(lines.size());
  std::string out = args.truth(1, false) ? indention : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    rt.check_text(out.size() + indention.size() + lines[i].size());
    if (i > 0) out += '\n';
    if (i > 0 && (blank || !lines[i].empty())) out += indention;
    out += lines[i];
  }
  return rt.text_like(self, std::move(out));
}

Value filter_truncate(Runtime& rt, const Value& self, const Args& args) {
  const auto size = length(rt, self);
  if (!size) fail("object of type '{}' has no len()", self.type_name());
  const string_view end = args.text(2, "...");
  const Int most = args.integer(0, 255), end_size = static_cast<Int>(count_code_points(end));
  const Int leeway = args.given(3) ? args.integer(3, 5) : 5;
  if (most < end_size) fail("expected length >= {}, got {}", end_size, most);
  if (leeway < 0) fail("expected leeway >= 0, got {}", leeway);
  if (static_cast<Int>(*size) <= most + leeway) return self;
  if (self.text() == nullptr) fail("truncate needs a text, not {}", self.type_name());
  const string_view text = *self.text();
  string_view kept = text.substr(0, byte_offset(text, static_cast<size_t>(most - end_size)));
  if (!args.truth(1, false)) kept = kept.substr(0, kept.rfind(' '));
  return rt.text_like(self, std::string(kept) + (self.is_markup() ? escape_html(end) : std::string(end)));
}

Value filter_wordcount(Runtime& rt, const Value& self, const Args&) {
  const std::string text = to_str(rt, self);
  Int words = 0;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const uint32_t cp = next_code_point(text, at);
    const bool word = cp == '_' || is_alpha(cp) || is_numeric(cp);
    words += word && !in_word;
    in_word = word;
  }
  return Value::integer(words);
}

Value filter_escape(Runtime& rt, const Value& self, const Args&) { return rt.markup(escape_html(rt, self)); }
Value filter_forceescape(Runtime& rt, const Value& self, const Args&) {
  return rt.markup(escape_html(to_str(rt, self)));
}

Value filter_urlencode(Runtime& rt, const Value& self, const Args&) {
  const auto quote = [](const std::string& text, bool in_query) {
    std::string out;
    for (char c : text) {
      const bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' || c == '.' ||
                         c == '-' || c == '~' || (c == '/' && !in_query);
      if (plain) {
        out += c;
      } else {
        out += c == ' ' && in_query ? "+" : fmt::format("%{:02X}", static_cast<unsigned char>(c));
      }
    }
    return out;
  };
  if (self.text() != nullptr || !is_iterable(self)) return rt.text(quote(to_str(rt, self), false));
  std::string out;
  const Value pairs = self.get<Dict>() != nullptr
                          ? Value::shared(std::make_shared<const View>(View{View::Part::kItems, self.share<Dict>()}))
                          : self;
  Cursor cursor(rt, pairs);
  for (Value pair; cursor.next(pair);) {
    const std::vector<Value> parts = collect(rt, pair);
    if (parts.size() != 2) fail("urlencode needs pairs, got {} items", parts.size());
    rt.check_text(out.size());
    if (!out.empty()) out += '&';
    out += quote(to_str(rt, parts[0]), true);
    out += '=';
    out += quote(to_str(rt, parts[1]), true);
  }
  return rt.text(std::move(out));
}

// Python's int(text, base): white space around, a sign, a prefix that fits the base, single underscores.
bool parse_int(string_view text, int base, Int& out) {
  text = strip(text, {true, true}, nullptr);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    const char letter = static_cast<char>(c | 0x20);
    return letter >= 'a' && letter <= 'z' ? letter - 'a' + 10 : 99;
  };
  const char kind = text.size() > 2 && text[0] == '0' ? static_cast<char>(text[1] | 0x20) : '\0';
  const int prefix = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
  if (prefix != 0 && (base == prefix || base == 0)) {
    text.remove_prefix(2);
    base = prefix;
    if (text.starts_with('_')) text.remove_prefix(1);
  }
  if (base == 0) base = 10;
  if (text.empty() || base < 2 || base > 36) return false;
  out = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '_' && i > 0 && i + 1 < text.size() && text[i - 1] != '_') continue;
    if (digit(text[i]) >= base) return false;
    if (__builtin_mul_overflow(out, static_cast<Int>(base), &out) ||
        __builtin_add_overflow(out, static_cast<Int>(digit(text[i])), &out)) {
      fail("integer overflow: a number needs more than 128 bits");
    }
  }
  if (negative) out = -out;
  return true;
}

// Python's float(text).
bool parse_real(string_view text, double& out) {
  std::string trimmed(strip(text, {true, true}, nullptr));
  std::erase(trimmed, '_');
  if (trimmed.starts_with('+')) trimmed.erase(0, 1);
  const std::string word = lower(trimmed);
  const bool word_like = word.find_first_of("abcdfghijklmnopqrstuvwxyz(") != word.npos;  // all but the e of an exponent
  if (word_like && word != "inf" && word != "-inf" && word != "infinity" && word != "-infinity" && word != "nan" &&
      word != "-nan") {
    return false;
  }
  const auto result = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), out);
  return result.ec == std::errc() && result.ptr == trimmed.data() + trimmed.size() && !trimmed.empty();
}

bool to_integer(double value, Int& out) {
  if (!(std::abs(value) < 1e38)) return false;
  return out = static_cast<Int>(value), true;
}

Value filter_int(Runtime& rt, const Value& self, const Args& args) {
  if (auto* undefined = self.get<Undefined>()) fail("{}", undefined->reason);
  const Value fallback = args.has(0) ? args[0] : Value::integer(0);
  Int result = 0;
  double real = 0;
  if (const auto number = as_number(self)) {
    if (number->is_int) return Value::integer(number->integer);
    if (!std::isnan(number->real) && !to_integer(number->real, result))
      fail("cannot convert float infinity to integer");
    return std::isnan(number->real) ? fallback : Value::integer(result);
  }
  if (self.text() == nullptr) return fallback;
  const Int base = args.integer(1, 10);
  if (base >= 0 && base <= 36 && parse_int(*self.text(), static_cast<int>(base), result)) return Value::integer(result);
  return parse_real(*self.text(), real) && to_integer(real, result) ? Value::integer(result) : fallback;
}

Value filter_float(Runtime&, const Value& self, const Args& args) {
  if (auto* undefined = self.get<Undefined>()) fail("{}", undefined->reason);
  if (const auto number = as_number(self)) return Value::real(number->real);
  double real = 0;
  if (self.text() != nullptr && parse_real(*self.text(), real)) return Value::real(real);
  return args.has(0) ? args[0] : Value::real(0);
}

Value filter_abs(Runtime&, const Value& self, const Args&) {
  if (auto* undefined = self.get<Undefined>()) fail("{}", undefined->reason);
  const auto number = as_number(self);
  if (!number) fail("bad operand type for abs(): '{}'", self.type_name());
  if (!number->is_int) return Value::real(std::abs(number->real));
  return number->integer < 0 ? negative(self) : positive(self);
}

Value filter_round(Runtime& rt, const Value& self, const Args& args) {
  const string_view method = args.text(1, "common");
  const Int digits = std::clamp<Int>(args.integer(0, 0), -400, 400);
  const auto number = as_number(self);
  if (auto* undefined = self.get<Undefined>()) fail("{}", undefined->reason);
  if (!number) fail("type {} doesn't define __round__ method", self.type_name());
  if (method != "common" && method != "ceil" && method != "floor") fail("method must be common, ceil or floor");
  if (method == "common") {
    if (number->is_int && digits >= 0) return Value::integer(number->integer);
    const double rounded = round_decimals(number->real, static_cast<int64_t>(digits));
    Int whole = 0;
    return number->is_int && to_integer(rounded, whole) ? Value::integer(whole) : Value::real(rounded);
  }
  // As Python computes it: func(value * 10**precision) / 10**precision.
  const Value scale = binary(rt, BinaryOp::kPower, Value::integer(10), Value::integer(digits));
  const double scaled = as_number(binary(rt, BinaryOp::kMultiply, self, scale))->real;
  Int whole = 0;
  if (!to_integer(method == "ceil" ? std::ceil(scaled) : std::floor(scaled), whole))
    fail("a number is too large to round");
  return binary(rt, BinaryOp::kDivide, Value::integer(whole), scale);
}

Value filter_filesizeformat(Runtime& rt, const Value& self, const Args& args) {
  double bytes = 0;
  const auto number = as_number(self);
  if (number) bytes = number->real;
  if (!number && (self.text() == nullptr || !parse_real(*self.text(), bytes))) {
    fail("could not convert to float: {}", to_repr(rt, self));
  }
  const bool powers_of_two = args.truth(0, false);
  const double base = powers_of_two ? 1024 : 1000;
  if (bytes == 1) return rt.text("1 Byte");
  if (bytes < base) return rt.text(fmt::format("{} Bytes", static_cast<int64_t>(std::max(bytes, -1e18))));
  constexpr string_view kPrefixes = "kMGTPEZY";
  double unit = base * base;
  size_t i = 0;
  for (; i + 1 < kPrefixes.size() && !(bytes < unit); ++i) unit *= base;
  const char prefix = powers_of_two && i == 0 ? 'K' : kPrefixes[i];
  return rt.text(fmt::format("{:.1f} {}{}B", base * bytes / unit, prefix, powers_of_two ? "i" : ""));
}

Value filter_format(Runtime& rt, const Value& self, const Args& args) {
  CallArgs& all = args.all();
  if (!all.positional.empty() && !all.named.empty()) {
    fail("can't handle positional and keyword arguments at the same time");
  }
  const Value format = self.text() != nullptr ? self : rt.text(to_str(rt, self));
  if (all.named.empty()) return rt.text_like(self, format_percent(rt, format, rt.tuple(std::move(all.positional))));
  std::vector<std::pair<Value, Value>> named;
  for (auto& [name, value] : all.named) named.emplace_back(rt.text(name), std::move(value));
  return rt.text_like(self, format_percent(rt, format, rt.dict(std::move(named))));
}

Value filter_default(Runtime& rt, const Value& self, const Args& args) {
  const bool use_default = self.is_undefined() || (args.truth(1, false) && !truthy(self));
  if (!use_default) return self;
  return args.has(0) ? args[0] : rt.text("");
}

Value filter_attr(Runtime& rt, const Value& self, const Args& args) {
  const std::string& name = args.text(0);
  const Dict* dict = self.get<Dict>();
  // Only an attribute counts, never an item.
  const Value found = get_attribute(rt, self, name);
  if (dict != nullptr && found.get<Method>() == nullptr && !found.is_undefined()) {
    return rt.undefined("'dict object' has no attribute '{}'", name);
  }
  return found;
}

Value filter_tojson(Runtime& rt, const Value& self, const Args& args) {
  JsonStyle style;
  style.ensure_ascii = args.truth(0, false);
  style.sort_keys = args.truth(3, false);
  style.indented = args.given(1);
  if (style.indented) {
    style.item_separator.assign(1, ',');
    style.indent =
        args[1].text() != nullptr ? *args[1].text() : justify_text(rt, "", args.integer(1, 0), " ", false, true);
  }
  if (args.given(2)) {
    const std::vector<Value> separators = collect(rt, args[2]);
    if (separators.size() != 2 || separators[0].text() == nullptr || separators[1].text() == nullptr) {
      fail("tojson separators must be two texts");
    }
    style.item_separator = *separators[0].text();
    style.key_separator = *separators[1].text();
  }
  return rt.text(to_json(rt, self, style));
}

Value filter_safe(Runtime& rt, const Value& self, const Args&) { return rt.markup(to_str(rt, self)); }

constexpr Native kFilters[] = {
    {"abs", "", filter_abs},
    {"attr", "name", filter_attr},
    {"capitalize", "", filter_rewrite<capitalize>},
    {"center", "| width", filter_center},
    {"d", "| default_value boolean", filter_default},
    {"default", "| default_value boolean", filter_default},
    {"e", "", filter_escape},
    {"escape", "", filter_escape},
    {"filesizeformat", "| binary", filter_filesizeformat},
    {"float", "| default", filter_float},
    {"forceescape", "", filter_forceescape},
    {"format", "*", filter_format},
    {"indent", "| width first blank", filter_indent},
    {"int", "| default base", filter_int},
    {"lower", "", filter_rewrite<lower>},
    {"replace", "old new | count", filter_replace},
    {"round", "| precision method", filter_round},
    {"safe", "", filter_safe},
    {"string", "", filter_string},
    {"title", "", filter_title},
    {"tojson", "| ensure_ascii indent separators sort_keys", filter_tojson},
    {"trim", "| chars", filter_trim},
    {"truncate", "| length killwords end leeway", filter_truncate},
    {"upper", "", filter_rewrite<upper>},
    {"urlencode", "", filter_urlencode},
    {"wordcount", "", filter_wordcount},
};

}  // namespace

const Native* find_filter(string_view name) {
  for (std::span<const Native> table : {std::span<const Native>(kFilters), sequence_filters()}) {
    for (const Native& filter : table) {
      if (filter.name == name) return &filter;
    }
  }
  return nullptr;
}

}  // namespace dspark::jinja
