#include "kernels/products/packed_product.cuh"

namespace plimsoll::kernels {

template struct PackedKernels<IntegerCodes<2>>;
template struct PackedKernels<IntegerCodes<3>>;
template struct PackedKernels<IntegerCodes<4>>;

}  // namespace plimsoll::kernels
