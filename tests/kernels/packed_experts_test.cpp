// Mixtures of experts whose matrices are quantized.
#include "kernels/packed_fixture.h"
#include "kernels/products/experts.h"

namespace plimsoll::testing {
namespace {

using model::InputRounding;
using model::Packing;
using model::ScaleType;

struct Case {
  const char* name;
  Packing packing;
  int64_t rows;
  int64_t ranks = 1;  // that have the experts between them
};

/// Rows, choices and what they should give of experts whose inputs are rounded.
Matrix expected_of(const Matrix& in, const std::vector<int32_t>& chosen, const Matrix& weights,
                   const model::MlpSpec& mlp, const PackedWeight& up, const PackedWeight& down,
                   InputRounding rounding) {
  Matrix out(in.rows, in.columns);
  const Matrix rows = rounded_rows(in, rounding);
  const auto matrix = [](const PackedWeight& of, int64_t expert) {
    Matrix one(of.spec.rows(), of.spec.columns());
    std::copy_n(of.values.values.begin() + expert * of.spec.rows() * of.spec.columns(),
                one.values.size(), one.values.begin());
    return one;
  };
  for (int64_t t = 0; t < in.rows; ++t)
    for (int64_t i = 0; i < weights.columns; ++i) {
      const int64_t expert = chosen[static_cast<size_t>(t * weights.columns + i)];
      Matrix row(1, in.columns);
      for (int64_t n = 0; n < in.columns; ++n) row.at(0, n) = rows.at(t, n);
      const Matrix both = reference::linear(row, matrix(up, expert), {}, model::Activation::none);
      Matrix gated(1, mlp.intermediate);
      for (int64_t n = 0; n < mlp.intermediate; ++n)
        gated.at(0, n) =
            reference::activate(mlp.activation, both.at(0, n)) * both.at(0, mlp.intermediate + n);
      const Matrix result = reference::linear(rounded_rows(gated, rounding), matrix(down, expert),
                                              {}, model::Activation::none);
      for (int64_t n = 0; n < in.columns; ++n) out.at(t, n) += weights.at(t, i) * result.at(0, n);
    }
  return out;
}

}  // namespace

TEST_CASE("quantized experts agree with the reference") {
  constexpr int64_t kHidden = 80, kIntermediate = 48, kExperts = 3, kChosen = 2;
  const Packing awq{.bits = 4, .group = 16, .scale = ScaleType::f16, .zeros = true};
  const Packing ordered{
      .bits = 4, .group = 24, .scale = ScaleType::f16, .zeros = true, .ordered = true};
  const Packing fp8{.code = model::Code::e4m3, .bits = 8, .inputs = InputRounding::fp8_token};
  const Packing one_scale{
      .code = model::Code::e4m3, .bits = 8, .inputs = InputRounding::fp8_static};
  for (const DType dtype : {DType::bf16, DType::f32})
    for (const Case& c :
         {Case{"awq", awq, 5}, Case{"awq", awq, 90}, Case{"ordered", ordered, 5},
          Case{"fp8", fp8, 5}, Case{"fp8 by one scale", one_scale, 60}, Case{"awq", awq, 5, 3},
          Case{"ordered", ordered, 5, 3}, Case{"fp8", fp8, 5, 3}}) {
      INFO(torch_name(dtype) << ", " << c.name << ", " << c.rows << " rows");
      const PackedWeight up(c.packing, {kIntermediate, kIntermediate}, kHidden, dtype, kExperts),
          down(c.packing, {kHidden}, kIntermediate, dtype, kExperts);
      const model::MlpSpec mlp{.kind = model::MlpKind::experts,
                               .intermediate = kIntermediate,
                               .experts = kExperts,
                               .experts_per_token = kChosen};
      // Small enough that what is gated is no larger than the numbers of an expert's input scale.
      const Matrix in = random_matrix(c.rows, kHidden, dtype, 1, 0.01);
      const Matrix weights = random_matrix(c.rows, kChosen, DType::f32, 4);
      std::vector<int32_t> chosen;
      for (int64_t i = 0; i < c.rows * kChosen; ++i)
        chosen.push_back(static_cast<int32_t>((i * 7 + i / 5) % kExperts));
      const DeviceRows device_in(in, dtype), device_weights(weights, DType::f32);
      const DeviceArray<int32_t> device_chosen(chosen);
      const Matrix expected = expected_of(in, chosen, weights, mlp, up, down, c.packing.inputs);
      const backend::CudaFootprint sizes({});
      const size_t layout = sizes.experts_workspace(c.rows, mlp, kHidden, dtype);
      in_each_order([&] {
        DeviceBytes workspace(
            layout + sizes.expert_inputs_workspace(c.rows, mlp, up.spec, down.spec, dtype));
        auto* const memory = static_cast<std::byte*>(workspace.data());
        const int64_t own = kExperts / c.ranks;
        const auto stack = [&](const PackedWeight& of, int64_t first) -> kernels::ExpertStack {
          const size_t matrix = backend::cuda::packed_segments(of.spec, dtype, 0).end;
          return {static_cast<std::byte*>(of.bytes->data()) + static_cast<size_t>(first) * matrix,
                  &of.spec};
        };
        Matrix sum(c.rows, kHidden);
        for (int64_t first = 0; first < kExperts; first += own) {
          // Scratch holds anything: here numbers of slots that there are not.
          workspace.upload(std::vector<std::byte>(workspace.size(), std::byte{0x7f}).data());
          const DeviceRows out(c.rows, kHidden, dtype);
          kernels::experts(
              {.out = out.view(),
               .in = device_in.view(),
               .choices = {{device_chosen.data(), DType::i32, c.rows, kChosen, kChosen},
                           device_weights.view()},
               .mlp = &mlp,
               .first = first,
               .own = own,
               .up = stack(up, first),
               .down = stack(down, first),
               .workspace = memory,
               .rewritten = memory + layout},
              kStream);
          const Matrix some = out.matrix();
          for (size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += some.values[i];
        }
        // Gated activations are rounded again, and at a border between two codes to the other one.
        const bool coarse = c.packing.inputs != InputRounding::none && dtype != DType::f32;
        const double error = largest_error(sum, expected, typical_size(expected));
        CHECK(error <= (coarse ? 0.15 : 8 * epsilon(dtype) + 4e-6));
      });
    }
}

}  // namespace plimsoll::testing
