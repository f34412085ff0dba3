// Times launches, to choose between kernels before a launch is sealed.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <limits>

#include "kernels/runtime/device.h"

namespace plimsoll::kernels {

class Stopwatch {
 public:
  /// Seconds of a launch that was refused.
  static constexpr double kRefused = std::numeric_limits<double>::infinity();

  explicit Stopwatch(cudaStream_t stream) : stream_(stream) {}

  /// Seconds of a few launches one after the other, the least of several such runs, after one that
  /// is not timed, which loads code and fills caches. The launches are recorded once and replayed
  /// as one graph, so that the device's time counts and not the host's for each launch. kRefused
  /// when a launch returns false.
  double seconds(const std::function<bool()>& launch);

 private:
  cudaStream_t stream_;
  Event start_{Event::Timing::on}, end_{Event::Timing::on};
};

}  // namespace plimsoll::kernels
