// All ops, and how a backend is asked for any of them.
#pragma once

#include <cstddef>
#include <span>
#include <variant>

#include "backend/ops/attention.h"
#include "backend/ops/draw.h"
#include "backend/ops/products.h"
#include "backend/ops/recurrent.h"
#include "backend/ops/rows.h"

namespace plimsoll::backend::ops {

using AnyOp =
    std::variant<const Embed*, const EmbedPositions*, const PlaceEmbeddings*, const GatherRows*,
                 const Norm*, const Add*, const AddNorm*, const CopyHeads*, const AverageParts*,
                 const ScaleColumns*, const SoftCap*, const MultiplyFactors*, const Scale*,
                 const MatchSize*, const KeepAbove*, const Linear*, const MultiplyGates*,
                 const LimitGates*, const GatedActivation*, const Xielu*, const Route*,
                 const Experts*, const RopeAngles*, const RopeAndStore*, const ChooseKeys*,
                 const Attention*, const Convolve*, const SelectiveScan*, const GatedDelta*,
                 const LinearRecurrence*, const Draw*>;

/// Calls backend.compute(op, workspace) or backend.compute(op), whichever there is, else
/// backend.refuse(name of the op).
template <typename Backend>
void compute_with(Backend& backend, const AnyOp& any, std::span<std::byte> workspace) {
  const auto compute = [&]<typename Op>(const Op* op) {
    if constexpr (requires { backend.compute(*op, workspace.data()); }) {
      backend.compute(*op, workspace.data());
    } else if constexpr (requires { backend.compute(*op); }) {
      backend.compute(*op);
    } else {
      backend.refuse(Op::kName);
    }
  };
  std::visit(compute, any);
}

}  // namespace plimsoll::backend::ops
