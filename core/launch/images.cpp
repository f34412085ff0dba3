#include "launch/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/vision/image_processor.h"

namespace plimsoll::launch {
namespace {

/// vLLM's number of items, where no limit is given.
constexpr int64_t kManyItems = 999;

/// --mm-processor-kwargs, and what advice tries beside them.
Json processor_overrides(const Arguments& arguments) {
  Json overrides = arguments.processor_kwargs;
  for (const auto& [name, value] : arguments.args.processor) {
    const bool nested = name.find('.') != std::string::npos;
    if (!nested && !overrides.contains(name)) overrides[name] = value;
  }
  return overrides;
}

Json processor_settings(const model::VisionSpec& vision, const Arguments& arguments) {
  if (counts_as_published(vision, arguments))
    return engine::published_processor_settings(vision, *arguments.lone_config);
  return engine::read_processor_settings(vision, arguments.folder);
}

/// Makes the processor of images (kImageScope) or of videos (kVideoScope).
std::unique_ptr<const image::Processor> make_processor(const model::VisionSpec& vision,
                                                       const Arguments& arguments,
                                                       const char* scope) {
  return engine::make_image_processor(
      vision, processor_settings(vision, arguments),
      engine::scoped_settings(processor_overrides(arguments), scope));
}

/// Layouts that take most to encode, videos with settings of their own included.
std::vector<image::Layout> extremes(const model::VisionSpec& vision, const Arguments& arguments,
                                    int64_t tokens) {
  auto all = make_processor(vision, arguments, model::kImageScope)->extremes(tokens);
  if (!arguments.processor_kwargs.contains(model::kVideoScope)) return all;
  const auto videos = make_processor(vision, arguments, model::kVideoScope)->extremes(tokens);
  all.insert(all.end(), videos.begin(), videos.end());
  std::ranges::stable_sort(all, std::ranges::greater{}, &image::Layout::tokens);
  return all;
}

/// Options for images. Embeddings are kept as processed images are: of as many of the largest,
/// and with the default's 4 GiB of these within 512 MiB. A user who asks for more has images that
/// come again.
engine::ImageOptions options_of(std::vector<image::Layout> extremes, const EngineArgs& args) {
  engine::ImageOptions options{.extremes = std::move(extremes)};
  const double usual = EngineArgs{}.processor_cache_gib;
  const double asked = std::min(args.processor_cache_gib, 1e6);
  const auto levels = static_cast<double>(options.extremes.front().levels());
  const auto count = static_cast<int64_t>(asked * static_cast<double>(1u << 30) / levels);
  options.kept_images = asked > usual ? count : std::min(count, options.kept_images);
  options.kept_bytes =
      static_cast<uint64_t>(static_cast<double>(options.kept_bytes) * asked / usual);
  return options;
}

}  // namespace

bool counts_as_published(const model::VisionSpec& vision, const Arguments& arguments) {
  return arguments.lone_config != nullptr &&
         !engine::has_processor_settings(vision, arguments.folder);
}

int64_t most_items(const EngineArgs& args, std::string_view modality) {
  if (args.language_only) return 0;
  if (const auto limit = args.limits.find(std::string(modality)); limit != args.limits.end()) {
    return limit->second.count;
  }
  return modality == "video" && most_items(args, "image") == 0 ? 0 : kManyItems;
}

checkpoint::Towers wanted_towers(const EngineArgs& args) {
  return most_items(args, "image") + most_items(args, "video") == 0 ? checkpoint::Towers::unwanted
                                                                    : checkpoint::Towers::wanted;
}

std::string image_refusal(const model::ModelSpec& spec, const Arguments& arguments,
                          const backend::Footprint& footprint) {
  if (!spec.vision) return "the model answers text alone";
  const EngineArgs& args = arguments.args;
  if (args.language_only) return "--language-model-only leaves the vision tower out";
  if (wanted_towers(args) == checkpoint::Towers::unwanted) {
    return "--limit-mm-per-prompt image=0 leaves the vision tower out";
  }
  if (!footprint.sees_images()) {
    return fmt::format("the {} backend has no image encoders yet; --device cpu has",
                       footprint.name());
  }
  if (!counts_as_published(*spec.vision, arguments) &&
      !engine::has_processor_settings(*spec.vision, arguments.folder)) {
    return "the model's folder has no preprocessor_config.json, which says how images are "
           "prepared";
  }
  return "";
}

std::optional<engine::ImageOptions> image_options(const model::ModelSpec& spec,
                                                  const Arguments& arguments,
                                                  const backend::Footprint& footprint) {
  if (!image_refusal(spec, arguments, footprint).empty()) return std::nullopt;
  const EngineArgs& args = arguments.args;
  const int64_t length = args.max_model_len > 0 ? args.max_model_len : spec.max_position;
  try {
    const auto limit = args.limits.find("image");
    if (limit != args.limits.end() && limit->second.width > 0 && limit->second.height > 0) {
      const auto processor = make_processor(*spec.vision, arguments, model::kImageScope);
      return options_of({processor->layout({limit->second.width, limit->second.height})}, args);
    }
    // One token of the context is the answer's.
    return options_of(extremes(*spec.vision, arguments, length - 1), args);
  } catch (const image::SettingsError& error) {
    // No flag changes what the files say.
    const bool stated = args.processor.empty() && arguments.processor_kwargs.empty();
    fail(stated ? ExitCode::checkpoint_unusable : ExitCode::usage, "{}preprocessor_config.json: {}",
         stated ? "" : "--mm-processor-kwargs, ", error.what());
  } catch (const image::ImageError& error) {
    fail(ExitCode::usage, "--limit-mm-per-prompt: {}", error.what());
  }
}

}  // namespace plimsoll::launch
