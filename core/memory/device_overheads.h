// What a process takes of a card besides its arena. Small, but the ceiling counts it.
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

/// Ranks that a rank talks to over NCCL.
struct NcclShape {
  int64_t team = 0;        // in its tensor-parallel group, itself included; 0: that does without
  int64_t neighbours = 0;  // in the pipeline

  [[nodiscard]] bool is_used() const { return team > 0 || neighbours > 0; }
};

/// Of a launch whose copies of `stages` of `tensor` ranks each are spread over so many processes.
NcclShape nccl_shape(int64_t tensor, int64_t stages, int64_t processes);

/// What bounds NCCL's buffers: it is told so, and the plan counts on it.
inline constexpr int64_t kNcclChannels = 8;       // of a group's rings
inline constexpr int64_t kNcclPointChannels = 4;  // from one rank to another

/// What a launch does, as far as overheads depend on it.
struct OverheadShape {
  int32_t compute_capability = 90;
  int32_t processors = 132;
  int64_t layers = 0;
  bool experts = false;    // any layer with a router: more nodes
  int64_t more_nodes = 0;  // of what not every layer has, in all (backend::more_step_nodes)
  int64_t graphs = 0;      // recorded sizes; 0: --enforce-eager
  int64_t peers = 0;       // cards whose memory this one reads
  NcclShape nccl{};
};

/// Nodes of one recorded decode step. An upper bound: the backend records no more.
int64_t graph_nodes(const OverheadShape& shape);

/// In the order in which they are taken.
std::vector<Overhead> device_overheads(const OverheadShape& shape);

/// Their sum.
size_t overhead_bytes(const OverheadShape& shape);

}  // namespace plimsoll::memory
