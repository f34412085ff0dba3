// The border between types at run time and at compile time.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "backend/backend.h"
#include "kernels/runtime/numeric.h"

namespace plimsoll::kernels {

using backend::View;

template <typename T>
struct TypeTag {
  using type = T;
};

/// Calls f(TypeTag<T>{}) for the type of activations.
template <typename F>
void with_activation_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::bf16:
      return f(TypeTag<__nv_bfloat16>{});
    case DType::f16:
      return f(TypeTag<__half>{});
    case DType::f32:
      return f(TypeTag<float>{});
    default:
      throw std::logic_error("kernels: no activations of type " + std::string(torch_name(dtype)));
  }
}

/// Calls f(TypeTag<T>{}, TypeTag<KV>{}) for activations and a cache of their type or of e4m3.
template <typename F>
void with_cache_type(DType dtype, DType cache, F&& f) {
  if (cache != dtype && cache != DType::f8_e4m3)
    throw std::logic_error("kernels: no cache of " + std::string(torch_name(cache)) + " for " +
                           std::string(torch_name(dtype)));
  with_activation_type(dtype, [&](auto type) {
    if (cache == DType::f8_e4m3) return f(type, TypeTag<__nv_fp8_e4m3>{});
    f(type, type);
  });
}

/// True when all rows of a view can be read N elements at a time.
template <typename T, int N>
bool is_packed(const View& view) {
  return reinterpret_cast<uintptr_t>(view.data) % (sizeof(T) * N) == 0 && view.columns % N == 0 &&
         (view.stride % N == 0 || view.rows <= 1);
}

/// Calls f(std::integral_constant<int, N>{}) with the elements that one access moves: 16 bytes
/// where all of `views` allow it, else one.
template <typename T, typename F, typename... Views>
void with_pack_size(F&& f, const Views&... views) {
  if ((is_packed<T, kWide<T>>(views) && ...))
    f(std::integral_constant<int, kWide<T>>{});
  else
    f(std::integral_constant<int, 1>{});
}

/// True for a view of no rows, which is optional and sets no condition.
inline bool is_empty(const View& view) {
  return view.data == nullptr;
}

template <typename T>
T* data_of(const View& view) {
  return static_cast<T*>(view.data);
}

template <typename T>
__device__ T* row_at(const View& view, int64_t row) {
  return static_cast<T*>(view.data) + row * view.stride;
}

/// A vector of parameters (norm weight, bias) on the device, or none. Its type is tested when it is
/// read: the branch is the same for all threads.
struct Vector {
  const void* data = nullptr;
  DType dtype = DType::f32;

  __device__ bool present() const { return data != nullptr; }
  __device__ float at(int64_t i) const {
    switch (dtype) {
      case DType::bf16:
        return to_float(static_cast<const __nv_bfloat16*>(data)[i]);
      case DType::f16:
        return to_float(static_cast<const __half*>(data)[i]);
      default:
        return static_cast<const float*>(data)[i];
    }
  }
};

}  // namespace plimsoll::kernels
