#include "memory/available.h"

#include "base/error.h"
#include "base/size_text.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

namespace plimsoll::memory {
namespace {

using std::filesystem::path;
constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

/// A file with one number; nullopt also for "max".
std::optional<int64_t> number_in(const path& file) {
  std::string text;
  std::ifstream(file) >> text;
  return number(text);
}

/// The number behind `key` in lines of "key number" or "key: number kB"; nullopt: no such line.
std::optional<int64_t> number_of(const path& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name, value;
    if (words >> name >> value && name == key) return number(value);
  }
  return std::nullopt;
}

/// The files of a version of control groups.
struct Version {
  std::string_view limit, usage;
  std::vector<std::string_view> droppable;  // of memory.stat
};

const Version kSecond{"memory.max", "memory.current", {"inactive_file", "active_file"}};
const Version kFirst{
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};

void narrow(Available& available, int64_t bytes, const std::string& bound) {
  if (bytes < available.bytes) available = {std::max<int64_t>(bytes, 0), bound};
}

void apply_limit(const path& group, const Version& version, Available& available) {
  const auto limit = number_in(group / version.limit);
  const auto usage = number_in(group / version.usage);
  if (!limit || !usage || *limit < 0 || *usage < 0) return;
  int64_t kept = *usage;
  for (const std::string_view key : version.droppable) {
    kept -= std::clamp<int64_t>(number_of(group / "memory.stat", key).value_or(0), 0, kept);
  }
  narrow(available, *limit - kept, (group / version.limit).string());
}

/// Mount point of a hierarchy of control groups, and the group of it that is seen there.
struct Mount {
  path at, group;
};

bool has_word(const std::string& list, std::string_view word) {
  return ("," + list + ",").find("," + std::string(word) + ",") != std::string::npos;
}

/// The mount of a control group's file system: kind "cgroup2", or "cgroup" with the memory
/// controller.
std::optional<Mount> find_mount(const path& mountinfo, std::string_view kind) {
  std::ifstream in(mountinfo);
  for (std::string line; std::getline(in, line);) {
    // id parent major:minor root mount-point options [tags] - type source super-options
    std::istringstream words(line);
    std::string skipped, group, at, type, options;
    words >> skipped >> skipped >> skipped >> group >> at;
    while (words >> skipped && skipped != "-") {
    }
    if (!(words >> type >> skipped >> options) || type != kind) continue;
    if (kind == "cgroup" && !has_word(options, "memory")) continue;
    return Mount{at, group};
  }
  return std::nullopt;
}

/// This process's group: "0::/path" of version 2, "4:memory:/path" of version 1.
std::optional<path> own_group(const path& cgroup, std::string_view controller) {
  std::ifstream in(cgroup);
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool ours = controller.empty() ? controllers.empty() : has_word(controllers, controller);
    if (ours) return path(line.substr(second + 1));
  }
  return std::nullopt;
}

/// Applies the limits of this process's group and of all above it that can be seen.
void apply_hierarchy(const path& root, std::string_view kind, std::string_view controller,
                     const Version& version, Available& available) {
  const auto mount = find_mount(root / "proc/self/mountinfo", kind);
  const auto group = own_group(root / "proc/self/cgroup", controller);
  if (!mount || !group) return;
  const path top = root / mount->at.relative_path();
  // In a container the group's name may be the host's, and the mount shows the group itself.
  const path below = group->lexically_relative(mount->group);
  const bool visible = !below.empty() && below != "." && *below.begin() != "..";
  if (visible) {
    for (path at = top / below; at != top; at = at.parent_path()) {
      apply_limit(at, version, available);
    }
  }
  apply_limit(top, version, available);
}

}  // namespace

Available available_memory(const path& root) {
  Available available{kUnbounded, "nothing"};
  if (const auto kib = number_of(root / "proc/meminfo", "MemAvailable:")) {
    narrow(available, *kib > kUnbounded / 1024 ? kUnbounded : *kib * 1024, "free memory");
  }
  apply_hierarchy(root, "cgroup2", "", kSecond, available);
  apply_hierarchy(root, "cgroup", "memory", kFirst, available);
  return available;
}

void require(const HostNeed& need, const path& root) {
  const Available available = available_memory(root);
  const auto left = static_cast<uint64_t>(available.bytes);
  if (need.all <= left) return;
  if (need.weights > left) {
    fail(ExitCode::does_not_fit,
         "the weights alone take {} of this machine's memory, and {} are left ({}); take a smaller "
         "or a quantized model, or raise the limit",
         size_text(uint64_t{need.weights}), size_text(left), available.bound);
  }
  fail(ExitCode::does_not_fit,
       "{} of this machine's memory are needed, and {} are left ({}); lower --cpu-kvcache-space, "
       "which each rank has for itself, --max-num-batched-tokens or --max-model-len, or raise the "
       "limit",
       size_text(uint64_t{need.all}), size_text(left), available.bound);
}

}  // namespace plimsoll::memory
