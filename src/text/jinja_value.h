// The values of the template interpreter. They follow Python's: text, lists, tuples and dicts are immutable (jinja2's
// ImmutableSandboxedEnvironment forbids their mutating methods) and shared by reference count, with a bounded depth, so
// that nothing that walks or frees them recurses far. What can change (namespaces, loops, generators) belongs to the
// render (Runtime, jinja_runtime.h), is never freed before its end and is pointed to. Values of one render stay on its
// thread; the constants of a template are shared by all renders.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja_limits.h"

namespace dspark::jinja {

// Python's int, but for its size: overflow is an error. Wide enough for every number that JSON readers keep exact.
__extension__ typedef __int128 Int;

class Runtime;
class Value;
struct Native;

// What a missing name or attribute evaluates to: prints as nothing, is false, and fails with `reason` on most uses.
struct Undefined {
  std::string reason;
};

struct String {
  std::string text;
  // Markup: what the filters safe and escape return. Text that is joined to it with + is escaped for HTML.
  bool is_markup = false;
  Charge charge;
};

struct List;
class Dict;

struct Range {
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;
  int64_t size = 0;
  Int at(int64_t index) const { return static_cast<Int>(start) + static_cast<Int>(step) * index; }
};

struct View;    // dict.keys(), values() and items()
struct Method;  // a native function bound to the value it was looked up on

// Base of what can change while a render runs.
struct Object {
  virtual ~Object() = default;
  virtual const char* type_name() const = 0;
  // repr(object).
  virtual std::string describe(Runtime& rt);
  // object.name; missing if there is none.
  virtual Value attribute(Runtime& rt, std::string_view name);
};

template <class T>
inline constexpr bool kShared =
    std::is_same_v<T, Undefined> || std::is_same_v<T, String> || std::is_same_v<T, List> || std::is_same_v<T, Dict> ||
    std::is_same_v<T, Range> || std::is_same_v<T, View> || std::is_same_v<T, Method>;

class Value {
 public:
  struct Missing {};  // no value at all: an argument not given, a variable not set
  struct None {};

  Value() = default;  // missing
  static Value none() { return Value(None{}); }
  static Value boolean(bool value) { return Value(value); }
  static Value integer(Int value) { return Value(value); }
  static Value real(double value) { return Value(value); }
  static Value native(const Native* function) { return Value(function); }
  static Value object(Object* object) { return Value(object); }
  template <class T>
  static Value shared(std::shared_ptr<const T> value) {
    return Value(std::move(value));
  }
  // Text that belongs to the template, not to a render.
  static Value constant(std::string text);

  bool is_missing() const { return std::holds_alternative<Missing>(storage_); }
  bool is_none() const { return std::holds_alternative<None>(storage_); }

  // The bool, Int, double, String, List, Dict, ... that this is, or null.
  template <class T>
  const T* get() const {
    if constexpr (kShared<T>) {
      auto* pointer = std::get_if<std::shared_ptr<const T>>(&storage_);
      return pointer == nullptr ? nullptr : pointer->get();
    } else {
      return std::get_if<T>(&storage_);
    }
  }
  template <class T>
  std::shared_ptr<const T> share() const {
    auto* pointer = std::get_if<std::shared_ptr<const T>>(&storage_);
    return pointer == nullptr ? nullptr : *pointer;
  }
  // The mutable object of class T that this is, or null.
  template <class T>
  T* object_as() const {
    auto* pointer = std::get_if<Object*>(&storage_);
    return pointer == nullptr ? nullptr : dynamic_cast<T*>(*pointer);
  }
  const std::string* text() const {
    const String* string = get<String>();
    return string == nullptr ? nullptr : &string->text;
  }
  bool is_markup() const {
    const String* string = get<String>();
    return string != nullptr && string->is_markup;
  }
  bool is_undefined() const { return get<Undefined>() != nullptr; }

  // Lists and dicts around the deepest value in this one, itself included: 0 for scalars.
  int depth() const;

  // Python's name of the type: "str", "NoneType", ...
  const char* type_name() const;

 private:
  using Storage =
      std::variant<Missing, None, bool, Int, double, std::shared_ptr<const Undefined>, std::shared_ptr<const String>,
                   std::shared_ptr<const List>, std::shared_ptr<const Dict>, std::shared_ptr<const Range>,
                   std::shared_ptr<const View>, std::shared_ptr<const Method>, const Native*, Object*>;

  template <class T>
  explicit Value(T value) : storage_(std::in_place_type<T>, std::move(value)) {}

  Storage storage_;
};

// A list or a tuple.
struct List {
  std::vector<Value> items;
  bool is_tuple = false;
  bool is_group = false;  // a pair of the groupby filter, whose items also have names: grouper and list
  int depth = 1;
  Charge charge;
};

// Keys in the order of their insertion. Look-ups are linear in small dicts and logarithmic in large ones (by a tree: no
// choice of keys makes them slow).
class Dict {
 public:
  Dict() = default;
  Dict(const Dict&) = delete;
  Dict& operator=(const Dict&) = delete;

  // Adds the key or replaces its value. `key` is hashable (checked by Runtime::dict).
  void set(Value key, Value value);
  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;

  const std::vector<std::pair<Value, Value>>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }

  int depth = 1;
  Charge charge;

 private:
  // Orders keys so that those that Python holds for equal (1, 1.0 and true) are equivalent.
  struct KeyLess {
    using is_transparent = void;
    bool operator()(const Value& a, const Value& b) const;
    bool operator()(const Value& a, std::string_view b) const;
    bool operator()(std::string_view a, const Value& b) const;
  };

  std::vector<std::pair<Value, Value>> entries_;
  std::map<Value, size_t, KeyLess> index_;  // empty while the dict is small
};

struct View {
  enum class Part { kKeys, kValues, kItems };
  Part part;
  std::shared_ptr<const Dict> dict;
};

struct Method {
  Value self;
  const Native* function;
};

// namespace(...): attributes that {% set ns.x = ... %} changes.
struct Namespace : Object {
  const char* type_name() const override { return "Namespace"; }
  std::string describe(Runtime& rt) override;
  Value attribute(Runtime& rt, std::string_view name) override;
  // Adds or changes an attribute. Fails for names that start with an underscore, as transformers does.
  void set(Runtime& rt, const std::string& name, Value value);

  std::vector<std::pair<std::string, Value>> attributes;  // in the order of their insertion
  std::map<std::string, size_t, std::less<>> index;
  Charge charge;
};

}  // namespace dspark::jinja
