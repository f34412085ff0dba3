// Processor time.
#pragma once

namespace plimsoll {

/// Processor time of this thread in seconds.
double thread_seconds();

}  // namespace plimsoll
