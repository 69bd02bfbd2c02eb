// Macros and loops as values: {{ loop.index }}, {{ loop.last }}, {{ macro.name }}. See jinja_frames.h.
#include "text/jinja_frames.h"

namespace dspark::jinja {

std::string Interpreter::Macro::describe(Runtime&) {
  return code->name.empty() ? "<Macro anonymous>" : fmt::format("<Macro '{}'>", code->name);
}

Value Interpreter::Macro::attribute(Runtime& rt, std::string_view name) {
  if (name == "name") return code->name.empty() ? Value::none() : rt.text(code->name);
  if (name == "catch_kwargs") return Value::boolean(code->uses_kwargs);
  if (name == "catch_varargs") return Value::boolean(code->uses_varargs);
  if (name == "caller") return Value::boolean(code->uses_caller);
  if (name != "arguments") return Value();
  std::vector<Value> names;
  for (const Target& parameter : code->parameters) names.push_back(rt.text(parameter.name));
  return rt.tuple(std::move(names));
}

bool Interpreter::ItemSource::next(Value& item) {
  for (Value candidate; cursor_.next(candidate);) {
    if (statement_.test != nullptr) {
      interpreter_.assign(statement_.test_target, candidate);
      if (!truthy(interpreter_.eval(*statement_.test))) continue;
    }
    item = std::move(candidate);
    return true;
  }
  return false;
}

std::string Interpreter::Loop::describe(Runtime& rt) {
  return fmt::format("<LoopContext {}/{}>", index0 + 1, length(rt));
}

bool Interpreter::Loop::peek() {
  if (!after.is_missing()) return true;
  if (!ahead.empty()) {
    after = std::move(ahead.back());
    ahead.pop_back();
    return true;
  }
  return source != nullptr && source->next(after);
}

bool Interpreter::Loop::next(Value& item) {
  if (!peek()) return false;
  item = std::exchange(after, Value());
  ++index0;
  before = std::move(current);
  current = item;
  return true;
}

size_t Interpreter::Loop::length(Runtime& rt) {
  if (known_length) return *known_length;
  if (statement->test == nullptr) known_length = jinja::length(rt, iterable);
  if (!known_length) {
    for (Value item; source != nullptr && source->next(item);) ahead.push_back(std::move(item));
    std::reverse(ahead.begin(), ahead.end());
    known_length = ahead.size() + static_cast<size_t>(index0 + 1) + (after.is_missing() ? 0 : 1);
  }
  return *known_length;
}

namespace {

Value loop_cycle(Runtime& rt, const Value& self, const Args& args) {
  const auto& items = args.all().positional;
  if (items.empty()) fail("no items for cycling given");
  const Value index = get_attribute(rt, self, "index0");
  return items[static_cast<size_t>(*index.get<Int>()) % items.size()];
}

}  // namespace

Value Interpreter::Loop::attribute(Runtime& rt, std::string_view name) {
  static const Native kCycle{"cycle", "*", loop_cycle};
  static const Native kChanged{"changed", "*", [](Runtime& runtime, const Value& self, const Args& args) {
                                 auto* loop = self.object_as<Loop>();
                                 Value now = runtime.tuple(std::move(args.all().positional));
                                 if (!loop->changed.is_missing() && equals(runtime, loop->changed, now)) {
                                   return Value::boolean(false);
                                 }
                                 loop->changed = std::move(now);
                                 return Value::boolean(true);
                               }};
  const auto number = [](size_t value) { return Value::integer(static_cast<Int>(value)); };
  if (name == "index") return Value::integer(index0 + 1);
  if (name == "index0") return Value::integer(index0);
  if (name == "first") return Value::boolean(index0 == 0);
  if (name == "last") return Value::boolean(!peek());
  if (name == "length") return number(length(rt));
  if (name == "revindex") return Value::integer(static_cast<Int>(length(rt)) - index0);
  if (name == "revindex0") return Value::integer(static_cast<Int>(length(rt)) - index0 - 1);
  if (name == "depth") return Value::integer(depth0 + 1);
  if (name == "depth0") return Value::integer(depth0);
  if (name == "previtem") return index0 == 0 ? rt.undefined("there is no previous item") : before;
  if (name == "nextitem") return peek() ? after : rt.undefined("there is no next item");
  if (name == "cycle") return rt.method(Value::object(this), &kCycle);
  if (name == "changed") return rt.method(Value::object(this), &kChanged);
  return Value();
}

}  // namespace dspark::jinja
