// Formats of llama.cpp 0c1e57098: src/llama-model.cpp, llama-kv-cache.cpp, llama-context.cpp,
// common/fit.cpp.
#include "engines/llamacpp/lines.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/amount.h"

namespace plimsoll::engines::llamacpp {
namespace {

double mib(int64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(kMiB);
}

/// The name of a buffer of weights: the host's are pages of the file unless it is read.
std::string weights_name(const Launch& launch, const Buffer& buffer) {
  const bool mapped = launch.maps_file && (buffer.name == "CUDA_Host" || buffer.name == "CPU");
  return mapped ? "CPU_Mapped" : buffer.name;
}

/// Bytes of one cache's tensors over all layers that `takes` accepts.
template <typename Takes>
std::string cache_line(const Shape& shape, const Launch& launch, const Placement& placement,
                       const Takes& takes) {
  int64_t keys = 0, values = 0, cells = 0, layers = 0;
  for (const Layer& layer : shape.layers) {
    if (!layer.attends() || !takes(layer)) continue;
    ++layers;
    cells = cells_of(layer, shape, launch, placement.context);
    const auto bytes = [&](const GgmlTypeInfo& type, int64_t width) {
      return width / type.values * type.bytes * cells * launch.streams();
    };
    keys += bytes(*launch.key_type, layer.key);
    values += bytes(*launch.value_type, layer.value);
  }
  if (layers == 0) return "";
  return fmt::format(
      "llama_kv_cache: size = {:7.2f} MiB ({:6} cells, {:3} layers, {:2}/{} seqs), K ({}): {:7.2f} "
      "MiB, V ({}): {:7.2f} MiB",
      mib(keys + values), cells, layers, launch.sequences, launch.streams(),
      type_name(*launch.key_type), mib(keys), type_name(*launch.value_type), mib(values));
}

std::string breakdown_line(const Card& card, const Buffer& buffer) {
  const int64_t self = buffer.total();
  const int64_t taken = card.total_bytes - card.free_bytes;
  return fmt::format(
      "common_memory_breakdown_print: |   - {} | {:5} = {:5} + ({:5} = {:5} + {:7} + {:7}) + {:11} "
      "|",
      card.name, card.total_bytes / kMiB, (card.free_bytes - self) / kMiB, self / kMiB,
      buffer.model / kMiB, buffer.context / kMiB, buffer.compute / kMiB, taken / kMiB);
}

}  // namespace

std::vector<std::string> lines_of(const Shape& shape, const Launch& launch,
                                  const Placement& placement, const std::vector<Buffer>& buffers) {
  std::vector<std::string> lines;
  for (const Buffer& buffer : buffers) {
    if (buffer.model == 0) continue;
    lines.push_back(fmt::format("load_tensors: {:>12} model buffer size = {:8.2f} MiB",
                                weights_name(launch, buffer), mib(buffer.model)));
  }
  lines.push_back(fmt::format("llama_context: {:>10}  output buffer size = {:8.2f} MiB",
                              launch.cards.empty() ? "CPU" : "CUDA_Host",
                              mib(launch.sequences * shape.vocabulary * kFloat32)));
  const bool attends =
      std::ranges::any_of(shape.layers, [](const Layer& layer) { return layer.attends(); });
  const char* const memory = attends ? "llama_kv_cache" : "llama_memory_recurrent";
  for (const Buffer& buffer : buffers) {
    if (buffer.context == 0) continue;
    lines.push_back(fmt::format("{}: {:>10} {} buffer size = {:8.2f} MiB", memory, buffer.name,
                                attends ? "KV" : "RS", mib(buffer.context)));
  }
  for (const bool windowed : {false, true}) {
    std::string line = cache_line(shape, launch, placement, [windowed](const Layer& layer) {
      return layer.windowed == windowed;
    });
    if (!line.empty()) lines.push_back(std::move(line));
  }
  for (const Buffer& buffer : buffers) {
    if (buffer.compute == 0) continue;
    lines.push_back(fmt::format("sched_reserve: {:>10} compute buffer size = {:8.2f} MiB",
                                buffer.name, mib(buffer.compute)));
  }
  for (const Buffer& buffer : buffers)
    if (buffer.card >= 0)
      lines.push_back(breakdown_line(launch.cards[static_cast<size_t>(buffer.card)], buffer));
  return lines;
}

}  // namespace plimsoll::engines::llamacpp
