#include "backend/tiles/twin_products.h"

#include "backend/cpu/kernels/dots/bf16_tiles.h"
#include "backend/cpu/kernels/dots/integer.h"

namespace plimsoll {
#if defined(__x86_64__)
namespace backend {  // bf16_twin.cpp, integer_twin.cpp
void bf16_twin(const Bf16Tile& tile);
void integer_twin(const IntegerTile& tile);
}  // namespace backend
#endif

namespace testing {

bool can_run_twin_of_tiles() {
#if defined(__x86_64__)
  return has_isa(backend::CpuIsa::avx512) && __builtin_cpu_supports("avx512vnni") != 0;
#else
  return false;
#endif
}

void multiply_bf16_by_twin([[maybe_unused]] const backend::Bf16Tile& tile) {
#if defined(__x86_64__)
  backend::bf16_twin(tile);
#endif
}

void multiply_bf16_by_vectors([[maybe_unused]] const backend::Bf16Tile& tile) {
#if defined(__x86_64__)
  backend::bf16_vectors(tile);
#endif
}

void multiply_integers_by_twin([[maybe_unused]] const backend::IntegerTile& tile) {
#if defined(__x86_64__)
  backend::integer_twin(tile);
#endif
}

backend::CpuOptions with_twin_of_tiles(backend::CpuOptions options) {
  options.isa = backend::CpuIsa::avx512;
  options.bf16_tiles = multiply_bf16_by_twin;
  options.integer_tiles = multiply_integers_by_twin;
  return options;
}

}  // namespace testing
}  // namespace plimsoll
