#include "kernels/products/packed/product.cuh"

namespace plimsoll::kernels {

template struct PackedKernels<IntegerCodes<8>>;
template struct PackedKernels<E4m3Codes>;
template struct PackedKernels<TableCodes>;

}  // namespace plimsoll::kernels
