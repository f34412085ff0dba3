// The ranks of a process that has no scheduler: they do what the first process says.
#pragma once

#include <memory>
#include <vector>

#include "engine/engine.h"
#include "engine/ranks/crew.h"
#include "engine/ranks/stages.h"

namespace plimsoll::engine {

class RankServer {
 public:
  /// As Engine's constructor on several ranks, in a process after the first.
  RankServer(const model::ModelSpec& spec, const std::vector<Rank>& ranks,
             const EngineOptions& options, Processes& processes);

  /// Serves until the first process stops. Throws what fails here, and RankLost.
  void serve();
  /// As Engine's, of a rank that this process has.
  [[nodiscard]] std::vector<MeasuredRegion> measured(size_t rank) const;

 private:
  std::vector<std::unique_ptr<Stages>> copies_;
  std::vector<int64_t> kv_blocks_;  // by copy: most that were in use
  std::unique_ptr<Crew> crew_;      // a thread for each copy
};

}  // namespace plimsoll::engine
