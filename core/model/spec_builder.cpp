#include "model/spec_builder.h"

#include <numeric>
#include <utility>

namespace plimsoll::model {

Part::Run Part::run_at(int64_t row) const {
  const int64_t begin = first_row + row / block_rows * block_stride;
  const int64_t within = row % block_rows;
  if (order == RowOrder::stored) return {begin + within, block_rows - within};
  const int64_t evens = (block_rows + 1) / 2;
  return {begin + (within < evens ? 2 * within : 2 * (within - evens) + 1), 1};
}

std::vector<Rows> Rows::parts(const std::string& module, const std::vector<int64_t>& sizes,
                              int64_t groups) {
  const int64_t run = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  std::vector<Rows> rows;
  int64_t first = 0;
  for (const int64_t size : sizes) {
    rows.push_back({.module = module,
                    .stored = run * groups,
                    .first = first,
                    .block = size,
                    .stride = run,
                    .count = groups});
    first += size;
  }
  return rows;
}

WeightId SpecBuilder::add(WeightSpec weight) {
  weights_.push_back(std::move(weight));
  return static_cast<WeightId>(weights_.size() - 1);
}

WeightId SpecBuilder::matrix(const std::string& name, const std::string& tensor, int64_t rows,
                             int64_t columns, WeightUse use, Split split) {
  return add({.name = name,
              .shape = {rows, columns},
              .use = use,
              .split = split,
              .parts = {{.tensor = tensor,
                         .stored_shape = {rows, columns},
                         .block_rows = rows,
                         .block_stride = rows}}});
}

WeightId SpecBuilder::vector(const std::string& name, int64_t n) {
  return parameter(name, {n});
}

WeightId SpecBuilder::parameter(const std::string& name, std::vector<int64_t> shape) {
  const int64_t rows = shape.front();
  Part part{.tensor = name, .stored_shape = shape, .block_rows = rows, .block_stride = rows};
  return add({.name = name,
              .shape = std::move(shape),
              .use = WeightUse::vector,
              .parts = {std::move(part)}});
}

Linear SpecBuilder::linear(const std::string& name, const std::vector<Rows>& parts, int64_t columns,
                           const LinearLayout& layout) {
  WeightSpec weight{.name = name + ".weight",
                    .split = layout.split,
                    .heads = layout.heads,
                    .uneven_heads = layout.uneven_heads,
                    .interleaved = layout.interleaved};
  WeightSpec bias{.name = name + ".bias",
                  .use = WeightUse::vector,
                  .split = layout.split == Split::row ? Split::replicated : layout.split,
                  .heads = layout.heads,
                  .kv_heads = layout.kv_heads,
                  .kept = layout.bias_kept,
                  .uneven_heads = layout.uneven_heads,
                  .interleaved = layout.interleaved};
  int64_t rows = 0;
  for (const Rows& from : parts) {
    Part part{.tensor = from.module + ".weight",
              .stored_shape = {from.stored, columns},
              .transposed = layout.transposed,
              .first_row = from.first,
              .block_rows = from.block,
              .block_stride = from.stride,
              .block_count = from.count,
              .order = from.order};
    if (layout.transposed) std::swap(part.stored_shape[0], part.stored_shape[1]);
    weight.parts.push_back(part);
    part.tensor = from.module + ".bias";
    part.stored_shape = {from.stored};
    part.transposed = false;
    bias.parts.push_back(std::move(part));
    rows += weight.parts.back().rows();
  }
  weight.shape = {rows, columns};
  bias.shape = {rows};
  Linear result{.weight = add(std::move(weight))};
  if (!layout.bias) return result;
  const WeightId id = add(std::move(bias));
  if (layout.bias_kept != Kept::in_vllm) result.bias = id;
  return result;
}

Linear SpecBuilder::linear(const std::string& name, int64_t rows, int64_t columns,
                           const LinearLayout& layout) {
  return linear(name, {Rows::all(name, rows)}, columns, layout);
}

Norm SpecBuilder::norm(const std::string& name, int64_t n, const Norm& kind) {
  return norm(name, n, kind,
              kind.kind == NormKind::layer ? NormTensors::weight_and_bias : NormTensors::weight);
}

Norm SpecBuilder::norm(const std::string& name, int64_t n, const Norm& kind, NormTensors tensors) {
  Norm norm = kind;
  norm.present = true;
  if (tensors != NormTensors::none) norm.weight = vector(name + ".weight", n);
  if (tensors == NormTensors::weight_and_bias) norm.bias = vector(name + ".bias", n);
  return norm;
}

}  // namespace plimsoll::model
