// The kernel table of the instruction set that the including file is compiled for.
#pragma once

#include "backend/cpu/kernels/attention.inc.h"
#include "backend/cpu/kernels/index.inc.h"
#include "backend/cpu/kernels/packed.inc.h"
#include "backend/cpu/kernels/product.inc.h"
#include "backend/cpu/kernels/recurrent.inc.h"
#include "backend/cpu/kernels/rows.inc.h"

namespace plimsoll::backend {
namespace {

constexpr Kernels kernel_table() {
  return {.product_rows = kProductRows,
          .strip_rows = kSums / kStripVectors,
          .packed_element = packed_element,
          .pack_rows = pack_rows,
          .product = product,
          .packed = packed,
          .unpack_codes = unpack_codes,
          .decode_scales = decode_scales,
          .decode_block_scales = decode_block_scales,
          .finish = finish,
          .norm = norm,
          .add = add,
          .add_scaled = add_scaled,
          .scale = scale,
          .gate = gate,
          .soft_cap = soft_cap,
          .clamp = clamp,
          .xielu = xielu,
          .multiply_gates = multiply_gates,
          .narrow = narrow,
          .widen = widen,
          .rotate = rotate,
          .keep_above = keep_above,
          .softmax = softmax,
          .attention = attention,
          .score_keys = score_keys,
          .add_product = add_product,
          .dot = dot,
          .scan_step = scan_step,
          .delta_step = delta_step,
          .lru_step = lru_step};
}

}  // namespace
}  // namespace plimsoll::backend
