#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

#include "cli/doctor/checks.h"
#include "memory/arena.h"

namespace plimsoll::cli {
namespace {

using backend::View;
using backend::Weight;

/// Matrices on a backend's device, and what products with them need.
class Rig {
 public:
  Rig(backend::Backend& backend, const RoofSizes& sizes) : backend_(backend), sizes_(sizes) {
    const backend::Footprint& footprint = backend.footprint();
    matrix_.name = "matrix";
    matrix_.shape = {sizes.size, sizes.size};
    rows_.name = "rows";
    rows_.shape = {sizes.rows, sizes.size};
    activation_ = footprint.activation_dtype(kType);
    const backend::StepShape shape{.spec = &no_layers_,
                                   .tokens = sizes.rows,
                                   .sequences = 1,
                                   .logits_rows = 1,
                                   .table_stride = 1};
    const size_t workspace = footprint.device_workspace_bytes(shape);
    // Trials of algorithms want room for rows and what comes of them.
    const size_t trials =
        footprint.shares_memory() ? 0 : static_cast<size_t>(2 * sizes.rows * sizes.size) * 2;
    const size_t scratch = footprint.linear_workspace(sizes.rows, matrix_, kType) + trials + 4096;
    const size_t weight = memory::Arena::aligned(footprint.weight_bytes(matrix_, kType));
    const size_t in = memory::Arena::aligned(static_cast<size_t>(sizes.rows * sizes.size) * 4);
    const size_t parts = static_cast<size_t>(sizes.weights);
    memory_ = backend.take_memory(workspace + scratch + parts * weight + 2 * in +
                                  (parts + 8) * memory::Arena::kAlignment);
    arena_.emplace(memory::Arena::placing(memory_->data(), memory_->size()));
    const size_t host = footprint.host_workspace_bytes(shape);
    if (host > 0) host_ = backend.take_host_memory(host);
    const auto at = [&](const char* name, size_t bytes) {
      return std::span(static_cast<std::byte*>(arena_->take(name, bytes)), bytes);
    };
    const std::span<std::byte> host_part =
        host_ ? std::span(static_cast<std::byte*>(host_->data()), host) : std::span<std::byte>();
    backend.start_launch({shape, at("workspace", workspace), host_part});
    for (int i = 0; i < sizes.weights; ++i) {
      weights_.push_back({&matrix_, kType, at("weight", weight).data()});
      backend.fill_random(weights_.back(), static_cast<uint64_t>(i), 0.01f);
    }
    in_ = {at("in", in).data(), activation_, sizes.rows, sizes.size, sizes.size};
    out_ = {at("out", in).data(), activation_, sizes.rows, sizes.size, sizes.size};
    fill_rows();
    scratch_.emplace(memory::Arena::placing(at("scratch", scratch).data(), scratch));
    backend.use_scratch(*scratch_);
    backend.finish_loading();
    for (const int64_t rows : {int64_t{1}, sizes.rows}) run(rows, 1);  // met before the seal
    backend.finish_launch();
  }

  /// Seconds of one product of `rows` rows, the best of a few series.
  double seconds(int64_t rows) {
    run(rows, 1);  // not timed
    double least = 1e9;
    for (int series = 0; series < 3; ++series) {
      const auto begin = std::chrono::steady_clock::now();
      run(rows, sizes_.rounds);
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
      least = std::min(least, spent.count() / sizes_.rounds);
    }
    return least;
  }

 private:
  static constexpr DType kType = DType::bf16;

  void run(int64_t rows, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      backend_.run(backend::ops::Linear{out_.slice_rows(0, rows), in_.slice_rows(0, rows),
                                        weights_[turn_++ % weights_.size()]});
    }
    // Waits until all ops have run; the logits that it reads are dropped.
    std::array<float, 4> staging{};
    (void)backend_.host_logits({out_.data, DType::f32, 1, 4, 4}, staging);
  }

  void fill_rows() {
    if (!backend_.footprint().shares_memory()) {
      return backend_.fill_random({&rows_, activation_, in_.data}, 99, 1);
    }
    auto* values = static_cast<float*>(in_.data);
    for (int64_t i = 0; i < sizes_.rows * sizes_.size; ++i) {
      values[i] = static_cast<float>(i % 17) * 0.1f - 0.8f;
    }
  }

  backend::Backend& backend_;
  RoofSizes sizes_;
  model::ModelSpec no_layers_;
  model::WeightSpec matrix_, rows_;
  DType activation_ = kType;
  std::unique_ptr<memory::Memory> memory_, host_;
  std::optional<memory::Arena> arena_, scratch_;
  std::vector<Weight> weights_;
  View in_, out_;
  size_t turn_ = 0;
};

}  // namespace

MeasuredRoofs measure_roofs(backend::Backend& backend, const RoofSizes& sizes) {
  Rig rig(backend, sizes);
  const double elements = static_cast<double>(sizes.size) * static_cast<double>(sizes.size);
  MeasuredRoofs roofs{
      .bytes_per_second = 2 * elements / rig.seconds(1),
      .flops = 2 * elements * static_cast<double>(sizes.rows) / rig.seconds(sizes.rows),
      .dtype = "bfloat16"};
  if (!backend.footprint().shares_memory()) roofs.notes = backend::device_notes(backend);
  return roofs;
}

}  // namespace plimsoll::cli
