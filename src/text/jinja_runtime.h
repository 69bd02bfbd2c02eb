// One render's state that values and functions need: what it may still use up, the objects that it owns, the clock.
// Also how native functions (filters, tests, methods, globals) are declared and get their arguments. One thread.
#pragma once

#include <array>
#include <ctime>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_error.h"
#include "text/jinja_limits.h"
#include "text/jinja_value.h"

namespace dspark::jinja {

class Runtime {
 public:
  Runtime(const Limits& limits, std::function<std::tm()> clock) : limits_(limits), clock_(std::move(clock)) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Limits& limits() const { return limits_; }
  Meter* meter() { return &meter_; }
  std::tm now() const { return clock_(); }

  // Counts work; fails beyond the limit.
  void work(size_t steps) {
    steps_ += steps;
    if (steps_ > limits_.max_steps) fail_limit("the template takes more than the limit of {} steps", limits_.max_steps);
  }
  // Counts the work of reading text.
  void scan(size_t bytes) { work(bytes / 32); }
  // Counts the work of looking a key up in a dict, or adding it.
  void count_key(const Value& key);
  // To be called before text of this size is built.
  void check_text(size_t bytes) const {
    if (bytes > limits_.max_text_bytes) {
      fail_limit("the template makes a text of {} bytes, the limit is {}", bytes, limits_.max_text_bytes);
    }
  }

  Value text(std::string text) { return make_text(std::move(text), false); }
  Value markup(std::string text) { return make_text(std::move(text), true); }
  // Markup if `like` is.
  Value text_like(const Value& like, std::string text) { return make_text(std::move(text), like.is_markup()); }
  Value list(std::vector<Value> items) { return sequence(std::move(items), false); }
  Value tuple(std::vector<Value> items) { return sequence(std::move(items), true); }
  // Fails for keys that Python cannot hash. Later entries replace earlier ones with the same key.
  Value dict(std::vector<std::pair<Value, Value>> entries);
  Value range(Range range) { return Value::shared(std::make_shared<const Range>(range)); }
  // An iterator that can be walked once, as Python's generators; `type` is its Python name.
  Value generator(std::vector<Value> items, const char* type = "generator");
  Value method(const Value& self, const Native* function);

  template <class... Args>
  Value undefined(fmt::format_string<Args...> format, Args&&... args) {
    return Value::shared(
        std::make_shared<const Undefined>(Undefined{fmt::format(format, std::forward<Args>(args)...)}));
  }

  // Makes an object that lives until the end of the render.
  template <class T>
  T* make() {
    object_charge_.grow(sizeof(T) + kObjectOverhead);
    auto owned = std::make_unique<T>();
    T* object = owned.get();
    objects_.push_back(std::move(owned));
    return object;
  }

 private:
  static constexpr size_t kObjectOverhead = 64;

  Value make_text(std::string text, bool is_markup);
  Value sequence(std::vector<Value> items, bool is_tuple);

  const Limits limits_;
  Meter meter_{limits_.max_memory_bytes};
  uint64_t steps_ = 0;
  std::function<std::tm()> clock_;
  Charge object_charge_{&meter_};
  std::vector<std::unique_ptr<Object>> objects_;  // last: its values give back to the meter
};

// A generator's rest: items[next] and on.
struct Generator : Object {
  const char* type_name() const override { return type; }
  const char* type = "generator";
  Value source;  // a list
  size_t next = 0;
};

// The arguments as the call has them.
struct CallArgs {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// The arguments of a native function, bound to its parameters.
class Args {
 public:
  // Binds as Python does. `parameters`: names apart by spaces, those after "|" are optional; "*" alone takes anything.
  Args(std::string_view function, std::string_view parameters, CallArgs& call);

  // Parameter `i`; missing if it was not given.
  const Value& operator[](size_t i) const { return bound_[i]; }
  bool has(size_t i) const { return !bound_[i].is_missing(); }
  // Missing and none count alike.
  bool given(size_t i) const { return has(i) && !bound_[i].is_none(); }

  // Typed access; `fallback` where the argument is missing. Fails with Python's words for the wrong type.
  Int integer(size_t i, Int fallback) const;
  bool truth(size_t i, bool fallback) const;
  const std::string& text(size_t i) const;
  std::string_view text(size_t i, std::string_view fallback) const;

  // All of them, for functions with "*".
  CallArgs& all() const { return call_; }

 private:
  static constexpr size_t kMaxParameters = 6;

  std::string_view function_;
  CallArgs& call_;
  std::array<Value, kMaxParameters> bound_;
};

// A function of the interpreter. `self` is what a filter, test or method works on, missing for globals.
struct Native {
  std::string_view name;
  std::string_view parameters;  // see Args
  Value (*run)(Runtime& rt, const Value& self, const Args& args);
};

// Binds the arguments, counts the work of reading them and runs the function.
Value call_native(Runtime& rt, const Native& function, const Value& self, CallArgs args);

}  // namespace dspark::jinja
