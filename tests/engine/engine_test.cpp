#include "engine/engine.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/byte_tokenizer.h"
#include "engine/mixed_requests.h"
#include "engine/tiny_model.h"

using namespace plimsoll;
using namespace plimsoll::engine;
using testing::greedy;
using testing::run_all;
using testing::spoil_row;
using testing::TinyModel;

namespace {

using Ids = std::vector<TokenId>;

EngineOptions small_options() {
  EngineOptions options;
  options.dtype = DType::f32;
  options.max_model_len = 256;
  options.max_num_seqs = 8;
  options.max_num_batched_tokens = 64;
  options.num_kv_blocks = 200;
  return options;
}

RequestOutput only(const std::map<uint64_t, RequestOutput>& outputs) {
  REQUIRE(outputs.size() == 1);
  return outputs.begin()->second;
}

}  // namespace

TEST_CASE("the engine answers as transformers does") {
  const std::string name = GENERATE("llama", "mistral_swa", "phi3_longrope");
  TinyModel model(name);
  EngineOptions options = small_options();
  options.max_num_batched_tokens = 24;
  const auto engine = model.engine(options);
  const Json golden = read_json_file(TinyModel::recipe(name) / "golden.json");
  std::vector<Request> requests;
  for (const Json& from : golden.at("cases")) {
    requests.push_back(greedy(requests.size(), from.at("prompt_token_ids").get<Ids>(), 24));
    requests.back().sampling.prompt_logprobs = 0;
  }
  const auto outputs = run_all(*engine, requests);
  for (const auto& [tag, output] : outputs) {
    INFO(name << " case " << tag);
    REQUIRE_FALSE(output.failure);
    const Json& expected = golden.at("cases").at(tag);
    const auto logprobs = expected.at("prompt_logprobs").get<std::vector<double>>();
    REQUIRE(output.prompt_logprobs.size() == logprobs.size() + 1);
    CHECK_FALSE(output.prompt_logprobs[0]);
    for (size_t i = 0; i < logprobs.size(); ++i) {
      const TokenLogprob& found = output.prompt_logprobs[i + 1]->at(0);
      REQUIRE(found.token == requests[tag].prompt[i + 1]);
      REQUIRE(std::abs(static_cast<double>(found.logprob) - logprobs[i]) <
              5e-4 + 5e-5 * std::abs(logprobs[i]));
    }
    const auto ids = expected.at("greedy_token_ids").get<Ids>();
    const auto margins = expected.at("greedy_margins").get<std::vector<double>>();
    for (size_t i = 0; i < ids.size() && margins[i] >= 0.005; ++i) {
      REQUIRE(output.completions[0].token_ids[i] == ids[i]);
    }
  }
}

TEST_CASE("requests that can never run come back failed, the others run") {
  TinyModel model("llama");
  EngineOptions options = small_options();
  options.max_model_len = 32;
  const auto engine = model.engine(options);
  std::vector<Request> requests = {greedy(0, Ids(32, 5), 4), greedy(1, {}, 4),   greedy(2, {5}, 0),
                                   greedy(3, {5, 1003}, 4),  greedy(4, {-1}, 4), greedy(5, {5}, 4),
                                   greedy(6, Ids(31, 5), 4)};
  requests[5].sampling.stop_token_ids = {5000};
  const auto outputs = run_all(*engine, requests);
  const auto code = [&](uint64_t tag) { return outputs.at(tag).failure.value().code; };
  CHECK(code(0) == "context_too_long");
  CHECK(outputs.at(0).failure->message.find("32 tokens") != std::string::npos);
  for (uint64_t tag = 1; tag <= 5; ++tag) CHECK(code(tag) == "bad_field");
  CHECK(outputs.at(3).failure->message.find("1003") != std::string::npos);
  REQUIRE_FALSE(outputs.at(6).failure);
  // max_tokens is cut to the room that is left.
  CHECK(outputs.at(6).completions[0].token_ids.size() == 1);
  CHECK(outputs.at(6).completions[0].finish == FinishReason::length);
}

TEST_CASE("NaN costs the request that it happens in") {
  TinyModel model("llama");
  spoil_row(model.folder() / "model.safetensors", "model.embed_tokens.weight", 77,
            model.spec().hidden_size);
  model.open();
  const auto engine = model.engine(small_options());
  std::vector<Request> requests = {greedy(0, {5, 6, 77, 8}, 4), greedy(1, {5, 6, 7, 8}, 4),
                                   greedy(2, {77}, 4), greedy(3, {9, 77, 9}, 4)};
  requests[0].sampling.n = 3;
  requests[3].sampling.prompt_logprobs = 1;
  const auto outputs = run_all(*engine, requests);
  REQUIRE(outputs.size() == 4);
  CHECK(outputs.at(0).failure.value().code == "numeric");
  CHECK(outputs.at(0).completions.empty());
  CHECK_FALSE(outputs.at(1).failure);
  CHECK(outputs.at(2).failure.value().code == "numeric");
  CHECK(outputs.at(3).failure.value().code == "numeric");
  CHECK(engine->stats().running == 0);
  CHECK(engine->stats().kv_blocks_used == 0);
}

TEST_CASE("longrope's table is chosen by how long the answer may become, not by the prompt alone") {
  TinyModel model("phi3_longrope");  // the short table holds up to 64 tokens
  Ids prompt(16);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<TokenId>(5 + 7 * i);
  Ids longer = prompt;
  longer.resize(76, 9);
  std::vector<Request> requests = {greedy(0, prompt, 40), greedy(1, prompt, 48),
                                   greedy(2, prompt, 49), greedy(3, longer, 1)};
  for (Request& request : requests) request.sampling.prompt_logprobs = 0;
  const auto outputs = run_all(*model.engine(small_options()), requests);
  const auto logprobs = [&](uint64_t tag) {
    std::vector<float> values;
    for (size_t i = 1; i < prompt.size(); ++i)
      values.push_back(outputs.at(tag).prompt_logprobs.at(i)->at(0).logprob);
    return values;
  };
  CHECK(logprobs(0) == logprobs(1));
  CHECK(logprobs(2) == logprobs(3));
  CHECK(logprobs(1) != logprobs(2));
}

TEST_CASE("a decoder that gives up costs the request that it happens in") {
  TinyModel model("llama");
  const Request request = greedy(0, {5, 6, 7, 8}, 4);
  const TokenId first =
      only(run_all(*model.engine(small_options()), {request})).completions[0].token_ids[0];
  // The token that the model answers with spells what the decoder's pattern cannot cope with.
  Json vocabulary = Json::object();
  for (TokenId id = 0; id < 1000; ++id)
    vocabulary[id == first ? std::string(60, 'a') + "!" : std::to_string(id)] = id;
  const Json file = {
      {"decoder", {{"type", "Replace"}, {"pattern", {{"Regex", "(a|aa)+$"}}}, {"content", ""}}},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
  const testing::TemporaryFolder folder("decoder");
  std::ofstream(folder.path() / "tokenizer.json") << file.dump();
  const text::Tokenizer tokenizer = text::Tokenizer::load(folder.path() / "tokenizer.json");
  const auto engine = model.engine(small_options(), &tokenizer);
  Request without_text = greedy(1, {5, 6, 7, 8}, 4);
  without_text.sampling.detokenize = false;
  const auto outputs = run_all(*engine, {request, without_text});
  REQUIRE(outputs.size() == 2);
  CHECK(outputs.at(0).failure.value().code == "tokenizer_error");
  CHECK(outputs.at(0).failure->message.find("(a|aa)+$") != std::string::npos);
  CHECK_FALSE(outputs.at(1).failure);
  CHECK(engine->stats().running == 0);
  CHECK(engine->stats().kv_blocks_used == 0);
}

TEST_CASE("choices end as vLLM's do") {
  TinyModel model("llama");
  EngineOptions options = small_options();
  const Ids prompt = {17, 23, 42, 99};
  const Ids answer =
      only(run_all(*model.engine(options), {greedy(0, prompt, 8)})).completions[0].token_ids;
  REQUIRE(answer.size() == 8);
  REQUIRE(answer[2] != answer[0]);
  REQUIRE(answer[2] != answer[1]);
  Request request = greedy(0, prompt, 8);
  request.sampling.ignore_eos = false;
  const Ids until_third(answer.begin(), answer.begin() + 3);
  const auto completion = [&] {
    return only(run_all(*model.engine(options), {request})).completions[0];
  };
  SECTION("at an end-of-sequence token, without a reason") {
    options.eos_token_ids = {answer[2]};
    request.sampling.stop_token_ids = {answer[2]};
    const Completion found = completion();
    CHECK(found.token_ids == until_third);
    CHECK(found.finish == FinishReason::stop);
    CHECK_FALSE(found.stop_token);
  }
  SECTION("at a stop token, which is the reason") {
    request.sampling.stop_token_ids = {answer[2]};
    const Completion found = completion();
    CHECK(found.token_ids == until_third);
    CHECK(found.finish == FinishReason::stop);
    CHECK(found.stop_token == answer[2]);
  }
  SECTION("not at end-of-sequence when that is to be ignored") {
    options.eos_token_ids = {answer[2]};
    request.sampling.ignore_eos = true;
    CHECK(completion().token_ids == answer);
  }
  SECTION("not before min_tokens") {
    options.eos_token_ids = {answer[2]};
    request.sampling.min_tokens = 3;
    const Completion found = completion();
    CHECK(found.token_ids.size() >= 3);
    CHECK(found.token_ids[2] != answer[2]);
  }
  SECTION("at max_tokens") {
    request.sampling.max_tokens = 3;
    const Completion found = completion();
    CHECK(found.token_ids == until_third);
    CHECK(found.finish == FinishReason::length);
  }
}

TEST_CASE("choices share the blocks of their prompt") {
  TinyModel model("llama");
  const auto engine = model.engine(small_options());
  Ids prompt;
  for (TokenId i = 0; i < 100; ++i) prompt.push_back(100 + i);
  Request request = greedy(0, prompt, 5);
  request.sampling.temperature = 1;
  request.sampling.n = 4;
  request.sampling.logprobs = 2;
  request.sampling.prompt_logprobs = 0;
  const RequestOutput output = only(run_all(*engine, {request}));
  REQUIRE(output.completions.size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(output.completions[i].index == static_cast<int64_t>(i));
    CHECK(output.completions[i].token_ids.size() == 5);
    CHECK(output.completions[i].logprobs.size() == 5);
    for (const PositionLogprobs& each : output.completions[i].logprobs) CHECK(each.size() >= 2);
  }
  CHECK(output.completions[0].token_ids != output.completions[1].token_ids);
  CHECK(output.prompt_logprobs.size() == 100);
  for (size_t i = 1; i < 100; ++i) CHECK(output.prompt_logprobs[i]->size() == 1);
  CHECK(output.cached_tokens == 0);
  // 6 of the prompt's 7 blocks are shared; a choice's own are its seventh and none after it.
  CHECK(engine->stats().kv_blocks_peak <= 6 + 4);
  CHECK(engine->stats().cached_prompt_tokens == 3 * 96);
  CHECK(engine->stats().generated_tokens == 20);
}

TEST_CASE("log probabilities are those of the raw logits") {
  TinyModel model("llama");
  const auto engine = model.engine(small_options());
  Request plain = greedy(0, {3, 4, 5}, 1);
  plain.sampling.logprobs = -1;
  Request adjusted = plain;
  adjusted.tag = 1;
  adjusted.sampling.temperature = 0.5;
  adjusted.sampling.logit_bias = {{7, 100}};
  const auto outputs = run_all(*engine, {plain, adjusted});
  const PositionLogprobs& all = outputs.at(0).completions[0].logprobs.at(0);
  CHECK(static_cast<int64_t>(all.size()) == model.spec().vocab_size);
  double sum = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    sum += std::exp(static_cast<double>(all[i].logprob));
    CHECK(all[i].rank == static_cast<int64_t>(i) + 1);
  }
  CHECK(sum == Approx(1).margin(1e-5));
  const Completion& biased = outputs.at(1).completions[0];
  CHECK(biased.token_ids == Ids{7});
  const TokenLogprob& seven = biased.logprobs.at(0).at(0);
  CHECK(seven.token == 7);
  CHECK(seven.rank > 1);
  CHECK(seven.logprob < 0);
}

TEST_CASE("a stop string that a cut answer's last, broken character makes is why it ended") {
  TinyModel model("llama");
  const text::Tokenizer tokenizer = testing::byte_tokenizer(model.folder());
  constexpr TokenId kHalf = 0xc3;
  const std::string broken = "\xef\xbf\xbd";
  Request request = greedy(0, {5, 6, 7}, 1);
  request.sampling.allowed_token_ids = {kHalf};
  const auto completion = [&] {
    return only(run_all(*model.engine(small_options(), &tokenizer), {request})).completions[0];
  };
  CHECK(completion().finish == FinishReason::length);
  CHECK(completion().text == broken);
  request.sampling.stop = {broken};
  const Completion cut = completion();
  CHECK(cut.finish == FinishReason::stop);
  CHECK(cut.stop_string == broken);
  CHECK(cut.text.empty());
  // Where a stop token ends the answer too, the string is named.
  request.sampling.stop_token_ids = {kHalf};
  CHECK(completion().stop_token == kHalf);  // it is no part of the text
  request.sampling.include_stop_str_in_output = true;
  const Completion both = completion();
  CHECK(both.stop_string == broken);
  CHECK_FALSE(both.stop_token);
}
