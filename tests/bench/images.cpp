// Images before and in a tower: FILEs to what Qwen2.5-VL's tower gets, images per second of
// processor time (one thread), or the products of its tower as shares of oneDNN's rate.
//   images [--threads N] [--rows N] [--max-pixels N] [FILE ...]
#include <fmt/format.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <ctime>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "bench/product_cases.h"
#include "bench/support/large_memory.h"
#include "bench/support/roofs.h"
#include "image/decode.h"
#include "image/processor.h"

namespace plimsoll::testing {
namespace {

/// Qwen2.5-VL-3B's.
constexpr ProductCase kTower[] = {{"patches", 1280, 1176}, {"qkv", 3840, 1280},
                                  {"out", 1280, 1280},     {"gate and up", 6840, 1280},
                                  {"down", 1280, 3420},    {"merger", 5120, 5120}};

std::vector<uint8_t> read_file(const std::string& name) {
  std::ifstream file(name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void time_preparing(const std::vector<std::string>& files, int64_t max_pixels) {
  const auto processor =
      image::make_processor(image::ProcessorKind::qwen2_vl, {.patch_size = 14, .shuffle = 2},
                            Json{{"max_pixels", max_pixels}});
  for (const std::string& name : files) {
    const std::vector<uint8_t> file = read_file(name);
    std::vector<float> values;
    int64_t tokens = 0;
    double time = 1e30;
    for (int round = 0; round < 9; ++round) {
      const std::clock_t start = std::clock();
      const image::Pixels pixels = processor->process(image::decode(file));
      values.resize(static_cast<size_t>(pixels.layout.values()));
      pixels.write_values(0, std::ssize(values), values.data());
      tokens = pixels.layout.tokens;
      time = std::min(time, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    }
    fmt::print("{} {:.2f} images per second of a processor, {} tokens\n", name, 1 / time, tokens);
  }
}

void time_products(int threads, int64_t rows) {
  const LargeMemory scratch(size_t{512} << 20);
  memory::Arena arena = memory::Arena::placing(scratch.data(), scratch.bytes());
  const auto cpu = backend::make_cpu_backend({backend::detect_isa(), threads});
  cpu->use_scratch(arena);
  for (const ProductCase& shape : kTower) {
    const model::WeightSpec spec{.name = shape.name, .shape = {shape.n, shape.k}};
    const LargeMemory memory(cpu->footprint().weight_bytes(spec, DType::bf16));
    const backend::Weight weight =
        cpu->load_weight(spec, DType::bf16, memory.data(), [&](int64_t, int64_t count, void* to) {
          std::fill_n(static_cast<uint16_t*>(to), count * shape.k, uint16_t{0x3C00});
        });
    const int64_t taken = shape.k == 5120 ? rows / 4 : rows;
    std::vector<float> in(static_cast<size_t>(taken * shape.k), 0.5f);
    std::vector<float> out(static_cast<size_t>(taken * shape.n));
    const auto ours = [&] {
      return best_time([&] {
        cpu->run(backend::ops::Linear{{out.data(), DType::f32, taken, shape.n, shape.n},
                                      {in.data(), DType::f32, taken, shape.k, shape.k},
                                      weight,
                                      {},
                                      model::Activation::none});
      });
    };
    // Both are timed by turns, as other work comes and goes.
    double time = ours();
    MatrixRate roof = matrix_rate(threads, {taken, shape.k, shape.n}, 3);
    for (int round = 0; round < 2; ++round) {
      time = std::min(time, ours());
      const MatrixRate again = matrix_rate(threads, {taken, shape.k, shape.n}, 3);
      if (again.flops > roof.flops) roof = again;
    }
    const double rate = 2.0 * static_cast<double>(taken * shape.k * shape.n) / time;
    fmt::print("{:<12} {:>8.1f} ms {:>7.0f} GFLOP/s, {:.2f} of {:.0f} ({})\n", shape.name,
               time * 1e3, rate / 1e9, rate / roof.flops, roof.flops / 1e9, roof.by);
  }
}

}  // namespace
}  // namespace plimsoll::testing

int main(int argc, char** argv) {
  using namespace plimsoll::testing;
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  int64_t max_pixels = 1280 * 28 * 28, rows = 1024;
  std::vector<std::string> files;
  CLI::App app("Speed of images' preparation and of a tower's products.");
  app.add_option("--threads", threads, "Threads of the products");
  app.add_option("--rows", rows, "Patches of the products");
  app.add_option("--max-pixels", max_pixels, "Of a prepared image");
  app.add_option("files", files, "Images to prepare");
  CLI11_PARSE(app, argc, argv);
  if (!files.empty()) time_preparing(files, max_pixels);
  if (files.empty()) time_products(threads, rows);
}
