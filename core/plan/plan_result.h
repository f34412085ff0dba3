// The result of a plan, as it is printed in every format.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engines/answer.h"
#include "vllm/engine_args.h"
#include "vllm/figures.h"
#include "vllm/kv/kv_plan.h"

namespace plimsoll::engine {
struct ScheduleShape;
}

namespace plimsoll::plan {

using vllm::Edges;
using vllm::EngineArgs;
using vllm::GroupNeed;
using vllm::KvKind;
using vllm::KvKindCount;
using vllm::MachineFact;
using vllm::PlanPart;
using vllm::StageFigures;
using vllm::VllmVersion;

namespace own {
class ImageRoom;
}

/// One change that makes a launch fit, or that people try in vain.
struct Suggestion {
  std::string change;  // in words
  std::string flag;    // to paste
  int64_t saves = 0;   // bytes per GPU; negative: it takes more
  std::string cost;    // in speed or output
  bool fits = false;   // the launch fits with it
  bool helps = true;   // false: tried by many, does nothing here
  int64_t measures = 1;
  bool leads = false;  // what it changes is what binds
  /// Requests of `length` tokens at once, and the longest request, without and with the change; the
  /// longest request counts while the launch does not fit.
  double requests_before = 0, requests = 0;
  int64_t length = 0;
  int64_t longest_before = 0, longest = 0;
};

/// What a run counts, with answers as long as may be.
struct ScheduleFigures {
  int64_t cached_tokens = 0;  // of prompts, from the prefix cache
  int64_t steps = 0;
  int64_t kv_blocks_peak = 0;
};

/// The order in which a prompt file would be answered.
struct OrderFigures {
  std::string asked, used;
  std::string reason;
  ScheduleFigures in_file_order, in_prefix_order;
};

/// Demands of a prompt file on a launch; tokens unless named otherwise.
struct PromptFigures {
  std::string file;
  int64_t lines = 0;  // not blank
  int64_t chats = 0;
  int64_t bad_lines = 0;
  int64_t first_bad_line = 0;
  std::string first_bad_reason;
  int64_t duplicate_ids = 0;
  int64_t cut_lines = 0;  // lines whose prompt is cut, by dropped_tokens in all
  int64_t dropped_tokens = 0;
  int64_t split_lines = 0;   // lines whose prompt is split into several
  int64_t over_context = 0;  // lines whose prompt leaves no room for an answer
  int64_t first_over_context = 0;
  int64_t longest_over_context = 0;
  int64_t open_ended = 0;  // lines that state no max_tokens: the rest of the context is counted
  int64_t sequences = 0;
  int64_t prompt_tokens = 0;
  int64_t shared_tokens = 0;  // of prompts, in whole blocks that stood before in the file
  bool sharing_cut_off = false;
  std::optional<OrderFigures> order;  // absent: the schedule is not known
  int64_t answer_tokens = 0;          // at most
  int64_t shortest = 0, median = 0, ninth_decile = 0, longest = 0;  // prompts
  int64_t longest_bytes = 0;  // of KV cache, for the sequence that needs most
  int64_t peak_blocks = 0;    // for as many sequences as may run at once, those that need most
  int64_t peak_bytes = 0;
  double concurrency = 0;  // sequences at once on average; 0: no pool to share
  double tokens_per_second = 0;
  double hours = 0;  // at most, at that rate
};

/// What the KV cache comes to, for one budget.
struct CacheFigures {
  int64_t kv_cache_bytes = 0;
  int64_t num_gpu_blocks = 0;
  int64_t kv_tokens = 0;
  double max_concurrency = 0;
  int64_t longest = 0;  // tokens of the longest request that it holds
  bool fits = false;    // one request of the longest length, or with auto any
  std::string reason;   // of a refusal, in vLLM's words
};

/// The first boot of a launch, whose compile cache is empty.
struct ColdBoot {
  int64_t activation_peak_bytes = 0;
  CacheFigures cache;
  Edges kv_cache;  // bytes
};

/// A plan. The figures beside the arguments are those of the tightest stage.
struct PlanResult : StageFigures {
  std::string engine;
  std::string version;     // of vLLM
  std::string planned_as;  // the newest release that is known, where `version` is newer
  std::string model;
  std::string architecture;
  std::string dtype;
  bool quantized = false;  // by the checkpoint, or while loading
  std::string gpu;         // empty: none was given
  int64_t gpus = 1;
  std::optional<bool> fits;  // absent without a card
  bool refused = false;      // with a card: refused by the release, whatever the memory
  int64_t host_needed = 0, host_left = 0;  // bytes of this machine's memory, without a card
  std::string reason;
  int64_t total_bytes = 0;
  int64_t budget_bytes = 0;
  int64_t kv_bytes_per_token = 0;
  int64_t block_size = 0;
  int64_t kv_tokens = 0;
  double max_concurrency = 0;
  int64_t max_model_len = 0;
  int64_t estimated_max_model_len = 0;
  int64_t auto_max_model_len = 0;  // 0: one request of max_model_len fits
  /// The context of the launch: with --max-model-len auto the longest that fits.
  [[nodiscard]] int64_t launched_model_len() const {
    return fits.value_or(false) && auto_max_model_len > 0 ? auto_max_model_len : max_model_len;
  }
  std::optional<bool> prefix_caching;  // vLLM's plan says whether prefixes are cached
  bool first_engine = false;           // vLLM runs its first engine (V0)
  int64_t max_num_seqs = 0;
  int64_t max_num_batched_tokens = 0;
  double gpu_memory_utilization = 0;
  int64_t cuda_graphs = 0;
  /// Bounds of estimated figures: the KV cache's bytes, blocks and tokens; absent: all is exact.
  struct CacheBounds {
    CacheFigures low, middle, high;
  };
  std::optional<CacheBounds> bounds;
  vllm::Assume assume = vllm::Assume::middle;  // the edge that the figures are of
  bool may_fit = false;                        // at the middle, not at the worst edge
  std::optional<ColdBoot> cold;                // of releases that compile
  std::vector<MachineFact> machine;            // taken for granted of it
  std::vector<PlanPart> host;                  // memory of the host that vLLM takes
  int64_t host_processes = 0;                  // that have memory of their own beside it
  int64_t image_tokens = 0;  // of the largest image; 0: none is taken, or it is not known
  bool has_kv = false;
  std::vector<KvKindCount> kv_kinds;
  std::vector<int64_t> group_sizes;
  int64_t bytes_per_block = 0;
  std::vector<GroupNeed> group_needs;
  /// Attention window of each of vLLM's KV groups, 0 for full attention; empty: prefix caching is
  /// off, or not forecast.
  std::vector<int64_t> shared_windows;
  /// The schedule of our own engine's launch; null: of another engine, or no sequence fits.
  std::shared_ptr<const engine::ScheduleShape> schedule;
  /// The images that the launch refuses; null: not asked for, or it takes none at all.
  std::shared_ptr<own::ImageRoom> image_room;
  std::optional<PromptFigures> prompts;
  std::vector<StageFigures> stages;  // of a pipeline; empty without one
  /// Arguments of the engine, resolved, by flag.
  std::vector<std::pair<std::string, std::string>> arguments;
  std::vector<Suggestion> advice;
  /// What an engine other than vLLM and ours says; null: of the other two.
  std::shared_ptr<const engines::Answer> other_engine;
  std::string solved;              // what the solver found, with the constraint that binds
  std::vector<std::string> notes;  // assumptions, estimates, what is not modelled
};

}  // namespace plimsoll::plan
