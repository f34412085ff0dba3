#include "grammar/compiler.h"

#include <fmt/format.h>
#include <xgrammar/matcher.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/error.h"
#include "grammar/trial.h"
#include "grammar/xgrammar_parts.h"

namespace plimsoll::grammar {
namespace {

constexpr int kMostThreads = 8;
// The tables of one grammar may take as much; what needs more is refused.
constexpr size_t kMostGrammarBytes = size_t{256} << 20;
// xgrammar keeps masks of rules here, which other grammars with such a rule take over: strings,
// numbers and spaces occur in nearly all.
constexpr int64_t kSharedMaskBytes = int64_t{384} << 20;

constexpr std::string_view kNameCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

/// The bytes of each token; special tokens are empty, which no grammar allows.
std::vector<std::string> byte_forms(const text::Tokenizer& tokenizer, int64_t vocab_size) {
  const int64_t count = std::min(tokenizer.vocab_size(), vocab_size);
  std::vector<std::string> forms(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const auto id = static_cast<text::TokenId>(i);
    if (!tokenizer.is_special(id)) forms[static_cast<size_t>(i)] = tokenizer.token_bytes(id);
  }
  return forms;
}

/// xgrammar's message without time and place: "[12:00:00] FILE:LINE: MESSAGE\n".
std::string bare_message(std::string_view text) {
  if (text.starts_with('[')) {
    const size_t place = text.find("] ");
    const size_t message = text.find(": ", place);
    if (message != std::string_view::npos) text.remove_prefix(message + 2);
  }
  while (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(text);
}

/// True where rules of a grammar may have bounds of their tokens or characters: NAME[max_tokens=9].
bool has_budgets(std::string_view ebnf) {
  return ebnf.find("max_tokens") != std::string_view::npos ||
         ebnf.find("max_chars") != std::string_view::npos;
}

/// True where a grammar that xgrammar has refused has rules as Lark writes them: "start: WORD".
bool looks_like_lark(std::string_view grammar) {
  if (grammar.find("::=") != std::string_view::npos) return false;
  for (size_t begin = 0; begin < grammar.size();) {
    const size_t end = std::min(grammar.find('\n', begin), grammar.size());
    const std::string_view line = grammar.substr(begin, end - begin);
    const size_t name = line.find_first_not_of("?! \t");
    const size_t behind = line.find_first_not_of(kNameCharacters, std::min(name, line.size()));
    if (behind != std::string_view::npos && behind > name && line[behind] == ':') return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

CompiledGrammar::CompiledGrammar(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
CompiledGrammar::~CompiledGrammar() = default;

std::string CompiledGrammar::refuse(std::string_view answer) const {
  return parts_->schema ? parts_->schema->refuse(answer) : std::string();
}

bool CompiledGrammar::takes_empty_text() const {
  return xgrammar::GrammarMatcher(parts_->compiled).IsCompleted();
}

size_t CompiledGrammar::bytes() const {
  return parts_->compiled.MemorySizeBytes();
}

struct Compiler::Vocabulary {
  Vocabulary(const text::Tokenizer& tokenizer, const CompilerOptions& options)
      : tokens(byte_forms(tokenizer, options.vocab_size), xgrammar::VocabType::RAW,
               static_cast<int>(options.vocab_size), std::vector<int32_t>()),
        compiler(tokens, std::min(options.threads, kMostThreads), /*cache_enabled=*/true,
                 kSharedMaskBytes),
        key_tokens(std::make_shared<const KeyTokens>(tokens.GetDecodedVocab())) {}

  xgrammar::TokenizerInfo tokens;
  xgrammar::GrammarCompiler compiler;
  std::shared_ptr<const KeyTokens> key_tokens;
};

Compiler::Compiler(const text::Tokenizer& tokenizer, const CompilerOptions& options)
    : tokenizer_(tokenizer), options_(options) {}
Compiler::~Compiler() = default;

std::shared_ptr<const CompiledGrammar> Compiler::compile(const Constraint& constraint) {
  std::string key = constraint.key();
  auto found = entries_.find(key);
  if (found == entries_.end()) {
    const auto start = std::chrono::steady_clock::now();
    Entry entry = make_entry(constraint);
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    entry.bytes += 2 * key.size();
    bytes_ += entry.bytes;
    found = entries_.emplace(std::move(key), std::move(entry)).first;
  }
  found->second.last_use = ++uses_;
  const Entry entry = found->second;
  shrink();
  if (!entry.grammar) throw Error(ExitCode::input_unusable, entry.refusal);
  return entry.grammar;
}

Compiler::Entry Compiler::make_entry(const Constraint& constraint) {
  ++compiled_;
  Entry entry;
  try {
    std::optional<JsonSchema> schema;
    if (constraint.kind == Constraint::Kind::schema) schema.emplace(constraint.text);
    const std::string ebnf = schema ? schema->ebnf(constraint.options) : constraint.ebnf();
    if (!vocabulary_) vocabulary_ = std::make_unique<Vocabulary>(tokenizer_, options_);
    if (constraint.kind == Constraint::Kind::ebnf) {
      const auto compile = [&] { (void)vocabulary_->compiler.CompileGrammar(ebnf); };
      const std::string refusal = try_in_child(compile, options_.trial);
      if (!refusal.empty()) fail(ExitCode::input_unusable, "the grammar {}", refusal);
    }
    auto grammar = std::make_shared<CompiledGrammar>(
        std::make_unique<CompiledGrammar::Parts>(CompiledGrammar::Parts{
            .compiled = vocabulary_->compiler.CompileGrammar(ebnf),
            .schema = std::move(schema),
            .key_tokens = constraint.is_json() ? vocabulary_->key_tokens : nullptr,
            .goes_back = constraint.kind != Constraint::Kind::ebnf || !has_budgets(ebnf),
            .text_bytes = std::ssize(ebnf)}));
    entry.bytes = grammar->bytes();
    if (entry.bytes > kMostGrammarBytes) {
      fail(ExitCode::input_unusable, "its grammar takes {} bytes, and at most {} are taken",
           entry.bytes, kMostGrammarBytes);
    }
    entry.grammar = std::move(grammar);
  } catch (const Error& error) {
    entry.refusal = error.what();
  } catch (const std::exception& error) {
    entry.refusal = bare_message(error.what());
    if (constraint.kind == Constraint::Kind::ebnf && looks_like_lark(constraint.text)) {
      entry.refusal += "; Lark's grammars are not read: write each rule as in root ::= \"a\" | b";
    }
  }
  if (!entry.grammar) entry.bytes = entry.refusal.size();
  return entry;
}

void Compiler::shrink() {
  while (bytes_ > options_.cache_bytes && entries_.size() > 1) {
    const auto oldest = std::ranges::min_element(
        entries_, {}, [](const auto& named) { return named.second.last_use; });
    bytes_ -= oldest->second.bytes;
    entries_.erase(oldest);
  }
}

}  // namespace plimsoll::grammar
