#include "vllm/launch/graphs.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/amount.h"
#include "base/error.h"
#include "hardware/capability.h"
#include "model/vllm/classes.h"
#include "vllm/launch/activation.h"
#include "vllm/launch/engine_choice.h"

namespace plimsoll::vllm {
namespace {

constexpr VllmVersion kCapturesAsTold{0, 9, 0};
constexpr VllmVersion kSizesBySequences{0, 10, 0};  // before: up to 512, however few they are
constexpr VllmVersion kModes{0, 10, 1};
constexpr VllmVersion kWholeSteps{0, 11, 0};
constexpr VllmVersion kWideStrides{0, 11, 1};  // of 16 from 256 on
constexpr VllmVersion kGraphsByAdapters{0, 11, 1};
constexpr VllmVersion kOptimizationLevels{0, 12, 0};
constexpr VllmVersion kRoundsToDrafts{0, 11, 1};
constexpr VllmVersion kSizesByDrafts{0, 13, 0};
constexpr VllmVersion kGraphsChecked{0, 11, 1};
constexpr VllmVersion kKeepsWhole{0, 13, 0};
constexpr VllmVersion kDecodesEncoded{0, 13, 0};  // encoder-decoder models, by whole steps
constexpr VllmVersion kSizeOfStep{0, 21, 0};
constexpr VllmVersion kSizesByCard{0, 28, 0};
constexpr VllmVersion kDraftedSizes{0, 29, 0};
constexpr VllmVersion kDropsPiecewise{0, 30, 0};  // before: all graphs, where vLLM does not compile
constexpr VllmVersion kSizeOfSequences{0, 31, 0};
constexpr VllmVersion kStockWithoutGraphs{0, 32, 0};

constexpr int64_t kUsualLargest = 512;
constexpr int64_t kVllmCompiler = 3;  // CompilationMode.VLLM_COMPILE

hardware::Architecture architecture_of(const hardware::Gpu* gpu) {
  return hardware::capability_of(gpu).architecture;
}

/// How the model is compiled: CompilationMode, to 0.11.1 the level.
int64_t compile_mode(const EngineArgs& args) {
  const GraphArgs& given = args.graphs;
  if (given.compile) return *given.compile;
  if (args.version >= kOptimizationLevels) return given.level == 0 ? 0 : kVllmCompiler;
  return given.level.value_or(kVllmCompiler);
}

GraphMode asked_mode(const EngineArgs& args) {
  constexpr std::pair<std::string_view, GraphMode> kNames[] = {
      {"NONE", GraphMode::none},
      {"PIECEWISE", GraphMode::piecewise},
      {"FULL", GraphMode::full},
      {"FULL_DECODE_ONLY", GraphMode::decode},
      {"FULL_AND_PIECEWISE", GraphMode::decode_and_piecewise}};
  for (const auto& [name, mode] : kNames)
    if (args.graphs.mode == name) return mode;
  const bool whole = args.version >= kWholeSteps;
  const GraphMode usual = whole ? GraphMode::decode_and_piecewise : GraphMode::piecewise;
  if (args.version < kOptimizationLevels)
    return compile_mode(args) == kVllmCompiler ? usual : GraphMode::none;
  const int64_t level = args.graphs.level.value_or(2);
  return level == 0 ? GraphMode::none : level == 1 ? GraphMode::piecewise : usual;
}

/// Whether whole decode steps are recorded where card and model let them.
bool has_decode_graphs(const EngineArgs& args) {
  return args.graphs.mode != "PIECEWISE" && args.graphs.level.value_or(2) > 1;
}

/// The mode of a model that vLLM's own compiler does not compile, which alone makes the pieces.
GraphMode without_compiler(GraphMode mode, const EngineArgs& args) {
  const bool pieces = mode == GraphMode::piecewise || mode == GraphMode::decode_and_piecewise;
  if (args.version < kOptimizationLevels) return mode;
  if (args.version < kKeepsWhole) return GraphMode::none;
  if (args.version < kDropsPiecewise) return pieces ? GraphMode::none : mode;
  if (args.version >= kStockWithoutGraphs && compile_mode(args) == 1) return GraphMode::none;
  if (mode == GraphMode::piecewise) return GraphMode::none;
  return pieces ? GraphMode::decode : mode;
}

/// 1, 2, 4, 8, 16 ... `most`, by 8 and from 256 on by `stride`; `each`: 1, 2, 3 ... 32 first.
std::vector<int64_t> grid(int64_t most, int64_t stride, bool each = false) {
  constexpr int64_t kSmall = 32, kWide = 256;
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= std::min(most, each ? kSmall : 4); size += each ? 1 : size)
    sizes.push_back(size);
  for (int64_t size = each ? kSmall + 8 : 8; size < kWide && size <= most; size += 8)
    sizes.push_back(size);
  for (int64_t size = kWide; size <= most; size += stride) sizes.push_back(size);
  return sizes;
}

/// Each size once, in order.
void settle(std::vector<int64_t>& sizes) {
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
}

/// Steps in which so many sequences decode, of `each` tokens a sequence, up to `most` tokens.
std::vector<int64_t> decode_steps(int64_t sequences, int64_t each, int64_t most, int64_t cap) {
  const int64_t last = std::min(sequences, cap);
  std::vector<int64_t> counts = grid(last, 16), sizes;
  counts.push_back(last);
  for (const int64_t count : counts)
    if (Amount{count} * each <= Amount{most}) sizes.push_back(count * each);
  return sizes;
}

/// The sizes that flags state; nothing: the release chooses them.
std::optional<std::vector<int64_t>> stated_sizes(const EngineArgs& args) {
  if (args.capture_sizes || args.graphs.up_to == 0) return args.capture_sizes;
  if (args.version < kWideStrides) return grid(args.graphs.up_to, 8);
  if (args.version < kSizesByDrafts) return std::vector<int64_t>{args.graphs.up_to};
  return std::nullopt;  // a release without --cuda-graph-sizes: the largest
}

/// The largest size that flags or the model's class state; 0: none does.
int64_t stated_largest(const EngineArgs& args, const ModelShape& shape) {
  if (args.graphs.largest > 0) return args.graphs.largest;
  if (args.graphs.up_to > 0) return args.graphs.up_to;
  constexpr int64_t kFlashAttentionMost = 992;  // of the kernels of 0.11.0
  const int64_t of_class = model::largest_graph(shape.architecture);
  if (of_class == kUsualLargest) return 0;
  return args.version < kWideStrides ? std::min(of_class, kFlashAttentionMost) : of_class;
}

std::vector<int64_t> captured_sizes(const EngineArgs& args, const EngineLimits& limits,
                                    const hardware::Gpu* gpu, const ModelShape& shape) {
  const VllmVersion& version = args.version;
  const int64_t tokens = limits.max_num_batched_tokens;
  std::vector<int64_t> sizes;
  if (std::optional<std::vector<int64_t>> stated = stated_sizes(args)) {
    sizes = std::move(*stated);
    std::erase_if(sizes, [&](int64_t size) { return size < 1 || size > tokens; });
    settle(sizes);
    return sizes;
  }
  constexpr int64_t kDataCentre = 1024;
  const bool large =
      version >= kSizesByCard && architecture_of(gpu) == hardware::Architecture::blackwell;
  const int64_t cap = large ? kDataCentre : kUsualLargest;
  const int64_t each = version < kSizesByDrafts ? 1 : 1 + args.draft_tokens;
  const Amount doubled = Amount{limits.max_num_seqs} * each * 2;
  int64_t most = version < kSizesBySequences ? cap : std::min(Amount{cap}, doubled).value();
  std::vector<int64_t> decoding;
  if (const int64_t stated = stated_largest(args, shape); stated > 0) {
    most = stated;
  } else if (version >= kDraftedSizes && each > 1) {
    decoding = decode_steps(limits.max_num_seqs, each, most, cap);
  } else if (version >= kSizeOfSequences && limits.max_num_seqs <= most) {
    decoding = {limits.max_num_seqs};
  }
  most = std::min(most, tokens);
  const bool wide = version >= kWideStrides || stated_largest(args, shape) > 0;
  sizes = grid(most, wide ? 16 : 8, args.pace == Pace::interactivity);
  if (version >= kSizeOfStep && tokens <= most) sizes.push_back(tokens);
  for (const int64_t size : decoding)
    if (size <= tokens) sizes.push_back(size);
  settle(sizes);
  return sizes;
}

/// The sizes as whole steps of `each` tokens a sequence, up to `most` tokens
/// (adjust_cudagraph_sizes_for_spec_decode).
std::vector<int64_t> rounded_up(const std::vector<int64_t>& sizes, int64_t each, Amount most) {
  std::vector<int64_t> rounded;
  for (const int64_t size : sizes) {
    const Amount up = ceil_div(Amount{size}, each) * each;
    if (up <= most) rounded.push_back(up.value());
  }
  settle(rounded);
  return rounded;
}

}  // namespace

bool compiles_model(const EngineArgs& args) {
  return !args.enforce_eager && compile_mode(args) == kVllmCompiler;
}

GraphMode graph_mode(const EngineArgs& args, const hardware::Gpu* gpu, const ModelShape& shape) {
  if (args.enforce_eager) return GraphMode::none;
  if (args.version < kModes) {  // whatever the level; 0.8 always captures
    const bool off = args.graphs.mode == "NONE" && args.version >= kCapturesAsTold;
    return off ? GraphMode::none : GraphMode::piecewise;
  }
  GraphMode mode = asked_mode(args);
  if (mode != GraphMode::none && compile_mode(args) != kVllmCompiler)
    mode = without_compiler(mode, args);
  if (has_full_graphs(mode) && shape.pools) mode = GraphMode::piecewise;
  if (shape.encoder_decoder && mode != GraphMode::none) {
    if (args.version >= kDecodesEncoded) return GraphMode::decode;
    return GraphMode::piecewise;
  }
  // Whole steps of prompts are recorded by FlashAttention 3 alone.
  if (mode == GraphMode::full && architecture_of(gpu) != hardware::Architecture::hopper)
    return compiles_model(args) ? GraphMode::decode_and_piecewise : GraphMode::decode;
  return mode;
}

GraphPlan plan_graphs(const EngineArgs& args, const EngineLimits& limits, const hardware::Gpu* gpu,
                      const ModelShape& shape) {
  GraphPlan graphs;
  const GraphMode mode = graph_mode(args, gpu, shape);
  if (mode == GraphMode::none) return graphs;
  if (runs_first_engine(args)) {  // decode alone, up to the first size that suffices
    constexpr int64_t kMost = 8192;
    const int64_t sequences = std::clamp<int64_t>(limits.max_num_seqs, 1, kMost);
    const int64_t last = sequences <= 4
                             ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(sequences)))
                             : (sequences + 7) / 8 * 8;
    graphs.piecewise = grid(last, 8);
    return graphs;
  }
  std::vector<int64_t> sizes = captured_sizes(args, limits, gpu, shape);
  const int64_t each = 1 + args.draft_tokens;
  const Amount most = Amount{limits.max_num_seqs} * each;
  std::vector<int64_t> whole = sizes;  // steps in which all sequences decode
  if (each > 1 && has_full_graphs(mode) && args.version >= kRoundsToDrafts) {
    if (uses_second_runner(args, shape)) {
      whole = rounded_up(sizes, each, most);
    } else {
      sizes = rounded_up(sizes, each, sizes.empty() ? 0 : sizes.back());
      whole = sizes;
    }
  }
  graphs.full = std::ranges::count_if(
      whole, [&](int64_t size) { return size >= each && Amount{size} <= most; });
  if (mode == GraphMode::full) graphs.full = static_cast<int64_t>(sizes.size());
  if (!has_full_graphs(mode)) graphs.full = 0;
  const bool parts = mode == GraphMode::piecewise || mode == GraphMode::decode_and_piecewise;
  if (parts) graphs.piecewise = std::move(sizes);
  // v1/cudagraph_dispatcher.py: cudagraph_specialize_lora.
  const bool by_adapters = args.graphs.by_adapters && args.version >= kGraphsByAdapters;
  if (args.lora && by_adapters) graphs.kinds = 2;
  return graphs;
}

void check_graphs(const EngineArgs& args, const EngineLimits& limits) {
  const GraphArgs& given = args.graphs;
  if (args.enforce_eager || given.mode == "NONE") return;
  const bool pieces = given.mode == "PIECEWISE" || given.mode == "FULL_AND_PIECEWISE";
  if (pieces && !compiles_model(args) && args.version >= kModes &&
      args.version < kOptimizationLevels) {
    fail(ExitCode::usage,
         "Compilation level should be CompilationLevel.PIECEWISE when cudagraph_mode piecewise "
         "cudagraphs is used, cudagraph_mode={}. Leave the level of --compilation-config out.",
         given.mode);
  }
  if (args.version < kGraphsChecked || !args.capture_sizes) return;
  if (args.capture_sizes->empty()) {
    fail(ExitCode::usage,
         "cudagraph_capture_sizes should contain at least one element when using cuda graph. Use "
         "--enforce-eager for none.");
  }
  int64_t largest = 0;
  for (const int64_t size : *args.capture_sizes)
    if (size <= limits.max_num_batched_tokens) largest = std::max(largest, size);
  const int64_t each = 1 + args.draft_tokens;
  if (each > largest && each > 1 && has_decode_graphs(args)) {
    fail(ExitCode::usage,
         "No valid cudagraph sizes after rounding to multiple of {} (num_speculative_tokens + 1) "
         "please adjust num_speculative_tokens ({}) or max_cudagraph_capture_size ({}) or "
         "cudagraph_capture_sizes ([{}])",
         each, args.draft_tokens, largest, fmt::join(*args.capture_sizes, ", "));
  }
  if (args.graphs.largest == 0 || args.graphs.largest == largest) return;
  fail(ExitCode::usage,
       "customized max_cudagraph_capture_size(={}) should be consistent with the max value of "
       "cudagraph_capture_sizes(={}). Leave max_cudagraph_capture_size out.",
       args.graphs.largest, largest);
}

}  // namespace plimsoll::vllm
