// Cases of multimodal_run as lines of a batch.
#pragma once

#include <filesystem>
#include <string>

#include "base/json.h"
#include "reference/recipe.h"

namespace plimsoll::testing {

/// The case as a request's body: images of messages by URL, others by path.
inline OrderedJson image_line(const OrderedJson& c, const std::filesystem::path& images) {
  OrderedJson body = OrderedJson::object();
  const auto path = [&](const OrderedJson& file) {
    return (images / file.get<std::string>()).string();
  };
  if (c.contains("messages")) {
    body["messages"] = c["messages"];
    for (OrderedJson& message : body["messages"]) {
      if (!message["content"].is_array()) continue;
      for (OrderedJson& part : message["content"]) {
        if (part["type"] != "image") continue;
        part = {{"type", "image_url"}, {"image_url", {{"url", "file://" + path(part["image"])}}}};
      }
    }
    return body;
  }
  for (const auto& [ours, theirs] :
       {std::pair("prompt", "prompt"), std::pair("prompt_token_ids", "request_token_ids"),
        std::pair("mm_processor_kwargs", "mm_processor_kwargs")}) {
    if (c.contains(theirs)) body[ours] = c[theirs];
  }
  OrderedJson& data = body["multi_modal_data"] = OrderedJson::object();
  for (const OrderedJson& file : c.value("images", OrderedJson::array())) {
    data["image"].push_back(path(file));
  }
  for (const OrderedJson& video : c.value("videos", OrderedJson::array())) {
    OrderedJson frames;
    for (const OrderedJson& file : video) frames.push_back(path(file));
    data["video"].push_back(frames);
  }
  return body;
}

/// Makes a published folder of a golden one: checkpoint, tokenizer and configuration of the
/// processor.
inline void write_published(const std::filesystem::path& golden,
                            const std::filesystem::path& folder) {
  write_checkpoint(golden, folder);
  for (const auto& entry : std::filesystem::directory_iterator(golden)) {
    const std::string file = entry.path().filename().string();
    if (file.starts_with("golden") || file == "recipe.json") continue;
    std::filesystem::copy(entry.path(), folder / file,
                          std::filesystem::copy_options::skip_existing);
  }
}

}  // namespace plimsoll::testing
