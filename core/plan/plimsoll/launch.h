// Our own engine's launch as one rank of it would be laid out, by the engine's own constructors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "engine/ranks/stage_layouts.h"
#include "hardware/gpu_catalogue.h"
#include "launch/resolve.h"
#include "memory/device_overheads.h"
#include "model/model_spec.h"

namespace plimsoll::plan::own {

using launch::Arguments;
using vllm::EngineArgs;

/// A rank of a pipeline stage.
struct RankLaunch {
  int64_t stage = 0;
  int64_t first_layer = 0;
  int64_t layers = 0;
  engine::EngineLayout layout;  // its pool has no size yet
  engine::EnginePlan plan;      // regions; those of KV blocks are to be left out (is_pool)
  std::vector<memory::Overhead> overheads;  // beside the arena; none on the host
  std::vector<int64_t> page_bytes;          // by layer of the stage
  std::vector<int64_t> windows;             // by layer of the stage
  /// Types of the weights that are kept as a file's blocks: "Q4_K 4.1 GiB in 113 tensors, ..."
  std::string block_types;

  /// Bytes beside the KV blocks: arena and overheads.
  [[nodiscard]] int64_t fixed_bytes() const;
  /// Bytes of the regions of `blocks` KV blocks and of the draft model's beside them.
  [[nodiscard]] int64_t pool_bytes(int64_t blocks) const;
  /// Bytes of a KV block and of the draft model's beside it.
  [[nodiscard]] int64_t block_bytes() const;
  /// Bytes of the region of the draft model's KV blocks; 0: there is no draft model.
  [[nodiscard]] int64_t draft_pool_bytes(int64_t blocks) const;
};

/// True for a region whose size hangs on the number of KV blocks.
bool is_pool(const memory::Region& region);

/// Sizes on the card; null: of the host.
std::unique_ptr<backend::Footprint> device_footprint(const hardware::Gpu* gpu,
                                                     const Arguments& arguments);

/// One rank of every stage, laid out for contexts of `length` tokens (0: the model's own). Throws
/// Error(usage).
std::vector<RankLaunch> lay_out_ranks(const launch::ResolvedLaunch& resolved,
                                      const Arguments& arguments, const hardware::Gpu* gpu,
                                      int64_t length);

}  // namespace plimsoll::plan::own
