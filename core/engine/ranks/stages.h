// The launch of a model on its ranks: arenas, weights, and steps that pass through the stages.
//
//   rank 0   batch -> embed, layers 0 .. a  --hidden states-->
//   rank 1   the same batch        layers a .. b  --hidden states-->
//   last     the same batch                 layers b .., norm, head -> logits -> the reader
//
// Each stage may be of several tensor-parallel ranks, numbered one after the other: they do the
// same with a share of its heads, columns and vocabulary each, and the first of the last stage
// reads.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/layout.h"
#include "engine/ranks/crew.h"
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

/// Lays out the ranks of a launch, `spec` being the whole model's, copy after copy. Throws as
/// resolve_stages, and Error(does_not_fit) where the host has not as much left as the arenas of
/// several ranks take together.
std::vector<RankPlan> plan_ranks(const model::ModelSpec& spec, const std::vector<Rank>& ranks,
                                 const EngineOptions& options);

/// One rank's launch.
struct Stage {
  Stage(const Rank& rank_parts, const RankPlan& rank_plan);

  Rank rank;
  EngineLayout layout;
  EnginePlan plan;
  LaunchMemory memory;
  Launch launch;
  StepRunner runner;
  Step step;  // of ranks after the first: the step that runs
};

/// The ranks of one copy of the model.
struct CopyRanks {
  std::span<const Rank> ranks;
  std::span<const RankPlan> plans;
  size_t tensor = 1;  // of each stage
  size_t first = 0;   // of the launch's ranks
  size_t all = 1;     // of the launch
};

class Stages {
 public:
  /// Takes the arenas of one copy's ranks. Throws as LaunchMemory.
  explicit Stages(const CopyRanks& copy);

  /// Puts the weights in place, on all ranks at once.
  void load(uint64_t seed);
  /// The same of a copy: they are those of `owner`, but for towers, which each copy has.
  void borrow(const Stages& owner, uint64_t seed);
  /// Puts pictures' embeddings into the cache of every rank that has one. The ranks of the first
  /// stage have the whole tower each, and encode in turn.
  void encode(const std::vector<PictureJob>& jobs);
  /// As StepRunner::run; `read` is called by the thread of last(), while the others wait.
  void run(const Step& step, const StepRunner::Reader& read);

  [[nodiscard]] size_t size() const { return stages_.size(); }
  [[nodiscard]] const Stage& operator[](size_t index) const { return *stages_[index]; }
  /// That reads tokens, and that makes logits of them.
  [[nodiscard]] Stage& first() { return *stages_.front(); }
  [[nodiscard]] const Stage& first() const { return *stages_.front(); }
  [[nodiscard]] Stage& last() { return *stages_[stages_.size() - tensor_ranks_]; }

 private:
  void connect();
  void give_up() noexcept;
  /// Calls job(index in stages_) on all ranks; what one throws says which it was.
  void on_all(const std::function<void(size_t)>& job);
  /// A rank of the first stage, by its number there: the pictures that are its own, then all.
  void encode(size_t rank, const std::vector<PictureJob>& jobs);

  size_t tensor_ranks_, first_, all_;               // as CopyRanks'
  std::vector<std::unique_ptr<Stage>> stages_;      // ranks, rather
  std::unique_ptr<SharedWorld> world_;              // null, as the crew: there is one rank
  std::vector<std::unique_ptr<SharedTeam>> teams_;  // of each stage; none: a rank is alone in it
  std::unique_ptr<Crew> crew_;
};

}  // namespace plimsoll::engine
