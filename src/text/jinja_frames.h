// The parts of the interpreter (jinja_eval.h) that hold its state: activations, captured output, macros and loops.
// Included by jinja_eval*.cc alone. One render's thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_eval.h"
#include "text/jinja_ops.h"

namespace dspark::jinja {

// The variables of one call: of the template, a macro, a call block or a recursive loop.
struct Interpreter::Activation {
  Activation(Runtime& rt, uint32_t count, std::shared_ptr<Activation> outer) : parent(std::move(outer)) {
    charge.attach(rt.meter(), count * sizeof(Value) + sizeof(Activation));
    slots.resize(count);
  }

  std::vector<Value> slots;
  std::shared_ptr<Activation> parent;  // of the function that this one is defined in
  bool kept = false;
  Charge charge;
};

// Text that is being written.
struct Interpreter::Capture {
  Capture(Interpreter& owner) : interpreter(owner), outer(owner.output_), charge(owner.rt_.meter()) {
    interpreter.output_ = this;
  }
  Capture(const Capture&) = delete;
  ~Capture() { interpreter.output_ = outer; }

  Interpreter& interpreter;
  Capture* outer;
  std::string text;
  Charge charge;
};

class Interpreter::DepthGuard {
 public:
  explicit DepthGuard(Interpreter& interpreter) : depth_(interpreter.depth_) {
    if (depth_ >= interpreter.rt_.limits().max_depth) {
      fail_limit("the template recurses deeper than the limit of {}", interpreter.rt_.limits().max_depth);
    }
    ++depth_;
    interpreter.rt_.work(1);
  }
  ~DepthGuard() { --depth_; }

 private:
  int& depth_;
};

// Makes an activation the current one for as long as it lives.
class Interpreter::ActivationGuard {
 public:
  ActivationGuard(Interpreter& interpreter, uint32_t slots, std::shared_ptr<Activation> parent)
      : interpreter_(interpreter),
        saved_(std::exchange(interpreter.activation_,
                             std::make_shared<Activation>(interpreter.rt_, slots, std::move(parent)))) {}
  ~ActivationGuard() { interpreter_.activation_ = std::move(saved_); }

 private:
  Interpreter& interpreter_;
  std::shared_ptr<Activation> saved_;
};

struct Interpreter::Macro : Object {
  const char* type_name() const override { return "Macro"; }
  std::string describe(Runtime& rt) override;
  Value attribute(Runtime& rt, std::string_view name) override;

  const MacroCode* code = nullptr;
  // Where it was made. Not owned: the interpreter keeps it, as the activation may hold the macro.
  std::weak_ptr<Activation> home;
};

// The items that a loop runs over: those that pass its test.
class Interpreter::ItemSource {
 public:
  ItemSource(Interpreter& interpreter, const ForStmt& statement, const Value& iterable)
      : interpreter_(interpreter), statement_(statement), cursor_(interpreter.rt_, iterable) {}
  bool next(Value& item);

 private:
  Interpreter& interpreter_;
  const ForStmt& statement_;
  Cursor cursor_;
};

// The variable `loop`.
struct Interpreter::Loop : Object {
  const char* type_name() const override { return "LoopContext"; }
  std::string describe(Runtime& rt) override;
  Value attribute(Runtime& rt, std::string_view name) override;

  // Moves to the next item; false at the end.
  bool next(Value& item);
  bool peek();
  size_t length(Runtime& rt);

  const ForStmt* statement = nullptr;
  std::weak_ptr<Activation> home;  // of the loop statement, for recursion
  ItemSource* source = nullptr;    // null when the loop is over
  Value iterable;
  int64_t index0 = -1;
  int depth0 = 0;
  std::vector<Value> ahead;  // items that were read to find out the length, from the last to the next
  std::optional<size_t> known_length;
  Value before, current, after;
  Value changed;  // the arguments of the last changed()
};

}  // namespace dspark::jinja
