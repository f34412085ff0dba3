// Runs the kernels whose PTX is there, in the place of the emulator's fibers.
#pragma once

#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "emulation/emulator.h"
#include "ptx/block.h"
#include "ptx/module.h"

namespace plimsoll::ptx {

class PtxMachine final : public emulation::Machine {
 public:
  /// Modules of PTX text. Throws std::runtime_error where two have one kernel.
  PtxMachine(const std::vector<std::string>& texts, Watch watch);
  /// nullptr for the tests' own kernels, and FlashInfer's without PTX. Throws Misuse where another
  /// kernel has none.
  std::unique_ptr<emulation::RunningBlock> start(const emulation::Kernel& kernel,
                                                 emulation::Size3 index, emulation::Order order,
                                                 emulation::Previous previous) override;
  /// Mangled names of the kernels that are there, and of those that ran.
  [[nodiscard]] std::vector<std::string> kernels() const;
  [[nodiscard]] const std::set<std::string>& ran() const { return ran_; }
  /// Writes of each kernel that ran a line: its name in PTX, and where in the file the instructions
  /// begin that ran.
  void write_places(std::ostream& to) const;

 private:
  const Code* find(const void* function);
  std::vector<std::unique_ptr<Module>> modules_;
  std::map<std::string, Module*> modules_by_kernel_;
  std::map<const void*, const Code*> known_;
  std::set<std::string> ran_;
  Watch watch_;
};

}  // namespace plimsoll::ptx
