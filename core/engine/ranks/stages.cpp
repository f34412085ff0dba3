#include "engine/ranks/stages.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "memory/available.h"

namespace plimsoll::engine {
namespace {

/// Layouts of all ranks; ranks of one stage have equal ones.
std::vector<EngineLayout> resolve(const model::ModelSpec& spec, std::span<const Rank> ranks,
                                  const EngineOptions& options,
                                  const backend::Footprint& footprint) {
  const auto tensor = static_cast<size_t>(options.tensor_ranks);
  std::vector<StageView> views;
  for (size_t i = 0; i < ranks.size(); i += tensor) {
    views.push_back({ranks[i].spec, ranks[i].first_layer});
  }
  std::vector<EngineLayout> layouts;
  for (const EngineLayout& layout : resolve_stages(spec, views, options, footprint)) {
    layouts.insert(layouts.end(), tensor, layout);
  }
  return layouts;
}

/// Footprint of the first rank that this process has; it holds for other processes' ranks too.
const backend::Footprint& own_footprint(const std::vector<Rank>& ranks) {
  const auto here = [](const Rank& rank) { return rank.backend != nullptr; };
  return std::ranges::find_if(ranks, here)->backend->footprint();
}

/// True when a rank of a replica is on this machine.
bool same_node(const Processes* processes, int64_t rank, int64_t ranks) {
  return processes == nullptr || processes->same_node(rank / (ranks / processes->count()));
}

/// Facts of ranks' layouts that must be alike in all processes, a line each.
std::string facts_of(const std::vector<RankPlan>& plans) {
  std::string facts;
  for (size_t i = 0; i < plans.size(); ++i) {
    const EngineLayout& layout = plans[i].layout;
    facts += fmt::format(
        "longest sequence of rank {0}: {1}\nsequences of rank {0}: {2}\n"
        "tokens in a step of rank {0}: {3}\nKV blocks of rank {0}: {4}, of {5} bytes\n"
        "scratch of rank {0}: {6} bytes\n",
        i, layout.max_model_len, layout.limits.sequences, layout.limits.batched_tokens,
        layout.num_blocks, layout.kv.block_bytes, layout.scratch_bytes);
  }
  return facts;
}

void load_tower(Stage& stage, uint64_t seed) {
  if (!stage.launch.tower) return;
  if (stage.rank.weights != nullptr) {
    stage.launch.tower->load(*stage.rank.weights);
  } else {
    stage.launch.tower->fill_random(~seed);
  }
}

void load_draft(Stage& stage, uint64_t seed) {
  if (!stage.launch.draft) return;
  const checkpoint::WeightSource* weights = stage.layout.draft->model.weights;
  Model& model = stage.launch.draft->model;
  weights != nullptr ? model.load(*weights) : model.fill_random(seed);
}

}  // namespace

Stage::Stage(const Rank& rank_parts, const RankPlan& rank_plan)
    : rank(rank_parts),
      layout(rank_plan.layout),
      plan(rank_plan.plan),
      memory(plan, *rank.backend),
      launch(*rank.spec, layout, *rank.backend, memory.device(), memory.host()),
      runner(launch, layout, *rank.backend),
      under_way(layout.stages),
      steps(under_way.size()) {
  memory.check(plan);
}

std::vector<RankPlan> plan_ranks(const model::ModelSpec& spec, const std::vector<Rank>& ranks,
                                 const EngineOptions& options, Processes* processes) {
  const size_t size = ranks.size() / static_cast<size_t>(options.replicas);
  const backend::Footprint& footprint = own_footprint(ranks);
  std::vector<RankPlan> plans;
  memory::HostNeed need;
  for (size_t first = 0; first < ranks.size(); first += size) {
    const std::span replica = std::span(ranks).subspan(first, size);
    EngineOptions own = options;
    own.borrows_weights = first > 0 && footprint.shares_memory();
    std::vector<EngineLayout> layouts = resolve(spec, replica, own, footprint);
    if (processes != nullptr) {
      spread_ranks(layouts, options.tensor_ranks, processes->count(), footprint);
    }
    for (size_t i = 0; i < size; ++i) {
      const EnginePlan plan = plan_layout(*replica[i].spec, layouts[i], footprint);
      if (same_node(processes, static_cast<int64_t>(i), static_cast<int64_t>(size))) {
        need.all += footprint.shares_memory() ? plan.total_bytes : plan.host_bytes;
        if (footprint.shares_memory()) need.weights += borrowed_bytes(plan);
      }
      plans.push_back({std::move(layouts[i]), plan});
    }
  }
  memory::require(need);
  if (processes != nullptr) processes->agree(facts_of(plans));
  return plans;
}

ReplicaRanks replica_ranks(std::span<const Rank> ranks, std::span<const RankPlan> plans,
                           const EngineOptions& options, size_t index, Processes* processes) {
  const size_t size = ranks.size() / static_cast<size_t>(options.replicas);
  return {.ranks = ranks.subspan(index * size, size),
          .plans = plans.subspan(index * size, size),
          .tensor = static_cast<size_t>(options.tensor_ranks),
          .first = index * size,
          .all = ranks.size(),
          .processes = processes};
}

Stages::Stages(const ReplicaRanks& replica)
    : tensor_ranks_(replica.tensor),
      first_(replica.first),
      all_(replica.all),
      size_of_replica_(std::ssize(replica.ranks)),
      processes_(replica.processes),
      replica_(static_cast<int64_t>(replica.first / replica.ranks.size())),
      own_(local_ranks(replica.processes, size_of_replica_)) {
  for (auto i = static_cast<size_t>(own_.first); i < static_cast<size_t>(own_.end); ++i) {
    replica.ranks[i].backend->use_here();
    stages_.push_back(std::make_unique<Stage>(replica.ranks[i], replica.plans[i]));
  }
  if (size_of_replica_ > 1) connect();
}

Communicator& Stages::world(size_t index) {
  const int64_t rank = own_.first + static_cast<int64_t>(index);
  return processes_ == nullptr ? world_->rank(rank)
                               : processes_->rank(replica_, rank, size_of_replica_);
}

void Stages::connect() {
  if (processes_ == nullptr) {
    std::vector<backend::Backend*> backends;
    for (const auto& stage : stages_) backends.push_back(stage->rank.backend);
    world_ = std::make_unique<SharedWorld>(std::move(backends));
  }
  for (size_t i = 0; i < size(); ++i) team_of_.push_back(join_team(i));
  const bool far = processes_ != nullptr && !shares_memory();
  if (far && depth() > 1) line_ = join_processes(0, size_of_replica_);
  for (size_t i = 0; i < size(); ++i) {
    Communicator& neighbours = line_ ? line_->line(static_cast<int64_t>(i)) : world(i);
    stages_[i]->launch.model.join(neighbours, own_.first + static_cast<int64_t>(i), team_of_[i]);
  }
  if (far) processes_->when_lost(this, [this] { abort_teams(); });
  if (size() > 1) {
    rank_threads_ =
        std::make_unique<RankThreads>(static_cast<int64_t>(size()), [this] { abort(); });
  }
}

TensorRanks* Stages::join_team(size_t index) {
  const auto tensor = static_cast<int64_t>(tensor_ranks_);
  if (tensor == 1) return nullptr;
  const int64_t rank = own_.first + static_cast<int64_t>(index);
  const int64_t inside = rank % tensor, first = rank - inside;
  const bool whole = own_.has(first) && own_.has(first + tensor - 1);
  if (!whole && shares_memory()) {
    ends_.push_back(std::make_unique<MessageTeam>(world(index), first, inside, tensor,
                                                  stages_[index]->launch.messages));
    return ends_.back().get();
  }
  if (index == 0 || inside == 0)
    teams_.push_back(whole ? make_team(index) : join_processes(first, tensor));
  return &teams_.back()->rank(rank - std::max(first, own_.first));
}

// Makes the far team of `count` ranks from `first` on. The process that has the first rank makes
// the membership's id and sends it to the others, each by its first rank there.
std::unique_ptr<backend::ProcessTeam> Stages::join_processes(int64_t first, int64_t count) {
  const int64_t begin = std::max(first, own_.first), end = std::min(first + count, own_.end);
  std::vector<backend::Backend*> own;
  for (int64_t rank = begin; rank < end; ++rank) {
    own.push_back(stages_[rank - own_.first]->rank.backend);
  }
  backend::Membership membership{.first = begin - first, .ranks = count};
  const auto id = std::as_writable_bytes(std::span(membership.id));
  Communicator& messages = world(begin - own_.first);
  if (begin > first) {
    messages.receive(first, id);
  } else {
    membership.id = own.front()->make_communicator_id();
    for (int64_t p = processes_->process() + 1; p < processes_->count(); ++p) {
      const int64_t other = ranks_of(processes_, p, size_of_replica_).first;
      if (other < first + count) messages.send(other, id);
    }
  }
  return own.front()->join_processes(own, membership);
}

std::unique_ptr<RankTeam> Stages::make_team(size_t first) const {
  std::vector<backend::Backend*> backends;
  for (size_t i = first; i < first + tensor_ranks_; ++i) {
    backends.push_back(stages_[i]->rank.backend);
  }
  std::unique_ptr<RankTeam> team = backends.front()->make_team(backends);
  return team ? std::move(team) : std::make_unique<SharedTeam>(std::ssize(backends));
}

void Stages::abort() noexcept {
  if (world_) world_->abort();
  if (processes_ != nullptr) processes_->abort();
  abort_teams();
}

void Stages::abort_teams() noexcept {
  for (const auto& team : teams_) team->abort();
  if (line_) line_->abort();
}

void Stages::on_all(const std::function<void(size_t)>& job) {
  const auto on_rank = [&](int64_t index) {
    try {
      stages_[index]->rank.backend->use_here();
      job(index);
    } catch (const Error& error) {
      if (all_ == 1) throw;
      fail(error.code(), "rank {} of {}: {}", first_ + static_cast<size_t>(own_.first + index),
           all_, error.what());
    }
  };
  rank_threads_ ? rank_threads_->run(on_rank) : on_rank(0);
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
    load_draft(stage, seed);
  });
}

void Stages::borrow(const Stages& owner, uint64_t seed) {
  for (size_t i = 0; i < stages_.size(); ++i) {
    Stage& stage = *stages_[i];
    stage.rank.backend->start_launch(stage.launch.backend_parts);
    stage.launch.model.borrow(owner[i].launch.model);
    load_tower(stage, seed);
    if (stage.launch.draft) stage.launch.draft->model.borrow(owner[i].launch.draft->model);
  }
}

void Stages::finish_launch() {
  if (!shares_memory()) warm_up();
  on_all([&](size_t rank) { stages_[rank]->rank.backend->finish_launch(); });
}

// Runs the ops of steps once before any step, since a first use may load code, which stops a
// device. No rank waits for another meanwhile, so values do not matter yet.
void Stages::warm_up() {
  const auto on_teams = [&](void (TensorRanks::*call)()) {
    on_all([&](size_t rank) {
      if (team_of_.size() > rank && team_of_[rank] != nullptr) (team_of_[rank]->*call)();
    });
  };
  on_teams(&TensorRanks::connect_peers);
  for (const auto& team : teams_) team->suspend();
  on_all([&](size_t rank) {
    Stage& stage = *stages_[rank];
    BatchBuilder builder(stage.launch.batch, stage.layout.limits, stage.rank.backend->footprint(),
                         stage.layout.recorded_sizes);
    stage.runner.warm_up(builder);
    stage.rank.backend->synchronize();
  });
  for (const auto& team : teams_) team->resume();
  on_teams(&TensorRanks::self_test);
  if (line_) on_all([&](size_t rank) { pass_through(rank); });
}

// Connections are made with the first message.
void Stages::pass_through(size_t index) {
  Stage& stage = *stages_[index];
  const size_t number = (static_cast<size_t>(own_.first) + index) / tensor_ranks_;
  if (number + 1 < depth()) stage.launch.model.send_hidden(1);
  if (number > 0) stage.launch.model.receive(1);
  stage.rank.backend->synchronize();
}

void Stages::await_step(const backend::BatchMeta& step) {
  if (shares_memory()) return;
  on_all([&](size_t rank) { stages_[rank]->rank.backend->await_step(step); });
  require_all();
}

Stages::~Stages() {
  if (shares_memory()) return;
  if (processes_ != nullptr) processes_->forget(this);
  abort();
  for (const auto& stage : stages_) {
    try {
      stage->rank.backend->use_here();
      stage->rank.backend->synchronize();
    } catch (const std::exception&) {
      // The device is lost; the rank that saw its first error has reported it.
    }
  }
}

std::vector<MeasuredRegion> Stages::measured(size_t rank, int64_t kv_blocks) const {
  const Stage& stage = *stages_[rank - static_cast<size_t>(own_.first)];
  return measure_regions(stage.plan, stage.memory.device(), stage.launch, kv_blocks);
}

}  // namespace plimsoll::engine
