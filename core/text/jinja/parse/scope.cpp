// Gives variables their slots. The rules (which `set` is seen where) are those of jinja2's
// idtracking: a frame per block, names loaded or stored in it in source order, branches merged
// afterwards.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "text/jinja/filters/filters.h"
#include "text/jinja/parse/parser.h"
#include "text/jinja/parse/symbols.h"

namespace plimsoll::text::jinja {
namespace {

class Resolver {
 public:
  explicit Resolver(Program& program) : program_(program) {}

  void run() {
    Plan root;
    Symbols symbols(nullptr, &root, 0);
    Collector(symbols).body(program_.body);
    body(program_.body, symbols);
    program_.frame = frame_info(symbols);
    program_.slot_count = count(root);
  }

 private:
  [[noreturn]] static void throw_at(int line, const std::string& message) {
    fail_syntax(message, line);
  }
  static uint16_t count(const Plan& plan) { return static_cast<uint16_t>(plan.slots.size()); }

  uint16_t name_index(const std::string& name) {
    const auto [at, fresh] = names_.try_emplace(name, static_cast<uint16_t>(program_.names.size()));
    if (fresh) {
      if (program_.names.size() >= UINT16_MAX) throw_at(1, "the template has too many variables");
      program_.names.push_back(name);
    }
    return at->second;
  }

  static Slot slot_from(const Symbols& symbols, Ref ref) {
    Slot slot{0, ref.slot};
    for (const Plan* plan = symbols.plan; plan != ref.plan; plan = plan->parent) ++slot.hops;
    return slot;
  }

  FrameInfo frame_info(const Symbols& symbols) {
    FrameInfo info;
    for (const Loading& loading : symbols.loads) {
      info.clears.push_back(loading.target.slot);
      Load load{loading.target.slot, Load::From::nothing, {}, 0};
      if (loading.kind == LoadKind::parameter) continue;
      if (loading.kind == LoadKind::resolve) {
        load.from = Load::From::context;
        load.name = name_index(loading.name);
      } else if (loading.kind == LoadKind::alias) {
        load.from = Load::From::outer;
        load.outer = slot_from(symbols, loading.outer);
      }
      info.loads.push_back(load);
    }
    return info;
  }

  // Filters and tests must exist unless a condition decides whether they are reached, as in jinja2.
  void expression(Expr& expr, const Symbols& symbols, bool soft) {
    switch (expr.kind) {
      case ExprKind::name:
      case ExprKind::namespace_target:
        expr.slot = slot_from(symbols, *symbols.find(expr.name));
        break;
      case ExprKind::filter:
        expr.filter = find_filter(expr.name);
        if (expr.filter == nullptr && !soft)
          throw_at(expr.line, fmt::format("No filter named '{}'.", expr.name));
        break;
      case ExprKind::test:
        expr.test = find_test(expr.name);
        if (expr.test == nullptr && !soft)
          throw_at(expr.line, fmt::format("No test named '{}'.", expr.name));
        break;
      case ExprKind::conditional:
        soft = true;
        break;
      default:
        break;
    }
    each_kid(expr, [&](const Expr& kid) { expression(const_cast<Expr&>(kid), symbols, soft); });
  }
  void expression(const ExprPtr& expr, const Symbols& symbols, bool soft) {
    if (expr) expression(*expr, symbols, soft);
  }

  void body(Body& statements, Symbols& symbols, bool soft = false) {
    for (auto& stmt : statements) statement(*stmt, symbols, soft);
  }

  // A frame inside the same activation.
  template <typename Collect>
  Symbols inner(Symbols& symbols, Collect collect) {
    Symbols frame(&symbols, symbols.plan, symbols.level + 1);
    Collector collector(frame);
    collect(collector, frame);
    return frame;
  }

  void statement(Stmt& stmt, Symbols& symbols, bool soft) {
    switch (stmt.kind) {
      case StmtKind::branch:
        for (auto& test : stmt.exprs) expression(test, symbols, true);
        for (auto& branch : stmt.branches) body(branch, symbols, true);
        return;
      case StmtKind::assign:
        expression(stmt.target, symbols, soft);
        [[fallthrough]];
      case StmtKind::output:
        for (auto& expr : stmt.exprs) expression(expr, symbols, soft);
        return;
      case StmtKind::for_loop:
        return for_loop(stmt, symbols, soft);
      case StmtKind::macro:
        stmt.slot = slot_from(symbols, *symbols.find(stmt.name));
        return function(stmt, symbols);
      case StmtKind::call_block:
        expression(stmt.exprs[0], symbols, soft);
        return function(stmt, symbols);
      case StmtKind::assign_block:
        expression(stmt.target, symbols, soft);
        return block_scope(stmt, symbols);
      case StmtKind::with:
        for (auto& value : stmt.exprs) expression(value, symbols, soft);
        return with(stmt, symbols);
      case StmtKind::filter_block:
        return block_scope(stmt, symbols);
      default:
        return;
    }
  }

  void with(Stmt& stmt, Symbols& symbols) {
    Symbols frame = inner(symbols, [&](Collector& collector, Symbols&) {
      for (auto& target : stmt.targets) collector.parameter(*target);
      collector.body(stmt.body);
    });
    for (auto& target : stmt.targets) expression(target, frame, false);
    body(stmt.body, frame);
    stmt.frame = frame_info(frame);
  }

  // set blocks, filter blocks: the expression is evaluated inside.
  void block_scope(Stmt& stmt, Symbols& symbols) {
    Symbols frame = inner(symbols, [&](Collector& collector, Symbols&) {
      collector.body(stmt.body);
      collector.load(stmt.exprs[0]);
    });
    expression(stmt.exprs[0], frame, false);
    body(stmt.body, frame);
    stmt.frame = frame_info(frame);
  }

  void for_loop(Stmt& stmt, Symbols& symbols, bool soft) {
    expression(stmt.exprs[0], symbols, soft);
    forbid_loop_target(*stmt.target);
    Plan own{symbols.plan, {}};
    Plan* plan = stmt.recursive ? &own : symbols.plan;
    stmt.extended = stmt.recursive || UnboundNames({"loop"}).in(stmt.body).contains("loop");

    Symbols loop(&symbols, plan, symbols.level + 1);
    if (stmt.extended) stmt.slot = {0, loop.parameter("loop")};
    Collector collector(loop);
    collector.parameter(*stmt.target);
    collector.body(stmt.body);
    Symbols otherwise(&symbols, plan, symbols.level + 1);
    Collector(otherwise).body(stmt.otherwise);
    // The filter runs between two turns of the body and needs its own variables.
    constexpr int kApart = 1 << 20;
    Symbols test(&symbols, plan, symbols.level + 1 + kApart);
    if (stmt.exprs[1]) {
      Collector test_collector(test);
      test_collector.parameter(*stmt.test_target);
      test_collector.load(stmt.exprs[1]);
      expression(stmt.test_target, test, false);
      expression(stmt.exprs[1], test, false);
    }
    expression(stmt.target, loop, false);
    body(stmt.body, loop);
    body(stmt.otherwise, otherwise);
    stmt.frame = frame_info(loop);
    stmt.else_frame = frame_info(otherwise);
    stmt.test_frame = frame_info(test);
    stmt.slot_count = stmt.recursive ? count(own) : 0;
  }

  static void forbid_loop_target(const Expr& target) {
    if (target.kind == ExprKind::name && target.name == "loop") {
      throw_at(target.line, "Can't assign to special loop variable in for-loop target");
    }
    each_kid(target, forbid_loop_target);
  }

  // The body of a macro or call block.
  void function(Stmt& stmt, Symbols& symbols) {
    Plan own{symbols.plan, {}};
    Symbols frame(&symbols, &own, symbols.level + 1);
    Signature& signature = stmt.signature;
    for (auto& parameter : signature.parameters) {
      parameter.slot = frame.parameter(parameter.name);
      signature.explicit_caller |= parameter.name == "caller";
    }
    const auto special = UnboundNames({"caller", "kwargs", "varargs"}).in(stmt.body);
    const auto declared = [&](const std::string& name) {
      return std::ranges::find(signature.parameters, name, &Parameter::name) !=
             signature.parameters.end();
    };
    if (special.contains("caller")) {
      signature.wants_caller = true;
      if (!declared("caller")) {
        signature.caller_slot = frame.parameter("caller");
      } else if (!std::ranges::find(signature.parameters, "caller", &Parameter::name)->fallback) {
        throw_at(stmt.line,
                 "the special \"caller\" argument must be omitted or be given a default.");
      }
    }
    if (special.contains("kwargs") && !declared("kwargs")) {
      signature.wants_keywords = true;
      signature.keywords_slot = frame.parameter("kwargs");
    }
    if (special.contains("varargs") && !declared("varargs")) {
      signature.wants_rest = true;
      signature.rest_slot = frame.parameter("varargs");
    }
    Collector collector(frame);
    for (auto& parameter : signature.parameters) collector.load(parameter.fallback);
    collector.body(stmt.body);
    for (auto& parameter : signature.parameters) expression(parameter.fallback, frame, false);
    body(stmt.body, frame);
    stmt.frame = frame_info(frame);
    stmt.slot_count = count(own);
  }

  Program& program_;
  std::map<std::string, uint16_t> names_;
};

}  // namespace

void resolve_scopes(Program& program) {
  Resolver(program).run();
}

}  // namespace plimsoll::text::jinja
