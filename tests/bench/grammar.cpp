// Grammars over a real vocabulary: time to compile a schema, and to compute the mask of a token.
//   grammar TOKENIZER_FOLDER < schemas.jsonl     (a JSON schema a line)
// Answers are random walks: each next token is drawn from the mask.
#include <algorithm>
#include <bit>
#include <chrono>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "grammar/compiler.h"
#include "grammar/matcher.h"

using namespace plimsoll;

namespace {

constexpr int kMostTokens = 200;  // of an answer

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

// Bits of a mask behind the vocabulary mean nothing.
text::TokenId draw(const std::vector<int32_t>& words, int64_t vocab_size, std::mt19937& random) {
  std::vector<text::TokenId> allowed;
  for (size_t word = 0; word < words.size(); ++word) {
    for (auto bits = static_cast<uint32_t>(words[word]); bits != 0; bits &= bits - 1) {
      allowed.push_back(static_cast<text::TokenId>(word * 32) + std::countr_zero(bits));
    }
  }
  while (!allowed.empty() && allowed.back() >= vocab_size) allowed.pop_back();
  return allowed.empty() ? -1 : allowed[random() % allowed.size()];
}

void print(const char* what, std::vector<double> values, const char* unit) {
  if (values.empty()) return;
  std::ranges::sort(values);
  const auto at = [&](size_t percent) { return values[(values.size() - 1) * percent / 100]; };
  std::cout << what << ": " << values.size() << ", median " << at(50) << ", 90 % " << at(90)
            << ", 99 % " << at(99) << ", most " << at(100) << " " << unit << "\n";
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: grammar TOKENIZER_FOLDER < schemas.jsonl\n";
    return 2;
  }
  const auto tokenizer = text::Tokenizer::load(arguments[1]);
  grammar::Compiler compiler(tokenizer, {.vocab_size = tokenizer.vocab_size()});
  std::mt19937 random(1);
  std::vector<double> compile, mask;
  int64_t refused = 0;
  (void)compiler.compile({.kind = grammar::Constraint::Kind::ebnf, .text = "root ::= \"a\""});
  for (std::string line; std::getline(std::cin, line);) {
    const auto start = std::chrono::steady_clock::now();
    std::shared_ptr<const grammar::CompiledGrammar> grammar;
    try {
      grammar = compiler.compile({.text = line});
    } catch (const Error&) {
      ++refused;
      continue;
    }
    compile.push_back(milliseconds_since(start));
    grammar::Matcher matcher(grammar, {static_cast<text::TokenId>(tokenizer.vocab_size() - 1)});
    std::vector<int32_t> words(matcher.mask_words());
    for (int i = 0; i < kMostTokens && !matcher.ended(); ++i) {
      const auto before = std::chrono::steady_clock::now();
      (void)matcher.fill_mask(words);
      mask.push_back(1000 * milliseconds_since(before));
      const text::TokenId token = draw(words, tokenizer.vocab_size(), random);
      if (token < 0) break;
      matcher.accept(token);
    }
  }
  std::cout << tokenizer.vocab_size() << " tokens; " << refused << " schemas refused\n";
  print("schemas compiled", compile, "ms");
  print("masks", mask, "us");
}
