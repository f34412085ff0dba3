// Digests of files and records: XXH3, which finds damage and mix-ups at the speed of memory. It
// does not protect against forgery, and nothing here needs that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace plimsoll::files {

/// XXH3 of 64 bits.
uint64_t xxh3(std::string_view bytes);

/// XXH3 of 128 bits over bytes that come piece by piece.
class Digest {
 public:
  Digest();
  void add(const void* bytes, size_t count);
  /// 32 hexadecimal digits of all bytes so far, in XXH3's canonical order (as `xxhsum -H2` prints
  /// them); more may be added after it.
  [[nodiscard]] std::string hex() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace plimsoll::files
