// The environment, read once.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/find_model.h"

namespace plimsoll::cli {

/// This process among several processes of one job, by the scheduler's variables.
struct JobPlace {
  uint64_t id = 0;                // this process's id, as the scheduler states it
  uint64_t first = 0;             // the least id
  std::optional<uint64_t> count;  // of processes, where the variables say it and ids have no gaps
  std::string variable;           // the variable with the id
};

/// This process among several processes that an MPI launcher started together.
struct MpiPlace {
  int process = 0;
  int count = 1;
  bool first_of_machine = true;  // prints for the processes of its machine
  bool open_mpi = false;         // started by Open MPI's launcher
  std::string variable;          // the variable with the number of processes
};

struct Environment {
  /// HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/...; OLLAMA_MODELS, else ~/.ollama/models; HOME.
  checkpoint::ModelStores stores;
  std::optional<int> threads;                    // OMP_NUM_THREADS, its first number
  std::optional<std::string> kv_cache_space;     // VLLM_CPU_KVCACHE_SPACE, GiB
  std::optional<std::string> layer_partition;    // VLLM_PP_LAYER_PARTITION
  std::optional<int> mm_input_cache;             // VLLM_MM_INPUT_CACHE_GIB
  std::optional<int> allow_long;                 // VLLM_ALLOW_LONG_MAX_MODEL_LEN
  std::optional<int> estimate_graphs;            // VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS
  std::optional<int> flashinfer_sampler;         // VLLM_USE_FLASHINFER_SAMPLER
  std::optional<std::string> attention_backend;  // VLLM_ATTENTION_BACKEND
  std::optional<int> second_engine;              // VLLM_USE_V1
  std::optional<int> second_runner;              // VLLM_USE_V2_MODEL_RUNNER
  std::vector<std::string> unknown;              // other variables of vLLM that may move memory
  std::optional<int64_t> source_date_epoch;      // SOURCE_DATE_EPOCH, seconds
  std::string temporary_folder;                  // TMPDIR
  std::string cache;  // XDG_CACHE_HOME/plimsoll, else ~/.cache/plimsoll; empty: neither is known
  int ranks_per_device = 1;            // PLIMSOLL_RANKS_PER_DEVICE
  std::optional<int64_t> hopper_from;  // PLIMSOLL_HOPPER_FROM, tokens
  std::string nccl;                    // VLLM_NCCL_SO_PATH
  std::optional<int> columns;          // COLUMNS
  std::optional<JobPlace> job_place;   // Kubernetes, Slurm, MPI, torchrun
  std::optional<MpiPlace> mpi;         // mpirun, mpiexec, srun --mpi=pmi2 or pmix
  bool dumb_terminal = false;          // TERM is "dumb" or missing
  /// Message for a user's variable that should hold a number and does not; empty: none.
  std::string fault;
};

/// How plan treats a variable of vLLM.
enum class VllmVariable : uint8_t {
  read,     // it counts
  unmoved,  // it moves no device memory
  unknown,  // it may move some, and plan does not know how much
};
VllmVariable vllm_variable(std::string_view name);

Environment read_environment();
/// Reads the environment for commands that use all of it. Throws Error(usage) with the fault.
Environment read_sound_environment();

/// Time of strftime_now in chat templates, fixed for a whole command: SOURCE_DATE_EPOCH in UTC,
/// else the local time.
std::tm template_time(const Environment& environment);

}  // namespace plimsoll::cli
