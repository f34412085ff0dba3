// FlashInfer's kernels against the plain reference: every unit of the build, on a device or in the
// emulator (tests/flash).
#include <catch2/catch.hpp>

#include "kernels/attention/flash_attention.h"
#include "kernels/fixture.h"
#include "kernels/kv_fixture.h"
#include "kernels/runtime/cuda_error.h"
#include "skipped.h"

namespace plimsoll::testing {
namespace {

using kernels::FlashKind;
using kernels::FlashLimits;
using kernels::FlashMemory;
using kernels::FlashSight;
using kernels::FlashUnit;

struct FlashCase {
  std::string what;
  std::vector<SequenceCase> sequences;
  int64_t padding = 0;
  int64_t multiprocessors = 1;
  int64_t heads = 4, kv_heads = 2;
  FlashSight sight = FlashSight::own_past;
  FlashLimits::Cuts cuts = FlashLimits::Cuts::by_work;
};

/// One case for each kind of launch, with sizes that are no multiples of tiles.
std::vector<FlashCase> flash_cases() {
  return {
      {"decode", {{1, 1}, {1, 17}, {1, 200}}, 2, 4},
      {"small prefill, split", {{18, 190}}, 0, 64},
      {"prefill of few rows", {{23, 40}, {9, 9}}, 0, 1},
      {"prefill and decode", {{70, 100}, {1, 33}}, 0, 1},
      {"decode with twenty heads for a KV head", {{1, 150}}, 0, 4, 20, 1},
      {"prefill with three heads for a KV head", {{30, 45}}, 0, 1, 3, 1},
  };
}

/// Cases whose rows see later rows.
std::vector<FlashCase> sight_cases() {
  using enum FlashSight;
  constexpr auto kNever = FlashLimits::Cuts::never;
  return {
      {"an encoder's segments", {{70, 70}, {9, 9}, {1, 1}}, 0, 64, 3, 3, all, kNever},
      {"an image, cut", {{40, 200}}, 0, 64, 2, 1, all},
      {"images in prompts and a decode", {{70, 110}, {1, 40}}, 1, 1, 4, 2, by_row},
      {"an image of a few rows", {{5, 90}}, 0, 64, 2, 1, by_row},
  };
}

struct Variant {
  int64_t head_dim, window;
  float soft_cap;
};

std::vector<Variant> variants_of(const FlashUnit& unit) {
  if (!unit.general) return {{unit.head_dim, 0, 0}};
  return {{unit.head_dim, 20, 0},
          {unit.head_dim - 48, 0, 0},
          {unit.head_dim - 16, 0, 5.f},
          {unit.head_dim - 32, 37, 5.f}};
}

/// The rows of one step by the unit.
Matrix run_flash(const FlashUnit& unit, FlashMemory memory, const model::AttentionSpec& spec,
                 const FlashLimits& limits, const KvFixture& kv, const Matrix& q,
                 FlashSight sight) {
  kernels::FlashPlanner planner(kernels::flash_shape(spec), limits);
  std::vector<std::byte> slab(planner.layout().bytes);
  planner.plan({kv.query_start, kv.context, kv.batch().table_stride, sight == FlashSight::by_row},
               slab);
  DeviceBytes device_slab(slab.size());
  device_slab.upload(slab.data());
  const DeviceBytes workspace(kernels::flash_workspace_bytes(limits, kernels::flash_shape(spec)));
  const int64_t columns = (spec.heads + 2 * spec.kv_heads) * spec.head_dim;
  const DeviceRows device_q(q, unit.activation, {.gap = columns - q.columns});
  const DeviceRows out(q.rows, q.columns, unit.activation);
  kernels::check(unit.prepare(memory), "prepare");
  kernels::flash_attention(kv.paged_layer(planner, device_slab, device_q.view(), out.view()),
                           {.unit = &unit,
                            .memory = memory,
                            .limits = &limits,
                            .workspace = static_cast<std::byte*>(workspace.data()),
                            .sequences = kv.batch().sequences,
                            .sight = sight,
                            .seen_end = sight == FlashSight::by_row ? kv.batch().seen_end : nullptr,
                            .k_scale = kv.layer().scales(spec).key,
                            .v_scale = kv.layer().scales(spec).value},
                           spec, kStream);
  return out.matrix();
}

/// Checks one case of one unit against the reference.
void check_flash(const FlashUnit& unit, FlashMemory memory, const Variant& variant,
                 const FlashCase& c, int64_t fixed_split) {
  model::AttentionSpec spec;
  spec.heads = c.heads;
  spec.kv_heads = c.kv_heads;
  spec.head_dim = variant.head_dim;
  spec.window = variant.window;
  spec.soft_cap = variant.soft_cap;
  spec.scale = 1.f / std::sqrt(static_cast<float>(spec.head_dim));
  spec.key_scale = 0.375f;  // of float8 alone
  spec.value_scale = 3;
  KvFixture kv(c.sequences, spec, unit.kv, 16, c.padding);
  constexpr int64_t kImage = 23;
  if (c.sight != FlashSight::own_past) {
    kv.see_blocks(c.sight == FlashSight::all ? std::ranges::max(kv.context) : kImage);
  }
  FlashLimits limits{kv.rows(),   static_cast<int64_t>(kv.context.size()),
                     0,           c.multiprocessors,
                     fixed_split, c.cuts};
  std::vector<Matrix> keys, values;
  for (size_t s = 0; s < c.sequences.size(); ++s) {
    const auto [rows, context] = c.sequences[s];
    limits.context = std::max(limits.context, context);
    const int64_t columns = spec.kv_heads * spec.head_dim;
    const auto seed = static_cast<uint32_t>(10 * s);
    keys.push_back(random_matrix(context, columns, unit.activation, seed + 1));
    values.push_back(random_matrix(context, columns, unit.activation, seed + 2));
    for (double& x : keys.back().values) x = stored_in(x, unit.kv, spec.key_scale);
    for (double& x : values.back().values) x = stored_in(x, unit.kv, spec.value_scale);
    if (spec.window > 0) kv.drop_before(s, std::max<int64_t>(0, context - rows - spec.window + 1));
  }
  kv.fill(keys, values);
  const Matrix q = random_matrix(kv.rows(), spec.heads * spec.head_dim, unit.activation, 99);
  const Matrix out = run_flash(unit, memory, spec, limits, kv, q, c.sight);
  int64_t row = 0;
  for (size_t s = 0; s < c.sequences.size(); ++s) {
    INFO("sequence " << s);
    const int64_t rows = c.sequences[s].rows;
    const Matrix of = slice_rows(q, row, rows), got = slice_rows(out, row, rows);
    row += rows;
    // Weights and results are rounded once each to the activations' type; values are of size 1, of
    // which a few are 3.
    const Matrix expected = attention(of, keys[s], values[s], spec, {}, {}, {}, kv.seen_end_of(s));
    CHECK(largest_error(got, expected, 1) <= 3 * epsilon(unit.activation));
  }
  for (; row < out.rows; ++row)
    for (int64_t i = 0; i < out.columns; ++i) REQUIRE(out.at(row, i) == 0);
}

/// The multiply-add of a score and a maximum that are both kMaskedScore: a compiler may join the
/// product and the difference, and then one product is rounded and the other is not.
float masked_exponent(float scale) {
  const float maximum = kernels::kMaskedScore * scale;
  return std::fma(kernels::kMaskedScore, scale, -maximum);
}

}  // namespace

TEST_CASE("a masked score is its own maximum, however the compiler joins its product") {
  for (const int64_t head_dim : {8, 40, 64, 80, 96, 128, 192, 256}) {
    const float scale = 1.4426950408889634f / std::sqrt(static_cast<float>(head_dim));
    INFO(head_dim);
    CHECK(masked_exponent(scale) == 0);
    CHECK(std::isfinite(kernels::kMaskedScore * scale * 64));
  }
}

/// All combinations on a device. In the emulator, which takes a second for what a device does in a
/// microsecond, each unit has a third of the cases, with one variant and one KV tile in turn.
template <typename F>
void for_flash_cases([[maybe_unused]] size_t index, const FlashUnit& unit, F test) {
  const std::vector<Variant> variants = variants_of(unit);
  const FlashMemory memories[] = {FlashMemory::large, FlashMemory::small};
  const std::vector<FlashCase> cases = flash_cases();
#ifdef PLIMSOLL_EMULATION
  for (size_t i = index % 3; i < cases.size(); i += 3)
    test(variants[(index + i) % variants.size()], memories[(index + i / 3) % 2], cases[i]);
#else
  for (const Variant& variant : variants)
    for (const FlashMemory memory : memories)
      for (const FlashCase& c : cases) test(variant, memory, c);
#endif
}

TEST_CASE("FlashInfer's kernels compute attention", "[flashinfer]") {
  if (kernels::flash_units().empty()) return skip("built without FlashInfer");
  for (size_t i = 0; i < kernels::flash_units().size(); ++i) {
    const FlashUnit& unit = kernels::flash_units()[i];
    for_flash_cases(i, unit, [&](const Variant& variant, FlashMemory memory, const FlashCase& c) {
      INFO(torch_name(unit.activation)
           << ", cache " << torch_name(unit.kv) << ", tiles of " << unit.head_dim
           << (unit.general ? " (general)" : "") << ", head size " << variant.head_dim
           << ", window " << variant.window << ", soft cap " << variant.soft_cap << ", "
           << (memory == FlashMemory::large ? "large" : "small") << " memory: " << c.what);
      check_flash(unit, memory, variant, c, 0);
      if (c.padding > 0) check_flash(unit, memory, variant, c, 128);
    });
  }
}

TEST_CASE("FlashInfer's kernels let rows see what is behind them", "[flashinfer]") {
  if (kernels::flash_units().empty()) return skip("built without FlashInfer");
  size_t turn = 0;
  for (const FlashUnit& unit : kernels::flash_units()) {
    if (!unit.general || unit.kv != unit.activation || unit.head_dim > 128) continue;
    for (const FlashCase& c : sight_cases()) {
      // Encoders' head sizes: 56, 72, 80, 88.
      const int64_t sizes[] = {unit.head_dim - 8, unit.head_dim == 128 ? 72 : 16,
                               unit.head_dim == 128 ? 88 : 64, unit.head_dim == 128 ? 80 : 40};
      const Variant variant{sizes[turn % 4],
                            c.sight == FlashSight::by_row && turn % 2 == 0 ? 20 : 0, 0};
      const FlashMemory memory = turn % 3 == 0 ? FlashMemory::small : FlashMemory::large;
      ++turn;
      INFO(torch_name(unit.activation) << ", head size " << variant.head_dim << ", window "
                                       << variant.window << ": " << c.what);
      check_flash(unit, memory, variant, c, 0);
    }
  }
}

TEST_CASE("units for layers", "[flashinfer]") {
  if (kernels::flash_units().empty()) return skip("built without FlashInfer");
  model::AttentionSpec spec;
  spec.heads = 4;
  spec.kv_heads = 2;
  struct Row {
    int64_t head_dim, window;
    DType activation, kv;
    int64_t tiles;  // head_dim of the unit; 0: none
    bool general;
  };
  const Row rows[] = {
      {128, 0, DType::bf16, DType::bf16, 128, false},
      {128, 9, DType::bf16, DType::bf16, 128, true},
      {96, 0, DType::bf16, DType::bf16, 128, true},
      {80, 0, DType::bf16, DType::f8_e4m3, 128, true},
      {16, 0, DType::bf16, DType::bf16, 64, true},
      {256, 0, DType::bf16, DType::bf16, 256, true},
      {272, 0, DType::bf16, DType::bf16, 0, false},
      {72, 0, DType::bf16, DType::bf16, 128, true},
      {72, 0, DType::bf16, DType::f8_e4m3, 0, false},
      {68, 0, DType::bf16, DType::bf16, 0, false},
      {128, 0, DType::f32, DType::f32, 0, false},
      {128, 0, DType::f16, DType::bf16, 0, false},
  };
  for (const Row& row : rows) {
    spec.head_dim = row.head_dim;
    spec.window = row.window;
    INFO("head size " << row.head_dim << ", window " << row.window);
    const FlashUnit* unit = kernels::find_flash_unit(spec, row.activation, row.kv);
    REQUIRE((unit == nullptr) == (row.tiles == 0));
    if (unit == nullptr) continue;
    CHECK(unit->head_dim == row.tiles);
    CHECK(unit->general == row.general);
    const FlashUnit* seeing =
        kernels::find_flash_unit(spec, row.activation, row.kv, FlashSight::all);
    REQUIRE(seeing != nullptr);
    CHECK(seeing->general);
  }
}

TEST_CASE("why a layer has no unit is told by what the kernels lack") {
  using Catch::Contains;
  model::AttentionSpec spec;
  CHECK_THAT(kernels::why_no_flash(spec), Contains("heads of up to 256 columns"));
  spec.window = 8;
  CHECK_THAT(kernels::why_no_flash(spec), Contains("heads of up to 256 columns"));
  spec.window_kind = model::WindowKind::chunk;
  CHECK_THAT(kernels::why_no_flash(spec), Contains("not chunks"));
  spec.alibi.slopes = 3;
  CHECK_THAT(kernels::why_no_flash(spec), Contains("no ALiBi"));
  spec.sinks = 4;
  CHECK_THAT(kernels::why_no_flash(spec), Contains("no attention sinks"));
}

}  // namespace plimsoll::testing
