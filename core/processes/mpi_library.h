// The MPI that started this process, if any: a plug-in (mpi/) that is opened at run time, so that
// one program serves with and without.
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
