#include "ptx/symbols.h"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <vector>

namespace plimsoll::ptx {
namespace {

using Symbols = std::map<uintptr_t, std::string>;

std::vector<char> own_file() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Where the program lies in memory: its symbols count from there.
uintptr_t load_address() {
  uintptr_t address = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* program, size_t, void* to) {
        *static_cast<uintptr_t*>(to) = program->dlpi_addr;
        return 1;  // the program itself comes first
      },
      &address);
  return address;
}

template <typename T>
std::vector<T> read_table(const std::vector<char>& file, size_t offset, size_t count) {
  std::vector<T> table;
  if (offset > file.size() || count > (file.size() - offset) / sizeof(T)) return table;
  table.resize(count);
  std::memcpy(table.data(), file.data() + offset, count * sizeof(T));
  return table;
}

Symbols read_symbols() {
  Symbols symbols;
  const std::vector<char> file = own_file();
  const auto headers = read_table<Elf64_Ehdr>(file, 0, 1);
  if (headers.empty()) return symbols;
  const auto sections = read_table<Elf64_Shdr>(file, headers[0].e_shoff, headers[0].e_shnum);
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB) continue;
    const char* const names = file.data() + sections[section.sh_link].sh_offset;
    const auto count = section.sh_size / sizeof(Elf64_Sym);
    for (const auto& symbol : read_table<Elf64_Sym>(file, section.sh_offset, count))
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_value != 0)
        symbols[load_address() + symbol.st_value] = names + symbol.st_name;
  }
  return symbols;
}

}  // namespace

std::string symbol_of(const void* function) {
  static const Symbols symbols = read_symbols();
  const auto found = symbols.find(reinterpret_cast<uintptr_t>(function));
  return found == symbols.end() ? "" : found->second;
}

}  // namespace plimsoll::ptx
