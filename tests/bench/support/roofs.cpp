#include "bench/support/roofs.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/thread_pool.h"
#include "bench/support/large_memory.h"

#if defined(PLIMSOLL_ONEDNN)
#include <omp.h>

#include <dnnl.hpp>
#endif

namespace plimsoll::testing {
namespace {

#if defined(__x86_64__)
#define PLIMSOLL_CLONES [[gnu::target_clones("avx512f", "avx2", "default"), gnu::optimize("O3")]]
#else
#define PLIMSOLL_CLONES
#endif

constexpr size_t kChunk = size_t{1} << 17;  // words: 1 MiB

PLIMSOLL_CLONES uint64_t sum(const uint64_t* from, size_t count) {
  uint64_t lanes[64] = {};
  const size_t stream = count / 4;
  for (size_t i = 0; i + 16 <= stream; i += 16)
    for (size_t s = 0; s < 4; ++s)
      for (size_t j = 0; j < 16; ++j) lanes[16 * s + j] += from[s * stream + i + j];
  uint64_t total = 0;
  for (const uint64_t lane : lanes) total += lane;
  return total;
}

/// 2 * 256 * `rounds` floating-point operations in chains enough to fill any pipeline.
PLIMSOLL_CLONES float multiply_add(int64_t rounds) {
  float lanes[256];
  for (int i = 0; i < 256; ++i) lanes[i] = static_cast<float>(i);
  for (int64_t r = 0; r < rounds; ++r)
    for (float& lane : lanes) lane = lane * 0.999f + 0.5f;
  float total = 0;
  for (const float lane : lanes) total += lane;
  return total;
}

double multiply_add_rate(int threads) {
  constexpr int64_t kRounds = 1'000'000;
  backend::ThreadPool pool(threads);
  std::vector<float> results(static_cast<size_t>(threads));
  const double time = best_time([&] {
    pool.run(threads, INT64_MAX, [&](int64_t task, int) {
      results[static_cast<size_t>(task)] = multiply_add(kRounds);
    });
  });
  return 512.0 * kRounds * threads / time;
}

}  // namespace

MemoryReader::MemoryReader(int threads) : pool_(std::make_unique<backend::ThreadPool>(threads)) {}
MemoryReader::~MemoryReader() = default;

void MemoryReader::read(const void* data, size_t bytes) {
  const size_t chunks = bytes / sizeof(uint64_t) / kChunk;
  sums_.resize(chunks);
  pool_->run(static_cast<int64_t>(chunks), INT64_MAX, [&](int64_t task, int) {
    const auto at = static_cast<size_t>(task);
    sums_[at] = sum(static_cast<const uint64_t*>(data) + at * kChunk, kChunk);
  });
}

double read_bandwidth(int threads, size_t bytes, int rounds) {
  const LargeMemory memory(bytes);
  backend::ThreadPool pool(threads);
  pool.run(static_cast<int64_t>(bytes / sizeof(uint64_t) / kChunk), INT64_MAX,
           [&](int64_t task, int) {
             std::memset(static_cast<uint64_t*>(memory.data()) + static_cast<size_t>(task) * kChunk,
                         1, kChunk * sizeof(uint64_t));
           });
  MemoryReader reader(threads);
  return static_cast<double>(bytes) /
         best_time([&] { reader.read(memory.data(), bytes); }, rounds, 0);
}

MatrixRate matrix_rate(int threads, MatrixShape shape, int rounds) {
#if defined(PLIMSOLL_ONEDNN)
  if (backend::has_isa(backend::CpuIsa::avx512bf16)) {
    using dnnl::matmul;
    omp_set_num_threads(threads);
    const auto [m, k, n] = shape;
    using Type = dnnl::memory::data_type;
    using Tag = dnnl::memory::format_tag;
    const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
    dnnl::stream queue(cpu);
    const dnnl::memory::desc source({m, k}, Type::bf16, Tag::ab);
    const dnnl::memory::desc weights({k, n}, Type::bf16, Tag::any);
    const dnnl::memory::desc result({m, n}, Type::f32, Tag::ab);
    const matmul::primitive_desc description(matmul::desc(source, weights, result), cpu);
    dnnl::memory a(description.src_desc(), cpu);
    dnnl::memory b(description.weights_desc(), cpu);
    dnnl::memory c(description.dst_desc(), cpu);
    std::memset(a.get_data_handle(), 0, description.src_desc().get_size());
    std::memset(b.get_data_handle(), 0, description.weights_desc().get_size());
    matmul product(description);
    const double time = best_time(
        [&] {
          product.execute(queue, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
          queue.wait();
        },
        rounds, 0.5);
    return {2.0 * static_cast<double>(m * k * n) / time,
            fmt::format("oneDNN bf16 {} x {} x {}", m, k, n)};
  }
#endif
  static_cast<void>(shape);
  static_cast<void>(rounds);
  return {multiply_add_rate(threads), "float multiply-adds"};
}

}  // namespace plimsoll::testing
