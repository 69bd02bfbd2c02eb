// Arithmetic of jinja_ops.h: Python's numbers (floor division, sign of the remainder), and + * % on text and lists.
#include <cmath>
#include <limits>

#include "text/jinja_format.h"
#include "text/jinja_markup.h"
#include "text/jinja_ops.h"

namespace dspark::jinja {
namespace {

constexpr const char* kSymbols[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

[[noreturn]] void fail_overflow() { fail("integer overflow: a result needs more than 128 bits"); }

Int floor_divide(Int a, Int b) {
  if (b == -1 && a == std::numeric_limits<Int>::min()) fail_overflow();
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

double divide(Int a, Int b) {
  constexpr Int kExact = Int{1} << 53;  // below, both are doubles and the quotient is rounded once
  if (a > -kExact && a < kExact && b > -kExact && b < kExact) return static_cast<double>(a) / static_cast<double>(b);
  return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
}

Int power(Int base, Int exponent) {
  Int result = 1;
  while (true) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail_overflow();
    exponent >>= 1;
    if (exponent == 0) return result;
    if (__builtin_mul_overflow(base, base, &base)) fail_overflow();
  }
}

double real_power(double a, double b) {
  if (a == 0 && b < 0) fail("0.0 cannot be raised to a negative power");
  const double result = std::pow(a, b);
  if (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) fail("a negative number has no real power {}", b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) fail("(34, 'Numerical result out of range')");
  return result;
}

double real_floor_divide(double a, double b) {
  // By the remainder, which is exact, rather than by a / b, which may have been rounded up to a whole number.
  double remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
  const double quotient = (a - remainder) / b;
  return quotient == 0 ? std::copysign(0.0, a / b) : std::round(quotient);
}

double real_modulo(double a, double b) {
  const double remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(0.0, b);
  return (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

Value int_binary(BinaryOp op, Int a, Int b) {
  Int result = 0;
  switch (op) {
    case BinaryOp::kAdd:
      if (__builtin_add_overflow(a, b, &result)) fail_overflow();
      return Value::integer(result);
    case BinaryOp::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) fail_overflow();
      return Value::integer(result);
    case BinaryOp::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) fail_overflow();
      return Value::integer(result);
    case BinaryOp::kDivide:
      if (b == 0) fail("division by zero");
      return Value::real(divide(a, b));
    case BinaryOp::kFloorDivide:
      if (b == 0) fail("integer division or modulo by zero");
      return Value::integer(floor_divide(a, b));
    case BinaryOp::kModulo:
      if (b == 0) fail("integer modulo by zero");
      return Value::integer(b == -1 ? 0 : a - floor_divide(a, b) * b);
    case BinaryOp::kPower:
      if (b < 0) return Value::real(real_power(static_cast<double>(a), static_cast<double>(b)));
      return Value::integer(power(a, b));
  }
  return Value();
}

Value real_binary(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd:
      return Value::real(a + b);
    case BinaryOp::kSubtract:
      return Value::real(a - b);
    case BinaryOp::kMultiply:
      return Value::real(a * b);
    case BinaryOp::kDivide:
      if (b == 0) fail("float division by zero");
      return Value::real(a / b);
    case BinaryOp::kFloorDivide:
      if (b == 0) fail("float floor division by zero");
      return Value::real(real_floor_divide(a, b));
    case BinaryOp::kModulo:
      if (b == 0) fail("float modulo");
      return Value::real(real_modulo(a, b));
    case BinaryOp::kPower:
      return Value::real(real_power(a, b));
  }
  return Value();
}

Value add_sequences(Runtime& rt, const Value& a, const Value& b) {
  if (auto* text = a.text()) {
    if (b.text() == nullptr) fail("can only concatenate str (not \"{}\") to str", b.type_name());
    rt.check_text(text->size() + b.text()->size());
    if (a.is_markup() || b.is_markup()) return rt.markup(escape_html(rt, a) + escape_html(rt, b));
    return rt.text(*text + *b.text());
  }
  const List *left = a.get<List>(), *right = b.get<List>();
  if (right == nullptr || left->is_tuple != right->is_tuple) {
    fail("can only concatenate {0} (not \"{1}\") to {0}", a.type_name(), b.type_name());
  }
  std::vector<Value> items;
  items.reserve(left->items.size() + right->items.size());
  items.insert(items.end(), left->items.begin(), left->items.end());
  items.insert(items.end(), right->items.begin(), right->items.end());
  return left->is_tuple ? rt.tuple(std::move(items)) : rt.list(std::move(items));
}

Value repeat(Runtime& rt, const Value& sequence, Int times) {
  const size_t size = sequence.text() != nullptr ? sequence.text()->size() : sequence.get<List>()->items.size();
  const size_t unit = sequence.text() != nullptr ? 1 : sizeof(Value);
  if (times < 0 || size == 0) times = 0;
  const size_t most = rt.limits().max_text_bytes;
  rt.check_text(times > static_cast<Int>(most) ? most + 1 : static_cast<size_t>(times) * size * unit);
  const auto count = static_cast<size_t>(times);
  if (auto* text = sequence.text()) {
    std::string out;
    out.reserve(size * count);
    for (size_t i = 0; i < count; ++i) out += *text;
    return rt.text_like(sequence, std::move(out));
  }
  const List* list = sequence.get<List>();
  rt.work(size * count);
  std::vector<Value> items;
  items.reserve(size * count);
  for (size_t i = 0; i < count; ++i) items.insert(items.end(), list->items.begin(), list->items.end());
  return list->is_tuple ? rt.tuple(std::move(items)) : rt.list(std::move(items));
}

bool is_sequence(const Value& value) { return value.text() != nullptr || value.get<List>() != nullptr; }

}  // namespace

Value binary(Runtime& rt, BinaryOp op, const Value& a, const Value& b) {
  const auto x = as_number(a), y = as_number(b);
  if (x && y)
    return x->is_int && y->is_int ? int_binary(op, x->integer, y->integer) : real_binary(op, x->real, y->real);
  if (op == BinaryOp::kModulo && a.text() != nullptr) return rt.text_like(a, format_percent(rt, a, b));
  for (const Value* value : {&a, &b}) {
    if (auto* undefined = value->get<Undefined>()) fail("{}", undefined->reason);
  }
  if (op == BinaryOp::kAdd && is_sequence(a)) return add_sequences(rt, a, b);
  if (op == BinaryOp::kMultiply) {
    if (is_sequence(a) && y && y->is_int) return repeat(rt, a, y->integer);
    if (is_sequence(b) && x && x->is_int) return repeat(rt, b, x->integer);
    for (const auto& [sequence, other] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
      if (is_sequence(*sequence)) fail("can't multiply sequence by non-int of type '{}'", other->type_name());
    }
  }
  fail("unsupported operand type(s) for {}: '{}' and '{}'", kSymbols[static_cast<int>(op)], a.type_name(),
       b.type_name());
}

Value negative(const Value& value) {
  if (auto* undefined = value.get<Undefined>()) fail("{}", undefined->reason);
  const auto number = as_number(value);
  if (!number) fail("bad operand type for unary -: '{}'", value.type_name());
  return number->is_int ? int_binary(BinaryOp::kSubtract, 0, number->integer) : Value::real(-number->real);
}

Value positive(const Value& value) {
  if (auto* undefined = value.get<Undefined>()) fail("{}", undefined->reason);
  const auto number = as_number(value);
  if (!number) fail("bad operand type for unary +: '{}'", value.type_name());
  return number->is_int ? Value::integer(number->integer) : Value::real(number->real);
}

}  // namespace dspark::jinja
