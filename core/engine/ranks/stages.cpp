#include "engine/ranks/stages.h"

#include <utility>

#include "base/error.h"
#include "memory/available.h"

namespace plimsoll::engine {
namespace {

std::vector<EngineLayout> resolve(const model::ModelSpec& spec, const std::vector<Rank>& ranks,
                                  const EngineOptions& options) {
  std::vector<StageView> views;
  for (const Rank& rank : ranks) views.push_back({rank.spec, rank.first_layer});
  return resolve_stages(spec, views, options, ranks.front().backend->footprint());
}

}  // namespace

Stage::Stage(const Rank& rank_parts, const EngineLayout& rank_layout, EnginePlan rank_plan)
    : rank(rank_parts),
      layout(rank_layout),
      plan(std::move(rank_plan)),
      memory(plan, *rank.backend),
      launch(*rank.spec, layout, *rank.backend, memory.device(), memory.host()),
      runner(launch, layout, *rank.backend) {
  memory.check(plan);
}

Stages::Stages(const model::ModelSpec& spec, const std::vector<Rank>& ranks,
               const EngineOptions& options) {
  const std::vector<EngineLayout> layouts = resolve(spec, ranks, options);
  std::vector<EnginePlan> plans;
  size_t on_host = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const backend::Footprint& footprint = ranks[i].backend->footprint();
    plans.push_back(plan_layout(*ranks[i].spec, layouts[i], footprint));
    on_host += footprint.shares_memory() ? plans.back().total_bytes : plans.back().host_bytes;
  }
  // Pages are the system's until they are touched: each arena by itself would find room.
  if (ranks.size() > 1) memory::require_for_ranks(on_host);
  for (size_t i = 0; i < ranks.size(); ++i) {
    stages_.push_back(std::make_unique<Stage>(ranks[i], layouts[i], std::move(plans[i])));
  }
  if (ranks.size() > 1) connect();
}

void Stages::connect() {
  const auto count = static_cast<int64_t>(size());
  world_ = std::make_unique<SharedWorld>(count);
  for (int64_t i = 0; i < count; ++i) {
    stages_[static_cast<size_t>(i)]->launch.model.join(world_->rank(i), i);
  }
  crew_ = std::make_unique<Crew>(count, [this] { world_->give_up(); });
}

void Stages::on_all(const std::function<void(Stage&)>& job) {
  if (!crew_) return job(first());
  crew_->run([&](int64_t rank) {
    try {
      job(*stages_[static_cast<size_t>(rank)]);
    } catch (const Error& error) {
      fail(error.code(), "rank {} of {}: {}", rank, size(), error.what());
    }
  });
}

void Stages::load(uint64_t seed) {
  on_all([&](Stage& stage) {
    stage.rank.backend->start_launch(stage.launch.backend_parts);
    if (stage.rank.weights != nullptr) {
      stage.launch.model.load(*stage.rank.weights);
      if (stage.launch.tower) stage.launch.tower->load(*stage.rank.weights);
    } else {
      stage.launch.model.fill_random(seed);
      if (stage.launch.tower) stage.launch.tower->fill_random(~seed);
    }
  });
}

void Stages::run(const Step& step, const StepRunner::Reader& read) {
  on_all([&](Stage& stage) {
    if (&stage == &first()) return stage.runner.run(step, read);
    stage.step.meta = stage.launch.batch.copy(step.meta);
    if (&stage == &last()) stage.step.read = step.read;
    stage.runner.run(stage.step, read);
  });
}

}  // namespace plimsoll::engine
