// gzip and zstd, in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace plimsoll::files {

enum class Packing : uint8_t { none, gzip, zstd };

/// The packing of a file by its first bytes, whatever its name: four bytes are enough.
Packing packing_of(std::string_view head);
/// The packing of a file by the end of its name: ".gz", ".zst". Throws Error(usage) for names of
/// other packings.
Packing packing_for(const std::string& path);

/// Unpacks a stream; members or frames that follow each other are one stream.
class Unpacker {
 public:
  /// An unpacker; null for Packing::none.
  static std::unique_ptr<Unpacker> make(Packing packing);
  virtual ~Unpacker() = default;
  /// Unpacks from the beginning of `packed`, which it shortens, up to `room` bytes to `to`, and
  /// returns how many; 0 when more is needed first. Throws std::runtime_error for damaged data.
  virtual size_t unpack(std::string_view& packed, char* to, size_t room) = 0;
  /// True when the file may end here.
  [[nodiscard]] virtual bool is_whole() const = 0;
};

/// Packs a stream; equal bytes give equal packed bytes, however they are split into calls.
class Packer {
 public:
  /// A packer; null for Packing::none.
  static std::unique_ptr<Packer> make(Packing packing);
  virtual ~Packer() = default;
  /// Packs bytes; returns what can be written now, maybe nothing.
  virtual std::string pack(std::string_view bytes) = 0;
  /// Returns the rest of the packed bytes. No call may follow.
  virtual std::string finish() = 0;
};

}  // namespace plimsoll::files
