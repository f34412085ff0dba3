// Work on blocks of a sequence in several threads, whose results are taken in the sequence's order.
#pragma once

#include <algorithm>
#include <deque>
#include <future>
#include <thread>
#include <utility>

namespace plimsoll::batch {

/// Calls read(block) for new blocks until it returns false, work(block) in threads of their own,
/// and take(block) in the order in which blocks were read; `read` and `take` in this thread. A few
/// blocks are in hand at a time. Throws what the three throw, when no block is worked on any more.
template <typename Block, typename Read, typename Work, typename Take>
void work_in_order(const Read& read, const Work& work, const Take& take) {
  const size_t most = std::clamp<size_t>(2 * std::thread::hardware_concurrency(), 4, 16);
  std::deque<std::future<Block>> in_hand;
  bool more = true;
  while (true) {
    while (more && in_hand.size() < most) {
      Block block;
      more = read(block);
      if (!more) break;
      // Where the system has no more threads the work is done when the result is asked for.
      in_hand.push_back(std::async(std::launch::async | std::launch::deferred,
                                   [&work, made = std::move(block)]() mutable {
                                     work(made);
                                     return std::move(made);
                                   }));
    }
    if (in_hand.empty()) return;
    Block block = in_hand.front().get();
    in_hand.pop_front();
    take(block);
  }
}

}  // namespace plimsoll::batch
