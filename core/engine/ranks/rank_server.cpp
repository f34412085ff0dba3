#include "engine/ranks/rank_server.h"

namespace plimsoll::engine {

RankServer::RankServer(const model::ModelSpec& spec, const std::vector<Rank>& ranks,
                       const EngineOptions& options, Processes& processes)
    : kv_blocks_(options.copies),
      crew_(std::make_unique<Crew>(options.copies, [&] { processes.give_up(); })) {
  const std::vector<RankPlan> plans = plan_ranks(spec, ranks, options, &processes);
  for (size_t copy = 0; copy < kv_blocks_.size(); ++copy) {
    copies_.push_back(
        std::make_unique<Stages>(copy_ranks(ranks, plans, options, copy, &processes)));
    copy == 0 ? copies_.back()->load(options.seed)
              : copies_.back()->borrow(*copies_.front(), options.seed);
    copies_.back()->finish_launch();
  }
}

void RankServer::serve() {
  crew_->run([this](int64_t copy) {
    const auto index = static_cast<size_t>(copy);
    kv_blocks_[index] = copies_[index]->serve();
  });
}

std::vector<MeasuredRegion> RankServer::measured(size_t rank) const {
  const size_t each = copies_.front()->size_of_copy(), copy = rank / each;
  return copies_[copy]->measured(rank % each, kv_blocks_[copy]);
}

}  // namespace plimsoll::engine
