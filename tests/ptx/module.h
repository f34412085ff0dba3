// A file of PTX: its kernels and the variables that they share.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/code.h"

namespace plimsoll::ptx {

class Module {
 public:
  /// Throws std::runtime_error where the text is not understood.
  explicit Module(std::string_view text);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  /// By the names that the host's compiler gives them.
  [[nodiscard]] std::vector<std::string> kernels() const;
  /// The kernel's code, which is parsed when it is asked for first. Throws std::runtime_error that
  /// names the kernel and what of it is not known.
  const Code& code(const std::string& kernel);
  /// Of kernels whose code was asked for.
  [[nodiscard]] const std::map<std::string, Code>& parsed() const { return parsed_; }

  // ---- for the parser ----
  struct Entry {
    std::string name;       // in PTX
    std::string_view text;  // from the parameters on
    size_t place = 0;       // where the text begins in the file
  };
  /// Offset of a shared variable.
  [[nodiscard]] std::optional<size_t> shared(const std::string& name) const;
  [[nodiscard]] bool is_dynamic_shared(const std::string& name) const {
    return dynamic_.contains(name);
  }
  [[nodiscard]] size_t shared_bytes() const { return shared_bytes_; }
  /// Memory of a variable, or empty.
  std::span<std::byte> variable(const std::string& name);
  [[nodiscard]] std::vector<std::span<std::byte>> variables();

 private:
  void add_entry(std::string_view text);
  void add_variable(std::string_view text);
  const std::string text_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, Code> parsed_;
  std::map<std::string, std::vector<std::byte>> variables_;
  std::map<std::string, size_t> shared_;
  std::map<std::string, size_t> dynamic_;
  size_t shared_bytes_ = 0;
};

}  // namespace plimsoll::ptx
