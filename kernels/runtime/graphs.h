// Recorded steps: the work that a stream was given once, replayed as one graph.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>

namespace plimsoll::kernels {

class Graphs {
 public:
  explicit Graphs(cudaStream_t stream) : stream_(stream) {}
  ~Graphs();
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;

  [[nodiscard]] bool has(int64_t key) const { return graphs_.contains(key); }
  /// Records what `ops` enqueues, without running it. Nothing is kept when ops throws.
  void record(int64_t key, const std::function<void()>& ops);
  /// Enqueues a recorded step.
  void replay(int64_t key);

  [[nodiscard]] size_t count() const { return graphs_.size(); }
  [[nodiscard]] size_t nodes() const { return nodes_; }  // of all graphs

 private:
  cudaStream_t stream_;
  std::map<int64_t, cudaGraphExec_t> graphs_;
  size_t nodes_ = 0;
};

}  // namespace plimsoll::kernels
