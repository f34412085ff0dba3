#include "memory/available.h"

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

using namespace plimsoll;
using memory::available_memory;

namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

/// A root with 64 GiB available, to which files are added.
class FakeRoot {
 public:
  FakeRoot() {
    std::string name = (std::filesystem::temp_directory_path() / "availableXXXXXX").string();
    path_ = mkdtemp(name.data());
    write("proc/meminfo", "MemTotal: 131072000 kB\nMemAvailable:   67108864 kB\n");
  }
  ~FakeRoot() { std::filesystem::remove_all(path_); }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
  }
  /// A group of version 2 with `limit`, of whose `usage` bytes `files` are page cache.
  void group(const std::string& name, const std::string& limit, int64_t usage,
             int64_t files) const {
    write("sys/fs/cgroup" + name + "/memory.max", limit + "\n");
    write("sys/fs/cgroup" + name + "/memory.current", std::to_string(usage) + "\n");
    write("sys/fs/cgroup" + name + "/memory.stat",
          "anon 5\ninactive_file " + std::to_string(files / 2) + "\nactive_file " +
              std::to_string(files - files / 2) + "\n");
  }
  void second_version(const std::string& own_group, const std::string& mounted = "/") const {
    write("proc/self/mountinfo",
          "25 1 0:28 " + mounted + " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
    write("proc/self/cgroup", "0::" + own_group + "\n");
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("what the machine says is available bounds a process outside control groups") {
  const FakeRoot root;
  CHECK(available_memory(root.path()).bytes == 64 * kGiB);
}

TEST_CASE("a machine that tells nothing bounds nothing") {
  CHECK(available_memory("/nonexistent").bytes == std::numeric_limits<int64_t>::max());
}

TEST_CASE("memory.max bounds, and page cache below it counts as free") {
  const FakeRoot root;
  root.second_version("/job/step");
  root.group("/job", std::to_string(8 * kGiB), 6 * kGiB, 4 * kGiB);
  root.group("/job/step", "max", kGiB, 0);
  const memory::Available available = available_memory(root.path());
  CHECK(available.bytes == 6 * kGiB);
  CHECK(available.bound.ends_with("/sys/fs/cgroup/job/memory.max"));
}

TEST_CASE("the tightest of the groups above a process counts") {
  const FakeRoot root;
  root.second_version("/job/step");
  root.group("/job", std::to_string(8 * kGiB), kGiB, 0);
  root.group("/job/step", std::to_string(2 * kGiB), kGiB, 0);
  CHECK(available_memory(root.path()).bytes == kGiB);
}

TEST_CASE("a group over its limit leaves nothing, not less") {
  const FakeRoot root;
  root.second_version("/job");
  root.group("/job", std::to_string(kGiB), 2 * kGiB, 0);
  CHECK(available_memory(root.path()).bytes == 0);
}

TEST_CASE("weights that are larger than what is left are told from a cache that is") {
  const FakeRoot root;
  root.second_version("/job");
  root.group("/job", std::to_string(2 * kGiB), kGiB, 0);
  const size_t gib = kGiB;
  memory::require({.weights = gib / 2, .all = gib}, root.path());
  CHECK_THROWS_WITH(
      memory::require({.weights = gib, .all = gib + 1}, root.path()),
      Catch::Contains("1.00 GiB of this machine's memory are needed, and 1.00 GiB are left (") &&
          Catch::Contains("/job/memory.max)") &&
          Catch::Contains("lower --cpu-kvcache-space, which each rank has for itself, "
                          "--max-num-batched-tokens or --max-model-len"));
  CHECK_THROWS_WITH(memory::require({.weights = gib + 1, .all = gib + 2}, root.path()),
                    Catch::Contains("the weights alone take 1.00 GiB") &&
                        Catch::Contains("take a smaller or a quantized model") &&
                        !Catch::Contains("--cpu-kvcache-space"));
}

TEST_CASE("a container that is mounted alone sees its limit at the top") {
  const FakeRoot root;
  root.group("", std::to_string(4 * kGiB), kGiB, 0);
  struct Row {
    const char* name;
    const char* own_group;
    const char* mounted;
  };
  for (const Row& row : {Row{"with a name space of its own", "/", "/"},
                         Row{"under the host's name", "/docker/a1", "/docker/a1"},
                         Row{"under a name that is not mounted", "/../b", "/docker/a1"}}) {
    INFO(row.name);
    root.second_version(row.own_group, row.mounted);
    CHECK(available_memory(root.path()).bytes == 3 * kGiB);
  }
}

TEST_CASE("version 1 has its limit in the hierarchy of the memory controller") {
  const FakeRoot root;
  root.write("proc/self/mountinfo",
             "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
             "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
             "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  root.write("proc/self/cgroup", "5:cpu,cpuacct:/\n4:memory:/slurm/job_7\n0::/\n");
  const std::string group = "sys/fs/cgroup/memory/slurm/job_7/";
  root.write(group + "memory.limit_in_bytes", std::to_string(3 * kGiB));
  root.write(group + "memory.usage_in_bytes", std::to_string(2 * kGiB));
  root.write(group + "memory.stat", "cache 9\ntotal_inactive_file " + std::to_string(kGiB) + "\n");
  CHECK(available_memory(root.path()).bytes == 2 * kGiB);
  CHECK(available_memory(root.path()).bound.ends_with("job_7/memory.limit_in_bytes"));
}

TEST_CASE("page cache of version 1 counts as free with that of the groups below") {
  const FakeRoot root;
  root.write("proc/self/mountinfo",
             "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  root.write("proc/self/cgroup", "4:memory:/\n");
  const std::string group = "sys/fs/cgroup/memory/";
  root.write(group + "memory.limit_in_bytes", std::to_string(8 * kGiB));
  root.write(group + "memory.usage_in_bytes", std::to_string(6 * kGiB));
  root.write(group + "memory.stat", "inactive_file 7\nactive_file 7\ntotal_inactive_file " +
                                        std::to_string(kGiB) + "\ntotal_active_file " +
                                        std::to_string(2 * kGiB) + "\n");
  CHECK(available_memory(root.path()).bytes == 5 * kGiB);
}

TEST_CASE("page cache is no more than what a group uses, and figures have an end") {
  const FakeRoot root;
  root.second_version("/job");
  root.group("/job", std::to_string(8 * kGiB), kGiB, 4 * kGiB);
  CHECK(available_memory(root.path()).bytes == 8 * kGiB);
  root.group("/job", "max", kGiB, 0);
  CHECK(available_memory(root.path()).bound == "free memory");
  root.write("proc/meminfo", "MemAvailable: 9223372036854775807 kB\n");
  CHECK(available_memory(root.path()).bytes == std::numeric_limits<int64_t>::max());
  root.write("proc/meminfo", "MemAvailable: 9007199254740991 kB\n");  // 2^53 - 1
  CHECK(available_memory(root.path()).bytes == ((int64_t{1} << 53) - 1) * 1024);
}

TEST_CASE("a machine with both versions is bound by the tighter one") {
  const FakeRoot root;
  root.write("proc/self/mountinfo",
             "30 25 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
             "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  root.write("proc/self/cgroup", "4:memory:/job\n0::/job\n");
  for (const auto& [second, first] : {std::pair{2, 3}, std::pair{3, 2}}) {
    const std::string unified = "sys/fs/cgroup/unified/job/", old = "sys/fs/cgroup/memory/job/";
    root.write(unified + "memory.max", std::to_string(second * kGiB));
    root.write(unified + "memory.current", "0");
    root.write(old + "memory.limit_in_bytes", std::to_string(first * kGiB));
    root.write(old + "memory.usage_in_bytes", "0");
    CHECK(available_memory(root.path()).bytes == 2 * kGiB);
  }
}

TEST_CASE("broken files of control groups bound nothing") {
  const FakeRoot root;
  root.second_version("/job");
  root.group("/job", "-5", kGiB, 0);
  CHECK(available_memory(root.path()).bytes == 64 * kGiB);
  root.group("/job", "12x34", -1, 0);
  CHECK(available_memory(root.path()).bytes == 64 * kGiB);
  root.write("proc/self/mountinfo", std::string("\0\n- - -\n1 2\n", 12));
  CHECK(available_memory(root.path()).bytes == 64 * kGiB);
}
