// Slow honest twins of the recurrent ops: one sequence from its first token on.
#pragma once

#include <vector>

#include "reference/ops.h"

namespace plimsoll::reference {

/// `weight` [width, taps], the oldest token's first; `bias` may be empty.
Matrix convolve(const Matrix& in, const model::ConvSpec& spec, const Matrix& weight,
                const std::vector<double>& bias);

struct ScanTerms {
  Matrix x, step, b, c;
  std::vector<double> decay, skip, step_bias;  // decay [heads] or [heads, state]
};
Matrix selective_scan(const ScanTerms& terms, const model::RecurrentSpec& spec);

struct DeltaTerms {
  Matrix q, k, v, beta, step;
  std::vector<double> decay_log, step_bias;
};
Matrix gated_delta(const DeltaTerms& terms, const model::RecurrentSpec& spec);

struct LruTerms {
  Matrix x, gates;  // gates: of each head those of x, then those of the decay
  std::vector<double> decay;
};
Matrix linear_recurrence(const LruTerms& terms, const model::RecurrentSpec& spec);

}  // namespace plimsoll::reference
