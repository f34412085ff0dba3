// When the emulator does the work of streams.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>

namespace plimsoll::emulation {

/// When the work of a stream is done. at_once: when it is enqueued. when_awaited: not before
/// somebody waits for the stream, an event in it or for everything, so that host memory which is
/// changed or read too early shows in the results. by_themselves: in a thread of the stream, as
/// needed where another process waits for its results; for streams that are created from then on.
enum class Streams : uint8_t { at_once, when_awaited, by_themselves };
void set_streams(Streams when);

/// Lock of the runtime's tables of memory, among the host's threads.
std::unique_lock<std::mutex> host_lock();

/// Device that the calling thread has chosen.
extern thread_local int device_here;

/// Lets another of the host's threads run, and its kernels.
void hand_turn_on();

/// Finishes all streams, as cudaFree and the like do implicitly.
void finish_all_streams();
/// A copy of pageable memory by the default stream: cudaMemcpy may return before it has arrived,
/// and streams that do not wait for the default one do not wait for it.
void copy_by_default_stream(std::function<void()> copy);
/// Finishes the default stream, as cudaMemcpy does: other streams do not wait for the default one,
/// nor it for them.
void finish_default_stream();

}  // namespace plimsoll::emulation
