// The MPI library that started this process, if any: opened at run time through a plug-in (mpi/),
// so that one program runs with and without MPI.
#pragma once

#include <string>
#include <vector>

#include "mpi/plimsoll_mpi.h"

namespace plimsoll::processes {

/// Opens the first of the plug-ins (file names) that is in one of the folders and whose MPI library
/// is there. Throws Error(usage) that says what is missing.
const PlimsollMpi& open_mpi(const std::vector<std::string>& folders,
                            const std::vector<std::string>& names);

}  // namespace plimsoll::processes
