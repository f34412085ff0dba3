// Decode attention by XQA against the plain reference: every unit of the build on a card; in the
// emulator what the host hands to them.
#include <catch2/catch.hpp>

#include "kernels/attention_launch.h"
#include "kernels/fixture.h"
#include "kernels/kv_fixture.h"
#include "like_cases.h"
#include "skipped.h"

namespace plimsoll::testing {
namespace {

using kernels::AttentionOptions;
using kernels::XqaUnit;

constexpr backend::CardFigures kCard{.compute_capability = 80, .processors = 20};
constexpr AttentionOptions kOn{.xqa = true};

model::AttentionSpec heads_of(int64_t group, int64_t head_dim) {
  model::AttentionSpec spec;
  spec.kv_heads = 2;
  spec.heads = 2 * group;
  spec.head_dim = head_dim;
  spec.scale = 1 / std::sqrt(static_cast<float>(head_dim));
  return spec;
}

/// A batch with keys, values and queries drawn by a seed, two rows of padding behind it.
struct DrawnBatch {
  DrawnBatch(const std::vector<SequenceCase>& of, const model::AttentionSpec& spec, DType type,
             DType cache)
      : sequences(of), kv(of, spec, cache, 16, 2) {
    for (size_t s = 0; s < of.size(); ++s) {
      const auto seed = static_cast<uint32_t>(10 * s);
      const int64_t columns = spec.kv_heads * spec.head_dim;
      keys.push_back(random_matrix(of[s].context, columns, type, seed + 1));
      values.push_back(random_matrix(of[s].context, columns, type, seed + 2));
    }
    kv.fill(keys, values);
    for (size_t s = 0; s < of.size(); ++s) {  // as the cache has them
      keys[s] = kv.read(s, 0);
      values[s] = kv.read(s, 1);
    }
    q = random_matrix(kv.rows(), spec.heads * spec.head_dim, type, 99);
  }

  void check(const Matrix& out, const model::AttentionSpec& spec, DType type) const {
    for (size_t s = 0; s < sequences.size(); ++s) {
      INFO("sequence " << s << " of " << sequences[s].context << " tokens");
      const int64_t rows = sequences[s].rows, first = kv.query_start[s];
      const Matrix of = slice_rows(q, first, rows), got = slice_rows(out, first, rows);
      const Matrix expected = reference::attention(of, keys[s], values[s], spec);
      // Weights are rounded to the type, results of two halves, and the sum of parts.
      CHECK(largest_error(got, expected, 1) <= 4 * epsilon(type));
    }
    const Matrix padding = slice_rows(out, out.rows - 2, 2);
    CHECK(std::ranges::all_of(padding.values, [](double x) { return x == 0; }));
  }

  std::vector<SequenceCase> sequences;
  KvFixture kv;
  std::vector<Matrix> keys, values;
  Matrix q{0, 0};
};

const std::vector<SequenceCase> kDecode{{1, 1}, {1, 17}, {1, 255}, {1, 256}, {1, 700}};

}  // namespace

TEST_CASE("decode steps by XQA are attention", "[flashinfer]") {
  if (kernels::xqa_units().empty() || kernels::flash_units().empty())
    return skip("built without XQA");
  size_t turn = 0;
  for (const XqaUnit& unit : kernels::xqa_units())
    for (const int64_t group : {1, 4, 7, 16}) {
      if (!is_taken(++turn, 5)) continue;
      INFO(torch_name(unit.activation) << ", cache " << torch_name(unit.kv) << ", " << group
                                       << " heads of " << unit.head_dim << " to a KV head");
      model::AttentionSpec spec = heads_of(group, unit.head_dim);
      if (unit.kv == DType::f8_e4m3) {
        spec.key_scale = 0.5f;
        spec.value_scale = 0.25f;
      }
      if (kernels::find_flash_unit(spec, unit.activation, unit.kv) == nullptr) continue;
      const DrawnBatch batch(kDecode, spec, unit.activation, unit.kv);
      for (const int32_t processors : {1, 20, 132}) {
        backend::CardFigures card = kCard;
        card.processors = processors;
        INFO(processors << " multiprocessors");
        AttentionLaunch launch(spec, batch.kv, unit.activation, card, kOn);
        batch.check(launch.run(batch.q), spec, unit.activation);
        CHECK(launch.notes("decode steps of 1 and more sequences take XQA's"));
        CHECK(launch.attention().recordable());
        batch.check(launch.run(batch.q), spec, unit.activation);  // with what the first one left
      }
    }
}

TEST_CASE("what XQA does not cover stays with the other kernels", "[flashinfer]") {
  if (kernels::xqa_units().empty() || kernels::flash_units().empty())
    return skip("built without XQA");
  const auto taken = [](const model::AttentionSpec& spec, const backend::CardFigures& card,
                        const AttentionOptions& options, DType cache = DType::bf16) {
    const DrawnBatch batch({{1, 30}}, spec, DType::bf16, cache);
    AttentionLaunch launch(spec, batch.kv, DType::bf16, card, options);
    batch.check(launch.run(batch.q), spec, DType::bf16);
    return launch.notes("XQA");
  };
  model::AttentionSpec spec = heads_of(4, 64);
  CHECK(taken(spec, kCard, kOn));
  CHECK_FALSE(taken(spec, kCard, {.xqa = false}));
  CHECK_FALSE(taken(spec, kCard, {.xqa = {}}));  // nothing was tried yet
  backend::CardFigures deterministic = kCard;
  deterministic.deterministic = true;
  CHECK_FALSE(taken(spec, deterministic, kOn));
  CHECK_FALSE(taken(heads_of(17, 64), kCard, kOn));
  CHECK_FALSE(taken(heads_of(4, 32), kCard, kOn));
  spec.soft_cap = 30;
  CHECK_FALSE(taken(spec, kCard, kOn));
  spec.soft_cap = 0;
  spec.window = 20;
  CHECK_FALSE(taken(spec, kCard, kOn));
}

TEST_CASE("XQA covers blocks of 16 tokens that lie whole rows apart") {
  const model::AttentionSpec spec = heads_of(4, 128);
  const kernels::PagedLayer layer{
      .q_stride = 12 * 128, .block_stride = 100 * 256, .block_size = 16};
  CHECK(kernels::xqa_covers(layer, spec, DType::bf16));
  kernels::PagedLayer other = layer;
  other.block_stride = 100 * 256 + 128;
  CHECK_FALSE(kernels::xqa_covers(other, spec, DType::bf16));
  CHECK(kernels::xqa_covers(other, spec, DType::f8_e4m3));
  other = layer;
  other.block_size = 32;
  CHECK_FALSE(kernels::xqa_covers(other, spec, DType::bf16));
  other = layer;
  other.q_stride = 8 * 128;
  CHECK_FALSE(kernels::xqa_covers(other, spec, DType::bf16));
}

TEST_CASE("steps with prefills stay with the other kernels", "[flashinfer]") {
  if (kernels::xqa_units().empty() || kernels::flash_units().empty())
    return skip("built without XQA");
  const model::AttentionSpec spec = heads_of(4, 64);
  const DrawnBatch batch({{1, 30}, {3, 40}, {1, 9}}, spec, DType::bf16, DType::bf16);
  AttentionLaunch launch(spec, batch.kv, DType::bf16, kCard, kOn);
  batch.check(launch.run(batch.q), spec, DType::bf16);
  CHECK_FALSE(launch.attention().recordable());
}

TEST_CASE("a trial at launch chooses the faster kernels for decode steps", "[flashinfer]") {
  if (kernels::xqa_units().empty() || kernels::flash_units().empty())
    return skip("built without XQA");
  const model::AttentionSpec spec = heads_of(4, 64);
  const DrawnBatch batch({{1, 30}, {1, 70}, {1, 9}}, spec, DType::bf16, DType::bf16);
  for (const size_t room : {size_t{1} << 10, size_t{1} << 20}) {
    AttentionLaunch launch(spec, batch.kv, DType::bf16, kCard, {.xqa = {}});
    batch.check(launch.run(batch.q), spec, DType::bf16);
    CHECK_FALSE(launch.notes("XQA"));
    const DeviceBytes scratch(room);
    launch.attention().tune({static_cast<std::byte*>(scratch.data()), scratch.size()}, kStream);
    batch.check(launch.run(batch.q), spec, DType::bf16);
    if (room < size_t{1} << 20) CHECK_FALSE(launch.notes("XQA"));  // no room to try anything
#ifdef PLIMSOLL_EMULATION
    // There the stand-in is a loop, and FlashInfer's kernels are instructions on fibers.
    else
      CHECK(launch.notes("XQA"));
#endif
  }
}

}  // namespace plimsoll::testing
