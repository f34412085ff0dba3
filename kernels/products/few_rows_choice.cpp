#include "kernels/products/few_rows_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernels/rows/random.h"
#include "kernels/runtime/operands.h"
#include "memory/arena.h"

namespace plimsoll::kernels {

using backend::View;
using backend::Weight;

namespace {

size_t bytes_of(const View& view, int64_t rows) {
  return memory::Arena::aligned(static_cast<size_t>(rows * view.stride) * dtype_size(view.dtype));
}

/// True when a ring and cuBLASLt's tensor cores can compute the product: one type, whole pieces.
bool has_ways(const View& in, const Weight& weight) {
  return weight.dtype == in.dtype &&
         std::min(common_alignment(in), common_alignment(rows_of(weight))) >= sizeof(uint4);
}

size_t size_index(int64_t rows) {
  return static_cast<size_t>(std::ranges::lower_bound(kFewSizes, rows) - kFewSizes.begin());
}

}  // namespace

bool FewRowsChoice::Known::is(const Known& other) const {
  const auto same = [](const View& a, const View& b) {
    return a.dtype == b.dtype && a.stride == b.stride;
  };
  return n == other.n && k == other.k && alike == other.alike && same(in, other.in) &&
         same(out, other.out) && bool(bias) == bool(other.bias) && activation == other.activation;
}

FewRowsChoice::Known& FewRowsChoice::find(Known wanted) {
  for (const auto& known : known_) {
    if (known->is(wanted)) return *known;
  }
  return *known_.emplace_back(std::make_unique<Known>(std::move(wanted)));
}

FewRowsChoice::Way FewRowsChoice::of(const Call& call) {
  const Weight& weight = call.weight;
  const auto bytes = static_cast<size_t>(weight.spec->elements()) * dtype_size(weight.dtype);
  if (bytes < least_bytes_ || !has_ways(call.in, weight)) return {};
  Known wanted{.n = weight.spec->rows(),
               .k = weight.spec->columns(),
               .out = call.out,
               .in = call.in,
               .bias = call.bias,
               .activation = call.activation,
               .alike = call.alike};
  const size_t size = size_index(call.in.rows);
  if (sealed_) {
    const auto found =
        std::ranges::find_if(known_, [&](const auto& one) { return one->is(wanted); });
    return found == known_.end() ? Way{} : (*found)->ways[size];
  }
  Known& known = find(std::move(wanted));
  const auto is_this = [&](const Weight& one) { return one.data == weight.data; };
  if (known.weights.size() < kTimedWeights && std::ranges::none_of(known.weights, is_this)) {
    // The caller's description of a part lives no longer than this call.
    known.specs.push_back(std::make_unique<model::WeightSpec>(
        model::WeightSpec{.name = weight.spec->name, .shape = weight.spec->shape}));
    known.weights.push_back(weight);
    known.weights.back().spec = known.specs.back().get();
  }
  return known.ways[size];
}

void FewRowsChoice::tune(std::span<std::byte> scratch) {
  for (const auto& known : known_) {
    if (!known->tried) try_ways(*known, scratch);
    known->tried = true;
  }
}

void FewRowsChoice::try_ways(Known& known, std::span<std::byte> scratch) {
  const size_t in_bytes = bytes_of(known.in, kSmallRows);
  if (in_bytes + bytes_of(known.out, kSmallRows) > scratch.size()) return;
  Rows rows{known.out, known.in};
  rows.in.data = scratch.data();
  rows.out.data = scratch.data() + in_bytes;
  fill_random(rows.in.data, known.in.dtype, kSmallRows * known.in.stride, 1, 1, stream_);
  for (size_t i = 0; i < kFewSizes.size(); ++i) {
    rows.in.rows = rows.out.rows = kFewSizes[i];
    double least = Stopwatch::kRefused;
    const auto try_way = [&](const Way& way) {
      const double seconds = this->seconds(known, rows, way);
      if (seconds >= least) return;
      least = seconds;
      known.ways[i] = way;
    };
    for (const Feed feed : feeds()) try_way({.feed = feed});
    if (!known.alike && kFewSizes[i] >= kTriedByCublasLt) try_way({.cublaslt = true});
  }
}

double FewRowsChoice::seconds(const Known& known, const Rows& rows, const Way& way) {
  size_t turn = 0;
  return watch_.seconds([&] {
    const Weight& weight = known.weights[turn++ % known.weights.size()];
    if (way.cublaslt)
      return products_.run(rows.out, rows.in, weight, known.bias, known.activation).has_value();
    small_linear({.out = rows.out, .in = rows.in, .weight = rows_of(weight), .feed = way.feed},
                 stream_);
    return true;
  });
}

std::vector<std::string> FewRowsChoice::notes() const {
  std::vector<std::string> notes;
  for (const auto& known : known_) {
    std::string rows;
    for (size_t i = 0; i < kFewSizes.size(); ++i) {
      if (!known->ways[i].cublaslt) continue;
      const int64_t from = i == 0 ? 1 : kFewSizes[i - 1] + 1;
      rows += fmt::format("{}{} to {}", rows.empty() ? "" : ", ", from, kFewSizes[i]);
    }
    if (rows.empty()) continue;
    const DType type = known->in.dtype;
    notes.push_back(fmt::format("{}: of {} rows cuBLASLt was faster",
                                product_name(type, type, known->n, known->k), rows));
  }
  return notes;
}

}  // namespace plimsoll::kernels
