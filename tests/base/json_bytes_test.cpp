// Texts that are not UTF-8 in JSON.
#include <catch2/catch.hpp>

#include "base/json_bytes.h"

using namespace plimsoll;

TEST_CASE("texts and keys that are not UTF-8 come back from JSON as they were") {
  const std::string marked(kBytesMark);
  for (const std::string& text : {std::string("plain \u00fc"),
                                  std::string("b\xff"
                                              "d"),
                                  marked, marked + "zz", std::string("\xc3"), std::string()}) {
    INFO(text);
    const OrderedJson value = {{"a", {text, 1, nullptr}}, {text + "k", {{"b", text}}}};
    const std::string stored = with_texts(value, text_or_bytes).dump();
    CHECK(with_texts(OrderedJson::parse(stored), text_of_bytes) == value);
  }
  CHECK(shown_text("b\xff") == "b\uFFFD");
  CHECK(text_or_bytes("plain") == "plain");
}
