// Forms of what reads and writes memory.
#include <map>
#include <utility>

#include "ptx/forms.h"
#include "ptx/instructions.h"

namespace plimsoll::ptx {
namespace {

Space space_of(const Statement& s) {
  if (s.has_beginning("shared")) return Space::shared;
  return s.has("param") ? Space::parameter : Space::generic;
}

void parse_access(Names& names, const Statement& s, Instruction& to) {
  const bool stores = s.parts[0] == "st";
  const std::string& type = s.parts.back();
  const auto registers = split_vector(s.operands[stores ? 1 : 0]);
  to.size = static_cast<uint8_t>(type_bytes(type));
  to.elements = static_cast<uint8_t>(registers.size());
  to.is_signed = type[0] == 's';
  for (const std::string& one : registers)
    names.add(to, one, {to.size == sizeof(uint64_t), type[0] == 'f'});
  names.add_address(to, s.operands[stores ? 0 : 1]);
  to.space = space_of(s);
  to.function = stores             ? find_store(to.size)
                : s.has("acquire") ? load_acquiring
                                   : find_load(to.size);
}

void parse_atomic(Names& names, const Statement& s, Instruction& to) {
  const bool returns = s.parts[0] == "atom";
  names.add(to, returns ? s.operands[0] : "_");
  names.add_address(to, s.operands[returns ? 1 : 0]);
  names.add(to, s.operands[returns ? 2 : 1]);
  to.space = space_of(s);
  to.function = find_atomic(s.parts[s.parts.size() - 2], s.parts.back());
  if (to.function == nullptr) not_known(s);
}

void parse_bulk_copy(Names& names, const Statement& s, Instruction& to) {
  if (s.has("tensor") || s.operands.size() != 4) not_known(s);
  names.add_address(to, s.operands[0]);
  names.add_address(to, s.operands[1]);
  names.add(to, s.operands[2]);
  names.add_address(to, s.operands[3]);
  if (to.offset != 0) not_known(s);
  to.function = copy_bulk;
}

/// The hint of a policy is no operand.
void parse_async_copy(Names& names, const Statement& s, Instruction& to) {
  names.add_address(to, s.operands[0]);
  const int64_t offset = std::exchange(to.offset, 0);
  names.add_address(to, s.operands[1]);
  to.second_offset = std::exchange(to.offset, offset);
  to.size = static_cast<uint8_t>(std::stoul(s.operands[2]));
  const bool has_bytes = s.operands.size() > 3 && !s.has("L2::cache_hint");
  names.add(to, has_bytes ? s.operands[3] : "_");
  to.function = copy_async;
}

void parse_copy(Names& names, const Statement& s, Instruction& to) {
  if (s.has("bulk")) return parse_bulk_copy(names, s, to);
  if (s.has("commit_group")) {
    to.function = close_group;
  } else if (s.has("wait_group")) {
    to.option = static_cast<uint32_t>(std::stoul(s.operands[0]));
    to.function = wait_for_groups;
  } else if (s.has("wait_all")) {
    to.function = wait_for_copies;
  } else if (s.has("mbarrier")) {
    names.add_address(to, s.operands[0]);
    to.space = space_of(s);
    to.option = s.has("noinc") ? 1 : 0;
    to.function = barrier_arrive_after_copies;
  } else {
    parse_async_copy(names, s, to);
  }
}

void parse_arrival(Names& names, const Statement& s, Instruction& to) {
  const size_t address = s.operands[0][0] == '[' ? 0 : 1;
  names.add(to, address == 1 ? s.operands[0] : "_", {.wide = true});
  names.add_address(to, s.operands[address]);
  names.add(to, s.operands.size() > address + 1 ? s.operands[address + 1] : "_");
  to.option = s.has("expect_tx") ? 1 : 0;
  to.function = barrier_arrive;
}

void parse_memory_barrier(Names& names, const Statement& s, Instruction& to) {
  to.space = space_of(s);
  const std::string& what = s.parts[1];
  if (what == "arrive") return parse_arrival(names, s, to);
  if (what == "try_wait" || what == "test_wait") {
    names.add(to, s.operands[0]);
    names.add_address(to, s.operands[1]);
    names.add(to, s.operands[2], {.wide = !s.has("parity")});
    to.function = barrier_test;
    return;
  }
  names.add_address(to, s.operands[0]);
  if (what == "inval") {
    to.function = do_nothing;
    return;
  }
  names.add(to, s.operands[1]);
  if (what != "init" && what != "expect_tx") not_known(s);
  to.function = what == "init" ? barrier_init : barrier_expect;
}

const std::map<std::string, Form> kMemoryForms = {
    {"ld", parse_access},  {"st", parse_access}, {"atom", parse_atomic},
    {"red", parse_atomic}, {"cp", parse_copy},   {"mbarrier", parse_memory_barrier},
};

}  // namespace

Form find_memory_form(const std::string& name) {
  const auto found = kMemoryForms.find(name);
  return found == kMemoryForms.end() ? nullptr : found->second;
}

}  // namespace plimsoll::ptx
