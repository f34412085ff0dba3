#include "vllm/launch/machine.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/amount.h"
#include "base/size_text.h"
#include "hardware/capability.h"
#include "hardware/gpu_catalogue.h"
#include "vllm/launch/engine_choice.h"

namespace plimsoll::vllm {
namespace {

constexpr VllmVersion kFlashInferApart{0, 11, 0};     // logs before it have FlashInfer
constexpr VllmVersion kFlashInferOptional{0, 11, 1};  // asked for by a variable; before: if there
constexpr VllmVersion kFlashInferSampler{0, 21, 0};   // from here on by default
constexpr VllmVersion kEarlyCublas{0, 33, 0};
constexpr VllmVersion kFromBaseline{0, 6, 5};    // before: with the context
constexpr VllmVersion kLargerKernels{0, 18, 0};  // torch 2.10: more of what is loaded stays
constexpr VllmVersion kFusedAllReduce{0, 16, 0};
constexpr VllmVersion kFusedBesideOthers{0, 24, 0};  // before: not with stages or copies
constexpr VllmVersion kSmallerAllReduce{0, 25, 0};   // between the logs of 0.19 and 0.26: inferred

/// Gibibytes of a figure that was measured: its middle, its least and its most.
struct Measured {
  double gib;
  double least;
  double most;
  const char* source;
};

// One rank.
constexpr Measured kAllOutside{0.35, 0.15, 0.6, "logs of vLLM 0.5 and 0.6 on an RTX 3090"};
constexpr Measured kFirstEngine{
    0.06, 0.02, 0.18, "logs of vLLM 0.6.6 to 0.7.3 on five cards, an RTX 4060 to an H100"};
constexpr Measured kHopper{0.25, 0.24, 0.46, "logs of vLLM 0.18 and 0.19 on an H100 (16 models)"};
constexpr Measured kOldHopper{0.13, 0.11, 0.16, "logs of vLLM 0.11 to 0.17 on an H100"};
constexpr Measured kOther{0.18, 0.1, 0.27,
                          "logs of vLLM 0.24 to 0.29 on an RTX 5090, a Quadro RTX 8000, an RTX PRO "
                          "6000 and a laptop's card"};
constexpr Measured kOldOther{0.04, 0.01, 0.07,
                             "logs of vLLM 0.10 and 0.11 on an A100 and on cards of 24 GB"};
/// What the host's own processes take in the meantime is gone from the same memory: the compiler
/// on a first boot, and inputs of the encoder's profile.
constexpr Measured kUnified{2.0, 1.0, 5.7,
                            "logs of vLLM 0.11 to 0.27 on a GB10, whose host shares its memory"};
// Several ranks.
constexpr Measured kPair{2.08, 2.0, 2.15, "logs of vLLM 0.19 on H100 cards, two ranks"};
constexpr Measured kMoreRanks{2.17, 2.08, 2.25, "logs of vLLM 0.19 on H100 cards, four ranks"};
constexpr Measured kNewRanks{0.7, 0.5, 2.2,
                             "logs of vLLM 0.26 and 0.28 on four H100 and eight H200"};
constexpr Measured kCustomAllReduce{0.55, 0.5, 0.6, "logs of vLLM 0.11 on H100 cards"};
constexpr Measured kStatesOnRanks{
    0.55, 0.5, 1.9, "logs of vLLM 0.10 and 0.11 on H100 and H200 cards, two with layers of states"};
constexpr Measured kPcie{0.12, 0.02, 0.2, "logs of vLLM 0.10 and 0.28 on A100 and RTX 4090 pairs"};
constexpr Measured kUnknownJoin{0.14, 0.05, 0.58, "a log of vLLM 0.10 on two A100 cards"};
constexpr Measured kStages{0.07, 0.04, 0.15, "logs of vLLM 0.19, two and four stages"};

const Measured& measured_alone(const EngineArgs& args, const hardware::Gpu* gpu) {
  const VllmVersion& version = args.version;
  if (runs_first_engine(args)) return version < kFromBaseline ? kAllOutside : kFirstEngine;
  const bool datacenter = at_least_hopper(gpu) && (gpu == nullptr || gpu->nvlink > 0);
  const bool recent = version >= kLargerKernels;
  if (datacenter) return recent ? kHopper : kOldHopper;
  return recent ? kOther : kOldOther;
}

const Measured& measured_ranks(const EngineArgs& args, const hardware::Gpu* gpu, bool recurrent) {
  const VllmVersion& version = args.version;
  const Measured& joined = recurrent ? kStatesOnRanks : kCustomAllReduce;
  if (!joins_ranks_by_nvlink(args, gpu)) return kPcie;
  if (!at_least_hopper(gpu)) {
    return args.interconnect == Interconnect::nvlink ? joined : kUnknownJoin;
  }
  // config/vllm.py: enable_allreduce_rms_fusion.
  const bool alone = args.pipeline_parallel == 1 && args.data_parallel == 1;
  const bool fused = version >= kFusedBesideOthers || (version >= kFusedAllReduce && alone);
  if (!fused) return joined;
  if (version >= kSmallerAllReduce) return kNewRanks;
  return args.tensor_parallel == 2 ? kPair : kMoreRanks;
}

/// Orin, Thor and GB10: what vLLM calls free is what the host has left (utils/mem_utils.py); of a
/// GH200 it is not.
bool is_of_host(const hardware::Gpu* gpu) {
  return gpu != nullptr && gpu->is_unified() && gpu->compute_capability != 9.0;
}

const Measured& measured(const EngineArgs& args, const hardware::Gpu* gpu, bool recurrent) {
  if (is_of_host(gpu)) return kUnified;
  if (args.tensor_parallel > 1) return measured_ranks(args, gpu, recurrent);
  return args.pipeline_parallel > 1 ? kStages : measured_alone(args, gpu);
}

int64_t bytes_of(double gib) {
  return static_cast<int64_t>(gib * static_cast<double>(kGiB));
}

MachineFact sampler_fact(const EngineArgs& args, const hardware::Gpu* gpu) {
  MachineFact fact{kSamplerFact, samples_with_flashinfer(args, gpu) ? "yes" : "no", "",
                   "--flashinfer-sampler"};
  if (args.flashinfer_sampler) {
    fact.source = "stated";
  } else if (args.version >= kFlashInferSampler) {
    fact.source = "default of the release, where the card has more than 16 multiprocessors";
  } else if (args.version >= kFlashInferOptional) {
    fact.source = "default of the release";
  } else if (args.flashinfer_installed) {
    fact.source = "the image has FlashInfer";
  } else {
    fact.source = "vLLM's images have it, a pip install has not; logs before 0.11 do";
  }
  return fact;
}

MachineFact join_fact(const EngineArgs& args, const hardware::Gpu* gpu) {
  MachineFact fact{"interconnect", joins_ranks_by_nvlink(args, gpu) ? "NVLink" : "PCIe", "",
                   "--interconnect"};
  if (args.interconnect != Interconnect::automatic) {
    fact.source = "stated";
  } else if (!args.custom_all_reduce) {
    fact.source = "--disable-custom-all-reduce";
  } else {
    fact.source =
        gpu == nullptr || gpu->nvlink > 0 ? "the card's usual form" : "the card has no NVLink";
  }
  return fact;
}

}  // namespace

bool is_spark(const hardware::Gpu* gpu) {
  return gpu != nullptr && std::lround(gpu->compute_capability * 10) == 121;
}

bool at_least_hopper(const hardware::Gpu* gpu) {
  // A card without a name is taken for a large one where it has the memory.
  constexpr int64_t kLarge = 64 * kGiB;
  if (gpu != nullptr && gpu->compute_capability == 0 && gpu->memory_bytes < kLarge) return false;
  return hardware::capability_of(gpu).architecture >= hardware::Architecture::hopper;
}

int64_t gemm_workspace(const hardware::Gpu* gpu) {
  return (at_least_hopper(gpu) ? 32 : 8) * kMiB;
}

bool has_early_cublas(const EngineArgs& args) {
  return args.version >= kEarlyCublas;
}

bool samples_with_flashinfer(const EngineArgs& args, const hardware::Gpu* gpu) {
  if (args.flashinfer_sampler) return *args.flashinfer_sampler;
  if (runs_first_engine(args)) return false;  // unless the variable asks for it
  if (args.version < kFlashInferOptional)
    return args.flashinfer_installed.value_or(args.version < kFlashInferApart);
  if (args.version < kFlashInferSampler) return false;
  constexpr double kLeastCapability = 7.5;
  constexpr int64_t kTooFewProcessors = 16;
  if (gpu == nullptr) return true;
  const bool old = gpu->compute_capability > 0 && gpu->compute_capability < kLeastCapability;
  const bool small = gpu->processors > 0 && gpu->processors <= kTooFewProcessors;
  return !old && !small;
}

std::string stated_backend(const std::string& variable, const VllmVersion& version) {
  constexpr VllmVersion kFlagAlone{0, 15, 0};
  return version < kFlagAlone ? variable : "";
}

bool depends_on_install(const EngineArgs& args) {
  return !args.flashinfer_sampler && !args.flashinfer_installed && !runs_first_engine(args) &&
         args.version < kFlashInferOptional;
}

bool attends_with_flashinfer(const EngineArgs& args, const hardware::Gpu* gpu,
                             const ModelShape& shape, bool fp8_cache) {
  if (runs_first_engine(args) || shape.attention_free) return false;
  const bool latent = std::ranges::any_of(
      shape.kv_layers, [](const KvLayer& layer) { return layer.kind == KvKind::latent; });
  const hardware::Architecture architecture = hardware::capability_of(gpu).architecture;
  if (latent) return false;
  if (!args.attention_backend.empty()) return args.attention_backend.starts_with("FLASHINFER");
  if (architecture == hardware::Architecture::blackwell) return true;
  // FlashAttention reads caches of 8 bits on Hopper alone.
  constexpr VllmVersion kFromAmpere{0, 24, 0};
  if (architecture == hardware::Architecture::older && args.version >= kFromAmpere) return false;
  return fp8_cache && shape.flashinfer && architecture != hardware::Architecture::hopper;
}

bool plans_each_graph(const EngineArgs& args, const hardware::Gpu* gpu) {
  constexpr VllmVersion kGraphWrappers{0, 10, 1};
  // vllm/utils/flashinfer.py: supports_trtllm_attention.
  constexpr std::pair<hardware::Architecture, VllmVersion> kDecodeKernels[] = {
      {hardware::Architecture::blackwell, kGraphWrappers},
      {hardware::Architecture::hopper, {0, 25, 0}},
      {hardware::Architecture::consumer_blackwell, {0, 28, 0}}};
  const hardware::Architecture card = hardware::capability_of(gpu).architecture;
  return args.version >= kGraphWrappers &&
         std::ranges::none_of(kDecodeKernels, [&](const auto& kernel) {
           return kernel.first == card && args.version >= kernel.second;
         });
}

bool joins_ranks_by_nvlink(const EngineArgs& args, const hardware::Gpu* gpu) {
  if (args.interconnect == Interconnect::nvlink) return true;
  if (args.interconnect == Interconnect::pcie || !args.custom_all_reduce) return false;
  return gpu == nullptr || gpu->compute_capability == 0 || gpu->nvlink > 0;
}

PlanPart non_torch_part(const EngineArgs& args, const hardware::Gpu* gpu, bool recurrent) {
  const Measured& one = measured(args, gpu, recurrent);
  // Handles that are made before the first look at free memory: 20 to 60 MiB where products are
  // loaded, not measured by itself.
  const double early = has_early_cublas(args) ? 0.04 : 0;
  const double gib = std::max(0.0, one.gib - early);
  PlanPart part{"non-torch", bytes_of(gib),
                fmt::format("{:.2f} GiB{}, {:.2f} to {:.2f} in logs", one.gib,
                            early > 0 ? " less cuBLAS's handles" : "", one.least, one.most),
                one.source};
  part.less = bytes_of(gib - std::max(0.0, one.least - early));
  part.more = bytes_of(one.most - gib);
  return part;
}

int64_t context_bytes(const EngineArgs& args, const hardware::Gpu* gpu) {
  // The host's own processes hold a part of memory that it shares with the card: 113.24 of 121.69
  // GiB were free.
  if (is_of_host(gpu)) return bytes_of(8.45);
  const bool large = at_least_hopper(gpu);
  double gib = large ? 0.51 : 0.40;
  // 1.0 to 1.5 on H100 cards. Nothing is logged of Blackwell cards without NVLink, which are taken
  // for cards before Hopper: two RTX 5080 of 15.9 GiB started with 0.9 of them.
  const bool has_nvlink = gpu == nullptr || gpu->nvlink > 0;
  if (args.tensor_parallel > 1) gib += large && has_nvlink ? 1.5 : 0.5;
  return bytes_of(gib);
}

std::vector<MachineFact> machine_facts(const EngineArgs& args, const hardware::Gpu* gpu,
                                       const ModelShape& shape) {
  std::vector<MachineFact> facts;
  if (args.version < kTwoEngines) return facts;
  if (!shape.pools && !runs_first_engine(args)) facts.push_back(sampler_fact(args, gpu));
  if (args.tensor_parallel > 1) facts.push_back(join_fact(args, gpu));
  if (gpu == nullptr) return facts;
  facts.push_back({"the card's total", size_text(gpu->visible_bytes()),
                   "as CUDA reports it: the driver keeps a part", "--gpu-total-memory"});
  facts.push_back({"held by other processes", size_text(args.reserved),
                   args.reserved > 0 ? "stated" : "none is taken for granted",
                   "--reserved-memory"});
  if (gpu->is_unified()) {
    facts.push_back({"memory of the host and the card", "one",
                     "what the host's processes hold is not free for the launch",
                     "--reserved-memory"});
  }
  return facts;
}

}  // namespace plimsoll::vllm
