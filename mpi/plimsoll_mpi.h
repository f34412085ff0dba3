// The calls of MPI that the program needs, as a table of functions: each MPI library has types of
// its own, so the plug-in (plimsoll_mpi.cpp) is compiled once for each, and opened at run time.
//
// Only start() and finish() block. Calls may come from any thread, one at a time; start() and
// finish() from the same thread. They return 0, or an error code for explain().
#pragma once

#include <cstddef>

extern "C" {

/// A request of MPI, allocated by the plug-in.
struct PlimsollMpiRequest {
  void* handle;
};

/// Two separate channels: a message is received on the channel on which it was sent.
enum PlimsollMpiChannel { kPlimsollMpiData = 0, kPlimsollMpiControl = 1 };

struct PlimsollMpi {
  int (*start)(int* process, int* processes);
  /// Lowest process number on a process's machine (machine), and the machine's name (host).
  int (*machine)(int process);
  const char* (*host)(int process);
  int (*send)(int channel, int to, int tag, const void* bytes, size_t count,
              PlimsollMpiRequest* request);
  int (*receive)(int channel, int from, int tag, void* bytes, size_t count,
                 PlimsollMpiRequest* request);
  /// Tests a request. `done`: it has ended and is freed, and `count` bytes were received.
  int (*test)(PlimsollMpiRequest* request, int* done, size_t* count);
  /// Cancels a receive that nobody waits for any more.
  void (*cancel)(PlimsollMpiRequest* request);
  /// Finds out whether a message has arrived, from any process.
  int (*probe)(int channel, int tag, int* found, int* from, size_t* count);
  int (*finish)();
  void (*explain)(int error, char* text, size_t size);
};

/// The plug-in's only symbol, of type PlimsollMpi.
extern const PlimsollMpi plimsoll_mpi_1;
}

#define PLIMSOLL_MPI_SYMBOL "plimsoll_mpi_1"
