// Activations, macros and loops.
#include <algorithm>

#include "text/jinja/filters/filters.h"
#include "text/jinja/run/interpreter.h"
#include "text/jinja/run/macro.h"
#include "text/jinja/values/operators.h"

namespace plimsoll::text::jinja {

Activation::Activation(Runtime& runtime, Value outer, size_t slot_count)
    : Mutable(runtime),
      parent(outer.is(Kind::object) ? static_cast<Activation*>(outer.object()) : nullptr),
      slots(slot_count),
      parent_value_(std::move(outer)),
      size_(sizeof(Activation) + slot_count * sizeof(Value)) {
  runtime.charge(slot_count / 16 + 1);
  Heap::current().grow(size_);
}

Activation::~Activation() {
  Heap::current().live -= static_cast<int64_t>(size_);
}

void Activation::clear() {
  for (Value& value : slots) value = Value();
  parent_value_ = Value();
}

// Runs with new variables and returns what was written meanwhile.
std::string Interpreter::in_activation(const Value& outer, size_t slot_count,
                                       const std::function<void()>& run) {
  if (calls_ > runtime_.limits().max_depth) {
    raise("macro calls are nested deeper than ", std::to_string(runtime_.limits().max_depth),
          " levels");
  }
  ++calls_;
  std::string text;
  const int line = line_;
  auto* inner = new Activation(runtime_, outer, slot_count);
  Activation* activation = std::exchange(activation_, inner);
  Value activation_value = std::exchange(activation_value_, make_object(inner));
  std::string* out = std::exchange(out_, &text);
  run();
  out_ = out;
  activation_value_ = std::move(activation_value);
  activation_ = activation;
  line_ = line;
  --calls_;
  return text;
}

// ---- macros ----

std::string Macro::repr(Runtime&, int) const {
  return stmt_.kind == StmtKind::macro ? "<Macro " + quote(stmt_.name) + ">" : "<Macro anonymous>";
}

Value Macro::call(Runtime&, const Args& args) {
  const std::string shown = stmt_.kind == StmtKind::macro ? quote(stmt_.name) : "None";
  return interpreter_.call_macro(stmt_, outer_, shown, args);
}

Value Interpreter::call_macro(const Stmt& stmt, const Value& outer, const std::string& shown,
                              const Args& args) {
  return Value::string(in_activation(outer, stmt.slot_count, [&] {
    enter(stmt.frame);
    bind_parameters(stmt.signature, shown, args);
    for (const auto& parameter : stmt.signature.parameters) {
      Value& value = activation_->slots[parameter.slot];
      if (!value.is(Kind::missing)) continue;
      value = parameter.fallback
                  ? evaluate(*parameter.fallback)
                  : undefined_hint("parameter '" + parameter.name + "' was not provided");
    }
    execute(stmt.body);
  }));
}

// Gives a macro its positional, keyword and special arguments as jinja2's Macro.__call__ does.
void Interpreter::bind_parameters(const Signature& signature, const std::string& shown,
                                  const Args& args) {
  const size_t count = signature.parameters.size();
  const size_t given = std::min(count, args.positional.size());
  std::vector<std::pair<std::string, Value>> keywords = args.keywords;
  const auto take = [&](const std::string& name) {
    const auto at = std::ranges::find(keywords, name, &std::pair<std::string, Value>::first);
    if (at == keywords.end()) return Value();
    Value value = std::move(at->second);
    keywords.erase(at);
    return value;
  };
  for (size_t i = 0; i < count; ++i) {
    const Parameter& parameter = signature.parameters[i];
    activation_->slots[parameter.slot] = i < given ? args.positional[i] : take(parameter.name);
  }
  if (signature.wants_caller && !signature.explicit_caller) {
    Value caller = take("caller");
    if (caller.is(Kind::missing) || caller.is_none()) caller = undefined_hint("No caller defined");
    activation_->slots[signature.caller_slot] = std::move(caller);
  }
  if (signature.wants_keywords) {
    auto [value, dict] = new_dict();
    for (auto& [name, keyword] : keywords)
      dict->set(runtime_, Value::string(name), std::move(keyword));
    activation_->slots[signature.keywords_slot] = value;
  } else if (!keywords.empty()) {
    if (!take("caller").is(Kind::missing)) {
      raise("macro ", shown,
            " was invoked with two values for the special caller argument. This is most likely a "
            "bug.");
    }
    raise("macro ", shown, " takes no keyword argument '", keywords[0].first, "'");
  }
  if (signature.wants_rest) {
    std::vector<Value> rest(args.positional.begin() + static_cast<ptrdiff_t>(given),
                            args.positional.end());
    activation_->slots[signature.rest_slot] = Value::tuple(std::move(rest));
  } else if (args.positional.size() > count) {
    raise("macro ", shown, " takes not more than ", std::to_string(count), " argument(s)");
  }
}

// ---- loops ----

Interpreter::Flow Interpreter::for_loop(const Stmt& stmt) {
  const Value iterable = evaluate(*stmt.exprs[0]);
  if (!stmt.recursive) return loop_over(stmt, iterable, {}, 0);
  auto* loop = new RecursiveLoop(*this, stmt, activation_value_);
  const Value recursion = make_object(loop);
  write(loop->run(recursion, iterable, 0));
  return Flow::next;
}

Value RecursiveLoop::run(const Value& self, const Value& iterable, Int depth) {
  return interpreter_.call_loop(stmt_, outer_, iterable, self, depth);
}

Value Interpreter::call_loop(const Stmt& stmt, const Value& outer, const Value& iterable,
                             const Value& recursion, Int depth) {
  return Value::string(
      in_activation(outer, stmt.slot_count, [&] { loop_over(stmt, iterable, recursion, depth); }));
}

bool Interpreter::passes_filter(const Stmt& stmt, const Value& item) {
  assign(*stmt.test_target, item);
  return truthy(evaluate(*stmt.exprs[1]));
}

Interpreter::Flow Interpreter::loop_over(const Stmt& stmt, const Value& iterable,
                                         const Value& recursion, Int depth) {
  Cursor cursor(runtime_, iterable);
  const bool filtered = stmt.exprs[1] != nullptr;
  if (filtered) enter(stmt.test_frame);
  // A `loop` that outlives this statement may still look ahead, hence the copies.
  LoopContext::Next next = [this, &stmt, cursor, filtered,
                            home = activation_value_](Value& item) mutable {
    if (!filtered) return cursor.next(item);
    Activation* activation = std::exchange(activation_, static_cast<Activation*>(home.object()));
    bool found = false;
    while (!found && cursor.next(item)) found = passes_filter(stmt, item);
    activation_ = activation;
    return found;
  };
  Flow flow = Flow::next;
  bool no_turn_ended = true;
  if (stmt.extended) {
    auto* context =
        new LoopContext(runtime_, filtered ? Value() : iterable, std::move(next), recursion, depth);
    const Value loop = make_object(context);
    flow = turns(
        stmt, [context](Value& item) { return context->next(item); }, loop, no_turn_ended);
  } else {
    flow = turns(stmt, next, {}, no_turn_ended);
  }
  leave(stmt.frame);
  if (no_turn_ended && !stmt.otherwise.empty()) {
    enter(stmt.else_frame);
    flow = execute(stmt.otherwise);
    leave(stmt.else_frame);
  }
  return flow;
}

// The turns of the loop. jinja2 runs `else` unless some turn came to its end: not after `break` or
// `continue` alone.
Interpreter::Flow Interpreter::turns(const Stmt& stmt, const std::function<bool(Value&)>& next,
                                     const Value& loop, bool& no_turn_ended) {
  for (Value item; next(item);) {
    assign(*stmt.target, std::move(item));
    if (stmt.extended) activation_->slots[stmt.slot.index] = loop;
    enter(stmt.frame);
    const Flow flow = execute(stmt.body);
    if (flow == Flow::leave_loop) break;
    if (flow == Flow::next) no_turn_ended = false;
  }
  return Flow::next;
}

}  // namespace plimsoll::text::jinja
