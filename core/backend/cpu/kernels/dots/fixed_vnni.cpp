// Fixed-point products by AVX-512 VNNI: four products and their sum in one instruction.
#if defined(__x86_64__)
#include "backend/cpu/kernels/vec.h"

namespace plimsoll::backend {
namespace {

struct Dots {
  static constexpr int kSums = 24, kApart = 2;
  static constexpr int64_t kBits = 8;
  static constexpr int64_t together(int, int) { return 0; }
  [[gnu::always_inline]] static Vi add(Vi sum, Vi four, Vi spread) {
    return (Vi)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)four, (__m512i)spread);
  }
  [[gnu::always_inline]] static Vi widened(Vi sum) { return sum; }
  [[gnu::always_inline]] static Vi lookup(Vi table, Vi index) {
    return (Vi)_mm512_shuffle_epi8((__m512i)table, (__m512i)index);
  }
};

}  // namespace
}  // namespace plimsoll::backend

#include "backend/cpu/kernels/dots/fixed.inc.h"

namespace plimsoll::backend {

constinit const FixedKernels kFixedVnni = {store_fixed_row, multiply_tile, Dots::kBits};

}  // namespace plimsoll::backend
#endif
