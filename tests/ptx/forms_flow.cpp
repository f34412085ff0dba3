// Forms of jumps, barriers and what lanes do together.
#include <map>

#include "ptx/forms.h"
#include "ptx/instructions.h"

namespace plimsoll::ptx {
namespace {

void parse_branch(Names&, const Statement&, Instruction& to) {
  to.flow = Flow::branch;
}
void parse_exit(Names&, const Statement&, Instruction& to) {
  to.flow = Flow::exit;
}
/// Of a function that only reports what must not be.
void parse_trap(Names&, const Statement&, Instruction& to) {
  to.flow = Flow::trap;
}
void parse_hint(Names&, const Statement&, Instruction& to) {
  to.function = do_nothing;
}
void parse_dependency(Names&, const Statement& s, Instruction& to) {
  to.function = do_nothing;
  if (s.has("wait")) to.flow = Flow::wait_previous;
}

/// Operands: result, barrier, threads, predicate.
void parse_barrier(Names& names, const Statement& s, Instruction& to) {
  if (s.has("warp")) {
    names.add(to, s.operands[0]);
    to.flow = Flow::together;
    to.mask_operand = 0;
    to.function = do_nothing;
    return;
  }
  to.flow = Flow::block_barrier;
  to.option = s.has("arrive") ? kArrivesAlone : 0;
  if (s.has("red")) {
    to.size = static_cast<uint8_t>(s.has("popc")  ? Reduction::count
                                   : s.has("and") ? Reduction::all
                                                  : Reduction::any);
    const bool counted = s.operands.size() == 4;
    names.add(to, s.operands[0]);
    names.add(to, s.operands[1]);
    names.add(to, counted ? s.operands[2] : "_");
    names.add(to, s.operands.back());
    return;
  }
  names.add(to, "_");
  names.add(to, s.operands[0]);
  names.add(to, s.operands.size() > 1 ? s.operands[1] : "_");
  names.add(to, "_");
}

void parse_product(Names& names, const Statement& s, Instruction& to) {
  for (const std::string& vector : s.operands)
    for (const std::string& one : split_vector(vector)) names.add(to, one);
  to.flow = Flow::together;
  const std::string name = s.name();
  if (name == "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32") {
    to.function = multiply_bf16;
  } else if (name == "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") {
    to.function = multiply_f16;
  } else {
    not_known(s);
  }
}

void parse_matrices(Names& names, const Statement& s, Instruction& to) {
  const bool loads = s.parts[0] == "ldmatrix";
  const auto registers = split_vector(s.operands[loads ? 0 : 1]);
  for (const std::string& one : registers) names.add(to, one);
  to.elements = static_cast<uint8_t>(registers.size());
  names.add_address(to, s.operands[loads ? 1 : 0]);
  to.space = Space::shared;
  to.option = s.has("trans") ? 1 : 0;
  to.flow = Flow::together;
  to.function = loads ? load_matrices : store_matrices;
}

void parse_shuffle(Names& names, const Statement& s, Instruction& to) {
  const size_t bar = s.operands[0].find('|');
  names.add(to, trimmed(s.operands[0].substr(0, bar)));
  for (size_t n = 1; n < 5; ++n) names.add(to, s.operands[n]);
  names.add(to, bar == std::string::npos ? "_" : trimmed(s.operands[0].substr(bar + 1)));
  const Source source = s.has("up")     ? Source::up
                        : s.has("down") ? Source::down
                        : s.has("bfly") ? Source::butterfly
                                        : Source::index;
  to.option = static_cast<uint32_t>(source);
  to.flow = Flow::together;
  to.mask_operand = 4;
  to.function = shuffle;
}

void parse_vote(Names& names, const Statement& s, Instruction& to) {
  for (const std::string& operand : s.operands) names.add(to, operand);
  const Vote kind = s.has("ballot") ? Vote::ballot
                    : s.has("any")  ? Vote::any
                    : s.has("all")  ? Vote::all
                                    : Vote::uniform;
  to.option = static_cast<uint32_t>(kind);
  to.flow = Flow::together;
  to.mask_operand = 2;
  to.function = vote;
}

void parse_match(Names& names, const Statement& s, Instruction& to) {
  if (!s.has("any")) not_known(s);
  for (const std::string& operand : s.operands) names.add(to, operand);
  to.flow = Flow::together;
  to.mask_operand = 2;
  to.function = match_any;
}

const std::map<std::string, Form> kFlowForms = {
    {"bra", parse_branch},        {"ret", parse_exit},
    {"exit", parse_exit},         {"trap", parse_trap},
    {"call", parse_trap},         {"griddepcontrol", parse_dependency},
    {"bar", parse_barrier},       {"barrier", parse_barrier},
    {"mma", parse_product},       {"ldmatrix", parse_matrices},
    {"stmatrix", parse_matrices}, {"shfl", parse_shuffle},
    {"vote", parse_vote},         {"match", parse_match},
    {"prefetch", parse_hint},     {"membar", parse_hint},
    {"fence", parse_hint},        {"nanosleep", parse_hint},
    {"createpolicy", parse_hint},
};

}  // namespace

Form find_flow_form(const std::string& name) {
  const auto found = kFlowForms.find(name);
  return found == kFlowForms.end() ? nullptr : found->second;
}

}  // namespace plimsoll::ptx
