// Pictures and videos that a request names, as OpenAI's and vLLM's schemas write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace plimsoll::batch {

enum class MediaKind : uint8_t { image, video };

struct Media {
  MediaKind kind = MediaKind::image;
  std::vector<std::string> sources;  // data: and file: URLs, or paths; of a video its frames
  std::string field;                 // whom to blame
};

/// What a part of a message's content is, by its type; nothing for text.
std::optional<MediaKind> media_kind(const OrderedJson& part);

/// Those of a conversation's parts, in order; their addresses, which may be long, are moved out.
/// Throws LineError(bad_field).
std::vector<Media> media_of_messages(OrderedJson& messages);

/// Those of multi_modal_data: {"image": file or files, "video": files of the frames, or several
/// such lists}; moved out too. Throws LineError(bad_field).
std::vector<Media> media_of_data(OrderedJson& data);

}  // namespace plimsoll::batch
