#include "ptx/machine.h"

#include <algorithm>
#include <stdexcept>

#include "ptx/symbols.h"

namespace plimsoll::ptx {
namespace {

/// What may run as fibers, by parts of mangled names: the tests' own kernels, and FlashInfer's, of
/// whose units a build may have a sample.
constexpr const char* kFibers[] = {"8plimsoll7testing", "12flash_kernel"};

bool may_be_fibers(const std::string& name) {
  return std::ranges::any_of(
      kFibers, [&](const char* part) { return name.find(part) != std::string::npos; });
}

}  // namespace

PtxMachine::PtxMachine(const std::vector<std::string>& texts, Watch watch) : watch_(watch) {
  for (const std::string& text : texts) {
    Module* const module = modules_.emplace_back(std::make_unique<Module>(text)).get();
    for (const std::string& kernel : module->kernels())
      if (!modules_by_kernel_.emplace(kernel, module).second)
        throw std::runtime_error("two files of PTX have the kernel " + kernel);
  }
}

std::vector<std::string> PtxMachine::kernels() const {
  std::vector<std::string> names;
  for (const auto& [name, module] : modules_by_kernel_) names.push_back(name);
  return names;
}

void PtxMachine::write_places(std::ostream& to) const {
  for (const auto& module : modules_)
    for (const auto& [name, code] : module->parsed()) {
      to << code.name;
      for (const Instruction& instruction : code.instructions)
        if (instruction.ran) to << ' ' << instruction.place;
      to << '\n';
    }
}

const Code* PtxMachine::find(const void* function) {
  const auto [known, is_new] = known_.try_emplace(function, nullptr);
  if (!is_new) return known->second;
  const std::string name = symbol_of(function);
  const auto module = modules_by_kernel_.find(name);
  if (module != modules_by_kernel_.end()) {
    ran_.insert(name);
    return known->second = &module->second->code(name);
  }
  if (!may_be_fibers(name)) throw emulation::Misuse("no PTX of " + name);
  return nullptr;
}

std::unique_ptr<emulation::RunningBlock> PtxMachine::start(const emulation::Kernel& kernel,
                                                           emulation::Size3 index,
                                                           emulation::Order order,
                                                           emulation::Previous previous) {
  const Code* const code = find(kernel.function);
  if (code == nullptr) return nullptr;
  return std::make_unique<Block>(*code, kernel, index, order, previous, watch_);
}

}  // namespace plimsoll::ptx
