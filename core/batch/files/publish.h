// `run --publish PATH`: publishes the lines that a stopped run has finished.
#pragma once

#include <string>

#include "batch/files/manifest.h"

namespace plimsoll::batch {

struct Published {
  Manifest manifest;     // with the counts
  bool in_order = true;  // the input was there as it had been
  uint64_t dropped_bytes = 0;
};

/// The records that PATH.part holds become PATH, in the order of the input where that is still
/// there as it was, else in the order of their completion. What is published already stays. Throws
/// Error(foreign_output) when there is nothing to publish.
Published publish_what_is_there(const std::string& path);

}  // namespace plimsoll::batch
