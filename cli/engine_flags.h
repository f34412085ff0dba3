// Flags of a launch, declared once for `run` and `plan`: a plan line becomes a run line by changing
// one word.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "cli/cli11_names.h"
#include "vllm/engine_args.h"

namespace plimsoll::cli {

struct EngineFlags {
  vllm::EngineArgs args;
  std::string device = "auto";         // auto, cpu, cuda
  std::optional<int64_t> gpu_memory;   // --gpu-memory: the ceiling in bytes
  std::optional<uint64_t> host_cache;  // --cpu-kvcache-space, bytes
  std::optional<int> threads;
  std::optional<std::string> cpu_isa;
  bool solve_sequences = false;  // --max-num-seqs auto
  bool deterministic = false;
  std::optional<double> processor_cache_gib;             // --mm-processor-cache-gb
  OrderedJson processor_kwargs = OrderedJson::object();  // --mm-processor-kwargs
  /// Flags given, with their values as typed; switches have none.
  std::vector<std::pair<std::string, std::string>> given;
  std::vector<std::string> for_cards;  // flags given that mean nothing on the CPU
  std::vector<std::string> for_vllm;   // flags given that only vLLM's launch heeds
};

/// Declares them in groups of their own. `flags` must outlive the parsing.
void declare_engine_flags(CLI::App& command, EngineFlags& flags);

/// "image=2,video=0", {"image": 2} or {"image": {"count": 2, "width": 512}}. Throws
/// std::invalid_argument.
void read_modality_limits(const std::string& text, vllm::EngineArgs& args);

}  // namespace plimsoll::cli
