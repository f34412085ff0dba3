// What a run is, in the words of its record: two commands are the same run when these are equal.
#pragma once

#include "base/json.h"
#include "cli/environment.h"
#include "cli/run/device.h"
#include "cli/run/options.h"
#include "cli/run/scan.h"
#include "files/input_file.h"

namespace plimsoll::cli {

/// Everything that answers hang on: input, model, tokenizer, template, resolved parameters,
/// version, instruction set. Neither weights nor a device are touched; of weights, samples are
/// read.
OrderedJson describe_job(const RunOptions& options, const Environment& environment,
                         const DeviceChoice& device, files::InputFile& input,
                         const ScannedInput& scanned);

/// What may differ between lives of one run.
OrderedJson describe_life(const RunOptions& options, const DeviceChoice& device);

}  // namespace plimsoll::cli
