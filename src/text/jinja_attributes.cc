// Subscripts and attributes (get_item and get_attribute of jinja_ops.h), and the methods of dicts, lists and ranges.
#include <algorithm>
#include <cmath>
#include <span>

#include "text/jinja_ops.h"
#include "text/jinja_print.h"
#include "text/jinja_strings.h"
#include "text/jinja_unicode.h"

namespace dspark::jinja {
namespace {

Value view_of(const Value& self, View::Part part) {
  return Value::shared(std::make_shared<const View>(View{part, self.share<Dict>()}));
}
Value dict_items(Runtime&, const Value& self, const Args&) { return view_of(self, View::Part::kItems); }
Value dict_keys(Runtime&, const Value& self, const Args&) { return view_of(self, View::Part::kKeys); }
Value dict_values(Runtime&, const Value& self, const Args&) { return view_of(self, View::Part::kValues); }
Value dict_copy(Runtime&, const Value& self, const Args&) { return self; }

Value dict_get(Runtime& rt, const Value& self, const Args& args) {
  if (args[0].get<Dict>() != nullptr || (args[0].get<List>() != nullptr && !args[0].get<List>()->is_tuple)) {
    fail("unhashable type: '{}'", args[0].type_name());
  }
  rt.count_key(args[0]);
  const Value* found = self.get<Dict>()->find(args[0]);
  return found != nullptr ? *found : args.has(1) ? args[1] : Value::none();
}

// The items of a list, tuple or range.
std::vector<Value> items_of(Runtime& rt, const Value& self) { return collect(rt, self); }

Value sequence_count(Runtime& rt, const Value& self, const Args& args) {
  const auto items = items_of(rt, self);
  return Value::integer(
      std::count_if(items.begin(), items.end(), [&](const Value& item) { return equals(rt, item, args[0]); }));
}

Value sequence_index(Runtime& rt, const Value& self, const Args& args) {
  const auto items = items_of(rt, self);
  const auto size = static_cast<Int>(items.size());
  const auto bound = [&](size_t i, Int fallback) {
    const Int value = args.integer(i, fallback);
    return std::clamp<Int>(value < 0 ? value + size : value, 0, size);
  };
  const Int end = bound(2, size);
  for (Int i = bound(1, 0); i < end; ++i) {
    if (equals(rt, items[static_cast<size_t>(i)], args[0])) return Value::integer(i);
  }
  fail("{} is not in {}", to_repr(rt, args[0]), self.type_name());
}

Value list_copy(Runtime&, const Value& self, const Args&) { return self; }

Value real_is_integer(Runtime&, const Value& self, const Args&) {
  const double value = *self.get<double>();
  return Value::boolean(value == std::floor(value) && std::isfinite(value));
}

constexpr Native kDictMethods[] = {
    {"get", "key | default", dict_get}, {"items", "", dict_items}, {"keys", "", dict_keys},
    {"values", "", dict_values},        {"copy", "", dict_copy},
};
constexpr Native kListMethods[] = {
    {"count", "value", sequence_count}, {"index", "value | start stop", sequence_index}, {"copy", "", list_copy}};
constexpr Native kTupleMethods[] = {{"count", "value", sequence_count},
                                    {"index", "value | start stop", sequence_index}};
constexpr Native kRealMethods[] = {{"is_integer", "", real_is_integer}};

// Methods that jinja2's immutable sandbox hides.
constexpr std::string_view kDictMutators[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kListMutators[] = {"append", "clear",   "extend", "insert",
                                              "pop",    "reverse", "remove", "sort"};

const Native* find_method(std::span<const Native> methods, std::string_view name) {
  const auto found =
      std::find_if(methods.begin(), methods.end(), [&](const Native& method) { return method.name == name; });
  return found == methods.end() ? nullptr : &*found;
}

bool is_mutator(const Value& object, std::string_view name) {
  const auto among = [&](std::span<const std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (object.get<Dict>() != nullptr) return among(kDictMutators);
  const List* list = object.get<List>();
  return list != nullptr && !list->is_tuple && among(kListMutators);
}

const Native* method_of(const Value& object, std::string_view name) {
  if (object.text() != nullptr) return find_text_method(name);
  if (object.get<Dict>() != nullptr) return find_method(kDictMethods, name);
  if (auto* list = object.get<List>()) {
    return list->is_tuple ? find_method(kTupleMethods, name) : find_method(kListMethods, name);
  }
  if (object.get<Range>() != nullptr) return find_method(kTupleMethods, name);
  if (object.get<double>() != nullptr) return find_method(kRealMethods, name);
  return nullptr;
}

// Python's getattr, for what the sandbox lets through; missing if there is no such attribute.
Value attribute_of(Runtime& rt, const Value& object, std::string_view name) {
  if (is_mutator(object, name) || (name.starts_with("__") && name.ends_with("__") && name.size() > 4)) {
    return rt.undefined("access to attribute '{}' of '{}' object is unsafe.", name, object.type_name());
  }
  if (const Native* method = method_of(object, name)) return rt.method(object, method);
  if (auto* list = object.get<List>(); list != nullptr && list->is_group) {
    if (name == "grouper") return list->items[0];
    if (name == "list") return list->items[1];
  }
  if (auto* range = object.get<Range>()) {
    if (name == "start") return Value::integer(range->start);
    if (name == "stop") return Value::integer(range->stop);
    if (name == "step") return Value::integer(range->step);
  }
  if (auto* other = object.object_as<Object>()) return other->attribute(rt, name);
  return Value();
}

std::string described(const Value& object) {
  return object.is_none() ? "None" : fmt::format("{} object", object.type_name());
}

// object[index] of an ordered value; missing if there is no such item.
Value item_at(Runtime& rt, const Value& object, Int index) {
  const auto size = length(rt, object);
  if (!size || object.get<View>() != nullptr) return Value();
  if (index < 0) index += static_cast<Int>(*size);
  if (index < 0 || index >= static_cast<Int>(*size)) return Value();
  const auto position = static_cast<size_t>(index);
  if (auto* list = object.get<List>()) return list->items[position];
  if (auto* range = object.get<Range>()) return Value::integer(range->at(static_cast<int64_t>(index)));
  const std::string& text = *object.text();
  size_t end = byte_offset(text, position);
  const size_t begin = end;
  next_code_point(text, end);
  return rt.text_like(object, text.substr(begin, end - begin));
}

}  // namespace

Value get_item(Runtime& rt, const Value& object, const Value& key) {
  if (auto* undefined = object.get<Undefined>()) fail("{}", undefined->reason);
  if (auto* dict = object.get<Dict>()) {
    rt.count_key(key);
    if (const Value* found = dict->find(key)) return *found;
  } else if (const auto number = as_number(key); number && number->is_int) {
    Value item = item_at(rt, object, number->integer);
    if (!item.is_missing()) return item;
  }
  if (key.text() == nullptr) return rt.undefined("{} has no element {}", described(object), to_repr(rt, key));
  Value attribute = attribute_of(rt, object, *key.text());
  if (!attribute.is_missing()) return attribute;
  return rt.undefined("'{}' has no attribute '{}'", described(object), *key.text());
}

Value get_attribute(Runtime& rt, const Value& object, std::string_view name) {
  if (auto* undefined = object.get<Undefined>()) fail("{}", undefined->reason);
  Value attribute = attribute_of(rt, object, name);
  if (!attribute.is_missing()) return attribute;
  if (auto* dict = object.get<Dict>()) {
    if (const Value* found = dict->find(name)) return *found;
  }
  return rt.undefined("'{}' has no attribute '{}'", described(object), name);
}

std::string Object::describe(Runtime&) { return fmt::format("<{}>", type_name()); }
Value Object::attribute(Runtime&, std::string_view) { return Value(); }

std::string Namespace::describe(Runtime& rt) { return to_repr(rt, Value::object(this)); }

Value Namespace::attribute(Runtime&, std::string_view name) {
  auto found = index.find(name);
  return found == index.end() ? Value() : attributes[found->second].second;
}

void Namespace::set(Runtime& rt, const std::string& name, Value value) {
  if (name.starts_with('_')) {
    fail(
        "Chat templates cannot store underscore-prefixed attributes on a namespace, but got '{}'. Please rename the "
        "attribute.",
        name);
  }
  auto [found, added] = index.emplace(name, attributes.size());
  if (!added) {
    attributes[found->second].second = std::move(value);
    return;
  }
  if (attributes.empty()) charge.attach(rt.meter(), 0);
  charge.grow(sizeof(Value) * 4 + 2 * name.size());
  attributes.emplace_back(name, std::move(value));
}

}  // namespace dspark::jinja
