// See jinja_eval.h: the expressions. Statements are in jinja_eval_statements.cc.
#include "text/jinja_eval.h"

#include "text/jinja_filters.h"
#include "text/jinja_frames.h"
#include "text/jinja_ops.h"
#include "text/jinja_print.h"

namespace dspark::jinja {

Interpreter::Interpreter(const Program& program, Runtime& rt, Context context)
    : program_(program), rt_(rt), context_(std::move(context)) {}

Interpreter::~Interpreter() = default;

Value Interpreter::eval(const Expr& expr) {
  const DepthGuard guard(*this);
  return std::visit([&](const auto& node) { return evaluate(node, expr.line); }, expr.node);
}

Value Interpreter::eval_optional(const ExprPtr& expr) { return expr == nullptr ? Value() : eval(*expr); }

Value Interpreter::evaluate(const ConstExpr& expr, int) { return expr.value; }

Value Interpreter::evaluate(const NameExpr& expr, int line) {
  line_ = line;
  const Value& value = variable(expr.variable);
  return value.is_missing() ? rt_.undefined("'{}' is undefined", expr.name) : value;
}

Value Interpreter::evaluate(const SequenceExpr& expr, int line) {
  std::vector<Value> items;
  items.reserve(expr.items.size());
  for (const ExprPtr& item : expr.items) items.push_back(eval(*item));
  line_ = line;
  return expr.is_tuple ? rt_.tuple(std::move(items)) : rt_.list(std::move(items));
}

Value Interpreter::evaluate(const DictExpr& expr, int line) {
  std::vector<std::pair<Value, Value>> entries;
  entries.reserve(expr.items.size());
  for (const auto& [key, value] : expr.items) {
    Value evaluated_key = eval(*key);
    entries.emplace_back(std::move(evaluated_key), eval(*value));
  }
  line_ = line;
  return rt_.dict(std::move(entries));
}

Value Interpreter::evaluate(const ChainExpr& expr, int) {
  Value result = eval(*expr.first);
  for (const ChainExpr::Link& link : expr.rest) {
    const Value right = eval(*link.operand);
    line_ = link.line;
    result = binary(rt_, link.op, result, right);
  }
  return result;
}

Value Interpreter::evaluate(const ConcatExpr& expr, int line) {
  std::string text;
  for (const ExprPtr& part : expr.parts) {
    const Value value = eval(*part);
    line_ = line;
    append_str(rt_, text, value);
  }
  return rt_.text(std::move(text));
}

Value Interpreter::evaluate(const LogicExpr& expr, int) {
  Value value;
  for (const ExprPtr& operand : expr.operands) {
    value = eval(*operand);
    if (truthy(value) == expr.is_or) break;
  }
  return value;
}

Value Interpreter::evaluate(const CompareExpr& expr, int line) {
  Value left = eval(*expr.first);
  for (const auto& [op, operand] : expr.rest) {
    Value right = eval(*operand);
    line_ = line;
    if (!compare(rt_, op, left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::evaluate(const UnaryExpr& expr, int line) {
  const Value operand = eval(*expr.operand);
  line_ = line;
  switch (expr.op) {
    case UnaryExpr::Op::kNot:
      return Value::boolean(!truthy(operand));
    case UnaryExpr::Op::kNegative:
      return negative(operand);
    case UnaryExpr::Op::kPositive:
      return positive(operand);
  }
  return Value();
}

Value Interpreter::evaluate(const ConditionalExpr& expr, int line) {
  if (truthy(eval(*expr.test))) return eval(*expr.then);
  if (expr.otherwise != nullptr) return eval(*expr.otherwise);
  return rt_.undefined("the inline if-expression on line {} evaluated to false and no else section was defined.", line);
}

Value Interpreter::evaluate(const AttributeExpr& expr, int line) {
  const Value object = eval(*expr.object);
  line_ = line;
  return get_attribute(rt_, object, expr.name);
}

Value Interpreter::evaluate(const ItemExpr& expr, int line) {
  const Value object = eval(*expr.object);
  const Value key = eval(*expr.key);
  line_ = line;
  return get_item(rt_, object, key);
}

Value Interpreter::evaluate(const SliceExpr& expr, int line) {
  const Value object = eval(*expr.object);
  const Value start = eval_optional(expr.start), stop = eval_optional(expr.stop), step = eval_optional(expr.step);
  line_ = line;
  return slice(rt_, object, start, stop, step);
}

Value Interpreter::evaluate(const CallExpr& expr, int line) {
  const Value callee = eval(*expr.callee);
  CallArgs args = arguments(expr.arguments);
  line_ = line;
  return call(callee, std::move(args));
}

Value Interpreter::evaluate(const FilterExpr& expr, int line) {
  line_ = line;
  if (expr.filter == nullptr) fail("No filter named '{}' found.", expr.name);
  const Value input = expr.input == nullptr ? block_text_ : eval(*expr.input);
  CallArgs args = arguments(expr.arguments);
  line_ = line;
  return call_native(rt_, *expr.filter, input, std::move(args));
}

Value Interpreter::evaluate(const TestExpr& expr, int line) {
  line_ = line;
  if (expr.test == nullptr) fail("No test named '{}' found.", expr.name);
  const Value input = eval(*expr.input);
  CallArgs args = arguments(expr.arguments);
  line_ = line;
  return call_native(rt_, *expr.test, input, std::move(args));
}

CallArgs Interpreter::arguments(const ArgumentExprs& exprs) {
  CallArgs args;
  for (const ExprPtr& expr : exprs.positional) args.positional.push_back(eval(*expr));
  for (const auto& [name, expr] : exprs.named) args.named.emplace_back(name, eval(*expr));
  if (exprs.spread != nullptr) {
    for (Value& item : collect(rt_, eval(*exprs.spread))) args.positional.push_back(std::move(item));
  }
  if (exprs.spread_named != nullptr) {
    const Value named = eval(*exprs.spread_named);
    const Dict* dict = named.get<Dict>();
    if (dict == nullptr) fail("argument after ** must be a mapping, not {}", named.type_name());
    for (const auto& [key, value] : dict->entries()) {
      if (key.text() == nullptr) fail("keywords must be strings");
      for (const auto& [name, other] : args.named) {
        rt_.work(1);
        if (name == *key.text()) fail("got multiple values for keyword argument '{}'", name);
      }
      args.named.emplace_back(*key.text(), value);
    }
  }
  return args;
}

Value Interpreter::call(const Value& callee, CallArgs args) {
  if (auto* undefined = callee.get<Undefined>()) fail("{}", undefined->reason);
  if (auto* macro = callee.object_as<Macro>()) return invoke(*macro->code, macro->home.lock(), std::move(args));
  if (auto* loop = callee.object_as<Loop>()) {
    if (!loop->statement->recursive) {
      fail("The loop must have the 'recursive' marker to be called recursively.");
    }
    const Args bound("loop", "iterable", args);
    return run_recursive_loop(*loop->statement, bound[0], loop->home.lock(), loop->depth0 + 1);
  }
  return call_value(rt_, callee, std::move(args));
}

}  // namespace dspark::jinja
