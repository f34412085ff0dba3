// NCCL, opened at run time, so that one program runs with and without it: the few functions of
// nccl.h that are called, as a table.
#pragma once

#include <cuda_runtime.h>

#include <climits>
#include <cstddef>
#include <string>
#include <vector>

#include "backend/tensor_ranks.h"

namespace plimsoll::kernels {

/// ncclConfig_t as of 2.18. It states its own size, and newer libraries take later fields for unset
/// (parseCommConfig in NCCL's src/init.cc).
struct NcclConfig {
  static constexpr int kUnset = INT_MIN;

  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = 1;
  int cluster_size = kUnset;
  int least_blocks = kUnset;
  int most_blocks = kUnset;  // NCCL's maxCTAs: most blocks, and so channels
  const char* network = nullptr;
  int shares_split = kUnset;
};

/// NCCL's functions, whose form has not changed since 2.18. Those of type int return 0, or an error
/// for fail().
struct Nccl {
  using Comm = void*;                                     // ncclComm_t
  static constexpr int kByte = 0;                         // ncclInt8
  static constexpr int kLeast = 21800;                    // version
  static_assert(sizeof(backend::CommunicatorId) == 128);  // ncclUniqueId

  int (*unique_id)(backend::CommunicatorId*) = nullptr;
  int (*init_rank)(Comm*, int ranks, backend::CommunicatorId, int rank, NcclConfig*) = nullptr;
  /// Aborts waiting operations and the communicator, on this side alone.
  int (*abort)(Comm) = nullptr;
  const char* (*error_string)(int) = nullptr;
  const char* (*last_error)(Comm) = nullptr;
  int (*all_gather)(const void*, void*, size_t, int type, Comm, cudaStream_t) = nullptr;
  int (*broadcast)(const void*, void*, size_t, int type, int root, Comm, cudaStream_t) = nullptr;
  int (*send)(const void*, size_t, int type, int peer, Comm, cudaStream_t) = nullptr;
  int (*receive)(void*, size_t, int type, int peer, Comm, cudaStream_t) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int version = 0;  // 23203: 2.32.3

  /// Throws Error where the call failed, with NCCL's message: (device_lost), or (usage) for calls
  /// that it refuses.
  void check(int status, const char* call, Comm comm = nullptr) const;
};

/// Opens the first of `names` (files, or names for the loader) that exists. Throws Error(usage)
/// where none does, or where it is too old, with the cure.
Nccl load_nccl(const std::vector<std::string>& names);

/// NCCL by the name that the launch gives, else the system's; opened once, for the life of the
/// process. Throws as load_nccl.
const Nccl& nccl(const std::string& name);

}  // namespace plimsoll::kernels
