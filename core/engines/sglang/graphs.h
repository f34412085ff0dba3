// Batch sizes for which SGLang captures CUDA graphs.
#pragma once

#include <cstdint>
#include <vector>

namespace plimsoll::engines::sglang {

/// Sizes of decode graphs up to `most`, which is one of them. `padded`: false: each number.
std::vector<int64_t> decode_sizes(int64_t most, bool speculative, bool padded);

/// Numbers of tokens of prefill graphs up to `most`.
std::vector<int64_t> prefill_sizes(int64_t most);

}  // namespace plimsoll::engines::sglang
