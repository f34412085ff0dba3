// Streams, events and graphs of the emulator.
#include "emulation/streams.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "cuda_runtime.h"

namespace plimsoll::emulation {

/// Something that a stream does: a kernel, or anything else.
struct Work {
  std::function<void()> other;
  Kernel kernel;

  void run(KernelQueue& kernels) const {
    if (!other) return kernels.run(kernel);
    kernels.finish();
    other();
  }
};

struct Graph {
  std::vector<Work> work;
};
struct GraphExec {
  std::vector<Work> work;
};
struct Stream {
  int device = 0;
  std::unique_ptr<Graph> capture;
  KernelQueue kernels;
  std::deque<Work> waiting;
  uint64_t given = 0;
  uint64_t done = 0;
  bool busy = false;  // one of its kernels runs, and may have handed the turn on
  std::jthread driver;
};
struct Event {
  int device = 0;
  std::chrono::steady_clock::time_point time;
  Stream* stream = nullptr;  // where it was recorded last
  uint64_t after = 0;        // as many pieces of work as that stream had been given by then
};

namespace {

/// A lock of the host's threads, which may all have work: one at a time has its turn, and can give
/// it to another amid a kernel.
class Turn {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [&] { return depth_ == 0 || owner_ == std::this_thread::get_id(); });
    owner_ = std::this_thread::get_id();
    ++depth_;
  }
  void unlock() {
    const std::lock_guard lock(mutex_);
    if (--depth_ == 0) freed_.notify_one();
  }
  /// Another thread that waits for its turn has one before this one goes on.
  void send_hidden() {
    const int depth = std::exchange(depth_, 1);
    unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(1));
    lock();
    depth_ = depth;
  }

 private:
  std::mutex mutex_;
  std::condition_variable freed_;
  std::thread::id owner_;
  int depth_ = 0;
};
Turn mutex;
Streams streams_are = Streams::at_once;
std::set<Stream*> streams;
KernelQueue default_kernels;
std::deque<std::function<void()>> default_copies;

/// A stream's work is under way.
class Busy {
 public:
  explicit Busy(Stream& stream) : stream_(stream) {
    while (stream.busy) mutex.send_hidden();
    stream.busy = true;
  }
  ~Busy() { stream_.busy = false; }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  Stream& stream_;
};

void finish(Stream& stream, uint64_t until) {
  const std::lock_guard lock(mutex);
  const Busy busy(stream);
  while (stream.done < until && !stream.waiting.empty()) {
    const Work work = std::move(stream.waiting.front());
    stream.waiting.pop_front();
    ++stream.done;
    work.run(stream.kernels);
  }
  stream.kernels.finish();
}

int waiting_kernels = 0;  // for those of other streams

void drive(const std::stop_token& stop, Stream* stream) {
  while (!stop.stop_requested()) {
    {
      const std::lock_guard lock(mutex);
      const bool goes_on = waiting_kernels > 0 || streams_are == Streams::by_themselves;
      if (goes_on && !stream->busy) finish(*stream, stream->given);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

bool alive(Stream* stream) {
  return streams.contains(stream);
}

}  // namespace

// A device goes on by itself, whatever the host's threads do: each stream has a thread that sees to
// that while kernels wait for those of others.
void hand_turn_on() {
  for (Stream* stream : streams) {
    if (!stream->driver.joinable()) stream->driver = std::jthread(drive, stream);
  }
  ++waiting_kernels;
  mutex.send_hidden();
  --waiting_kernels;
}

std::unique_lock<std::mutex> host_lock() {
  static std::mutex calls;
  return std::unique_lock(calls);
}

void set_streams(Streams when) {
  finish_all_streams();
  streams_are = when;
}

void finish_all_streams() {
  const std::lock_guard lock(mutex);
  finish_default_stream();
  for (Stream* stream : streams) finish(*stream, stream->given);
}

void finish_default_stream() {
  const std::lock_guard lock(mutex);
  default_kernels.finish();
  for (; !default_copies.empty(); default_copies.pop_front()) default_copies.front()();
}

void copy_by_default_stream(std::function<void()> copy) {
  const std::lock_guard lock(mutex);
  finish_default_stream();
  if (streams_are == Streams::at_once) return copy();
  default_copies.push_back(std::move(copy));
}

namespace {

void submit_work(cudaStream_t stream, Work work) {
  const std::lock_guard lock(mutex);
  if (stream != nullptr && stream->capture) {
    return stream->capture->work.push_back(std::move(work));
  }
  if (stream == nullptr) {
    for (; !default_copies.empty(); default_copies.pop_front()) default_copies.front()();
    return work.run(default_kernels);
  }
  if (streams_are == Streams::at_once) {
    const Busy busy(*stream);
    return work.run(stream->kernels);
  }
  ++stream->given;
  stream->waiting.push_back(std::move(work));
}

}  // namespace

cudaError_t check_device(cudaStream_t stream) {
  const bool here = stream == nullptr || stream->device == device_here;
  return here ? cudaSuccess : cudaErrorInvalidValue;
}

void submit(cudaStream_t stream, std::function<void()> work) {
  submit_work(stream, {.other = std::move(work), .kernel = {}});
}

void submit(cudaStream_t stream, Kernel kernel) {
  submit_work(stream, {.other = {}, .kernel = std::move(kernel)});
}

}  // namespace plimsoll::emulation

using namespace plimsoll::emulation;

cudaError_t cudaDeviceSynchronize() {
  finish_all_streams();
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const std::lock_guard lock(mutex);
  *stream = new Stream;
  (*stream)->device = device_here;
  streams.insert(*stream);
  if (streams_are == Streams::by_themselves) (*stream)->driver = std::jthread(drive, *stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  stream->driver = {};  // has ended then
  const std::lock_guard lock(mutex);
  finish(*stream, stream->given);
  streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
// A real device refuses this at run time too: waiting while a stream is recorded.
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream == nullptr) return cudaDeviceSynchronize();
  if (stream->capture) return cudaErrorInvalidValue;
  finish(*stream, stream->given);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  return stream == nullptr || stream->waiting.empty() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  submit(stream, [from = event->stream, after = event->after] {
    if (from != nullptr && alive(from)) finish(*from, after);
  });
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new Event;
  (*event)->device = device_here;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  if (stream != nullptr && stream->device != event->device) return cudaErrorInvalidValue;
  if (streams_are == Streams::at_once && stream != nullptr) {
    const Busy busy(*stream);
    stream->kernels.finish();
  }
  event->time = std::chrono::steady_clock::now();
  event->stream = stream;
  event->after = stream == nullptr ? 0 : stream->given;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(mutex);
  if (event->stream != nullptr && alive(event->stream)) finish(*event->stream, event->after);
  return cudaSuccess;
}
// A device goes on while the host asks.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return cudaEventSynchronize(event);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream == nullptr || stream->capture) return cudaErrorInvalidValue;
  stream->capture = std::make_unique<Graph>();
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const std::lock_guard lock(mutex);
  const bool captures = stream != nullptr && stream->capture;
  *status = captures ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void*), void* data) {
  submit(stream, [=] { function(data); });
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = stream->capture.release();
  return *graph == nullptr ? cudaErrorInvalidValue : cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  if (nodes != nullptr) return cudaErrorInvalidValue;  // counting is all that is there
  *count = graph->work.size();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new GraphExec{graph->work};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  for (const Work& work : exec->work) submit_work(stream, work);
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}
