// The budget of a render, and the few facts outside the conversation that a template may ask for.
#pragma once

#include <ctime>
#include <optional>

#include "text/chat_template.h"
#include "text/jinja/values/value.h"

namespace plimsoll::text::jinja {

class Mutable;

class Runtime {
 public:
  Runtime(const TemplateBudget& budget, std::optional<std::tm> now)
      : limits_(budget), steps_left_(budget.max_steps), now_(now) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  /// Empties whatever may refer to itself, so that everything is freed.
  ~Runtime();

  /// Charges work: a step is an evaluated node, a loop turn or a comparison (about 50 ns).
  void charge(uint64_t steps) {
    if (steps > steps_left_) out_of_steps();
    steps_left_ -= steps;
  }
  /// Charges for searching or comparing `bytes`.
  void charge_scan(size_t bytes) { charge(bytes / 256 + 1); }
  /// Charges for work on every character of `bytes`: case, classes, escapes.
  void charge_characters(size_t bytes) { charge(bytes / 32 + 1); }
  /// Charges for copying and refuses strings past the output budget.
  void charge_copy(size_t bytes) {
    if (bytes > limits_.max_output) too_long(bytes);
    charge(bytes / 1024 + 1);
  }
  /// Refuses a size before anything is built. `count` times `unit` may overflow.
  void check_size(Int count, Int unit = 1);
  /// The longest list that may be built.
  void check_elements(Int count);

  [[nodiscard]] const TemplateBudget& limits() const { return limits_; }
  [[nodiscard]] std::tm now() const;

 private:
  friend class Mutable;
  [[noreturn]] void out_of_steps() const;
  [[noreturn]] void too_long(size_t bytes) const;

  TemplateBudget limits_;
  uint64_t steps_left_;
  std::optional<std::tm> now_;
  Mutable* mutables_ = nullptr;
};

/// An object that may come to refer to itself: it is emptied when the render ends.
class Mutable : public Object {
 public:
  explicit Mutable(Runtime& runtime);
  ~Mutable() override;
  virtual void clear() = 0;

 private:
  friend class Runtime;
  Runtime& runtime_;
  Mutable* before_ = nullptr;
  Mutable* after_ = nullptr;
};

/// A function that templates may call, such as `range` or a bound method.
class Function final : public Object {
 public:
  using Body = std::function<Value(Runtime&, const Args&)>;
  Function(std::string name, Body body) : name_(std::move(name)), body_(std::move(body)) {}
  [[nodiscard]] std::string_view type_name() const override { return "function"; }
  [[nodiscard]] bool callable() const override { return true; }
  Value call(Runtime& runtime, const Args& args) override { return body_(runtime, args); }
  [[nodiscard]] std::string repr(Runtime&, int) const override {
    return "<function " + name_ + ">";
  }

 private:
  std::string name_;
  Body body_;
};

/// The result of `namespace()`: the only object that a template can assign to.
class Namespace final : public Mutable {
 public:
  using Mutable::Mutable;
  [[nodiscard]] std::string_view type_name() const override { return "Namespace"; }
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override;
  [[nodiscard]] std::string repr(Runtime& runtime, int depth) const override;
  void set(const std::string& name, Value value);
  void clear() override { attributes_.clear(); }

 private:
  std::vector<std::pair<std::string, Value>> attributes_;
};

/// Arguments bound to parameter names as Python does it; an empty name is positional only.
class Bound {
 public:
  Bound(std::string_view function, const Args& args, std::initializer_list<std::string_view> names,
        size_t required = 0);
  [[nodiscard]] bool has(size_t index) const { return values_[index] != nullptr; }
  [[nodiscard]] const Value& operator[](size_t index) const { return *values_[index]; }
  /// The argument, or `fallback` when it is absent.
  [[nodiscard]] Value get(size_t index, Value fallback) const {
    return has(index) ? *values_[index] : std::move(fallback);
  }
  [[nodiscard]] bool given(size_t index) const { return has(index) && !values_[index]->is_none(); }
  /// Truth of the argument; false when it is absent.
  [[nodiscard]] bool truthy(size_t index) const;
  [[nodiscard]] Int integer(Runtime& runtime, size_t index, Int fallback) const;
  [[nodiscard]] const std::string& text(size_t index) const;

 private:
  static constexpr size_t kMax = 8;
  const Value* values_[kMax] = {};
  std::string_view function_;
};

}  // namespace plimsoll::text::jinja
