// Whether a grammar takes a text: xgrammar's matcher over a vocabulary of the 256 bytes.
#pragma once

#include <xgrammar/xgrammar.h>

#include <string>
#include <vector>

namespace plimsoll::testing {

class Recognizer {
 public:
  explicit Recognizer(const std::string& ebnf) : grammar_(compiler().CompileGrammar(ebnf)) {}

  [[nodiscard]] bool accepts(const std::string& text) const {
    xgrammar::GrammarMatcher matcher(grammar_, std::nullopt, true);
    return matcher.AcceptString(text) && matcher.IsCompleted();
  }

 private:
  static xgrammar::GrammarCompiler& compiler() {
    static xgrammar::GrammarCompiler shared = [] {
      std::vector<std::string> bytes;
      for (int byte = 0; byte < 256; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
      bytes.emplace_back("</s>");
      return xgrammar::GrammarCompiler(
          xgrammar::TokenizerInfo(bytes, xgrammar::VocabType::RAW, 257, std::vector<int32_t>{256}),
          1, false);
    }();
    return shared;
  }

  xgrammar::CompiledGrammar grammar_;
};

}  // namespace plimsoll::testing
