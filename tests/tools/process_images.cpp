// process_images: a JSON object a line in, {"file", "processor", "patch_size", "shuffle",
// "tokens_per_tile", "settings", "mm_processor_kwargs"}; what the processor makes of the image a
// line out, with the SHA-256 of its values, or {"error"}. Values are written to "values", if given.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "base/json.h"
#include "image/decode.h"
#include "image/processor.h"
#include "shard/sha256.h"

namespace {

using namespace plimsoll;
using image::ProcessorKind;

constexpr std::pair<std::string_view, ProcessorKind> kKinds[] = {
    {"qwen2_vl", ProcessorKind::qwen2_vl}, {"gemma3", ProcessorKind::gemma3},
    {"clip", ProcessorKind::clip},         {"siglip", ProcessorKind::siglip},
    {"idefics3", ProcessorKind::idefics3}, {"internvl", ProcessorKind::internvl}};

std::string read(const std::string& name) {
  std::ifstream file(name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename Values>
std::string bytes_of(const Values& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(typename Values::value_type)};
}

Json image_of(const Json& line, const image::Image& image) {
  image::PatchShape patches{.patch_size = line.value("patch_size", 14),
                            .shuffle = line.value("shuffle", 1),
                            .tokens_per_tile = line.value("tokens_per_tile", 0)};
  const std::string name = line["processor"];
  const auto* kind =
      std::ranges::find(kKinds, name, &std::pair<std::string_view, ProcessorKind>::first);
  const auto processor =
      image::make_processor(kind->second, patches, line.value("settings", Json::object()),
                            line.value("mm_processor_kwargs", Json::object()));
  (void)processor->layout(image.size);  // which refuses
  const image::Pixels pixels = processor->process(image);
  std::vector<float> values(static_cast<size_t>(pixels.layout.values()));
  pixels.write_values(0, std::ssize(values), values.data());
  if (line.contains("values")) {
    std::ofstream(line["values"].get<std::string>(), std::ios::binary) << bytes_of(values);
  }
  const image::Layout& layout = pixels.layout;
  return {{"shape", layout.shape},     {"tokens", layout.tokens},
          {"tiles", layout.tiles},     {"rows", layout.rows},
          {"columns", layout.columns}, {"values", shard::sha256_hex(bytes_of(values))}};
}

Json answer(const Json& line) {
  Json found = Json::object();
  try {
    const std::string file = read(line["file"]);
    const auto* bytes = reinterpret_cast<const uint8_t*>(file.data());
    const image::Image image = image::decode({bytes, file.size()});
    found["size"] = {image.size.width, image.size.height};
    found["rgb"] = shard::sha256_hex(bytes_of(image.rgb));
    if (line.contains("processor")) found.update(image_of(line, image));
  } catch (const std::exception& error) {
    found["error"] = error.what();
  }
  return found;
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) std::cout << answer(Json::parse(line)).dump() << std::endl;
  return 0;
}
