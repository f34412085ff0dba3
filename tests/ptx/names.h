// The names in a kernel's text, and the registers that they become.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ptx/module.h"
#include "ptx/text.h"

namespace plimsoll::ptx {

/// Which register a literal or an address takes. real: a literal may be a float.
struct Width {
  bool wide = false;
  bool real = false;
};

class Names {
 public:
  Names(Module& module, Code& code) : module_(module), code_(code), scopes_(1) {}
  /// Parameters of the kernel, as "(.param .u64 a, ...)".
  void add_parameters(const std::string& list);
  void open_scope() { scopes_.emplace_back(); }
  void close_scope() { scopes_.pop_back(); }
  /// Registers or memory, as ".reg .b32 %r<5>". False: it declares nothing.
  bool declare(const std::string& directive);

  /// A register that no name has.
  Operand take(Kind kind);
  /// A register, a literal, a special register or the address of a variable. Throws
  /// std::runtime_error where the name is not known.
  Operand resolve(const std::string& text, Width width = {});
  /// Adds it to the instruction.
  void add(Instruction& to, const std::string& text, Width width = {});
  /// Adds the base of "[base+offset]" and sets the offset.
  void add_address(Instruction& to, const std::string& text);
  Code& code() { return code_; }

 private:
  using Scope = std::unordered_map<std::string, Operand>;
  [[nodiscard]] std::optional<Operand> find_register(const std::string& name) const;
  std::optional<Operand> find_special(const std::string& name);
  std::optional<Operand> find_variable(const std::string& text, Width width);
  [[nodiscard]] std::optional<size_t> find_shared(const std::string& name) const;
  Operand constant(uint64_t value, bool wide);
  Operand address(std::vector<std::pair<int32_t, uint64_t>>& list, uint64_t offset);
  void declare_registers(const std::string& type, const std::string& names);
  void declare_memory(const std::string& directive, bool is_local);

  Module& module_;
  Code& code_;
  std::vector<Scope> scopes_;
  std::map<std::string, Operand> specials_;
  std::map<std::string, size_t> parameters_, locals_, shared_;
  std::unordered_map<uint64_t, Operand> words_, wides_;
};

/// A special register, or nullptr.
Special find_special_register(const std::string& name);

}  // namespace plimsoll::ptx
