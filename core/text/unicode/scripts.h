// Scripts as sentencepiece sets words apart by them.
#pragma once

#include <cstdint>

namespace plimsoll::text {

/// A script's number; the numbers mean nothing beyond being equal or not.
enum class Script : uint8_t { any = 0 };

/// Hiragana, Katakana and Han are one script; `any` for the space and for characters without a
/// script.
Script segmentation_script(char32_t character);

}  // namespace plimsoll::text
