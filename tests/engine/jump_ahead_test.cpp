// Jump ahead: text that a grammar forces takes fewer steps, and no answer changes.
#include <catch2/catch.hpp>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/byte_tokenizer.h"
#include "engine/mixed_requests.h"
#include "engine/sampling/guide.h"
#include "engine/tiny_model.h"
#include "grammar/compiler.h"

using namespace plimsoll;
using namespace plimsoll::engine;
using testing::greedy;
using testing::options_with;
using testing::print_all;
using testing::run_all;
using testing::TinyModel;

namespace {

constexpr TokenId kEndOfAnswer = 256;

/// A tiny model, and grammars over bytes and some longer tokens, which cut forced text in several
/// ways.
struct Jumper {
  explicit Jumper(const std::string& name = "llama") : model(name) {}
  using Grammar = std::shared_ptr<const grammar::CompiledGrammar>;
  Grammar schema(const std::string& text) { return compiler.compile({.text = text}); }

  std::vector<Grammar> grammars() {
    using Kind = grammar::Constraint::Kind;
    return {schema(R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 9},
                       "glad": {"type": "boolean"}, "place": {"enum": ["here", "there"]}},
                       "required": ["name", "glad", "place"], "additionalProperties": false})"),
            schema(R"({"type": "array", "items": {"type": "object", "properties":
                       {"x": {"type": "integer", "maximum": 99}, "of": {"const": [null, "a b"]}},
                       "required": ["x", "of"], "additionalProperties": false}, "minItems": 3})"),
            schema(R"({"const": {"a": ["\u00e4", 1, {"b": "a longer text with words"}]}})"),
            compiler.compile({.kind = Kind::regex, .text = "(id-[0-9]{2} is done; ){4}"}),
            compiler.compile({.kind = Kind::choice, .choices = {"yes, sir", "yesterday"}})};
  }
  EngineOptions options(int64_t sequences, bool jumps) const {
    EngineOptions options = options_with(sequences, 128, 200, DType::f32);
    options.eos_token_ids = {kEndOfAnswer};
    options.jump_ahead = jumps;
    return options;
  }

  TinyModel model;
  text::Tokenizer tokenizer = testing::byte_tokenizer(
      model.folder(), {"\": ", "\":", ", ", ",\"", "na", "me", "place", "ere\"", "{\"", "\"}"});
  grammar::Compiler compiler{tokenizer, {.vocab_size = model.spec().vocab_size}};
};

/// Requests of every kind; most have a grammar, some think first.
std::vector<Request> requests_of(Jumper& at) {
  const auto grammars = at.grammars();
  std::vector<Request> requests = testing::mixed_requests(at.model.spec().vocab_size);
  for (Request& request : requests) {
    if (!request.sampling.allowed_token_ids.empty() || request.tag % 10 == 9) continue;
    request.sampling.grammar = grammars[request.tag % grammars.size()];
    request.sampling.max_tokens += 30;
    if (request.tag % 7 != 3) continue;
    request.sampling.thinking =
        std::make_shared<Thinking>(Thinking{.starts = {"<<"},
                                            .ends = {">>"},
                                            .pauses = {},
                                            .open = true,
                                            .budget = 3,
                                            .start_tokens = {{'<', '<'}},
                                            .end_tokens = {'>', '>', '\n'}});
  }
  return requests;
}

}  // namespace

TEST_CASE("forced text takes fewer steps and changes no bit of any kind of request") {
  const auto [name, sequences] =
      GENERATE(table<std::string, int64_t>({{"llama", 1}, {"llama", 12}, {"mistral_swa", 3}}));
  Jumper at(name);
  const std::vector<Request> requests = requests_of(at);
  const auto plain = at.model.engine(at.options(sequences, false), &at.tokenizer);
  const auto expected = print_all(run_all(*plain, requests));
  CHECK(plain->stats().forced_tokens == 0);
  EngineOptions options = at.options(sequences, true);
  options.threads = 2;
  if (sequences == 3) options.ngram = {8, 1, 4};
  const auto jumping = at.model.engine(options, &at.tokenizer);
  CHECK(print_all(run_all(*jumping, requests)) == expected);
  const EngineStats& stats = jumping->stats();
  INFO(name << ": " << stats.forced_tokens << " forced, " << stats.kept_forced_tokens << " kept, "
            << plain->stats().steps << " steps, now " << stats.steps);
  CHECK(stats.kept_forced_tokens > 100);
  CHECK(stats.forced_tokens >= stats.kept_forced_tokens);
  CHECK(stats.generated_tokens == plain->stats().generated_tokens);
  CHECK(stats.steps < plain->stats().steps);
  if (sequences != 3) CHECK(stats.drafted_tokens == 0);
}

TEST_CASE("a text that is forced to its end takes one step, but where states cannot go back") {
  const auto [name, expected] =
      GENERATE(table<std::string, uint64_t>({{"llama", 2}, {"mamba", 17}}));
  Jumper at(name);
  Request request = greedy(0, {5, 6, 7}, 100);
  request.sampling.grammar = at.compiler.compile(
      {.kind = grammar::Constraint::Kind::choice, .choices = {"of sixteen bytes"}});
  const auto steps = [&](bool jumps) {
    const auto engine = at.model.engine(at.options(1, jumps), &at.tokenizer);
    CHECK(run_all(*engine, {request}).at(0).completions.at(0).text == "of sixteen bytes");
    return engine->stats().steps;
  };
  CHECK(steps(false) == 17);
  CHECK(steps(true) == expected);
}

TEST_CASE("forced text is cut as its tokenizer cuts it; markers of reasoning are forced too") {
  Jumper at;
  SamplingParams params;
  params.grammar = at.grammars().front();
  Guide guide(params, {kEndOfAnswer});
  const auto foreseen = [&] {
    std::string text;
    for (const TokenId token : guide.foresee(at.tokenizer, 100)) {
      text += (text.empty() ? "" : "|") + at.tokenizer.token_bytes(token);
    }
    return text;
  };
  CHECK(foreseen() == R"({|"|n|a|m|e|"|:| |")");  // without merges
  for (const char byte : std::string(R"({"name": "x","glad": true,"place": "h)")) {
    guide.accept(static_cast<uint8_t>(byte));
  }
  CHECK(foreseen() == R"(e|r|e|"|})");

  // A tokenizer that begins every text with a space: none comes between.
  std::ifstream file(at.model.folder() / "tokenizer.json");
  Json json = Json::parse(file);
  json["pre_tokenizer"]["add_prefix_space"] = true;
  const auto spacing = text::Tokenizer::parse(json.dump(), "spacing");
  REQUIRE(spacing.encode("ere", text::AddSpecials::no).size() == 4);
  CHECK(guide.foresee(spacing, 100) == guide.foresee(at.tokenizer, 100));

  params.grammar = nullptr;
  params.thinking = std::make_shared<Thinking>(Thinking{.starts = {"<"},
                                                        .ends = {">"},
                                                        .pauses = {},
                                                        .open = true,
                                                        .budget = 1,
                                                        .start_tokens = {{'<'}},
                                                        .end_tokens = {'>', '\n'}});
  Guide reasoning(params, {kEndOfAnswer});
  CHECK(reasoning.foresee(at.tokenizer, 100).empty());
  reasoning.accept('a');
  CHECK(reasoning.foresee(at.tokenizer, 100) == std::vector<TokenId>{'>', '\n'});
}
