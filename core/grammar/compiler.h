// Grammars over the tokens of a vocabulary, compiled once for all sequences that follow them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "grammar/constraint.h"
#include "grammar/trial.h"
#include "text/tokenizer.h"

namespace plimsoll::grammar {

/// A grammar with xgrammar's tables over the vocabulary. Immutable; sequences share it.
class CompiledGrammar {
 public:
  struct Parts;  // xgrammar_parts.h
  explicit CompiledGrammar(std::unique_ptr<Parts> parts);
  ~CompiledGrammar();

  /// Checks a finished answer by the schema: empty where it is valid, or there is no schema; else
  /// what is wrong with it.
  [[nodiscard]] std::string refuse(std::string_view answer) const;
  /// True where an answer without any text is whole.
  [[nodiscard]] bool takes_empty_text() const;
  [[nodiscard]] size_t bytes() const;

 private:
  friend class Matcher;
  std::unique_ptr<Parts> parts_;
};

struct CompilerOptions {
  int64_t vocab_size = 0;  // of the model: at least as many as the masks have bits
  int threads = 1;         // that compile one grammar
  size_t cache_bytes = size_t{1} << 30;
  TrialLimits trial = {};  // of grammars that users write themselves
};

/// Compiles constraints and keeps the results, refusals too, by content: those used last, as far as
/// `cache_bytes` go. A user's EBNF is tried in a child process first (trial.h). Tables of the
/// vocabulary are made with the first constraint.
class Compiler {
 public:
  /// `tokenizer` must outlive this.
  Compiler(const text::Tokenizer& tokenizer, const CompilerOptions& options);
  ~Compiler();
  Compiler(const Compiler&) = delete;
  Compiler& operator=(const Compiler&) = delete;

  /// Throws Error(input_unusable) for a constraint that has no grammar, or too large a one.
  std::shared_ptr<const CompiledGrammar> compile(const Constraint& constraint);
  /// Constraints that were compiled or refused, each as often as it was not in the cache.
  [[nodiscard]] int64_t compiled() const { return compiled_; }
  /// Wall-clock seconds spent compiling.
  [[nodiscard]] double seconds() const { return seconds_; }

 private:
  struct Vocabulary;
  struct Entry {
    std::shared_ptr<const CompiledGrammar> grammar;  // null: refused
    std::string refusal;
    size_t bytes = 0;
    uint64_t last_use = 0;
  };

  [[nodiscard]] Entry make_entry(const Constraint& constraint);
  /// Drops entries that were not used for longest until the rest fits.
  void shrink();

  const text::Tokenizer& tokenizer_;
  CompilerOptions options_;
  std::unique_ptr<Vocabulary> vocabulary_;
  std::unordered_map<std::string, Entry> entries_;
  size_t bytes_ = 0;
  uint64_t uses_ = 0;
  int64_t compiled_ = 0;
  double seconds_ = 0;
};

}  // namespace plimsoll::grammar
