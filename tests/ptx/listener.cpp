// Lets a test program's kernels run from PTX, where PLIMSOLL_PTX names a file with the names of
// files of PTX, a line each. Says at the end how many ran, with PLIMSOLL_PTX_NAMES=1 which, and
// writes to the file PLIMSOLL_PTX_PLACES which of their instructions did.
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "ptx/machine.h"

namespace plimsoll::ptx {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> read_units(const std::string& list) {
  std::ifstream lines(list);
  if (!lines) throw std::runtime_error("cannot read " + list);
  std::vector<std::string> texts;
  for (std::string path; std::getline(lines, path);)
    if (!path.empty()) texts.push_back(read_file(path));
  return texts;
}

class PtxListener final : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;
  void testRunStarting(const Catch::TestRunInfo&) override {
    const char* const list = std::getenv("PLIMSOLL_PTX");
    if (list == nullptr) return;
    machine_ = std::make_unique<PtxMachine>(read_units(list), Watch::races);
    emulation::set_machine(machine_.get());
  }
  void testRunEnded(const Catch::TestRunStats&) override {
    if (!machine_) return;
    emulation::set_machine(nullptr);
    const std::vector<std::string> all = machine_->kernels();
    std::printf("%zu of %zu kernels ran from their PTX\n", machine_->ran().size(), all.size());
    if (const char* const places = std::getenv("PLIMSOLL_PTX_PLACES")) {
      std::ofstream file(places);
      machine_->write_places(file);
    }
    if (std::getenv("PLIMSOLL_PTX_NAMES") == nullptr) return;
    for (const std::string& name : all)
      std::printf("%s %s\n", machine_->ran().contains(name) ? "ran" : "did not run", name.c_str());
  }

 private:
  std::unique_ptr<PtxMachine> machine_;
};
CATCH_REGISTER_LISTENER(PtxListener)

}  // namespace
}  // namespace plimsoll::ptx
