#include "engine/forward/weights.h"

#include <memory>

namespace plimsoll::engine {

using backend::View;
using backend::Weight;

namespace {

/// Size of random weights, which are as small as vLLM's dummy weights: nothing overflows in half
/// precision.
constexpr float kRandomScale = 1e-3f;

/// Stacks whose gate and up are stored in turn, gate first, as if all gates lay before the ups.
class InOrder final : public checkpoint::WeightSource {
 public:
  explicit InOrder(const checkpoint::WeightSource& source) : source_(source) {}

  void read_rows(const model::WeightSpec& spec, int64_t first, int64_t count, DType dtype,
                 void* to) const override {
    if (!spec.rows_in_turn) return source_.read_rows(spec, first, count, dtype, to);
    const auto row_bytes = spec.columns() * dtype_size(dtype);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t matrix = (first + i) / spec.rows();
      const int64_t row = (first + i) % spec.rows();
      const int64_t half = spec.rows() / 2;
      const int64_t stored = row < half ? 2 * row : 2 * (row - half) + 1;
      source_.read_rows(spec, matrix * spec.rows() + stored, 1, dtype,
                        static_cast<std::byte*>(to) + i * row_bytes);
    }
  }
  [[nodiscard]] std::unique_ptr<model::PackedRows> packed(
      const model::WeightSpec& spec, size_t part, const checkpoint::Block& block) const override {
    return spec.rows_in_turn ? WeightSource::packed(spec, part, block)
                             : source_.packed(spec, part, block);
  }

 private:
  const checkpoint::WeightSource& source_;
};

}  // namespace

void Weights::place(std::string_view name, std::span<const model::WeightSpec> specs,
                    std::span<const DType> dtypes, memory::Arena& arena, WeightsOf whose) {
  size_t bytes = 0;
  std::vector<size_t> offsets;
  for (size_t i = 0; i < specs.size(); ++i) {
    offsets.push_back(bytes);
    bytes += memory::Arena::aligned(backend_.footprint().weight_bytes(specs[i], dtypes[i]));
  }
  const bool own = whose == WeightsOf::itself;
  auto* storage = own ? arena.take_array<std::byte>(name, bytes) : nullptr;
  for (size_t i = 0; i < specs.size(); ++i) {
    weights_.push_back({&specs[i], dtypes[i], own ? storage + offsets[i] : nullptr});
  }
}

void Weights::load(const checkpoint::WeightSource& stored) {
  const InOrder source(stored);
  for (Weight& weight : weights_) {
    const model::WeightSpec& spec = *weight.spec;
    if (spec.elements() == 0) continue;  // another stage's
    const auto read = [&](int64_t first, int64_t count, void* to) {
      source.read_rows(spec, first, count, weight.dtype, to);
    };
    const auto packed = [&](size_t part) {
      return source.packed(spec, part, {0, spec.parts[part].rows(), 0, spec.columns()});
    };
    weight = backend_.load_weight(spec, weight.dtype, weight.data, {read, packed});
  }
  backend_.finish_loading();
}

void Weights::fill_random(uint64_t seed) {
  for (const Weight& weight : weights_) {
    ++seed;  // of a weight, whichever stage has it
    if (weight.spec->elements() > 0) backend_.fill_random(weight, seed, kRandomScale);
  }
  backend_.finish_loading();
}

const Weight& Weights::weight(model::WeightId id) const {
  static const Weight none;
  return id == model::kNoWeight ? none : weights_[id];
}

View Weights::take(std::string_view name, int64_t rows, int64_t columns) {
  return take(name, rows, columns, activation_dtype());
}

View Weights::take(std::string_view name, int64_t rows, int64_t columns, DType dtype) {
  const size_t bytes = rows * columns * dtype_size(dtype);
  return {backend_.scratch().take(name, bytes), dtype, rows, columns, columns};
}

void Weights::copy(View out, View in) {
  backend_.run(ops::CopyHeads{out, in, {.width = in.columns}});
}

void Weights::norm(View out, View in, const model::Norm& spec) {
  backend_.run(ops::Norm{out, in, spec, weight(spec.weight), weight(spec.bias)});
}

void Weights::linear(View out, View in, const model::Linear& linear, model::Activation activation) {
  backend_.run(ops::Linear{out, in, weight(linear.weight), weight(linear.bias), activation});
}

}  // namespace plimsoll::engine
