// See jinja_ops.h. Arithmetic is in jinja_arithmetic.cc, attributes are in jinja_attributes.cc.
#include "text/jinja_ops.h"

#include <algorithm>

#include "text/jinja_unicode.h"

namespace dspark::jinja {
namespace {

constexpr const char* kSymbols[] = {"==", "!=", "<", "<=", ">", ">=", "in", "not in"};

std::partial_ordering compare_numbers(const Number& a, const Number& b) {
  if (a.is_int && b.is_int) return a.integer <=> b.integer;
  // long double holds 64-bit ints exactly, so a mixed comparison does not round them to a double first.
  const auto wide = [](const Number& n) { return n.is_int ? static_cast<long double>(n.integer) : n.real; };
  return wide(a) <=> wide(b);
}

bool equal_items(Runtime& rt, const std::vector<Value>& a, const std::vector<Value>& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [&](const Value& x, const Value& y) { return equals(rt, x, y); });
}

bool equal_dicts(Runtime& rt, const Dict& a, const Dict& b) {
  return a.size() == b.size() && std::all_of(a.entries().begin(), a.entries().end(), [&](const auto& entry) {
           const Value* other = b.find(entry.first);
           return other != nullptr && equals(rt, entry.second, *other);
         });
}

// a <=> b for the comparison `op`. Fails for values that Python cannot order.
std::partial_ordering order(Runtime& rt, CompareOp op, const Value& a, const Value& b) {
  rt.work(1);
  const auto x = as_number(a), y = as_number(b);
  if (x && y) return compare_numbers(*x, *y);
  if (a.text() != nullptr && b.text() != nullptr) {
    rt.scan(std::min(a.text()->size(), b.text()->size()));
    return a.text()->compare(*b.text()) <=> 0;  // the order of UTF-8 is that of code points
  }
  const List *left = a.get<List>(), *right = b.get<List>();
  if (left == nullptr || right == nullptr || left->is_tuple != right->is_tuple) {
    for (const Value* value : {&a, &b}) {
      if (auto* undefined = value->get<Undefined>()) fail("{}", undefined->reason);
    }
    fail("'{}' not supported between instances of '{}' and '{}'", kSymbols[static_cast<int>(op)], a.type_name(),
         b.type_name());
  }
  for (size_t i = 0; i < std::min(left->items.size(), right->items.size()); ++i) {
    if (!equals(rt, left->items[i], right->items[i])) return order(rt, op, left->items[i], right->items[i]);
  }
  return left->items.size() <=> right->items.size();
}

bool contains(Runtime& rt, const Value& container, const Value& item) {
  if (auto* text = container.text()) {
    if (item.text() == nullptr) {
      fail("'in <string>' requires string as left operand, not {}", item.type_name());
    }
    rt.scan(text->size() + item.text()->size());
    return find_text(*text, *item.text()) != std::string_view::npos;
  }
  if (auto* dict = container.get<Dict>()) {
    if (item.get<Dict>() != nullptr || (item.get<List>() != nullptr && !item.get<List>()->is_tuple)) {
      fail("unhashable type: '{}'", item.type_name());
    }
    rt.count_key(item);
    return dict->find(item) != nullptr;
  }
  if (!is_iterable(container)) fail("argument of type '{}' is not iterable", container.type_name());
  Cursor cursor(rt, container);
  for (Value candidate; cursor.next(candidate);) {
    if (equals(rt, candidate, item)) return true;
  }
  return false;
}

// The bound of a slice, or `fallback`; clipped to what an index of `size` items can be.
int64_t slice_bound(const Value& value, int64_t fallback, int64_t low, int64_t high, int64_t size) {
  if (value.is_missing() || value.is_none()) return fallback;
  const auto number = as_number(value);
  if (!number || !number->is_int) {
    fail("slice indices must be integers or None or have an __index__ method");
  }
  Int bound = number->integer;
  if (bound < 0) bound += size;
  return static_cast<int64_t>(std::clamp<Int>(bound, low, high));
}

// Indices that a slice selects: start, start + step, ..., `count` of them.
struct SliceIndices {
  int64_t start;
  int64_t stop;
  int64_t step;
  int64_t count;
};

SliceIndices slice_indices(const Value& start, const Value& stop, const Value& step, int64_t size) {
  int64_t by = 1;
  if (!step.is_missing() && !step.is_none()) {
    const auto number = as_number(step);
    if (!number || !number->is_int) fail("slice indices must be integers or None or have an __index__ method");
    if (number->integer == 0) fail("slice step cannot be zero");
    by = static_cast<int64_t>(std::clamp<Int>(number->integer, -size - 1, size + 1));
  }
  const bool forward = by > 0;
  const int64_t low = forward ? 0 : -1, high = forward ? size : size - 1;
  const int64_t from = slice_bound(start, forward ? low : high, low, high, size);
  const int64_t to = slice_bound(stop, forward ? high : low, low, high, size);
  const int64_t distance = forward ? to - from : from - to;
  return {from, to, by, distance <= 0 ? 0 : (distance - 1) / std::abs(by) + 1};
}

Value slice_text(Runtime& rt, const Value& self, const SliceIndices& indices) {
  const std::string& text = *self.text();
  if (indices.step == 1) {
    const size_t begin = byte_offset(text, static_cast<size_t>(indices.start));
    const std::string_view rest = std::string_view(text).substr(begin);
    return rt.text_like(self, std::string(rest.substr(0, byte_offset(rest, static_cast<size_t>(indices.count)))));
  }
  rt.check_text(text.size() * sizeof(std::string_view));
  std::vector<std::string_view> characters;
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    next_code_point(text, at);
    characters.push_back(std::string_view(text).substr(start, at - start));
  }
  std::string out;
  for (int64_t i = 0; i < indices.count; ++i) out += characters[static_cast<size_t>(indices.start + i * indices.step)];
  return rt.text_like(self, std::move(out));
}

}  // namespace

std::optional<Number> as_number(const Value& value) {
  if (auto* b = value.get<bool>()) return Number{true, *b, static_cast<double>(*b)};
  if (auto* i = value.get<Int>()) return Number{true, *i, static_cast<double>(*i)};
  if (auto* d = value.get<double>()) return Number{false, 0, *d};
  return std::nullopt;
}

bool truthy(const Value& value) {
  if (value.is_missing() || value.is_none() || value.is_undefined()) return false;
  if (const auto number = as_number(value)) return number->is_int ? number->integer != 0 : number->real != 0;
  if (auto* text = value.text()) return !text->empty();
  if (auto* list = value.get<List>()) return !list->items.empty();
  if (auto* dict = value.get<Dict>()) return dict->size() != 0;
  if (auto* range = value.get<Range>()) return range->size != 0;
  if (auto* view = value.get<View>()) return view->dict->size() != 0;
  return true;
}

bool equals(Runtime& rt, const Value& a, const Value& b) {
  rt.work(1);
  const auto x = as_number(a), y = as_number(b);
  if (x || y) return x && y && compare_numbers(*x, *y) == 0;
  if (a.text() != nullptr && b.text() != nullptr) {
    if (a.text()->size() == b.text()->size()) rt.scan(a.text()->size());
    return *a.text() == *b.text();
  }
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  const List *left = a.get<List>(), *right = b.get<List>();
  if (left != nullptr && right != nullptr) {
    return left->is_tuple == right->is_tuple && equal_items(rt, left->items, right->items);
  }
  const Dict *left_dict = a.get<Dict>(), *right_dict = b.get<Dict>();
  if (left_dict != nullptr && right_dict != nullptr) return equal_dicts(rt, *left_dict, *right_dict);
  const Range *r = a.get<Range>(), *s = b.get<Range>();
  if (r != nullptr && s != nullptr) {
    return r->size == s->size && (r->size == 0 || (r->start == s->start && (r->size == 1 || r->step == s->step)));
  }
  if (auto* object = a.object_as<Object>()) return object == b.object_as<Object>();
  auto *native = a.get<const Native*>(), *other = b.get<const Native*>();
  return native != nullptr && other != nullptr && *native == *other;
}

bool compare(Runtime& rt, CompareOp op, const Value& a, const Value& b) {
  switch (op) {
    case CompareOp::kEqual:
      return equals(rt, a, b);
    case CompareOp::kNotEqual:
      return !equals(rt, a, b);
    case CompareOp::kIn:
      return contains(rt, b, a);
    case CompareOp::kNotIn:
      return !contains(rt, b, a);
    case CompareOp::kLess:
      return order(rt, op, a, b) < 0;
    case CompareOp::kLessEqual:
      return order(rt, op, a, b) <= 0;
    case CompareOp::kGreater:
      return order(rt, op, a, b) > 0;
    case CompareOp::kGreaterEqual:
      return order(rt, op, a, b) >= 0;
  }
  return false;
}

std::optional<size_t> length(Runtime& rt, const Value& value) {
  if (value.is_undefined()) return 0;
  if (auto* text = value.text()) {
    rt.scan(text->size());
    return count_code_points(*text);
  }
  if (auto* list = value.get<List>()) return list->items.size();
  if (auto* dict = value.get<Dict>()) return dict->size();
  if (auto* range = value.get<Range>()) return static_cast<size_t>(range->size);
  if (auto* view = value.get<View>()) return view->dict->size();
  return std::nullopt;
}

Value slice(Runtime& rt, const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (auto* undefined = object.get<Undefined>()) fail("{}", undefined->reason);
  if (auto* text = object.text()) {
    const auto size = static_cast<int64_t>(*length(rt, object));
    rt.scan(text->size());
    return slice_text(rt, object, slice_indices(start, stop, step, size));
  }
  if (auto* list = object.get<List>()) {
    const auto indices = slice_indices(start, stop, step, static_cast<int64_t>(list->items.size()));
    std::vector<Value> items;
    items.reserve(static_cast<size_t>(indices.count));
    for (int64_t i = 0; i < indices.count; ++i) {
      items.push_back(list->items[static_cast<size_t>(indices.start + i * indices.step)]);
    }
    return list->is_tuple ? rt.tuple(std::move(items)) : rt.list(std::move(items));
  }
  if (auto* range = object.get<Range>()) {
    const auto indices = slice_indices(start, stop, step, range->size);
    const auto index = [&](int64_t i) { return static_cast<int64_t>(range->at(i)); };
    return rt.range({index(indices.start), index(indices.stop), range->step * indices.step, indices.count});
  }
  if (object.get<Dict>() != nullptr) fail("unhashable type: 'slice'");
  fail("'{}' object is not subscriptable", object.type_name());
}

bool is_iterable(const Value& value) {
  return value.is_undefined() || value.text() != nullptr || value.get<List>() != nullptr ||
         value.get<Dict>() != nullptr || value.get<Range>() != nullptr || value.get<View>() != nullptr ||
         value.object_as<Generator>() != nullptr;
}

Cursor::Cursor(Runtime& rt, Value iterable) : rt_(rt), iterable_(std::move(iterable)) {
  if (!is_iterable(iterable_)) fail("'{}' object is not iterable", iterable_.type_name());
}

bool Cursor::next(Value& item) {
  rt_.work(1);
  if (auto* list = iterable_.get<List>()) {
    if (position_ == list->items.size()) return false;
    item = list->items[position_++];
  } else if (auto* text = iterable_.text()) {
    if (position_ == text->size()) return false;
    const size_t start = position_;
    next_code_point(*text, position_);
    item = rt_.text(text->substr(start, position_ - start));
  } else if (auto* range = iterable_.get<Range>()) {
    if (position_ == static_cast<size_t>(range->size)) return false;
    item = Value::integer(range->at(static_cast<int64_t>(position_++)));
  } else if (auto* generator = iterable_.object_as<Generator>()) {
    const auto& items = generator->source.get<List>()->items;
    if (generator->next == items.size()) return false;
    item = items[generator->next++];
  } else {
    const View* view = iterable_.get<View>();
    const Dict* dict = view != nullptr ? view->dict.get() : iterable_.get<Dict>();
    if (dict == nullptr || position_ == dict->size()) return false;  // undefined is empty
    const auto& [key, value] = dict->entries()[position_++];
    const auto part = view != nullptr ? view->part : View::Part::kKeys;
    item = part == View::Part::kKeys ? key : part == View::Part::kValues ? value : rt_.tuple({key, value});
  }
  return true;
}

std::vector<Value> collect(Runtime& rt, const Value& iterable) {
  Cursor cursor(rt, iterable);
  std::vector<Value> items;
  Charge charge(rt.meter());
  for (Value item; cursor.next(item);) {
    charge.grow(sizeof(Value));
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace dspark::jinja
