// How vLLM cuts a vocabulary over ranks.
#pragma once

#include <cstdint>

namespace plimsoll::model {

/// Factor that a vocabulary's rows are padded to a multiple of: vLLM's DEFAULT_VOCAB_PADDING_SIZE.
inline constexpr int64_t kVocabularyPadding = 64;

}  // namespace plimsoll::model
