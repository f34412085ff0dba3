// What is done to heads before attention: clamped, normalised, rotated, stored.
#include <cmath>

#include "backend/cpu_fixture.h"

namespace plimsoll::testing {
namespace {

using backend::BatchMeta;
using backend::View;

struct HeadsCase {
  const char* name;
  model::Norm norm;
  int64_t head_dim, rotary_dim;
  bool own_weights = false;  // of each head
  model::NormSpan span = model::NormSpan::each_head;
  model::NormOrder order = model::NormOrder::before_rope;
  model::RopePairs pairs = model::RopePairs::halves;
  float clamp = 0;
  model::QueryGrowth growth{};
  bool v_norm = false;
};

TEST_CASE("heads are clamped, normalised, rotated and stored") {
  using enum model::NormSpan;
  using enum model::NormOrder;
  using enum model::RopePairs;
  const model::Norm rms{.epsilon = 1e-5f, .weight = 0, .present = true};
  const model::Norm offset{.epsilon = 1e-5f, .weight_offset = 1, .weight = 0, .present = true};
  const model::Norm layer{.kind = model::NormKind::layer, .weight = 0, .bias = 1, .present = true};
  const HeadsCase cases[] = {
      {"rms, half of the head", rms, 64, 32},
      {"rms, head of 40", offset, 40, 20},
      {"after rope", rms, 32, 32, false, each_head, after_rope},
      {"all heads", rms, 48, 48, true, all_heads},
      {"layer norm, own weights", layer, 32, 8, true},
      {"layer norm, shared", layer, 24, 24, false, each_head, before_rope, neighbours},
      {"neighbours, a part", {}, 36, 18, false, each_head, before_rope, neighbours},
      {"clamped, no rope", {}, 16, 0, false, each_head, before_rope, halves, 0.7f},
      {"q grows", rms, 16, 16, false, each_head, after_rope, neighbours, 0, {0.3f, 64, 1}, true},
  };
  const std::vector<int32_t> positions = {0, 1, 1000, 100000};
  const std::vector<int32_t> rows_of = {0, 0, 0, 1};
  const std::vector<uint8_t> long_rope = {0, 1};
  BatchMeta batch;
  batch.positions = positions;
  batch.row_sequence = rows_of;
  batch.long_rope = long_rope;
  for (const CpuIsa isa : isas())
    for (const HeadsCase& c : cases) {
      CAPTURE(isa_name(isa), c.name);
      CpuFixture cpu(isa, 2);
      const int64_t d = c.head_dim;
      model::AttentionSpec spec{.heads = 4, .kv_heads = 2, .head_dim = d};
      spec.rope = c.rotary_dim > 0 ? 0 : -1;
      spec.q_norm = spec.k_norm = c.norm;
      spec.v_norm = {.present = c.v_norm};
      spec.norm_span = c.span;
      spec.norm_order = c.order;
      spec.rope_pairs = c.pairs;
      spec.clamp = c.clamp;
      spec.query_growth = c.growth;
      const auto vector = [&](int64_t heads, uint32_t seed) {
        const std::vector<int64_t> shape = {c.own_weights ? heads * d : d};
        return LoadedWeight(*cpu, shape, model::WeightUse::vector, DType::f32, seed);
      };
      const LoadedWeight q = vector(4, 5), q_bias = vector(4, 6), k = vector(2, 7),
                         k_bias = vector(2, 8);
      const bool biased = c.norm.kind == model::NormKind::layer;
      const backend::Weight none;
      const backend::HeadNorms norms = {q.weight, biased ? q_bias.weight : none, k.weight,
                                        biased ? k_bias.weight : none};
      const reference::HeadVectors vectors = {
          q.values.values, biased ? q_bias.values.values : std::vector<double>{}, k.values.values,
          biased ? k_bias.values.values : std::vector<double>{}};
      model::RopeSpec rope;
      rope.rotary_dim = c.rotary_dim;
      for (int64_t i = 0; i < rope.rotary_dim / 2; ++i)
        rope.table.inverse_frequencies.push_back(static_cast<float>(std::pow(0.8, double(i))));
      rope.long_table = rope.table;
      rope.long_table->scale = 1.5f;
      Rows angles(4, rope.rotary_dim);
      cpu->run(ops::RopeAngles{angles, rope, batch});
      Rows qkv = Rows::random(4, 8 * d, 1);
      const Rows before = qkv;
      std::vector<std::byte> pool(cpu->footprint().kv_bytes(spec, 16, DType::f32));
      const std::vector<int32_t> table(2 * 8192, 0);
      const std::span<const int32_t> tables[] = {table};
      batch.block_tables = tables;
      batch.table_stride = 8192;
      cpu->run(ops::RopeAndStore{qkv,
                                 c.rotary_dim > 0 ? View(angles) : View{},
                                 spec,
                                 norms,
                                 {pool.data(), pool.size(), 0, DType::f32, 16, 0},
                                 batch});
      for (int64_t t = 0; t < 4; ++t) {
        Matrix row(1, 8 * d), found(1, 8 * d);
        for (int64_t i = 0; i < 8 * d; ++i) {
          row.at(0, i) = double(before.row(t)[i]);
          found.at(0, i) = double(qkv.row(t)[i]);
        }
        const Matrix expected = reference::shape_heads(
            row, spec, vectors,
            c.rotary_dim == 0 ? nullptr : (t == 3 ? &*rope.long_table : &rope.table),
            positions[static_cast<size_t>(t)]);
        CHECK(distance(found, expected) < 1e-6);
      }
    }
}

}  // namespace
}  // namespace plimsoll::testing
