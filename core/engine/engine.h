// The engine: requests in, finished outputs out, one step at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/checkpoint.h"
#include "engine/admission.h"
#include "engine/request.h"
#include "engine/speculation/draft_model.h"
#include "engine/speculation/ngram_options.h"
#include "memory/arena.h"
#include "model/model_spec.h"
#include "text/tokenizer.h"

namespace plimsoll::engine {

/// The whole model of which a spec is a pipeline stage.
struct StageOf {
  const model::ModelSpec* model = nullptr;
  int64_t first_layer = 0;  // of the stage
  int64_t stages = 1;       // of the model
};

struct EngineOptions {
  DType dtype = DType::bf16;      // run dtype of weights, resolved from --dtype
  std::optional<DType> kv_dtype;  // of the KV cache; absent: `dtype`
  /// 0: the model's own, cut to what the KV pool holds only with `auto_model_len`.
  int64_t max_model_len = 0;
  bool auto_model_len = false;
  int64_t max_num_seqs = 0;            // 0: default
  int64_t max_num_batched_tokens = 0;  // 0: default
  int64_t block_size = 16;
  uint64_t kv_cache_bytes = uint64_t{4} << 30;  // ceiling of the KV pool (CPU)
  /// Overrides kv_cache_bytes (tests, --num-gpu-blocks-override).
  std::optional<int64_t> num_kv_blocks;
  std::optional<uint64_t> kv_cache_memory;  // bytes of the KV pool, in place of what is left
  /// Limit of all memory that the launch has on the device, in place of kv_cache_bytes: what is
  /// left of it goes to KV blocks.
  std::optional<uint64_t> memory_budget;
  /// Sizes of decode steps that are recorded, where the device can; absent: about 40 up to
  /// max_num_seqs, none when empty.
  std::optional<std::vector<int64_t>> capture_sizes;
  int64_t largest_recorded = 0;  // sequences of the largest; 0: max_num_seqs
  bool prefix_caching = true;
  Admission admission = Admission::forecast;
  int64_t head_start = 0;  // SchedulerLimits::head_start
  int64_t threads = 1;  // threads that choose tokens at once, each with working memory of its own
  uint64_t seed = 0;
  NgramOptions ngram;               // speculation by prompt lookup; none by default
  std::optional<DraftModel> draft;  // speculation by a draft model; none by default
  /// Whether texts that a grammar forces are computed several tokens a step, where the engine can
  /// speculate.
  bool jump_ahead = true;
  std::vector<TokenId> eos_token_ids;
  std::optional<ImageOptions> images;  // absent: none are answered, and no tower is loaded
  int64_t replicas = 1;                // of the model, each with requests and KV blocks of its own
  int64_t tensor_ranks = 1;            // ranks of each stage, which share its heads and columns
  std::optional<StageOf> stage;        // set where the stages of a pipeline are laid out
  bool borrows_weights = false;        // for a replica that uses the weights of the first one
};

/// One rank of a launch: a pipeline stage, or the whole model, or a tensor-parallel share of it.
struct Rank {
  const model::ModelSpec* spec = nullptr;  // shard::StageModel's, or the model's
  int64_t first_layer = 0;
  backend::Backend* backend = nullptr;
  const checkpoint::WeightSource* weights = nullptr;  // null: random ones, which need no checkpoint
};

/// Figures for progress and report; counts since the start. With several replicas, peaks are the
/// sums of each replica's, and times the means.
struct EngineStats {
  uint64_t steps = 0;
  uint64_t prompt_tokens = 0;         // computed in prefill, recomputation included
  uint64_t cached_prompt_tokens = 0;  // taken from the prefix cache
  uint64_t generated_tokens = 0;
  uint64_t drafted_tokens = 0;      // proposed by speculation, and computed
  uint64_t kept_tokens = 0;         // of these, equal to the token drawn for their place
  uint64_t forced_tokens = 0;       // proposed because a grammar forces them, and computed
  uint64_t kept_forced_tokens = 0;  // of these, equal to the token drawn for their place
  uint64_t preemptions = 0;
  uint64_t encoded_images = 0;  // each once as long as it is kept
  uint64_t prefix_queries_tokens = 0;
  int64_t running = 0;
  int64_t waiting = 0;
  double under_way = 0;  // Scheduler::under_way
  int64_t peak_running = 0;
  int64_t kv_blocks = 0;
  int64_t kv_blocks_used = 0;
  int64_t kv_blocks_peak = 0;
  double prefill_seconds = 0;  // steps that hold any prefill row
  double decode_seconds = 0;   // steps of decode rows alone
  double encode_seconds = 0;   // of both, in the vision tower

  EngineStats& operator+=(const EngineStats& other);
};

/// Figures of a launch with these replicas, at least one.
EngineStats joined(const std::vector<EngineStats>& replicas);

/// The layout of a launch: the regions of its ledger, and its resolved limits.
struct EnginePlan {
  /// "weights", "kv blocks", "step scratch", "logits", "batch metadata", ...
  std::vector<memory::Region> regions;
  size_t total_bytes = 0;
  /// Regions of the host's memory that the device copies from; empty where memory is shared.
  std::vector<memory::Region> host_regions;
  size_t host_bytes = 0;
  int64_t max_model_len = 0;
  int64_t max_num_seqs = 0;
  int64_t max_num_batched_tokens = 0;
  int64_t num_kv_blocks = 0;
  size_t kv_block_bytes = 0;
  DType kv_dtype = DType::bf16;
  std::vector<int64_t> recorded_sizes;  // decode steps that are recorded (CUDA graphs), ascending
};

/// A region of the launch, planned and measured.
struct MeasuredRegion {
  std::string name;
  size_t planned_bytes = 0;
  size_t placed_bytes = 0;           // bytes that the launch took
  std::optional<size_t> used_bytes;  // most bytes in use at one time; absent: all of it, always
};

/// Plans a launch: runs the engine's own constructors and its largest step against a counting
/// arena; nothing is allocated. Throws Error(does_not_fit) when not even one sequence of
/// max_model_len fits the KV ceiling, and says what would.
EnginePlan plan_engine(const model::ModelSpec& spec, const EngineOptions& options,
                       const backend::Footprint& footprint);

class RankThreads;
class Processes;

class Engine {
 public:
  /// Allocates one arena of plan_engine().total_bytes, loads the weights, and is ready. `tokenizer`
  /// may be null (ids only) and must outlive the engine, as must `spec`, `weights` (until the
  /// constructor returns) and `backend`.
  Engine(const model::ModelSpec& spec, const checkpoint::WeightSource& weights,
         backend::Backend& backend, const text::Tokenizer* tokenizer, const EngineOptions& options);
  /// Makes an engine with random weights, which need no checkpoint.
  Engine(const model::ModelSpec& spec, backend::Backend& backend, const text::Tokenizer* tokenizer,
         const EngineOptions& options);
  /// Makes an engine on several ranks, which are the stages of `spec` in order, `tensor_ranks` of
  /// each, one replica after the other; each is a thread with an arena of its own. Replicas use the
  /// weights of the first one, where it has them. A failure in one rank ends all, and is thrown
  /// where it is noticed. With `processes` this is process 0; ranks that have no backend here are
  /// in other processes, which serve it (RankServer).
  Engine(const model::ModelSpec& spec, const std::vector<Rank>& ranks,
         const text::Tokenizer* tokenizer, const EngineOptions& options,
         Processes* processes = nullptr);
  ~Engine();

  /// Plan of the first rank; its limits and number of blocks hold for each replica.
  [[nodiscard]] const EnginePlan& plan() const;
  /// Number of ranks in all processes.
  [[nodiscard]] size_t ranks() const;
  /// Queues a request. A request that can never run (prompt over max_model_len, max_tokens 0 ...)
  /// comes back failed from step().
  void add(Request request);
  /// Requests not yet admitted, of all replicas; the caller keeps this small (it bounds memory).
  [[nodiscard]] int64_t waiting() const;
  [[nodiscard]] bool idle() const;
  /// Schedules and starts one step of each replica; appends what finished. Where the device runs
  /// ahead (Footprint::ahead), requests that finished in the previous step; in a pipeline those of
  /// the step that ends, and none may start.
  void step(std::vector<RequestOutput>& finished);
  [[nodiscard]] const EngineStats& stats() const;
  /// The arena's regions as planned and as placed, in order, and their use by the steps so far, for
  /// a rank that this process has.
  [[nodiscard]] std::vector<MeasuredRegion> measured(size_t rank = 0) const;
  /// Tells the other processes to stop: no step comes after this.
  void stop_servers();

 private:
  struct Replica;
  [[nodiscard]] EngineStats sum_of_stats() const;

  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<std::vector<RequestOutput>> finished_;  // by replica, for the step that runs
  std::unique_ptr<RankThreads> rank_threads_;  // a thread for each replica; null: there is one
  EngineStats stats_;                          // of all replicas together
};

}  // namespace plimsoll::engine
