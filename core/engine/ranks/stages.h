// The launch of a model on its ranks: arenas, weights, and steps that pass through the stages.
//
//   rank 0   batch -> embed, layers 0 .. a  --hidden states-->
//   rank 1   the same batch        layers a .. b  --hidden states-->
//   last     the same batch                 layers b .., norm, head -> logits -> the reader
//
// As many steps are under way as there are stages, so that none idles: in each round a step enters
// the first stage and every other runs what the one before it ran in the last round.
//
// Each stage may be of several tensor-parallel ranks, numbered one after the other: they do the
// same with a share of its heads, columns and vocabulary each, and the first of the last stage
// reads. Ranks may be spread over processes (processes.h): the first process tells the others what
// to run (orders.h), and where it does not have the last stage the logits come back to it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/layout.h"
#include "engine/ranks/crew.h"
#include "engine/ranks/message_team.h"
#include "engine/ranks/orders.h"
#include "engine/ranks/processes.h"
#include "engine/ranks/shared_team.h"
#include "engine/ranks/shared_world.h"
#include "engine/ranks/stage_layouts.h"
#include "engine/step_runner.h"
#include "engine/vision/picture_holds.h"

namespace plimsoll::engine {

/// A rank's memory, laid out.
struct RankPlan {
  EngineLayout layout;
  EnginePlan plan;
};

/// Lays out the ranks of a launch, `spec` being the whole model's, copy after copy; those of other
/// processes too (`processes` is null: there are none), which have no backend here. Throws as
/// resolve_stages, Error(does_not_fit) where this machine has not as much left as the arenas of
/// several ranks take together, and Error(usage) where processes lay out different launches.
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
  /// The steps that are in the pipeline, each in the place of the round in which it entered; null
  /// where none did.
  std::vector<const Step*> under_way;
  std::vector<Step> steps;  // likewise, of ranks that have them from the first
};

/// The ranks of one copy of the model.
struct CopyRanks {
  std::span<const Rank> ranks;
  std::span<const RankPlan> plans;
  size_t tensor = 1;               // of each stage
  size_t first = 0;                // of the launch's ranks
  size_t all = 1;                  // of the launch
  Processes* processes = nullptr;  // that have the ranks; null: this one has all
};

/// The ranks of the copy `index`, of `copies`.
CopyRanks copy_ranks(std::span<const Rank> ranks, std::span<const RankPlan> plans,
                     const EngineOptions& options, size_t index, Processes* processes);

/// Those of one copy's ranks that this process has.
class Stages {
 public:
  /// Takes their arenas. Throws as LaunchMemory.
  explicit Stages(const CopyRanks& copy);
  /// Devices may still write into the memory that is about to go, and read each other's: all are
  /// waited for.
  ~Stages();
  Stages(const Stages&) = delete;
  Stages& operator=(const Stages&) = delete;

  /// Puts the weights in place, on all ranks at once.
  void load(uint64_t seed);
  /// The same of a copy: they are those of `owner`, but for towers, which each copy has.
  void borrow(const Stages& owner, uint64_t seed);
  /// Meets all that steps will need, so that nothing is taken later.
  void finish_launch();
  /// Puts pictures' embeddings into the cache of every rank that has one. The ranks of the first
  /// stage have the whole tower each; those of the first process encode in turn.
  void encode(const std::vector<PictureJob>& jobs);
  /// Slices of the logits of a step that ends.
  using Reader = std::function<void(const engine::Step&, const LogitsSlice&)>;
  /// Runs a round, in which `entering` enters (null: none does; it must live until it ends).
  /// `read`, as StepRunner's, is called for the step that ends, by the thread of reading().
  void run(const Step* entering, const Reader& read);
  /// Waits for a step on all ranks, each of which may fail. Not from a Reader.
  void await_step(const backend::BatchMeta& step);
  /// No step is in the pipeline.
  [[nodiscard]] bool idle() const;
  /// Lets those go that serve in other processes; `kv_blocks` were in use at most.
  void stop(int64_t kv_blocks);
  /// Does what the first process says until that stops; returns its `kv_blocks`.
  int64_t serve();

  /// Of a rank of the copy that this process has.
  [[nodiscard]] std::vector<MeasuredRegion> measured(size_t rank, int64_t kv_blocks) const;

  /// Ranks that this process has, and all of the copy.
  [[nodiscard]] size_t size() const { return stages_.size(); }
  [[nodiscard]] size_t size_of_copy() const { return static_cast<size_t>(size_of_copy_); }
  [[nodiscard]] const Stage& operator[](size_t index) const { return *stages_[index]; }
  /// The first rank; in the process that has the scheduler it reads tokens.
  [[nodiscard]] Stage& first() { return *stages_.front(); }
  [[nodiscard]] const Stage& first() const { return *stages_.front(); }
  /// The one that chooses tokens: the first of the last stage, where this process has it.
  [[nodiscard]] Stage& reading() {
    return reads_own() ? *stages_[last() - static_cast<size_t>(own_.first)] : first();
  }

 private:
  void connect();
  void warm_up();
  /// One row, from each stage of devices in several processes to the next.
  void pass_through(size_t index);
  /// Of a rank with the others of its stage; null: it is alone there.
  [[nodiscard]] TensorRanks* join_team(size_t index);
  /// Of the stage whose first rank is stages_[first].
  [[nodiscard]] std::unique_ptr<RankTeam> make_team(size_t first) const;
  /// Of devices: ranks [first, first + count) of the copy, which several processes have.
  [[nodiscard]] std::unique_ptr<backend::FarTeam> meet(int64_t first, int64_t count);
  void give_up() noexcept;
  /// Nobody waits on devices any more.
  void give_up_teams() noexcept;
  /// Calls job(index in stages_) on all ranks; what one throws says which it was.
  void on_all(const std::function<void(size_t)>& job);
  /// f(its first rank) for each process that serves and has ranks below `end`.
  void for_each_server(size_t end, const std::function<void(int64_t)>& f);
  [[nodiscard]] Communicator& world(size_t index);
  [[nodiscard]] bool shares_memory() const {
    return stages_.front()->rank.backend->footprint().shares_memory();
  }
  /// The first rank of the last stage, by its number in the copy.
  [[nodiscard]] size_t last() const { return static_cast<size_t>(size_of_copy_) - tensor_ranks_; }
  [[nodiscard]] bool reads_own() const { return own_.has(static_cast<int64_t>(last())); }
  /// Of the pipeline: stages.
  [[nodiscard]] size_t depth() const { return static_cast<size_t>(size_of_copy_) / tensor_ranks_; }
  /// The step that entered so many rounds ago, as a rank has it.
  [[nodiscard]] const Step*& step_of(Stage& stage, size_t rounds_ago) const;
  /// A round on this process's ranks; stages_[0] has the arrays of the step that enters.
  void run_own(const Step* entering, const Reader& read);
  void enter(size_t index, const Step* entering);
  /// A rank's part of the round.
  void run_stage(size_t index, const Reader& read);
  /// Throws RankLost where a process is lost, and what devices made may be worth nothing.
  void require_all() const;
  /// Of a process that serves: the arrays of a slot may be written again.
  void await_slot(int64_t slot);
  void settle_own();
  void send_logits(const LogitsSlice& slice);
  void receive_logits(const Step& step, const Reader& read);
  /// A rank of the first stage: the pictures that are its own, then all.
  void encode(size_t index, const std::vector<PictureJob>& jobs);
  void share_embeddings(size_t index, const std::vector<EmbeddingRows>& pictures);

  size_t tensor_ranks_, first_, all_;  // as CopyRanks'
  int64_t size_of_copy_;               // ranks, of all processes
  size_t round_ = 0;
  Processes* processes_;
  int64_t copy_;
  RankRange own_;
  std::vector<std::unique_ptr<Stage>> stages_;  // ranks, rather
  std::unique_ptr<SharedWorld> world_;          // null: there is one rank, or processes
  /// Of each stage, as far as it is in this process; on the host of those that are all in it.
  std::vector<std::unique_ptr<RankTeam>> teams_;
  std::vector<std::unique_ptr<MessageTeam>> ends_;  // on the host: of those that are not
  std::unique_ptr<backend::FarTeam> line_;          // of devices in several processes: the pipeline
  std::vector<TensorRanks*> team_of_;               // by rank; null: it is alone in its stage
  std::unique_ptr<Crew> crew_;                      // null: there is one rank
};

}  // namespace plimsoll::engine
