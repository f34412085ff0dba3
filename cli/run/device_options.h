// Flags that say where to run, and what to make of a card.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/device.h"
#include "engine/engine.h"

namespace plimsoll::cli {

struct DeviceFlags {
  std::string device = "auto";  // auto, cpu, cuda
  double gpu_memory_utilization = 0.9;
  std::optional<uint64_t> gpu_memory;   // bytes, in place of the utilisation
  std::optional<DType> kv_cache_dtype;  // absent: the model's
  bool enforce_eager = false;
  std::optional<std::vector<int64_t>> capture_sizes;
  bool deterministic = false;
  std::vector<std::string> for_cards;  // flags given that mean nothing on the CPU
};

/// `flags` must outlive the parsing.
void declare_device_flags(CLI::App& command, DeviceFlags& flags);

/// Where a launch runs.
struct DeviceChoice {
  std::optional<backend::DeviceInfo> card;  // absent: the CPU
  backend::CpuOptions cpu;
};

/// The card to run on, if any: auto takes the first where there is one. Throws Error(usage).
std::optional<backend::DeviceInfo> choose_card(const DeviceFlags& flags);

/// Throws Error when it cannot be had.
std::unique_ptr<backend::Backend> make_backend(const DeviceFlags& flags,
                                               const DeviceChoice& choice);

/// What a launch has of a card.
struct CardBudget {
  uint64_t ceiling = 0;  // of the process
  uint64_t outside = 0;  // of it: beside the arena, at most
  uint64_t arena = 0;
};

/// The ceiling that the flags set, and what it leaves for the arena, beside other processes. Throws
/// Error(does_not_fit) when nothing is left.
CardBudget card_budget(const DeviceFlags& flags, const backend::DeviceMemory& memory);

/// What became of the flags.
struct DeviceSetup {
  std::vector<std::string> notes;  // to tell the user
  CardBudget budget;               // zero on the CPU
  backend::DeviceMemory at_start;
  int64_t graphs = 0;
};

/// Sets what `engine` must know of the flags; on a card, its budget.
DeviceSetup apply_device(const DeviceFlags& flags, const DeviceChoice& choice,
                         const backend::Backend& backend, const model::ModelSpec& spec,
                         engine::EngineOptions& engine);

/// After the launch, when all that will ever be taken is taken: throws Error(does_not_fit) when the
/// process has more of the card than its ceiling.
void check_ceiling(const DeviceSetup& setup, const backend::DeviceMemory& launched);

}  // namespace plimsoll::cli
