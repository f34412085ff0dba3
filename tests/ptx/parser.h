// From a kernel's text to its code.
#pragma once

#include "ptx/module.h"

namespace plimsoll::ptx {

/// Throws std::runtime_error that names the kernel and what of it is not known.
Code parse(Module& module, const Module::Entry& entry);

}  // namespace plimsoll::ptx
