// Hashes of a prompt's blocks, by which prompts that begin alike are found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "batch/request_line.h"
#include "engine/vision/images.h"

namespace plimsoll::batch {

/// A hash for each whole block of the prompt: of all tokens before the block's end, and of the
/// images that stand in it. Equal hashes stand for equal beginnings. `images` may be null.
std::vector<uint64_t> hash_blocks(const TokenIds& ids, const engine::Images* images,
                                  size_t block_size);

}  // namespace plimsoll::batch
