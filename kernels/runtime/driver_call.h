// Calls of the driver that a library makes for us, and whose failures it would only print.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/runtime/launch.h"

namespace plimsoll::kernels {

/// Passes its arguments to `call`, and throws Error naming it when its result is not 0. The
/// driver's numbers of errors are the runtime's.
template <typename Call>
struct CheckedCall {
  Call call;
  const char* name;
  template <typename... Arguments>
  auto operator()(Arguments... arguments) const {
    const auto result = call(arguments...);
    check_launch(static_cast<cudaError_t>(result), name);
    return result;
  }
};

}  // namespace plimsoll::kernels
