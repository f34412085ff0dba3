// NCCL's library as far as the backend calls it, for emulated devices of one process or of several:
// ranks send bytes through a file that all map. It is opened as the real one is
// (VLLM_NCCL_SO_PATH), and finds the emulator's runtime in the program that opens it.
//
// FAKE_NCCL_VERSION is another version; FAKE_NCCL_FAILS=init lets communicators fail;
// FAKE_NCCL_HANGS=abort never ends one. Two ranks on one device are refused, as NCCL does.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda_runtime_api.h"
#include "emulation/streams.h"

namespace {

constexpr int kSuccess = 0, kSystemError = 2, kInvalidArgument = 4, kInvalidUsage = 5;
constexpr int kMostRanks = 16;
constexpr size_t kMailboxBytes = size_t{16} << 10;
constexpr int kByte = 0;

thread_local std::string last_error;

int refuse(int status, const char* why) {
  last_error = why;
  return status;
}

/// Bytes on their way from one rank to another.
struct Mailbox {
  std::atomic<uint64_t> written, read;
  std::array<unsigned char, kMailboxBytes> bytes;

  size_t put(const unsigned char* from, size_t count) {
    const uint64_t at = written.load();
    count = std::min(count, kMailboxBytes - static_cast<size_t>(at - read.load()));
    for (size_t i = 0; i < count; ++i) bytes[(at + i) % kMailboxBytes] = from[i];
    written.store(at + count);
    return count;
  }
  size_t take(unsigned char* to, size_t count) {
    const uint64_t at = read.load();
    count = std::min(count, static_cast<size_t>(written.load() - at));
    for (size_t i = 0; i < count; ++i) to[i] = bytes[(at + i) % kMailboxBytes];
    read.store(at + count);
    return count;
  }
};

/// Content of the file: all zero at first.
struct Room {
  std::atomic<int> joined;
  std::array<std::atomic<int>, kMostRanks> devices;  // of those that have joined, from 1 on
  std::array<std::array<Mailbox, kMostRanks>, kMostRanks> mailboxes;  // from, to
};

Room* open_room(const char* file) {
  const int descriptor = open(file, O_RDWR | O_CREAT, 0600);
  if (descriptor < 0) return nullptr;
  void* room = MAP_FAILED;
  if (ftruncate(descriptor, sizeof(Room)) == 0) {
    room = mmap(nullptr, sizeof(Room), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  }
  close(descriptor);
  return room == MAP_FAILED ? nullptr : static_cast<Room*>(room);
}

struct Transfer {
  int peer = 0;
  bool sends = false;
  unsigned char* at = nullptr;
  size_t left = 0;
};

/// Never deleted: a stream may still have its work.
struct Comm {
  Room* room = nullptr;
  int rank = 0, ranks = 0;
  std::string file;
  std::atomic<bool> aborted = false;

  /// Whether anything moved.
  bool move(Transfer& transfer) const {
    const auto own = static_cast<size_t>(rank), other = static_cast<size_t>(transfer.peer);
    const size_t count = transfer.sends
                             ? room->mailboxes[own][other].put(transfer.at, transfer.left)
                             : room->mailboxes[other][own].take(transfer.at, transfer.left);
    transfer.at += count;
    transfer.left -= count;
    return count > 0;
  }
};

/// The calls of a group on one stream; a recorded one is done again and again.
struct Work {
  Comm* comm = nullptr;
  cudaStream_t stream = nullptr;
  struct Copy {
    unsigned char* to;
    const unsigned char* from;
    size_t bytes;
  };
  std::vector<Copy> copies;
  std::vector<Transfer> transfers;

  void run() const {
    for (const Copy& copy : copies) std::memmove(copy.to, copy.from, copy.bytes);
    std::vector<Transfer> all = transfers;
    while (!all.empty() && !comm->aborted) {
      bool moved = false;
      for (Transfer& transfer : all) moved = comm->move(transfer) || moved;
      std::erase_if(all, [](const Transfer& transfer) { return transfer.left == 0; });
      if (!moved) plimsoll::emulation::hand_turn_on();
    }
  }
};

struct Group {
  int depth = 0;
  std::vector<std::unique_ptr<Work>> work;
  std::vector<Comm*> joining;
};
thread_local Group group;

Work& work_of(Comm* comm, cudaStream_t stream) {
  for (const auto& work : group.work) {
    if (work->comm == comm && work->stream == stream) return *work;
  }
  group.work.push_back(std::make_unique<Work>(Work{comm, stream, {}, {}}));
  return *group.work.back();
}

int await(const Comm& comm) {
  while (comm.room->joined < comm.ranks) std::this_thread::sleep_for(std::chrono::microseconds(50));
  (void)unlink(comm.file.c_str());
  for (int i = 0; i < comm.ranks; ++i) {
    for (int j = 0; j < i; ++j) {
      if (comm.room->devices[static_cast<size_t>(i)] == comm.room->devices[static_cast<size_t>(j)])
        return refuse(kInvalidUsage, "Duplicate GPU detected");
    }
  }
  return kSuccess;
}

int end_group() {
  int status = kSuccess;
  for (const Comm* comm : std::exchange(group.joining, {})) {
    const int joined = await(*comm);
    if (status == kSuccess) status = joined;
  }
  for (auto& work : std::exchange(group.work, {})) {
    Work* kept = work.release();  // as long as a graph may have it
    const cudaError_t given = cudaLaunchHostFunc(
        kept->stream, [](void* data) { static_cast<const Work*>(data)->run(); }, kept);
    if (given != cudaSuccess) return refuse(kSystemError, "cudaLaunchHostFunc");
  }
  return status;
}

template <typename F>
int call(const F& f) {
  ++group.depth;
  const int status = f();
  return --group.depth == 0 ? std::max(status, end_group()) : status;
}

unsigned char* bytes(const void* at) {
  return static_cast<unsigned char*>(const_cast<void*>(at));
}

}  // namespace

extern "C" {

struct UniqueId {
  char text[128];
};

int ncclGetVersion(int* version) {
  const char* other = std::getenv("FAKE_NCCL_VERSION");
  *version = other != nullptr ? std::atoi(other) : 23203;
  return kSuccess;
}
const char* ncclGetErrorString(int status) {
  return status == kSystemError    ? "unhandled system error"
         : status == kInvalidUsage ? "invalid usage"
                                   : "invalid argument";
}
const char* ncclGetLastError(Comm*) {
  return last_error.c_str();
}

int ncclGetUniqueId(UniqueId* id) {
  const char* folder = std::getenv("TMPDIR");
  std::random_device random;
  std::snprintf(id->text, sizeof id->text, "%s/fake_nccl_%d_%08x%08x",
                folder != nullptr ? folder : "/tmp", getpid(), random(), random());
  return kSuccess;
}

int ncclCommInitRankConfig(Comm** comm, int ranks, UniqueId id, int rank, const void* config) {
  const char* fails = std::getenv("FAKE_NCCL_FAILS");
  if (fails != nullptr) return refuse(kSystemError, "no network interface");
  size_t size = 0;
  std::memcpy(&size, config, sizeof size);
  if (size < 40 || rank < 0 || rank >= ranks || ranks > kMostRanks) {
    return refuse(kInvalidArgument, "ncclCommInitRankConfig");
  }
  auto* made = new Comm;
  made->file = id.text;
  made->room = open_room(id.text);
  if (made->room == nullptr) return refuse(kSystemError, "mmap");
  made->rank = rank;
  made->ranks = ranks;
  int device = 0;
  (void)cudaGetDevice(&device);
  made->room->devices[static_cast<size_t>(rank)] = device + 1;
  ++made->room->joined;
  *comm = made;
  return call([&] {
    group.joining.push_back(made);
    return kSuccess;
  });
}

int ncclCommAbort(Comm* comm) {
  comm->aborted = true;
  const char* hangs = std::getenv("FAKE_NCCL_HANGS");  // as for graphs that have its calls
  while (hangs != nullptr) std::this_thread::sleep_for(std::chrono::seconds(1));
  return kSuccess;
}

int ncclGroupStart() {
  ++group.depth;
  return kSuccess;
}
int ncclGroupEnd() {
  return --group.depth == 0 ? end_group() : kSuccess;
}

int ncclSend(const void* from, size_t count, int type, int peer, Comm* comm, cudaStream_t stream) {
  if (type != kByte || peer == comm->rank) return refuse(kInvalidArgument, "ncclSend");
  return call([&] {
    work_of(comm, stream).transfers.push_back({peer, true, bytes(from), count});
    return kSuccess;
  });
}

int ncclRecv(void* to, size_t count, int type, int peer, Comm* comm, cudaStream_t stream) {
  if (type != kByte || peer == comm->rank) return refuse(kInvalidArgument, "ncclRecv");
  return call([&] {
    work_of(comm, stream).transfers.push_back({peer, false, bytes(to), count});
    return kSuccess;
  });
}

int ncclAllGather(const void* from, void* to, size_t count, int type, Comm* comm,
                  cudaStream_t stream) {
  if (type != kByte) return refuse(kInvalidArgument, "ncclAllGather");
  return call([&] {
    Work& work = work_of(comm, stream);
    const auto place = [&](int rank) { return bytes(to) + static_cast<size_t>(rank) * count; };
    work.copies.push_back({place(comm->rank), bytes(from), count});
    for (int other = 0; other < comm->ranks; ++other) {
      if (other == comm->rank) continue;
      work.transfers.push_back({other, true, place(comm->rank), count});
      work.transfers.push_back({other, false, place(other), count});
    }
    return kSuccess;
  });
}

int ncclBroadcast(const void* from, void* to, size_t count, int type, int root, Comm* comm,
                  cudaStream_t stream) {
  if (type != kByte || root >= comm->ranks) return refuse(kInvalidArgument, "ncclBroadcast");
  return call([&] {
    Work& work = work_of(comm, stream);
    if (comm->rank != root) {
      work.transfers.push_back({root, false, bytes(to), count});
      return kSuccess;
    }
    if (from != to) work.copies.push_back({bytes(to), bytes(from), count});
    for (int other = 0; other < comm->ranks; ++other) {
      if (other != root) work.transfers.push_back({other, true, bytes(from), count});
    }
    return kSuccess;
  });
}
}
