#include "kernels/products/packed/product.cuh"

namespace plimsoll::kernels {

template struct PackedKernels<MinimumCodes<2>>;
template struct PackedKernels<MinimumCodes<4>>;
template struct PackedKernels<MinimumCodes<5>>;

}  // namespace plimsoll::kernels
