// The processors, a file each.
#pragma once

#include "image/processor.h"

namespace plimsoll::image::processors {

using ProcessorPtr = std::unique_ptr<const Processor>;

ProcessorPtr make_qwen2_vl(const PatchShape& patches, const Json& settings, const Json& overrides);
ProcessorPtr make_gemma3(const PatchShape& patches, const Json& settings, const Json& overrides);
ProcessorPtr make_clip(const PatchShape& patches, const Json& settings, const Json& overrides);
ProcessorPtr make_siglip(const PatchShape& patches, const Json& settings, const Json& overrides);
ProcessorPtr make_idefics3(const PatchShape& patches, const Json& settings, const Json& overrides);
ProcessorPtr make_internvl(const PatchShape& patches, const Json& settings, const Json& overrides);

}  // namespace plimsoll::image::processors
