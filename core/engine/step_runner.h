// Runs built steps over the backend, and each kind of step once during the launch.
#pragma once

#include <cstdint>
#include <functional>

#include "backend/backend.h"
#include "engine/batch_builder.h"
#include "engine/layout.h"

namespace plimsoll::engine {

/// Logits of rows [first, first + count) of Step::read, on the host.
struct LogitsSlice {
  int64_t first = 0;
  int64_t count = 0;
  const float* values = nullptr;
  int64_t stride = 0;
};

class StepRunner {
 public:
  using Reader = std::function<void(const LogitsSlice&)>;
  using FillMasks = std::function<void()>;

  /// All arguments must outlive it.
  StepRunner(Launch& launch, const EngineLayout& layout, backend::Backend& backend)
      : launch_(launch), layout_(layout), backend_(backend) {}

  /// Starts a step. `fill_masks` is called where rows are masked by grammars, when the ops before
  /// their draw have been enqueued: it writes BatchMeta::drawing.masks. `read` is called for the
  /// rows that the host reads, slice by slice, in order; before the first call the step's ops have
  /// run.
  void run(const Step& step, const Reader& read, const FillMasks& fill_masks = {});
  /// Warms up: runs the largest step and images, and one step of each size that is recorded, so
  /// that the backend has loaded all kernels of later steps. The cache is written to.
  void warm_up(BatchBuilder& builder);

 private:
  void draw(const Step& step, backend::View hidden, const FillMasks& fill_masks);
  void read_rows(const Step& step, backend::View hidden, const Reader& read);
  void fill(Step& step, int64_t tokens);
  void fill_with_image(Step& step);
  void encode_largest();
  /// Rows of logits that the host reads at a time.
  [[nodiscard]] int64_t most_read() const;

  Launch& launch_;
  const EngineLayout& layout_;
  backend::Backend& backend_;
};

}  // namespace plimsoll::engine
