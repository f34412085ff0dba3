#if defined(__x86_64__)
#include "backend/tiles/twin_instructions.h"

#define bf16_amx bf16_twin
#define bf16_vectors bf16_vectors_of_twin
#include "backend/cpu/kernels/dots/bf16_amx.cpp"
#endif
