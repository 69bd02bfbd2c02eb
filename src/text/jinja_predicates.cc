// jinja2's tests: {{ value is name }}. See jinja_filters.h.
#include <cmath>

#include "text/jinja_filters.h"
#include "text/jinja_ops.h"
#include "text/jinja_print.h"
#include "text/jinja_unicode.h"

namespace dspark::jinja {
namespace {

template <bool (*kTest)(const Value&)>
Value test_type(Runtime&, const Value& self, const Args&) {
  return Value::boolean(kTest(self));
}

template <CompareOp kOp>
Value test_compare(Runtime& rt, const Value& self, const Args& args) {
  return Value::boolean(compare(rt, kOp, self, args[0]));
}

bool is_boolean(const Value& value) { return value.get<bool>() != nullptr; }
bool is_true(const Value& value) { return is_boolean(value) && *value.get<bool>(); }
bool is_false(const Value& value) { return is_boolean(value) && !*value.get<bool>(); }
bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_integer(const Value& value) { return value.get<Int>() != nullptr; }
bool is_real(const Value& value) { return value.get<double>() != nullptr; }
bool is_number(const Value& value) { return as_number(value).has_value(); }
bool is_text(const Value& value) { return value.text() != nullptr; }
bool is_mapping(const Value& value) { return value.get<Dict>() != nullptr; }
bool is_escaped(const Value& value) { return value.is_markup(); }

bool is_sequence(const Value& value) {
  return value.is_undefined() || is_text(value) || is_mapping(value) || value.get<List>() != nullptr ||
         value.get<Range>() != nullptr;
}

bool is_callable(const Value& value) {
  if (value.is_undefined() || value.get<Method>() != nullptr || value.get<const Native*>() != nullptr) return true;
  const Object* object = value.object_as<Object>();
  return object != nullptr && value.object_as<Namespace>() == nullptr && value.object_as<Generator>() == nullptr &&
         std::string_view(object->type_name()) != "Cycler";
}

Value test_odd(Runtime& rt, const Value& self, const Args&) {
  return Value::boolean(equals(rt, binary(rt, BinaryOp::kModulo, self, Value::integer(2)), Value::integer(1)));
}

Value test_even(Runtime& rt, const Value& self, const Args&) {
  return Value::boolean(equals(rt, binary(rt, BinaryOp::kModulo, self, Value::integer(2)), Value::integer(0)));
}

Value test_divisibleby(Runtime& rt, const Value& self, const Args& args) {
  return Value::boolean(equals(rt, binary(rt, BinaryOp::kModulo, self, args[0]), Value::integer(0)));
}

template <bool (*kTest)(std::string_view)>
Value test_case(Runtime& rt, const Value& self, const Args&) {
  return Value::boolean(kTest(to_str(rt, self)));
}

// `is` of Python, as far as values here have an identity.
Value test_sameas(Runtime& rt, const Value& self, const Args& args) {
  const Value& other = args[0];
  const bool same_type = std::string_view(self.type_name()) == other.type_name();
  if (auto* list = self.get<List>()) return Value::boolean(list == other.get<List>());
  if (auto* dict = self.get<Dict>()) return Value::boolean(dict == other.get<Dict>());
  return Value::boolean(same_type && equals(rt, self, other));
}

template <const Native* (*kFind)(std::string_view)>
Value test_known(Runtime&, const Value& self, const Args&) {
  return Value::boolean(self.text() != nullptr && kFind(*self.text()) != nullptr);
}

constexpr Native kTests[] = {
    {"!=", "other", test_compare<CompareOp::kNotEqual>},
    {"<", "other", test_compare<CompareOp::kLess>},
    {"<=", "other", test_compare<CompareOp::kLessEqual>},
    {"==", "other", test_compare<CompareOp::kEqual>},
    {">", "other", test_compare<CompareOp::kGreater>},
    {">=", "other", test_compare<CompareOp::kGreaterEqual>},
    {"boolean", "", test_type<is_boolean>},
    {"callable", "", test_type<is_callable>},
    {"defined", "", test_type<is_defined>},
    {"divisibleby", "num", test_divisibleby},
    {"eq", "other", test_compare<CompareOp::kEqual>},
    {"equalto", "other", test_compare<CompareOp::kEqual>},
    {"escaped", "", test_type<is_escaped>},
    {"even", "", test_even},
    {"false", "", test_type<is_false>},
    {"filter", "", test_known<find_filter>},
    {"float", "", test_type<is_real>},
    {"ge", "other", test_compare<CompareOp::kGreaterEqual>},
    {"greaterthan", "other", test_compare<CompareOp::kGreater>},
    {"gt", "other", test_compare<CompareOp::kGreater>},
    {"in", "seq", test_compare<CompareOp::kIn>},
    {"integer", "", test_type<is_integer>},
    {"iterable", "", test_type<is_iterable>},
    {"le", "other", test_compare<CompareOp::kLessEqual>},
    {"lessthan", "other", test_compare<CompareOp::kLess>},
    {"lower", "", test_case<is_lower_text>},
    {"lt", "other", test_compare<CompareOp::kLess>},
    {"mapping", "", test_type<is_mapping>},
    {"ne", "other", test_compare<CompareOp::kNotEqual>},
    {"none", "", test_type<is_none>},
    {"number", "", test_type<is_number>},
    {"odd", "", test_odd},
    {"sameas", "other", test_sameas},
    {"sequence", "", test_type<is_sequence>},
    {"string", "", test_type<is_text>},
    {"test", "", test_known<find_test>},
    {"true", "", test_type<is_true>},
    {"undefined", "", test_type<is_undefined>},
    {"upper", "", test_case<is_upper_text>},
};

}  // namespace

const Native* find_test(std::string_view name) {
  for (const Native& test : kTests) {
    if (test.name == name) return &test;
  }
  return nullptr;
}

}  // namespace dspark::jinja
