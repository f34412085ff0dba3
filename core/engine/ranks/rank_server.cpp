#include "engine/ranks/rank_server.h"

namespace plimsoll::engine {

RankServer::RankServer(const model::ModelSpec& spec, const std::vector<Rank>& ranks,
                       const EngineOptions& options, Processes& processes)
    : kv_blocks_(options.replicas),
      rank_threads_(std::make_unique<RankThreads>(options.replicas, [&] { processes.abort(); })) {
  const std::vector<RankPlan> plans = plan_ranks(spec, ranks, options, &processes);
  for (size_t replica = 0; replica < kv_blocks_.size(); ++replica) {
    replicas_.push_back(
        std::make_unique<Stages>(replica_ranks(ranks, plans, options, replica, &processes)));
    replica == 0 ? replicas_.back()->load(options.seed)
                 : replicas_.back()->borrow(*replicas_.front(), options.seed);
    replicas_.back()->finish_launch();
  }
}

void RankServer::serve() {
  rank_threads_->run([this](int64_t replica) {
    const auto index = static_cast<size_t>(replica);
    kv_blocks_[index] = replicas_[index]->serve();
  });
}

std::vector<MeasuredRegion> RankServer::measured(size_t rank) const {
  const size_t each = replicas_.front()->size_of_replica(), replica = rank / each;
  return replicas_[replica]->measured(rank % each, kv_blocks_[replica]);
}

}  // namespace plimsoll::engine
