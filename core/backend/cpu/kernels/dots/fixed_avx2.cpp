// Fixed-point products by AVX2: sums of two products in 16 bits, widened before they overflow.
#if defined(__x86_64__)
#include "backend/cpu/kernels/dots/fixed.h"
#include "backend/cpu/kernels/vec.h"

namespace plimsoll::backend {
namespace {

struct Dots {
  static constexpr int kSums = 12, kApart = 1;
  static constexpr int64_t kBits = 4;  // two products with codes of 8 bits would not fit
  /// A sum takes two products of each four.
  static constexpr int64_t together(int code, int unit) {
    return INT16_MAX / (2 * 128 * code) * 4 / unit * unit;
  }
  [[gnu::always_inline]] static Vi add(Vi sum, Vi four, Vi spread) {
    const __m256i pairs = _mm256_maddubs_epi16((__m256i)four, (__m256i)spread);
    return (Vi)_mm256_add_epi16((__m256i)sum, pairs);
  }
  [[gnu::always_inline]] static Vi widened(Vi sum) {
    return (Vi)_mm256_madd_epi16((__m256i)sum, _mm256_set1_epi16(1));
  }
  [[gnu::always_inline]] static Vi lookup(Vi table, Vi index) {
    return (Vi)_mm256_shuffle_epi8((__m256i)table, (__m256i)index);
  }
};

}  // namespace
}  // namespace plimsoll::backend

#include "backend/cpu/kernels/dots/fixed.inc.h"

namespace plimsoll::backend {

constinit const FixedKernels kFixedAvx2 = {store_fixed_row, multiply_tile, Dots::kBits};

}  // namespace plimsoll::backend
#endif
