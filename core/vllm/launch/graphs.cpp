#include "vllm/launch/graphs.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/amount.h"
#include "hardware/capability.h"
#include "model/vllm/classes.h"

namespace plimsoll::vllm {
namespace {

constexpr VllmVersion kSizesBySequences{0, 10, 0};  // before: up to 512, however few they are
constexpr VllmVersion kModes{0, 10, 1};
constexpr VllmVersion kWholeSteps{0, 11, 0};
constexpr VllmVersion kWideStrides{0, 11, 1};  // of 16 from 256 on
constexpr VllmVersion kGraphsByAdapters{0, 11, 1};
constexpr VllmVersion kOptimizationLevels{0, 12, 0};
constexpr VllmVersion kSizesByDrafts{0, 13, 0};
constexpr VllmVersion kDecodesEncoded{0, 13, 0};  // encoder-decoder models, by whole steps
constexpr VllmVersion kSizeOfStep{0, 21, 0};
constexpr VllmVersion kSizesByCard{0, 28, 0};
constexpr VllmVersion kDraftedSizes{0, 29, 0};
constexpr VllmVersion kDropsPiecewise{0, 30, 0};  // before: all graphs, where vLLM does not compile
constexpr VllmVersion kSizeOfSequences{0, 31, 0};
constexpr VllmVersion kStockWithoutGraphs{0, 32, 0};

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

/// The mode without what only vLLM's own compiler makes.
GraphMode without_compiler(GraphMode mode, const EngineArgs& args) {
  if (args.version < kDropsPiecewise) return GraphMode::none;
  if (args.version >= kStockWithoutGraphs && compile_mode(args) == 1) return GraphMode::none;
  if (mode == GraphMode::piecewise) return GraphMode::none;
  return mode == GraphMode::decode_and_piecewise ? GraphMode::decode : mode;
}

/// 1, 2, 4, 8, 16 ... `most`.
std::vector<int64_t> strided_sizes(const EngineArgs& args, int64_t most) {
  constexpr int64_t kSmall = 32, kWide = 256;
  const bool each = args.pace == Pace::interactivity;
  const int64_t stride = args.version < kWideStrides ? 8 : 16;
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= std::min(most, each ? kSmall : 4); size += each ? 1 : size)
    sizes.push_back(size);
  for (int64_t size = each ? kSmall + 8 : 8; size < kWide && size <= most; size += 8)
    sizes.push_back(size);
  for (int64_t size = kWide; size <= most; size += stride) sizes.push_back(size);
  return sizes;
}

/// Numbers of sequences whose drafted steps are captured, times their tokens.
std::vector<int64_t> drafted_sizes(int64_t sequences, int64_t tokens, int64_t most, int64_t cap) {
  const int64_t last = std::min(sequences, cap);
  std::vector<int64_t> sizes;
  const auto add = [&](int64_t count) {
    if (count <= last && Amount{count} * tokens <= Amount{most}) sizes.push_back(count * tokens);
  };
  for (const int64_t count : {1, 2, 4}) add(count);
  for (int64_t count = 8; count < std::min<int64_t>(last + 1, 256); count += 8) add(count);
  for (int64_t count = 256; count <= last; count += 16) add(count);
  add(last);
  return sizes;
}

std::vector<int64_t> captured_sizes(const EngineArgs& args, const EngineLimits& limits,
                                    const hardware::Gpu* gpu, const ModelShape& shape) {
  const VllmVersion& version = args.version;
  const int64_t tokens = limits.max_num_batched_tokens;
  std::vector<int64_t> sizes;
  if (args.capture_sizes) {
    sizes = *args.capture_sizes;
    std::erase_if(sizes, [&](int64_t size) { return size < 1 || size > tokens; });
  } else {
    constexpr int64_t kDataCentre = 1024;
    const bool large =
        version >= kSizesByCard && architecture_of(gpu) == hardware::Architecture::blackwell;
    const int64_t cap = large ? kDataCentre : model::largest_graph(shape.architecture);
    const int64_t each = version < kSizesByDrafts ? 1 : 1 + args.draft_tokens;
    const Amount doubled = Amount{limits.max_num_seqs} * each * 2;
    int64_t most = version < kSizesBySequences ? cap : std::min(Amount{cap}, doubled).value();
    if (args.graphs.largest > 0) most = args.graphs.largest;
    std::vector<int64_t> decoding;
    if (args.graphs.largest == 0 && version >= kDraftedSizes && each > 1) {
      decoding = drafted_sizes(limits.max_num_seqs, each, most, cap);
    } else if (args.graphs.largest == 0 && version >= kSizeOfSequences &&
               limits.max_num_seqs <= most) {
      decoding = {limits.max_num_seqs};
    }
    most = std::min(most, tokens);
    sizes = strided_sizes(args, most);
    if (version >= kSizeOfStep && tokens <= most) sizes.push_back(tokens);
    for (const int64_t size : decoding)
      if (size <= tokens) sizes.push_back(size);
  }
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

}  // namespace

bool compiles_model(const EngineArgs& args) {
  return !args.enforce_eager && compile_mode(args) == kVllmCompiler;
}

GraphMode graph_mode(const EngineArgs& args, const hardware::Gpu* gpu, const ModelShape& shape) {
  if (args.enforce_eager) return GraphMode::none;
  if (args.version < kModes) return GraphMode::piecewise;  // whatever the level
  GraphMode mode = asked_mode(args);
  if (mode != GraphMode::none && compile_mode(args) != kVllmCompiler)
    mode = without_compiler(mode, args);
  if (has_full_graphs(mode) && shape.pooling) mode = GraphMode::piecewise;
  if (shape.encoder_decoder && mode != GraphMode::none) {
    if (args.version >= kDecodesEncoded) return GraphMode::decode;
    return GraphMode::piecewise;
  }
  // Whole steps of prompts are recorded by FlashAttention 3 alone.
  if (mode == GraphMode::full && architecture_of(gpu) != hardware::Architecture::hopper)
    return GraphMode::decode_and_piecewise;
  return mode;
}

GraphPlan plan_graphs(const EngineArgs& args, const EngineLimits& limits, const hardware::Gpu* gpu,
                      const ModelShape& shape) {
  GraphPlan graphs;
  const GraphMode mode = graph_mode(args, gpu, shape);
  if (mode == GraphMode::none) return graphs;
  if (args.version < model::kFirstEngineOnly) {  // decode alone, up to 256 sequences
    for (const int64_t size : {1, 2, 4}) graphs.piecewise.push_back(size);
    for (int64_t size = 8; size <= 256; size += 8) graphs.piecewise.push_back(size);
    return graphs;
  }
  std::vector<int64_t> sizes = captured_sizes(args, limits, gpu, shape);
  const int64_t each = 1 + args.draft_tokens;
  graphs.full = std::ranges::count_if(sizes, [&](int64_t size) {
    return size >= each && Amount{size} <= Amount{limits.max_num_seqs} * each;
  });
  if (mode == GraphMode::full) graphs.full = static_cast<int64_t>(sizes.size());
  if (!has_full_graphs(mode)) graphs.full = 0;
  const bool parts = mode == GraphMode::piecewise || mode == GraphMode::decode_and_piecewise;
  if (parts) graphs.piecewise = std::move(sizes);
  // v1/cudagraph_dispatcher.py: cudagraph_specialize_lora.
  if (args.lora && args.version >= kGraphsByAdapters) graphs.kinds = 2;
  return graphs;
}

}  // namespace plimsoll::vllm
