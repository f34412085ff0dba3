#include "kernels/attention/choose_keys.h"

#include "kernels/kv_fixture.h"

namespace plimsoll::testing {
namespace {

struct ChoiceCase {
  const char* what;
  std::vector<SequenceCase> sequences{};
  int64_t heads, head_dim, most;
  DType cache = DType::boolean;  // boolean: as activations
  Layout layout = kAligned;
};

const ChoiceCase kChoiceCases[] = {
    {"a prompt and decodes", {{37, 37}, {1, 1}, {1, 50}}, 16, 48, 10},
    {"one head, one key", {{3, 20}, {1, 7}}, 1, 8, 1},
    {"more heads than a tile, odd layout", {{5, 70}}, 70, 10, 33, DType::boolean, kOdd},
    {"more keys than a block scores", {{2, 700}, {1, 300}}, 3, 16, 299},
    {"more rows than go together", {{130, 140}}, 2, 7, 5},
    {"e4m3", {{4, 90}}, 4, 64, 20, DType::f8_e4m3},
    {"wide heads", {{2, 40}}, 64, 256, 8},
};

constexpr int64_t kBlock = 16;

/// The indexer's attention, whose heads have keys alone.
model::AttentionSpec index_spec(const ChoiceCase& c) {
  model::AttentionSpec attention;
  attention.indexer = {.most = c.most, .heads = c.heads, .head_dim = c.head_dim};
  return attention.index_heads();
}

}  // namespace

TEST_CASE("the keys with the best scores are chosen") {
  for (const ChoiceCase& c : kChoiceCases)
    for (const DType dtype : kActivationTypes) {
      INFO(c.what << ", " << torch_name(dtype));
      const DType cache = c.cache == DType::boolean ? dtype : c.cache;
      const model::AttentionSpec spec = index_spec(c);
      KvFixture kv(c.sequences, spec, cache, kBlock, 2);
      std::vector<Matrix> keys;
      for (const SequenceCase& s : c.sequences) {
        keys.push_back(
            random_matrix(s.context, c.head_dim, dtype, static_cast<uint32_t>(10 + keys.size())));
        for (double& x : keys.back().values) x = stored_in(x, cache);
      }
      kv.fill(keys, keys);
      int64_t longest = 0;
      for (const SequenceCase& s : c.sequences) longest = std::max(longest, s.context);
      longest = (longest / kBlock + 1) * kBlock;
      const Matrix q = random_matrix(kv.rows(), c.heads * c.head_dim, dtype, 5);
      const Matrix weights = random_matrix(kv.rows(), c.heads, dtype, 6);
      const DeviceRows device_q(q, dtype, c.layout), device_weights(weights, dtype, c.layout);
      std::vector<int32_t> expected(static_cast<size_t>(kv.rows() * c.most), -1);
      for (size_t s = 0; s < keys.size(); ++s) {
        const int64_t first = kv.query_start[s], rows = c.sequences[s].rows;
        const reference::ChosenKeys chosen = reference::choose_keys(
            slice_rows(q, first, rows), slice_rows(weights, first, rows), keys[s], spec, c.most);
        for (int64_t r = 0; r < rows; ++r) {
          const bool has_choice = c.sequences[s].context - rows + r + 1 > c.most;
          const std::vector<int32_t>& row = chosen[static_cast<size_t>(r)];
          if (has_choice)
            std::copy(row.begin(), row.end(), expected.begin() + (first + r) * c.most);
        }
      }
      in_each_order([&] {
        const DeviceBytes scores(
            static_cast<size_t>(std::min(kv.rows(), backend::kCudaChoiceRows) * longest) * 4);
        const DeviceArray<int32_t> chosen(
            std::vector<int32_t>(static_cast<size_t>(kv.rows() * c.most), -1));
        kernels::choose_keys({.chosen = {chosen.data(), DType::i32, kv.rows(), c.most, c.most},
                              .q = device_q.view(),
                              .weights = device_weights.view(),
                              .spec = &spec,
                              .keys = &kv.layer(),
                              .scores = static_cast<float*>(scores.data()),
                              .longest = longest},
                             kv.batch(), kStream);
        CHECK(chosen.download() == expected);
      });
    }
}

TEST_CASE("of equal scores the first are chosen, what is no number last") {
  // One head of one column: a key is its score, where it is above 0.
  const model::AttentionSpec spec = index_spec({.what = "", .heads = 1, .head_dim = 1, .most = 3});
  const auto chosen_of = [&](const std::vector<double>& scores) {
    const auto count = static_cast<int64_t>(scores.size());
    KvFixture kv({{1, count}}, spec, DType::f32, kBlock, 0);
    Matrix keys(count, 1), ones(1, 1);
    keys.values = scores;
    ones.at(0, 0) = 1;
    kv.fill({keys}, {keys});
    const DeviceRows one(ones, DType::f32);
    const int64_t longest = (count / kBlock + 1) * kBlock;
    const DeviceBytes space(static_cast<size_t>(longest) * 4);
    const DeviceArray<int32_t> chosen(std::vector<int32_t>(3, -1));
    kernels::choose_keys({.chosen = {chosen.data(), DType::i32, 1, 3, 3},
                          .q = one.view(),
                          .weights = one.view(),
                          .spec = &spec,
                          .keys = &kv.layer(),
                          .scores = static_cast<float*>(space.data()),
                          .longest = longest},
                         kv.batch(), kStream);
    return chosen.download();
  };
  using Chosen = std::vector<int32_t>;
  const double none = std::nan("");
  CHECK(chosen_of({1, 2, 1, 1, 3, 1}) == Chosen{0, 1, 4});
  CHECK(chosen_of({-1, 0, -2, -3}) == Chosen{0, 1, 2});
  CHECK(chosen_of({none, 5, none, -1, none}) == Chosen{0, 1, 3});
  std::vector<double> many(600, 2);
  many[599] = 3;
  CHECK(chosen_of(many) == Chosen{0, 1, 599});
}

}  // namespace plimsoll::testing
