// Types that llama-quantize gives to tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/gguf/header.h"

namespace plimsoll::engines::llamacpp {

/// A mixture of types by its name.
struct Mixture {
  std::string_view name;
  std::string_view base;  // the type of most matrices
};

/// The mixture of a name in any case ("Q4_K" is Q4_K_M); null: there is none.
const Mixture* find_mixture(std::string_view name);

/// True for llama-quantize's mixtures whose types are not planned: IQ2_XS and others.
bool is_unplanned_mixture(std::string_view name);

/// Facts of a model that types depend on.
struct QuantizedModel {
  std::string architecture;  // llama.cpp's
  int64_t layers = 0;
  int64_t experts = 0;
  int64_t group = 0;  // query heads of the first layer that share a KV head; 0: it has none
  bool packed_experts = false;  // the checkpoint's experts are MXFP4, and stay so
  bool tied = false;            // the embedding is the head
};

/// Sets type and bytes of tensors, which are in the order of layers.
void quantize(const Mixture& mixture, const QuantizedModel& model,
              std::vector<checkpoint::gguf::Tensor>& tensors);

}  // namespace plimsoll::engines::llamacpp
