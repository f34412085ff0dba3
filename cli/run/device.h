// The device of a run, and how a launch uses a card.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/device.h"
#include "engine/ranks/processes.h"
#include "engine/ranks/stage_layouts.h"
#include "launch/request.h"
#include "launch/resolve.h"

namespace plimsoll::cli {

/// This process among a launch's processes, as far as cards are concerned.
struct CardPlace {
  int64_t processes = 1;  // of the launch, each with equally many ranks
  int64_t near = 1;       // on this machine
  int64_t index = 0;      // among the processes of this machine
};

/// The card, or the processor, on which a launch runs.
struct DeviceChoice {
  std::optional<backend::DeviceInfo> card;  // the first; absent: the CPU
  std::vector<backend::DeviceInfo> cards;   // of the ranks, all of one kind
  int64_t ranks_per_card = 1;               // Environment::ranks_per_device
  std::string why_no_card;             // why a machine with a card does not use it; for the user
  bool overlap = true;                 // kernels on a card may overlap
  std::optional<int64_t> hopper_from;  // Environment::hopper_from
  std::string nccl;
  CardPlace place;
  memory::NcclShape nccl_shape;  // of each rank on a card
  backend::CpuOptions cpu;
  std::optional<int64_t> tensor_ranks;  // of a stage, that this process has; absent: all
};

/// Chooses the cards to run on, if any: auto takes the first ones where there are any, one for each
/// rank. Throws Error(usage).
void choose_card(const launch::LaunchRequest& flags, DeviceChoice& choice);

/// Takes the cards of this process from `there`, one for each rank (or for a few). Where all
/// processes of the machine see the same cards each takes those of its place, else all that it
/// sees. Throws Error(usage) where they are too few or not of one kind: what fits on one fits on
/// all.
void take_cards(const vllm::EngineArgs& args, const std::vector<backend::DeviceInfo>& there,
                DeviceChoice& choice);

/// Whether kernels on a card may start before the kernels ahead have ended: unless PLIMSOLL_PDL is
/// 0.
bool kernels_may_overlap();

/// Makes the backend of a rank. Throws Error when it cannot be had.
std::unique_ptr<backend::Backend> make_backend(const launch::LaunchRequest& flags,
                                               const DeviceChoice& choice, int64_t rank);

/// Memory of a card that a launch may use, in bytes.
struct CardBudget {
  uint64_t ceiling = 0;  // limit of the process
  uint64_t outside = 0;  // of the limit, outside the arena at most
  uint64_t arena = 0;
};

/// The limit that the flags set for each of `ranks` on the card, and what it leaves for the arena,
/// beside other processes. Throws Error(does_not_fit) when nothing is left.
CardBudget card_budget(const launch::LaunchRequest& flags, const backend::DeviceMemory& memory,
                       int64_t ranks = 1);

/// Result of applying the device's flags.
struct DeviceSetup {
  std::vector<std::string> notes;  // for the user
  CardBudget budget;               // of each rank: the tightest card's; zero on the CPU
  backend::DeviceMemory at_start;  // of that card
  int64_t graphs = 0;
};

/// Backends of a launch's ranks, which run `stages`.
using RankBackends = std::vector<backend::Backend*>;

/// Fits a launch to the device: on cards it gets their memory budget, which is the least that any
/// of the processes has (null: there is one). With that budget it calls `settle_limits`, which may
/// be null, to set limits of a step that the flags leave open.
DeviceSetup apply_device(const launch::LaunchRequest& flags, const DeviceChoice& choice,
                         const RankBackends& backends, engine::Processes* processes,
                         const std::function<void()>& settle_limits,
                         launch::ResolvedLaunch& launch);

/// Checks a card after the launch, when everything is allocated: throws Error(does_not_fit) when
/// the process has more of it than `ranks` on it may have.
void check_ceiling(const DeviceSetup& setup, const backend::DeviceMemory& launched,
                   int64_t ranks = 1);

}  // namespace plimsoll::cli
