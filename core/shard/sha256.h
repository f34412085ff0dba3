// SHA-256, incrementally.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

struct evp_md_ctx_st;

namespace plimsoll::shard {

class Sha256 {
 public:
  Sha256();
  void add(const void* bytes, size_t count);
  /// 64 hexadecimal digits of all bytes so far; more may be added after it.
  [[nodiscard]] std::string hex() const;

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

std::string sha256_hex(const std::string& bytes);

}  // namespace plimsoll::shard
