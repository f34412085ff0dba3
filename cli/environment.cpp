#include "cli/environment.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/trim.h"
#include "cli/backend_variable.h"

namespace plimsoll::cli {
namespace {

// Empty counts as unset.
std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) return std::nullopt;
  return value;
}

// The number at the beginning of a variable that a launcher or a terminal sets; nonsense counts as
// unset.
template <typename Integer>
std::optional<Integer> number(const char* name, Integer least) {
  const std::optional<std::string> text = variable(name);
  if (!text) return std::nullopt;
  Integer value{};
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || value < least) return std::nullopt;
  return value;
}

// How a variable that a user sets is read: one number, or the first of a list. Nonsense is a fault.
enum class Form : uint8_t { number, list };

template <typename Integer>
std::optional<Integer> setting(const char* name, Integer least, std::string& fault,
                               Form form = Form::number,
                               Integer most = std::numeric_limits<Integer>::max()) {
  const std::optional<std::string> text = variable(name);
  if (!text) return std::nullopt;
  const std::string_view first =
      trimmed(std::string_view(*text).substr(0, form == Form::list ? text->find(',') : text->npos),
              " \t\n");
  const char* const last = first.data() + first.size();
  Integer value{};
  const auto [end, error] = std::from_chars(first.data(), last, value);
  if (error == std::errc() && end == last && value >= least && value <= most) return value;
  fault = fmt::format("{}={}: expected a whole number from {} to {}; correct it or unset it", name,
                      *text, least, most);
  return std::nullopt;
}

/// The folder below which programs keep caches.
std::optional<std::string> user_cache() {
  if (auto cache = variable("XDG_CACHE_HOME")) return cache;
  if (const auto home = variable("HOME")) return *home + "/.cache";
  return std::nullopt;
}

std::string hub_cache() {
  if (const auto folder = variable("HF_HUB_CACHE")) return *folder;
  if (const auto home = variable("HF_HOME")) return *home + "/hub";
  return user_cache().value_or("/.cache") + "/huggingface/hub";
}

std::string own_cache() {
  const auto cache = user_cache();
  return cache ? *cache + "/plimsoll" : "";
}

std::string ollama_store() {
  if (const auto folder = variable("OLLAMA_MODELS")) return *folder;
  const auto home = variable("HOME");
  return home ? *home + "/.ollama/models" : "";
}

// A Slurm array's ids may begin anywhere, and may have gaps.
std::optional<JobPlace> array_place() {
  const auto id = number<uint64_t>("SLURM_ARRAY_TASK_ID", 0);
  if (!id) return std::nullopt;
  JobPlace place{.id = *id, .first = 0, .count = {}, .variable = "SLURM_ARRAY_TASK_ID"};
  const auto least = number<uint64_t>("SLURM_ARRAY_TASK_MIN", 0);
  const auto most = number<uint64_t>("SLURM_ARRAY_TASK_MAX", 0);
  const auto count = number<uint64_t>("SLURM_ARRAY_TASK_COUNT", 1);
  if (least && most && count && *most - *least + 1 == *count) {
    place.first = *least;
    place.count = *count;
  }
  return place;
}

std::optional<JobPlace> job_place(std::string& fault) {
  if (const auto index = number<uint64_t>("JOB_COMPLETION_INDEX", 0)) {
    // Kubernetes does not say how many; the pod's template may.
    return JobPlace{.id = *index,
                    .first = 0,
                    .count = setting<uint64_t>("JOB_COMPLETIONS", 1, fault),
                    .variable = "JOB_COMPLETION_INDEX"};
  }
  if (auto place = array_place()) return place;
  static constexpr std::pair<const char*, const char*> kRanks[] = {
      {"SLURM_PROCID", "SLURM_NTASKS"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
      {"PMI_RANK", "PMI_SIZE"},
      {"RANK", "WORLD_SIZE"}};
  for (const auto& [rank, size] : kRanks) {
    const auto id = number<uint64_t>(rank, 0);
    const auto count = number<uint64_t>(size, 1);
    if (id && count) return JobPlace{.id = *id, .first = 0, .count = count, .variable = rank};
  }
  return std::nullopt;
}

// Slurm alone, without an MPI's protocol, starts processes that do not know of each other.
std::optional<MpiPlace> mpi_place() {
  static constexpr std::tuple<const char*, const char*, const char*> kPlaces[] = {
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
      {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
      {"PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"}};
  for (const auto& [rank, size, near] : kPlaces) {
    const auto process = number<int>(rank, 0);
    const auto count = number<int>(size, 1);
    if (!process || !count) continue;
    return MpiPlace{*process, *count, number<int>(near, 0).value_or(0) == 0,
                    std::string_view(rank).starts_with("OMPI"), size};
  }
  return std::nullopt;
}

constexpr std::string_view kReadVariables[] = {"VLLM_ALLOW_LONG_MAX_MODEL_LEN",
                                               "VLLM_CPU_KVCACHE_SPACE",
                                               "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
                                               "VLLM_MM_INPUT_CACHE_GIB",
                                               "VLLM_PP_LAYER_PARTITION",
                                               "VLLM_USE_FLASHINFER_SAMPLER",
                                               "VLLM_USE_V1",
                                               "VLLM_USE_V2_MODEL_RUNNER"};
/// Families of them by their beginning.
constexpr std::string_view kUnmovedVariables[] = {
    "VLLM_API_KEY",         "VLLM_AUDIO_FETCH",  "VLLM_CACHE",          "VLLM_CONFIG",
    "VLLM_DEBUG",           "VLLM_DO_NOT_TRACK", "VLLM_ENABLE_V1_MULT", "VLLM_ENGINE",
    "VLLM_HOST_IP",         "VLLM_HTTP",         "VLLM_IMAGE_FETCH",    "VLLM_LOG",
    "VLLM_NCCL_SO_PATH",    "VLLM_NO_USAGE",     "VLLM_PORT",           "VLLM_RPC",
    "VLLM_SERVER",          "VLLM_TRACE",        "VLLM_USE_MODELSCOPE", "VLLM_VIDEO_FETCH",
    "VLLM_WORKER_MULTIPROC"};

/// Names of this process's variables of vLLM that plan does not know.
std::vector<std::string> unknown_variables() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (name.starts_with("VLLM_") && vllm_variable(name) == VllmVariable::unknown)
      names.emplace_back(name);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

VllmVariable vllm_variable(std::string_view name) {
  if (std::ranges::find(kReadVariables, name) != std::end(kReadVariables))
    return VllmVariable::read;
  const bool unmoved =
      std::ranges::any_of(kUnmovedVariables, [&](auto known) { return name.starts_with(known); });
  return unmoved ? VllmVariable::unmoved : VllmVariable::unknown;
}

Environment read_environment() {
  Environment environment;
  environment.stores = {hub_cache(), ollama_store(), variable("HOME").value_or("")};
  environment.threads = setting<int>("OMP_NUM_THREADS", 1, environment.fault, Form::list);
  environment.kv_cache_space = variable("VLLM_CPU_KVCACHE_SPACE");
  environment.layer_partition = variable("VLLM_PP_LAYER_PARTITION");
  environment.mm_input_cache = setting<int>("VLLM_MM_INPUT_CACHE_GIB", 0, environment.fault);
  environment.allow_long = setting<int>("VLLM_ALLOW_LONG_MAX_MODEL_LEN", 0, environment.fault);
  environment.estimate_graphs =
      setting<int>("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", 0, environment.fault);
  environment.flashinfer_sampler =
      setting<int>("VLLM_USE_FLASHINFER_SAMPLER", 0, environment.fault);
  environment.attention_backend = variable(kBackendVariable);
  environment.second_engine = setting<int>("VLLM_USE_V1", 0, environment.fault);
  environment.second_runner = setting<int>("VLLM_USE_V2_MODEL_RUNNER", 0, environment.fault);
  environment.unknown = unknown_variables();
  environment.source_date_epoch = setting<int64_t>("SOURCE_DATE_EPOCH", 0, environment.fault);
  environment.ranks_per_device =
      setting<int>("PLIMSOLL_RANKS_PER_DEVICE", 1, environment.fault, Form::number, 8)
          .value_or(environment.ranks_per_device);
  environment.hopper_from = setting<int64_t>("PLIMSOLL_HOPPER_FROM", 0, environment.fault);
  environment.nccl = variable("VLLM_NCCL_SO_PATH").value_or("");
  environment.temporary_folder = variable("TMPDIR").value_or("");
  environment.cache = own_cache();
  environment.job_place = job_place(environment.fault);
  environment.mpi = mpi_place();
  environment.columns = number<int>("COLUMNS", 1);
  environment.dumb_terminal = variable("TERM").value_or("dumb") == "dumb";
  return environment;
}

Environment read_sound_environment() {
  Environment environment = read_environment();
  if (!environment.fault.empty()) throw Error(ExitCode::usage, environment.fault);
  return environment;
}

std::tm template_time(const Environment& environment) {
  std::tm fields{};
  if (environment.source_date_epoch) {
    const std::time_t epoch = *environment.source_date_epoch;
    gmtime_r(&epoch, &fields);
  } else {
    const std::time_t now = std::time(nullptr);
    localtime_r(&now, &fields);
  }
  return fields;
}

}  // namespace plimsoll::cli
