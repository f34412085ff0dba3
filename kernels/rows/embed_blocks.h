// Rows of tables of GGUF files.
#pragma once

#include "kernels/rows/block_scales.h"
#include "kernels/rows/rows.h"

namespace plimsoll::kernels {

/// A table of a GGUF file's blocks, or of the file's own plain type.
struct EmbedBlocks {
  const std::byte* data = nullptr;
  bool is_plain = false;
  DType type = DType::f32;  // of a plain one
  backend::cuda::PackedMatrix layout;
  model::Packing packing;
  BlockShape blocks{};  // not of a plain one
};
/// embed() with this table: of Embed::table only the number of rows counts.
void embed_blocks(const Embed& op, const EmbedBlocks& table, cudaStream_t stream);

}  // namespace plimsoll::kernels
