#include "engine/engine.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "engine/engine_replica.h"

namespace plimsoll::engine {

Engine::Engine(const model::ModelSpec& spec, const checkpoint::WeightSource& weights,
               backend::Backend& backend, const text::Tokenizer* tokenizer,
               const EngineOptions& options)
    : Engine(spec, {Rank{.spec = &spec, .backend = &backend, .weights = &weights}}, tokenizer,
             options) {}

Engine::Engine(const model::ModelSpec& spec, backend::Backend& backend,
               const text::Tokenizer* tokenizer, const EngineOptions& options)
    : Engine(spec, {Rank{.spec = &spec, .backend = &backend}}, tokenizer, options) {}

Engine::Engine(const model::ModelSpec& spec, const std::vector<Rank>& ranks,
               const text::Tokenizer* tokenizer, const EngineOptions& options,
               Processes* processes) {
  const std::vector<RankPlan> plans = plan_ranks(spec, ranks, options, processes);
  const auto replicas = static_cast<size_t>(options.replicas);
  for (size_t i = 0; i < replicas; ++i) {
    replicas_.push_back(std::make_unique<Replica>(
        spec, replica_ranks(ranks, plans, options, i, processes), tokenizer, options,
        plans[i * plans.size() / replicas].layout.borrows_weights ? replicas_.front().get()
                                                                  : nullptr));
  }
  finished_.resize(replicas);
  if (replicas > 1) rank_threads_ = std::make_unique<RankThreads>(options.replicas, [] {});
  stats_ = sum_of_stats();
}

// Replicas borrow from the first.
Engine::~Engine() {
  rank_threads_.reset();
  while (!replicas_.empty()) replicas_.pop_back();
}

const EnginePlan& Engine::plan() const {
  return replicas_.front()->stages.first().plan;
}
size_t Engine::ranks() const {
  return replicas_.size() * replicas_.front()->stages.size_of_replica();
}
// Adds the request to the replica that has the fewest.
void Engine::add(Request request) {
  const auto under_way = [](const auto& replica) { return replica->requests.size(); };
  (*std::ranges::min_element(replicas_, {}, under_way))->add(std::move(request));
}
int64_t Engine::waiting() const {
  int64_t waiting = 0;
  for (const auto& replica : replicas_) waiting += replica->unadmitted;
  return waiting;
}
bool Engine::idle() const {
  return std::ranges::all_of(replicas_, [](const auto& replica) {
    return replica->requests.empty() && replica->rejected.empty() &&
           replica->under_way == nullptr && replica->stages.idle();
  });
}
void Engine::step(std::vector<RequestOutput>& finished) {
  if (rank_threads_) {
    rank_threads_->run([this](int64_t index) {
      const auto replica = static_cast<size_t>(index);
      replicas_[replica]->step(finished_[replica]);
    });
  } else {
    replicas_.front()->step(finished_.front());
  }
  for (std::vector<RequestOutput>& outputs : finished_) {
    std::ranges::move(outputs, std::back_inserter(finished));
    outputs.clear();
  }
  stats_ = sum_of_stats();
}
EngineStats Engine::sum_of_stats() const {
  std::vector<EngineStats> stats;
  for (const auto& replica : replicas_) stats.push_back(replica->stats);
  return joined(stats);
}
const EngineStats& Engine::stats() const {
  return stats_;
}
std::vector<MeasuredRegion> Engine::measured(size_t rank) const {
  const size_t each = replicas_.front()->stages.size_of_replica();
  const Replica& replica = *replicas_[rank / each];
  return replica.stages.measured(rank % each, replica.stats.kv_blocks_peak);
}
void Engine::stop_servers() {
  for (const auto& replica : replicas_) replica->stages.stop(replica->stats.kv_blocks_peak);
}

}  // namespace plimsoll::engine
