// What is asked of speculation by prompt lookup (speculation.h).
#pragma once

#include <cstdint>

namespace plimsoll::engine {

/// The fields of --speculative-config with the method "ngram", under vLLM's names.
struct NgramOptions {
  int64_t num_speculative_tokens = 0;  // most that one step tries for a sequence; 0: none
  int64_t prompt_lookup_min = 5;       // tokens that must be repeated already, at least 1
  int64_t prompt_lookup_max = 5;       // of the repetition no more are compared
};

}  // namespace plimsoll::engine
