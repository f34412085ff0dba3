// Speed of the CPU backend's kernels as shares of what the machine can do:
//   cpu [--threads N] [--isa NAME] [--dtype bfloat16|float16|float32]
#include <fmt/format.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <random>
#include <thread>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "bench/product_cases.h"
#include "bench/support/large_memory.h"
#include "bench/support/roofs.h"
#include "model/slices.h"

namespace plimsoll::testing {
namespace {

using backend::View;

struct Options {
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  std::string isa{isa_name(backend::detect_isa())};
  std::string dtype = "bfloat16";
};

struct Roofs {
  double bandwidth;
  MatrixRate matrix;
};

/// A backend with scratch, and random memory for inputs.
struct Stage {
  LargeMemory scratch{size_t{256} << 20};
  memory::Arena arena = memory::Arena::placing(scratch.data(), scratch.bytes());
  std::unique_ptr<backend::Backend> cpu;
  DType dtype;

  explicit Stage(const Options& options)
      : cpu(backend::make_cpu_backend({*backend::isa_from_name(options.isa), options.threads})),
        dtype(*dtype_from_torch(options.dtype)) {
    cpu->use_scratch(arena);
  }
};

/// Enough copies of a weight that none is in a cache when its turn comes.
class Weights {
 public:
  Weights(Stage& stage, const ProductCase& shape)
      : spec_{.name = shape.name, .shape = {shape.n, shape.k}},
        bytes_(stage.cpu->footprint().weight_bytes(spec_, stage.dtype)),
        memory_(std::max<size_t>(4, (size_t{1} << 30) / bytes_) * bytes_) {
    std::vector<float> row(static_cast<size_t>(shape.k));
    std::mt19937 random(1);
    for (float& x : row) x = std::normal_distribution<float>(0, 0.02f)(random);
    for (size_t at = 0; at < memory_.bytes(); at += bytes_)
      all_.push_back(stage.cpu->load_weight(
          spec_, stage.dtype, static_cast<std::byte*>(memory_.data()) + at,
          [&](int64_t, int64_t count, void* to) {
            for (int64_t r = 0; r < count; ++r)
              convert(row.data(), DType::f32,
                      static_cast<std::byte*>(to) +
                          static_cast<size_t>(r * shape.k) * dtype_size(stage.dtype),
                      stage.dtype, row.size());
          }));
  }
  const backend::Weight& next() { return all_[turn_++ % all_.size()]; }
  [[nodiscard]] const model::WeightSpec& spec() const { return spec_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  model::WeightSpec spec_;
  size_t bytes_;
  LargeMemory memory_;
  std::vector<backend::Weight> all_;
  size_t turn_ = 0;
};

void time_products(Stage& stage, const Roofs& roofs) {
  fmt::print("\n{:<8}{:>6}{:>10}{:>10}{:>8}{:>10}{:>8}\n", "product", "rows", "ms", "GB/s", "share",
             "GFLOP/s", "share");
  for (const ProductCase& shape : kLargeProducts) {
    Weights weights(stage, shape);
    for (const int64_t rows : {1, 2, 4, 8, 16, 32, 64, 128, 512}) {
      std::vector<float> in(static_cast<size_t>(rows * shape.k), 0.5f);
      std::vector<float> out(static_cast<size_t>(rows * shape.n));
      const double time = best_time([&] {
        stage.cpu->run(backend::ops::Linear{{out.data(), DType::f32, rows, shape.n, shape.n},
                                            {in.data(), DType::f32, rows, shape.k, shape.k},
                                            weights.next(),
                                            {},
                                            model::Activation::none});
      });
      const double bytes = static_cast<double>(weights.bytes()) / time;
      const double flops = 2.0 * double(rows * shape.n * shape.k) / time;
      fmt::print("{:<8}{:>6}{:>10.3f}{:>10.1f}{:>7.0f}%{:>10.0f}{:>7.0f}%\n", shape.name, rows,
                 time * 1e3, bytes / 1e9, 100 * bytes / roofs.bandwidth, flops / 1e9,
                 100 * flops / roofs.matrix.flops);
    }
  }
}

/// Cost of sums over inputs made of slices, which any number of ranks may share.
void time_slices(Stage& stage) {
  fmt::print("\n{:<8}{:>6}{:>12}{:>12}{:>8}\n", "sums", "rows", "one, ms", "sliced, ms", "ratio");
  for (const ProductCase& shape : {kLargeProducts[1], kLargeProducts[3]}) {
    Weights weights(stage, shape);
    model::WeightSpec sliced = weights.spec();
    sliced.slices = model::slices_of(shape.k);
    for (const int64_t rows : {1, 8, 64, 512}) {
      std::vector<float> in(static_cast<size_t>(rows * shape.k), 0.5f);
      std::vector<float> out(static_cast<size_t>(rows * shape.n));
      const auto time = [&](const model::WeightSpec& spec) {
        return best_time([&] {
          backend::Weight weight = weights.next();
          weight.spec = &spec;
          stage.cpu->run(backend::ops::Linear{{out.data(), DType::f32, rows, shape.n, shape.n},
                                              {in.data(), DType::f32, rows, shape.k, shape.k},
                                              weight,
                                              {},
                                              model::Activation::none});
        });
      };
      const double one = time(weights.spec()), many = time(sliced);
      fmt::print("{:<8}{:>6}{:>12.3f}{:>12.3f}{:>8.2f}\n", shape.name, rows, one * 1e3, many * 1e3,
                 many / one);
    }
  }
}

struct AttentionTime {
  const char* name;
  int64_t sequences, rows, context;
};

/// Attention of Llama-3.2-1B's heads.
void time_attention(Stage& stage, const Roofs& roofs) {
  constexpr AttentionTime kCases[] = {{"prefill 512", 1, 512, 512},
                                      {"chunk of 512 at 4096", 1, 512, 4096},
                                      {"decode at 512", 1, 1, 512},
                                      {"decode at 16384", 1, 1, 16384},
                                      {"32 decodes at 1024", 32, 1, 1024}};
  model::AttentionSpec spec;
  spec.heads = 32;
  spec.kv_heads = 8;
  spec.head_dim = 64;
  spec.scale = 0.125f;
  fmt::print("\n{:<24}{:>10}{:>10}{:>8}{:>10}{:>8}\n", "attention", "ms", "GB/s", "share",
             "GFLOP/s", "share");
  for (const AttentionTime& c : kCases) {
    const int64_t blocks = c.context / 16;
    const size_t block_bytes = stage.cpu->footprint().kv_bytes(spec, 16, stage.dtype);
    const LargeMemory pool(static_cast<size_t>(c.sequences * blocks) * block_bytes);
    std::vector<int32_t> table(static_cast<size_t>(c.sequences * blocks));
    for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(i);
    const std::span<const int32_t> tables[] = {table};
    std::vector<int32_t> starts, lengths(static_cast<size_t>(c.sequences), int32_t(c.context));
    for (int64_t s = 0; s <= c.sequences; ++s) starts.push_back(static_cast<int32_t>(s * c.rows));
    const int64_t rows = c.sequences * c.rows;
    const std::vector<int32_t> positions(static_cast<size_t>(rows));
    backend::BatchMeta batch;
    batch.positions = positions;
    batch.query_start = starts;
    batch.context_length = lengths;
    batch.block_tables = tables;
    batch.table_stride = blocks;
    const int64_t width = (spec.heads + 2 * spec.kv_heads) * spec.head_dim;
    std::vector<float> qkv(static_cast<size_t>(rows * width), 0.1f);
    std::vector<float> out(static_cast<size_t>(rows * spec.heads * spec.head_dim));
    const int64_t out_width = spec.heads * spec.head_dim;
    const double time = best_time([&] {
      stage.cpu->run(backend::ops::Attention{
          {out.data(), DType::f32, rows, out_width, out_width},
          {qkv.data(), DType::f32, rows, width, width},
          spec,
          {},
          {static_cast<std::byte*>(pool.data()), block_bytes, 0, stage.dtype, 16, 0},
          batch});
    });
    const double seen = double(c.context) - 0.5 * double(c.rows - 1);
    const double flops = 4 * double(rows) * seen * double(out_width) / time;
    const double bytes = static_cast<double>(pool.bytes()) / time;
    fmt::print("{:<24}{:>10.3f}{:>10.1f}{:>7.0f}%{:>10.0f}{:>7.0f}%\n", c.name, time * 1e3,
               bytes / 1e9, 100 * bytes / roofs.bandwidth, flops / 1e9,
               100 * flops / roofs.matrix.flops);
  }
}

}  // namespace
}  // namespace plimsoll::testing

int main(int argc, char** argv) {
  using namespace plimsoll::testing;
  Options options;
  CLI::App app("Speed of the CPU kernels as shares of the machine's.");
  app.add_option("--threads", options.threads, "Threads");
  app.add_option("--isa", options.isa, "portable, avx2, avx512 or avx512bf16");
  app.add_option("--dtype", options.dtype, "bfloat16, float16 or float32");
  CLI11_PARSE(app, argc, argv);
  const Roofs roofs{read_bandwidth(options.threads), matrix_rate(options.threads)};
  fmt::print("read bandwidth {:.1f} GB/s; matrix rate {:.0f} GFLOP/s ({})\n", roofs.bandwidth / 1e9,
             roofs.matrix.flops / 1e9, roofs.matrix.by);
  Stage stage(options);
  time_products(stage, roofs);
  time_slices(stage);
  time_attention(stage, roofs);
}
