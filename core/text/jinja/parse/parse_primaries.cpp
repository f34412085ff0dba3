// Expressions without operators: literals, names, calls, subscripts, filters, tests.
#include <algorithm>

#include "text/jinja/parse/parser.h"

namespace plimsoll::text::jinja {
namespace {

constexpr size_t kMaxKeywords = 1000;

}  // namespace

template <typename ParseItem>
ExprPtr Parser::parse_tuple_of(ParseItem parse_item, Ends ends, bool parentheses) {
  const Deeper guard(*this);
  const int line = current().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) expect(Token::comma, ",");
    if (at_tuple_end(ends)) break;
    items.push_back(parse_item());
    if (!at(Token::comma)) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (!is_tuple && !parentheses) fail("Expected an expression, got '" + describe(current()) + "'");
  return make(ExprKind::tuple, line, std::move(items));
}

ExprPtr Parser::parse_target(Ends ends, Target kind) {
  ExprPtr target = parse_tuple_of([&] { return parse_primary(kind); }, ends, false);
  const auto check = [](const Expr& node, const auto& self) -> void {
    if (node.kind == ExprKind::tuple) {
      for (const auto& kid : node.kids) self(*kid, self);
    } else if (node.kind != ExprKind::name && node.kind != ExprKind::namespace_target) {
      fail_syntax("can't assign to this expression", node.line);
    }
  };
  check(*target, check);
  return target;
}

std::string Parser::parse_target_name() {
  const Lexeme& name = expect(Token::name, "name");
  for (const std::string_view word : {"true", "false", "none", "True", "False", "None"}) {
    if (name.text == word) fail_syntax("can't assign to '" + name.text + "'", name.line);
  }
  return name.text;
}

ExprPtr Parser::parse_primary(Target kind) {
  const int line = current().line;
  switch (current().type) {
    case Token::name:
      return parse_name(kind);
    case Token::string: {
      std::string text;
      while (at(Token::string)) text += advance().text;
      return constant(Value::string(std::move(text)), line);
    }
    case Token::integer:
    case Token::floating:
      return parse_number();
    case Token::left_paren: {
      advance();
      ExprPtr node = parse_tuple_of([&] { return parse_expression(); }, {}, true);
      expect(Token::right_paren, ")");
      return node;
    }
    case Token::left_bracket:
      return parse_list();
    case Token::left_brace:
      return parse_dict();
    default:
      fail("unexpected '" + describe(current()) + "'");
  }
}

ExprPtr Parser::parse_name(Target kind) {
  const Lexeme& token = advance();
  if (token.text == "true" || token.text == "True")
    return constant(Value::boolean(true), token.line);
  if (token.text == "false" || token.text == "False")
    return constant(Value::boolean(false), token.line);
  if (token.text == "none" || token.text == "None") return constant(Value::none(), token.line);
  ExprPtr node = make(ExprKind::name, token.line);
  node->name = token.text;
  if (kind == Target::may_be_namespace && skip(Token::dot)) {
    node->kind = ExprKind::namespace_target;
    node->constant = Value::string(expect(Token::name, "name").text);
  } else {
    node->constant = undefined_name(token.text);
  }
  node->constant.make_immortal();
  return node;
}

ExprPtr Parser::parse_number() {
  const Lexeme& token = advance();
  if (token.type == Token::floating) {
    return constant(Value::number(parse_float(token.text).value_or(0)), token.line);
  }
  try {
    return constant(Value::integer(parse_int(token.text, 0).value_or(0)), token.line);
  } catch (const Failure& failure) {
    fail_syntax(failure.what(), token.line);
  }
}

ExprPtr Parser::parse_list() {
  const int line = expect(Token::left_bracket, "[").line;
  std::vector<ExprPtr> items;
  while (!at(Token::right_bracket)) {
    if (!items.empty()) expect(Token::comma, ",");
    if (at(Token::right_bracket)) break;
    items.push_back(parse_expression());
  }
  expect(Token::right_bracket, "]");
  return make(ExprKind::list, line, std::move(items));
}

ExprPtr Parser::parse_dict() {
  const int line = expect(Token::left_brace, "{").line;
  std::vector<ExprPtr> items;  // key, value, key, value, ...
  while (!at(Token::right_brace)) {
    if (!items.empty()) expect(Token::comma, ",");
    if (at(Token::right_brace)) break;
    items.push_back(parse_expression());
    expect(Token::colon, ":");
    items.push_back(parse_expression());
  }
  expect(Token::right_brace, "}");
  return make(ExprKind::dict, line, std::move(items));
}

bool Parser::at_tuple_end(Ends ends) const {
  return at(Token::variable_end) || at(Token::block_end) || at(Token::right_paren) ||
         at_any_name(ends);
}

ExprPtr Parser::parse_tuple() {
  return parse_tuple_of([&] { return parse_expression(); }, {}, false);
}
ExprPtr Parser::parse_tuple_no_if(Ends ends) {
  return parse_tuple_of([&] { return parse_or(); }, ends, false);
}

ExprPtr Parser::parse_postfix(ExprPtr node) {
  while (true) {
    if (at(Token::dot) || at(Token::left_bracket)) {
      node = parse_subscript(std::move(node));
    } else if (at(Token::left_paren)) {
      node = parse_call_on(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::parse_filters_and_tests(ExprPtr node) {
  while (true) {
    if (skip(Token::pipe)) {
      node = parse_filter(std::move(node));
    } else if (skip_name("is")) {
      node = parse_test(std::move(node));
    } else if (at(Token::left_paren)) {
      node = parse_call_on(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::parse_subscript(ExprPtr node) {
  const Lexeme& token = advance();
  if (token.type == Token::dot) {
    const Lexeme& attribute = advance();
    if (attribute.type == Token::name) {
      ExprPtr access = make(ExprKind::attribute, token.line, kids_of(std::move(node)));
      access->name = attribute.text;
      access->constant = Value::string(attribute.text);
      access->constant.make_immortal();
      return access;
    }
    if (attribute.type != Token::integer) fail_syntax("expected name or number", attribute.line);
    --at_;
    return make(ExprKind::item, token.line, kids_of(std::move(node), parse_number()));
  }
  std::vector<ExprPtr> keys;
  while (!at(Token::right_bracket)) {
    if (!keys.empty()) expect(Token::comma, ",");
    keys.push_back(parse_subscribed());
  }
  expect(Token::right_bracket, "]");
  if (keys.size() != 1) {
    for (const auto& key : keys) {
      if (key->kind == ExprKind::slice && key->kids.size() == 3)
        fail("a slice cannot be part of a tuple");
    }
    return make(ExprKind::item, token.line,
                kids_of(std::move(node), make(ExprKind::tuple, token.line, std::move(keys))));
  }
  if (keys[0]->kind != ExprKind::slice || keys[0]->kids.size() != 3) {
    return make(ExprKind::item, token.line, kids_of(std::move(node), std::move(keys[0])));
  }
  ExprPtr access = std::move(keys[0]);
  access->kids.insert(access->kids.begin(), std::move(node));
  measure(*access);
  return access;
}

ExprPtr Parser::parse_subscribed() {
  const int line = current().line;
  ExprPtr parts[3];
  if (!at(Token::colon)) {
    parts[0] = parse_expression();
    if (!at(Token::colon)) return std::move(parts[0]);
  }
  for (int i = 1; i < 3 && skip(Token::colon); ++i) {
    if (!at(Token::colon) && !at(Token::right_bracket) && !at(Token::comma))
      parts[i] = parse_expression();
  }
  return make(ExprKind::slice, line,
              kids_of(std::move(parts[0]), std::move(parts[1]), std::move(parts[2])));
}

void Parser::parse_call_args(CallArgs& args) {
  const int line = expect(Token::left_paren, "(").line;
  const auto ensure = [line](bool fine) {
    if (!fine) fail_syntax("invalid syntax for function call expression", line);
  };
  bool first = true;
  while (!at(Token::right_paren)) {
    if (!first) {
      expect(Token::comma, ",");
      if (at(Token::right_paren)) break;
    }
    first = false;
    if (skip(Token::mul)) {
      ensure(!args.star && !args.double_star);
      args.star = parse_expression();
    } else if (skip(Token::pow)) {
      ensure(!args.double_star);
      args.double_star = parse_expression();
    } else if (at(Token::name) && look().type == Token::assign) {
      ensure(!args.double_star);
      const Lexeme& key = advance();
      advance();
      if (args.keywords.size() >= kMaxKeywords) fail("too many keyword arguments");
      for (const auto& [name, value] : args.keywords) {
        if (name == key.text) fail_syntax("keyword argument repeated: " + name, key.line);
      }
      args.keywords.emplace_back(key.text, parse_expression());
    } else {
      ensure(!args.star && !args.double_star && args.keywords.empty());
      args.positional.push_back(parse_expression());
    }
  }
  expect(Token::right_paren, ")");
}

ExprPtr Parser::parse_call_on(ExprPtr node) {
  ExprPtr call = make(ExprKind::call, current().line, kids_of(std::move(node)));
  parse_call_args(call->args);
  measure(*call);
  return call;
}

std::string Parser::parse_dotted_name() {
  std::string name = expect(Token::name, "name").text;
  while (skip(Token::dot)) name += "." + expect(Token::name, "name").text;
  return name;
}

ExprPtr Parser::parse_filter(ExprPtr node) {
  ExprPtr filter = make(ExprKind::filter, current().line, kids_of(std::move(node)));
  filter->name = parse_dotted_name();
  if (at(Token::left_paren)) parse_call_args(filter->args);
  measure(*filter);
  return filter;
}

ExprPtr Parser::parse_test(ExprPtr node) {
  const int line = current().line;
  const bool negated = skip_name("not");
  ExprPtr test = make(ExprKind::test, line, kids_of(std::move(node)));
  test->name = parse_dotted_name();
  const bool starts_argument = at(Token::name) || at(Token::string) || at(Token::integer) ||
                               at(Token::floating) || at(Token::left_bracket) ||
                               at(Token::left_brace);
  if (at(Token::left_paren)) {
    parse_call_args(test->args);
  } else if (starts_argument && !at_any_name({"else", "or", "and"})) {
    if (at_name("is")) fail("You cannot chain multiple tests with is");
    const Deeper guard(*this);
    test->args.positional.push_back(parse_postfix(parse_primary()));
  }
  measure(*test);
  return negated ? make(ExprKind::logical_not, line, kids_of(std::move(test))) : std::move(test);
}

}  // namespace plimsoll::text::jinja
