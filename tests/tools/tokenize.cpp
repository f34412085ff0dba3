// tokenize FOLDER_OR_FILE: one JSON string a line in, what the tokenizer makes of it out.
#include <fmt/format.h>

#include <iostream>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "text/tokenizer.h"

namespace {

void answer(const plimsoll::text::Tokenizer& tokenizer, const std::string& line) {
  using namespace plimsoll::text;
  const auto text = plimsoll::parse_json(line).get<std::string>();
  const auto special = tokenizer.encode(text, AddSpecials::yes);
  const auto plain = tokenizer.encode(text, AddSpecials::no);
  plimsoll::OrderedJson out;
  out["special"] = special;
  out["plain"] = plain;
  out["decoded"] = tokenizer.decode(plain, Specials::keep);
  out["decoded_skip"] = tokenizer.decode(special, Specials::skip);
  std::cout << out.dump() << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: tokenize FOLDER_OR_FILE < one JSON string a line\n");
    return 2;
  }
  try {
    const auto tokenizer = plimsoll::text::Tokenizer::load(argv[1]);
    std::string line;
    while (std::getline(std::cin, line)) {
      if (!line.empty()) answer(tokenizer, line);
    }
    return 0;
  } catch (const plimsoll::Error& error) {
    fmt::print(stderr, "tokenize: {}\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "tokenize: stdin: {}\n", error.what());
    return 4;
  }
}
