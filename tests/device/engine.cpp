// The engine on a device: recorded steps, drawing, running ahead. In float32 the device says what
// the CPU says.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "backend/device.h"
#include "device/on_device.h"
#include "engine/byte_tokenizer.h"
#include "engine/mixed_requests.h"
#include "engine/tiny_model.h"
#include "grammar/compiler.h"
#include "kernels/runtime/device.h"

#ifdef PLIMSOLL_EMULATION
#include "emulation/card.h"
#include "emulation/streams.h"
#endif

using namespace plimsoll;
using namespace plimsoll::engine;
using testing::does_everything;
using testing::has_device;
using testing::may_do_everything;
using testing::mixed_requests;
using testing::options_with;
using testing::run_all;
using testing::TinyModel;
using testing::Tokens;
using testing::tokens_of;

namespace {

std::unique_ptr<backend::Backend> device_backend(bool deterministic = false) {
  return backend::make_device_backend({.index = 0, .threads = 2, .deterministic = deterministic});
}

/// The first `count` of the mixed requests, cut short.
std::vector<Request> short_requests(int64_t vocab_size, size_t count) {
  const bool all = does_everything();
  std::vector<Request> requests = mixed_requests(vocab_size);
  requests.resize(std::min(requests.size(), all ? count : 4));
  for (Request& request : requests) {
    request.sampling.max_tokens = std::min<int64_t>(request.sampling.max_tokens, all ? 12 : 4);
    request.prompt.resize(std::min<size_t>(request.prompt.size(), all ? 40 : 20));
  }
  return requests;
}

void check_same(const Tokens& found, const Tokens& expected) {
  for (const auto& [tag, tokens] : expected) {
    INFO("request " << tag);
    CHECK(found.at(tag) == tokens);
  }
}

}  // namespace

TEST_CASE("an engine on a device answers as one on the CPU") {
  if (!has_device()) return;
#ifdef PLIMSOLL_EMULATION
  // Values that the host changes or reads too early would show.
  emulation::set_streams(emulation::Streams::when_awaited);
  // Values that kernels read before they wait for the ones ahead would show, too.
  emulation::card = emulation::kHopper;
#endif
  for (const std::string name : {"llama", "mamba", "gemma2", "qwen3_5"}) {
    if (name != "llama" && name != "mamba" && !does_everything()) continue;
    TinyModel model(name);
    const std::vector<Request> requests = short_requests(model.spec().vocab_size, 14);
    EngineOptions alone = options_with(1, 64, 64, DType::f32);
    alone.prefix_caching = false;
    const Tokens expected = tokens_of(run_all(*model.engine(alone), requests));
    for (const bool recorded : {true, false}) {
      if (!recorded && !does_everything()) continue;
      INFO(name << (recorded ? ", recorded" : ", eager"));
      const auto device = device_backend();
      EngineOptions options = options_with(6, 48, 40, DType::f32);
      options.capture_sizes = recorded ? std::vector<int64_t>{1, 2, 4, 6} : std::vector<int64_t>{};
      const auto engine = model.engine_on(*device, options);
      CHECK(engine->plan().recorded_sizes.size() == options.capture_sizes->size());
      check_same(tokens_of(run_all(*engine, requests)), expected);
      CHECK(engine->stats().kv_blocks_used == 0);
      // No memory was taken from the device or pinned since the launch.
      CHECK(kernels::allocations_since_seal().device == 0);
      CHECK(kernels::allocations_since_seal().pinned == 0);
      CHECK(kernels::allocations_since_seal().kernels == 0);
    }
  }
#ifdef PLIMSOLL_EMULATION
  emulation::set_streams(emulation::Streams::at_once);
  emulation::card = {};
#endif
}

TEST_CASE("answers by grammars are drawn on a device as on the CPU") {
  if (!has_device()) return;
  TinyModel model("llama");
  const text::Tokenizer tokenizer =
      testing::byte_tokenizer(model.folder(), {"yes", "123", "ab", "{}", "\":"});
  grammar::Compiler compiler(tokenizer, {.vocab_size = model.spec().vocab_size});
  const auto integers =
      compiler.compile({.kind = grammar::Constraint::Kind::schema,
                        .text = R"({"type":"object","additionalProperties":{"type":"integer"}})"});
  const auto words =
      compiler.compile({.kind = grammar::Constraint::Kind::regex, .text = "(yes|no|[ab]{2,9})"});
  std::vector<Request> requests = short_requests(model.spec().vocab_size, 8);
  for (Request& request : requests) {
    if (!request.sampling.allowed_token_ids.empty() || request.tag % 4 == 3) continue;
    request.sampling.grammar = request.tag % 2 == 0 ? integers : words;
    request.sampling.logprobs.reset();  // the host would draw
  }
  EngineOptions alone = options_with(1, 64, 64, DType::f32);
  alone.eos_token_ids = {256};
  alone.prefix_caching = false;
  const Tokens expected = tokens_of(run_all(*model.engine(alone, &tokenizer), requests));
#ifdef PLIMSOLL_EMULATION
  emulation::set_streams(emulation::Streams::when_awaited);
  emulation::card = emulation::kHopper;
#endif
  const auto device = device_backend();
  EngineOptions options = options_with(6, 48, 40, DType::f32);
  options.eos_token_ids = {256};
  options.capture_sizes = std::vector<int64_t>{1, 2, 4, 6};
  check_same(tokens_of(run_all(*model.engine_on(*device, options, &tokenizer), requests)),
             expected);
  CHECK(kernels::allocations_since_seal().device == 0);
#ifdef PLIMSOLL_EMULATION
  emulation::set_streams(emulation::Streams::at_once);
  emulation::card = {};
#endif
}

TEST_CASE("a deterministic engine on a device gives a line the same tokens in any batch",
          "[everything]") {
  if (!may_do_everything()) return;
  TinyModel model("llama");
  const std::vector<Request> requests = short_requests(model.spec().vocab_size, 8);
  const auto run = [&](int64_t sequences, int64_t tokens) {
    const auto device = device_backend(true);
    EngineOptions options = options_with(sequences, tokens, 60, DType::bf16);
    options.capture_sizes = std::vector<int64_t>{4};
    return tokens_of(run_all(*model.engine_on(*device, options), requests));
  };
  check_same(run(5, 37), run(1, 64));
}

TEST_CASE("a cache of fp8 answers", "[everything]") {
  if (!may_do_everything()) return;
  TinyModel model("llama");
  const std::vector<Request> requests = short_requests(model.spec().vocab_size, 3);
  const auto device = device_backend();
  EngineOptions options = options_with(4, 64, 60, DType::bf16);
  options.kv_dtype = DType::f8_e4m3;
  options.capture_sizes = std::vector<int64_t>{};
  const auto engine = model.engine_on(*device, options);
  CHECK(engine->plan().kv_block_bytes * 2 ==
        model.engine_on(*device_backend(), options_with(4, 64, 60, DType::bf16))
            ->plan()
            .kv_block_bytes);
  CHECK(tokens_of(run_all(*engine, requests)).size() == requests.size());
}
