// What the program needs of MPI, as a table of functions: each MPI library has types of its own, so
// the plug-in (plimsoll_mpi.cpp) is compiled once for each, and opened at run time.
//
// No call blocks but start() and finish(). Calls may come from any thread, one at a time; start()
// and finish() from the same one. They return 0, or what explain() explains.
#pragma once

#include <cstddef>

extern "C" {

/// A message on its way, wherever it is kept.
struct PlimsollMpiRequest {
  void* handle;
};

/// Messages on one channel do not meet those of the other.
enum PlimsollMpiChannel { kPlimsollMpiData = 0, kPlimsollMpiControl = 1 };

struct PlimsollMpi {
  int (*start)(int* process, int* processes);
  /// The least number of the processes on that one's machine, and the machine's name.
  int (*machine)(int process);
  const char* (*host)(int process);
  int (*send)(int channel, int to, int tag, const void* bytes, size_t count,
              PlimsollMpiRequest* request);
  int (*receive)(int channel, int from, int tag, void* bytes, size_t count,
                 PlimsollMpiRequest* request);
  /// `done`: the request is gone, and `count` bytes were received.
  int (*test)(PlimsollMpiRequest* request, int* done, size_t* count);
  /// A receive that nobody waits for any more.
  void (*cancel)(PlimsollMpiRequest* request);
  /// Whether a message lies ready, of anybody.
  int (*probe)(int channel, int tag, int* found, int* from, size_t* count);
  int (*finish)();
  void (*explain)(int error, char* text, size_t size);
};

/// The plug-in's only symbol, of type PlimsollMpi.
extern const PlimsollMpi plimsoll_mpi_1;
}

#define PLIMSOLL_MPI_SYMBOL "plimsoll_mpi_1"
