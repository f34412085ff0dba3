// Statements.
#include "text/jinja/run/interpreter.h"

#include "text/jinja/filters/filters.h"
#include "text/jinja/run/macro.h"
#include "text/jinja/values/operators.h"

namespace plimsoll::text::jinja {
std::string Interpreter::run() {
  return in_activation({}, program_.slot_count, [&] {
    enter(program_.frame);
    execute(program_.body);
  });
}

void Interpreter::enter(const FrameInfo& frame) {
  runtime_.charge(frame.loads.size() / 8);
  for (const Load& load : frame.loads) {
    Value& target = activation_->slots[load.slot];
    switch (load.from) {
      case Load::From::context:
        target = context_[load.name];
        break;
      case Load::From::outer:
        target = slot(load.outer);
        break;
      case Load::From::nothing:
        target = Value();
        break;
    }
  }
}

void Interpreter::leave(const FrameInfo& frame) {
  runtime_.charge(frame.clears.size() / 8);
  for (const uint16_t index : frame.clears) activation_->slots[index] = Value();
}

Interpreter::Flow Interpreter::execute(const Body& body) {
  if (++depth_ > kMaxEvaluationDepth) raise("the evaluation is nested too deeply");
  Flow flow = Flow::next;
  for (const auto& stmt : body) {
    flow = execute(*stmt);
    if (flow != Flow::next) break;
  }
  --depth_;
  return flow;
}

Interpreter::Flow Interpreter::execute(const Stmt& stmt) {
  runtime_.charge(1);
  line_ = stmt.line;
  switch (stmt.kind) {
    case StmtKind::output:
      output(stmt);
      break;
    case StmtKind::for_loop:
      return for_loop(stmt);
    case StmtKind::branch:
      return branch(stmt);
    case StmtKind::assign:
      assign_statement(stmt);
      break;
    case StmtKind::assign_block:
      return assign_block(stmt);
    case StmtKind::macro:
      define_macro(stmt);
      break;
    case StmtKind::call_block:
      call_block(stmt);
      break;
    case StmtKind::filter_block:
      return filter_block(stmt);
    case StmtKind::with:
      return with(stmt);
    case StmtKind::break_loop:
      return Flow::leave_loop;
    case StmtKind::continue_loop:
      return Flow::next_turn;
    case StmtKind::refused:
      raise("a chat template reaches no other templates: ", stmt.name, " is refused");
  }
  return Flow::next;
}

void Interpreter::write(std::string_view text) {
  runtime_.charge(text.size() / 1024);
  runtime_.check_size(static_cast<Int>(out_->size() + text.size()));
  out_->append(text);
}

void Interpreter::write(const Value& value) {
  if (value.is_string()) {
    write(value.text());
  } else {
    write(str(runtime_, value));
  }
}

// Writes the result of a call or filter block, which is not converted to text.
void Interpreter::write_block(const Value& value) {
  if (!value.is_string())
    raise("sequence item: expected str instance, ", type_name(value), " found");
  write(value.text());
}

void Interpreter::output(const Stmt& stmt) {
  for (const auto& part : stmt.exprs) {
    if (part->kind == ExprKind::constant) {
      write(part->constant);
    } else {
      write(evaluate(*part));
    }
  }
}

Interpreter::Flow Interpreter::branch(const Stmt& stmt) {
  for (size_t i = 0; i < stmt.exprs.size(); ++i) {
    if (truthy(evaluate(*stmt.exprs[i]))) return execute(stmt.branches[i]);
  }
  return stmt.branches.size() > stmt.exprs.size() ? execute(stmt.branches.back()) : Flow::next;
}

// ---- assignment ----

void Interpreter::assign(const Expr& target, Value value) {
  if (target.kind == ExprKind::name) {
    slot(target.slot) = std::move(value);
    return;
  }
  if (target.kind == ExprKind::namespace_target) {
    slot(target.slot).object_as<Namespace>()->set(target.constant.text(), std::move(value));
    return;
  }
  if (!Cursor::iterable(value)) raise("cannot unpack non-iterable ", type_name(value), " object");
  const size_t wanted = target.kids.size();
  Cursor cursor(runtime_, value);
  std::vector<Value> items;
  for (Value item; cursor.next(item);) {
    if (items.size() == wanted)
      raise("too many values to unpack (expected ", std::to_string(wanted), ")");
    items.push_back(std::move(item));
  }
  if (items.size() < wanted) {
    raise("not enough values to unpack (expected ", std::to_string(wanted), ", got ",
          std::to_string(items.size()), ")");
  }
  for (size_t i = 0; i < wanted; ++i) assign(*target.kids[i], std::move(items[i]));
}

void Interpreter::check_namespaces(const Expr& target) {
  if (target.kind == ExprKind::namespace_target &&
      slot(target.slot).object_as<Namespace>() == nullptr) {
    raise("cannot assign attribute on non-namespace object");
  }
  for (const auto& kid : target.kids) check_namespaces(*kid);
}

void Interpreter::assign_statement(const Stmt& stmt) {
  check_namespaces(*stmt.target);
  assign(*stmt.target, evaluate(*stmt.exprs[0]));
}

Interpreter::Flow Interpreter::assign_block(const Stmt& stmt) {
  check_namespaces(*stmt.target);
  enter(stmt.frame);
  std::string text;
  std::string* outside = std::exchange(out_, &text);
  const Flow flow = execute(stmt.body);
  out_ = outside;
  if (flow == Flow::next) {
    Value value = Value::string(std::move(text));
    if (stmt.exprs[0]) value = apply_filter(*stmt.exprs[0], &value);
    assign(*stmt.target, std::move(value));
  }
  leave(stmt.frame);
  return flow;
}

// ---- blocks ----

Interpreter::Flow Interpreter::filter_block(const Stmt& stmt) {
  enter(stmt.frame);
  std::string text;
  std::string* outside = std::exchange(out_, &text);
  const Flow flow = execute(stmt.body);
  out_ = outside;
  if (flow == Flow::next) {
    const Value body = Value::string(std::move(text));
    write_block(apply_filter(*stmt.exprs[0], &body));
  }
  leave(stmt.frame);
  return flow;
}

Interpreter::Flow Interpreter::with(const Stmt& stmt) {
  enter(stmt.frame);
  // Each value sees the variables outside, not its neighbours: those live in other slots.
  for (size_t i = 0; i < stmt.targets.size(); ++i)
    assign(*stmt.targets[i], evaluate(*stmt.exprs[i]));
  const Flow flow = execute(stmt.body);
  leave(stmt.frame);
  return flow;
}

void Interpreter::define_macro(const Stmt& stmt) {
  slot(stmt.slot) = make_object(new Macro(*this, stmt, activation_value_));
}

void Interpreter::call_block(const Stmt& stmt) {
  const Value caller = make_object(new Macro(*this, stmt, activation_value_));
  if (stmt.generation) {
    write(call_value(runtime_, caller, {}));
  } else {
    write_block(call(*stmt.exprs[0], &caller));
  }
}

}  // namespace plimsoll::text::jinja
