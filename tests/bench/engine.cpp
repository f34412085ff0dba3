// Tokens per second of the whole engine on the CPU, on a random bf16 model of Llama-3.2-1B's shape
// with 32,768 tokens, as shares of roofs measured in the same run; or of a checkpoint, one kind of
// work and no roofs (beside_llama_cpp):
//   engine [--threads N] [--isa NAME] [--rounds N]
//   engine --model FOLDER [--sequences N] [--prompt N] [--generated N] ...
#include <fmt/format.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "bench/support/random_checkpoint.h"
#include "bench/support/roofs.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/read_model.h"
#include "checkpoint/resolve_model.h"
#include "engine/engine.h"
#include "model/config.h"

namespace plimsoll::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kConfig = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
  "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
  "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "hidden_act": "silu",
  "vocab_size": 32768, "max_position_embeddings": 8192, "rms_norm_eps": 1e-05,
  "rope_theta": 500000.0, "tie_word_embeddings": true, "eos_token_id": 2})";

struct Options {
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  std::string isa{isa_name(backend::detect_isa())};
  int rounds = 3;
  std::string model;
  quantization::Activations activations = quantization::Activations::rounded;
  int sequences = 1, prompt = 8, generated = 48;
};

/// Bytes of all weights, and floating-point operations for one token through all matrices but the
/// head.
struct Work {
  double bytes = 0;
  double flops = 0;

  explicit Work(const model::ModelSpec& spec) {
    for (size_t i = 0; i < spec.weights.size(); ++i) {
      const auto elements = static_cast<double>(spec.weights[i].elements());
      bytes += 2 * elements;
      if (spec.weights[i].use == model::WeightUse::linear &&
          static_cast<model::WeightId>(i) != spec.head)
        flops += 2 * elements;
    }
  }
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Seconds of the prefill of `sequences` prompts, and of one decoding step of them all.
struct Times {
  double prefill = 0;
  double decode = 0;
};

Times run(engine::Engine& engine, int sequences, int prompt, int generated) {
  static uint64_t tag = 0;
  for (int s = 0; s < sequences; ++s) {
    engine::Request request;
    request.tag = ++tag;
    request.sampling.temperature = 0;
    request.sampling.ignore_eos = true;
    request.sampling.detokenize = false;
    request.sampling.max_tokens = generated;
    for (int i = 0; i < prompt; ++i)
      request.prompt.push_back(static_cast<int32_t>((tag * 7919 + uint64_t(i) * 104729) % 32768));
    engine.add(std::move(request));
  }
  std::vector<engine::RequestOutput> finished;
  Times times;
  const uint64_t before = engine.stats().generated_tokens;
  auto start = Clock::now();
  while (engine.stats().generated_tokens - before < static_cast<uint64_t>(sequences))
    engine.step(finished);
  times.prefill = seconds_since(start);
  start = Clock::now();
  int steps = 0;
  for (; !engine.idle(); ++steps) engine.step(finished);
  times.decode = seconds_since(start) / std::max(1, steps);
  for (const engine::RequestOutput& output : finished)
    if (output.failure) throw std::runtime_error(output.failure->message);
  return times;
}

Times best_of(int rounds, engine::Engine& engine, int sequences, int prompt, int generated) {
  Times best{1e30, 1e30};
  for (int i = 0; i < rounds; ++i) {
    const Times times = run(engine, sequences, prompt, generated);
    best = {std::min(best.prefill, times.prefill), std::min(best.decode, times.decode)};
  }
  return best;
}

engine::EngineOptions engine_options() {
  engine::EngineOptions options;
  options.dtype = DType::bf16;
  options.max_model_len = 4096;
  options.max_num_seqs = 64;
  options.max_num_batched_tokens = 512;
  options.prefix_caching = false;
  return options;
}

void measure_checkpoint(const Options& options) {
  auto [config, spec] = checkpoint::read_model(options.model);
  auto files = checkpoint::Checkpoint::open(options.model);
  checkpoint::resolve_stored(files, spec);
  checkpoint::resolve_kept(config, &files, {.activations = options.activations}, spec);
  const auto cpu =
      backend::make_cpu_backend({*backend::isa_from_name(options.isa), options.threads});
  engine::Engine engine(spec, checkpoint::WeightReader(files, spec), *cpu, nullptr,
                        engine_options());
  run(engine, 1, 1, 2);  // touches everything once
  const Times best =
      best_of(options.rounds, engine, options.sequences, options.prompt, options.generated);
  fmt::print("prefill {:.2f} tokens/s\ndecode {:.2f} tokens/s\n",
             options.sequences * options.prompt / best.prefill, options.sequences / best.decode);
}

void measure(const Options& options) {
  const RandomCheckpoint random(kConfig);
  const auto files = checkpoint::Checkpoint::open(random.folder());
  const auto cpu =
      backend::make_cpu_backend({*backend::isa_from_name(options.isa), options.threads});
  const auto start = Clock::now();
  engine::Engine engine(random.spec(), checkpoint::WeightReader(files, random.spec()), *cpu,
                        nullptr, engine_options());
  const Work work(random.spec());
  fmt::print("loading {:.2f} s, {:.1f} GB/s\n", seconds_since(start),
             work.bytes / seconds_since(start) / 1e9);

  double bandwidth = read_bandwidth(options.threads);
  MatrixRate matrix = matrix_rate(options.threads);
  const Times one = best_of(options.rounds, engine, 1, 8, 48);
  const Times prefill = best_of(options.rounds, engine, 1, 512, 1);
  const Times many = best_of(options.rounds, engine, 32, 16, 32);
  bandwidth = std::max(bandwidth, read_bandwidth(options.threads));
  matrix.flops = std::max(matrix.flops, matrix_rate(options.threads).flops);
  fmt::print("read bandwidth {:.1f} GB/s; matrix rate {:.0f} GFLOP/s ({})\n", bandwidth / 1e9,
             matrix.flops / 1e9, matrix.by);
  fmt::print("decode of 1:   {:7.1f} tokens/s, {:3.0f} % of the bandwidth\n", 1 / one.decode,
             100 * work.bytes / one.decode / bandwidth);
  fmt::print("prefill of 512:{:7.1f} tokens/s, {:3.0f} % of the matrix rate\n",
             512 / prefill.prefill, 100 * 512 * work.flops / prefill.prefill / matrix.flops);
  const double roof = std::max(work.bytes / bandwidth, 32 * work.flops / matrix.flops);
  fmt::print("decode of 32:  {:7.1f} tokens/s, {:3.0f} % of the lower roof ({})\n",
             32 / many.decode, 100 * roof / many.decode,
             work.bytes / bandwidth > 32 * work.flops / matrix.flops ? "bandwidth" : "matrix rate");
}

}  // namespace
}  // namespace plimsoll::testing

int main(int argc, char** argv) {
  using namespace plimsoll;
  using namespace plimsoll::testing;
  Options options;
  CLI::App app("Tokens per second of the engine as shares of the machine's roofs.");
  app.add_option("--threads", options.threads, "Threads");
  app.add_option("--isa", options.isa, "portable, avx2, avx512 or avx512bf16");
  app.add_option("--rounds", options.rounds, "Runs of which the best counts");
  app.add_option("--model", options.model, "A checkpoint or a GGUF file");
  const std::map<std::string, quantization::Activations> words{
      {"auto", quantization::Activations::rounded},
      {"on", quantization::Activations::rounded_blocks},
      {"off", quantization::Activations::whole}};
  app.add_option("--quantized-activations", options.activations, "Of it: auto, on or off, as run's")
      ->transform(CLI::Transformer(words));
  app.add_option("--sequences", options.sequences, "Of it: sequences at once");
  app.add_option("--prompt", options.prompt, "Tokens of each prompt");
  app.add_option("--generated", options.generated, "Tokens of each answer");
  CLI11_PARSE(app, argc, argv);
  options.model.empty() ? measure(options) : measure_checkpoint(options);
}
