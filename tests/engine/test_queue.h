// The queue of the test device (test_device.h): enqueued ops run when the host waits; steps are
// recorded and repeated.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::testing {

class TestQueue {
 public:
  struct Op {
    std::string text;  // what it does to which addresses
    std::function<void()> run;
    bool finishes = false;  // a step
  };

  void push(Op op) {
    if (recording_ != nullptr) {
      recording_->push_back(std::move(op));
    } else {
      queue_.push_back(std::move(op));
    }
  }
  /// Runs the next op; returns true when it finishes a step.
  bool run_next() {
    if (queue_.empty()) throw std::logic_error("no step to wait for");
    const Op op = std::move(queue_.front());
    queue_.pop_front();
    op.run();
    return op.finishes;
  }
  /// Enqueues the ops that `ops` pushes, recorded under `key`: they must be equal each time,
  /// addresses included.
  void repeat(int64_t key, const std::function<void()>& ops) {
    std::vector<Op> anew;
    recording_ = &anew;
    ops();
    anew.clear();
    ops();  // as a backend does that tries first and records then
    recording_ = nullptr;
    const auto [graph, first] = graphs_.try_emplace(key);
    if (first) graph->second = std::move(anew);
    if (!first) {
      ++replays_;
      if (!std::ranges::equal(graph->second, anew, {}, &Op::text, &Op::text)) {
        throw std::logic_error(fmt::format("a step of {} rows differs from its recording", key));
      }
    }
    for (const Op& op : graph->second) queue_.push_back(op);
  }
  void clear() {
    queue_.clear();
    graphs_.clear();
  }

  [[nodiscard]] bool empty() const { return queue_.empty(); }
  [[nodiscard]] bool is_recording() const { return recording_ != nullptr; }
  [[nodiscard]] size_t recorded() const { return graphs_.size(); }
  [[nodiscard]] int64_t replays() const { return replays_; }
  [[nodiscard]] int64_t most_recorded_ops() const {
    int64_t most = 0;
    for (const auto& [key, ops] : graphs_) most = std::max(most, std::ssize(ops));
    return most;
  }

 private:
  std::deque<Op> queue_;
  std::vector<Op>* recording_ = nullptr;
  std::map<int64_t, std::vector<Op>> graphs_;
  int64_t replays_ = 0;
};

}  // namespace plimsoll::testing
