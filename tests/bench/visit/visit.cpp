// One program of several names, for a visit to a machine with a card: the kernels' code is in it
// once. The name that it is called by says what it is; tests find their data beside it.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "backend/device.h"
#include "bench/visit/names.h"
#include "session.h"
#include "skipped.h"

// The programs' own mains, renamed by visit/CMakeLists.txt.
int plimsoll_main(int argc, char** argv);
int kernels_cuda_main(int argc, char** argv);
int attention_cuda_main();

namespace {

/// Runs the cases, of those that the arguments name, if any.
int run_tests(const std::string& cases, int argc, char** argv) {
  // Ranks that share a device wait for each other in kernels: none may load code meanwhile, and
  // none may stand in the other's queue.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  if (plimsoll::backend::list_devices().empty()) {
    std::puts("skipped: no device");
    return plimsoll::testing::kSkippedStatus;
  }
  std::filesystem::current_path(std::filesystem::read_symlink("/proc/self/exe").parent_path());
  std::vector<std::string> words{argv[0], "-#"};
  int next = 1;
  if (argc > 1 && argv[1][0] != '-') {
    words.push_back(cases + argv[next++]);
  } else {
    words.push_back(cases);
  }
  words.insert(words.end(), argv + next, argv + argc);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  return plimsoll::testing::run_session(static_cast<int>(arguments.size()), arguments.data());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = std::filesystem::path(argv[0]).filename().string();
  if (name == "plimsoll") return plimsoll_main(argc, argv);
  if (name == "kernels_cuda") return kernels_cuda_main(argc, argv);
  if (name == "attention_cuda") return attention_cuda_main();
  const std::string cases = plimsoll::testing::cases_of(name);
  if (!cases.empty()) return run_tests(cases, argc, argv);
  std::fprintf(stderr,
               "%s: call it plimsoll, kernels_cuda, attention_cuda, test_kernels_device or "
               "device_NAME (tests/bench/visit/names.h)\n",
               name.c_str());
  return 2;
}
