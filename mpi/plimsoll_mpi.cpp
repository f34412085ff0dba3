#include "mpi/plimsoll_mpi.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

static_assert(sizeof(MPI_Request) <= sizeof(PlimsollMpiRequest));

using HostName = std::array<char, MPI_MAX_PROCESSOR_NAME>;

std::array<MPI_Comm, 2> g_channels;
std::vector<int> g_machines;    // by process
std::vector<HostName> g_hosts;  // by process

MPI_Request load(const PlimsollMpiRequest* request) {
  MPI_Request own;
  std::memcpy(&own, request, sizeof own);
  return own;
}

void store(MPI_Request own, PlimsollMpiRequest* request) {
  std::memcpy(request, &own, sizeof own);
}

// Finds which processes share memory, and the names of their machines. Returns an MPI error code.
int find_machines(int process, int processes) {
  MPI_Comm near = MPI_COMM_NULL;
  int error =
      MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, process, MPI_INFO_NULL, &near);
  if (error != MPI_SUCCESS) return error;
  int least = process;
  MPI_Allreduce(&process, &least, 1, MPI_INT, MPI_MIN, near);
  MPI_Comm_free(&near);
  g_machines.resize(static_cast<size_t>(processes));
  g_hosts.resize(g_machines.size());
  HostName host{};
  int length = 0;
  MPI_Get_processor_name(host.data(), &length);
  MPI_Allgather(&least, 1, MPI_INT, g_machines.data(), 1, MPI_INT, MPI_COMM_WORLD);
  const int size = MPI_MAX_PROCESSOR_NAME;
  return MPI_Allgather(host.data(), size, MPI_CHAR, g_hosts.data(), size, MPI_CHAR, MPI_COMM_WORLD);
}

int start(int* process, int* processes) {
  // Open MPI's own handlers of crashes would take the place of ours.
  setenv("OMPI_MCA_opal_signal", "", 0);
  int threads = MPI_THREAD_SINGLE;
  int error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads);
  if (error != MPI_SUCCESS) return error;
  if (threads < MPI_THREAD_SERIALIZED) return MPI_ERR_OTHER;
  MPI_Comm_rank(MPI_COMM_WORLD, process);
  MPI_Comm_size(MPI_COMM_WORLD, processes);
  for (MPI_Comm& channel : g_channels) {
    error = MPI_Comm_dup(MPI_COMM_WORLD, &channel);
    if (error != MPI_SUCCESS) return error;
    MPI_Comm_set_errhandler(channel, MPI_ERRORS_RETURN);
  }
  return find_machines(*process, *processes);
}

int machine(int process) {
  return g_machines[static_cast<size_t>(process)];
}

const char* host(int process) {
  return g_hosts[static_cast<size_t>(process)].data();
}

int send(int channel, int to, int tag, const void* bytes, size_t count,
         PlimsollMpiRequest* request) {
  MPI_Request own = MPI_REQUEST_NULL;
  const int error = MPI_Isend(bytes, static_cast<int>(count), MPI_BYTE, to, tag,
                              g_channels[static_cast<size_t>(channel)], &own);
  store(own, request);
  return error;
}

int receive(int channel, int from, int tag, void* bytes, size_t count,
            PlimsollMpiRequest* request) {
  MPI_Request own = MPI_REQUEST_NULL;
  const int error = MPI_Irecv(bytes, static_cast<int>(count), MPI_BYTE, from, tag,
                              g_channels[static_cast<size_t>(channel)], &own);
  store(own, request);
  return error;
}

int test(PlimsollMpiRequest* request, int* done, size_t* count) {
  MPI_Request own = load(request);
  MPI_Status status;
  const int error = MPI_Test(&own, done, &status);
  store(own, request);
  if (error != MPI_SUCCESS || !*done) return error;
  int received = 0;
  MPI_Get_count(&status, MPI_BYTE, &received);
  *count = static_cast<size_t>(std::max(received, 0));
  return error;
}

void cancel(PlimsollMpiRequest* request) {
  MPI_Request own = load(request);
  MPI_Cancel(&own);
  MPI_Request_free(&own);
  store(own, request);
}

int probe(int channel, int tag, int* found, int* from, size_t* count) {
  MPI_Status status;
  const int error =
      MPI_Iprobe(MPI_ANY_SOURCE, tag, g_channels[static_cast<size_t>(channel)], found, &status);
  if (error != MPI_SUCCESS || !*found) return error;
  int ready = 0;
  MPI_Get_count(&status, MPI_BYTE, &ready);
  *from = status.MPI_SOURCE;
  *count = static_cast<size_t>(std::max(ready, 0));
  return error;
}

int finish() {
  for (MPI_Comm& channel : g_channels) MPI_Comm_free(&channel);
  return MPI_Finalize();
}

void explain(int error, char* text, size_t size) {
  std::array<char, MPI_MAX_ERROR_STRING> own{};
  int length = 0;
  MPI_Error_string(error, own.data(), &length);
  std::snprintf(text, size, "%s", own.data());
}

}  // namespace

extern "C" const PlimsollMpi plimsoll_mpi_1{start, machine, host,  send,   receive,
                                            test,  cancel,  probe, finish, explain};
