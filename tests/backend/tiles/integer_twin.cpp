#if defined(__x86_64__)
#include "backend/tiles/twin_instructions.h"

#define integer_amx integer_twin
#include "backend/cpu/kernels/dots/integer_amx.cpp"
#endif
