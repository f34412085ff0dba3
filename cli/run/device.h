// Where to run, and what to make of a card.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/device.h"
#include "engine/ranks/processes.h"
#include "engine/ranks/stage_layouts.h"
#include "launch/request.h"

namespace plimsoll::cli {

/// Which of a launch's processes this is, as far as cards go.
struct CardPlace {
  int64_t processes = 1;  // of the launch, each with as many ranks
  int64_t near = 1;       // on this machine
  int64_t index = 0;      // of them
};

/// Where a launch runs.
struct DeviceChoice {
  std::optional<backend::DeviceInfo> card;  // the first; absent: the CPU
  std::vector<backend::DeviceInfo> cards;   // that ranks have, alike
  int64_t ranks_per_card = 1;               // Environment::ranks_per_device
  std::string why_no_card;                  // of a machine that has one; to tell the user
  bool overlap = true;                      // of kernels on a card
  std::optional<int64_t> hopper_from;       // Environment::hopper_from, as the next
  std::string nccl;
  CardPlace place;
  memory::NcclShape nccl_shape;  // of each rank on a card
  backend::CpuOptions cpu;
  std::optional<int64_t> tensor_ranks;  // of a stage that this process has; absent: all
};

/// Chooses the cards to run on, if any: auto takes the first ones where there are any, one for each
/// rank. Throws Error(usage).
void choose_card(const launch::LaunchRequest& flags, DeviceChoice& choice);

/// Of `there`, one for each rank of this process, or for a few: those of its place where all
/// processes of the machine see the same, else all that it sees. Throws Error(usage) where these
/// are too few or not of one kind: what one has room for all have.
void take_cards(const vllm::EngineArgs& args, const std::vector<backend::DeviceInfo>& there,
                DeviceChoice& choice);

/// Whether kernels on a card may start before the ones ahead have ended: unless PLIMSOLL_PDL is 0.
bool kernels_may_overlap();

/// Of a rank. Throws Error when it cannot be had.
std::unique_ptr<backend::Backend> make_backend(const launch::LaunchRequest& flags,
                                               const DeviceChoice& choice, int64_t rank);

/// What a launch has of a card.
struct CardBudget {
  uint64_t ceiling = 0;  // of the process
  uint64_t outside = 0;  // of it: beside the arena, at most
  uint64_t arena = 0;
};

/// The ceiling that the flags set, of each of `ranks` on the card, and what it leaves for the
/// arena, beside other processes. Throws Error(does_not_fit) when nothing is left.
CardBudget card_budget(const launch::LaunchRequest& flags, const backend::DeviceMemory& memory,
                       int64_t ranks = 1);

/// What became of the flags.
struct DeviceSetup {
  std::vector<std::string> notes;  // to tell the user
  CardBudget budget;               // of each rank: the tightest card's; zero on the CPU
  backend::DeviceMemory at_start;  // of that card
  int64_t graphs = 0;
};

/// Backends of a launch's ranks, which run what `stages` are.
using RankBackends = std::vector<backend::Backend*>;

/// Sets what `engine` must know of the device; on cards, the budget, which is the least that any of
/// the processes has (null: there is one). `stages` are the spec's.
DeviceSetup apply_device(const launch::LaunchRequest& flags, const DeviceChoice& choice,
                         const RankBackends& backends, const model::ModelSpec& spec,
                         const std::vector<engine::StageView>& stages, engine::Processes* processes,
                         engine::EngineOptions& engine);

/// After the launch, when all that will ever be taken is taken: throws Error(does_not_fit) when the
/// process has more of a card than `ranks` on it may have.
void check_ceiling(const DeviceSetup& setup, const backend::DeviceMemory& launched,
                   int64_t ranks = 1);

}  // namespace plimsoll::cli
