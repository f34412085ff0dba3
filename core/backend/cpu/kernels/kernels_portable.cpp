#include "backend/cpu/kernels/kernels.inc.h"

namespace plimsoll::backend {
constinit const Kernels kPortableKernels = kernel_table();
}  // namespace plimsoll::backend
