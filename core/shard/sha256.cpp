#include "shard/sha256.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <array>
#include <new>

namespace plimsoll::shard {

void Sha256::Free::operator()(evp_md_ctx_st* context) const {
  EVP_MD_CTX_free(context);
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (!context_ || EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1) {
    throw std::bad_alloc();
  }
}

void Sha256::add(const void* bytes, size_t count) {
  EVP_DigestUpdate(context_.get(), bytes, count);
}

std::string Sha256::hex() const {
  const Sha256 copy;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  if (EVP_MD_CTX_copy_ex(copy.context_.get(), context_.get()) != 1 ||
      EVP_DigestFinal_ex(copy.context_.get(), digest.data(), &length) != 1) {
    throw std::bad_alloc();
  }
  return fmt::format("{:02x}", fmt::join(digest.begin(), digest.begin() + length, ""));
}

std::string sha256_hex(const std::string& bytes) {
  Sha256 hash;
  hash.add(bytes.data(), bytes.size());
  return hash.hex();
}

}  // namespace plimsoll::shard
