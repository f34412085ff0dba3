// The parameters of a launch, a row each, by the heading under which help lists them.
#pragma once

#include <vector>

#include "launch/parameters.h"

namespace plimsoll::launch {

std::vector<Parameter> lengths();
std::vector<Parameter> memory();
std::vector<Parameter> numbers();
std::vector<Parameter> ranks();
std::vector<Parameter> device();
std::vector<Parameter> of_vllm();
std::vector<Parameter> items();

}  // namespace plimsoll::launch
