// When the work that streams were given is done.
#pragma once

#include <cstdint>

namespace plimsoll::emulation {

/// at_once: when it is given. when_awaited: not before somebody waits for the stream, an event in
/// it or for everything, so that host memory which is changed or read too early shows in the
/// results.
enum class Streams : uint8_t { at_once, when_awaited };
void set_streams(Streams when);

/// What cudaFree and the like imply.
void finish_all_streams();

}  // namespace plimsoll::emulation
