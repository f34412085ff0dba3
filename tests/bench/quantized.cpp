// Products with quantized weights on the CPU as shares of what the machine can do, a format a line
// (those of a single row of what reading the same memory makes), and what it costs ("sliced") that
// sums over inputs are made of slices, which ranks may share:
//   quantized [--threads N] [--isa NAME] [--formats WORD]
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/random_rows.h"
#include "bench/support/large_memory.h"
#include "bench/support/roofs.h"
#include "model/slices.h"

namespace plimsoll::testing {
namespace {

/// Seconds in which a single row's products and reading take turns: other machines' load on memory
/// comes and goes in seconds.
constexpr double kSeconds = 4;

using model::Code;
using model::InputRounding;
using model::PackedFormat;
using model::Packing;
using model::ScaleType;

struct Format {
  const char* name;
  Packing packing;
};

constexpr Packing blocks(GgmlType type, int64_t bits, int64_t group, int64_t zero,
                         InputRounding inputs = InputRounding::none) {
  return {.format = PackedFormat::ggml,
          .blocks = type,
          .bits = bits,
          .group = group,
          .scale = ScaleType::blocks,
          .zero = zero,
          .inputs = inputs};
}

const std::array<Format, 15> kFormats = {{
    {"int4, groups of 128", {.bits = 4, .group = 128, .scale = ScaleType::bf16, .zero = 8}},
    {"int4, zero points", {.bits = 4, .group = 128, .scale = ScaleType::f16, .zeros = true}},
    {"int3, zero points", {.bits = 3, .group = 128, .scale = ScaleType::f16, .zeros = true}},
    {"nf4",
     {.code = Code::table,
      .bits = 4,
      .group = 64,
      .scale = ScaleType::nested,
      .block_inputs = 64 * 256}},
    {"mxfp4",
     {.format = PackedFormat::mxfp4,
      .code = Code::table,
      .bits = 4,
      .group = 32,
      .scale = ScaleType::e8m0}},
    {"nvfp4",
     {.format = PackedFormat::nvfp4,
      .code = Code::table,
      .bits = 4,
      .group = 16,
      .scale = ScaleType::e4m3,
      .factors = true}},
    {"int8", {.bits = 8, .zero = 128}},
    {"int8, inputs too", {.bits = 8, .zero = 128, .inputs = InputRounding::int8_token}},
    {"fp8", {.code = Code::e4m3, .bits = 8}},
    {"Q4_K", blocks(GgmlType::q4_k, 4, 32, 0)},
    {"Q4_K, int8 inputs", blocks(GgmlType::q4_k, 4, 32, 0, InputRounding::int8_group256)},
    {"Q6_K", blocks(GgmlType::q6_k, 6, 16, 32)},
    {"Q6_K, int8 inputs", blocks(GgmlType::q6_k, 6, 16, 32, InputRounding::int8_group256)},
    {"Q8_0", blocks(GgmlType::q8_0, 8, 32, 128)},
    {"Q8_0, int8 inputs", blocks(GgmlType::q8_0, 8, 32, 128, InputRounding::int8_group32)},
}};

/// Llama-3.2-1B's up projection, in enough copies that none is in a cache when its turn comes.
class Weights {
 public:
  static constexpr int64_t kOutputs = 16384, kInputs = 2048;

  Weights(backend::Backend& cpu, const Packing& packing)
      : spec_{.name = "up", .shape = {kOutputs, kInputs}},
        memory_(bytes_of(cpu, packing) * kCopies) {
    for (size_t i = 0; i < kCopies; ++i)
      copies_.push_back(cpu.load_weight(
          spec_, DType::bf16, static_cast<std::byte*>(memory_.data()) + i * bytes(),
          {[](int64_t, int64_t, void*) {},
           [&](size_t) { return backend::random_rows(packing, kInputs, 1, 0.02f); }}));
  }
  const backend::Weight& next() { return copies_[turn_++ % kCopies]; }
  [[nodiscard]] const model::WeightSpec& spec() const { return spec_; }
  [[nodiscard]] size_t bytes() const { return memory_.bytes() / kCopies; }

 private:
  static constexpr size_t kCopies = 16;
  size_t bytes_of(backend::Backend& cpu, const Packing& packing) {
    model::Part part{.tensor = "up.weight",
                     .stored_shape = {kOutputs, kInputs},
                     .block_rows = kOutputs,
                     .block_stride = kOutputs};
    part.packing = packing;
    spec_.parts = {part};
    return cpu.footprint().weight_bytes(spec_, DType::bf16);
  }

  model::WeightSpec spec_;
  LargeMemory memory_;
  std::vector<backend::Weight> copies_;
  size_t turn_ = 0;
};

void time_format(backend::Backend& cpu, const Format& format, MemoryReader& reader, double flops) {
  Weights weights(cpu, format.packing);
  model::WeightSpec sliced = weights.spec();
  sliced.slices = model::slices_of(Weights::kInputs, model::slice_unit(sliced));
  fmt::print("{:<22}{:>6.2f}", format.name,
             8.0 * static_cast<double>(weights.bytes()) / (Weights::kOutputs * Weights::kInputs));
  std::string ratios;
  for (const int64_t rows : {1, 32, 512}) {
    std::vector<float> in(static_cast<size_t>(rows * Weights::kInputs), 0.5f);
    std::vector<float> out(static_cast<size_t>(rows * Weights::kOutputs));
    const auto product = [&](const model::WeightSpec& spec) {
      backend::Weight weight = weights.next();
      weight.spec = &spec;
      cpu.run(
          backend::ops::Linear{{out.data(), DType::f32, rows, Weights::kOutputs, Weights::kOutputs},
                               {in.data(), DType::f32, rows, Weights::kInputs, Weights::kInputs},
                               weight,
                               {},
                               model::Activation::none});
    };
    double time = 0;
    if (rows == 1) {
      const size_t whole = weights.bytes() >> 20 << 20;
      const auto [reading, multiplying] =
          best_times([&] { reader.read(weights.next().data, whole); },
                     [&] { product(weights.spec()); }, kSeconds);
      time = multiplying;
      const double read = static_cast<double>(weights.bytes()) / time;
      const double bandwidth = static_cast<double>(whole) / reading;
      fmt::print("{:>8.1f}{:>7.1f}{:>5.0f}%", read / 1e9, bandwidth / 1e9, 100 * read / bandwidth);
    } else {
      time = best_time([&] { product(weights.spec()); });
      const double done =
          2.0 * static_cast<double>(rows * Weights::kOutputs * Weights::kInputs) / time;
      fmt::print("{:>10.0f}{:>7.0f}%", done / 1e9, 100 * done / flops);
    }
    ratios += fmt::format("{:>6.2f}", best_time([&] { product(sliced); }) / time);
  }
  fmt::print("{}\n", ratios);
}

}  // namespace
}  // namespace plimsoll::testing

int main(int argc, char** argv) {
  using namespace plimsoll;
  using namespace plimsoll::testing;
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  std::string isa{isa_name(backend::detect_isa())};
  CLI::App app("Speed of products with quantized weights on the CPU, as shares of the machine's.");
  app.add_option("--threads", threads, "Threads");
  app.add_option("--isa", isa, "portable, avx2, avx512 or avx512bf16");
  std::string formats;
  app.add_option("--formats", formats, "Those alone whose name holds it");
  CLI11_PARSE(app, argc, argv);
  const MatrixRate matrix = matrix_rate(threads);
  MemoryReader reader(threads);
  fmt::print("matrix rate {:.0f} GFLOP/s ({})\n", matrix.flops / 1e9, matrix.by);
  fmt::print("{:<22}{:>6}{:>21}{:>18}{:>18}{:>18}\n", "weights 16384 x 2048", "bits",
             "1 row, GB/s (read)", "32 rows, GFLOP/s", "512 rows", "sliced: 1, 32, 512");
  const LargeMemory scratch(size_t{64} << 20);
  memory::Arena arena = memory::Arena::placing(scratch.data(), scratch.bytes());
  const auto cpu = backend::make_cpu_backend({*backend::isa_from_name(isa), threads});
  cpu->use_scratch(arena);
  for (const Format& format : kFormats) {
    if (std::string_view(format.name).find(formats) == std::string_view::npos) continue;
    time_format(*cpu, format, reader, matrix.flops);
  }
}
