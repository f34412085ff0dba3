// The launch of a model on its ranks: arenas, weights, and steps that pass through the stages.
//
//   rank 0   batch -> embed, layers 0 .. a  --hidden states-->
//   rank 1   the same batch        layers a .. b  --hidden states-->
//   last     the same batch                 layers b .., norm, head -> logits -> the reader
//
// As many steps are under way as there are stages, so that none idles: in each round a step enters
// the first stage, and every other stage runs the step that the one before it ran in the last
// round.
//
// Each stage may have several tensor-parallel ranks, numbered one after the other: they do the same
// with a share of its heads, columns and vocabulary each, and the first rank of the last stage
// reads the logits. Ranks may be spread over processes (processes.h): process 0 sends the others
// their orders (orders.h), and where it does not have the last stage the logits are sent back to
// it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/layout.h"
#include "engine/ranks/message_team.h"
#include "engine/ranks/orders.h"
#include "engine/ranks/processes.h"
#include "engine/ranks/rank_threads.h"
#include "engine/ranks/shared_team.h"
#include "engine/ranks/shared_world.h"
#include "engine/ranks/stage_layouts.h"
#include "engine/step_runner.h"
#include "engine/vision/image_holds.h"

namespace plimsoll::engine {

/// The layout and plan of a rank's memory.
struct RankPlan {
  EngineLayout layout;
  EnginePlan plan;
};

/// Lays out the ranks of a launch, replica after replica; `spec` is the whole model's. Includes
/// ranks of other processes (`processes` is null: there are none), which have no backend here.
/// Throws as resolve_stages, Error(does_not_fit) where this machine has less left than the arenas
/// of several ranks take together, and Error(usage) where processes lay out different launches.
std::vector<RankPlan> plan_ranks(const model::ModelSpec& spec, const std::vector<Rank>& ranks,
                                 const EngineOptions& options, Processes* processes = nullptr);

/// One rank's launch.
struct Stage {
  Stage(const Rank& rank_parts, const RankPlan& rank_plan);

  Rank rank;
  EngineLayout layout;
  EnginePlan plan;
  LaunchMemory memory;
  Launch launch;
  StepRunner runner;
  /// The steps in the pipeline, each in the place of the round in which it entered; null where none
  /// did.
  std::vector<const Step*> under_way;
  /// Places for the steps under way, in ranks that receive them from the first rank.
  std::vector<Step> steps;
};

/// The ranks of one replica of the model.
struct ReplicaRanks {
  std::span<const Rank> ranks;
  std::span<const RankPlan> plans;
  size_t tensor = 1;               // of each stage
  size_t first = 0;                // number of the first one among the launch's ranks
  size_t all = 1;                  // of the launch
  Processes* processes = nullptr;  // over which the ranks are spread; null: this one has all
};

/// The ranks of the replica `index`, of `replicas`.
ReplicaRanks replica_ranks(std::span<const Rank> ranks, std::span<const RankPlan> plans,
                           const EngineOptions& options, size_t index, Processes* processes);

/// The ranks of one replica of the model that this process has.
class Stages {
 public:
  /// Allocates their arenas. Throws as LaunchMemory.
  explicit Stages(const ReplicaRanks& replica);
  /// Waits for all devices, which may still write into the memory that is about to be freed, and
  /// read each other's.
  ~Stages();
  Stages(const Stages&) = delete;
  Stages& operator=(const Stages&) = delete;

  /// Loads the weights, on all ranks at once.
  void load(uint64_t seed);
  /// Uses the weights of `owner`, in another replica of the model, and loads the towers, which each
  /// replica has.
  void borrow(const Stages& owner, uint64_t seed);
  /// Warms up with everything that steps will need, so that nothing is allocated later.
  void finish_launch();
  /// Encodes images into the cache of every rank that has one. Each rank of the first stage has
  /// the whole tower; those of process 0 encode the images in turn.
  void encode(const std::vector<ImageJob>& jobs);
  /// Called with slices of the logits of a step that ends.
  using Reader = std::function<void(const engine::Step&, const LogitsSlice&)>;
  /// Called for a step whose masks are to be filled (StepRunner::run).
  using FillMasks = std::function<void(const engine::Step&)>;
  /// Runs a round, in which `entering` enters (null: no step does; it must live until it ends).
  /// `read` and `fill_masks`, as StepRunner's, are called for the step that ends, by the thread of
  /// reading().
  void run(const Step* entering, const Reader& read, const FillMasks& fill_masks);
  /// Waits for a step on all ranks, each of which may fail. Not to be called from a Reader.
  void await_step(const backend::BatchMeta& step);
  /// True when no step is in the pipeline.
  [[nodiscard]] bool idle() const;
  /// Tells the processes that serve to stop; `kv_blocks`: most in use at one time.
  void stop(int64_t kv_blocks);
  /// Executes the orders of process 0 until it stops; returns its `kv_blocks`.
  int64_t serve();

  /// Measured regions of a rank of the replica that this process has.
  [[nodiscard]] std::vector<MeasuredRegion> measured(size_t rank, int64_t kv_blocks) const;

  /// Number of ranks that this process has (size), and of the whole replica (size_of_replica).
  [[nodiscard]] size_t size() const { return stages_.size(); }
  [[nodiscard]] size_t size_of_replica() const { return static_cast<size_t>(size_of_replica_); }
  [[nodiscard]] const Stage& operator[](size_t index) const { return *stages_[index]; }
  /// The first rank; in the process that has the scheduler it reads tokens.
  [[nodiscard]] Stage& first() { return *stages_.front(); }
  [[nodiscard]] const Stage& first() const { return *stages_.front(); }
  /// The rank that chooses tokens: the first of the last stage, or first() where another process
  /// has that.
  [[nodiscard]] Stage& reading() {
    return reads_own() ? *stages_[last() - static_cast<size_t>(own_.first)] : first();
  }

 private:
  void connect();
  void warm_up();
  /// Sends one row through all stages of devices in several processes, which opens connections.
  void pass_through(size_t index);
  /// Joins a rank to the others of its stage; null: it is alone there.
  [[nodiscard]] TensorRanks* join_team(size_t index);
  /// Makes the team of the stage whose first rank is stages_[first].
  [[nodiscard]] std::unique_ptr<RankTeam> make_team(size_t first) const;
  /// Joins ranks [first, first + count) of the replica, which are devices in several processes.
  [[nodiscard]] std::unique_ptr<backend::ProcessTeam> join_processes(int64_t first, int64_t count);
  void abort() noexcept;
  /// Aborts the teams, so that nobody waits on devices any more.
  void abort_teams() noexcept;
  /// Calls job(index in stages_) on all ranks; an exception names its rank.
  void on_all(const std::function<void(size_t)>& job);
  /// Calls f(its first rank) for each process that serves and has ranks below `end`.
  void for_each_server(size_t end, const std::function<void(int64_t)>& f);
  [[nodiscard]] Communicator& world(size_t index);
  [[nodiscard]] bool shares_memory() const {
    return stages_.front()->rank.backend->footprint().shares_memory();
  }
  /// The first rank of the last stage, by its number in the replica.
  [[nodiscard]] size_t last() const {
    return static_cast<size_t>(size_of_replica_) - tensor_ranks_;
  }
  [[nodiscard]] bool reads_own() const { return own_.has(static_cast<int64_t>(last())); }
  /// Number of stages of the pipeline.
  [[nodiscard]] size_t depth() const {
    return static_cast<size_t>(size_of_replica_) / tensor_ranks_;
  }
  /// A rank's step that entered `rounds_ago` rounds ago.
  [[nodiscard]] const Step*& step_of(Stage& stage, size_t rounds_ago) const;
  /// Runs a round on this process's ranks; stages_[0] has the arrays of the step that enters.
  void run_own(const Step* entering, const Reader& read, const FillMasks& fill_masks);
  void enter(size_t index, const Step* entering);
  /// A rank's part of the round.
  void run_stage(size_t index, const Reader& read, const FillMasks& fill_masks);
  /// Throws RankLost where a process is lost, because results of devices may be invalid then.
  void require_all() const;
  /// Waits, in a process that serves, until the arrays of a slot may be written again.
  void await_slot(int64_t slot);
  void synchronize_local();
  void send_logits(const LogitsSlice& slice);
  void receive_logits(const Step& step, const Reader& read);
  /// Encodes in a rank of the first stage: its own images, and receives the others.
  void encode(size_t index, const std::vector<ImageJob>& jobs);
  void share_embeddings(size_t index, const std::vector<EmbeddingRows>& images);

  size_t tensor_ranks_, first_, all_;  // as ReplicaRanks'
  int64_t size_of_replica_;            // number of ranks, of all processes
  size_t round_ = 0;
  Processes* processes_;
  int64_t replica_;
  RankRange own_;
  std::vector<std::unique_ptr<Stage>> stages_;  // ranks of this process
  std::unique_ptr<SharedWorld> world_;          // null: there is one rank, or processes
  /// Teams of the stages, as far as this process has them; on the host only of stages that are all
  /// in this process.
  std::vector<std::unique_ptr<RankTeam>> teams_;
  /// Teams on the host of stages that are spread over processes.
  std::vector<std::unique_ptr<MessageTeam>> ends_;
  std::unique_ptr<backend::ProcessTeam> line_;  // the pipeline of devices in several processes
  std::vector<TensorRanks*> team_of_;           // by rank; null: alone in its stage
  std::unique_ptr<RankThreads> rank_threads_;   // null: there is one rank
};

}  // namespace plimsoll::engine
