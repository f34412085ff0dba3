// Memory of a card that a process takes beside its arena. Small, but the limit counts it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::memory {

/// Whether a figure was read off a card or is an upper bound by reasoning.
enum class Origin : uint8_t { measured, estimate };

struct Overhead {
  std::string name;  // as in the plan: "driver context", "kernel modules", "cuda graphs", ...
  size_t bytes = 0;
  std::string formula;  // with its numbers
  Origin origin = Origin::estimate;
};

/// Ranks to which a rank talks over NCCL.
struct NcclShape {
  /// Ranks of its tensor-parallel group, itself included; 0: the group does without NCCL.
  int64_t team = 0;
  int64_t neighbours = 0;  // in the pipeline

  [[nodiscard]] bool is_used() const { return team > 0 || neighbours > 0; }
};

/// Shape for a launch whose copies of `stages` of `tensor` ranks each are spread over `processes`
/// processes.
NcclShape nccl_shape(int64_t tensor, int64_t stages, int64_t processes);

/// Channels of NCCL, which bound its buffers: the launch sets them, and the plan counts on them.
inline constexpr int64_t kNcclChannels = 8;       // of a group's rings
inline constexpr int64_t kNcclPointChannels = 4;  // from one rank to another

/// Properties of a launch that overheads depend on.
struct OverheadShape {
  int32_t compute_capability = 90;
  int32_t processors = 132;
  int64_t layers = 0;
  bool experts = false;    // any layer with a router: more nodes
  int64_t more_nodes = 0;  // in layers of special kinds, in all (backend::more_step_nodes)
  int64_t graphs = 0;      // recorded sizes; 0: --enforce-eager
  int64_t peers = 0;       // cards whose memory this one reads
  NcclShape nccl{};
};

/// Nodes of one recorded decode step: an upper bound, the backend records no more.
int64_t graph_nodes(const OverheadShape& shape);

/// Overheads in the order in which they are taken.
std::vector<Overhead> device_overheads(const OverheadShape& shape);

/// Sum of all overheads in bytes.
size_t overhead_bytes(const OverheadShape& shape);

}  // namespace plimsoll::memory
