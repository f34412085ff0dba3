// Crafted checkpoint files for tests.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace plimsoll::testing {

/// A folder for a test, removed with the object.
class TempFolder {
 public:
  TempFolder() {
    static int count = 0;
    path = std::filesystem::temp_directory_path() /
           ("plimsoll_test_" + std::to_string(getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(path);
  }
  ~TempFolder() { std::filesystem::remove_all(path); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  /// Writes a file; folders in `name` are made.
  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((path / name).parent_path());
    std::ofstream(path / name, std::ios::binary | std::ios::trunc) << bytes;
    return path / name;
  }
  std::filesystem::path path;
};

/// Bytes of a safetensors file: the header's length, its text, the data.
inline std::string safetensors_bytes(uint64_t length, const std::string& header,
                                     const std::string& data) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
  return bytes + header + data;
}

inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  return safetensors_bytes(header.size(), header, data);
}

}  // namespace plimsoll::testing
