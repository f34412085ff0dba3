// Expressions.
#include <algorithm>

#include "text/jinja/filters/filters.h"
#include "text/jinja/run/interpreter.h"

namespace plimsoll::text::jinja {
Value& Interpreter::slot(Slot slot) {
  Activation* activation = activation_;
  for (uint16_t i = 0; i < slot.hops; ++i) activation = activation->parent;
  return activation->slots[slot.index];
}

Value Interpreter::evaluate(const Expr& expr) {
  if (expr.kind == ExprKind::constant) return expr.constant;
  runtime_.charge(1);
  line_ = expr.line;
  if (expr.kind == ExprKind::name) return name(expr);
  if (++depth_ > kMaxEvaluationDepth) raise("the evaluation is nested too deeply");
  Value result = evaluate_inner(expr);
  --depth_;
  return result;
}

Value Interpreter::evaluate_inner(const Expr& expr) {
  const auto kid = [&](size_t i) { return evaluate(*expr.kids[i]); };
  switch (expr.kind) {
    case ExprKind::tuple:
      return Value::tuple(evaluate_all(expr.kids));
    case ExprKind::list:
      return Value::list(evaluate_all(expr.kids));
    case ExprKind::dict:
      return dict(expr);
    case ExprKind::attribute:
      return get_attribute(runtime_, kid(0), expr.name);
    case ExprKind::item: {
      const Value object = kid(0);
      return get_item(runtime_, object, kid(1));
    }
    case ExprKind::slice:
      return slice_of(expr);
    case ExprKind::call:
      return call(expr);
    case ExprKind::filter:
      return apply_filter(expr);
    case ExprKind::test:
      return apply_test(expr);
    case ExprKind::unary:
      return unary(runtime_, expr.op, kid(0));
    case ExprKind::binary: {
      const Value left = kid(0);
      return binary(runtime_, expr.op, left, kid(1));
    }
    case ExprKind::logical_and: {
      Value left = kid(0);
      return truthy(left) ? kid(1) : left;
    }
    case ExprKind::logical_or: {
      Value left = kid(0);
      return truthy(left) ? left : kid(1);
    }
    case ExprKind::logical_not:
      return Value::boolean(!truthy(kid(0)));
    case ExprKind::concat:
      return concat(expr);
    case ExprKind::compare:
      return compare_chain(expr);
    case ExprKind::conditional:
      if (truthy(kid(0))) return kid(1);
      if (expr.kids[2]) return kid(2);
      return undefined_hint("the inline if-expression on line " + std::to_string(expr.line) +
                            " evaluated to false and no else section was defined.");
    default:
      return name(expr);
  }
}

Value Interpreter::name(const Expr& expr) {
  const Value& value = slot(expr.slot);
  return value.is(Kind::missing) ? expr.constant : value;
}

std::vector<Value> Interpreter::evaluate_all(const std::vector<ExprPtr>& exprs) {
  std::vector<Value> values;
  values.reserve(exprs.size());
  for (const auto& expr : exprs) values.push_back(evaluate(*expr));
  return values;
}

Value Interpreter::dict(const Expr& expr) {
  auto [value, dict] = new_dict();
  for (size_t i = 0; i + 1 < expr.kids.size(); i += 2) {
    Value key = evaluate(*expr.kids[i]);
    dict->set(runtime_, std::move(key), evaluate(*expr.kids[i + 1]));
  }
  return value;
}

Value Interpreter::concat(const Expr& expr) {
  std::string text;
  for (const auto& kid : expr.kids) {
    const Value value = evaluate(*kid);
    if (value.is_string()) {
      runtime_.charge_copy(text.size() + value.text().size());
      text += value.text();
    } else {
      text += str(runtime_, value);
      runtime_.charge_copy(text.size());
    }
  }
  return Value::string(std::move(text));
}

Value Interpreter::compare_chain(const Expr& expr) {
  Value left = evaluate(*expr.kids[0]);
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    Value right = evaluate(*expr.kids[i + 1]);
    if (!compare(runtime_, expr.ops[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::slice_of(const Expr& expr) {
  const auto part = [&](size_t i) {
    return expr.kids[i] ? evaluate(*expr.kids[i]) : Value::none();
  };
  const Value object = part(0);
  const Value start = part(1);
  const Value stop = part(2);
  return slice(runtime_, object, start, stop, part(3));
}

Args Interpreter::arguments(const CallArgs& args) {
  Args result;
  result.positional = evaluate_all(args.positional);
  for (const auto& [name, value] : args.keywords)
    result.keywords.emplace_back(name, evaluate(*value));
  if (args.star) {
    std::vector<Value> rest = to_list(runtime_, evaluate(*args.star));
    std::ranges::move(rest, std::back_inserter(result.positional));
  }
  if (args.double_star) spread_keywords(*args.double_star, result);
  return result;
}

void Interpreter::spread_keywords(const Expr& expr, Args& args) {
  const Value mapping = evaluate(expr);
  if (!mapping.is(Kind::dict))
    raise("argument after ** must be a mapping, not ", type_name(mapping));
  for (const auto& [key, value] : mapping.as_dict().entries()) {
    runtime_.charge(args.keywords.size() / 8 + 1);
    if (!key.is_string()) raise("keywords must be strings");
    const auto same = [&key = key](const auto& keyword) { return keyword.first == key.text(); };
    if (std::ranges::any_of(args.keywords, same)) {
      raise("got multiple values for keyword argument '", key.text(), "'");
    }
    args.keywords.emplace_back(key.text(), value);
  }
}

Value Interpreter::call(const Expr& expr, const Value* caller) {
  const Expr& callee = *expr.kids[0];
  const auto evaluated_arguments = [&] {
    Args args = arguments(expr.args);
    if (caller != nullptr) args.keywords.emplace_back("caller", *caller);
    line_ = expr.line;
    return args;
  };
  if (callee.kind == ExprKind::attribute) {  // a method without making it an object first
    runtime_.charge(1);
    const Value object = evaluate(*callee.kids[0]);
    if (const Method method = find_method(object, callee.name)) {
      return method(runtime_, object, evaluated_arguments());
    }
    const Value function = get_attribute(runtime_, object, callee.name);
    return call_value(runtime_, function, evaluated_arguments());
  }
  const Value function = evaluate(callee);
  return call_value(runtime_, function, evaluated_arguments());
}

Value Interpreter::apply_filter(const Expr& expr, const Value* body) {
  if (expr.filter == nullptr) raise("No filter named '", expr.name, "' found.");
  const Expr* kid = expr.kids[0].get();
  Value subject;
  if (kid == nullptr) {
    subject = *body;
  } else if (body != nullptr && kid->kind == ExprKind::filter) {
    subject = apply_filter(*kid, body);
  } else {
    subject = evaluate(*kid);
  }
  const Args args = arguments(expr.args);
  line_ = expr.line;
  return expr.filter->apply(runtime_, subject, args);
}

Value Interpreter::apply_test(const Expr& expr) {
  if (expr.test == nullptr) raise("No test named '", expr.name, "' found.");
  const Value subject = evaluate(*expr.kids[0]);
  const Args args = arguments(expr.args);
  line_ = expr.line;
  return Value::boolean(expr.test->holds(runtime_, subject, args));
}

}  // namespace plimsoll::text::jinja
