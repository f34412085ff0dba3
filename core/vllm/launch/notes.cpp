// Notes of a plan for vLLM, in words: on parts that it leaves out or takes for granted.
#include <fmt/format.h>

#include "vllm/launch/engine_choice.h"
#include "vllm/launch/prefixes.h"
#include "vllm/launch/served.h"
#include "vllm/launch/stage.h"

namespace plimsoll::vllm {
namespace {

/// True when a tower's weights are counted and its activations are not.
bool has_unmodelled_tower(const ModelShape& shape, const EngineArgs& args) {
  if (!shape.multimodal) return false;
  if (shape.vision.kind == VisionShape::Kind::other) return true;
  if (shape.sound.tower.hidden > 0 && shape.sound.tokens == 0) return true;
  const bool whole = args.limits.empty() && !args.language_only;
  return whole && shape.vision.kind == VisionShape::Kind::none && shape.sound.tokens == 0;
}

}  // namespace

std::string newest_known(const VllmVersion& version) {
  return version > model::kNewestRelease ? version_text(model::kNewestRelease) : "";
}

std::vector<std::string> launch_notes(const Stage& stage, const Quantization& quantization,
                                      const EngineArgs& args) {
  std::vector<std::string> notes;
  if (!stage.shape.note.empty()) notes.push_back(stage.shape.note);
  const std::string served = served_note(stage.shape.architecture, args.version);
  if (!served.empty()) notes.push_back(served);
  if (const std::string known = newest_known(args.version); !known.empty()) {
    notes.push_back(fmt::format("vLLM {} is newer than what this program knows: planned as {}",
                                version_text(args.version), known));
  }
  if (!args.development_build.empty()) {
    notes.push_back(
        fmt::format("vLLM {} is a development build: planned as {}, the nearest older release",
                    args.development_build, version_text(args.version)));
  }
  if (quantization.method() == "bitsandbytes" && args.version >= kWithoutBitsandbytes) {
    notes.push_back("bitsandbytes is no part of vLLM from 0.28 on: it needs a plugin");
  }
  if (quantization.is_online()) {
    notes.push_back("online quantization: one 16-bit layer is held temporarily while loading");
  }
  if (stage.shape.multimodal && args.processor_cache_gib > 0) {
    const bool old = args.version < VllmVersion{0, 10, 0};
    notes.push_back(
        fmt::format("host memory for processed images and videos: {:.3g} GiB x {} processes ({})",
                    args.processor_cache_gib, old ? 2 : args.data_parallel + 1,
                    old ? "VLLM_MM_INPUT_CACHE_GIB" : "--mm-processor-cache-gb"));
  }
  if (runs_first_engine(args)) {
    notes.push_back(
        "host memory for swapped blocks: 4 GiB per GPU unless --swap-space says otherwise");
  }
  if (args.context_ranks > 1) {
    notes.push_back(
        fmt::format("--decode-context-parallel-size: each of {} ranks keeps its share of a "
                    "request's tokens, so that a block holds {} times as many tokens of it",
                    args.context_ranks, args.context_ranks));
  }
  if (args.sleep_mode) {
    notes.push_back(
        "--enable-sleep-mode: vLLM measures too little of what torch does not hold (a log of a "
        "card "
        "of 22 GiB: 3.6 GiB), makes the KV cache larger than planned and may pass the card: lower "
        "--gpu-memory-utilization, or give --kv-cache-memory-bytes");
  }
  if (std::string note = prefixes_note(args); !note.empty()) notes.push_back(std::move(note));
  if (has_unmodelled_tower(stage.shape, args)) {
    notes.push_back("the encoder's own memory is not modelled for this tower");
  }
  return notes;
}

}  // namespace plimsoll::vllm
