#include "engine/engine.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "engine/engine_copy.h"

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
  const auto copies = static_cast<size_t>(options.copies);
  for (size_t i = 0; i < copies; ++i) {
    copies_.push_back(std::make_unique<Copy>(
        spec, copy_ranks(ranks, plans, options, i, processes), tokenizer, options,
        plans[i * plans.size() / copies].layout.borrows_weights ? copies_.front().get() : nullptr));
  }
  finished_.resize(copies);
  if (copies > 1) crew_ = std::make_unique<Crew>(options.copies, [] {});
  stats_ = sum_of_stats();
}

// Copies borrow from the first.
Engine::~Engine() {
  crew_.reset();
  while (!copies_.empty()) copies_.pop_back();
}

const EnginePlan& Engine::plan() const {
  return copies_.front()->stages.first().plan;
}
size_t Engine::ranks() const {
  return copies_.size() * copies_.front()->stages.size_of_copy();
}
// Adds the request to the copy that has the fewest.
void Engine::add(Request request) {
  const auto under_way = [](const auto& copy) { return copy->requests.size(); };
  (*std::ranges::min_element(copies_, {}, under_way))->add(std::move(request));
}
int64_t Engine::waiting() const {
  int64_t waiting = 0;
  for (const auto& copy : copies_) waiting += copy->unadmitted;
  return waiting;
}
bool Engine::idle() const {
  return std::ranges::all_of(copies_, [](const auto& copy) {
    return copy->requests.empty() && copy->rejected.empty() && copy->under_way == nullptr &&
           copy->stages.idle();
  });
}
void Engine::step(std::vector<RequestOutput>& finished) {
  if (crew_) {
    crew_->run([this](int64_t index) {
      const auto copy = static_cast<size_t>(index);
      copies_[copy]->step(finished_[copy]);
    });
  } else {
    copies_.front()->step(finished_.front());
  }
  for (std::vector<RequestOutput>& outputs : finished_) {
    std::ranges::move(outputs, std::back_inserter(finished));
    outputs.clear();
  }
  stats_ = sum_of_stats();
}
EngineStats Engine::sum_of_stats() const {
  EngineStats sum = copies_.front()->stats;
  for (size_t i = 1; i < copies_.size(); ++i) sum += copies_[i]->stats;
  sum.prefill_seconds /= static_cast<double>(copies_.size());
  sum.decode_seconds /= static_cast<double>(copies_.size());
  return sum;
}
const EngineStats& Engine::stats() const {
  return stats_;
}
std::vector<MeasuredRegion> Engine::measured(size_t rank) const {
  const size_t each = copies_.front()->stages.size_of_copy();
  const Copy& copy = *copies_[rank / each];
  return copy.stages.measured(rank % each, copy.stats.kv_blocks_peak);
}
void Engine::stop_servers() {
  for (const auto& copy : copies_) copy->stages.stop(copy->stats.kv_blocks_peak);
}

}  // namespace plimsoll::engine
