// Variables that the frames of a template load and store: jinja2's idtracking.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/parse/ast.h"
#include "text/jinja/parse/lexer.h"

namespace plimsoll::text::jinja {

// One activation at run time: the template, a macro, a recursive loop.
struct Plan {
  Plan* parent = nullptr;
  std::map<std::pair<int, std::string>, uint16_t> slots;

  uint16_t slot(int level, const std::string& name) {
    if (slots.size() >= UINT16_MAX) fail_syntax("the template has too many variables", 1);
    return slots.try_emplace({level, name}, static_cast<uint16_t>(slots.size())).first->second;
  }
};

struct Ref {
  Plan* plan = nullptr;
  uint16_t slot = 0;
  friend bool operator==(const Ref&, const Ref&) = default;
};

enum class LoadKind : uint8_t { parameter, resolve, alias, undefined };

struct Loading {
  Ref target;
  LoadKind kind;
  std::string name;  // resolve
  Ref outer;         // alias
};

struct Symbols {
  Symbols(Symbols* outer, Plan* owner, int at_level)
      : parent(outer), plan(owner), level(at_level) {}

  Symbols* parent;
  Plan* plan;
  int level;
  std::map<std::string, Ref> refs;
  std::vector<Loading> loads;  // in order of definition
  std::map<std::string, size_t> load_index;
  std::set<std::string> stores;
  std::vector<std::string> store_log;  // names in the order of their first store

  [[nodiscard]] const Ref* find(const std::string& name) const {
    for (const Symbols* symbols = this; symbols != nullptr; symbols = symbols->parent) {
      if (const auto at = symbols->refs.find(name); at != symbols->refs.end()) return &at->second;
    }
    return nullptr;
  }

  void define(const std::string& name, LoadKind kind, Ref outer = {}) {
    refs[name] = {plan, plan->slot(level, name)};
    set_load(name, kind, outer);
  }
  void set_load(const std::string& name, LoadKind kind, Ref outer) {
    const auto [at, fresh] = load_index.try_emplace(name, loads.size());
    Loading loading{refs[name], kind, name, outer};
    if (fresh) {
      loads.push_back(std::move(loading));
    } else {
      loads[at->second] = std::move(loading);
    }
  }
  void mark_stored(const std::string& name) {
    if (stores.insert(name).second) store_log.push_back(name);
  }

  uint16_t parameter(const std::string& name) {
    mark_stored(name);
    define(name, LoadKind::parameter);
    return refs[name].slot;
  }
  void load(const std::string& name) {
    if (find(name) == nullptr) define(name, LoadKind::resolve);
  }
  void store(const std::string& name) {
    mark_stored(name);
    if (!refs.contains(name)) define_from_outside(name, LoadKind::undefined);
  }
  // Merges the stores of an `if`'s branches: names first stored since `mark` in the log start with
  // their value outside.
  void merge_branches(size_t mark) {
    for (size_t i = mark; i < store_log.size(); ++i)
      define_from_outside(store_log[i], LoadKind::resolve);
  }

 private:
  void define_from_outside(const std::string& name, LoadKind otherwise) {
    const Ref* outer = parent != nullptr ? parent->find(name) : nullptr;
    if (outer != nullptr) {
      define(name, LoadKind::alias, *outer);
    } else {
      define(name, otherwise);
    }
  }
};

template <typename Visit>
void each_kid(const Expr& expr, Visit visit) {
  const auto one = [&](const ExprPtr& kid) {
    if (kid) visit(*kid);
  };
  for (const auto& kid : expr.kids) one(kid);
  for (const auto& kid : expr.args.positional) one(kid);
  for (const auto& [name, kid] : expr.args.keywords) one(kid);
  one(expr.args.star);
  one(expr.args.double_star);
}

// Names that a body reads before it binds them.
class UnboundNames {
 public:
  explicit UnboundNames(std::set<std::string> names) : names_(std::move(names)) {}
  std::set<std::string> in(const Body& body) {
    visit(body);
    return found_;
  }

 private:
  void visit(const Expr& expr) {
    if (expr.kind == ExprKind::name && names_.contains(expr.name)) found_.insert(expr.name);
    each_kid(expr, [&](const Expr& kid) { visit(kid); });
  }
  void visit(const ExprPtr& expr) {
    if (expr) visit(*expr);
  }
  void bind(const Expr& target) {
    if (target.kind == ExprKind::name) names_.erase(target.name);
    each_kid(target, [&](const Expr& kid) { bind(kid); });
  }
  void visit(const Body& body) {
    for (const auto& stmt : body) visit(*stmt);
  }
  void visit(const Stmt& stmt) {
    for (const auto& parameter : stmt.signature.parameters) names_.erase(parameter.name);
    for (const auto& parameter : stmt.signature.parameters) visit(parameter.fallback);
    if (stmt.target) bind(*stmt.target);
    for (const auto& target : stmt.targets) bind(*target);
    for (const auto& expr : stmt.exprs) visit(expr);
    visit(stmt.body);
    for (const auto& branch : stmt.branches) visit(branch);
    visit(stmt.otherwise);
  }

  std::set<std::string> names_;
  std::set<std::string> found_;
};

// Collects the names that a frame loads and stores.
class Collector {
 public:
  explicit Collector(Symbols& symbols) : symbols_(&symbols) {}

  void load(const Expr& expr) {
    if (expr.kind == ExprKind::name || expr.kind == ExprKind::namespace_target)
      symbols_->load(expr.name);
    each_kid(expr, [&](const Expr& kid) { load(kid); });
  }
  void load(const ExprPtr& expr) {
    if (expr) load(*expr);
  }
  void store(const Expr& target) {
    if (target.kind == ExprKind::name) symbols_->store(target.name);
    if (target.kind == ExprKind::namespace_target) symbols_->load(target.name);
    each_kid(target, [&](const Expr& kid) { store(kid); });
  }
  void parameter(const Expr& target) {
    if (target.kind == ExprKind::name) symbols_->parameter(target.name);
    each_kid(target, [&](const Expr& kid) { parameter(kid); });
  }
  void body(const Body& statements) {
    for (const auto& stmt : statements) statement(*stmt);
  }

 private:
  void statement(const Stmt& stmt) {
    switch (stmt.kind) {
      case StmtKind::for_loop:
        return load(stmt.exprs[0]);
      case StmtKind::branch:
        return branch(stmt);
      case StmtKind::macro:
        return symbols_->store(stmt.name);
      case StmtKind::assign:
        load(stmt.exprs[0]);
        return store(*stmt.target);
      case StmtKind::assign_block:
        return store(*stmt.target);
      case StmtKind::output:
      case StmtKind::with:
      case StmtKind::call_block:
      case StmtKind::filter_block:
        for (const auto& expr : stmt.exprs) load(expr);
        return;
      default:
        return;
    }
  }

  void branch(const Stmt& stmt) {
    const size_t mark = symbols_->store_log.size();
    for (const auto& test : stmt.exprs) load(test);
    for (const auto& branch : stmt.branches) body(branch);
    symbols_->merge_branches(mark);
  }

  Symbols* symbols_;
};

}  // namespace plimsoll::text::jinja
