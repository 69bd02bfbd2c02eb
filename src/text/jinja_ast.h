// The parsed template. The parser (jinja_parser.h) makes it, the scope pass (jinja_scope.h) numbers its variables, then
// it never changes: all renders of a template read the same tree, from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja_ops.h"
#include "text/jinja_value.h"

namespace dspark::jinja {

// A variable: slot `slot` of the activation `hops` functions further out.
struct VariableRef {
  uint32_t hops = 0;
  uint32_t slot = 0;
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct ConstExpr {
  Value value;
};
struct NameExpr {
  std::string name;
  VariableRef variable;
};
struct SequenceExpr {
  std::vector<ExprPtr> items;
  bool is_tuple;
};
struct DictExpr {
  std::vector<std::pair<ExprPtr, ExprPtr>> items;
};
// first op1 a op2 b ...: operators of one precedence, from the left. Flat, so that long chains need no deep recursion.
struct ChainExpr {
  struct Link {
    BinaryOp op;
    int line;  // of the operator
    ExprPtr operand;
  };
  ExprPtr first;
  std::vector<Link> rest;
};
struct ConcatExpr {
  std::vector<ExprPtr> parts;
};
struct LogicExpr {
  bool is_or;
  std::vector<ExprPtr> operands;
};
struct CompareExpr {
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
};
struct UnaryExpr {
  enum class Op { kNot, kNegative, kPositive };
  Op op;
  ExprPtr operand;
};
struct ConditionalExpr {
  ExprPtr test;
  ExprPtr then;
  ExprPtr otherwise;  // may be null
};
struct AttributeExpr {
  ExprPtr object;
  std::string name;
};
struct ItemExpr {
  ExprPtr object;
  ExprPtr key;
};
struct SliceExpr {
  ExprPtr object;
  ExprPtr start, stop, step;  // each may be null
};
struct ArgumentExprs {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr spread;        // *expression, or null
  ExprPtr spread_named;  // **expression, or null
};
struct CallExpr {
  ExprPtr callee;
  ArgumentExprs arguments;
};
struct FilterExpr {
  ExprPtr input;  // null: the text of the block that the filter stands at
  std::string name;
  const Native* filter;  // null: there is none of this name
  ArgumentExprs arguments;
};
struct TestExpr {
  ExprPtr input;
  std::string name;
  const Native* test;  // null: there is none of this name
  ArgumentExprs arguments;
};

struct Expr {
  int line;
  int depth;  // expressions inside each other, this one included
  std::variant<ConstExpr, NameExpr, SequenceExpr, DictExpr, ChainExpr, ConcatExpr, LogicExpr, CompareExpr, UnaryExpr,
               ConditionalExpr, AttributeExpr, ItemExpr, SliceExpr, CallExpr, FilterExpr, TestExpr>
      node;
};

// Calls visit(child) for each direct part of an expression, in the order of their evaluation in the text.
template <class Visit>
void for_each_child(Expr& expr, Visit visit);

// What {% set %}, {% for %} and {% with %} assign to: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  int line = 1;
  std::string name;  // empty: a tuple
  std::string attribute;
  VariableRef variable;
  std::vector<Target> items;
};

// What happens to a variable when the scope that it belongs to begins.
struct VariableLoad {
  enum class From { kContext, kOuter, kNothing };
  uint32_t slot = 0;
  From from = From::kNothing;
  std::string name;   // kContext
  VariableRef outer;  // kOuter
};
struct Scope {
  std::vector<VariableLoad> loads;
};

struct Stmt;
using Body = std::vector<Stmt>;

struct TextStmt {
  std::string text;
};
struct OutputStmt {
  std::vector<ExprPtr> parts;
};
struct SetStmt {
  Target target;
  ExprPtr value;
};
struct SetBlockStmt {
  Target target;
  ExprPtr filter;  // may be null
  Body body;
  Scope scope;
};
struct IfStmt {
  std::vector<std::pair<ExprPtr, Body>> branches;  // if and elif
  Body otherwise;
};
struct ForStmt {
  Target target;
  ExprPtr iterable;
  ExprPtr test;        // may be null
  Target test_target;  // the same names, for the test: it runs ahead of the body where that looks at the next item
  bool recursive;
  Body body, otherwise;
  bool has_otherwise;

  bool uses_loop = false;  // the variable `loop`
  uint32_t loop_slot = 0;
  Scope scope, test_scope, otherwise_scope;
  uint32_t slots = 0;  // recursive: of an activation
};
// What a macro, a call block or a generation block runs.
struct MacroCode {
  std::string name;  // empty: anonymous
  std::vector<Target> parameters;
  std::vector<ExprPtr> defaults;  // of the last parameters
  Body body;

  Scope scope;
  uint32_t slots = 0;
  // Slots of the special variables, where the body uses them.
  bool uses_caller = false, uses_kwargs = false, uses_varargs = false;
  uint32_t caller_slot = 0, kwargs_slot = 0, varargs_slot = 0;
};
struct MacroStmt {
  Target target;
  MacroCode code;
};
struct CallBlockStmt {
  ExprPtr call;  // a CallExpr; null for {% generation %}, which only marks what it encloses
  MacroCode code;
};
struct FilterBlockStmt {
  ExprPtr filter;
  Body body;
  Scope scope;
};
struct WithStmt {
  std::vector<Target> targets;
  std::vector<ExprPtr> values;
  Body body;
  Scope scope;
};
struct BreakStmt {};
struct ContinueStmt {};

struct Stmt {
  int line;
  std::variant<TextStmt, OutputStmt, SetStmt, SetBlockStmt, IfStmt, ForStmt, MacroStmt, CallBlockStmt, FilterBlockStmt,
               WithStmt, BreakStmt, ContinueStmt>
      node;
};

// A template.
struct Program {
  Body body;
  Scope scope;
  uint32_t slots = 0;
};

namespace internal {

// The children of each kind of expression.
template <class Visit>
struct ChildVisitor {
  Visit& visit;

  void one(ExprPtr& expr) const {
    if (expr != nullptr) visit(*expr);
  }
  void all(std::vector<ExprPtr>& exprs) const {
    for (ExprPtr& expr : exprs) one(expr);
  }
  void arguments(ArgumentExprs& arguments) const {
    all(arguments.positional);
    for (auto& [name, expr] : arguments.named) one(expr);
    one(arguments.spread);
    one(arguments.spread_named);
  }

  void operator()(ConstExpr&) const {}
  void operator()(NameExpr&) const {}
  void operator()(SequenceExpr& e) const { all(e.items); }
  void operator()(DictExpr& e) const {
    for (auto& [key, value] : e.items) one(key), one(value);
  }
  void operator()(ChainExpr& e) const {
    one(e.first);
    for (ChainExpr::Link& link : e.rest) one(link.operand);
  }
  void operator()(ConcatExpr& e) const { all(e.parts); }
  void operator()(LogicExpr& e) const { all(e.operands); }
  void operator()(CompareExpr& e) const {
    one(e.first);
    for (auto& [op, operand] : e.rest) one(operand);
  }
  void operator()(UnaryExpr& e) const { one(e.operand); }
  void operator()(ConditionalExpr& e) const { one(e.test), one(e.then), one(e.otherwise); }
  void operator()(AttributeExpr& e) const { one(e.object); }
  void operator()(ItemExpr& e) const { one(e.object), one(e.key); }
  void operator()(SliceExpr& e) const { one(e.object), one(e.start), one(e.stop), one(e.step); }
  void operator()(CallExpr& e) const { one(e.callee), arguments(e.arguments); }
  void operator()(FilterExpr& e) const { one(e.input), arguments(e.arguments); }
  void operator()(TestExpr& e) const { one(e.input), arguments(e.arguments); }
};

}  // namespace internal

template <class Visit>
void for_each_child(Expr& expr, Visit visit) {
  std::visit(internal::ChildVisitor<Visit>{visit}, expr.node);
}

}  // namespace dspark::jinja
