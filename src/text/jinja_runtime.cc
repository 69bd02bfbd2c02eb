// See jinja_runtime.h.
#include "text/jinja_runtime.h"

#include <algorithm>

#include "text/jinja_ops.h"

namespace dspark::jinja {
namespace {

constexpr size_t kValueBytes = 2 * sizeof(Value);  // a value in a container, with what the allocator keeps

bool is_hashable(const Value& key) {
  if (auto* list = key.get<List>()) {
    // Python takes tuples of tuples too; one level keeps the comparison of keys linear.
    return list->is_tuple && std::all_of(list->items.begin(), list->items.end(), [](const Value& item) {
             return item.get<List>() == nullptr && is_hashable(item);
           });
  }
  return key.get<Dict>() == nullptr && key.get<View>() == nullptr && key.get<Range>() == nullptr &&
         key.get<Method>() == nullptr && key.object_as<Object>() == nullptr && !key.is_missing();
}

int depth_around(int depth) {
  if (depth >= kMaxValueDepth) fail_limit("lists and dicts are nested deeper than the limit of {}", kMaxValueDepth);
  return depth + 1;
}

std::string_view next_word(std::string_view words, size_t& at) {
  const size_t start = at;
  const size_t end = std::min(words.find(' ', start), words.size());
  at = end + 1;
  return words.substr(start, end - start);
}

bool names_parameter(std::string_view parameters, std::string_view name) {
  for (size_t at = 0; at < parameters.size();) {
    if (next_word(parameters, at) == name) return true;
  }
  return false;
}

size_t text_bytes(const Value& value) { return value.text() == nullptr ? 0 : value.text()->size(); }

}  // namespace

void Runtime::count_key(const Value& key) {
  constexpr size_t kComparisons = 16;  // with keys that may all begin alike
  scan(text_bytes(key) * kComparisons);
  if (auto* list = key.get<List>()) work(list->items.size() * kComparisons);
}

Value Runtime::make_text(std::string text, bool is_markup) {
  check_text(text.size());
  scan(text.size());
  auto string = std::make_shared<String>();
  string->text = std::move(text);
  string->is_markup = is_markup;
  string->charge.attach(&meter_, string->text.capacity() + sizeof(String));
  return Value::shared(std::shared_ptr<const String>(std::move(string)));
}

Value Runtime::sequence(std::vector<Value> items, bool is_tuple) {
  work(items.size());
  auto list = std::make_shared<List>();
  list->items = std::move(items);
  list->is_tuple = is_tuple;
  int depth = 0;
  for (const Value& item : list->items) depth = std::max(depth, item.depth());
  list->depth = depth_around(depth);
  list->charge.attach(&meter_, list->items.capacity() * sizeof(Value) + sizeof(List));
  return Value::shared(std::shared_ptr<const List>(std::move(list)));
}

Value Runtime::dict(std::vector<std::pair<Value, Value>> entries) {
  work(entries.size());
  auto dict = std::make_shared<Dict>();
  dict->charge.attach(&meter_, entries.size() * 3 * kValueBytes + sizeof(Dict));
  int depth = 0;
  for (auto& [key, value] : entries) {
    count_key(key);
    if (!is_hashable(key)) fail("unhashable type: '{}'", key.type_name());
    depth = std::max({depth, key.depth(), value.depth()});
    dict->set(std::move(key), std::move(value));
  }
  dict->depth = depth_around(depth);
  return Value::shared(std::shared_ptr<const Dict>(std::move(dict)));
}

Value Runtime::generator(std::vector<Value> items, const char* type) {
  auto* generator = make<Generator>();
  generator->type = type;
  generator->source = list(std::move(items));
  return Value::object(generator);
}

Value Runtime::method(const Value& self, const Native* function) {
  depth_around(self.depth());
  return Value::shared(std::make_shared<const Method>(Method{self, function}));
}

Args::Args(std::string_view function, std::string_view parameters, CallArgs& call) : function_(function), call_(call) {
  if (parameters == "*") return;
  size_t count = 0;
  bool optional = false;
  auto& positional = call.positional;
  auto& named = call.named;
  size_t named_used = 0;
  for (size_t at = 0; at < parameters.size();) {
    const std::string_view name = next_word(parameters, at);
    if (name == "|") {
      optional = true;
      continue;
    }
    auto given = std::find_if(named.begin(), named.end(), [&](const auto& entry) { return entry.first == name; });
    DSPARK_CHECK(count < kMaxParameters, "{} has more than {} parameters", function, kMaxParameters);
    if (count < positional.size()) {
      if (given != named.end()) fail("{}() got multiple values for argument '{}'", function, name);
      bound_[count] = std::move(positional[count]);
    } else if (given != named.end()) {
      bound_[count] = std::move(given->second);
      ++named_used;
    } else if (!optional) {
      fail("{}() missing required argument: '{}'", function, name);
    }
    ++count;
  }
  if (positional.size() > count) fail("{}() takes at most {} arguments ({} given)", function, count, positional.size());
  if (named_used == named.size()) return;
  for (const auto& [name, value] : named) {
    if (!names_parameter(parameters, name)) fail("{}() got an unexpected keyword argument '{}'", function, name);
  }
}

Int Args::integer(size_t i, Int fallback) const {
  if (!has(i)) return fallback;
  if (auto* number = bound_[i].get<Int>()) return *number;
  if (auto* flag = bound_[i].get<bool>()) return *flag;
  fail("'{}' object cannot be interpreted as an integer", bound_[i].type_name());
}

bool Args::truth(size_t i, bool fallback) const { return has(i) ? truthy(bound_[i]) : fallback; }

const std::string& Args::text(size_t i) const {
  if (bound_[i].text() == nullptr) fail("{}() argument must be str, not {}", function_, bound_[i].type_name());
  return *bound_[i].text();
}

std::string_view Args::text(size_t i, std::string_view fallback) const { return has(i) ? text(i) : fallback; }

Value call_native(Runtime& rt, const Native& function, const Value& self, CallArgs args) {
  rt.work(1);
  rt.scan(text_bytes(self));
  for (const Value& value : args.positional) rt.scan(text_bytes(value));
  for (const auto& [name, value] : args.named) rt.scan(text_bytes(value));
  return function.run(rt, self, Args(function.name, function.parameters, args));
}

}  // namespace dspark::jinja
