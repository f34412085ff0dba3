#include "backend/random_rows.h"

#include <algorithm>
#include <cstring>

#include "base/float8.h"

namespace plimsoll::backend {
namespace {

using model::Code;
using model::Packing;
using model::ScaleType;

class RandomRows final : public model::PackedRows {
 public:
  RandomRows(const Packing& packing, int64_t columns, uint64_t seed, float scale)
      : packing_(packing), columns_(columns), seed_(seed) {
    const float largest = packing.code == Code::e4m3    ? kLargestE4m3
                          : packing.code == Code::table ? kE2m1[7]
                                                        : static_cast<float>(1 << packing.bits);
    scale_ = scale / largest;
  }

  void codes(int64_t first, int64_t count, uint8_t* to) const override {
    const auto mask = static_cast<uint8_t>((1u << packing_.bits) - 1);
    uint64_t state = seed_ + static_cast<uint64_t>(first) * 0x9E3779B97F4A7C15;
    for (int64_t i = 0; i < count * columns_; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      to[i] = static_cast<uint8_t>(state >> 56) & mask;
      if (packing_.code == Code::e4m3) to[i] &= 0xfe;  // none is NaN
    }
  }
  void scales(int64_t, int64_t count, std::byte* to) const override {
    for (int64_t i = 0; i < count * packing_.groups(columns_); ++i)
      put_scale(to + i * model::scale_bytes(packing_.scale));
  }
  void zeros(int64_t, int64_t count, uint8_t* to) const override {
    std::fill_n(to, count * packing_.groups(columns_),
                static_cast<uint8_t>(1u << (packing_.bits - 1)));
  }
  void factors(int64_t, int64_t count, float* to) const override { std::fill_n(to, count, scale_); }
  void input_groups(int32_t* to) const override {
    for (int64_t n = 0; n < columns_; ++n)
      to[n] = static_cast<int32_t>(packing_.group > 0 ? n / packing_.group : 0);
  }
  void table(std::span<float, 16> to) const override { std::ranges::copy(kE2m1, to.begin()); }
  void nested(model::NestedScales& to) const override {
    std::ranges::fill(to.numbers, 0.f);
    std::ranges::fill(to.absmax, 0.f);
    to.offset = scale_;
  }
  [[nodiscard]] model::InputScale input_scale() const override { return {1, 0}; }

 private:
  void put_scale(std::byte* to) const {
    switch (packing_.scale) {
      case ScaleType::f32:
        std::memcpy(to, &scale_, sizeof scale_);
        return;
      case ScaleType::f16:
        convert(&scale_, DType::f32, to, DType::f16, 1);
        return;
      case ScaleType::bf16:
        convert(&scale_, DType::f32, to, DType::bf16, 1);
        return;
      case ScaleType::e4m3:
        *to = std::byte{0x38};  // 1
        return;
      case ScaleType::e8m0:
        *to = std::byte{114};  // 2^-13
        return;
      case ScaleType::nested:
        *to = std::byte{0};
        return;
      case ScaleType::blocks:  // of GGUF files, which have no random weights
        return;
    }
  }

  Packing packing_;
  int64_t columns_;
  uint64_t seed_;
  float scale_;
};

}  // namespace

std::unique_ptr<model::PackedRows> random_rows(const Packing& packing, int64_t columns,
                                               uint64_t seed, float scale) {
  return std::make_unique<RandomRows>(packing, columns, seed, scale);
}

}  // namespace plimsoll::backend
