// The cards that `plan` is asked about.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "cli/plan/parts.h"

namespace plimsoll::cli {
namespace {

namespace fs = std::filesystem;

/// The card of a Linux machine with NVIDIA's driver, by the name that the driver gives it.
std::string present_gpu() {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc/driver/nvidia/gpus", error)) {
    std::ifstream file(entry.path() / "information");
    for (std::string line; std::getline(file, line);) {
      constexpr std::string_view kModel = "Model:";
      if (line.compare(0, kModel.size(), kModel) == 0) {
        return line.substr(line.find_first_not_of(" \t", kModel.size()));
      }
    }
  }
  fail(ExitCode::usage,
       "--gpu auto: no NVIDIA device is present; name a card, `--gpu list` prints them");
}

}  // namespace

std::optional<hardware::Gpu> choose_gpu(const PlanOptions& options) {
  if (options.gpu.find(',') != std::string::npos) {
    if (options.engine == "llamacpp") {
      fail(ExitCode::usage,
           "--gpu {}: cards of several kinds need the model as GGUF; name a GGUF file, or say by "
           "--gguf-type what the model is to be converted to",
           options.gpu);
    }
    fail(ExitCode::usage,
         "--gpu {}: cards of several kinds go with --engine llamacpp alone; name one, and say by "
         "--gpus how many",
         options.gpu);
  }
  if (options.gpu_total_memory) {
    if (options.gpu == "smallest") {
      fail(ExitCode::usage,
           "--gpu-total-memory: --gpu smallest chooses among the catalogue's cards; give one of "
           "the two");
    }
    hardware::Gpu gpu = hardware::unnamed_gpu(*options.gpu_total_memory);
    if (!options.gpu.empty() && options.gpu != "auto") {
      gpu = hardware::find_gpu(options.gpu);
      gpu.memory_bytes = *options.gpu_total_memory;
      gpu.cuda_bytes = 0;
    }
    return gpu;
  }
  if (options.gpu.empty() || options.gpu == "smallest") return std::nullopt;
  hardware::Gpu gpu = hardware::find_gpu(options.gpu == "auto" ? present_gpu() : options.gpu);
  if (gpu.memory_bytes == 0) {
    fail(ExitCode::usage,
         "--gpu {}: the memory of {} is not known; say it with --gpu-total-memory SIZE",
         options.gpu, gpu.name);
  }
  return gpu;
}

void check_searched_card(const hardware::Gpu* gpu) {
  if (gpu == nullptr)
    fail(ExitCode::usage, "--gpus auto: name the card too, --gpu NAME (--gpu list prints them)");
}

}  // namespace plimsoll::cli
