// Prefill on Hopper against the plain reference: every unit of the build on a card of 9.0; in the
// emulator what the host hands to them.
#include <catch2/catch.hpp>

#include "kernels/attention_launch.h"
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
  kernels::hopper_attention(
      kv.paged_layer(planner, device_slab, device_q.view(), out.view()),
      {.unit = &unit, .rows = q.rows, .table_stride = kv.batch().table_stride}, spec, kStream);
  return out.matrix();
}

/// Checks a unit against the reference. With `far` all products of q and k lie about -5e5, below
/// FlashInfer's "infinity" of -5e4.
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
    const Matrix of = slice_rows(q, first, rows), got = slice_rows(out, first, rows);
    if (sequences[s].context < 300 || rows < kernels::kLeastHopperRows) {
      CHECK(std::ranges::all_of(got.values, [](double x) { return std::isnan(x); }));
      continue;
    }
    // Weights and results are rounded once each to the type; values are of size 1, a few of 3.
    CHECK(largest_error(got, attention(of, keys[s], values[s], spec), 1) <= 3 * epsilon(unit.type));
  }
}

/// One layer's attention over a step, as a launch on a card of 9.0 with five multiprocessors runs
/// it.
Matrix run_step(const model::AttentionSpec& spec, const KvFixture& kv, const Matrix& q,
                int64_t hopper_from, bool& notes_hopper) {
  AttentionLaunch launch(spec, kv, DType::bf16, {.compute_capability = 90, .processors = 5},
                         {.hopper_from = hopper_from});
  const Matrix out = launch.run(q);
  CHECK_FALSE(launch.attention().recordable());
  notes_hopper = launch.notes("Hopper");
  return out;
}

}  // namespace

TEST_CASE("a step's attention is Hopper's kernels' and the others' together", "[flashinfer]") {
  model::AttentionSpec spec;
  spec.heads = 2;
  spec.kv_heads = 1;
  spec.head_dim = 64;
  spec.window = 200;
  spec.scale = 0.125f;
  if (kernels::hopper_units().empty() || !runs_here() ||
      kernels::find_flash_unit(spec, DType::bf16, DType::bf16) == nullptr)
    return skip("no kernels for Hopper here, or none of FlashInfer's");
  const std::vector<SequenceCase> sequences{{1, 9}, {500, 600}, {20, 30}, {499, 499}};
  KvFixture kv(sequences, spec, DType::bf16, 16, 0);
  std::vector<Matrix> keys, values;
  for (size_t s = 0; s < sequences.size(); ++s) {
    const auto seed = static_cast<uint32_t>(10 * s);
    keys.push_back(random_matrix(sequences[s].context, spec.head_dim, DType::bf16, seed + 1));
    values.push_back(random_matrix(sequences[s].context, spec.head_dim, DType::bf16, seed + 2));
  }
  kv.fill(keys, values);
  const Matrix q = random_matrix(kv.rows(), spec.heads * spec.head_dim, DType::bf16, 99);
  for (const int64_t from : {0, 550}) {
    INFO("from " << from);
    bool notes_hopper = false;
    const Matrix out = run_step(spec, kv, q, from, notes_hopper);
    CHECK(notes_hopper == (from > 0));
    for (size_t s = 0; s < sequences.size(); ++s) {
      INFO("sequence " << s);
      const int64_t rows = sequences[s].rows, first = kv.query_start[s];
      const Matrix of = slice_rows(q, first, rows), got = slice_rows(out, first, rows);
      const Matrix expected = reference::attention(of, keys[s], values[s], spec);
      CHECK(largest_error(got, expected, 1) <= 3 * epsilon(DType::bf16));
    }
  }
}

TEST_CASE("a trial at launch says from where on prefills take Hopper's kernels", "[flashinfer]") {
  model::AttentionSpec spec;
  spec.heads = spec.kv_heads = 1;
  spec.head_dim = 64;
  spec.scale = 0.125f;
  if (kernels::hopper_units().empty() || !runs_here() ||
      kernels::find_flash_unit(spec, DType::bf16, DType::bf16) == nullptr)
    return skip("no kernels for Hopper here, or none of FlashInfer's");
  const KvFixture kv({{512, 512}}, spec, DType::bf16, 16, 0);
  const Matrix q = random_matrix(kv.rows(), spec.head_dim, DType::bf16, 99);
  AttentionLaunch launch(spec, kv, DType::bf16, {.compute_capability = 90, .processors = 5},
                         {.hopper_from = {}});
  (void)launch.run(q);
  CHECK(launch.notes("prefill of 2048 tokens"));  // as is estimated
  const DeviceBytes scratch(size_t{1} << 20);
  const kernels::Stream stream;
  launch.attention().tune({static_cast<std::byte*>(scratch.data()), scratch.size()}, stream.get());
  stream.wait();
  (void)launch.run(q);
  // Tried where the cache has room, at 512 tokens: from there on, or from twice as many.
  CHECK((launch.notes("prefill of 512 tokens") || launch.notes("prefill of 1024 tokens")));
}

TEST_CASE("Hopper's kernels compute long prefills, and nothing else", "[flashinfer]") {
  if (kernels::hopper_units().empty() || !runs_here()) return skip("no kernels for Hopper here");
  size_t turn = 0;
  for (const HopperUnit& unit : kernels::hopper_units())
    for (const int64_t window : {0, 1, 50, 333}) {
      if (!is_taken(++turn, 3)) continue;
      INFO(torch_name(unit.type) << ", heads of " << unit.head_dim << ", window " << window);
      check_hopper(unit, window, false);
      if (window == 50) check_hopper(unit, window, true);
    }
}

}  // namespace plimsoll::testing
