// Variables of the environment, and the signals that it lets through.
#include "cli/environment.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <vector>

#include "base/error.h"
#include "cli/host_limits.h"
#include "cli/own_arguments.h"
#include "cli/signals.h"
#include "cli/variable.h"

using namespace plimsoll::cli;
using plimsoll::testing::Variable;

namespace {

enum class Before : uint8_t { usual, ignored };

/// Whether a process asks itself to stop at a signal that was ignored or not when it began.
bool stops_at(int number, Before before) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(number, before == Before::ignored ? SIG_IGN : SIG_DFL);
    const SignalFlags& flags = install_signal_handlers();
    raise(number);
    _exit(flags.stop ? 1 : 0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status) == 1;
}

}  // namespace

TEST_CASE("OMP_NUM_THREADS counts from 1 on: the first number of its list; none is unset") {
  struct Row {
    const char* value;
    std::optional<int> threads;
  };
  for (const Row& row : {Row{"3", 3}, {"1", 1}, {"4,2", 4}, {" 4 , 2", 4}, {"", std::nullopt}}) {
    INFO("OMP_NUM_THREADS=" << row.value);
    const Variable threads("OMP_NUM_THREADS", row.value);
    CHECK(read_environment().threads == row.threads);
  }
}

TEST_CASE("a variable that holds no number is refused by name, with what it should be") {
  struct Row {
    const char* name;
    const char* value;
    const char* expected;
  };
  const Row rows[] = {
      {"OMP_NUM_THREADS", "many", "from 1 to 2147483647"},
      {"OMP_NUM_THREADS", "0", "from 1 to 2147483647"},
      {"OMP_NUM_THREADS", "-2", "from 1 to 2147483647"},
      {"OMP_NUM_THREADS", "4x", "from 1 to 2147483647"},
      {"OMP_NUM_THREADS", "99999999999", "from 1 to 2147483647"},
      {"VLLM_MM_INPUT_CACHE_GIB", "four", "from 0 to 2147483647"},
      {"VLLM_MM_INPUT_CACHE_GIB", "1.5", "from 0 to 2147483647"},
      {"VLLM_MM_INPUT_CACHE_GIB", "4,2", "from 0 to 2147483647"},
      {"SOURCE_DATE_EPOCH", "2026-11-22", "from 0 to 9223372036854775807"},
      {"JOB_COMPLETIONS", "ten", "from 1 to 18446744073709551615"},
  };
  const Variable index("JOB_COMPLETION_INDEX", "3");
  for (const Row& row : rows) {
    const Variable variable(row.name, row.value);
    const std::string message = std::string(row.name) + "=" + row.value +
                                ": expected a whole number " + row.expected +
                                "; correct it or unset it";
    CHECK_THROWS_MATCHES(read_sound_environment(), plimsoll::Error, Catch::Message(message));
    CHECK(read_environment().fault == message);
  }
}

TEST_CASE("a scheduler's variables say which part of a job this is, and of how many") {
  using Variables = std::map<std::string, const char*>;
  struct Row {
    const char* name;
    Variables variables;
    std::optional<JobPlace> place;
  };
  constexpr const char* kArray = "SLURM_ARRAY_TASK_ID";
  constexpr const char* kLeast = "SLURM_ARRAY_TASK_MIN";
  constexpr const char* kMost = "SLURM_ARRAY_TASK_MAX";
  constexpr const char* kCount = "SLURM_ARRAY_TASK_COUNT";
  const auto array = [&](const char* id, const char* least, const char* most, const char* count) {
    return Variables{{kArray, id}, {kLeast, least}, {kMost, most}, {kCount, count}};
  };
  const Row rows[] = {
      {"no scheduler", {}, std::nullopt},
      {"--array=1-4", array("3", "1", "4", "4"), JobPlace{3, 1, 4, kArray}},
      {"--array=0-0", array("0", "0", "0", "1"), JobPlace{0, 0, 1, kArray}},
      {"--array=1-9:2 has gaps", array("5", "1", "9", "5"), JobPlace{5, 0, {}, kArray}},
      {"--array=0,2 has one gap", array("2", "0", "2", "2"), JobPlace{2, 0, {}, kArray}},
      {"an array without bounds", array("2", "", "", ""), JobPlace{2, 0, {}, kArray}},
      {"an array of jobs of several ranks",
       {{kArray, "1"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}},
       JobPlace{1, 0, {}, kArray}},
      {"srun", {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}}, JobPlace{1, 0, 2, "SLURM_PROCID"}},
      {"srun without a number of tasks", {{"SLURM_PROCID", "1"}}, std::nullopt},
      {"Kubernetes", {{"JOB_COMPLETION_INDEX", "2"}}, JobPlace{2, 0, {}, "JOB_COMPLETION_INDEX"}},
      {"Kubernetes, the number in the pod's template",
       {{"JOB_COMPLETION_INDEX", "2"}, {"JOB_COMPLETIONS", "5"}},
       JobPlace{2, 0, 5, "JOB_COMPLETION_INDEX"}},
      {"Open MPI",
       {{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}},
       JobPlace{3, 0, 4, "OMPI_COMM_WORLD_RANK"}},
      {"MPICH", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, JobPlace{0, 0, 2, "PMI_RANK"}},
      {"torchrun", {{"RANK", "6"}, {"WORLD_SIZE", "8"}}, JobPlace{6, 0, 8, "RANK"}}};
  Variables unset;  // empty counts as unset
  for (const Row& row : rows) {
    for (const auto& [name, value] : row.variables) unset[name] = "";
  }
  for (const Row& row : rows) {
    INFO(row.name);
    Variables all = row.variables;
    all.insert(unset.begin(), unset.end());
    std::list<Variable> variables;
    for (const auto& [name, value] : all) variables.emplace_back(name.c_str(), value);
    const std::optional<JobPlace> place = read_environment().job_place;
    REQUIRE(place.has_value() == row.place.has_value());
    if (!place) continue;
    CHECK(place->id == row.place->id);
    CHECK(place->first == row.place->first);
    CHECK(place->count == row.place->count);
    CHECK(place->variable == row.place->variable);
  }
}

TEST_CASE("each launcher's own variables say which process of an MPI launch this is") {
  using Variables = std::map<std::string, const char*>;
  const Variables of_open_mpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                                 {"OMPI_COMM_WORLD_SIZE", "4"},
                                 {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}};
  const Variables of_mpich = {{"PMI_RANK", "3"}, {"PMI_SIZE", "5"}, {"MPI_LOCALRANKID", "0"}};
  // A step of a job may have fewer tasks than the job.
  const Variables of_slurm = {{"PMIX_RANK", "2"},
                              {"SLURM_STEP_NUM_TASKS", "6"},
                              {"SLURM_NTASKS", "12"},
                              {"SLURM_LOCALID", "2"}};
  const auto place_with = [&](const std::vector<Variables>& given) {
    Variables all;
    for (const Variables& one : given) all.insert(one.begin(), one.end());
    for (const Variables& one : {of_open_mpi, of_mpich, of_slurm})
      for (const auto& [name, value] : one) all.insert({name, ""});  // counts as unset
    std::list<Variable> variables;
    for (const auto& [name, value] : all) variables.emplace_back(name.c_str(), value);
    return read_environment().mpi;
  };
  CHECK_FALSE(place_with({}).has_value());
  struct Row {
    std::vector<Variables> given;
    int process, count;
    bool first_of_machine, open_mpi;
    const char* variable;
  };
  for (const Row& row : {Row{{of_open_mpi}, 3, 4, false, true, "OMPI_COMM_WORLD_SIZE"},
                         Row{{of_mpich}, 3, 5, true, false, "PMI_SIZE"},
                         Row{{of_slurm}, 2, 6, false, false, "SLURM_STEP_NUM_TASKS"},
                         Row{{of_slurm, of_open_mpi}, 3, 4, false, true, "OMPI_COMM_WORLD_SIZE"}}) {
    INFO(row.variable);
    const auto place = place_with(row.given);
    REQUIRE(place.has_value());
    CHECK(place->process == row.process);
    CHECK(place->count == row.count);
    CHECK(place->first_of_machine == row.first_of_machine);
    CHECK(place->open_mpi == row.open_mpi);
    CHECK(place->variable == row.variable);
  }
}

TEST_CASE("a cache of 0 GiB is one, a terminal of 0 columns, or of no number, is none") {
  const Variable cache("VLLM_MM_INPUT_CACHE_GIB", "0");
  CHECK(read_environment().mm_input_cache == 0);
  for (const char* none : {"0", "wide"}) {
    const Variable columns("COLUMNS", none);
    CHECK_FALSE(read_environment().columns.has_value());
  }
  const Variable columns("COLUMNS", "133");
  CHECK(read_environment().columns == 133);
}

TEST_CASE("a signal stops the run, unless who started it had it ignored: nohup, background jobs") {
  for (const int number : {SIGHUP, SIGINT, SIGTERM}) {
    INFO(strsignal(number));
    CHECK(stops_at(number, Before::usual));
    CHECK_FALSE(stops_at(number, Before::ignored));
  }
}

TEST_CASE("kept images leave as much again of the host's memory") {
  constexpr size_t kGiB = size_t{1} << 30;
  CHECK(kept_image_bytes(4 * kGiB, 20 * kGiB, 10 * kGiB) == 4 * kGiB);
  CHECK(kept_image_bytes(4 * kGiB, 13 * kGiB, 10 * kGiB) == 3 * kGiB / 2);
  CHECK(kept_image_bytes(4 * kGiB, 9 * kGiB, 10 * kGiB) == 0);
  CHECK(kept_image_bytes(0, 9 * kGiB, 0) == 0);
  CHECK(kept_image_bytes(4 * kGiB, -1, 0) == 0);
}

TEST_CASE("where Hopper's kernels begin is a number of tokens") {
  const auto with = [](const char* value) {
    const Variable variable("PLIMSOLL_HOPPER_FROM", value);
    return read_environment();
  };
  CHECK_FALSE(read_environment().hopper_from);
  CHECK(with("0").hopper_from == 0);
  CHECK(with("4096").hopper_from == 4096);
  CHECK_THAT(with("off").fault, Catch::Contains("PLIMSOLL_HOPPER_FROM=off: expected"));
}

TEST_CASE("NCCL's library is where vLLM's variable says") {
  CHECK(read_environment().nccl.empty());
  const Variable variable("VLLM_NCCL_SO_PATH", "/opt/libnccl.so.2");
  CHECK(read_environment().nccl == "/opt/libnccl.so.2");
}

TEST_CASE("the hub's cache is where its own variable says, before all of Hugging Face's") {
  const Variable none("HF_HUB_CACHE", "");
  const Variable home("HF_HOME", "/data/hf");
  CHECK(read_environment().stores.hub == "/data/hf/hub");
  const Variable hub("HF_HUB_CACHE", "/models");
  CHECK(read_environment().stores.hub == "/models");
}

TEST_CASE("temporary files are where TMPDIR says") {
  const Variable variable("TMPDIR", "/scratch/7");
  CHECK(read_environment().temporary_folder == "/scratch/7");
}

TEST_CASE("ranks that share a card are a small number") {
  const auto with = [](const char* value) {
    const Variable variable("PLIMSOLL_RANKS_PER_DEVICE", value);
    return read_environment();
  };
  CHECK(read_environment().ranks_per_device == 1);
  CHECK(with("").ranks_per_device == 1);
  CHECK(with("4").ranks_per_device == 4);
  for (const std::string wrong : {"0", "9", "two", "2x", "-1"}) {
    CHECK_THAT(with(wrong.c_str()).fault, Catch::Contains("PLIMSOLL_RANKS_PER_DEVICE=" + wrong +
                                                          ": expected a whole number from 1 to 8"));
  }
}

TEST_CASE("what a flag says counts before the variable that says it too") {
  Environment environment;
  environment.mm_input_cache = 7;
  environment.flashinfer_sampler = 1;
  environment.attention_backend = "FLASH_ATTN";
  plimsoll::launch::LaunchRequest flags;
  flags.args.version = {0, 14, 0};  // later ones have no variable for the backend
  plimsoll::vllm::EngineArgs args = with_variables(flags, environment);
  CHECK(args.processor_cache_gib == 7);
  CHECK(args.flashinfer_sampler == true);
  CHECK(args.attention_backend == "FLASH_ATTN");
  flags.processor_cache_gib = 2.5;
  flags.args.processor_cache_gib = 2.5;
  flags.args.flashinfer_sampler = false;
  flags.args.attention_backend = "FLASHINFER";
  args = with_variables(flags, environment);
  CHECK(args.processor_cache_gib == 2.5);
  CHECK(args.flashinfer_sampler == false);
  CHECK(args.attention_backend == "FLASHINFER");
}
