// When the work that streams were given is done.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>

namespace plimsoll::emulation {

/// at_once: when it is given. when_awaited: not before somebody waits for the stream, an event in
/// it or for everything, so that host memory which is changed or read too early shows in the
/// results. by_themselves: a thread of the stream's sees to it, as where another process waits for
/// what it does; of streams that are created from then on.
enum class Streams : uint8_t { at_once, when_awaited, by_themselves };
void set_streams(Streams when);

/// While one of the host's threads keeps it no other changes what the runtime knows of memory.
std::unique_lock<std::mutex> host_lock();

/// That the calling thread has chosen.
extern thread_local int device_here;

/// Lets another of the host's threads go on, whose kernels run then.
void hand_turn_on();

/// What cudaFree and the like imply.
void finish_all_streams();
/// A copy of pageable memory by the default stream: cudaMemcpy may return before it has arrived,
/// and streams that do not wait for the default one do not wait for it.
void copy_by_default_stream(std::function<void()> copy);
/// What cudaMemcpy implies: other streams do not wait for the default one, nor it for them.
void finish_default_stream();

}  // namespace plimsoll::emulation
