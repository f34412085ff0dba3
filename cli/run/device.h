// Where to run, and what to make of a card.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/device.h"
#include "cli/engine_flags.h"
#include "engine/ranks/stage_layouts.h"

namespace plimsoll::cli {

/// Where a launch runs.
struct DeviceChoice {
  std::optional<backend::DeviceInfo> card;  // absent: the CPU
  std::string why_no_card;                  // of a machine that has one; to tell the user
  bool overlap = true;                      // of kernels on a card
  backend::CpuOptions cpu;
  std::optional<int64_t> tensor_ranks;  // of a stage that this process has; absent: all
};

/// Chooses the card to run on, if any: auto takes the first where there is one. Throws
/// Error(usage).
void choose_card(const EngineFlags& flags, DeviceChoice& choice);

/// Whether kernels on a card may start before the ones ahead have ended: unless PLIMSOLL_PDL is 0.
bool kernels_may_overlap();

/// Throws Error when it cannot be had.
std::unique_ptr<backend::Backend> make_backend(const EngineFlags& flags,
                                               const DeviceChoice& choice);

/// What a launch has of a card.
struct CardBudget {
  uint64_t ceiling = 0;  // of the process
  uint64_t outside = 0;  // of it: beside the arena, at most
  uint64_t arena = 0;
};

/// The ceiling that the flags set, and what it leaves for the arena, beside other processes. Throws
/// Error(does_not_fit) when nothing is left.
CardBudget card_budget(const EngineFlags& flags, const backend::DeviceMemory& memory);

/// What became of the flags.
struct DeviceSetup {
  std::vector<std::string> notes;  // to tell the user
  CardBudget budget;               // zero on the CPU
  backend::DeviceMemory at_start;
  int64_t graphs = 0;
};

/// Sets what `engine` must know of the device; on a card, its budget. `stages` are the spec's.
DeviceSetup apply_device(const EngineFlags& flags, const DeviceChoice& choice,
                         const backend::Backend& backend, const model::ModelSpec& spec,
                         const std::vector<engine::StageView>& stages,
                         engine::EngineOptions& engine);

/// After the launch, when all that will ever be taken is taken: throws Error(does_not_fit) when the
/// process has more of the card than its ceiling.
void check_ceiling(const DeviceSetup& setup, const backend::DeviceMemory& launched);

}  // namespace plimsoll::cli
