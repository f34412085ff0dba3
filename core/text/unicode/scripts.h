// Scripts by which sentencepiece separates words.
#pragma once

#include <cstdint>

namespace plimsoll::text {

/// A script's number; the numbers mean nothing beyond being equal or not.
enum class Script : uint8_t { any = 0 };

/// The script of a character. Hiragana, Katakana and Han are one script; `any` for the space and
/// for characters without a script.
Script segmentation_script(char32_t character);

}  // namespace plimsoll::text
