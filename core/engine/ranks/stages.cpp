#include "engine/ranks/stages.h"

#include "base/error.h"
#include "memory/available.h"

namespace plimsoll::engine {
namespace {

/// Of each rank; those of a stage are alike.
std::vector<EngineLayout> resolve(const model::ModelSpec& spec, std::span<const Rank> ranks,
                                  const EngineOptions& options) {
  const auto tensor = static_cast<size_t>(options.tensor_ranks);
  std::vector<StageView> views;
  for (size_t i = 0; i < ranks.size(); i += tensor) {
    views.push_back({ranks[i].spec, ranks[i].first_layer});
  }
  std::vector<EngineLayout> layouts;
  for (const EngineLayout& layout :
       resolve_stages(spec, views, options, ranks.front().backend->footprint())) {
    layouts.insert(layouts.end(), tensor, layout);
  }
  return layouts;
}

void load_tower(Stage& stage, uint64_t seed) {
  if (!stage.launch.tower) return;
  if (stage.rank.weights != nullptr) {
    stage.launch.tower->load(*stage.rank.weights);
  } else {
    stage.launch.tower->fill_random(~seed);
  }
}

}  // namespace

Stage::Stage(const Rank& rank_parts, const RankPlan& rank_plan)
    : rank(rank_parts),
      layout(rank_plan.layout),
      plan(rank_plan.plan),
      memory(plan, *rank.backend),
      launch(*rank.spec, layout, *rank.backend, memory.device(), memory.host()),
      runner(launch, layout, *rank.backend) {
  memory.check(plan);
}

std::vector<RankPlan> plan_ranks(const model::ModelSpec& spec, const std::vector<Rank>& ranks,
                                 const EngineOptions& options) {
  const size_t size = ranks.size() / static_cast<size_t>(options.copies);
  std::vector<RankPlan> plans;
  size_t bytes = 0;
  for (size_t first = 0; first < ranks.size(); first += size) {
    const std::span copy = std::span(ranks).subspan(first, size);
    EngineOptions own = options;
    own.borrows_weights = first > 0;
    std::vector<EngineLayout> layouts = resolve(spec, copy, own);
    for (size_t i = 0; i < size; ++i) {
      const backend::Footprint& footprint = copy[i].backend->footprint();
      const EnginePlan plan = plan_layout(*copy[i].spec, layouts[i], footprint);
      bytes += footprint.shares_memory() ? plan.total_bytes : plan.host_bytes;
      plans.push_back({std::move(layouts[i]), plan});
    }
  }
  if (ranks.size() > 1) memory::require_for_ranks(bytes);
  return plans;
}

Stages::Stages(const CopyRanks& copy)
    : tensor_ranks_(copy.tensor), first_(copy.first), all_(copy.all) {
  for (size_t i = 0; i < copy.ranks.size(); ++i) {
    stages_.push_back(std::make_unique<Stage>(copy.ranks[i], copy.plans[i]));
  }
  if (size() > 1) connect();
}

void Stages::connect() {
  const auto count = static_cast<int64_t>(size());
  world_ = std::make_unique<SharedWorld>(count);
  const auto tensor = static_cast<int64_t>(tensor_ranks_);
  for (int64_t i = 0; i < count; ++i) {
    if (tensor > 1 && i % tensor == 0) teams_.push_back(std::make_unique<SharedTeam>(tensor));
    TensorRanks* const team = tensor > 1 ? &teams_.back()->rank(i % tensor) : nullptr;
    stages_[static_cast<size_t>(i)]->launch.model.join(world_->rank(i), i, team);
  }
  crew_ = std::make_unique<Crew>(count, [this] { give_up(); });
}

void Stages::give_up() noexcept {
  world_->give_up();
  for (const auto& team : teams_) team->give_up();
}

void Stages::on_all(const std::function<void(size_t)>& job) {
  const auto on_rank = [&](int64_t index) {
    try {
      job(static_cast<size_t>(index));
    } catch (const Error& error) {
      if (all_ == 1) throw;
      fail(error.code(), "rank {} of {}: {}", first_ + static_cast<size_t>(index), all_,
           error.what());
    }
  };
  crew_ ? crew_->run(on_rank) : on_rank(0);
}

void Stages::load(uint64_t seed) {
  on_all([&](size_t rank) {
    Stage& stage = *stages_[rank];
    stage.rank.backend->start_launch(stage.launch.backend_parts);
    if (stage.rank.weights != nullptr) {
      stage.launch.model.load(*stage.rank.weights);
    } else {
      stage.launch.model.fill_random(seed);
    }
    load_tower(stage, seed);
  });
}

void Stages::borrow(const Stages& owner, uint64_t seed) {
  for (size_t i = 0; i < stages_.size(); ++i) {
    Stage& stage = *stages_[i];
    stage.rank.backend->start_launch(stage.launch.backend_parts);
    stage.launch.model.borrow(owner[i].launch.model);
    load_tower(stage, seed);
  }
}

void Stages::encode(const std::vector<PictureJob>& jobs) {
  on_all([&](size_t rank) {
    if (rank < tensor_ranks_) encode(rank, jobs);
  });
}

void Stages::encode(size_t rank, const std::vector<PictureJob>& jobs) {
  Launch& launch = stages_[rank]->launch;
  const auto rows_of = [&](const PictureJob& job) {
    return launch.embeddings.slice_rows(job.first_row, job.picture->tokens());
  };
  for (size_t i = rank; i < jobs.size(); i += tensor_ranks_) {
    launch.tower->encode(*jobs[i].picture->pixels, rows_of(jobs[i]));
  }
  if (tensor_ranks_ == 1) return;
  TensorRanks& team = teams_.front()->rank(static_cast<int64_t>(rank));
  for (size_t i = 0; i < jobs.size(); ++i) {
    const backend::View rows = rows_of(jobs[i]);
    team.share_rows(
        rows, std::vector(static_cast<size_t>(rows.rows), static_cast<int32_t>(i % tensor_ranks_)));
  }
}

void Stages::run(const Step& step, const StepRunner::Reader& read) {
  on_all([&](size_t rank) {
    Stage& stage = *stages_[rank];
    if (rank == 0) return stage.runner.run(step, read);
    stage.step.meta = stage.launch.batch.copy(step.meta);
    stage.step.meta.embeddings = stage.launch.embeddings;
    if (stage.launch.model.has_head()) stage.step.read = step.read;
    stage.runner.run(
        stage.step, &stage == &last() ? read : [](const LogitsSlice&) {});
  });
}

}  // namespace plimsoll::engine
