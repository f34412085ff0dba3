// The longest context that a launch has room for. Steps for longer contexts take more memory and
// leave fewer KV blocks, so that each length has to be laid out to know whether it fits.
#pragma once

#include <cstdint>
#include <functional>

namespace plimsoll::engine {

/// Tokens of one sequence, at most the model's, that the KV blocks of a launch for contexts of
/// `length` tokens hold; 0: none.
using HeldTokens = std::function<int64_t(int64_t length)>;

/// The longest context below `most` that holds a sequence of its length, to a block of `block`
/// tokens; 0: none. `at_most` is held(most).
int64_t longest_context(int64_t most, int64_t at_most, int64_t block, const HeldTokens& held);

}  // namespace plimsoll::engine
