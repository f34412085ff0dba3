// Parses one input line as a request: its envelope, its id, its prompts and fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "batch/fields/request_fields.h"
#include "batch/images/media.h"
#include "batch/line_reader.h"

namespace plimsoll::batch {

/// Identity of a line, known as far as reading got, also when it fails.
struct LineHead {
  uint64_t number = 0;
  Envelope envelope = Envelope::plain;
  Endpoint endpoint = Endpoint::completions;
  std::optional<std::string> id;  // plain: the line number as text where the line has none
  bool id_is_line_number = false;
  bool lacks_url = false;   // batch: the endpoint follows from the body alone
  bool is_request = false;  // the envelope was sound, so that a failure is an answer to it
};

using TokenIds = std::vector<int32_t>;
/// A prompt as the line gives it: text, or ids.
using RawPrompt = std::variant<std::string, TokenIds>;

struct LineRequest {
  RequestFields fields;
  std::vector<RawPrompt> prompts;  // completions: one or several
  OrderedJson messages;            // chat
  std::vector<Media> media;        // images and videos, in order
};

/// True when the line has the batch form of another service: a custom_id beside `params`.
bool is_other_service(const OrderedJson& object);
/// Message for a line of that form, with the command that converts it.
inline constexpr std::string_view kOtherService =
    "the batch form of another service; make it OpenAI's: jq -c '{custom_id, body: (.params | "
    ".messages = [{role: \"system\", content: .system} | select(.content)] + .messages | "
    "del(.system))}' FILE";

/// Parses the line and reads its envelope: fills `head` as far as it gets, and returns the request
/// body, which takes over the line's text. Throws LineError. `usual` is the envelope of the lines
/// before it, for a line too broken to have one.
OrderedJson read_envelope(Line& line, Envelope usual, LineHead& head);

/// Prompts and fields of the body; addresses of images are moved out of the messages. Throws
/// LineError(bad_field).
LineRequest read_request(const LineHead& head, OrderedJson body, const RequestFields& defaults,
                         const FieldLimits& limits, const UnknownField& unknown);

}  // namespace plimsoll::batch
