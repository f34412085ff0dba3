// Online quantization: weights become float8 while they are loaded, with a scale for each output.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "model/model_spec.h"
#include "quantization/assign.h"

namespace plimsoll::quantization {

/// True for the values of --quantization that quantize plain checkpoints while loading: fp8,
/// fp8_per_channel.
bool is_online(std::string_view method);

/// Gives the linear layers of a plain model (not its head, nor routers) the packing of an online
/// method. "" and models that are quantized already change nothing.
void assign_online(std::string_view method, Activations activations, model::ModelSpec& spec);

/// Reads rows [first, first + count) as floats [count, columns].
using ReadFloats = std::function<void(int64_t first, int64_t count, float* to)>;

/// Rows of a part that is quantized online, or some inputs of them: a row's scale is the largest of
/// all its weights over 448, its codes the nearest float8. No more than what is asked for is held
/// at a time.
std::unique_ptr<model::PackedRows> online_rows(int64_t columns, const model::Inputs& inputs,
                                               ReadFloats read);

}  // namespace plimsoll::quantization
