#include "kernels/ranks/nccl_library.h"

#include <dlfcn.h>

#include <map>
#include <mutex>

#include "base/error.h"

namespace plimsoll::kernels {
namespace {

constexpr const char* kCure =
    "install it (pip install nvidia-nccl-cu13, or the system's libnccl2), and name its file in "
    "VLLM_NCCL_SO_PATH where the system does not find it";
/// ncclInvalidArgument, ncclInvalidUsage: two ranks on one GPU, for one.
constexpr int kRefusals[] = {4, 5};

void* open_library(const std::vector<std::string>& names) {
  std::string tried;
  for (const std::string& name : names) {
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const char* reason = dlerror();
    tried += std::string("; ") + (reason != nullptr ? reason : name);
  }
  fail(ExitCode::usage, "NCCL is missing: {}{}", kCure, tried);
}

template <typename Function>
void bind(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) fail(ExitCode::usage, "NCCL's library has no function {}", name);
}

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace

void Nccl::check(int status, const char* call, Comm comm) const {
  if (status == 0) return;
  const char* name = error_string(status);
  const char* more = last_error(comm);
  const std::string said =
      fmt::format("{}: {}{}{}", call, name != nullptr ? name : "failed",
                  more != nullptr && *more != 0 ? ": " : "", more != nullptr ? more : "");
  const bool refused = status == kRefusals[0] || status == kRefusals[1];
  if (refused) fail(ExitCode::usage, "{} (NCCL_DEBUG=INFO says more)", said);
  fail(ExitCode::device_lost,
       "{} (NCCL_DEBUG=INFO says more); finished lines are safe, start again to go on", said);
}

Nccl load_nccl(const std::vector<std::string>& names) {
  void* library = open_library(names);  // for as long as the process lives
  Nccl table;
  int (*version)(int*) = nullptr;
  bind(library, "ncclGetVersion", version);
  bind(library, "ncclGetErrorString", table.error_string);
  if (version(&table.version) != 0 || table.version < Nccl::kLeast) {
    fail(ExitCode::usage, "NCCL {} is too old, {} is the oldest that will do: {}",
         version_text(table.version), version_text(Nccl::kLeast), kCure);
  }
  bind(library, "ncclGetUniqueId", table.unique_id);
  bind(library, "ncclCommInitRankConfig", table.init_rank);
  bind(library, "ncclCommAbort", table.abort);
  bind(library, "ncclGetLastError", table.last_error);
  bind(library, "ncclAllGather", table.all_gather);
  bind(library, "ncclBroadcast", table.broadcast);
  bind(library, "ncclSend", table.send);
  bind(library, "ncclRecv", table.receive);
  bind(library, "ncclGroupStart", table.group_start);
  bind(library, "ncclGroupEnd", table.group_end);
  return table;
}

const Nccl& nccl(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, Nccl> opened;
  const std::lock_guard lock(mutex);
  const auto found = opened.find(name);
  if (found != opened.end()) return found->second;
  const std::vector<std::string> names =
      name.empty() ? std::vector<std::string>{"libnccl.so.2"} : std::vector<std::string>{name};
  return opened.emplace(name, load_nccl(names)).first->second;
}

}  // namespace plimsoll::kernels
