// The golden images, and the expected values for them.
#pragma once

#include <string>

#include "base/json.h"
#include "conformance/golden.h"
#include "image/decode.h"
#include "shard/sha256.h"

namespace plimsoll::testing {

/// The file's bytes; a plain clone has its images with those of the decoders' tests.
inline std::string golden_image(const std::filesystem::path& golden, const std::string& name) {
  const std::filesystem::path file = golden / "images" / name;
  return read_file(std::filesystem::exists(file) ? file : golden / ".." / "images" / name);
}

inline image::Bytes bytes_of(const std::string& file) {
  return {reinterpret_cast<const uint8_t*>(file.data()), file.size()};
}

/// SHA-256 of an array's little-endian bytes.
template <typename Values>
std::string sha256_of(const Values& values) {
  return shard::sha256_hex({reinterpret_cast<const char*>(values.data()),
                            values.size() * sizeof(typename Values::value_type)});
}

}  // namespace plimsoll::testing
