// Runs a template. One interpreter is one render, on one thread; the program is shared and not changed.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_runtime.h"

namespace dspark::jinja {

class Interpreter {
 public:
  using Context = std::map<std::string, Value, std::less<>>;

  // `context`: what names mean that the template does not assign. `rt` outlives the interpreter.
  Interpreter(const Program& program, Runtime& rt, Context context);
  ~Interpreter();

  // The rendered text. Fails (jinja_error.h); line() is where.
  std::string run();
  int line() const { return line_; }

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  struct Activation;
  struct Capture;
  struct Macro;
  class ItemSource;
  struct Loop;
  class DepthGuard;
  class ActivationGuard;

  // Expressions. Each sets line_ before it does what may fail.
  Value eval(const Expr& expr);
  Value eval_optional(const ExprPtr& expr);
  Value evaluate(const ConstExpr& expr, int line);
  Value evaluate(const NameExpr& expr, int line);
  Value evaluate(const SequenceExpr& expr, int line);
  Value evaluate(const DictExpr& expr, int line);
  Value evaluate(const ChainExpr& expr, int line);
  Value evaluate(const ConcatExpr& expr, int line);
  Value evaluate(const LogicExpr& expr, int line);
  Value evaluate(const CompareExpr& expr, int line);
  Value evaluate(const UnaryExpr& expr, int line);
  Value evaluate(const ConditionalExpr& expr, int line);
  Value evaluate(const AttributeExpr& expr, int line);
  Value evaluate(const ItemExpr& expr, int line);
  Value evaluate(const SliceExpr& expr, int line);
  Value evaluate(const CallExpr& expr, int line);
  Value evaluate(const FilterExpr& expr, int line);
  Value evaluate(const TestExpr& expr, int line);
  CallArgs arguments(const ArgumentExprs& exprs);
  Value call(const Value& callee, CallArgs args);

  // Statements.
  Flow run_body(const Body& body);
  Flow execute(const TextStmt& statement, int line);
  Flow execute(const OutputStmt& statement, int line);
  Flow execute(const SetStmt& statement, int line);
  Flow execute(const SetBlockStmt& statement, int line);
  Flow execute(const IfStmt& statement, int line);
  Flow execute(const ForStmt& statement, int line);
  Flow execute(const MacroStmt& statement, int line);
  Flow execute(const CallBlockStmt& statement, int line);
  Flow execute(const FilterBlockStmt& statement, int line);
  Flow execute(const WithStmt& statement, int line);
  Flow execute(const BreakStmt& statement, int line);
  Flow execute(const ContinueStmt& statement, int line);

  Flow run_loop(const ForStmt& statement, const Value& iterable, std::shared_ptr<Activation> home, int depth);
  Value run_recursive_loop(const ForStmt& statement, const Value& iterable, const std::shared_ptr<Activation>& home,
                           int depth);
  Value make_macro(const MacroCode& code);
  Value invoke(const MacroCode& code, const std::shared_ptr<Activation>& home, CallArgs args);
  void bind_arguments(const MacroCode& code, CallArgs args);

  void enter(const Scope& scope);
  Value& variable(VariableRef ref);
  void assign(const Target& target, const Value& value);
  void check_namespaces(const Target& target);
  void emit(std::string_view text);

  const Program& program_;
  Runtime& rt_;
  const Context context_;
  int line_ = 1;
  int depth_ = 0;
  Capture* output_ = nullptr;
  Value block_text_;  // what the filter of a block works on
  std::shared_ptr<Activation> activation_;
  std::vector<std::shared_ptr<Activation>> kept_;  // that macros or loops point to
};

}  // namespace dspark::jinja
