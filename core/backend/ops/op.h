// What ops are: values of their operands, each with its name and, where it has any, its checks and
// its workspace. Backend::run() runs them.
#pragma once

namespace plimsoll::backend::ops {

/// An operand that an op refers to. It outlives the op; a copy of the op may refer to another.
template <typename T>
class Ref {
 public:
  Ref(const T& operand) : operand_(&operand) {}  // NOLINT: an operand is written as it is

  const T& operator*() const { return *operand_; }
  const T* operator->() const { return operand_; }

 private:
  const T* operand_;
};

/// The matrix that an op writes, or changes in place: without rows there is nothing to run.
template <typename Op>
auto written(const Op& op) {
  if constexpr (requires { op.written(); }) {
    return op.written();
  } else if constexpr (requires { op.out; }) {
    return op.out;
  } else {
    return op.x;
  }
}

}  // namespace plimsoll::backend::ops
