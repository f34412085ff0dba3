// Sums with quantized weights that ranks share: slices, and rounding by whole rows.
#include "backend/cpu/round_inputs.h"
#include "backend/cpu_fixture.h"
#include "backend/random_part.h"
#include "like_cases.h"
#include "model/slices.h"

namespace plimsoll::testing {
namespace {

using backend::View;
using model::Activation;
using model::Code;
using model::InputRounding;
using model::Packing;

/// Some inputs of a part's rows, with as much room for groups as `share` has.
class SomeInputs final : public model::PackedRows {
 public:
  SomeInputs(const RandomPart& rows, const Packing& share, int64_t columns,
             const model::Inputs& inputs)
      : rows_(rows), share_(share), columns_(columns), inputs_(inputs) {
    if (share.group == 0) return;
    groups_.first = inputs.first / share.group;
    groups_.count = (inputs.first + inputs.count - 1) / share.group + 1 - groups_.first;
  }

  void codes(int64_t first, int64_t count, uint8_t* to) const override {
    std::vector<uint8_t> all(static_cast<size_t>(count * columns_));
    rows_.codes(first, count, all.data());
    cut(all, count, inputs_, inputs_.count, to);
  }
  void scales(int64_t first, int64_t count, std::byte* to) const override {
    std::vector<std::byte> all(static_cast<size_t>(count * share_.scales_bytes(all_groups())));
    rows_.scales(first, count, all.data());
    cut(all, count, {share_.scales_bytes(groups_.first), share_.scales_bytes(groups_.count)},
        share_.scales_bytes(room()), to);
  }
  void zeros(int64_t first, int64_t count, uint8_t* to) const override {
    std::vector<uint8_t> all(static_cast<size_t>(count * all_groups()));
    rows_.zeros(first, count, all.data());
    cut(all, count, groups_, room(), to);
  }
  void factors(int64_t first, int64_t count, float* to) const override {
    rows_.factors(first, count, to);
  }
  void input_groups(int32_t*) const override { FAIL("an order is not cut"); }
  void table(std::span<float, 16> to) const override { rows_.table(to); }
  void nested(model::NestedScales& to) const override {
    rows_.nested(to);
    to.first = groups_.first;
    to.stride = all_groups();
  }
  [[nodiscard]] model::InputScale input_scale() const override { return rows_.input_scale(); }
  [[nodiscard]] int64_t first_input() const override { return inputs_.first; }

 private:
  /// Cuts some elements out of each of `count` rows, with zeros after them.
  template <typename T>
  static void cut(const std::vector<T>& from, int64_t count, const model::Inputs& some,
                  int64_t room, T* to) {
    std::fill_n(to, count * room, T{});
    const int64_t width = std::ssize(from) / count;
    for (int64_t i = 0; i < count; ++i)
      std::copy_n(from.begin() + i * width + some.first, some.count, to + i * room);
  }
  [[nodiscard]] int64_t all_groups() const {
    return share_.group > 0 ? (columns_ + share_.group - 1) / share_.group : 1;
  }
  [[nodiscard]] int64_t room() const { return share_.groups(inputs_.count); }

  const RandomPart& rows_;
  Packing share_;
  int64_t columns_;
  model::Inputs inputs_;
  model::Inputs groups_{0, 1};  // that these are of
};

/// A rank's share of the inputs of a quantized weight [rows, columns]; of one rank all.
struct InputShare {
  model::WeightSpec spec{.name = "weight", .split = model::Split::row};
  backend::Weight weight;
  std::vector<std::byte> storage;

  InputShare(backend::Backend& backend, const Packing& packing, const RandomPart& values,
             int64_t rows, int64_t columns, int64_t rank, int64_t ranks) {
    const int64_t own = columns / ranks;
    model::Part part = packed_part(packing, rows, columns);
    for (int64_t other = 1; other < ranks; ++other)
      part.packing->lead = std::max(part.packing->lead, packing.inputs_before(other * own));
    spec.parts = {part};
    spec.shape = {rows, own};
    spec.slices = model::slices_of(columns, model::slice_unit(spec)) / ranks;
    spec.ranks = ranks;
    storage.resize(backend.footprint().weight_bytes(spec, DType::f32));
    weight = backend.load_weight(spec, DType::f32, storage.data(),
                                 {[](int64_t, int64_t, void*) { FAIL("no part is plain"); },
                                  [&](size_t) {
                                    return std::make_unique<SomeInputs>(
                                        values, *spec.parts.front().packing, columns,
                                        model::Inputs{rank * own, own});
                                  }});
  }
  InputShare(const InputShare&) = delete;
  InputShare& operator=(const InputShare&) = delete;
};

/// A rank of those whose rows' largest inputs are known beforehand.
class KnownMost final : public backend::InputRanks {
 public:
  KnownMost(const Rows& in, int64_t rank, InputRounding rounding)
      : in_(in), rank_(rank), rounding_(rounding) {}
  [[nodiscard]] int64_t rank() const override { return rank_; }
  void all_reduce_sum(View) override { FAIL("linear() leaves sums to its caller"); }
  void all_gather_rows(View, std::span<const int32_t>) override { FAIL("there are no experts"); }
  void all_reduce_max(View values) override {
    const int64_t group = rounding_ == InputRounding::fp8_group ? 128 : in_.columns();
    for (int64_t r = 0; r < values.rows; ++r) {
      float* const to = static_cast<float*>(values.data) + r * values.columns;
      std::vector<float> all(static_cast<size_t>((in_.columns() + group - 1) / group));
      backend::largest_inputs(in_.row(r), in_.columns(), group, 0, all.data());
      if (rounding_ == InputRounding::int8_zeros) {
        const auto range = backend::input_range(in_.row(r), in_.columns());
        all.assign(range.begin(), range.end());
      }
      REQUIRE(values.columns == std::ssize(all));
      for (size_t i = 0; i < all.size(); ++i) REQUIRE(to[i] <= all[i]);
      std::ranges::copy(all, to);
    }
  }

 private:
  const Rows& in_;
  int64_t rank_;
  InputRounding rounding_;
};

TEST_CASE("a quantized sum that ranks share has the bits that one rank's has") {
  constexpr int64_t kOutputs = 70;
  size_t number = 0;
  for (const Processor& on : processors())
    for (const PackedCase& packed : cpu_cases()) {
      if (packed.packing.ordered || !testing::is_taken_sanitized(number++, 5)) continue;
      const int64_t inputs = packed.packing.has_blocks() ? 1024 : 640;
      CpuFixture cpu(on, 1);
      const RandomPart values(packed.packing, kOutputs, inputs, 7);
      const InputShare whole(*cpu, packed.packing, values, kOutputs, inputs, 0, 1);
      const LoadedWeight biases(*cpu, {kOutputs}, model::WeightUse::vector, DType::f32, 4);
      for (const int64_t rows : {1, 3, 40}) {
        Rows in = Rows::random(rows, inputs, 3);
        Rows expected(rows, kOutputs);
        cpu->run(ops::Linear{expected, in, whole.weight, biases.weight, Activation::none});
        for (const int64_t ranks : {2, 4, 8}) {
          CAPTURE(on.name(), packed.name, rows, ranks, whole.spec.slices);
          if (whole.spec.slices % ranks != 0) continue;  // of 3 bits
          std::vector<Rows> sums;
          for (int64_t rank = 0; rank < ranks; ++rank) {
            KnownMost others(in, rank, packed.packing.inputs);
            const InputShare share(*cpu, packed.packing, values, kOutputs, inputs, rank, ranks);
            backend::Weight weight = share.weight;
            weight.ranks = &others;
            Rows& sum = sums.emplace_back(rows, kOutputs);
            cpu->run(ops::Linear{sum, View(in).slice_columns(rank * inputs / ranks, inputs / ranks),
                                 weight, rank == 0 ? biases.weight : backend::Weight{},
                                 Activation::none});
          }
          for (size_t step = 1; step < sums.size(); step *= 2)
            for (size_t to = 0; to < sums.size(); to += 2 * step)
              for (int64_t r = 0; r < rows; ++r)
                for (int64_t c = 0; c < kOutputs; ++c)
                  sums[to].row(r)[c] += sums[to + step].row(r)[c];
          for (int64_t r = 0; r < rows; ++r) REQUIRE(sums.front().same_bits(r, expected, r));
        }
      }
    }
}

TEST_CASE("slices of quantized sums cut groups, but no words") {
  const auto slices = [](const Packing& packing, int64_t inputs) {
    model::WeightSpec spec{.name = "w", .shape = {8, inputs}, .parts = {model::Part{}}};
    spec.parts.front().packing = packing;
    const int64_t unit = model::slice_unit(spec);
    return model::slices_of(inputs, unit);
  };
  CHECK(slices({.bits = 4, .group = 128}, 14336) == 8);
  CHECK(slices({.bits = 4, .group = 128}, 11008) == 8);
  CHECK(slices({.bits = 4, .group = 128}, 29568) == 8);
  CHECK(slices({.bits = 4, .group = 128, .ordered = true}, 384) == 8);
  CHECK(slices({.bits = 3}, 96) == 1);
  CHECK(slices({.bits = 3}, 384) == 4);
  CHECK(slices({.bits = 8}, 96) == 8);
  CHECK(slices({.code = Code::e4m3, .bits = 8, .inputs = InputRounding::fp8_group}, 512) == 8);
  CHECK(slices({.bits = 4, .inputs = InputRounding::nvfp4_group}, 192) == 4);
}

}  // namespace
}  // namespace plimsoll::testing
