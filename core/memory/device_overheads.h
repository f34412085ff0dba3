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

/// What a launch does, as far as overheads depend on it.
struct OverheadShape {
  int32_t compute_capability = 90;
  int32_t processors = 132;
  int64_t layers = 0;
  bool experts = false;    // any layer with a router: more nodes
  int64_t more_nodes = 0;  // of what not every layer has, in all (backend::more_step_nodes)
  int64_t graphs = 0;      // recorded sizes; 0: --enforce-eager
  int64_t peers = 0;       // cards whose memory this one reads
};

/// Nodes of one recorded decode step. An upper bound: the backend records no more.
int64_t graph_nodes(const OverheadShape& shape);

/// In the order in which they are taken.
std::vector<Overhead> device_overheads(const OverheadShape& shape);

/// Their sum.
size_t overhead_bytes(const OverheadShape& shape);

}  // namespace plimsoll::memory
