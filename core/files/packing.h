// gzip and zstd, in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace plimsoll::files {

enum class Packing : uint8_t { none, gzip, zstd };

/// By the first bytes of a file, whatever its name: four tell for sure.
Packing packing_of(std::string_view head);
/// By the end of a name: ".gz", ".zst".
Packing packing_for(const std::string& path);

/// Members or frames that follow each other are one.
class Unpacker {
 public:
  /// Null for none.
  static std::unique_ptr<Unpacker> make(Packing packing);
  virtual ~Unpacker() = default;
  /// Takes from the beginning of `packed`, gives up to `room` bytes to `to`, and returns how many;
  /// 0 when more is needed first. Throws std::runtime_error for what is damaged.
  virtual size_t unpack(std::string_view& packed, char* to, size_t room) = 0;
  /// The file may end here.
  [[nodiscard]] virtual bool is_whole() const = 0;
};

/// The same bytes give the same packed bytes, whatever the pieces.
class Packer {
 public:
  /// Null for none.
  static std::unique_ptr<Packer> make(Packing packing);
  virtual ~Packer() = default;
  /// What can be written after these bytes; maybe nothing.
  virtual std::string pack(std::string_view bytes) = 0;
  /// The rest. Nothing may follow.
  virtual std::string finish() = 0;
};

}  // namespace plimsoll::files
