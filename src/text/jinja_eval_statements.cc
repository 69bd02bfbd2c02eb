// The statements of the interpreter (jinja_eval.h).
#include <algorithm>

#include "text/jinja_eval.h"
#include "text/jinja_frames.h"
#include "text/jinja_ops.h"
#include "text/jinja_print.h"

namespace dspark::jinja {

std::string Interpreter::run() {
  Capture output(*this);
  const ActivationGuard guard(*this, program_.slots, nullptr);
  enter(program_.scope);
  run_body(program_.body);
  return std::move(output.text);
}

void Interpreter::enter(const Scope& scope) {
  rt_.work(scope.loads.size());
  for (const VariableLoad& load : scope.loads) {
    Value& slot = activation_->slots[load.slot];
    switch (load.from) {
      case VariableLoad::From::kOuter:
        slot = variable(load.outer);
        break;
      case VariableLoad::From::kNothing:
        slot = Value();
        break;
      case VariableLoad::From::kContext: {
        auto found = context_.find(load.name);
        slot = found == context_.end() ? Value() : found->second;
      }
    }
  }
}

Value& Interpreter::variable(VariableRef ref) {
  Activation* activation = activation_.get();
  for (uint32_t i = 0; i < ref.hops; ++i) activation = activation->parent.get();
  return activation->slots[ref.slot];
}

void Interpreter::check_namespaces(const Target& target) {
  if (!target.attribute.empty() && variable(target.variable).object_as<Namespace>() == nullptr) {
    fail("cannot assign attribute on non-namespace object");
  }
  for (const Target& item : target.items) check_namespaces(item);
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (!target.attribute.empty()) {
    check_namespaces(target);
    variable(target.variable).object_as<Namespace>()->set(rt_, target.attribute, value);
  } else if (!target.name.empty()) {
    variable(target.variable) = value;
  } else {
    if (!is_iterable(value)) fail("cannot unpack non-iterable {} object", value.type_name());
    Cursor cursor(rt_, value);
    const size_t wanted = target.items.size();
    std::vector<Value> items;
    for (Value item; items.size() <= wanted && cursor.next(item);) items.push_back(std::move(item));
    if (items.size() > wanted) fail("too many values to unpack (expected {})", wanted);
    if (items.size() < wanted) fail("not enough values to unpack (expected {}, got {})", wanted, items.size());
    for (size_t i = 0; i < wanted; ++i) assign(target.items[i], items[i]);
  }
}

void Interpreter::emit(std::string_view text) {
  rt_.check_text(output_->text.size() + text.size());
  rt_.scan(text.size());
  output_->charge.grow(text.size());
  output_->text += text;
}

Interpreter::Flow Interpreter::run_body(const Body& body) {
  for (const Stmt& statement : body) {
    const DepthGuard guard(*this);
    const Flow flow = std::visit([&](const auto& node) { return execute(node, statement.line); }, statement.node);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::execute(const TextStmt& statement, int line) {
  line_ = line;
  emit(statement.text);
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::execute(const OutputStmt& statement, int line) {
  for (const ExprPtr& part : statement.parts) {
    const Value value = eval(*part);
    line_ = line;
    value.text() != nullptr ? emit(*value.text()) : emit(to_str(rt_, value));
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::execute(const SetStmt& statement, int line) {
  line_ = line;
  check_namespaces(statement.target);
  const Value value = eval(*statement.value);
  line_ = line;
  assign(statement.target, value);
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::execute(const SetBlockStmt& statement, int line) {
  enter(statement.scope);
  Value value;
  {
    Capture output(*this);
    if (const Flow flow = run_body(statement.body); flow != Flow::kNormal) return flow;
    line_ = line;
    value = rt_.text(std::move(output.text));
  }
  if (statement.filter != nullptr) {
    block_text_ = value;
    value = eval(*statement.filter);
  }
  line_ = line;
  assign(statement.target, value);
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::execute(const IfStmt& statement, int) {
  for (const auto& [test, body] : statement.branches) {
    if (truthy(eval(*test))) return run_body(body);
  }
  return run_body(statement.otherwise);
}

Interpreter::Flow Interpreter::execute(const ForStmt& statement, int line) {
  const Value iterable = eval(*statement.iterable);
  line_ = line;
  if (!statement.recursive) return run_loop(statement, iterable, activation_, 0);
  emit(*run_recursive_loop(statement, iterable, activation_, 0).text());
  return Flow::kNormal;
}

Value Interpreter::run_recursive_loop(const ForStmt& statement, const Value& iterable,
                                      const std::shared_ptr<Activation>& home, int depth) {
  const DepthGuard depth_guard(*this);
  if (!home->kept) home->kept = true, kept_.push_back(home);
  const ActivationGuard guard(*this, statement.slots, home);
  Capture output(*this);
  run_loop(statement, iterable, home, depth);
  return rt_.text(std::move(output.text));
}

Interpreter::Flow Interpreter::run_loop(const ForStmt& statement, const Value& iterable,
                                        std::shared_ptr<Activation> home, int depth) {
  ItemSource source(*this, statement, iterable);
  Loop* loop = nullptr;
  if (statement.uses_loop) {
    loop = rt_.make<Loop>();
    loop->statement = &statement;
    loop->home = home;
    loop->source = &source;
    loop->iterable = iterable;
    loop->depth0 = depth;
  }
  if (statement.test != nullptr) enter(statement.test_scope);
  bool ran_whole_body = false;
  for (Value item; loop != nullptr ? loop->next(item) : source.next(item);) {
    enter(statement.scope);
    if (loop != nullptr) activation_->slots[statement.loop_slot] = Value::object(loop);
    assign(statement.target, item);
    const Flow flow = run_body(statement.body);
    if (flow == Flow::kBreak) break;
    // As in jinja2, where the mark that there were items comes last in the body and `continue` passes it by.
    if (flow == Flow::kNormal) ran_whole_body = true;
  }
  if (loop != nullptr) loop->source = nullptr;
  if (!statement.has_otherwise || ran_whole_body) return Flow::kNormal;
  enter(statement.otherwise_scope);
  return run_body(statement.otherwise);
}

Value Interpreter::make_macro(const MacroCode& code) {
  if (!activation_->kept) activation_->kept = true, kept_.push_back(activation_);
  auto* macro = rt_.make<Macro>();
  macro->code = &code;
  macro->home = activation_;
  return Value::object(macro);
}

Interpreter::Flow Interpreter::execute(const MacroStmt& statement, int line) {
  line_ = line;
  assign(statement.target, make_macro(statement.code));
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::execute(const CallBlockStmt& statement, int line) {
  line_ = line;
  if (statement.call == nullptr) {
    emit(*invoke(statement.code, activation_, {}).text());
    return Flow::kNormal;
  }
  const auto& call_expr = std::get<CallExpr>(statement.call->node);
  const Value caller = make_macro(statement.code);
  const Value callee = eval(*call_expr.callee);
  CallArgs args = arguments(call_expr.arguments);
  args.named.emplace_back("caller", caller);
  line_ = line;
  emit(to_str(rt_, call(callee, std::move(args))));
  return Flow::kNormal;
}

Value Interpreter::invoke(const MacroCode& code, const std::shared_ptr<Activation>& home, CallArgs args) {
  const DepthGuard depth_guard(*this);
  const ActivationGuard guard(*this, code.slots, home);
  bind_arguments(code, std::move(args));
  Capture output(*this);
  enter(code.scope);
  const size_t required = code.parameters.size() - code.defaults.size();
  for (size_t i = 0; i < code.parameters.size(); ++i) {
    const Target& parameter = code.parameters[i];
    if (!variable(parameter.variable).is_missing()) continue;
    Value value = i < required ? rt_.undefined("parameter '{}' was not provided", parameter.name)
                               : eval(*code.defaults[i - required]);
    variable(parameter.variable) = std::move(value);
  }
  run_body(code.body);
  return rt_.text(std::move(output.text));
}

// Puts the arguments of a call into the slots of the macro's activation, the current one.
void Interpreter::bind_arguments(const MacroCode& code, CallArgs args) {
  auto& slots = activation_->slots;
  const auto take_named = [&](std::string_view name) {
    rt_.work(args.named.size());
    auto found = std::find_if(args.named.begin(), args.named.end(), [&](const auto& n) { return n.first == name; });
    if (found == args.named.end()) return Value();
    Value value = std::move(found->second);
    args.named.erase(found);
    return value;
  };
  const size_t count = std::min(code.parameters.size(), args.positional.size());
  for (size_t i = 0; i < code.parameters.size(); ++i) {
    slots[code.parameters[i].variable.slot] =
        i < count ? std::move(args.positional[i]) : take_named(code.parameters[i].name);
  }
  if (code.uses_caller) {
    Value caller = take_named("caller");
    slots[code.caller_slot] = caller.is_missing() || caller.is_none() ? rt_.undefined("No caller defined") : caller;
  }
  if (code.uses_kwargs) {
    std::vector<std::pair<Value, Value>> named;
    for (auto& [name, value] : args.named) named.emplace_back(rt_.text(name), std::move(value));
    slots[code.kwargs_slot] = rt_.dict(std::move(named));
  } else if (!args.named.empty()) {
    const bool caller =
        std::any_of(args.named.begin(), args.named.end(), [](const auto& n) { return n.first == "caller"; });
    if (caller) {
      fail("macro '{}' was invoked with two values for the special caller argument. This is most likely a bug.",
           code.name);
    }
    fail("macro '{}' takes no keyword argument '{}'", code.name, args.named.front().first);
  }
  if (code.uses_varargs) {
    auto rest = args.positional.begin() + static_cast<ptrdiff_t>(count);
    slots[code.varargs_slot] =
        rt_.tuple({std::make_move_iterator(rest), std::make_move_iterator(args.positional.end())});
  } else if (args.positional.size() > count) {
    fail("macro '{}' takes not more than {} argument(s)", code.name, code.parameters.size());
  }
}

Interpreter::Flow Interpreter::execute(const FilterBlockStmt& statement, int line) {
  enter(statement.scope);
  {
    Capture output(*this);
    if (const Flow flow = run_body(statement.body); flow != Flow::kNormal) return flow;
    line_ = line;
    block_text_ = rt_.text(std::move(output.text));
  }
  const Value value = eval(*statement.filter);
  line_ = line;
  emit(to_str(rt_, value));
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::execute(const WithStmt& statement, int line) {
  enter(statement.scope);
  for (size_t i = 0; i < statement.targets.size(); ++i) {
    const Value value = eval(*statement.values[i]);
    line_ = line;
    assign(statement.targets[i], value);
  }
  return run_body(statement.body);
}

Interpreter::Flow Interpreter::execute(const BreakStmt&, int) { return Flow::kBreak; }
Interpreter::Flow Interpreter::execute(const ContinueStmt&, int) { return Flow::kContinue; }

}  // namespace dspark::jinja
