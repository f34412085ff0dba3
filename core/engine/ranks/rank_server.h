// The ranks of a process without a scheduler: they execute the orders of process 0.
#pragma once

#include <memory>
#include <vector>

#include "engine/engine.h"
#include "engine/ranks/rank_threads.h"
#include "engine/ranks/stages.h"

namespace plimsoll::engine {

class RankServer {
 public:
  /// Lays out and loads the ranks as Engine's constructor does, in a process other than 0.
  RankServer(const model::ModelSpec& spec, const std::vector<Rank>& ranks,
             const EngineOptions& options, Processes& processes);

  /// Serves until process 0 stops. Throws the failures of this process, and RankLost.
  void serve();
  /// Measured regions of a rank that this process has, as Engine::measured.
  [[nodiscard]] std::vector<MeasuredRegion> measured(size_t rank) const;

 private:
  std::vector<std::unique_ptr<Stages>> replicas_;
  std::vector<int64_t> kv_blocks_;             // by replica: most in use
  std::unique_ptr<RankThreads> rank_threads_;  // a thread for each replica
};

}  // namespace plimsoll::engine
