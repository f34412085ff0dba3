// The statement half of the parser.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/parse/parser.h"

namespace plimsoll::text::jinja {
namespace {

constexpr size_t kMaxParameters = 1000;
constexpr int kMaxDepth = 100;  // nested blocks and brackets; jinja2 gives up at about as many

}  // namespace

Parser::Deeper::Deeper(Parser& parser) : parser_(parser) {
  if (++parser.depth_ > kMaxDepth) {
    --parser.depth_;
    parser.fail("the template is nested too deeply");
  }
}

bool Parser::at_any_name(Ends names) const {
  return at(Token::name) &&
         std::ranges::find(names, std::string_view(current().text)) != names.end();
}

const Lexeme& Parser::advance() {
  const Lexeme& before = current();
  if (at_ + 1 < lexemes_.size()) ++at_;
  return before;
}

bool Parser::skip(Token type) {
  if (!at(type)) return false;
  advance();
  return true;
}

bool Parser::skip_name(std::string_view name) {
  if (!at_name(name)) return false;
  advance();
  return true;
}

const Lexeme& Parser::expect(Token type, std::string_view what) {
  if (at(type)) return advance();
  if (at(Token::end)) fail(fmt::format("unexpected end of template, expected '{}'.", what));
  fail(fmt::format("expected token '{}', got '{}'", what, describe(current())));
}

void Parser::expect_name(std::string_view name) {
  if (!skip_name(name))
    fail(fmt::format("expected token '{}', got '{}'", name, describe(current())));
}

Body Parser::parse_template() {
  return parse_body({});
}

// Up to one of the tags `ends`, which becomes the current token.
Body Parser::parse_body(Ends ends) {
  const Deeper guard(*this);
  Body body;
  StmtPtr output;
  const auto add_output = [&](ExprPtr part) {
    if (!output) output = std::make_unique<Stmt>(StmtKind::output, part->line);
    output->exprs.push_back(std::move(part));
  };
  const auto flush = [&] {
    if (output) body.push_back(std::move(output));
  };
  while (!at(Token::end)) {
    if (at(Token::data)) {
      const Lexeme& data = advance();
      add_output(constant(Value::string(data.text), data.line));
    } else if (skip(Token::variable_begin)) {
      add_output(parse_tuple());
      expect(Token::variable_end, "end of print statement");
    } else {
      flush();
      expect(Token::block_begin, "begin of statement block");
      if (at_any_name(ends)) return body;
      body.push_back(parse_statement());
      expect(Token::block_end, "end of statement block");
    }
  }
  flush();
  if (ends.size() > 0) {
    fail(fmt::format(
        "Unexpected end of template. The innermost block that needs to be closed is '{}'.",
        open_tags_.empty() ? "?" : open_tags_.back()));
  }
  return body;
}

Body Parser::parse_block_body(Ends ends) {
  skip(Token::colon);
  expect(Token::block_end, "end of statement block");
  return parse_body(ends);
}

Body Parser::parse_to(std::string_view end) {
  Body body = parse_block_body({end});
  advance();
  return body;
}

StmtPtr Parser::parse_statement() {
  if (!at(Token::name)) fail("tag name expected");
  open_tags_.push_back(current().text);
  StmtPtr statement = parse_known(open_tags_.back());
  open_tags_.pop_back();
  return statement;
}

StmtPtr Parser::parse_known(const std::string& tag) {
  struct Tag {
    std::string_view name;
    StmtPtr (Parser::*parse)();
  };
  static constexpr Tag kTags[] = {
      {"for", &Parser::parse_for},
      {"if", &Parser::parse_if},
      {"set", &Parser::parse_set},
      {"macro", &Parser::parse_macro},
      {"call", &Parser::parse_call},
      {"generation", &Parser::parse_generation},
      {"filter", &Parser::parse_filter_block},
      {"with", &Parser::parse_with},
      {"break", &Parser::parse_loop_control},
      {"continue", &Parser::parse_loop_control},
      {"include", &Parser::parse_refused},
      {"import", &Parser::parse_refused},
      {"from", &Parser::parse_refused},
      {"extends", &Parser::parse_refused},
  };
  for (const Tag& known : kTags) {
    if (known.name == tag) return (this->*known.parse)();
  }
  fail_tag(tag);
}

void Parser::fail_tag(const std::string& tag) const {
  std::string message = fmt::format("Encountered unknown tag '{}'.", tag);
  if (open_tags_.size() > 1) {
    message += fmt::format(" The innermost block that needs to be closed is '{}'.",
                           open_tags_[open_tags_.size() - 2]);
  }
  fail(message);
}

StmtPtr Parser::parse_for() {
  auto loop = std::make_unique<Stmt>(StmtKind::for_loop, advance().line);
  const size_t target_at = at_;
  loop->target = parse_target({"in"}, Target::plain);
  expect_name("in");
  loop->exprs.push_back(parse_tuple_no_if({"recursive"}));
  loop->exprs.push_back(skip_name("if") ? parse_expression() : nullptr);
  if (loop->exprs[1]) {  // the filter has the target in variables of its own
    const size_t resume = at_;
    at_ = target_at;
    loop->test_target = parse_target({"in"}, Target::plain);
    at_ = resume;
  }
  loop->recursive = skip_name("recursive");
  const int outside = loops_;
  loops_ = loop->recursive ? 1 : loops_ + 1;
  loop->body = parse_block_body({"endfor", "else"});
  loops_ = loop->recursive ? 0 : outside;
  if (advance().text == "else") loop->otherwise = parse_to("endfor");
  loops_ = outside;
  return loop;
}

StmtPtr Parser::parse_if() {
  auto branch = std::make_unique<Stmt>(StmtKind::branch, advance().line);
  while (true) {
    branch->exprs.push_back(parse_tuple_no_if());
    branch->branches.push_back(parse_block_body({"elif", "else", "endif"}));
    const std::string& end = advance().text;
    if (end == "elif") continue;
    if (end == "else") branch->branches.push_back(parse_to("endif"));
    return branch;
  }
}

StmtPtr Parser::parse_set() {
  auto set = std::make_unique<Stmt>(StmtKind::assign, advance().line);
  set->target = parse_target({}, Target::may_be_namespace);
  if (skip(Token::assign)) {
    set->exprs.push_back(parse_tuple());
    return set;
  }
  set->kind = StmtKind::assign_block;
  ExprPtr filter;
  while (skip(Token::pipe)) filter = parse_filter(std::move(filter));
  set->exprs.push_back(std::move(filter));
  set->body = parse_to("endset");
  return set;
}

void Parser::parse_signature(Signature& signature) {
  expect(Token::left_paren, "(");
  auto& parameters = signature.parameters;
  while (!at(Token::right_paren)) {
    if (!parameters.empty()) expect(Token::comma, ",");
    Parameter parameter;
    parameter.name = parse_target_name();
    if (parameters.size() >= kMaxParameters) fail("too many parameters");
    for (const auto& other : parameters) {
      if (other.name == parameter.name) fail("duplicate argument '" + parameter.name + "'");
    }
    if (skip(Token::assign)) {
      parameter.fallback = parse_expression();
    } else if (!parameters.empty() && parameters.back().fallback) {
      fail("non-default argument follows default argument");
    }
    parameters.push_back(std::move(parameter));
  }
  expect(Token::right_paren, ")");
}

Body Parser::parse_function_body(std::string_view end) {
  const int outside = loops_;
  loops_ = 0;
  Body body = parse_to(end);
  loops_ = outside;
  return body;
}

StmtPtr Parser::parse_macro() {
  auto macro = std::make_unique<Stmt>(StmtKind::macro, advance().line);
  macro->name = parse_target_name();
  parse_signature(macro->signature);
  macro->body = parse_function_body("endmacro");
  return macro;
}

StmtPtr Parser::parse_call() {
  auto call = std::make_unique<Stmt>(StmtKind::call_block, advance().line);
  if (at(Token::left_paren)) parse_signature(call->signature);
  call->exprs.push_back(parse_expression());
  if (call->exprs[0]->kind != ExprKind::call) fail_syntax("expected call", call->line);
  call->body = parse_function_body("endcall");
  return call;
}

StmtPtr Parser::parse_generation() {
  auto call = std::make_unique<Stmt>(StmtKind::call_block, advance().line);
  call->generation = true;
  call->exprs.push_back(nullptr);
  call->body = parse_function_body("endgeneration");
  return call;
}

StmtPtr Parser::parse_filter_block() {
  auto block = std::make_unique<Stmt>(StmtKind::filter_block, advance().line);
  ExprPtr filter = parse_filter(nullptr);
  while (skip(Token::pipe)) filter = parse_filter(std::move(filter));
  block->exprs.push_back(std::move(filter));
  block->body = parse_to("endfilter");
  return block;
}

StmtPtr Parser::parse_with() {
  auto with = std::make_unique<Stmt>(StmtKind::with, advance().line);
  while (!at(Token::block_end)) {
    if (!with->targets.empty()) expect(Token::comma, ",");
    with->targets.push_back(parse_target({}, Target::plain));
    expect(Token::assign, "=");
    with->exprs.push_back(parse_expression());
  }
  with->body = parse_to("endwith");
  return with;
}

StmtPtr Parser::parse_loop_control() {
  const Lexeme& word = advance();
  if (loops_ == 0) fail_syntax("'" + word.text + "' outside loop", word.line);
  return std::make_unique<Stmt>(
      word.text == "break" ? StmtKind::break_loop : StmtKind::continue_loop, word.line);
}

// Templates reach no other templates. As in jinja2 without a loader, that is an error only where it
// is executed.
StmtPtr Parser::parse_refused() {
  const Lexeme& tag = advance();
  auto refused = std::make_unique<Stmt>(StmtKind::refused, tag.line);
  refused->name = tag.text;
  parse_expression();
  while (!at(Token::block_end) && !at(Token::end)) advance();
  return refused;
}

Program parse_program(std::string_view source) {
  Program program;
  program.body = Parser(tokenize(source)).parse_template();
  resolve_scopes(program);
  return program;
}

}  // namespace plimsoll::text::jinja
