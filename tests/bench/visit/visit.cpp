// One program of several names, for a visit to a machine with a card: the kernels' code is in it
// once. The name that it is called by says what it is; tests find their data beside it.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "backend/device.h"

// The programs' own mains, renamed by visit/CMakeLists.txt.
int plimsoll_main(int argc, char** argv);
int kernels_cuda_main(int argc, char** argv);
int attention_cuda_main();

namespace {

/// Runs the test cases whose file has the tags, of those that the arguments name, if any.
int run_tests(const std::string& tags, int argc, char** argv) {
  if (plimsoll::backend::list_devices().empty()) {
    std::puts("skipped: no device");
    return 0;
  }
  std::filesystem::current_path(std::filesystem::read_symlink("/proc/self/exe").parent_path());
  std::vector<std::string> words{argv[0], "-#"};
  int next = 1;
  if (argc > 1 && argv[1][0] != '-') {
    words.push_back(tags + argv[next++]);
  } else {
    words.push_back(tags);
  }
  words.insert(words.end(), argv + next, argv + argc);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  return Catch::Session().run(static_cast<int>(arguments.size()), arguments.data());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = std::filesystem::path(argv[0]).filename().string();
  if (name == "plimsoll") return plimsoll_main(argc, argv);
  if (name == "kernels_cuda") return kernels_cuda_main(argc, argv);
  if (name == "attention_cuda") return attention_cuda_main();
  if (name == "device_models") return run_tests("[#models]", argc, argv);
  if (name == "device_engine") return run_tests("[#engine]", argc, argv);
  if (name == "test_kernels_device") return run_tests("~[#models]~[#engine]", argc, argv);
  std::fprintf(stderr,
               "%s: call it plimsoll, test_kernels_device, device_models, device_engine, "
               "kernels_cuda or attention_cuda\n",
               name.c_str());
  return 2;
}
