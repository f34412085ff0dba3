// cuBLASLt, opened when the first product is set up: the program starts in milliseconds and runs
// where the library is not installed.
#pragma once

#include <cublasLt.h>

#include <string>

namespace plimsoll::kernels {

/// The few functions that products need, under their own names. `version` is cuBLAS's (130100).
struct CublasLt {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) get_heuristic = nullptr;
  decltype(&cublasLtMatmulAlgoCheck) check_algorithm = nullptr;
  decltype(&cublasLtMatmulDescCreate) create_description = nullptr;
  decltype(&cublasLtMatmulDescDestroy) destroy_description = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_description = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) create_layout = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  size_t version = 0;
};

/// Opens libcublasLt.so of CUDA 13 or 12 by the system's usual search. Throws Error(device_lost)
/// naming what was tried.
const CublasLt& cublaslt();

/// Throws Error(device_lost) naming the call when it failed.
void check(cublasStatus_t status, const char* call);

}  // namespace plimsoll::kernels
