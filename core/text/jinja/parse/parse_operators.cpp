// Expressions from the loosest operator to the tightest.
#include <algorithm>

#include "text/jinja/parse/parser.h"

namespace plimsoll::text::jinja {
namespace {

constexpr int kMaxHeight = 400;  // of expression trees; jinja2 itself gives up before

bool is_compare(Token type, Op& op) {
  switch (type) {
    case Token::eq:
      op = Op::equal;
      return true;
    case Token::ne:
      op = Op::not_equal;
      return true;
    case Token::lt:
      op = Op::less;
      return true;
    case Token::le:
      op = Op::less_equal;
      return true;
    case Token::gt:
      op = Op::greater;
      return true;
    case Token::ge:
      op = Op::greater_equal;
      return true;
    default:
      return false;
  }
}

}  // namespace

void Parser::measure(Expr& node) {
  const auto count = [&](const ExprPtr& kid) {
    if (kid) node.height = std::max(node.height, kid->height + 1);
  };
  for (const auto& kid : node.kids) count(kid);
  for (const auto& kid : node.args.positional) count(kid);
  for (const auto& [name, kid] : node.args.keywords) count(kid);
  count(node.args.star);
  count(node.args.double_star);
  if (node.height > kMaxHeight) fail_syntax("the expression is nested too deeply", node.line);
}

ExprPtr Parser::make(ExprKind kind, int line, std::vector<ExprPtr> kids) {
  auto node = std::make_unique<Expr>(kind, line);
  node->kids = std::move(kids);
  measure(*node);
  return node;
}

ExprPtr Parser::constant(Value value, int line) {
  auto node = std::make_unique<Expr>(ExprKind::constant, line);
  value.make_immortal();
  node->constant = std::move(value);
  return node;
}

ExprPtr Parser::parse_expression() {
  const Deeper guard(*this);
  int line = current().line;
  ExprPtr value = parse_or();
  while (skip_name("if")) {
    ExprPtr test = parse_or();
    ExprPtr otherwise = skip_name("else") ? parse_expression() : nullptr;
    value = make(ExprKind::conditional, line,
                 kids_of(std::move(test), std::move(value), std::move(otherwise)));
    line = current().line;
  }
  return value;
}

ExprPtr Parser::parse_or() {
  const int line = current().line;
  ExprPtr left = parse_and();
  while (skip_name("or"))
    left = make(ExprKind::logical_or, line, kids_of(std::move(left), parse_and()));
  return left;
}

ExprPtr Parser::parse_and() {
  const int line = current().line;
  ExprPtr left = parse_not();
  while (skip_name("and"))
    left = make(ExprKind::logical_and, line, kids_of(std::move(left), parse_not()));
  return left;
}

ExprPtr Parser::parse_not() {
  if (!at_name("not")) return parse_compare();
  const Deeper guard(*this);
  const int line = advance().line;
  return make(ExprKind::logical_not, line, kids_of(parse_not()));
}

ExprPtr Parser::parse_compare() {
  const int line = current().line;
  std::vector<ExprPtr> operands = kids_of(parse_sum());
  std::vector<Op> ops;
  while (true) {
    Op op{};
    if (is_compare(current().type, op)) {
      advance();
    } else if (skip_name("in")) {
      op = Op::in;
    } else if (at_name("not") && look().type == Token::name && look().text == "in") {
      advance();
      advance();
      op = Op::not_in;
    } else {
      break;
    }
    ops.push_back(op);
    operands.push_back(parse_sum());
  }
  if (ops.empty()) return std::move(operands[0]);
  ExprPtr node = make(ExprKind::compare, line, std::move(operands));
  node->ops = std::move(ops);
  return node;
}

ExprPtr Parser::parse_sum() {
  ExprPtr left = parse_concat();
  while (at(Token::add) || at(Token::sub)) {
    const Lexeme& sign = advance();
    left = make(ExprKind::binary, sign.line, kids_of(std::move(left), parse_concat()));
    left->op = sign.type == Token::add ? Op::add : Op::subtract;
  }
  return left;
}

ExprPtr Parser::parse_concat() {
  const int line = current().line;
  std::vector<ExprPtr> parts = kids_of(parse_product());
  while (skip(Token::tilde)) parts.push_back(parse_product());
  if (parts.size() == 1) return std::move(parts[0]);
  return make(ExprKind::concat, line, std::move(parts));
}

ExprPtr Parser::parse_product() {
  ExprPtr left = parse_power();
  while (at(Token::mul) || at(Token::div) || at(Token::floor_div) || at(Token::mod)) {
    const Lexeme& sign = advance();
    left = make(ExprKind::binary, sign.line, kids_of(std::move(left), parse_power()));
    left->op = sign.type == Token::mul         ? Op::multiply
               : sign.type == Token::div       ? Op::divide
               : sign.type == Token::floor_div ? Op::floor_divide
                                               : Op::modulo;
  }
  return left;
}

// Groups to the left, unlike Python's own.
ExprPtr Parser::parse_power() {
  ExprPtr left = parse_unary();
  while (at(Token::pow)) {
    const int line = advance().line;
    left = make(ExprKind::binary, line, kids_of(std::move(left), parse_unary()));
    left->op = Op::power;
  }
  return left;
}

ExprPtr Parser::parse_unary() {
  return parse_filters_and_tests(parse_signed());
}

ExprPtr Parser::parse_signed() {
  ExprPtr node;
  if (at(Token::sub) || at(Token::add)) {
    const Deeper guard(*this);
    const Lexeme& sign = advance();
    node = make(ExprKind::unary, sign.line, kids_of(parse_signed()));
    node->op = sign.type == Token::sub ? Op::negate : Op::plus;
  } else {
    node = parse_primary();
  }
  return parse_postfix(std::move(node));
}

}  // namespace plimsoll::text::jinja
