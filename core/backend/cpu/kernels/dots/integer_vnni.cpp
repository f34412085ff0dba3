#if defined(__x86_64__)
#include "backend/cpu/kernels/dots/integer_vnni.inc.h"

namespace plimsoll::backend {

void integer_vnni(const IntegerTile& tile) {
  alignas(64) int32_t sums[kIntegerRows * kStrip] = {};
  add_all_dots(tile, 0, sums);
  finish_integers(tile, sums);
}

}  // namespace plimsoll::backend
#endif
