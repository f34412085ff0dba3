// Images and videos that a request names, as OpenAI's and vLLM's schemas write them.
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
  std::vector<std::string> sources;  // data: and file: URLs, or paths; for a video its frames
  std::string field;                 // of the request, named in errors
};

/// Kind of a part of a message's content, by its type; nothing for text.
std::optional<MediaKind> media_kind(const OrderedJson& part);

/// Images and videos of a conversation's parts, in order. Their addresses, which may be long, are
/// moved out of `messages`. Throws LineError(bad_field).
std::vector<Media> media_of_messages(OrderedJson& messages);

/// Images and videos of multi_modal_data: {"image": file or files, "video": files of the frames,
/// or several such lists}. Their addresses are moved out of `data`. Throws LineError(bad_field).
std::vector<Media> media_of_data(OrderedJson& data);

}  // namespace plimsoll::batch
