// Python's operators on the interpreter's values: truth, comparison, arithmetic, iteration, subscripts. Failures carry
// Python's messages. One render's thread.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja_runtime.h"

namespace dspark::jinja {

enum class BinaryOp { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
enum class CompareOp { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };

// A number of either type; bools are ints. `real` is set for both.
struct Number {
  bool is_int = false;
  Int integer = 0;
  double real = 0;
};
std::optional<Number> as_number(const Value& value);

bool truthy(const Value& value);

bool equals(Runtime& rt, const Value& a, const Value& b);
bool compare(Runtime& rt, CompareOp op, const Value& a, const Value& b);

Value binary(Runtime& rt, BinaryOp op, const Value& a, const Value& b);
Value negative(const Value& value);  // -value
Value positive(const Value& value);  // +value

// len(value), or nothing where Python has none.
std::optional<size_t> length(Runtime& rt, const Value& value);

// object[key] and object.name as jinja2's sandbox looks them up: items and attributes stand in for each other, what is
// not there is undefined, and so is what would change a list or dict.
Value get_item(Runtime& rt, const Value& object, const Value& key);
Value get_attribute(Runtime& rt, const Value& object, std::string_view name);

// object[start:stop:step], parts missing or none where not given.
Value slice(Runtime& rt, const Value& object, const Value& start, const Value& stop, const Value& step);

// Walks the items of an iterable value: dicts by key, text by character, generators from where they are.
class Cursor {
 public:
  // Fails for values that Python cannot iterate.
  Cursor(Runtime& rt, Value iterable);
  bool next(Value& item);

 private:
  Runtime& rt_;
  Value iterable_;
  size_t position_ = 0;  // an index, in bytes for text
};

bool is_iterable(const Value& value);

// list(value).
std::vector<Value> collect(Runtime& rt, const Value& iterable);

}  // namespace dspark::jinja
