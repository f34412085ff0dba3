#include "kernels/runtime/graphs.h"

#include "kernels/runtime/cuda_error.h"

namespace plimsoll::kernels {

Graphs::~Graphs() {
  for (const auto& [key, graph] : graphs_) ignore(cudaGraphExecDestroy(graph));
}

void Graphs::record(int64_t key, const std::function<void()>& ops) {
  // Other threads of the host may go on with calls of their own meanwhile.
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
  cudaGraph_t recorded = nullptr;
  try {
    ops();
  } catch (...) {
    ignore(cudaStreamEndCapture(stream_, &recorded));
    if (recorded != nullptr) ignore(cudaGraphDestroy(recorded));
    throw;
  }
  check(cudaStreamEndCapture(stream_, &recorded), "cudaStreamEndCapture");
  size_t nodes = 0;
  cudaGraphExec_t graph = nullptr;
  cudaError_t status = cudaGraphGetNodes(recorded, nullptr, &nodes);
  if (status == cudaSuccess) status = cudaGraphInstantiate(&graph, recorded, 0);
  ignore(cudaGraphDestroy(recorded));
  check(status, "cudaGraphInstantiate");
  graphs_[key] = graph;
  nodes_ += nodes;
  // The upload brings all that a replay needs onto the device.
  check(cudaGraphUpload(graph, stream_), "cudaGraphUpload");
}

void Graphs::replay(int64_t key) {
  check(cudaGraphLaunch(graphs_.at(key), stream_), "cudaGraphLaunch");
}

}  // namespace plimsoll::kernels
