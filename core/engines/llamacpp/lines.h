// Log lines in which llama.cpp states its buffers.
#pragma once

#include <string>
#include <vector>

#include "engines/answer.h"
#include "engines/llamacpp/memory.h"

namespace plimsoll::engines::llamacpp {

/// Lines of a load in their order; `buffers` are those of the placement.
std::vector<std::string> lines_of(const Shape& shape, const Launch& launch,
                                  const Placement& placement, const std::vector<Buffer>& buffers);

}  // namespace plimsoll::engines::llamacpp
