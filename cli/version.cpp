#include "cli/version.h"

#include <fmt/format.h>

#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "cli/build_info.h"

namespace plimsoll::cli {
namespace {

std::string instruction_sets() {
  using backend::CpuIsa;
  std::vector<std::string_view> usable;
  for (const CpuIsa isa : {CpuIsa::portable, CpuIsa::avx2, CpuIsa::avx512, CpuIsa::avx512bf16}) {
    if (backend::has_isa(isa)) usable.push_back(backend::isa_name(isa));
  }
  return fmt::format("{}; chosen here: {}", fmt::join(usable, ", "),
                     backend::isa_name(backend::detect_isa()));
}

}  // namespace

std::string version_text(std::string_view commit) {
  return fmt::format(
      "plimsoll {}\n"
      "commit            {}\n"
      "compiler          {}\n"
      "instruction sets  {}\n"
      "CUDA              {}\n"
      "libraries         {}\n",
      PLIMSOLL_VERSION, commit, kBuildInfo.compiler, instruction_sets(), kBuildInfo.cuda,
      kBuildInfo.libraries);
}

std::string build_name(std::string_view commit) {
  return fmt::format("{}, commit {}", PLIMSOLL_VERSION, commit);
}

}  // namespace plimsoll::cli
