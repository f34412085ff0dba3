// Prefill on Hopper against the plain reference: every unit of the build on a card of 9.0; in the
// emulator what the host hands to them.
#include <catch2/catch.hpp>

#include "kernels/attention/hopper_attention.h"
#include "kernels/fixture.h"
#include "kernels/kv_fixture.h"
#include "kernels/runtime/cuda_error.h"
#include "kernels/runtime/device.h"
#include "skipped.h"

namespace plimsoll::testing {
namespace {

using kernels::FlashLimits;
using kernels::FlashPlanner;
using kernels::HopperUnit;

bool runs_here() {
#ifdef PLIMSOLL_EMULATION
  return true;
#else
  return kernels::describe_device(0).compute_capability == 90;
#endif
}

/// The rows of one step that Hopper's kernels take; the others stay NaN.
Matrix run_hopper(const HopperUnit& unit, const model::AttentionSpec& spec, const KvFixture& kv,
                  const Matrix& q, int64_t multiprocessors) {
  FlashLimits limits{.tokens = kv.rows(),
                     .sequences = static_cast<int64_t>(kv.context.size()),
                     .context = *std::ranges::max_element(kv.context),
                     .multiprocessors = multiprocessors};
  limits.hopper = true;
  FlashPlanner planner(kernels::flash_shape(spec), limits);
  planner.use_hopper(300);
  std::vector<std::byte> slab(planner.layout().bytes);
  planner.plan({kv.query_start, kv.context, kv.batch().table_stride}, slab);
  CHECK(planner.hopper_blocks() == multiprocessors);
  DeviceBytes device_slab(slab.size());
  device_slab.upload(slab.data());
  const int64_t columns = (spec.heads + 2 * spec.kv_heads) * spec.head_dim;
  const DeviceRows device_q(q, unit.type, {.gap = columns - q.columns});
  const DeviceRows out(q.rows, q.columns, unit.type);
  kernels::check(unit.prepare(), "prepare");
  kernels::hopper_attention({.unit = &unit,
                             .plan = &planner,
                             .slab = static_cast<const std::byte*>(device_slab.data()),
                             .q = device_q.view().data,
                             .q_stride = columns,
                             .rows = q.rows,
                             .out = out.view().data,
                             .kv = kv.layer().pool + kv.layer().layer_offset,
                             .block_stride = kv.layer().block_stride,
                             .block_size = kv.layer().block_size,
                             .block_table = kv.batch().block_tables[1],
                             .table_stride = kv.batch().table_stride,
                             .query_start = kv.batch().query_start,
                             .context_length = kv.batch().context_length},
                            spec, kStream);
  return out.matrix();
}

/// With `far` all products of q and k lie about -5e5, below FlashInfer's "infinity" of -5e4.
void check_hopper(const HopperUnit& unit, int64_t window, bool far) {
  model::AttentionSpec spec;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.head_dim = unit.head_dim;
  spec.window = window;
  spec.scale = far ? 1e-5f : 1.f / std::sqrt(static_cast<float>(unit.head_dim));
  const std::vector<SequenceCase> sequences{{1, 9}, {260, 700}, {40, 90}, {300, 300}};
  KvFixture kv(sequences, spec, unit.type, 16, 2);
  std::vector<Matrix> keys, values;
  for (size_t s = 0; s < sequences.size(); ++s) {
    const auto [rows, context] = sequences[s];
    const int64_t columns = spec.kv_heads * spec.head_dim;
    keys.push_back(random_matrix(context, columns, unit.type, static_cast<uint32_t>(10 * s + 1)));
    values.push_back(random_matrix(context, columns, unit.type, static_cast<uint32_t>(10 * s + 2)));
    if (far) {
      for (double& x : keys.back().values) x = rounded(x + 500 / double(unit.head_dim), unit.type);
    }
    if (window > 0) kv.drop_before(s, std::max<int64_t>(0, context - rows - window + 1));
  }
  kv.fill(keys, values);
  Matrix q = random_matrix(kv.rows(), spec.heads * spec.head_dim, unit.type, 99);
  if (far) std::ranges::fill(q.values, -1000.0);
  const Matrix out = run_hopper(unit, spec, kv, q, 5);
  for (size_t s = 0; s < sequences.size(); ++s) {
    INFO("sequence " << s);
    const int64_t rows = sequences[s].rows, first = kv.query_start[s];
    Matrix of(rows, q.columns), got(rows, q.columns);
    std::copy_n(q.values.begin() + first * q.columns, rows * q.columns, of.values.begin());
    std::copy_n(out.values.begin() + first * q.columns, rows * q.columns, got.values.begin());
    if (sequences[s].context < 300 || rows < kernels::kLeastHopperRows) {
      CHECK(std::ranges::all_of(got.values, [](double x) { return std::isnan(x); }));
      continue;
    }
    // Weights and results are rounded once each to the type; values are of size 1, a few of 3.
    CHECK(largest_error(got, attention(of, keys[s], values[s], spec), 1) <= 3 * epsilon(unit.type));
  }
}

}  // namespace

TEST_CASE("Hopper's kernels compute long prefills, and nothing else", "[flashinfer]") {
  if (kernels::hopper_units().empty() || !runs_here()) return skip("no kernels for Hopper here");
  for (const HopperUnit& unit : kernels::hopper_units())
    for (const int64_t window : {0, 1, 50, 333}) {
      INFO(torch_name(unit.type) << ", heads of " << unit.head_dim << ", window " << window);
      check_hopper(unit, window, false);
      if (window == 50) check_hopper(unit, window, true);
    }
}

}  // namespace plimsoll::testing
