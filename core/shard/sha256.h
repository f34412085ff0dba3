// SHA-256, as 64 hexadecimal digits.
#pragma once

#include <string>

namespace plimsoll::shard {

std::string sha256_hex(const std::string& bytes);

}  // namespace plimsoll::shard
