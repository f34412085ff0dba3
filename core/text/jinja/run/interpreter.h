// Walks a Program over a conversation.
#pragma once

#include <string>
#include <vector>

#include "text/jinja/parse/ast.h"
#include "text/jinja/values/runtime.h"

namespace plimsoll::text::jinja {

/// The variables of one call of the template, a macro or a recursive loop. Macros keep the
/// variables around them alive.
class Activation final : public Mutable {
 public:
  Activation(Runtime& runtime, Value outer, size_t slot_count);
  ~Activation() override;
  [[nodiscard]] std::string_view type_name() const override { return "frame"; }
  void clear() override;

  Activation* parent;
  std::vector<Value> slots;

 private:
  Value parent_value_;
  size_t size_;
};

class Interpreter {
 public:
  Interpreter(const Program& program, Runtime& runtime) : program_(program), runtime_(runtime) {}

  /// Renders the program. `context` looks up a variable by name: missing when there is none.
  /// `ready` is called when all are looked up.
  template <typename Context, typename Ready>
  std::string render(Context context, Ready ready) {
    for (const auto& name : program_.names) context_.push_back(context(name));
    ready();
    return run();
  }
  /// The line of the template that ran when it failed.
  [[nodiscard]] int line() const { return line_; }

 private:
  friend class Macro;
  friend class RecursiveLoop;
  enum class Flow : uint8_t { next, leave_loop, next_turn };
  static constexpr size_t kMaxEvaluationDepth = 1500;  // about 1 MiB of stack

  std::string run();

  // Statements.
  Flow execute(const Body& body);
  Flow execute(const Stmt& stmt);
  void output(const Stmt& stmt);
  void write(std::string_view text);
  void write(const Value& value);
  void write_block(const Value& value);
  Flow branch(const Stmt& stmt);
  Flow for_loop(const Stmt& stmt);
  Flow loop_over(const Stmt& stmt, const Value& iterable, const Value& recursion, Int depth);
  Flow turns(const Stmt& stmt, const std::function<bool(Value&)>& next, const Value& loop,
             bool& no_turn_ended);
  bool passes_filter(const Stmt& stmt, const Value& item);
  void assign_statement(const Stmt& stmt);
  Flow assign_block(const Stmt& stmt);
  void define_macro(const Stmt& stmt);
  void call_block(const Stmt& stmt);
  Flow filter_block(const Stmt& stmt);
  Flow with(const Stmt& stmt);
  void assign(const Expr& target, Value value);
  void check_namespaces(const Expr& target);
  void enter(const FrameInfo& frame);
  void leave(const FrameInfo& frame);

  // Expressions.
  Value evaluate(const Expr& expr);
  Value evaluate_inner(const Expr& expr);
  Value name(const Expr& expr);
  std::vector<Value> evaluate_all(const std::vector<ExprPtr>& exprs);
  Value dict(const Expr& expr);
  Value concat(const Expr& expr);
  Value compare_chain(const Expr& expr);
  Value slice_of(const Expr& expr);
  Args arguments(const CallArgs& args);
  void spread_keywords(const Expr& expr, Args& args);
  Value call(const Expr& expr, const Value* caller = nullptr);
  Value apply_filter(const Expr& expr, const Value* body = nullptr);
  Value apply_test(const Expr& expr);

  // Calls.
  Value call_macro(const Stmt& stmt, const Value& outer, const std::string& shown,
                   const Args& args);
  void bind_parameters(const Signature& signature, const std::string& shown, const Args& args);
  Value call_loop(const Stmt& stmt, const Value& outer, const Value& iterable,
                  const Value& recursion, Int depth);
  std::string in_activation(const Value& outer, size_t slot_count,
                            const std::function<void()>& run);
  Value& slot(Slot slot);

  const Program& program_;
  Runtime& runtime_;
  std::vector<Value> context_;  // values of Program::names
  Activation* activation_ = nullptr;
  Value activation_value_;
  std::string* out_ = nullptr;
  size_t calls_ = 0;  // macros, callers and recursive loops that are running
  size_t depth_ = 0;  // of nested evaluation
  int line_ = 1;
};

}  // namespace plimsoll::text::jinja
