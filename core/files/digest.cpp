#include "files/digest.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>

namespace plimsoll::files {

uint64_t xxh3(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

void Digest::Free::operator()(XXH3_state_s* state) const {
  XXH3_freeState(state);
}

Digest::Digest() : state_(XXH3_createState()) {
  if (!state_ || XXH3_128bits_reset(state_.get()) != XXH_OK) throw std::bad_alloc();
}

void Digest::add(const void* bytes, size_t count) {
  if (count > 0) XXH3_128bits_update(state_.get(), bytes, count);
}

std::string Digest::hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace plimsoll::files
