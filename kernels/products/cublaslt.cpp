#include "kernels/products/cublaslt.h"

#include <dlfcn.h>

#include <array>

#include "base/error.h"

namespace plimsoll::kernels {
namespace {

/// Newest first. The functions of the table have had the same form since version 11.
constexpr std::array<const char*, 3> kNames{"libcublasLt.so.13", "libcublasLt.so.12",
                                            "libcublasLt.so"};

void* open_library() {
  std::string tried;
  for (const char* name : kNames) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    const char* reason = dlerror();
    tried += std::string("; ") + (reason != nullptr ? reason : name);
  }
  fail(ExitCode::device_lost,
       "cuBLAS is missing (libcublasLt.so.13 or .12): install it or name its folder in "
       "LD_LIBRARY_PATH{}",
       tried);
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) fail(ExitCode::device_lost, "libcublasLt has no function {}", name);
}

CublasLt load() {
  void* library = open_library();  // for as long as the process lives
  CublasLt table;
  find(library, "cublasLtCreate", table.create);
  find(library, "cublasLtDestroy", table.destroy);
  find(library, "cublasLtMatmul", table.matmul);
  find(library, "cublasLtMatmulAlgoGetHeuristic", table.get_heuristic);
  find(library, "cublasLtMatmulAlgoCheck", table.check_algorithm);
  find(library, "cublasLtMatmulDescCreate", table.create_description);
  find(library, "cublasLtMatmulDescDestroy", table.destroy_description);
  find(library, "cublasLtMatmulDescSetAttribute", table.set_description);
  find(library, "cublasLtMatrixLayoutCreate", table.create_layout);
  find(library, "cublasLtMatrixLayoutDestroy", table.destroy_layout);
  find(library, "cublasLtMatrixLayoutSetAttribute", table.set_layout);
  find(library, "cublasLtMatmulPreferenceCreate", table.create_preference);
  find(library, "cublasLtMatmulPreferenceDestroy", table.destroy_preference);
  find(library, "cublasLtMatmulPreferenceSetAttribute", table.set_preference);
  decltype(&cublasLtGetVersion) version = nullptr;
  find(library, "cublasLtGetVersion", version);
  table.version = version();
  return table;
}

}  // namespace

const CublasLt& cublaslt() {
  static const CublasLt table = load();
  return table;
}

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(ExitCode::device_lost, "{}: cuBLAS status {}; finished lines are safe, start again to go on",
       call, static_cast<int>(status));
}

}  // namespace plimsoll::kernels
