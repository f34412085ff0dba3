#if defined(__x86_64__)
#include "backend/cpu/kernels/kernels.inc.h"

namespace plimsoll::backend {
constinit const Kernels kAvx2Kernels = kernel_table();
}  // namespace plimsoll::backend
#endif
