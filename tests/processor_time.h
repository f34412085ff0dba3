// How long something took the processor, for bounds on what hostile input may cost: a clock on the
// wall would also count what other programs do.
#pragma once

#include <ctime>

namespace plimsoll::testing {

class ProcessorTime {
 public:
  /// Of all threads of this process since this object was made.
  double seconds() const { return static_cast<double>(std::clock() - start_) / CLOCKS_PER_SEC; }

 private:
  std::clock_t start_ = std::clock();
};

}  // namespace plimsoll::testing
