// Parser from tokens to a Program, as jinja2's with transformers' extensions.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/parse/ast.h"
#include "text/jinja/parse/lexer.h"

namespace plimsoll::text::jinja {

/// Parses a template. Throws TemplateError naming the line.
Program parse_program(std::string_view source);

class Parser {
 public:
  explicit Parser(std::vector<Lexeme> lexemes) : lexemes_(std::move(lexemes)) {}
  Body parse_template();

 private:
  using Ends = std::initializer_list<std::string_view>;

  // Tokens.
  [[nodiscard]] const Lexeme& current() const { return lexemes_[at_]; }
  [[nodiscard]] const Lexeme& look() const {
    return lexemes_[std::min(at_ + 1, lexemes_.size() - 1)];
  }
  [[nodiscard]] bool at(Token type) const { return current().type == type; }
  [[nodiscard]] bool at_name(std::string_view name) const {
    return at(Token::name) && current().text == name;
  }
  [[nodiscard]] bool at_any_name(Ends names) const;
  const Lexeme& advance();
  bool skip(Token type);
  bool skip_name(std::string_view name);
  const Lexeme& expect(Token type, std::string_view what);
  void expect_name(std::string_view name);
  [[noreturn]] void fail(const std::string& message) const { fail_syntax(message, current().line); }

  // Statements.
  Body parse_body(Ends ends);
  Body parse_block_body(Ends ends);
  Body parse_to(std::string_view end);
  StmtPtr parse_statement();
  StmtPtr parse_known(const std::string& tag);
  StmtPtr parse_for();
  StmtPtr parse_if();
  StmtPtr parse_set();
  StmtPtr parse_macro();
  StmtPtr parse_call();
  StmtPtr parse_generation();
  StmtPtr parse_filter_block();
  StmtPtr parse_with();
  StmtPtr parse_loop_control();
  StmtPtr parse_refused();
  void parse_signature(Signature& signature);
  Body parse_function_body(std::string_view end);
  [[noreturn]] void fail_tag(const std::string& tag) const;

  // Expressions.
  enum class Target : uint8_t { plain, may_be_namespace };
  ExprPtr parse_target(Ends ends, Target kind);
  std::string parse_target_name();
  ExprPtr parse_expression();  // with `if`
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary();
  ExprPtr parse_signed();
  ExprPtr parse_primary(Target kind = Target::plain);
  ExprPtr parse_name(Target kind);
  ExprPtr parse_number();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  template <typename ParseItem>
  ExprPtr parse_tuple_of(ParseItem parse_item, Ends ends, bool parentheses);
  ExprPtr parse_tuple();  // with `if`
  ExprPtr parse_tuple_no_if(Ends ends = {});
  [[nodiscard]] bool at_tuple_end(Ends ends) const;
  ExprPtr parse_postfix(ExprPtr node);
  ExprPtr parse_filters_and_tests(ExprPtr node);
  ExprPtr parse_subscript(ExprPtr node);
  ExprPtr parse_subscribed();
  void parse_call_args(CallArgs& args);
  ExprPtr parse_call_on(ExprPtr node);
  ExprPtr parse_filter(ExprPtr node);
  ExprPtr parse_test(ExprPtr node);
  std::string parse_dotted_name();
  static ExprPtr make(ExprKind kind, int line, std::vector<ExprPtr> kids = {});
  static ExprPtr constant(Value value, int line);
  static void measure(Expr& node);

  // One level of nesting in the source; the guard undoes it.
  class Deeper {
   public:
    explicit Deeper(Parser& parser);
    ~Deeper() { --parser_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Parser& parser_;
  };

  std::vector<Lexeme> lexemes_;
  size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;  // loops around the current place in this function
  std::vector<std::string> open_tags_;
};

/// A vector of move-only operands.
template <typename... Kids>
std::vector<ExprPtr> kids_of(Kids... kids) {
  std::vector<ExprPtr> all;
  (all.push_back(std::move(kids)), ...);
  return all;
}

/// Gives every variable its slot and checks names of filters and tests.
void resolve_scopes(Program& program);

}  // namespace plimsoll::text::jinja
