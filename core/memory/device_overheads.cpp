#include "memory/device_overheads.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/amount.h"

namespace plimsoll::memory {
namespace {

constexpr size_t kGraphNodeBytes = 1536;  // measured on an H200

/// Code that a launch loads: our own machine code for one architecture, and the kernels of cuBLASLt
/// that were tried.
constexpr size_t kOwnModules = 48 * kMiB;
constexpr size_t kProductModules = 96 * kMiB;
/// Bytes for the driver's rounding up, and for kernels that are first used after the launch (rare
/// ways to draw a token).
constexpr size_t kSlack = 64 * kMiB;

/// Bytes for each peer: 10 MiB of page tables for each 80 GiB of its memory in pages of 64 KiB, and
/// what the driver keeps for it.
constexpr size_t kPeerMapping = 32 * kMiB;

/// Buffers of one NCCL connection for its three protocols by default (DEFAULT_LL_BUFFSIZE,
/// DEFAULT_LL128_BUFFSIZE, DEFAULT_BUFFSIZE in src/init.cc of NCCL, June 2026): 8 * 512 * 8 * 16,
/// 120 * 640 * 8 * 8 and 4 MiB.
constexpr size_t kConnectionBytes = 524288 + 4915200 + 4 * kMiB;
/// Code of the NCCL kernels in use, and a group's own structures.
constexpr size_t kNcclModules = 64 * kMiB;
constexpr size_t kNcclGroup = 16 * kMiB;

/// Each direction counts: between machines both sides have buffers.
Overhead nccl_buffers(const NcclShape& shape) {
  const int64_t rings = shape.team > 0 ? 2 * kNcclChannels : 0;
  const int64_t peers = (shape.team > 2 ? 2 * (shape.team - 1) : 0) + shape.neighbours;
  const int64_t connections = rings + peers * kNcclPointChannels;
  const int64_t groups = (shape.team > 0 ? 1 : 0) + (shape.neighbours > 0 ? 1 : 0);
  return {"NCCL",
          static_cast<size_t>(connections) * kConnectionBytes +
              static_cast<size_t>(groups) * kNcclGroup + kNcclModules,
          fmt::format("{} connections x {:.2f} MiB, {} group{} x {} MiB, code {} MiB", connections,
                      static_cast<double>(kConnectionBytes) / kMiB, groups, groups == 1 ? "" : "s",
                      kNcclGroup / kMiB, kNcclModules / kMiB),
          Origin::estimate};
}

Overhead context(const OverheadShape& shape) {
  // The context grows with the number of processors: 527 MiB was read on an H200 with its 132.
  if (shape.compute_capability / 10 == 9 && shape.processors >= 114) {
    return {"driver context", 527 * kMiB, "one context", Origin::measured};
  }
  return {"driver context", 560 * kMiB, "one context", Origin::estimate};
}

}  // namespace

// A process's ranks are one behind the other: its stages are whole where it has a multiple of their
// ranks. Of other numbers some are whole; they count as the others.
NcclShape nccl_shape(int64_t tensor, int64_t stages, int64_t processes) {
  NcclShape shape;
  if (processes <= 1) return shape;
  if (tensor * stages / processes % tensor != 0) shape.team = tensor;
  if (stages > 1) shape.neighbours = std::min<int64_t>(stages - 1, 2);
  return shape;
}

int64_t graph_nodes(const OverheadShape& shape) {
  // norm, qkv, bias, rope and store, attention, merge, out, add+norm, up, activation, down, add and
  // the norms of sandwich layers; routers, their products and sums in place of the MLP.
  const int64_t per_layer = shape.experts ? 26 : 18;
  return shape.layers * per_layer + shape.more_nodes + 24;
}

std::vector<Overhead> device_overheads(const OverheadShape& shape) {
  std::vector<Overhead> overheads{context(shape)};
  overheads.push_back({"kernel modules", kOwnModules + kProductModules,
                       fmt::format("own code {} MiB, cuBLASLt's {} MiB", kOwnModules / kMiB,
                                   kProductModules / kMiB),
                       Origin::estimate});
  if (shape.graphs > 0) {
    const int64_t nodes = graph_nodes(shape);
    overheads.push_back(
        {"cuda graphs", static_cast<size_t>(shape.graphs * nodes) * kGraphNodeBytes,
         fmt::format("{} graphs x {} nodes x {} B", shape.graphs, nodes, kGraphNodeBytes),
         Origin::estimate});
  }
  if (shape.peers > 0) {
    overheads.push_back(
        {"peer mappings", static_cast<size_t>(shape.peers) * kPeerMapping,
         fmt::format("{} cards whose memory is read x {} MiB", shape.peers, kPeerMapping / kMiB),
         Origin::estimate});
  }
  if (shape.nccl.is_used()) overheads.push_back(nccl_buffers(shape.nccl));
  overheads.push_back(
      {"driver slack", kSlack, "rounding of allocations, kernels loaded late", Origin::estimate});
  return overheads;
}

size_t overhead_bytes(const OverheadShape& shape) {
  size_t bytes = 0;
  for (const Overhead& overhead : device_overheads(shape)) bytes += overhead.bytes;
  return bytes;
}

}  // namespace plimsoll::memory
