// Identity of a run, stored in its record: two commands are one run when these are equal.
#pragma once

#include "base/json.h"
#include "cli/environment.h"
#include "cli/run/device.h"
#include "cli/run/options.h"
#include "cli/run/scan.h"
#include "files/input_file.h"

namespace plimsoll::cli {

/// Describes everything that answers depend on: input, model, tokenizer, template, resolved
/// parameters, version, instruction set. Neither loads weights nor touches a device; samples of the
/// weights' files are read.
OrderedJson describe_job(const RunOptions& options, const Environment& environment,
                         const DeviceChoice& device, files::InputFile& input,
                         const ScannedInput& scanned);

/// Describes what may differ between the processes of one run, such as its threads and device.
OrderedJson describe_life(const RunOptions& options, const DeviceChoice& device);

}  // namespace plimsoll::cli
