// What simulated steps cost: Llama-3.1-8B in bf16 on a card of 141 GB.
#pragma once

namespace plimsoll::testing {

/// Bytes of the weights and of a token's keys and values, operations of a token.
inline constexpr double kWeights = 15.0e9, kTokenBytes = 131072, kTokenFlops = 15.0e9;
inline constexpr double kBytesPerSecond = 4.6e12, kFlops = 8e14;  // of the card

}  // namespace plimsoll::testing
