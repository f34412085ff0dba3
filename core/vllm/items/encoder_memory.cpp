#include "vllm/items/encoder_memory.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/amount.h"
#include "base/json.h"
#include "vllm/shapes/wrappers.h"

namespace plimsoll::vllm {
namespace {

/// A modality that the model takes and the limits allow.
struct Modality {
  std::string name;
  int64_t limit = 0;
  LargestItem counted;   // what budgets are made for
  LargestItem profiled;  // what is run
  TowerShape tower;
};

int64_t within(int64_t limit, int64_t own) {
  return own > 0 ? std::min(limit, own) : limit;
}

std::vector<Modality> modalities_of(const EngineArgs& args, const ModelShape& shape,
                                    int64_t max_model_len) {
  const VisionShape& vision = shape.vision;
  std::vector<Modality> all = {
      {"audio", within(modality_limit(args, "audio"), shape.sound.most),
       largest_sound(shape.sound, max_model_len), profiled_sound(shape.sound, args, max_model_len),
       shape.sound.tower},
      {vision.image_modality,
       within(modality_limit(args, vision.image_modality), vision.most_images),
       largest_image(vision, args), profiled_image(vision, args), vision.tower},
      {"video", within(modality_limit(args, "video"), vision.most_videos),
       largest_video(vision, args, max_model_len), profiled_video(vision, args, max_model_len),
       vision.tower}};
  std::erase_if(all, [](const Modality& m) { return m.limit <= 0 || m.counted.tokens <= 0; });
  return all;
}

/// Items of the modality that one step of the encoder is profiled with. Without chunked prefill
/// vLLM bounds the sequences by the tokens of a step too, which the budget does anyway.
int64_t items_in_batch(const EngineLimits& limits, const Modality& modality, int64_t budget,
                       int64_t max_model_len) {
  const int64_t tokens = modality.counted.tokens;
  const int64_t each = std::max<int64_t>(1, std::min(modality.limit, max_model_len / tokens));
  const Amount asked = Amount{limits.max_num_seqs} * each;
  return std::max<int64_t>(1, std::min(Amount{budget / tokens}, asked).value());
}

/// Bytes of an element of the tower's input: vLLM normalizes some models' pixels on the device.
int64_t pixel_bytes(const EngineArgs& args, const VisionShape& vision, int64_t element) {
  const bool bytes = vision.bytes_on_device && args.version >= VllmVersion{0, 28, 0};
  return bytes ? 1 : element;
}

/// The peak of convolutions before the tower, where they take more than it: the first one's output
/// before and behind its activation.
void note_convolutions(const SoundShape& sound, int64_t element, EncoderMemory& memory) {
  const Amount all = Amount{memory.items} * sound.convolved;
  const Amount elements = std::min(all, Amount{sound.convolved_at_once});
  const Amount peak = elements * 2 * element;
  if (peak.value() <= memory.peak) return;
  memory.peak = peak.value();
  memory.peak_formula =
      fmt::format("2 x {} elements of a convolution x {} B", elements.value(), element);
}

}  // namespace

EncoderMemory encoder_memory(const EngineArgs& args, const EngineLimits& limits,
                             const ModelShape& shape, int64_t element, int64_t max_model_len) {
  EncoderMemory memory;
  if (!shape.multimodal || args.language_only) return memory;
  const std::vector<Modality> modalities = modalities_of(args, shape, max_model_len);
  if (modalities.empty()) return memory;
  const Modality* largest = &modalities.front();
  for (const Modality& modality : modalities) {
    memory.tokens.emplace_back(modality.name, modality.counted.tokens);
    if (modality.counted.tokens >= largest->counted.tokens) largest = &modality;  // by name
  }
  const LargestItem& item = largest->profiled;
  memory.modality = largest->name;
  memory.tokens_per_item = item.tokens;
  memory.budget_tokens = std::max(limits.max_num_batched_tokens, largest->counted.tokens);
  memory.items = items_in_batch(limits, *largest, memory.budget_tokens, max_model_len);
  const Amount deep = Amount{shape.vision.deep_levels} * shape.hidden * element;
  const Amount deep_inputs = deep * limits.max_num_batched_tokens;
  if (args.skip_mm_profiling) {
    memory.items = 0;
    memory.kept = deep_inputs.value();
    memory.formula = "the encoder is left out of the profile";
    return memory;
  }
  const Amount outputs = Amount{memory.items} * item.tokens * (deep + shape.hidden * element);
  const bool sound = largest->name == "audio";
  const int64_t pixel = sound ? element : pixel_bytes(args, shape.vision, element);
  memory.input_elements = item.elements;
  memory.input_bytes = pixel;
  const Amount inputs = Amount{memory.items} * item.elements * pixel;
  memory.kept = (outputs + inputs + deep_inputs).value();
  memory.formula =
      fmt::format("{} {} item(s) x ({} tokens x {} x {} B + {} input elements x {} B)",
                  memory.items, memory.modality, item.tokens,
                  shape.hidden * (1 + shape.vision.deep_levels), element, item.elements, pixel);
  if (deep_inputs > Amount{0}) {
    memory.formula += fmt::format(" + {} levels x {} tokens x {} x {} B", shape.vision.deep_levels,
                                  limits.max_num_batched_tokens, shape.hidden, element);
  }
  const TowerShape& tower = largest->tower;
  Amount rows = Amount{memory.items} * item.rows;
  if (sound && shape.sound.rows_at_once > 0)
    rows = std::min(rows, Amount{shape.sound.rows_at_once});
  const Amount width = tower.gated ? Amount{tower.hidden} * 2 + Amount{tower.intermediate} * 3
                                   : Amount{tower.hidden} * 3 + Amount{tower.intermediate} * 2;
  memory.peak = (rows * width * element).value();
  memory.passing = outputs.value();
  memory.peak_formula = fmt::format("{} rows x {} B x {}", rows.value(), element, width.value());
  if (sound) note_convolutions(shape.sound, element, memory);
  if (pixel != element) {
    const Amount normalized = Amount{memory.items} * item.elements * element;
    memory.peak = (Amount{memory.peak} + normalized).value();
    memory.passing = (outputs + normalized).value();
    memory.peak_formula += fmt::format(" + {} B of normalized pixels", normalized.value());
  }
  return memory;
}

int64_t least_batched_tokens(const ConfigView& config, const EngineArgs& args) {
  const Wrapper* wrapper = find_wrapper(architecture_name(config));
  if (wrapper == nullptr || !wrapper->whole_videos) return 0;
  const std::string attention = text_config(config).text({"use_bidirectional_attention"}, "");
  const std::vector<std::string> absent = absent_modalities(args);
  const auto gone = [&](const char* modality) {
    return std::find(absent.begin(), absent.end(), modality) != absent.end();
  };
  if (attention != "vision" || (gone("image") && gone("video"))) return 0;
  constexpr int64_t kFrames = 32;
  constexpr int64_t kFrameTokens = 70 + 8;  // 70 of the frame, and 8 marks of its time
  const auto hint = args.limits.find("video");
  const bool fewer = hint != args.limits.end() && hint->second.frames > 0;
  return (fewer ? std::min(kFrames, hint->second.frames) : kFrames) * kFrameTokens;
}

std::string encoder_note(const EncoderMemory& memory) {
  if (memory.tokens.empty()) return "";
  std::string items;
  for (const auto& [modality, tokens] : memory.tokens) {
    items += fmt::format("{}{} {} tokens", items.empty() ? "" : ", ", modality, tokens);
  }
  return fmt::format("largest item: {}; encoder cache of {} tokens, profiled with {} {} item(s)",
                     items, memory.budget_tokens, memory.items, memory.modality);
}

void read_processor_settings(const ConfigView& settings, const std::string& prefix,
                             std::map<std::string, int64_t>& into) {
  constexpr size_t kMostSettings = 1 << 12;
  constexpr size_t kDeepest = 64;  // of the prefix's characters
  for (const auto& [key, value] : settings.json().items()) {
    if (into.size() >= kMostSettings) return;
    if (value.is_boolean()) {
      into[prefix + key] = value.get<bool>() ? 1 : 0;
    } else if (value.is_number_integer()) {
      into[prefix + key] = value.get<int64_t>();
    } else if (value.is_object() && prefix.size() < kDeepest) {
      read_processor_settings(ConfigView(value, settings.path()), prefix + key + ".", into);
    }
  }
}

std::vector<std::string> absent_modalities(const EngineArgs& args) {
  std::vector<std::string> absent;
  if (args.language_only) {
    if (args.version < VllmVersion{0, 17, 0}) return absent;
    return {"image", "video", "audio", "vision_chunk"};
  }
  if (args.version < VllmVersion{0, 15, 0}) return absent;
  for (const auto& [modality, limit] : args.limits) {
    if (limit.count == 0) absent.push_back(modality);
  }
  return absent;
}

}  // namespace plimsoll::vllm
