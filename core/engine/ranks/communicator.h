// Collective and point-to-point operations between the ranks of a launch. Threads of a process use
// shared memory (shared_world.h), processes use messages (processes/), devices of several processes
// use their backend's means (Backend::meet); all implement the same calls.
#pragma once

#include "backend/communicator.h"
#include "backend/tensor_ranks.h"

namespace plimsoll::engine {

using backend::Communicator;
using backend::RankLost;
using backend::RankTeam;
using backend::TensorRanks;

}  // namespace plimsoll::engine
