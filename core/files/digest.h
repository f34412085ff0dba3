// Digests of files: XXH3 of 128 bits, which finds damage and mix-ups at the speed of memory. It
// does not protect against forgery, and nothing here needs that.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

struct XXH3_state_s;

namespace plimsoll::files {

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
