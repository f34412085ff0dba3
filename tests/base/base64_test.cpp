#include "base/base64.h"

#include <catch2/catch.hpp>
#include <string>

namespace plimsoll {
namespace {

std::optional<std::string> decoded(const std::string& text) {
  std::string bytes(base64_room(text.size()), '\0');
  const auto count = decode_base64(text, reinterpret_cast<uint8_t*>(bytes.data()));
  if (!count) return std::nullopt;
  REQUIRE(*count <= bytes.size());
  return bytes.substr(0, *count);
}

}  // namespace

TEST_CASE("base64 is decoded with its padding, blanks among it") {
  // RFC 4648, section 10.
  CHECK(decoded("") == "");
  CHECK(decoded("Zg==") == "f");
  CHECK(decoded("Zm8=") == "fo");
  CHECK(decoded("Zm9v") == "foo");
  CHECK(decoded("Zm9vYg==") == "foob");
  CHECK(decoded("Zm9vYmE=") == "fooba");
  CHECK(decoded("Zm9vYmFy") == "foobar");
  CHECK(decoded("++//") == "\xFB\xEF\xFF");
  CHECK(decoded("Zm9v\nYm Fy\r\n") == "foobar");
  CHECK(decoded("Z g = =") == "f");
}

TEST_CASE("bytes are written as base64 with its padding") {
  CHECK(encode_base64("").empty());
  CHECK(encode_base64("f") == "Zg==");
  CHECK(encode_base64("fo") == "Zm8=");
  CHECK(encode_base64("foo") == "Zm9v");
  CHECK(encode_base64("foobar") == "Zm9vYmFy");
  CHECK(encode_base64("\xFB\xEF\xFF") == "++//");
}

TEST_CASE("what is no base64 is told") {
  for (const char* text : {"Z", "Zg", "Zg=", "Zm8", "Zm9vY", "Zg===", "=",
                           "Zg==Zg==", "Zm9v=", "Z===", "Zm9-", "Zm_v", "Zm9vYm\xC3y", "Zm8=v"}) {
    INFO(text);
    CHECK_FALSE(decoded(text));
  }
}

}  // namespace plimsoll
