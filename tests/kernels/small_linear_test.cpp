#include "kernels/products/small_linear.h"

#include "kernels/fixture.h"

namespace plimsoll::testing {
namespace {

using kernels::Feed;

struct LinearCase {
  int64_t rows, n, k;
  Layout layout;
};
const LinearCase kLinearCases[] = {
    {0, 8, 64, kAligned},  {1, 1, 1, kAligned},    {1, 7, 4096, kAligned}, {2, 12, 2056, kAligned},
    {3, 5, 520, kAligned}, {5, 9, 4104, kAligned}, {8, 4, 88, kAligned},   {19, 6, 264, kAligned},
    {4, 10, 333, kOdd},    {2, 6, 64, {.gap = 3}}};

}  // namespace

TEST_CASE("small_linear agrees with the reference") {
  struct Types {
    DType in, weight, out;
  };
  using enum DType;
  for (const Types& types : {Types{bf16, bf16, bf16}, Types{bf16, bf16, f32}, Types{bf16, f32, f32},
                             Types{f16, f16, f16}, Types{f16, f32, f16}, Types{f32, f32, f32}})
    for (const LinearCase& c : kLinearCases) {
      INFO(torch_name(types.in) << " x " << torch_name(types.weight) << " to "
                                << torch_name(types.out) << ", [" << c.rows << ", " << c.k << "] x "
                                << c.n);
      const Matrix in = random_matrix(c.rows, c.k, types.in, 1);
      const Matrix weight = random_matrix(c.n, c.k, types.weight, 2, 1 / std::sqrt(double(c.k)));
      const Matrix bias = random_matrix(1, c.n, types.in, 3);
      const DeviceRows device_in(in, types.in, c.layout),
          device_weight(weight, types.weight, c.layout);
      const DeviceRows device_bias(bias, types.in);
      in_each_order([&] {
        const Feed last = kernels::feeds().back();
        for (const auto& [activation, feed] : {std::pair(model::Activation::none, Feed::registers),
                                               std::pair(model::Activation::silu, Feed::registers),
                                               std::pair(model::Activation::silu, Feed::ring),
                                               std::pair(model::Activation::none, last)}) {
          const DeviceRows out(c.rows, c.n, types.out, c.layout);
          const bool biased = activation != model::Activation::none;
          kernels::small_linear({.out = out.view(),
                                 .in = device_in.view(),
                                 .weight = device_weight.view(),
                                 .bias = biased ? kernels::Vector{device_bias.view().data, types.in}
                                                : kernels::Vector{},
                                 .activation = activation,
                                 .feed = feed},
                                kStream);
          const Matrix expected = reference::linear(
              in, weight, biased ? bias.values : std::vector<double>{}, activation);
          // Sums of size 1 of random products in float, then one rounding.
          CHECK(largest_error(out.matrix(), expected, 1) <= epsilon(types.out) + 2e-6);
        }
      });
    }
}

TEST_CASE("small_linear gives the same bits however the matrix comes") {
#ifdef PLIMSOLL_EMULATION
  const OnCard hopper(emulation::kHopper);
  REQUIRE(kernels::feeds().back() == Feed::bulk);
#endif
  // One step, the ring filled, a few rounds of it, and a last step that some threads have no part
  // of.
  for (const int64_t k : {8, 2048, 4 * 2048, 9 * 2048, 9 * 2048 + 264})
    for (const int64_t rows : {1, 2, 4, 8}) {
      INFO(rows << " rows of " << k);
      const Matrix in = random_matrix(rows, k, DType::bf16, 1),
                   weight = random_matrix(6, k, DType::bf16, 2);
      const DeviceRows device_in(in, DType::bf16), device_weight(weight, DType::bf16);
      const auto run = [&](Feed feed) {
        const DeviceRows out(rows, 6, DType::f32);
        kernels::small_linear({.out = out.view(),
                               .in = device_in.view(),
                               .weight = device_weight.view(),
                               .feed = feed},
                              kStream);
        return out.matrix().values;
      };
      for (const Feed feed : kernels::feeds()) CHECK(run(feed) == run(Feed::registers));
    }
}

TEST_CASE("small_linear gives a row the same bits in any batch") {
  const Matrix in = random_matrix(11, 4096, DType::bf16, 1),
               weight = random_matrix(6, 4096, DType::bf16, 2);
  const DeviceRows device_in(in, DType::bf16), device_weight(weight, DType::bf16);
  const DeviceRows all(11, 6, DType::f32);
  kernels::small_linear({all.view(), device_in.view(), device_weight.view()}, kStream);
  for (const int64_t rows : {1, 2, 3, 7}) {
    const DeviceRows some(rows, 6, DType::f32);
    kernels::small_linear({some.view(), device_in.view().slice_rows(4, rows), device_weight.view()},
                          kStream);
    const Matrix a = all.matrix(), b = some.matrix();
    for (int64_t i = 0; i < rows * 6; ++i)
      CHECK(a.values[static_cast<size_t>(24 + i)] == b.values[static_cast<size_t>(i)]);
  }
}

}  // namespace plimsoll::testing
