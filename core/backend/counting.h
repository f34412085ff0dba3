// A backend that computes nothing: with a counting scratch arena, the forward pass checks its
// shapes and finds the peak of its scratch.
#pragma once

#include "backend/backend.h"

namespace plimsoll::backend {

/// A counting backend with the sizes of any footprint. Its scratch arena must count.
class CountingBackend final : public Backend {
 public:
  using Backend::Backend;

 protected:
  void dispatch(ops::AnyOp op, std::span<std::byte>) override {
    std::visit([]<typename Op>(const Op*) { never(Op::kName); }, op);
  }
  void do_load_weight(const Weight&, const RowReader&) override { never("load_weight"); }
  const float* do_host_logits(View, std::span<float>) override {
    never("host_logits");
    return nullptr;
  }

 private:
  /// Throws for an op that was not stopped before: the scratch arena does not count, which is our
  /// bug.
  static void never(std::string_view op);
};

}  // namespace plimsoll::backend
