#include "kernels/products/packed/product.cuh"

namespace plimsoll::kernels {

// Codes that only GGUF files have.
template struct PackedKernels<IntegerCodes<5>>;
template struct PackedKernels<IntegerCodes<6>>;

}  // namespace plimsoll::kernels
