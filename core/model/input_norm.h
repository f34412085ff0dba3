// The buffers with which vLLM's Qwen2.5-VL normalises pixels on the device: y = x * weight + bias
// by channel.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "model/model_spec.h"

namespace plimsoll::model {

/// Files of a folder that may configure the image processor; those that name its class go first.
inline constexpr std::array kInputNormFiles = {"processor_config.json", "preprocessor_config.json",
                                               "tokenizer_config.json"};

/// The weight and bias of `module`, as vLLM computes them from the image processor's configuration
/// in the folder; none where that changes no pixels. Throws Error(checkpoint_unusable).
std::vector<WeightSpec> read_input_norm(const std::filesystem::path& folder,
                                        const std::string& module);

}  // namespace plimsoll::model
