// A parsed template: expressions, statements, and where their variables live.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/values/operators.h"
#include "text/jinja/values/value.h"

namespace plimsoll::text::jinja {

struct Filter;
struct Test;

/// A variable: `hops` activations outwards, then slot `index`.
struct Slot {
  uint16_t hops = 0;
  uint16_t index = 0;
};

enum class ExprKind : uint8_t {
  constant,
  name,
  namespace_target,
  tuple,
  list,
  dict,
  attribute,
  item,
  slice,
  call,
  filter,
  test,
  unary,
  binary,
  logical_and,
  logical_or,
  logical_not,
  concat,
  compare,
  conditional,
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct CallArgs {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> keywords;
  ExprPtr star, double_star;
};

struct Expr {
  Expr(ExprKind which, int at_line) : kind(which), line(at_line) {}
  Expr(const Expr&) = delete;
  Expr& operator=(const Expr&) = delete;
  ~Expr() { constant.destroy_immortal(); }

  ExprKind kind;
  Op op = Op::add;
  int line;
  int height = 1;  // of the tree, bounded by the parser
  /// Immortal: the constant; the attribute; the result of an unset name or of a condition without
  /// else.
  Value constant;
  std::string name;           // variable, attribute, filter, test
  std::vector<ExprPtr> kids;  // operands; null: a missing slice part, the body of a filter block
  std::vector<Op> ops;        // compare: one for each kid but the first
  CallArgs args;
  Slot slot;
  const Filter* filter = nullptr;  // null: unknown, an error when reached
  const Test* test = nullptr;
};

struct Load {
  enum class From : uint8_t { context, outer, nothing };
  uint16_t slot;
  From from;
  Slot outer;         // From::outer
  uint16_t name = 0;  // From::context: index in Program::names
};

/// Variables that a block of statements loads on entry and clears on exit.
struct FrameInfo {
  std::vector<Load> loads;
  std::vector<uint16_t> clears;
};

enum class StmtKind : uint8_t {
  output,
  for_loop,
  branch,
  assign,
  assign_block,
  macro,
  call_block,
  filter_block,
  with,
  break_loop,
  continue_loop,
  refused,
};

struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

struct Parameter {
  std::string name;
  ExprPtr fallback;
  uint16_t slot = 0;
};

/// A macro's parameters, and whether its body uses `caller`, `kwargs` and `varargs`.
struct Signature {
  std::vector<Parameter> parameters;
  bool wants_caller = false, wants_keywords = false, wants_rest = false;
  uint16_t caller_slot = 0, keywords_slot = 0, rest_slot = 0;
  bool explicit_caller = false;
};

struct Stmt {
  Stmt(StmtKind which, int at_line) : kind(which), line(at_line) {}

  StmtKind kind;
  int line;
  std::string name;              // macro, what was refused
  ExprPtr target;                // for_loop, assign, assign_block
  ExprPtr test_target;           // for_loop: the target in the filter's own variables
  std::vector<ExprPtr> exprs;    // output: parts; for_loop: iterable, filter; branch: tests; with:
                                 // values; else the one expression
  std::vector<ExprPtr> targets;  // with
  Body body;                     // for_loop and all blocks
  Body otherwise;                // for_loop: else
  std::vector<Body> branches;    // branch: one for each test, perhaps one for else
  Signature signature;           // macro, call_block
  bool recursive = false;        // for_loop
  bool extended = false;         // for_loop: the body uses `loop`
  bool generation = false;       // call_block: transformers' generation block
  Slot slot;                     // macro: its variable; for_loop: `loop`
  FrameInfo frame, else_frame, test_frame;
  uint16_t slot_count = 0;  // of the activation that a macro or recursive loop opens
};

struct Program {
  Body body;
  FrameInfo frame;
  uint16_t slot_count = 0;
  std::vector<std::string> names;  // variables taken from the context
};

}  // namespace plimsoll::text::jinja
