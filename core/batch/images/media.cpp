#include "batch/images/media.h"

#include <fmt/format.h>

#include <algorithm>

#include "batch/fields/field_value.h"
#include "batch/line_error.h"
#include "image/image.h"

namespace plimsoll::batch {
namespace {

constexpr std::string_view kFrames = "data:video/jpeg;base64,";

[[noreturn]] void refuse(const std::string& field, std::string_view expected,
                         const OrderedJson& found) {
  throw LineError(code::bad_field,
                  fmt::format("{}: expected {}, found {}", field, expected, excerpt(found)), field);
}

/// The address in a part: {"image_url": {"url": ...}}, {"image_url": ...} or under another name.
OrderedJson& address_of(OrderedJson& part, std::span<const std::string_view> names,
                        const std::string& field) {
  for (const std::string_view name : names) {
    const auto at = part.find(std::string(name));  // json 3.10 (Ubuntu 22.04) knows no other keys
    if (at == part.end() || at->is_null()) continue;
    if (!at->is_object()) return *at;
    const auto url = at->find("url");
    if (url != at->end() && !url->is_null()) return *url;
  }
  refuse(field, fmt::format("{{\"{}\": {{\"url\": ...}}}}", names.front()), part);
}

/// Braces would copy it, which may be long.
std::vector<std::string> one(std::string source) {
  std::vector<std::string> sources;
  sources.push_back(std::move(source));
  return sources;
}

/// vLLM's video of single images: their base64 texts, joined by commas.
std::vector<std::string> split_frames(const std::string& url) {
  std::vector<std::string> frames;
  for (size_t first = kFrames.size(); first <= url.size();) {
    const size_t comma = std::min(url.find(',', first), url.size());
    frames.push_back("data:image/jpeg;base64," + url.substr(first, comma - first));
    first = comma + 1;
  }
  return frames;
}

std::string taken(OrderedJson& string) {
  return std::move(string.get_ref<std::string&>());
}

std::vector<std::string> strings_of(OrderedJson& value, const std::string& field) {
  if (value.is_string()) return one(taken(value));
  if (!value.is_array() || value.empty()) refuse(field, "a file, or several", value);
  std::vector<std::string> all;
  for (OrderedJson& entry : value) {
    if (!entry.is_string()) refuse(field, "names of files", entry);
    all.push_back(taken(entry));
  }
  return all;
}

std::vector<std::string> video_sources(OrderedJson& value, const std::string& field) {
  if (value.is_array()) return strings_of(value, field);
  if (!value.is_string()) refuse(field, "an address, or files of frames", value);
  std::string url = taken(value);
  if (url.starts_with(kFrames)) return split_frames(url);
  if (url.starts_with("data:video/")) {
    throw LineError(
        image::code::unreadable,
        fmt::format("{}: {} is a container, which is not read; give frames: "
                    "\"{}A,B,...\", or a list of files",
                    field, url.substr(5, url.find_first_of(";,") - 5).substr(0, 40), kFrames),
        field);
  }
  return one(std::move(url));
}

Media media_of_part(OrderedJson& part, MediaKind kind, const std::string& field) {
  static constexpr std::string_view kImage[] = {"image_url", "image", "url"};
  static constexpr std::string_view kVideo[] = {"video_url", "video", "url"};
  if (kind == MediaKind::video) {
    return {kind, video_sources(address_of(part, kVideo, field), field), field};
  }
  OrderedJson& address = address_of(part, kImage, field);
  if (!address.is_string()) refuse(field, "an address", address);
  return {kind, one(taken(address)), field};
}

}  // namespace

std::optional<MediaKind> media_kind(const OrderedJson& part) {
  if (!part.is_object() || !part.contains("type") || !part["type"].is_string()) return std::nullopt;
  const auto type = part["type"].get<std::string>();
  if (type == "image_url" || type == "image" || type == "input_image") return MediaKind::image;
  if (type == "video_url" || type == "video") return MediaKind::video;
  return std::nullopt;
}

std::vector<Media> media_of_messages(OrderedJson& messages) {
  std::vector<Media> all;
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto content = messages[i].find("content");
    if (content == messages[i].end() || !content->is_array()) continue;
    for (size_t j = 0; j < content->size(); ++j) {
      OrderedJson& part = (*content)[j];
      if (const auto kind = media_kind(part)) {
        all.push_back(media_of_part(part, *kind, fmt::format("messages[{}].content[{}]", i, j)));
      }
    }
  }
  return all;
}

std::vector<Media> media_of_data(OrderedJson& data) {
  const std::string field = "multi_modal_data";
  (void)FieldValue(field, data).object();
  std::vector<Media> all;
  for (const auto& item : data.items()) {
    const std::string& name = item.key();
    OrderedJson& value = item.value();
    if (value.is_null()) continue;
    if (name == "image") {
      const bool several = value.is_array();
      size_t index = 0;
      for (std::string& source : strings_of(value, field)) {
        const std::string place = several ? fmt::format("{}.image[{}]", field, index++) : field;
        all.push_back({MediaKind::image, one(std::move(source)), place});
      }
    } else if (name == "video") {
      const bool several = value.is_array() && !value.empty() && value.front().is_array();
      if (!several) all.push_back({MediaKind::video, video_sources(value, field), field});
      for (size_t i = 0; several && i < value.size(); ++i) {
        all.push_back({MediaKind::video, video_sources(value[i], field), field});
      }
    } else {
      refuse(field, "\"image\" or \"video\"", OrderedJson(name));
    }
  }
  return all;
}

}  // namespace plimsoll::batch
