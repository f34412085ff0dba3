// Errors that cost one line and no more: a stable code, a message, the field to blame.
#pragma once

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "image/image.h"

namespace plimsoll::batch {

/// The closed list of error codes that output lines carry; image/image.h has those of images.
namespace code {
inline constexpr std::string_view bad_json = "bad_json";
inline constexpr std::string_view bad_utf8 = "bad_utf8";
inline constexpr std::string_view bad_field = "bad_field";
inline constexpr std::string_view line_too_long = "line_too_long";
inline constexpr std::string_view duplicate_id = "duplicate_id";
inline constexpr std::string_view context_too_long = "context_too_long";
inline constexpr std::string_view no_images = image::code::no_images;  // also the engine's
inline constexpr std::string_view too_many_images = "too_many_images";
inline constexpr std::string_view image_not_allowed = "image_not_allowed";
inline constexpr std::string_view template_error = "template_error";
inline constexpr std::string_view tokenizer_error = "tokenizer_error";  // also the engine's
inline constexpr std::string_view numeric = "numeric";                  // the engine's
inline constexpr std::string_view invalid_answer = "invalid_answer";
inline constexpr std::string_view crashed = "crashed";
}  // namespace code

inline constexpr std::array kErrorCodes = {
    code::bad_json,         code::bad_utf8,          code::bad_field,
    code::line_too_long,    code::duplicate_id,      code::context_too_long,
    code::template_error,   code::tokenizer_error,   code::numeric,
    code::invalid_answer,   code::crashed,           code::no_images,
    code::too_many_images,  code::image_not_allowed, image::code::unreadable,
    image::code::truncated, image::code::too_large,  image::code::aspect_ratio};

class LineError : public std::runtime_error {
 public:
  LineError(std::string_view code, const std::string& message, std::string_view param = {})
      : std::runtime_error(message), code_(code), param_(param) {}
  [[nodiscard]] const std::string& code() const { return code_; }
  /// The request field to blame; empty when there is none.
  [[nodiscard]] const std::string& param() const { return param_; }

 private:
  std::string code_;
  std::string param_;
};

}  // namespace plimsoll::batch
