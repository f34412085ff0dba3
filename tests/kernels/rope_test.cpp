#include "kernels/rows/rope.h"

#include "kernels/kv_fixture.h"
#include "kernels/rows/rope_tables.h"
#include "kernels/runtime/device.h"

#ifdef PLIMSOLL_EMULATION
#include "emulation/streams.h"
#endif

namespace plimsoll::testing {
namespace {

model::RopeTable table_of(int64_t rotary_dim, double base, float scale) {
  model::RopeTable table;
  for (int64_t i = 0; i < rotary_dim / 2; ++i)
    table.inverse_frequencies.push_back(
        static_cast<float>(std::pow(base, -2.0 * double(i) / double(rotary_dim))));
  table.scale = scale;
  return table;
}

}  // namespace

TEST_CASE("rope_angles follow the sequence's table") {
  const model::RopeTable short_table = table_of(64, 1e4, 1);
  const model::RopeTable long_table = table_of(64, 5e5, 1.19f);
  const DeviceArray<float> short_inverse(short_table.inverse_frequencies);
  const DeviceArray<float> long_inverse(long_table.inverse_frequencies);
  for (const bool has_long : {false, true})
    in_each_order([&] {
      const KvFixture kv({{3, 5}, {1, 131072}, {2, 40000}}, {.kv_heads = 1, .head_dim = 8},
                         DType::f32, 65536, 2);
      const DeviceRows out(kv.rows(), 64, DType::f32, {.gap = 3});
      kernels::rope_angles(
          out.view(),
          {.usual = {short_inverse.data(), short_table.scale},
           .for_long = has_long ? kernels::RopeFrequencies{long_inverse.data(), long_table.scale}
                                : kernels::RopeFrequencies{}},
          kv.batch(), kStream);
      const Matrix angles = out.matrix();
      for (int64_t t = 0; t < kv.rows(); ++t) {
        const int32_t s = kv.row_sequence[static_cast<size_t>(t)];
        const bool is_long = has_long && s >= 0 && kv.long_rope[static_cast<size_t>(s)] != 0;
        const model::RopeTable& table = is_long ? long_table : short_table;
        for (int64_t i = 0; i < 32; ++i) {
          const double angle = double(static_cast<float>(kv.positions[static_cast<size_t>(t)]) *
                                      table.inverse_frequencies[static_cast<size_t>(i)]);
          // Rounding the reduced angle, up to half a turn, to float.
          CHECK(angles.at(t, i) ==
                Approx(s < 0 ? 0 : std::cos(angle) * double(table.scale)).margin(3e-7));
          CHECK(angles.at(t, 32 + i) ==
                Approx(s < 0 ? 0 : std::sin(angle) * double(table.scale)).margin(3e-7));
        }
      }
    });
}

TEST_CASE("rope_angles take each section's positions where the batch has several kinds") {
  const model::RopeTable table = table_of(24, 1e4, 1);
  const DeviceArray<float> inverse(table.inverse_frequencies);
  struct Case {
    std::vector<int32_t> sections;  // of twelve speeds
    bool has_kinds;
  };
  for (const Case& c :
       {Case{{2, 7, 12}, true}, Case{{6, 12}, true}, Case{{2, 7, 12}, false}, Case{{}, true}})
    in_each_order([&] {
      const KvFixture kv({{3, 5}, {1, 9}}, {.kv_heads = 1, .head_dim = 8}, DType::f32, 16, 1);
      std::vector<int32_t> by_kind;
      for (int32_t i = 0; i < 3 * kv.rows(); ++i) by_kind.push_back(100 + 7 * i);
      const DeviceArray<int32_t> positions(by_kind);
      kernels::DeviceBatch batch = kv.batch();
      if (c.has_kinds) batch.rope_positions = positions.data();
      kernels::RopeOnDevice rope{.usual = {inverse.data(), 1}, .for_long = {}};
      for (const int32_t end : c.sections) rope.sections.ends[rope.sections.count++] = end;
      const DeviceRows out(kv.rows(), 24, DType::f32);
      kernels::rope_angles(out.view(), rope, batch, kStream);
      const Matrix angles = out.matrix();
      for (int64_t t = 0; t + 1 < kv.rows(); ++t)
        for (int64_t i = 0; i < 12; ++i) {
          size_t kind = 0;
          while (kind < c.sections.size() && i >= c.sections[kind]) ++kind;
          const bool kinds = c.has_kinds && !c.sections.empty();
          const int32_t position =
              kinds ? by_kind[kind * static_cast<size_t>(kv.rows()) + static_cast<size_t>(t)]
                    : kv.positions[static_cast<size_t>(t)];
          const double angle = double(static_cast<float>(position) *
                                      table.inverse_frequencies[static_cast<size_t>(i)]);
          CHECK(angles.at(t, i) == Approx(std::cos(angle)).margin(3e-7));
          CHECK(angles.at(t, 12 + i) == Approx(std::sin(angle)).margin(3e-7));
        }
    });
}

TEST_CASE("rope_and_store norms, rotates and writes the cache") {
  struct Case {
    int64_t heads, kv_heads, head_dim, rotary_dim;
    DType cache;  // boolean: as activations
    bool norms;
    model::NormKind kind;
    Layout layout;
    bool own_weights = false;
    model::NormSpan span = model::NormSpan::each_head;
    model::NormOrder order = model::NormOrder::before_rope;
    model::RopePairs pairs = model::RopePairs::halves;
    float clamp = 0;
    model::QueryGrowth growth{};
    bool v_norm = false;
  };
  const auto same = DType::boolean;
  using model::NormKind;
  using enum model::NormSpan;
  using enum model::NormOrder;
  using enum model::RopePairs;
  for (const Case& c :
       {Case{4, 2, 64, 64, same, false, NormKind::rms, kAligned},
        Case{2, 1, 8, 8, same, true, NormKind::rms, kAligned},
        Case{3, 3, 80, 32, same, true, NormKind::layer, {.gap = 4}},
        Case{2, 2, 256, 256, DType::f8_e4m3, true, NormKind::rms, kAligned},
        Case{1, 1, 128, 0, DType::f8_e4m3, false, NormKind::rms, {.gap = 3}},
        Case{3, 1, 128, 64, same, true, NormKind::layer, kAligned, true},
        Case{5,
             2,
             64,
             32,
             same,
             true,
             NormKind::rms,
             {.gap = 8},
             false,
             each_head,
             after_rope,
             neighbours,
             0.8f,
             {0.3f, 4, 1},
             true},
        Case{2, 2, 128, 128, DType::f8_e4m3, true, NormKind::rms, kAligned, true},
        Case{3,
             1,
             256,
             48,
             same,
             false,
             NormKind::rms,
             kAligned,
             false,
             each_head,
             before_rope,
             halves,
             0,
             {},
             true},
        Case{2, 1, 64, 24, same, true, NormKind::rms, kAligned},
        Case{6, 2, 10, 10, same, false, NormKind::rms, kOdd},
        Case{2, 1, 7, 6, DType::f8_e4m3, true, NormKind::rms, kOdd},
        Case{4, 2, 32, 32, same, true, NormKind::rms, kAligned, false, each_head, after_rope},
        Case{4, 2, 16, 16, same, true, NormKind::rms, kAligned, true, all_heads},
        Case{3, 1, 24, 8, same, true, NormKind::layer, {.gap = 4}, true},
        Case{2, 2, 34, 18, same, false, NormKind::rms, kAligned, false, each_head, before_rope,
             neighbours},
        Case{2, 1, 16, 0, same, false, NormKind::rms, kOdd, false, each_head, before_rope, halves,
             0.7f},
        Case{2,
             1,
             16,
             16,
             same,
             true,
             NormKind::rms,
             kAligned,
             false,
             each_head,
             after_rope,
             neighbours,
             0,
             {0.3f, 4, 1},
             true}})
    for (const DType dtype : kActivationTypes) {
      INFO(torch_name(dtype) << " heads " << c.heads << "/" << c.kv_heads << " of " << c.head_dim
                             << ", rotary " << c.rotary_dim);
      const DType cache = c.cache == same ? dtype : c.cache;
      const model::Norm norm{.kind = c.kind, .weight_offset = 1, .present = c.norms};
      const model::AttentionSpec spec{.heads = c.heads,
                                      .kv_heads = c.kv_heads,
                                      .head_dim = c.head_dim,
                                      .key_scale = 0.375f,  // of float8 alone
                                      .value_scale = 3,
                                      .rope_pairs = c.pairs,
                                      .clamp = c.clamp,
                                      .q_norm = norm,
                                      .k_norm = norm,
                                      .v_norm = {.present = c.v_norm},
                                      .norm_span = c.span,
                                      .norm_order = c.order,
                                      .query_growth = c.growth};
      const std::vector<SequenceCase> sequences{{5, 21}, {1, 1}, {1, 33}};
      const int64_t columns = (c.heads + 2 * c.kv_heads) * c.head_dim;
      const model::RopeTable table = table_of(c.rotary_dim, 1e4, 1);
      const auto vector = [&](int64_t heads, uint32_t seed) {
        return random_matrix(1, c.own_weights ? heads * c.head_dim : c.head_dim, dtype, seed);
      };
      const Matrix q_weight = vector(c.heads, 2), q_bias = vector(c.heads, 4);
      const Matrix k_weight = vector(c.kv_heads, 3), k_bias = vector(c.kv_heads, 5);
      const DeviceRows device_q_weight(q_weight, dtype), device_k_weight(k_weight, dtype);
      const DeviceRows device_q_bias(q_bias, dtype), device_k_bias(k_bias, dtype);
      const bool biased = c.kind == NormKind::layer;
      const auto of_heads = [&](const DeviceRows& rows) -> kernels::HeadVector {
        return {{rows.view().data, dtype}, c.own_weights ? c.head_dim : 0};
      };
      const auto if_biased = [&](const Matrix& bias) {
        return biased ? bias.values : std::vector<double>{};
      };
      const reference::HeadVectors vectors{q_weight.values, if_biased(q_bias), k_weight.values,
                                           if_biased(k_bias)};
      in_each_order([&] {
        KvFixture kv(sequences, spec, cache, 4, 2);
        const Matrix before = random_matrix(kv.rows(), columns, dtype, 1);
        const DeviceRows qkv(before, dtype, c.layout);
        Matrix angles(kv.rows(), std::max<int64_t>(1, c.rotary_dim));
        for (int64_t t = 0; t < kv.rows(); ++t)
          for (int64_t i = 0; i < c.rotary_dim / 2; ++i) {
            const double angle = double(static_cast<float>(kv.positions[static_cast<size_t>(t)]) *
                                        table.inverse_frequencies[static_cast<size_t>(i)]);
            angles.at(t, i) = std::cos(angle);
            angles.at(t, c.rotary_dim / 2 + i) = std::sin(angle);
          }
        const DeviceRows device_angles(angles, DType::f32);
        kernels::rope_and_store({.qkv = qkv.view(),
                                 .angles = c.rotary_dim > 0 ? device_angles.view() : View{},
                                 .spec = &spec,
                                 .q_norm = of_heads(device_q_weight),
                                 .q_bias = biased ? of_heads(device_q_bias) : kernels::HeadVector{},
                                 .k_norm = of_heads(device_k_weight),
                                 .k_bias = biased ? of_heads(device_k_bias) : kernels::HeadVector{},
                                 .cache = &kv.layer()},
                                kv.batch(), kStream);
        Matrix expected = before;
        for (int64_t t = 0; t < kv.rows(); ++t) {
          if (kv.row_sequence[static_cast<size_t>(t)] < 0) continue;
          Matrix row(1, columns);
          for (int64_t i = 0; i < columns; ++i) row.at(0, i) = before.at(t, i);
          const Matrix shaped =
              reference::shape_heads(row, spec, vectors, c.rotary_dim > 0 ? &table : nullptr,
                                     kv.positions[static_cast<size_t>(t)]);
          for (int64_t i = 0; i < columns; ++i) expected.at(t, i) = shaped.at(0, i);
        }
        const int64_t k_column = c.heads * c.head_dim;
        Matrix after = qkv.matrix();
        // v is not kept there, nor anything of padding.
        for (int64_t t = 0; t < kv.rows(); ++t) {
          const bool padding = kv.row_sequence[static_cast<size_t>(t)] < 0;
          for (int64_t i = padding ? 0 : k_column + c.kv_heads * c.head_dim; i < columns; ++i)
            after.at(t, i) = expected.at(t, i);
        }
        // One rounding of sums of two products that may cancel: relative to their size, about 1; a
        // norm over all heads is rounded once more.
        const double roundings = c.span == all_heads ? 6 : 2;
        CHECK(largest_error(after, expected, 1) <= roundings * epsilon(dtype) + 2e-6);
        const int64_t v_column = k_column + c.kv_heads * c.head_dim;
        for (size_t s = 0; s < sequences.size(); ++s) {
          const Matrix keys = kv.read(s, 0), values = kv.read(s, 1);
          for (int64_t p = 0; p < keys.rows; ++p) {
            const int64_t t = kv.query_start[s + 1] - (keys.rows - p);
            for (int64_t i = 0; i < keys.columns; ++i) {
              if (t < kv.query_start[s]) {
                REQUIRE(std::isnan(keys.at(p, i)));  // not of this step
                continue;
              }
              // e4m3 has three bits; its key is rounded from the float, not from what qkv holds.
              const double wide =
                  cache == DType::f8_e4m3 ? 0x1p-4 + 1e-6 : roundings * epsilon(dtype) + 2e-6;
              REQUIRE(keys.at(p, i) ==
                      Approx(expected.at(t, k_column + i)).epsilon(wide).margin(wide));
              REQUIRE(values.at(p, i) ==
                      Approx(stored_in(expected.at(t, v_column + i), cache, spec.value_scale))
                          .epsilon(wide));
            }
          }
        }
      });
    }
}

#ifdef PLIMSOLL_EMULATION
TEST_CASE("a rope's tables are there for what runs in the launch's stream") {
  emulation::set_streams(emulation::Streams::when_awaited);
  {
    model::ModelSpec spec;
    spec.ropes.push_back({.rotary_dim = 64, .table = table_of(64, 1e4, 1), .long_table = {}});
    const DeviceBytes memory(256);
    const kernels::Stream stream;
    kernels::RopeTables tables;
    tables.start(spec, {static_cast<std::byte*>(memory.data()), memory.size()}, stream.get());
    stream.wait();
    const float* found = tables.of(spec.ropes[0]).usual.inverse;
    CHECK(std::equal(found, found + 32, spec.ropes[0].table.inverse_frequencies.begin()));
  }
  emulation::set_streams(emulation::Streams::at_once);
}
#endif

}  // namespace plimsoll::testing
