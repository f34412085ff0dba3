#include "kernels/backend/device_ranks.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "kernels/runtime/cuda_error.h"

namespace plimsoll::kernels {
namespace {

bool is_done_in_time(const Event& event) {
  using namespace std::chrono_literals;
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (!event.done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(100us);
  }
  return true;
}

}  // namespace

int32_t one_owner(std::span<const int32_t> owners) {
  const auto differs = [&](int32_t owner) { return owner != owners.front(); };
  if (std::ranges::any_of(owners, differs)) {
    throw std::logic_error("ranks on devices share rows of one rank alone");
  }
  return owners.empty() ? 0 : owners.front();
}

bool trial_succeeds(backend::TensorRanks& ranks, CudaBackend& own) {
  constexpr int64_t kCount = 4;
  constexpr int kByte = 0x3f;  // of which a float is made that doubles exactly
  const memory::Scope scope(own.scratch());
  void* at = own.scratch().take("trial of ranks", kCount * sizeof(float));
  check(cudaMemsetAsync(at, kByte, kCount * sizeof(float), own.stream()), "cudaMemsetAsync");
  ranks.all_reduce_sum({at, DType::f32, 1, kCount, kCount});
  std::array<float, kCount> found{};
  Event done;
  done.record(own.stream());
  if (!is_done_in_time(done)) return false;
  check(cudaMemcpyAsync(found.data(), at, sizeof found, cudaMemcpyDeviceToHost, own.stream()),
        "cudaMemcpyAsync");
  own.synchronize();
  float one = 0;
  std::memset(&one, kByte, sizeof one);
  return found.front() == one * static_cast<float>(ranks.ranks());
}

}  // namespace plimsoll::kernels
