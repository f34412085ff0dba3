// Shards of any ranks give the engine the same weights, and so the same answers, as the checkpoint
// that they were cut from.
#include <catch2/catch.hpp>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "batch/scratch.h"
#include "checkpoint/resolve_model.h"
#include "conformance/cpu.h"
#include "conformance/golden.h"
#include "engine/engine.h"
#include "model/config.h"
#include "reference/recipe.h"
#include "shard/shard_reader.h"
#include "shard/writer.h"

namespace plimsoll::shard {
namespace {

namespace fs = std::filesystem;

std::string bytes_of(const checkpoint::WeightSource& source, const model::WeightSpec& weight,
                     DType dtype) {
  std::string bytes(static_cast<size_t>(weight.elements()) * dtype_size(dtype), '\xee');
  // Rows are read in uneven runs, so that they begin and end inside pieces.
  const int64_t rows = weight.matrices() * weight.rows();
  const size_t row_bytes = static_cast<size_t>(weight.columns()) * dtype_size(dtype);
  for (int64_t first = 0, count = 1; first < rows; first += count, count = count * 3 + 1) {
    count = std::min(count, rows - first);
    source.read_rows(weight, first, count, dtype,
                     bytes.data() + static_cast<size_t>(first) * row_bytes);
  }
  return bytes;
}

/// Bytes of a weight put together from blocks of columns.
std::string bytes_by_blocks(const checkpoint::WeightSource& source, const model::WeightSpec& weight,
                            DType dtype) {
  std::string bytes(static_cast<size_t>(weight.elements()) * dtype_size(dtype), '\xee');
  const int64_t rows = weight.matrices() * weight.rows();
  const auto element = static_cast<int64_t>(dtype_size(dtype));
  const int64_t columns = weight.columns();
  for (int64_t first = 0, count = 1; first < columns; first += count, count = count * 3 + 1) {
    count = std::min(count, columns - first);
    std::string block(static_cast<size_t>(rows * count * element), '\xee');
    source.read_block(weight, {0, rows, first, count}, dtype, block.data());
    for (int64_t row = 0; row < rows; ++row) {
      bytes.replace(static_cast<size_t>((row * columns + first) * element),
                    static_cast<size_t>(count * element), block,
                    static_cast<size_t>(row * count * element),
                    static_cast<size_t>(count * element));
    }
  }
  return bytes;
}

void check_weights(const model::ModelSpec& spec, const checkpoint::WeightSource& expected,
                   const checkpoint::WeightSource& found, DType dtype) {
  for (const model::WeightSpec& weight : spec.weights) {
    INFO("weight " << weight.name);
    const DType own = weight.dtype.value_or(dtype);
    const std::string bytes = bytes_of(expected, weight, own);
    CHECK(bytes_of(found, weight, own) == bytes);
    CHECK(bytes_by_blocks(expected, weight, own) == bytes);
    CHECK(bytes_by_blocks(found, weight, own) == bytes);
  }
}

/// Greedy tokens and their log probabilities, as a text that shows every bit.
std::string answer(const model::ModelSpec& spec, const checkpoint::WeightSource& weights,
                   DType dtype) {
  const auto cpu = testing::cpu_backend();
  engine::EngineOptions options;
  options.dtype = dtype;
  options.max_model_len = 32;
  options.max_num_seqs = 2;
  options.num_kv_blocks = 200;
  engine::Engine engine(spec, weights, *cpu, nullptr, options);
  engine::Request request;
  request.prompt = {5, 17, 300, 41, 8};
  request.sampling.temperature = 0;
  request.sampling.max_tokens = 12;
  request.sampling.ignore_eos = true;
  request.sampling.logprobs = 3;
  request.sampling.detokenize = false;
  engine.add(std::move(request));
  std::vector<engine::RequestOutput> finished;
  while (!engine.idle()) engine.step(finished);
  std::string text;
  for (const engine::PositionLogprobs& position : finished.at(0).completions.at(0).logprobs) {
    for (const engine::TokenLogprob& token : position) {
      text += fmt::format("{} {:a}; ", token.token, token.logprob);
    }
  }
  return text;
}

/// Whether all weights have the run's dtype.
bool is_uniform(const model::ModelSpec& spec) {
  return std::ranges::none_of(spec.weights,
                              [](const auto& weight) { return weight.dtype.has_value(); });
}

void check_model(const fs::path& recipe) {
  const test::Scratch scratch;
  const fs::path folder = scratch.path("model");
  testing::write_checkpoint(recipe, folder);
  const Source source(folder);
  const model::ModelSpec& spec = source.spec();
  const checkpoint::WeightReader reader(source.checkpoint(), spec);
  const DType dtype = source.dtype();
  const std::string expected = answer(spec, reader, dtype);
  REQUIRE(expected.size() > 100);
  struct Ranks {
    int64_t tensor, pipeline;
  };
  for (const Ranks ranks : {Ranks{1, 1}, Ranks{2, 1}, Ranks{4, 1}, Ranks{2, 2}}) {
    INFO("-tp " << ranks.tensor << " -pp " << ranks.pipeline);
    const fs::path out = scratch.path(fmt::format("out{}{}", ranks.tensor, ranks.pipeline));
    std::optional<Job> job;
    try {
      job.emplace(source, JobOptions{.tensor_parallel = ranks.tensor,
                                     .pipeline_parallel = ranks.pipeline,
                                     .dtype = std::string(torch_name(dtype)),
                                     .max_file_size = 100'000});
    } catch (const Error& error) {
      const std::string_view why = error.what();
      const bool known = why.find("vLLM refuses it too") != std::string_view::npos ||
                         why.find("vLLM 0.32 fails to load stages") != std::string_view::npos;
      if (!known) throw;
      continue;
    }
    write_shards(*job, out, {.tool_version = "test"});
    for (const bool with_sidecar : {true, false}) {
      if (!with_sidecar) fs::remove(out / kSidecar);  // as vLLM leaves them
      const ShardReader shards(out, spec, {});
      CHECK(shards.tensor_parallel() == ranks.tensor);
      if (is_uniform(spec)) CHECK(shards.dtype() == dtype);
      check_weights(spec, reader, shards, with_sidecar ? dtype : DType::f32);
      if (with_sidecar) CHECK(answer(spec, shards, dtype) == expected);
    }
    fs::remove_all(out);
  }
}

constexpr auto kWhole = quantization::Activations::whole;

/// The engine's answer from shards of a quantized model, for one number of ranks; nothing where
/// `shard` refuses to cut it.
std::optional<std::string> quantized_answer(const Source& source, int64_t ranks,
                                            const test::Scratch& scratch) {
  const fs::path out = scratch.path(fmt::format("out{}", ranks));
  const std::string dtype(torch_name(source.dtype()));
  std::optional<Job> job;
  try {
    job.emplace(source, JobOptions{.tensor_parallel = ranks, .dtype = dtype});
    write_shards(*job, out, {.tool_version = "test"});
    model::ModelSpec spec = model::read_model_folder(out).spec;
    const ShardReader shards(out, model::read_config(out), {}, kWhole, spec);
    return answer(spec, shards, source.dtype());
  } catch (const Error& error) {
    const bool known = error.code() == ExitCode::usage ||
                       std::string_view(error.what()).find("do not join") != std::string::npos;
    if (!known) throw;
    return std::nullopt;
  }
}

/// How many numbers of ranks the model was run from; none where no shards of its kind are known.
int check_quantized(const fs::path& recipe) {
  const test::Scratch scratch;
  const fs::path folder = scratch.path("model");
  testing::write_checkpoint(recipe, folder);
  std::optional<Source> source;
  try {
    source.emplace(folder);
  } catch (const Error&) {
    return 0;
  }
  model::ModelSpec spec = model::read_model_folder(folder).spec;
  const auto checkpoint = checkpoint::Checkpoint::open(folder);
  checkpoint::resolve_kept(model::read_config(folder), &checkpoint, {.activations = kWhole}, spec);
  const checkpoint::WeightReader reader(checkpoint, spec);
  const std::string expected = answer(spec, reader, source->dtype());
  REQUIRE(expected.size() > 100);
  int count = 0;
  for (const int64_t ranks : {1, 2, 4}) {
    INFO(ranks << " ranks");
    const auto found = quantized_answer(*source, ranks, scratch);
    if (found) CHECK(*found == expected);
    count += found ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("a run from shards of quantized weights is the run from their source, bit for bit") {
  const auto golden = testing::golden_folder();
  if (!golden) {
    WARN("skipped: no folder of golden results");
    return;
  }
  int runs = 0;
  for (const auto& entry : fs::directory_iterator(*golden / "quantized")) {
    if (!fs::exists(entry.path() / "recipe.json")) continue;
    INFO("model " << entry.path().filename());
    const int count = check_quantized(entry.path());
    fmt::print("{:<28} run from shards of {} numbers of ranks\n", entry.path().filename().string(),
               count);
    runs += count;
  }
  CHECK(runs >= 35);
}

TEST_CASE("a run from shards is the run from their source, bit for bit") {
  const fs::path own = fs::path(PLIMSOLL_SOURCE_DIR) / "tests/data/golden";
  size_t models = 0;
  for (const auto& entry :
       fs::directory_iterator(testing::golden_folder().value_or(own) / "models")) {
    if (!fs::exists(entry.path() / "recipe.json")) continue;
    INFO("model " << entry.path().filename());
    check_model(entry.path());
    ++models;
  }
  CHECK(models > 0);
}

}  // namespace plimsoll::shard
