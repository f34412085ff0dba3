#include "ptx/forms.h"

#include <stdexcept>

#include "ptx/arithmetic.h"
#include "ptx/instructions.h"

namespace plimsoll::ptx {

void not_known(const Statement& statement) {
  throw std::runtime_error("the instruction is not known: " + statement.name());
}

namespace {

bool is_real(const std::string& type) {
  return type[0] == 'f';
}

/// "d|p": a result and a predicate, which may be missing.
void add_results(Names& names, const std::string& text, Instruction& to) {
  const size_t bar = text.find('|');
  names.add(to, trimmed(text.substr(0, bar)));
  names.add(to, bar == std::string::npos ? "_" : trimmed(text.substr(bar + 1)));
}

void parse_comparison(Names& names, const Statement& s, Instruction& to) {
  const std::string& type = s.parts.back();
  const Width width{type_bytes(type) == sizeof(uint64_t), is_real(type)};
  add_results(names, s.operands[0], to);
  names.add(to, s.operands[1], width);
  names.add(to, s.operands[2], width);
  if (s.operands.size() > 3) {
    names.add(to, s.operands[3]);
    const Join join = s.has("and")  ? Join::logical_and
                      : s.has("or") ? Join::logical_or
                                    : Join::exclusive_or;
    to.option = static_cast<uint32_t>(join);
  }
  to.function = find_comparison(s.parts[1], type);
  if (to.function == nullptr || s.has("ftz")) not_known(s);
}

/// A register of the width that an instruction reads; its own where it is that.
Operand fitted(Names& names, const Instruction& reader, Operand from, bool wide) {
  const bool is_number = from.kind == Kind::word || from.kind == Kind::wide;
  if (!is_number || (from.kind == Kind::wide) == wide) return from;
  Instruction fit;
  fit.function = wide ? widen : narrow;
  fit.guard = reader.guard;
  fit.count = 2;
  fit.text = reader.text;
  fit.operands[0] = names.take(wide ? Kind::wide : Kind::word);
  fit.operands[1] = from;
  names.code().instructions.push_back(fit);
  return fit.operands[0];
}

void parse_arithmetic(Names& names, const Statement& s, Instruction& to) {
  const auto arithmetic = find_arithmetic(s.parts);
  if (!arithmetic) not_known(s);
  to.function = arithmetic->function;
  for (size_t n = 0; n < s.operands.size(); ++n) {
    const bool wide =
        n == 0 ? arithmetic->wide_result : (arithmetic->wide_sources >> (n - 1) & 1u) != 0;
    names.add(to, s.operands[n], {wide, is_real(s.parts.back())});
    if (n > 0) to.operands[n] = fitted(names, to, to.operands[n], wide);
  }
  const Kind result = to.operands[0].kind;
  if (result != Kind::predicate && (result == Kind::wide) != arithmetic->wide_result)
    throw std::runtime_error("a result of another width: " + s.name());
}

/// An address may be moved to a register of either width.
void parse_move(Names& names, const Statement& s, Instruction& to) {
  const auto results = split_vector(s.operands[0]), sources = split_vector(s.operands[1]);
  const bool in_parts = s.operands[0][0] == '{' || s.operands[1][0] == '{';
  const std::string& type = s.parts.back();
  if (!in_parts) {
    const bool wide = type_bytes(type) == sizeof(uint64_t);
    names.add(to, s.operands[0], {wide});
    names.add(to, s.operands[1], {wide, is_real(type)});
    const auto arithmetic = find_arithmetic(s.parts);
    if (!arithmetic) not_known(s);
    to.function = arithmetic->function;
    const bool result_is_wide = to.operands[0].kind == Kind::wide;
    to.operands[1] = fitted(names, to, to.operands[1], result_is_wide);
    return;
  }
  for (const std::string& result : results) names.add(to, result);
  for (const std::string& source : sources) names.add(to, source, {results.size() > 1});
  to.option = static_cast<uint32_t>(results.size());
  to.function = move_parts;
}

void parse_generic(Names& names, const Statement& s, Instruction& to) {
  const bool wide = s.has("u64");
  names.add(to, s.operands[0], {wide});
  names.add(to, s.operands[1], {wide});
  if (s.has_beginning("shared")) {
    to.function = s.has("to") ? from_generic_shared : to_generic_shared;
  } else {
    to.function = find_arithmetic({"mov", wide ? "b64" : "b32"})->function;
  }
}

}  // namespace

void parse_form(Names& names, const Statement& s, Instruction& to) {
  const std::string& name = s.parts[0];
  if (const Form form = find_flow_form(name)) return form(names, s, to);
  if (const Form form = find_memory_form(name)) return form(names, s, to);
  if (name == "setp") return parse_comparison(names, s, to);
  if (name == "mov") return parse_move(names, s, to);
  if (name == "cvta") return parse_generic(names, s, to);
  parse_arithmetic(names, s, to);
}

}  // namespace plimsoll::ptx
