// The GGUF file that llama.cpp's converter and llama-quantize would make of a Hugging Face model:
// its header, from config.json alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "checkpoint/gguf/model.h"

namespace plimsoll::engines::llamacpp {

/// The header of the file that llama-quantize makes of a model for a mixture such as "Q4_K_M",
/// without an importance matrix where it needs none; F32, F16 and BF16 are the converter's own
/// files. Numbers that memory depends on are there, values of tensors are not. `path` is
/// config.json's. Throws Error(usage) for an unknown mixture, Error(checkpoint_unusable) for a
/// family whose conversion is not known.
checkpoint::gguf::Model converted(const Json& config, const std::string& path,
                                  std::string_view mixture);

/// True for a mixture that llama-quantize makes with an importance matrix alone.
bool needs_importance_matrix(std::string_view mixture);

/// Layers of multi-token prediction that a config states. `converted` leaves them out.
int64_t left_out_layers(const Json& config, const std::string& path);

/// Names of mixtures, as llama-quantize has them.
std::vector<std::string> mixture_names();

}  // namespace plimsoll::engines::llamacpp
