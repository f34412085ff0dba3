#include "ptx/names.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace plimsoll::ptx {
namespace {

Kind kind_of(const std::string& type) {
  if (type == "pred") return Kind::predicate;
  return type_bytes(type) == sizeof(uint64_t) ? Kind::wide : Kind::word;
}

bool is_number(const std::string& text) {
  const char first = text[text[0] == '-' && text.size() > 1 ? 1 : 0];
  return first >= '0' && first <= '9';
}

/// A declaration of memory: ".param .align 8 .b8 name[16]".
struct Memory {
  std::string name;
  size_t bytes = 0;
  size_t alignment = 1;
};
Memory parse_memory(const std::string& text) {
  Memory memory;
  std::istringstream words(text);
  std::string word, type;
  bool aligned = false, pointer = false;
  while (words >> word) {
    if (word == ".align") {
      words >> memory.alignment;
      aligned = !pointer;  // else it is that of what the parameter points to
    } else if (word == ".ptr") {
      pointer = true;
    } else if (word[0] != '.') {
      memory.name += word;
    } else if (type.empty() && type_bytes(word.substr(1)) > 0) {
      type = word.substr(1);
    }
  }
  memory.bytes = take_count(memory.name) * type_bytes(type);
  if (!aligned) memory.alignment = type_bytes(type);
  return memory;
}

}  // namespace

void Names::add_parameters(const std::string& list) {
  for (const std::string& text : split_list(list)) {
    const Memory memory = parse_memory(text);
    const size_t offset = reserve(code_.parameter_bytes, memory.bytes, memory.alignment);
    parameters_[memory.name] = offset;
    code_.parameters.push_back({offset, memory.bytes});
  }
}

bool Names::declare(const std::string& directive) {
  std::istringstream words(directive);
  std::string word, type, rest;
  words >> word;
  if (word == ".reg") {
    words >> type;
    std::getline(words, rest, '\0');
    declare_registers(type.substr(1), rest);
    return true;
  }
  if (word != ".local" && word != ".shared") return false;
  declare_memory(directive, word == ".local");
  return true;
}

void Names::declare_registers(const std::string& type, const std::string& names) {
  for (const std::string& name : split_list(names)) {
    const size_t open = name.find('<');
    if (open == std::string::npos) {
      scopes_.back()[name] = take(kind_of(type));
      continue;
    }
    const size_t count = std::stoul(name.substr(open + 1));
    for (size_t i = 0; i < count; ++i)
      scopes_.back()[name.substr(0, open) + std::to_string(i)] = take(kind_of(type));
  }
}

void Names::declare_memory(const std::string& directive, bool is_local) {
  const Memory memory = parse_memory(directive);
  size_t& bytes = is_local ? code_.local_bytes : code_.shared_bytes;
  (is_local ? locals_ : shared_)[memory.name] = reserve(bytes, memory.bytes, memory.alignment);
}

Operand Names::take(Kind kind) {
  int32_t& count = kind == Kind::predicate ? code_.predicates
                   : kind == Kind::wide    ? code_.wides
                                           : code_.words;
  return {kind, count++};
}

Operand Names::constant(uint64_t value, bool wide) {
  const uint64_t kept = wide ? value : static_cast<uint32_t>(value);
  const auto [found, is_new] = (wide ? wides_ : words_).try_emplace(kept);
  if (is_new) {
    found->second = take(wide ? Kind::wide : Kind::word);
    if (wide) {
      code_.constant_wides.emplace_back(found->second.slot, kept);
    } else {
      code_.constant_words.emplace_back(found->second.slot, static_cast<uint32_t>(kept));
    }
  }
  return found->second;
}

Operand Names::address(std::vector<std::pair<int32_t, uint64_t>>& list, uint64_t offset) {
  const Operand operand = take(Kind::wide);
  list.emplace_back(operand.slot, offset);
  return operand;
}

std::optional<Operand> Names::find_register(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto found = scope->find(name);
    if (found != scope->end()) return found->second;
  }
  return {};
}

std::optional<Operand> Names::find_special(const std::string& name) {
  const auto known = specials_.find(name);
  if (known != specials_.end()) return known->second;
  const Special special = find_special_register(name);
  if (special == nullptr) return {};
  const Operand operand = take(Kind::word);
  code_.specials.emplace_back(operand.slot, special);
  return specials_[name] = operand;
}

std::optional<size_t> Names::find_shared(const std::string& name) const {
  const auto own = shared_.find(name);
  if (own != shared_.end()) return own->second;
  if (const auto offset = module_.shared(name)) return offset;
  if (module_.is_dynamic_shared(name)) return dynamic_shared(code_.shared_bytes);
  return {};
}

std::optional<Operand> Names::find_variable(const std::string& text, Width width) {
  const size_t plus = std::min(text.find('+'), text.size());
  const std::string name = trimmed(text.substr(0, plus));
  const uint64_t offset =
      plus == text.size() ? 0 : parse_number(trimmed(text.substr(plus + 1)), true);
  if (const auto found = parameters_.find(name); found != parameters_.end())
    return address(code_.parameter_addresses, found->second + offset);
  if (const auto found = locals_.find(name); found != locals_.end())
    return address(code_.local_addresses, found->second + offset);
  if (const auto found = find_shared(name))
    return constant(kSharedBase + *found + offset, width.wide);
  const std::span<std::byte> variable = module_.variable(name);
  if (variable.empty()) return {};
  return constant(reinterpret_cast<uint64_t>(variable.data()) + offset, true);
}

Operand Names::resolve(const std::string& text, Width width) {
  if (text == "_") return {};
  if (text[0] == '!') {
    Operand predicate = resolve(trimmed(text.substr(1)));
    if (predicate.kind != Kind::predicate) throw std::runtime_error("no predicate: " + text);
    predicate.kind = Kind::negated;
    return predicate;
  }
  if (const auto found = find_register(text)) return *found;
  if (is_number(text)) return constant(parse_number(text, width.wide), width.wide);
  if (text.starts_with("%clock") || text == "%globaltimer") return constant(0, width.wide);
  if (text == "WARP_SZ") return constant(kLanes, width.wide);
  if (const auto found = find_special(text)) return *found;
  if (const auto found = find_variable(text, width)) return *found;
  throw std::runtime_error("no such name: " + text);
}

void Names::add(Instruction& to, const std::string& text, Width width) {
  if (to.count == Instruction::kMostOperands) throw std::runtime_error("too many operands");
  to.operands[to.count++] = resolve(text, width);
}

void Names::add_address(Instruction& to, const std::string& text) {
  if (!text.starts_with('[') || !text.ends_with(']'))
    throw std::runtime_error("no address: " + text);
  const std::string inside = trimmed(text.substr(1, text.size() - 2));
  const size_t plus = std::min(inside.find('+'), inside.size());
  if (plus < inside.size())
    to.offset = static_cast<int64_t>(parse_number(trimmed(inside.substr(plus + 1)), true));
  add(to, trimmed(inside.substr(0, plus)), {.wide = true});
}

}  // namespace plimsoll::ptx
