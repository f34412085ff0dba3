// GPUs by name: memory, bandwidth, processors. Compiled in from gpus.csv, whose last column names
// the sources.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::hardware {

struct Gpu {
  std::string name;
  std::vector<std::string> aliases;
  std::string vendor;
  std::string generation;
  double compute_capability = 0;  // 9.0: Hopper
  int64_t memory_bytes = 0;       // as nvidia-smi reports it; 0: not known
  int64_t cuda_bytes = 0;         // as cudaMemGetInfo reports the total; 0: not measured
  double bandwidth = 0;           // GB/s; 0: not known
  double bf16_tflops = 0;
  double nvlink = 0;       // GB/s; 0: none
  int64_t processors = 0;  // streaming multiprocessors; 0: not known

  /// Total memory by cudaMemGetInfo, measured or by the class of the card: the driver keeps a part
  /// for itself.
  [[nodiscard]] int64_t visible_bytes() const;
  /// True for a MIG slice of a card.
  [[nodiscard]] bool is_slice() const;
  /// True for a part of a laptop or a module.
  [[nodiscard]] bool is_built_in() const;
  /// True when processor and GPU share one memory, of which vLLM calls free what the host has left
  /// (vllm/platforms/cuda.py: is_integrated_gpu).
  [[nodiscard]] bool is_unified() const;
  /// True when two of them cannot read each other's memory: the driver lets GeForce cards do so
  /// over NVLink alone.
  [[nodiscard]] bool hides_memory() const;
};

/// The CSV text that the program carries.
const char* gpu_table_text();

/// All cards, in the file's order.
const std::vector<Gpu>& gpu_catalogue();

/// The card of a name: letters and digits decide, so "h100", "H100-80GB" and "NVIDIA H100 80GB
/// HBM3" are one. Throws Error(usage) naming near matches when none or several different cards fit.
const Gpu& find_gpu(std::string_view name);

/// Note that other cards with this name differ in memory from `gpu`, which find_gpu() has returned
/// for `name`; empty: there are none.
std::string gpu_note(std::string_view name, const Gpu& gpu);

/// A card outside the catalogue, by its total memory.
Gpu unnamed_gpu(int64_t memory_bytes);

}  // namespace plimsoll::hardware
