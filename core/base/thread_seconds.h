// Processor time.
#pragma once

namespace plimsoll {

/// Seconds that this thread has had a processor.
double thread_seconds();

}  // namespace plimsoll
