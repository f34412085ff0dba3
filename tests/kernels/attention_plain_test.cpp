#include "kernels/attention/attention_plain.h"

#include <numeric>
#include <random>

#include "kernels/kv_fixture.h"

namespace plimsoll::testing {
namespace {

using kernels::AttentionItem;
using kernels::MergeItem;
using kernels::PlainLimits;
using kernels::Vector;

struct AttentionCase {
  const char* what;
  std::vector<SequenceCase> sequences;
  int64_t heads, kv_heads, head_dim;
  int64_t window = 0;
  float soft_cap = 0;
  DType cache = DType::boolean;  // boolean: as activations
  int64_t block_size = 16;
  int64_t multiprocessors = 1;  // few, so that contexts are cut
  PlainLimits::Splits splits = PlainLimits::Splits::by_work;
  Layout layout = kAligned;
  model::WindowKind window_kind = model::WindowKind::sliding;
  bool sinks = false;
  model::Alibi alibi{};
  int64_t chosen = 0;  // keys that a row sees; 0: all
  int64_t sees = 0;    // KvFixture::see_blocks; 0: up to itself
};

constexpr auto kByWork = PlainLimits::Splits::by_work;
constexpr auto kSliding = model::WindowKind::sliding;
constexpr auto kChunk = model::WindowKind::chunk;
constexpr model::Alibi kAlibi{.slopes = 1, .factor = 0.5f};
constexpr model::Alibi kRoots{.slopes = 1, .of = model::Alibi::Of::root};
constexpr model::Alibi kRounded{.slopes = 1, .of = model::Alibi::Of::position_bf16};

const AttentionCase kAttentionCases[] = {
    {"a prompt and decodes, grouped heads", {{37, 37}, {1, 1}, {1, 50}}, 8, 2, 64},
    {"chunks of prompts", {{5, 40}, {33, 65}, {9, 9}}, 4, 4, 32},
    {"a head size of 8", {{3, 20}, {1, 7}}, 2, 1, 8, 0, 0, DType::boolean, 4},
    {"a head size of 10, odd layout",
     {{3, 20}, {1, 7}},
     3,
     1,
     10,
     0,
     0,
     DType::boolean,
     16,
     1,
     PlainLimits::Splits::by_work,
     kOdd},
    {"a head size of 7", {{2, 35}}, 1, 1, 7, 0, 0, DType::f8_e4m3},
    {"a head size of 80, soft cap", {{4, 33}, {1, 90}}, 2, 2, 80, 0, 3},
    {"a head size of 96, e4m3", {{1, 70}}, 4, 1, 96, 0, 0, DType::f8_e4m3},
    {"a head size of 256, window", {{20, 60}, {1, 100}}, 2, 1, 256, 17},
    {"a window smaller than a tile", {{1, 200}, {40, 200}}, 4, 2, 16, 5},
    {"a window and splits", {{1, 1500}, {2, 1100}}, 2, 1, 16, 700},
    {"long contexts, cut", {{1, 2500}, {1, 3}, {1, 1000}}, 4, 2, 40},
    {"a chunk of a prompt, cut", {{6, 1800}}, 8, 1, 16},
    {"long contexts, not cut",
     {{1, 1500}, {3, 900}},
     2,
     2,
     16,
     0,
     0,
     DType::boolean,
     16,
     4,
     PlainLimits::Splits::none},
    {"more heads than a tile", {{2, 20}, {1, 33}}, 71, 1, 8},
    {"chunks and sinks",
     {{30, 60}, {1, 100}},
     4,
     2,
     16,
     23,
     0,
     DType::boolean,
     16,
     1,
     kByWork,
     kAligned,
     kChunk,
     true},
    {"sinks, cut",
     {{1, 1800}, {6, 1500}},
     6,
     2,
     16,
     0,
     0,
     DType::boolean,
     16,
     1,
     kByWork,
     kAligned,
     kSliding,
     true},
    {"alibi",
     {{20, 60}, {1, 90}},
     5,
     1,
     32,
     0,
     0,
     DType::boolean,
     16,
     1,
     kByWork,
     kAligned,
     kSliding,
     false,
     kAlibi},
    {"alibi rounded",
     {{20, 60}, {1, 90}},
     4,
     4,
     32,
     0,
     0,
     DType::boolean,
     16,
     1,
     kByWork,
     kAligned,
     kSliding,
     false,
     kRounded},
    {.what = "alibi of roots",
     .sequences = {{20, 60}, {1, 90}},
     .heads = 4,
     .kv_heads = 2,
     .head_dim = 32,
     .alibi = kRoots},
    {.what = "chosen keys",
     .sequences = {{30, 60}, {1, 100}, {3, 5}},
     .heads = 4,
     .kv_heads = 4,
     .head_dim = 80,
     .chosen = 13},
    {.what = "chosen keys, cut, sinks",
     .sequences = {{1, 1800}, {6, 1500}},
     .heads = 6,
     .kv_heads = 2,
     .head_dim = 16,
     .sinks = true,
     .chosen = 1},
    {.what = "an encoder's segments",
     .sequences = {{41, 41}, {9, 9}, {1, 1}},
     .heads = 3,
     .kv_heads = 3,
     .head_dim = 72,
     .splits = PlainLimits::Splits::none,
     .sees = 64},
    {.what = "images that see each other, cut",
     .sequences = {{30, 1300}, {1, 700}, {4, 40}},
     .heads = 4,
     .kv_heads = 2,
     .head_dim = 16,
     .sees = 24},
    {.what = "images and a window",
     .sequences = {{70, 90}, {1, 100}},
     .heads = 4,
     .kv_heads = 1,
     .head_dim = 32,
     .window = 20,
     .sees = 25},
};

/// Keys [n, most] that the last n rows of a sequence see, any of what is before them.
reference::ChosenKeys some_keys(const SequenceCase& sequence, int64_t most, uint32_t seed) {
  std::mt19937 random(seed);
  reference::ChosenKeys chosen;
  for (int64_t seen = sequence.context - sequence.rows + 1; seen <= sequence.context; ++seen) {
    std::vector<int32_t> keys(static_cast<size_t>(seen));
    std::iota(keys.begin(), keys.end(), 0);
    std::shuffle(keys.begin(), keys.end(), random);
    keys.resize(static_cast<size_t>(std::min(most, seen)));
    std::sort(keys.begin(), keys.end());
    chosen.push_back(std::move(keys));
  }
  return chosen;
}

/// The keys of all rows as the op has them; garbage where a row sees all.
std::vector<int32_t> flat(const std::vector<reference::ChosenKeys>& chosen, int64_t rows,
                          int64_t most) {
  std::vector<int32_t> all(static_cast<size_t>(rows * most), -7);
  size_t row = 0;
  for (const reference::ChosenKeys& sequence : chosen)
    for (const std::vector<int32_t>& keys : sequence) {
      if (std::ssize(keys) == most)
        std::copy(keys.begin(), keys.end(), all.begin() + static_cast<int64_t>(row) * most);
      ++row;
    }
  return all;
}

Matrix columns(const Matrix& from, int64_t first_row, int64_t rows, int64_t first, int64_t count) {
  Matrix result(rows, count);
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t i = 0; i < count; ++i) result.at(t, i) = from.at(first_row + t, first + i);
  return result;
}

}  // namespace

TEST_CASE("plain attention agrees with the reference") {
  for (const AttentionCase& c : kAttentionCases)
    for (const DType dtype : kActivationTypes) {
      INFO(c.what << ", " << torch_name(dtype));
      const DType cache = c.cache == DType::boolean ? dtype : c.cache;
      const model::AttentionSpec spec{.heads = c.heads,
                                      .kv_heads = c.kv_heads,
                                      .head_dim = c.head_dim,
                                      .scale = 1 / std::sqrt(float(c.head_dim)),
                                      .key_scale = 0.375f,  // of float8 alone
                                      .value_scale = 3,
                                      .soft_cap = c.soft_cap,
                                      .window = c.window,
                                      .window_kind = c.window_kind,
                                      .alibi = c.alibi};
      const Matrix sinks = random_matrix(1, c.heads, dtype, 31, 2);
      const Matrix slopes = random_matrix(1, c.heads, DType::f32, 32, 0.3);
      const DeviceRows device_sinks(sinks, dtype), device_slopes(slopes, DType::f32);
      const bool sloped = c.alibi.slopes != model::kNoWeight;
      const kernels::PlainShape shape{c.heads, c.kv_heads, c.window};
      KvFixture kv(c.sequences, spec, cache, c.block_size, 2);
      std::vector<Matrix> keys, values;
      for (const SequenceCase& s : c.sequences) {
        const auto seed = static_cast<uint32_t>(10 + 2 * keys.size());
        keys.push_back(random_matrix(s.context, c.kv_heads * c.head_dim, dtype, seed));
        values.push_back(random_matrix(s.context, c.kv_heads * c.head_dim, dtype, seed + 1));
        for (double& x : keys.back().values) x = stored_in(x, cache, spec.key_scale);
        for (double& x : values.back().values) x = stored_in(x, cache, spec.value_scale);
      }
      if (c.window > 0)
        for (size_t s = 0; s < c.sequences.size(); ++s)
          kv.drop_before(s, c.sequences[s].context - c.sequences[s].rows - c.window + 1);
      kv.fill(keys, values);
      if (c.sees > 0) kv.see_blocks(c.sees);
      const PlainLimits limits{.tokens = kv.rows(),
                               .sequences = static_cast<int64_t>(kv.context.size()),
                               .multiprocessors = c.multiprocessors,
                               .splits = c.splits};
      const kernels::PlainBounds bounds = plain_bounds(shape, limits);
      std::vector<AttentionItem> items(static_cast<size_t>(bounds.items));
      std::vector<MergeItem> merges(static_cast<size_t>(bounds.merges));
      kernels::plan_attention({kv.query_start, kv.context, kv.seen_end}, shape, limits, items,
                              merges);
      const DeviceArray<AttentionItem> device_items(items);
      const DeviceArray<MergeItem> device_merges(merges);
      std::vector<reference::ChosenKeys> chosen(c.sequences.size());
      for (size_t s = 0; c.chosen > 0 && s < chosen.size(); ++s)
        chosen[s] = some_keys(c.sequences[s], c.chosen, static_cast<uint32_t>(40 + s));
      const DeviceArray<int32_t> device_chosen(flat(chosen, kv.rows(), c.chosen));
      const int64_t width = (c.heads + 2 * c.kv_heads) * c.head_dim;
      const Matrix qkv = random_matrix(kv.rows(), width, dtype, 5, 2);
      const DeviceRows device_qkv(qkv, dtype, c.layout);
      in_each_order([&] {
        const DeviceBytes partial(kernels::plain_partial_bytes(bounds.partial_rows, spec));
        const DeviceRows out(kv.rows(), c.heads * c.head_dim, dtype, c.layout);
        kernels::plain_attention(
            {.out = out.view(),
             .qkv = device_qkv.view(),
             .spec = &spec,
             .cache = &kv.layer(),
             .sinks = c.sinks ? Vector{device_sinks.view().data, dtype} : Vector{},
             .slopes = sloped ? static_cast<const float*>(device_slopes.view().data) : nullptr,
             .chosen = {device_chosen.data(), DType::i32, kv.rows(), c.chosen, c.chosen},
             .items = device_items.data(),
             .item_count = bounds.items,
             .merges = device_merges.data(),
             .merge_count = bounds.merges,
             .partial = static_cast<float*>(partial.data()),
             .partial_rows = bounds.partial_rows},
            kv.batch(), kStream);
        Matrix expected(kv.rows(), c.heads * c.head_dim);  // zeros for padding
        for (size_t s = 0; s < c.sequences.size(); ++s) {
          const Matrix q =
              columns(qkv, kv.query_start[s], c.sequences[s].rows, 0, expected.columns);
          const Matrix one = reference::attention(
              q, keys[s], values[s], spec, c.sinks ? sinks.values : std::vector<double>{},
              sloped ? slopes.values : std::vector<double>{}, chosen[s], kv.seen_end_of(s));
          std::copy(one.values.begin(), one.values.end(),
                    expected.values.begin() + kv.query_start[s] * expected.columns);
        }
        // One rounding; scores of size 10 are off by 10 * 2^-22, so weights and means of values of
        // size 1 by about 1e-5.
        CHECK(largest_error(out.matrix(), expected, 1) <= epsilon(dtype) + 2e-5);
      });
    }
}

TEST_CASE("without splits a row has the same bits in every batch and chunk") {
  const model::AttentionSpec spec{
      .heads = 4, .kv_heads = 2, .head_dim = 16, .scale = 0.25f, .window = 100};
  const kernels::PlainShape shape{4, 2, 100};
  const Matrix keys = random_matrix(300, 32, DType::f32, 1),
               values = random_matrix(300, 32, DType::f32, 2);
  const Matrix qkv = random_matrix(300, 128, DType::f32, 3);
  const auto last_row = [&](int64_t rows, bool others) {
    std::vector<SequenceCase> sequences{{rows, 300}};
    std::vector<Matrix> all_keys{keys}, all_values{values};
    if (others) {
      sequences.insert(sequences.begin(), {7, 40});
      all_keys.insert(all_keys.begin(), random_matrix(40, 32, DType::f32, 4));
      all_values.insert(all_values.begin(), random_matrix(40, 32, DType::f32, 5));
    }
    KvFixture kv(sequences, spec, DType::f32, 16, 0);
    kv.fill(all_keys, all_values);
    const PlainLimits limits{kv.rows(), 2, 1, PlainLimits::Splits::none};
    std::vector<AttentionItem> items(static_cast<size_t>(plain_bounds(shape, limits).items));
    kernels::plan_attention({kv.query_start, kv.context}, shape, limits, items, {});
    const DeviceArray<AttentionItem> device_items(items);
    Matrix rows_of_step = columns(qkv, 0, kv.rows(), 0, 128);
    for (int64_t t = 0; t < rows; ++t)
      for (int64_t i = 0; i < 128; ++i) rows_of_step.at(kv.rows() - 1 - t, i) = qkv.at(299 - t, i);
    const DeviceRows device_qkv(rows_of_step, DType::f32), out(kv.rows(), 64, DType::f32);
    kernels::plain_attention({.out = out.view(),
                              .qkv = device_qkv.view(),
                              .spec = &spec,
                              .cache = &kv.layer(),
                              .items = device_items.data(),
                              .item_count = static_cast<int64_t>(items.size())},
                             kv.batch(), kStream);
    return columns(out.matrix(), kv.rows() - 1, 1, 0, 64).values;
  };
  const auto alone = last_row(1, false);
  CHECK(alone == last_row(1, true));
  CHECK(alone == last_row(6, false));
  CHECK(alone == last_row(131, true));
}

}  // namespace plimsoll::testing
