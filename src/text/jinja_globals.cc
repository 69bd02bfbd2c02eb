// The functions that every template can call, and the objects that they make. See jinja_filters.h.
#include <ctime>

#include "text/jinja_filters.h"
#include "text/jinja_markup.h"
#include "text/jinja_ops.h"
#include "text/jinja_print.h"

namespace dspark::jinja {
namespace {

Value global_range(Runtime& rt, const Value&, const Args& args) {
  const Int first = args.integer(0, 0);
  const Int start = args.has(1) ? first : 0, stop = args.has(1) ? args.integer(1, 0) : first, step = args.integer(2, 1);
  constexpr Int kMost = std::numeric_limits<int32_t>::max();
  for (const Int value : {start, stop, step}) {
    if (value < -kMost || value > kMost) fail_limit("range() takes numbers of up to {}, got {}", kMost, value);
  }
  if (step == 0) fail("range() arg 3 must not be zero");
  const Int distance = step > 0 ? stop - start : start - stop;
  const Int size = distance <= 0 ? 0 : (distance - 1) / (step > 0 ? step : -step) + 1;
  if (size > kMaxRange) {
    fail_limit("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", kMaxRange);
  }
  const auto narrow = [](Int value) { return static_cast<int64_t>(value); };
  return rt.range({narrow(start), narrow(stop), narrow(step), narrow(size)});
}

// What dict(...) makes of its arguments: a dict or pairs, then names.
std::vector<std::pair<Value, Value>> dict_entries(Runtime& rt, CallArgs& args) {
  if (args.positional.size() > 1) fail("dict expected at most 1 argument, got {}", args.positional.size());
  std::vector<std::pair<Value, Value>> entries;
  if (!args.positional.empty()) {
    if (auto* dict = args.positional[0].get<Dict>()) {
      rt.work(dict->size());
      entries = dict->entries();
    } else {
      Cursor cursor(rt, args.positional[0]);
      for (Value pair; cursor.next(pair);) {
        std::vector<Value> parts = collect(rt, pair);
        if (parts.size() != 2) {
          fail("dictionary update sequence element #{} has length {}; 2 is required", entries.size(), parts.size());
        }
        entries.emplace_back(std::move(parts[0]), std::move(parts[1]));
      }
    }
  }
  for (auto& [name, value] : args.named) entries.emplace_back(rt.text(name), std::move(value));
  return entries;
}

Value global_dict(Runtime& rt, const Value&, const Args& args) { return rt.dict(dict_entries(rt, args.all())); }

Value global_namespace(Runtime& rt, const Value&, const Args& args) {
  auto* result = rt.make<Namespace>();
  for (const auto& [name, value] : dict_entries(rt, args.all())) {
    if (name.text() == nullptr) fail("a namespace attribute must have a str as its name, not {}", name.type_name());
    result->set(rt, *name.text(), value);
  }
  return Value::object(result);
}

struct Cycler : Object {
  const char* type_name() const override { return "Cycler"; }
  Value attribute(Runtime& rt, std::string_view name) override;

  std::vector<Value> items;
  size_t position = 0;
};

constexpr Native kCyclerNext{"next", "", [](Runtime&, const Value& self, const Args&) {
                               auto* cycler = self.object_as<Cycler>();
                               const Value item = cycler->items[cycler->position];
                               cycler->position = (cycler->position + 1) % cycler->items.size();
                               return item;
                             }};
constexpr Native kCyclerReset{"reset", "", [](Runtime&, const Value& self, const Args&) {
                                self.object_as<Cycler>()->position = 0;
                                return Value::none();
                              }};

Value Cycler::attribute(Runtime& rt, std::string_view name) {
  if (name == "current") return items[position];
  if (name == "next") return rt.method(Value::object(this), &kCyclerNext);
  if (name == "reset") return rt.method(Value::object(this), &kCyclerReset);
  if (name == "pos") return Value::integer(static_cast<Int>(position));
  return name == "items" ? rt.tuple(items) : Value();
}

Value global_cycler(Runtime& rt, const Value&, const Args& args) {
  if (args.all().positional.empty()) fail("at least one item has to be provided");
  auto* cycler = rt.make<Cycler>();
  cycler->items = std::move(args.all().positional);
  return Value::object(cycler);
}

// Nothing when it is called first, then its separator.
struct Joiner : Object {
  const char* type_name() const override { return "Joiner"; }
  Value separator;
  bool used = false;
};

Value global_joiner(Runtime& rt, const Value&, const Args& args) {
  auto* joiner = rt.make<Joiner>();
  joiner->separator = args.has(0) ? args[0] : rt.text(", ");
  return Value::object(joiner);
}

Value global_raise_exception(Runtime& rt, const Value&, const Args& args) { fail("{}", to_str(rt, args[0])); }

Value global_strftime_now(Runtime& rt, const Value&, const Args& args) {
  const std::string& format = args.text(0);
  constexpr size_t kLongestFormat = 1000;
  if (format.find('\0') != format.npos) fail("embedded null character");
  if (format.size() > kLongestFormat) fail_limit("strftime_now takes formats of up to {} bytes", kLongestFormat);
  // datetime.now() knows no zone and Python answers %z and %Z itself; microseconds are not kept.
  std::string directives;
  for (size_t i = 0; i < format.size(); ++i) {
    const char next = i + 1 < format.size() ? format[i + 1] : '\0';
    if (format[i] != '%' || next == '\0') {
      directives += format[i];
      continue;
    }
    if (next == 'f') directives += "000000";
    if (next != 'f' && next != 'z' && next != 'Z') directives += {'%', next};
    ++i;
  }
  if (directives.empty()) return rt.text("");
  const std::tm now = rt.now();
  std::string out(directives.size() * 8 + 256, '\0');
  directives += ' ';  // so that a result is never empty, which is how strftime says that it did not fit
  const size_t size = std::strftime(out.data(), out.size(), directives.c_str(), &now);
  if (size == 0) fail("strftime_now(): cannot use the format '{}'", format);
  out.resize(size - 1);
  return rt.text(std::move(out));
}

constexpr Native kGlobals[] = {
    {"range", "start | stop step", global_range},
    {"dict", "*", global_dict},
    {"namespace", "*", global_namespace},
    {"cycler", "*", global_cycler},
    {"joiner", "| sep", global_joiner},
    {"raise_exception", "message", global_raise_exception},
    {"strftime_now", "format", global_strftime_now},
};

}  // namespace

std::span<const Native> global_functions() { return kGlobals; }

Value call_value(Runtime& rt, const Value& callee, CallArgs args) {
  if (auto* native = callee.get<const Native*>()) return call_native(rt, **native, Value(), std::move(args));
  if (auto* method = callee.get<Method>()) {
    if (method->self.is_markup()) return call_markup_method(rt, *method, std::move(args));
    return call_native(rt, *method->function, method->self, std::move(args));
  }
  if (auto* joiner = callee.object_as<Joiner>()) {
    if (!joiner->used) return joiner->used = true, rt.text("");
    return joiner->separator;
  }
  fail("'{}' object is not callable", callee.type_name());
}

}  // namespace dspark::jinja
