// See jinja_scope.h.
#include "text/jinja_scope.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "text/jinja_error.h"

namespace dspark::jinja {
namespace {

// Calls visit(expr) for an expression and all in it.
template <class Visit>
void walk(Expr& expr, const Visit& visit) {
  visit(expr);
  for_each_child(expr, [&](Expr& child) { walk(child, visit); });
}

// Finds out whether a body reads a special name ("loop", "caller", ...) before it assigns it, inner scopes included.
class UseFinder {
 public:
  explicit UseFinder(std::string_view name) : name_(name) {}

  bool in(Body& body) {
    for (Stmt& statement : body) std::visit([&](auto& node) { visit(node); }, statement.node);
    return used_;
  }

 private:
  void expression(ExprPtr& expr) {
    if (expr == nullptr) return;
    walk(*expr, [&](Expr& part) {
      auto* name = std::get_if<NameExpr>(&part.node);
      if (name != nullptr && name->name == name_ && !assigned_) used_ = true;
    });
  }
  void target(const Target& target) {
    if (target.attribute.empty() && target.name == name_) assigned_ = true;
    for (const Target& item : target.items) this->target(item);
  }
  void code(MacroCode& code) {
    for (Target& parameter : code.parameters) target(parameter);
    for (ExprPtr& expr : code.defaults) expression(expr);
    in(code.body);
  }

  void visit(TextStmt&) {}
  void visit(BreakStmt&) {}
  void visit(ContinueStmt&) {}
  void visit(OutputStmt& s) {
    for (ExprPtr& expr : s.parts) expression(expr);
  }
  void visit(SetStmt& s) { target(s.target), expression(s.value); }
  void visit(SetBlockStmt& s) { target(s.target), expression(s.filter), in(s.body); }
  void visit(IfStmt& s) {
    for (auto& [test, body] : s.branches) expression(test), in(body);
    in(s.otherwise);
  }
  void visit(ForStmt& s) { target(s.target), expression(s.iterable), in(s.body), in(s.otherwise), expression(s.test); }
  void visit(MacroStmt& s) { code(s.code); }
  void visit(CallBlockStmt& s) { expression(s.call), code(s.code); }
  void visit(FilterBlockStmt& s) { in(s.body), expression(s.filter); }
  void visit(WithStmt& s) {
    for (Target& each : s.targets) target(each);
    for (ExprPtr& expr : s.values) expression(expr);
    in(s.body);
  }

  std::string_view name_;
  bool used_ = false;
  bool assigned_ = false;
};

bool uses(Body& body, std::string_view name) { return UseFinder(name).in(body); }

// The variables of one scope. Scopes of one function share its activation's slots.
class Frame {
 public:
  // `slots`: the function's counter of slots; another one than the parent's for a function of its own.
  Frame(Frame* parent, Scope& scope, uint32_t& slots) : parent_(parent), scope_(scope), slots_(slots) {}

  uint32_t declare(const std::string& name) {
    const auto [found, added] = variables_.emplace(name, slots_);
    if (added) ++slots_;
    return found->second;
  }

  void load(const std::string& name) {
    if (!find(name)) define(name, VariableLoad::From::kContext, {});
  }

  // `conditional`: in a branch, so that the variable may have to keep what it is from outside.
  void store(const std::string& name, bool conditional) {
    if (variables_.contains(name)) return;
    if (const auto outer = find(name)) return define(name, VariableLoad::From::kOuter, *outer);
    define(name, conditional ? VariableLoad::From::kContext : VariableLoad::From::kNothing, {});
  }

  std::optional<VariableRef> find(const std::string& name) const {
    VariableRef variable;
    for (const Frame* frame = this; frame != nullptr; frame = frame->parent_) {
      if (auto found = frame->variables_.find(name); found != frame->variables_.end()) {
        variable.slot = found->second;
        return variable;
      }
      if (frame->parent_ != nullptr && &frame->parent_->slots_ != &frame->slots_) ++variable.hops;
    }
    return std::nullopt;
  }

  // As find(), for names that the analysis does not reach, which then come from the context.
  VariableRef find_or_load(const std::string& name) {
    load(name);
    return *find(name);
  }

  uint32_t& slots() { return slots_; }

 private:
  void define(const std::string& name, VariableLoad::From from, VariableRef outer) {
    scope_.loads.push_back({declare(name), from, name, outer});
  }

  Frame* parent_;
  Scope& scope_;
  uint32_t& slots_;
  std::map<std::string, uint32_t> variables_;
};

// First pass over a scope: which names it has. Inner scopes are not entered.
class Collector {
 public:
  explicit Collector(Frame& frame) : frame_(frame) {}

  void body(Body& body, bool conditional = false) {
    for (Stmt& statement : body) std::visit([&](auto& node) { visit(node, conditional); }, statement.node);
  }
  void expression(ExprPtr& expr) {
    if (expr == nullptr) return;
    walk(*expr, [&](Expr& part) {
      if (auto* name = std::get_if<NameExpr>(&part.node)) frame_.load(name->name);
    });
  }

 private:
  void target(const Target& target, bool conditional) {
    if (target.name.empty()) {
      for (const Target& item : target.items) this->target(item, conditional);
    } else if (target.attribute.empty()) {
      frame_.store(target.name, conditional);
    } else {
      frame_.load(target.name);
    }
  }

  void visit(TextStmt&, bool) {}
  void visit(BreakStmt&, bool) {}
  void visit(ContinueStmt&, bool) {}
  void visit(OutputStmt& s, bool) {
    for (ExprPtr& expr : s.parts) expression(expr);
  }
  void visit(SetStmt& s, bool conditional) { expression(s.value), target(s.target, conditional); }
  void visit(SetBlockStmt& s, bool conditional) { target(s.target, conditional); }
  void visit(IfStmt& s, bool) {
    for (auto& [test, branch] : s.branches) expression(test), body(branch, true);
    body(s.otherwise, true);
  }
  void visit(ForStmt& s, bool) { expression(s.iterable); }
  void visit(MacroStmt& s, bool conditional) { frame_.store(s.target.name, conditional); }
  void visit(CallBlockStmt& s, bool) { expression(s.call); }
  void visit(FilterBlockStmt& s, bool) { expression(s.filter); }
  void visit(WithStmt& s, bool) {
    for (ExprPtr& expr : s.values) expression(expr);
  }

  Frame& frame_;
};

void declare_targets(Frame& frame, const Target& target) {
  if (!target.name.empty()) frame.declare(target.name);
  for (const Target& item : target.items) declare_targets(frame, item);
}

// Second pass over a scope: what each name in it refers to; then its inner scopes, both passes.
class Resolver {
 public:
  explicit Resolver(Frame& frame) : frame_(frame) {}

  // `branch`: this may never run, which excuses filters and tests that do not exist.
  void body(Body& body, bool branch = false) {
    for (Stmt& statement : body) {
      line_ = statement.line;
      std::visit([&](auto& node) { visit(node, branch); }, statement.node);
    }
  }

  void expression(ExprPtr& expr, bool branch) {
    if (expr != nullptr) resolve(*expr, branch);
  }

  void target(Target& target) {
    if (!target.name.empty()) target.variable = frame_.find_or_load(target.name);
    for (Target& item : target.items) this->target(item);
  }

 private:
  void resolve(Expr& expr, bool branch) {
    if (auto* name = std::get_if<NameExpr>(&expr.node)) name->variable = frame_.find_or_load(name->name);
    if (auto* filter = std::get_if<FilterExpr>(&expr.node); filter != nullptr && filter->filter == nullptr && !branch) {
      fail_syntax(expr.line, "No filter named '{}'.", filter->name);
    }
    if (auto* test = std::get_if<TestExpr>(&expr.node); test != nullptr && test->test == nullptr && !branch) {
      fail_syntax(expr.line, "No test named '{}'.", test->name);
    }
    const bool inner_branch = branch || std::holds_alternative<ConditionalExpr>(expr.node);
    for_each_child(expr, [&](Expr& child) { resolve(child, inner_branch); });
  }

  void code(MacroCode& code) {
    Frame frame(&frame_, code.scope, code.slots);
    const auto find_parameter = [&](std::string_view name) {
      return std::find_if(code.parameters.begin(), code.parameters.end(),
                          [&](const Target& parameter) { return parameter.name == name; });
    };
    for (const Target& parameter : code.parameters) frame.declare(parameter.name);
    const auto special = [&](const char* name, bool& used, uint32_t& slot) {
      used = uses(code.body, name) && find_parameter(name) == code.parameters.end();
      if (used) slot = frame.declare(name);
    };
    const auto caller = find_parameter("caller");
    const auto required = static_cast<ptrdiff_t>(code.parameters.size() - code.defaults.size());
    if (caller != code.parameters.end() && caller - code.parameters.begin() < required && uses(code.body, "caller")) {
      fail_syntax(line_,
                  "When defining macros or call blocks the special \"caller\" argument must be omitted or be given "
                  "a default.");
    }
    special("caller", code.uses_caller, code.caller_slot);
    special("kwargs", code.uses_kwargs, code.kwargs_slot);
    special("varargs", code.uses_varargs, code.varargs_slot);
    Collector collector(frame);
    for (ExprPtr& expr : code.defaults) collector.expression(expr);
    collector.body(code.body);

    Resolver resolver(frame);
    for (Target& parameter : code.parameters) resolver.target(parameter);
    for (ExprPtr& expr : code.defaults) resolver.expression(expr, false);
    resolver.body(code.body);
  }

  void visit(TextStmt&, bool) {}
  void visit(BreakStmt&, bool) {}
  void visit(ContinueStmt&, bool) {}
  void visit(OutputStmt& s, bool branch) {
    for (ExprPtr& expr : s.parts) expression(expr, branch);
  }
  void visit(SetStmt& s, bool branch) { expression(s.value, branch), target(s.target); }
  void visit(IfStmt& s, bool) {
    for (auto& [test, branch] : s.branches) expression(test, true), body(branch, true);
    body(s.otherwise, true);
  }
  void visit(MacroStmt& s, bool) { target(s.target), code(s.code); }
  void visit(CallBlockStmt& s, bool branch) { expression(s.call, branch), code(s.code); }

  void visit(SetBlockStmt& s, bool) {
    target(s.target);
    inner(s.scope, {}, s.filter, s.body);
  }
  void visit(FilterBlockStmt& s, bool) { inner(s.scope, {}, s.filter, s.body); }
  void visit(WithStmt& s, bool branch) {
    for (ExprPtr& expr : s.values) expression(expr, branch);
    ExprPtr no_filter;
    inner(s.scope, s.targets, no_filter, s.body);
  }

  // A scope in the same function: its targets, and a body with a filter.
  void inner(Scope& scope, std::span<Target> targets, ExprPtr& filter, Body& body) {
    Frame frame(&frame_, scope, frame_.slots());
    for (const Target& each : targets) declare_targets(frame, each);
    Collector collector(frame);
    collector.body(body);
    collector.expression(filter);
    Resolver resolver(frame);
    for (Target& each : targets) resolver.target(each);
    resolver.body(body);
    resolver.expression(filter, false);
  }

  void visit(ForStmt& s, bool branch) {
    expression(s.iterable, branch);
    uint32_t& slots = s.recursive ? s.slots : frame_.slots();
    Frame frame(&frame_, s.scope, slots);
    s.uses_loop = s.recursive || uses(s.body, "loop");
    if (s.uses_loop) s.loop_slot = frame.declare("loop");
    declare_targets(frame, s.target);
    Collector(frame).body(s.body);
    Resolver resolver(frame);
    resolver.target(s.target);
    resolver.body(s.body);

    if (s.test != nullptr) {
      Frame test_frame(&frame_, s.test_scope, slots);
      declare_targets(test_frame, s.test_target);
      Collector(test_frame).expression(s.test);
      Resolver test_resolver(test_frame);
      test_resolver.target(s.test_target);
      test_resolver.expression(s.test, false);
    }
    Frame otherwise_frame(&frame_, s.otherwise_scope, slots);
    Collector(otherwise_frame).body(s.otherwise);
    Resolver(otherwise_frame).body(s.otherwise);
  }

  Frame& frame_;
  int line_ = 0;
};

}  // namespace

void resolve_variables(Program& program) {
  Frame frame(nullptr, program.scope, program.slots);
  Collector(frame).body(program.body);
  Resolver(frame).body(program.body);
}

}  // namespace dspark::jinja
