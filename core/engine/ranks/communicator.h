// What a rank says to the others of its launch. Threads of a process talk over shared memory
// (shared_world.h), processes over messages (processes/), devices of several processes by what
// their backend has (Backend::meet); all stand behind the same calls.
#pragma once

#include "backend/communicator.h"
#include "backend/tensor_ranks.h"

namespace plimsoll::engine {

using backend::Communicator;
using backend::RankLost;
using backend::RankTeam;
using backend::TensorRanks;

}  // namespace plimsoll::engine
