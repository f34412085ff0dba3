#include "kernels/products/packed/product.cuh"

namespace plimsoll::kernels {

template struct PackedKernels<IntegerCodes<2>>;
template struct PackedKernels<IntegerCodes<3>>;
template struct PackedKernels<IntegerCodes<4>>;

}  // namespace plimsoll::kernels
