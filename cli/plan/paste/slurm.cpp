// GPUs that a process or a job of Slurm has (sbatch(1), srun(1): --gres, --gpus, --gpus-per-node,
// --nodes).
#include <algorithm>
#include <charconv>

#include "base/split_text.h"
#include "cli/plan/paste/pasted_launch.h"

namespace plimsoll::cli {
namespace {

/// What flags of sbatch and srun ask for; 0: nothing.
struct SlurmNodes {
  int64_t nodes = 1;
  int64_t gpus_per_node = 0, gpus = 0;  // gpus: of all nodes

  /// Reads a flag and its value, "h100:2" and "gpu:h100:2,nvme:1" among them.
  void read(std::string_view flag, std::string_view value) {
    const bool named = flag == "--gres";
    if (named && !value.starts_with("gpu:")) return;
    value = value.substr(0, value.find_first_of(",-"));
    value.remove_prefix(value.rfind(':') + 1);  // npos + 1 is 0
    int64_t count = 0;
    std::from_chars(value.data(), value.data() + value.size(), count);
    constexpr int64_t kMost = 1 << 16;
    if (count < 1 || count > kMost) return;
    if (flag == "--nodes" || flag == "-N") nodes = count;
    if (named || flag == "--gpus-per-node") gpus_per_node = count;
    if (flag == "--gpus" || flag == "-G") gpus = count;
  }

  /// Reads words up to the first that is no flag and no flag's value.
  void read_all(std::span<const std::string> words) {
    for (size_t i = 0; i < words.size() && words[i].starts_with('-'); ++i) {
      const std::string_view word = words[i];
      const size_t equals = word.find('=');
      if (equals != std::string_view::npos) {
        read(word.substr(0, equals), word.substr(equals + 1));
      } else if (i + 1 < words.size() && !words[i + 1].starts_with('-')) {
        read(word, words[++i]);
      }
    }
  }

  void limit(PastedLaunch& launch) const {
    const int64_t all = gpus > 0 ? gpus : gpus_per_node * nodes;
    if (all > 0) limit_gpus(launch, std::to_string(all), false);
  }
};

}  // namespace

void limit_gpus(PastedLaunch& launch, const std::string& text, bool is_list) {
  std::string list = text;
  std::erase_if(list, [](char c) { return c == '"' || c == '\'' || c == ' '; });
  if (list.starts_with("device=")) {
    list = list.substr(list.find('=') + 1);
    is_list = true;
  } else if (list.starts_with("count=")) {
    list = list.substr(list.find('=') + 1);
  }
  if (list.empty() || list == "all" || list == "-1" || list == "void" || list == "none") return;
  int64_t count = 1 + std::ranges::count(list, ',');
  if (!is_list) {
    const auto [end, error] = std::from_chars(list.data(), list.data() + list.size(), count);
    if (error != std::errc() || end != list.data() + list.size() || count < 1) return;
  }
  launch.gpus = std::min(launch.gpus.value_or(count), count);
}

void limit_to_slurm(std::span<const std::string> flags, PastedLaunch& launch) {
  SlurmNodes slurm;
  slurm.read_all(flags);
  slurm.limit(launch);
}

void read_batch_lines(const std::string& text, PastedLaunch& launch) {
  constexpr std::string_view kMark = "#SBATCH";
  SlurmNodes slurm;
  for (std::string_view line : split_text(text, "\n")) {
    if (!line.starts_with(kMark)) continue;
    Words words;
    line.remove_prefix(kMark.size());
    for (const std::string_view word : split_text(line.substr(0, line.find('#')), " \t\r"))
      if (!word.empty()) words.emplace_back(word);
    slurm.read_all(words);
  }
  slurm.limit(launch);
  const auto tell = [&](const char* name, int64_t count) {
    if (count > 0) launch.variables.emplace(name, std::to_string(count));
  };
  const bool by_node = slurm.gpus_per_node > 0;
  tell("SLURM_GPUS_ON_NODE", by_node ? slurm.gpus_per_node : slurm.gpus / slurm.nodes);
  tell("SLURM_GPUS_PER_NODE", slurm.gpus_per_node);
  tell("SLURM_GPUS", slurm.gpus);
}

}  // namespace plimsoll::cli
