// See jinja_format.h.
#include "text/jinja_format.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja_markup.h"
#include "text/jinja_ops.h"
#include "text/jinja_print.h"
#include "text/jinja_unicode.h"
#include "text/utf8.h"

namespace dspark::jinja {
namespace {

constexpr int64_t kMaxPrecision = 10'000;
constexpr int64_t kMaxWidth = 1'000'000'000;

// What both languages say about one value: [[fill]align][sign][#][0][width][grouping][.precision][type].
struct Spec {
  std::string fill = " ";
  char align = 0;  // < > ^ =, 0 for the type's own
  char sign = '-';
  bool alternate = false;
  int64_t width = 0;
  char grouping = 0;
  int64_t precision = -1;
  char type = 0;
};

// A formatted number: what stays at the left when zeros are filled in, and the rest.
struct Parts {
  std::string prefix;
  std::string digits;
};

std::string pad(Runtime& rt, const Parts& parts, const Spec& spec, char default_align) {
  const std::string body = parts.prefix + parts.digits;
  const auto size = static_cast<int64_t>(count_code_points(body));
  if (size >= spec.width) return body;
  const auto missing = static_cast<size_t>(spec.width - size);
  rt.check_text(body.size() + missing * spec.fill.size());
  const char align = spec.align != 0 ? spec.align : default_align;
  const size_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  const auto fill = [&](size_t count) {
    std::string out;
    for (size_t i = 0; i < count; ++i) out += spec.fill;
    return out;
  };
  if (align == '=') return parts.prefix + fill(missing) + parts.digits;
  return fill(left) + body + fill(missing - left);
}

std::string sign_of(bool negative, const Spec& spec) {
  if (negative) return "-";
  return spec.sign == '-' ? "" : std::string(1, spec.sign);
}

// Puts the separator between groups of digits of the whole part.
std::string group_digits(const std::string& digits, char separator, size_t group) {
  if (separator == 0) return digits;
  const size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % group == 0) out += separator;
    out += digits[i];
  }
  return out + digits.substr(whole);
}

Parts format_integer(Int value, const Spec& spec) {
  __extension__ typedef unsigned __int128 Unsigned;
  const Unsigned size = value < 0 ? -static_cast<Unsigned>(value) : static_cast<Unsigned>(value);
  Parts parts{sign_of(value < 0, spec), {}};
  switch (spec.type) {
    case 'x':
      parts.digits = fmt::format("{:x}", size);
      break;
    case 'X':
      parts.digits = fmt::format("{:X}", size);
      break;
    case 'o':
      parts.digits = fmt::format("{:o}", size);
      break;
    case 'b':
      parts.digits = fmt::format("{:b}", size);
      break;
    default:
      parts.digits = fmt::format("{}", size);
      break;
  }
  const bool decimal = spec.type != 'x' && spec.type != 'X' && spec.type != 'o' && spec.type != 'b';
  if (spec.alternate && !decimal) parts.prefix += std::string("0") + spec.type;
  parts.digits = group_digits(parts.digits, spec.grouping, decimal ? 3 : 4);
  return parts;
}

// Digits of a finite `value` >= 0 with precision but no type: as %g, but never without a decimal.
std::string general_with_decimal(double value, int precision) {
  precision = std::max(precision, 1);
  const std::string scientific = fmt::format("{:.{}e}", value, precision - 1);
  const size_t e = scientific.find('e');
  const int exponent = std::stoi(scientific.substr(e + 1));
  if (exponent < -4 || exponent >= precision - 1) {
    std::string mantissa = scientific.substr(0, e);
    if (mantissa.find('.') != mantissa.npos) mantissa.erase(mantissa.find_last_not_of('0') + 1);
    if (mantissa.back() == '.') mantissa.pop_back();
    return mantissa + scientific.substr(e);
  }
  const std::string general = fmt::format("{:.{}g}", value, precision);
  return general.find('.') == general.npos ? general + ".0" : general;
}

Parts format_real(double value, const Spec& spec) {
  if (spec.precision > kMaxPrecision)
    fail("a precision of {} is beyond the limit of {}", spec.precision, kMaxPrecision);
  Parts parts{sign_of(std::signbit(value) && !std::isnan(value), spec), {}};
  const double size = std::abs(value);
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  const bool upper_case = spec.type == 'E' || spec.type == 'F' || spec.type == 'G';
  if (!std::isfinite(value)) {
    parts.digits = std::isnan(value) ? "nan" : "inf";
  } else {
    switch (spec.type) {
      case 'e':
      case 'E':
        parts.digits =
            spec.alternate ? fmt::format("{:#.{}e}", size, precision) : fmt::format("{:.{}e}", size, precision);
        break;
      case 'f':
      case 'F':
        parts.digits =
            spec.alternate ? fmt::format("{:#.{}f}", size, precision) : fmt::format("{:.{}f}", size, precision);
        break;
      case 'g':
      case 'G':
      case 'n':
        parts.digits =
            spec.alternate ? fmt::format("{:#.{}g}", size, precision) : fmt::format("{:.{}g}", size, precision);
        break;
      case '%':
        parts.digits = fmt::format("{:.{}f}%", size * 100, precision);
        break;
      default:
        parts.digits = spec.precision < 0 ? real_repr(size) : general_with_decimal(size, precision);
    }
  }
  if (upper_case) parts.digits = upper(parts.digits);
  parts.digits = group_digits(parts.digits, spec.grouping, 3);
  return parts;
}

std::string truncate(const std::string& text, int64_t precision) {
  return precision < 0 ? text : text.substr(0, byte_offset(text, static_cast<size_t>(precision)));
}

// Reads digits at `at`; -1 if there are none.
int64_t read_number(std::string_view text, size_t& at) {
  int64_t number = -1;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    number = std::max<int64_t>(number, 0) * 10 + (text[at++] - '0');
    if (number > kMaxWidth) fail("a width of {} or more is too large", number);
  }
  return number;
}

Spec parse_spec(std::string_view text) {
  Spec spec;
  size_t at = 0;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  size_t after_fill = 0;
  if (!text.empty()) next_code_point(text, after_fill);
  if (after_fill < text.size() && is_align(text[after_fill])) {
    spec.fill = text.substr(0, after_fill);
    spec.align = text[after_fill];
    at = after_fill + 1;
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[at++];
  }
  if (at < text.size() && (text[at] == '+' || text[at] == '-' || text[at] == ' ')) spec.sign = text[at++];
  if (at < text.size() && text[at] == '#') spec.alternate = true, ++at;
  if (at < text.size() && text[at] == '0') {
    if (spec.align == 0) spec.align = '=', spec.fill.assign(1, '0');
    ++at;
  }
  spec.width = std::max<int64_t>(read_number(text, at), 0);
  if (at < text.size() && (text[at] == ',' || text[at] == '_')) spec.grouping = text[at++];
  if (at < text.size() && text[at] == '.') {
    spec.precision = read_number(text, ++at);
    if (spec.precision < 0) fail("Format specifier missing precision");
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) fail("Invalid format specifier '{}'", text);
  return spec;
}

// format(value, text).
std::string format_value(Runtime& rt, const Value& value, std::string_view text) {
  if (text.empty()) return to_str(rt, value);
  Spec spec = parse_spec(text);
  const std::string_view types_of_ints = "bcdoxXn", types_of_reals = "eEfFgG%n";
  const auto unknown = [&]() {
    fail("Unknown format code '{}' for object of type '{}'", spec.type, value.type_name());
  };
  if (value.text() != nullptr) {
    if (spec.type != 0 && spec.type != 's') unknown();
    if (spec.align == '=' && spec.fill == "0") spec.align = '<';
    if (spec.align == '=') fail("'=' alignment not allowed in string format specifier");
    return pad(rt, {"", truncate(*value.text(), spec.precision)}, spec, '<');
  }
  const auto number = as_number(value);
  if (!number) fail("unsupported format string passed to {}.__format__", value.type_name());
  const bool real_type = spec.type != 0 && types_of_reals.find(spec.type) != types_of_reals.npos && spec.type != 'n';
  if (!number->is_int || real_type) {
    if (spec.type != 0 && types_of_reals.find(spec.type) == types_of_reals.npos) unknown();
    return pad(rt, format_real(number->real, spec), spec, '>');
  }
  if (spec.type != 0 && types_of_ints.find(spec.type) == types_of_ints.npos) unknown();
  if (spec.precision >= 0) fail("Precision not allowed in integer format specifier");
  if (spec.type == 'c') {
    if (number->integer < 0 || number->integer > 0x10FFFF) fail("%c arg not in range(0x110000)");
    std::string character;
    append_utf8(character, static_cast<uint32_t>(number->integer));
    return pad(rt, {"", character}, spec, '<');
  }
  return pad(rt, format_integer(number->integer, spec), spec, '>');
}

// Walks "..." % values.
class PercentFormat {
 public:
  PercentFormat(Runtime& rt, const Value& format, const Value& values)
      : rt_(rt), format_(*format.text()), is_markup_(format.is_markup()), values_(values) {}

  std::string run() {
    std::string out;
    while (at_ < format_.size()) {
      rt_.check_text(out.size());
      const size_t percent = std::min(format_.find('%', at_), format_.size());
      out += format_.substr(at_, percent - at_);
      at_ = percent + 1;
      if (percent < format_.size()) out += directive();
    }
    const List* tuple = values_.get<List>();
    const bool is_tuple = tuple != nullptr && tuple->is_tuple;
    const bool takes_rest = !is_tuple && (tuple != nullptr || values_.get<Dict>() != nullptr);
    if (!takes_rest && used_ < (is_tuple ? tuple->items.size() : 1)) {
      fail("not all arguments converted during string formatting");
    }
    return out;
  }

 private:
  const Value& next_value() {
    const List* tuple = values_.get<List>();
    const size_t index = used_++;
    if (tuple != nullptr && tuple->is_tuple) {
      if (index < tuple->items.size()) return tuple->items[index];
    } else if (index == 0) {
      return values_;
    }
    fail("not enough arguments for format string");
  }

  const Value& named_value() {
    const size_t end = format_.find(')', at_);
    if (end == format_.npos) fail("incomplete format key");
    const std::string_view name = format_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    const Dict* dict = values_.get<Dict>();
    if (dict == nullptr) fail("format requires a mapping");
    const Value* value = dict->find(name);
    if (value == nullptr) fail("'{}'", name);
    return *value;
  }

  int64_t number_or_star() {
    if (at_ < format_.size() && format_[at_] == '*') {
      ++at_;
      const auto number = as_number(next_value());
      if (!number || !number->is_int) fail("* wants int");
      if (number->integer > kMaxWidth || number->integer < -kMaxWidth) fail("a width is too large");
      return static_cast<int64_t>(number->integer);
    }
    return std::max<int64_t>(read_number(format_, at_), 0);
  }

  std::string directive() {
    const Value* named = nullptr;
    if (at_ < format_.size() && format_[at_] == '(') named = &named_value();
    Spec spec;
    bool zeros = false;
    for (; at_ < format_.size() && std::string_view("-+ 0#").find(format_[at_]) != std::string_view::npos; ++at_) {
      const char flag = format_[at_];
      if (flag == '-') spec.align = '<';
      if (flag == '+' || (flag == ' ' && spec.sign != '+')) spec.sign = flag;
      zeros = zeros || flag == '0';
      spec.alternate = spec.alternate || flag == '#';
    }
    spec.width = number_or_star();
    if (spec.width < 0) spec.align = '<', spec.width = -spec.width;
    if (at_ < format_.size() && format_[at_] == '.') ++at_, spec.precision = std::max<int64_t>(number_or_star(), 0);
    while (at_ < format_.size() && (format_[at_] == 'h' || format_[at_] == 'l' || format_[at_] == 'L')) ++at_;
    if (at_ >= format_.size()) fail("incomplete format");
    spec.type = format_[at_++];
    if (spec.type == '%') return "%";
    if (zeros && spec.align == 0 && spec.type != 's' && spec.type != 'r' && spec.type != 'c') {
      spec.align = '=', spec.fill.assign(1, '0');
    }
    return pad(rt_, convert(spec, named != nullptr ? *named : next_value()), spec, '>');
  }

  Parts convert(Spec& spec, const Value& value) {
    switch (spec.type) {
      case 's':
        return {"", truncate(is_markup_ ? escape_html(rt_, value) : to_str(rt_, value), spec.precision)};
      case 'r':
      case 'a': {
        const std::string text = to_repr(rt_, value);
        return {"", truncate(is_markup_ ? escape_html(text) : text, spec.precision)};
      }
      case 'c':
        return {"", character(value)};
      default:
        break;
    }
    if (std::string_view("diuxXoeEfFgG").find(spec.type) == std::string_view::npos) {
      fail("unsupported format character '{}' (0x{:x}) at index {}", spec.type, static_cast<unsigned char>(spec.type),
           at_ - 1);
    }
    const bool real_type = std::string_view("eEfFgG").find(spec.type) != std::string_view::npos;
    const auto number = as_number(value);
    const bool integral = spec.type == 'x' || spec.type == 'X' || spec.type == 'o';
    if (!number && real_type) fail("must be real number, not {}", value.type_name());
    if (!number || (integral && !number->is_int)) {
      fail("%{} format: {} is required, not {}", spec.type, integral ? "an integer" : "a real number",
           value.type_name());
    }
    if (real_type) return format_real(number->real, spec);
    if (!number->is_int && !(std::abs(number->real) < 1e38)) fail("cannot convert float to integer");
    Parts parts = format_integer(number->is_int ? number->integer : static_cast<Int>(number->real), spec);
    if (spec.precision > kMaxPrecision) fail("a precision of {} is beyond the limit", spec.precision);
    const auto least = static_cast<size_t>(std::max<int64_t>(spec.precision, 0));
    if (parts.digits.size() < least) parts.digits.insert(0, least - parts.digits.size(), '0');
    return parts;
  }

  std::string character(const Value& value) const {
    if (value.text() != nullptr && count_code_points(*value.text()) == 1) return *value.text();
    auto* code = value.get<Int>();
    if (code == nullptr) fail("%c requires int or char");
    if (*code < 0 || *code > 0x10FFFF || (*code >= 0xD800 && *code < 0xE000)) fail("%c arg not in range(0x110000)");
    std::string out;
    append_utf8(out, static_cast<uint32_t>(*code));
    return out;
  }

  Runtime& rt_;
  const std::string_view format_;
  const bool is_markup_;
  const Value& values_;
  size_t at_ = 0;
  size_t used_ = 0;
};

// Walks "...".format(...).
class BraceFormat {
 public:
  BraceFormat(Runtime& rt, bool is_markup, const CallArgs& args) : rt_(rt), is_markup_(is_markup), args_(args) {}

  // `depth`: how many formats this one is inside the specification of.
  std::string run(std::string_view format, int depth) {
    if (depth > 1) fail("Max string recursion exceeded");
    std::string out;
    for (size_t at = 0; at < format.size();) {
      rt_.work(1);
      rt_.check_text(out.size());
      const char c = format[at++];
      if (c != '{' && c != '}') {
        out += c;
      } else if (at < format.size() && format[at] == c) {
        out += c;
        ++at;
      } else if (c == '}') {
        fail("Single '}}' encountered in format string");
      } else {
        out += field(field_text(format, at), depth);
      }
    }
    return out;
  }

 private:
  // What lies between a brace and its partner; moves `at` behind it.
  static std::string_view field_text(std::string_view format, size_t& at) {
    const size_t start = at;
    for (int open = 1; at < format.size(); ++at) {
      if (format[at] == '{') ++open;
      if (format[at] == '}' && --open == 0) return format.substr(start, at++ - start);
    }
    fail("expected '}}' before end of string");
  }

  std::string field(std::string_view text, int depth) {
    size_t name_end = 0;
    for (bool in_index = false; name_end < text.size(); ++name_end) {
      if (text[name_end] == '[') in_index = true;
      if (text[name_end] == ']') in_index = false;
      if (!in_index && (text[name_end] == '!' || text[name_end] == ':')) break;
    }
    Value value = look_up(text.substr(0, name_end));
    std::string_view rest = text.substr(name_end);
    if (!rest.empty() && rest[0] == '!') {
      if (rest.size() < 2 || (rest.size() > 2 && rest[2] != ':')) fail("expected ':' after conversion specifier");
      if (rest[1] != 's' && rest[1] != 'r' && rest[1] != 'a') fail("Unknown conversion specifier {}", rest[1]);
      value = rt_.text(rest[1] == 's' ? to_str(rt_, value) : to_repr(rt_, value));
      rest = rest.substr(2);
    }
    const std::string formatted =
        rest.empty() ? to_str(rt_, value) : format_value(rt_, value, run(rest.substr(1), depth + 1));
    return is_markup_ && !value.is_markup() && depth == 0 ? escape_html(formatted) : formatted;
  }

  // name or number, then .attribute and [item].
  Value look_up(std::string_view name) {
    size_t at = std::min(name.find_first_of(".["), name.size());
    Value value = argument(name.substr(0, at));
    while (at < name.size()) {
      if (name[at] == '.') {
        const size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        value = get_attribute(rt_, value, name.substr(at + 1, end - at - 1));
        at = end;
      } else {
        const size_t end = name.find(']', at);
        if (name[at] != '[' || end == name.npos) fail("Only '.' or '[' may follow ']' in format field specifier");
        value = get_item(rt_, value, key(name.substr(at + 1, end - at - 1)));
        at = end + 1;
      }
    }
    return value;
  }

  Value key(std::string_view text) {
    size_t at = 0;
    const int64_t number = read_number(text, at);
    return number >= 0 && at == text.size() ? Value::integer(number) : rt_.text(std::string(text));
  }

  Value argument(std::string_view name) {
    size_t at = 0;
    int64_t index = name.empty() ? static_cast<int64_t>(automatic_++) : read_number(name, at);
    if (at != name.size()) index = -1;
    if (index >= 0) {
      if (static_cast<size_t>(index) < args_.positional.size()) return args_.positional[static_cast<size_t>(index)];
      fail("Replacement index {} out of range for positional args tuple", index);
    }
    rt_.work(args_.named.size());
    for (const auto& [key_name, value] : args_.named) {
      if (key_name == name) return value;
    }
    fail("'{}'", name);
  }

  Runtime& rt_;
  const bool is_markup_;
  const CallArgs& args_;
  size_t automatic_ = 0;
};

}  // namespace

std::string format_percent(Runtime& rt, const Value& format, const Value& values) {
  rt.scan(format.text()->size());
  return PercentFormat(rt, format, values).run();
}

std::string format_braces(Runtime& rt, const Value& format, const CallArgs& args) {
  return BraceFormat(rt, format.is_markup(), args).run(*format.text(), 0);
}

double round_decimals(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 323) return value;
  if (digits < -309) return std::copysign(0.0, value);
  std::string text;
  if (digits >= 0) {
    text = fmt::format("{:.{}f}", value, digits);
  } else {
    // Round the exact whole part at its decimal position: scientific notation with fewer digits does that.
    const std::string scientific = fmt::format("{:.17e}", value);
    const int exponent = std::stoi(scientific.substr(scientific.find('e') + 1));
    const int64_t kept = exponent + digits;
    if (kept < -1) return std::copysign(0.0, value);
    if (kept < 0) {
      const double unit = std::pow(10.0, static_cast<double>(-digits));
      return std::abs(value) > unit / 2 ? std::copysign(unit, value) : std::copysign(0.0, value);
    }
    text = fmt::format("{:.{}e}", value, kept);
  }
  double result = value;
  std::from_chars(text.data(), text.data() + text.size(), result);
  return result;
}

}  // namespace dspark::jinja
