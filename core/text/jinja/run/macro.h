// Macros, call blocks and the `loop` variable.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "text/jinja/run/interpreter.h"

namespace plimsoll::text::jinja {

class Macro final : public Object {
 public:
  Macro(Interpreter& interpreter, const Stmt& stmt, Value outer)
      : interpreter_(interpreter), stmt_(stmt), outer_(std::move(outer)) {}
  [[nodiscard]] std::string_view type_name() const override { return "Macro"; }
  [[nodiscard]] bool callable() const override { return true; }
  Value call(Runtime& runtime, const Args& args) override;
  [[nodiscard]] std::string repr(Runtime& runtime, int depth) const override;

 private:
  Interpreter& interpreter_;
  const Stmt& stmt_;
  Value outer_;
};

/// The function behind `loop(...)` in a recursive loop.
class RecursiveLoop final : public Object {
 public:
  RecursiveLoop(Interpreter& interpreter, const Stmt& stmt, Value outer)
      : interpreter_(interpreter), stmt_(stmt), outer_(std::move(outer)) {}
  [[nodiscard]] std::string_view type_name() const override { return "function"; }
  Value run(const Value& self, const Value& iterable, Int depth);

 private:
  Interpreter& interpreter_;
  const Stmt& stmt_;
  Value outer_;
};

/// The `loop` variable; it draws the items and may look one ahead.
class LoopContext final : public Mutable {
 public:
  using Next = std::function<bool(Value&)>;
  /// `iterable` is missing when its length cannot be asked (a filtered loop).
  LoopContext(Runtime& runtime, Value iterable, Next next, Value recursion, Int depth0)
      : Mutable(runtime),
        iterable_(std::move(iterable)),
        next_(std::move(next)),
        recursion_(std::move(recursion)),
        depth0_(depth0) {}
  [[nodiscard]] std::string_view type_name() const override { return "LoopContext"; }
  [[nodiscard]] bool callable() const override { return true; }
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override;
  Value call(Runtime& runtime, const Args& args) override;
  void clear() override;
  bool next(Value& item);

 private:
  Int item_count(Runtime& runtime);
  const Value& peek();
  bool draw(Value& item);
  Value cycle(Runtime& runtime, const Args& args) const;
  Value changed(Runtime& runtime, const Args& args);

  Value iterable_;
  Next next_;
  Value recursion_;
  Int depth0_;
  Int index0_ = -1;
  std::optional<Int> length_;
  std::vector<Value> drawn_;  // items drawn to learn the length
  size_t drawn_at_ = 0;
  Value before_, current_, after_, last_changed_;
};

}  // namespace plimsoll::text::jinja
