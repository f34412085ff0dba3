#include "processes/mpi_library.h"

#include <dlfcn.h>

#include "base/error.h"

namespace plimsoll::processes {

// Opens the plug-in, which stays open for as long as the process lives. Open MPI opens parts of its
// own that look for its symbols.
const PlimsollMpi& open_mpi(const std::vector<std::string>& folders,
                            const std::vector<std::string>& names) {
  std::string tried;
  for (const std::string& name : names)
    for (const std::string& folder : folders) {
      const std::string file = fmt::format("{}/{}", folder, name);
      void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
      const void* table = library != nullptr ? dlsym(library, PLIMSOLL_MPI_SYMBOL) : nullptr;
      if (table != nullptr) return *static_cast<const PlimsollMpi*>(table);
      const char* reason = dlerror();
      tried += std::string("; ") + (reason != nullptr ? reason : name);
    }
  fail(ExitCode::usage,
       "several processes of one launch talk over MPI, and this program has none that goes with "
       "their launcher: install its library (Open MPI's libopenmpi3, MPICH's libmpich12), or build "
       "with its headers (libopenmpi-dev, libmpich-dev){}",
       tried);
}

}  // namespace plimsoll::processes
