// Whether a backend computes what another does: tiny models that pass through every kernel.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "base/dtype.h"
#include "cli/doctor/findings.h"

namespace plimsoll::cli {

/// Runs the tiny models in `dtype` on both. What fails is in the checks; nothing is thrown.
std::vector<Check> check_backend(backend::Backend& subject, backend::Backend& twin, DType dtype);

/// Times reading and multiplying by large matrices; `twin` sizes are of a processor's caches, not
/// of a card's, where host and device share memory. Throws Error.
MeasuredRoofs measure_roofs(backend::Backend& backend);

}  // namespace plimsoll::cli
