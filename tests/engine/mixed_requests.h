// Requests of many kinds, and their answers as text to compare.
#pragma once

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/request.h"

namespace plimsoll::testing {

inline engine::Request greedy(uint64_t tag, std::vector<engine::TokenId> prompt,
                              int64_t max_tokens) {
  engine::Request request;
  request.tag = tag;
  request.key = std::to_string(tag);
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  return request;
}

/// Requests of every kind: greedy and sampled, alone and with choices, with and without logprobs,
/// penalties and truncation, some with a common beginning.
inline std::vector<engine::Request> mixed_requests(int64_t vocab_size) {
  std::mt19937 random(5);
  const auto token = [&] {
    return static_cast<engine::TokenId>(random() % static_cast<unsigned>(vocab_size));
  };
  std::vector<engine::TokenId> preamble(50);
  for (engine::TokenId& id : preamble) id = token();
  std::vector<engine::Request> requests;
  for (uint64_t tag = 0; tag < 36; ++tag) {
    engine::Request request;
    request.tag = tag;
    request.key = "line-" + std::to_string(tag);
    if (tag % 2 == 0) request.prompt = preamble;
    for (size_t i = 0; i < 1 + tag * 7 % 60; ++i) request.prompt.push_back(token());
    engine::SamplingParams& sampling = request.sampling;
    sampling.max_tokens = static_cast<int64_t>(5 + tag * 5 % 40);
    sampling.ignore_eos = true;
    sampling.temperature = tag % 3 == 0 ? 0 : 0.8;
    if (tag % 4 == 1) sampling.top_p = 0.9;
    if (tag % 5 == 1) sampling.top_k = 20;
    if (tag % 7 == 1) sampling.min_p = 0.05;
    if (tag % 6 == 2) sampling.repetition_penalty = 1.2;
    if (tag % 6 == 3) sampling.frequency_penalty = 0.3;
    if (tag % 8 == 5) sampling.seed = static_cast<int64_t>(tag);
    if (tag % 9 == 4) sampling.n = 3;
    if (tag % 4 == 2) sampling.logprobs = 3;
    if (tag % 6 == 0) sampling.prompt_logprobs = 1;
    if (tag % 7 == 3) sampling.min_tokens = 4;
    if (tag % 9 == 7) sampling.stop = {"a", "zq"};
    if (tag % 11 == 5) sampling.bad_words = {{token()}, {token(), token()}};
    if (tag % 12 == 9) sampling.ignore_eos = false;
    if (tag % 9 == 2) sampling.presence_penalty = 0.7;
    if (tag % 10 == 1) sampling.logit_bias = {{11, -4.5}, {42, 3}, {90, 1.25}};
    if (tag % 13 == 6) {
      for (engine::TokenId id = 80; id > 0; id -= 7) sampling.allowed_token_ids.push_back(id);
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

inline void print(std::string& to, const engine::PositionLogprobs& logprobs) {
  for (const engine::TokenLogprob& entry : logprobs) {
    uint32_t bits = 0;
    std::memcpy(&bits, &entry.logprob, 4);
    to += fmt::format(" {}:{:08x}:{}", entry.token, bits, entry.rank);
  }
  to += '\n';
}

/// All that a line's output is made of, floats by their bits.
inline std::string print(const engine::RequestOutput& output) {
  std::string text;
  for (const auto& entry : output.prompt_logprobs)
    print(text, entry.value_or(engine::PositionLogprobs{}));
  for (const engine::Completion& completion : output.completions) {
    text += fmt::format("{} {} {}:", completion.index, static_cast<int>(completion.finish),
                        completion.text);
    for (const engine::TokenId id : completion.token_ids) text += fmt::format(" {}", id);
    text += '\n';
    for (const engine::PositionLogprobs& entry : completion.logprobs) print(text, entry);
  }
  return text;
}

inline std::map<uint64_t, std::string> print_all(
    const std::map<uint64_t, engine::RequestOutput>& outputs) {
  std::map<uint64_t, std::string> texts;
  for (const auto& [tag, output] : outputs) {
    REQUIRE_FALSE(output.failure);
    texts[tag] = print(output);
  }
  return texts;
}

inline engine::EngineOptions options_with(int64_t sequences, int64_t tokens, int64_t blocks,
                                          DType dtype) {
  engine::EngineOptions options;
  options.dtype = dtype;
  options.max_model_len = 176;
  options.max_num_seqs = sequences;
  options.max_num_batched_tokens = tokens;
  options.num_kv_blocks = blocks;
  return options;
}

}  // namespace plimsoll::testing
