// Work on blocks of a sequence in several threads, whose results are taken in the sequence's order.
#pragma once

#include <algorithm>
#include <deque>
#include <future>
#include <thread>
#include <utility>

namespace plimsoll::batch {

/// Calls read(block) for new blocks, which returns their bytes, until it returns 0; work(block) in
/// threads of their own; and take(block) in the order in which blocks were read; `read` and `take`
/// in this thread. A few blocks are in hand at a time, and of large ones fewer. Returns the most
/// bytes that were in hand at a time. Throws what the three throw, when no block is worked on any
/// more.
template <typename Block, typename Read, typename Work, typename Take>
size_t work_in_order(const Read& read, const Work& work, const Take& take) {
  constexpr size_t kMostBytes = size_t{16} << 20;
  const size_t most = std::clamp<size_t>(2 * std::thread::hardware_concurrency(), 4, 16);
  struct InHand {
    Block block;
    size_t bytes = 0;
    std::future<void> done;  // destroyed before the block, it waits for the work
  };
  std::deque<InHand> in_hand;
  size_t bytes = 0;
  size_t most_bytes = 0;
  bool more = true;
  while (true) {
    while (more && in_hand.size() < most && bytes < kMostBytes) {
      InHand& next = in_hand.emplace_back();  // stays where it is until it is taken
      next.bytes = read(next.block);
      more = next.bytes > 0;
      if (!more) {
        in_hand.pop_back();
        break;
      }
      bytes += next.bytes;
      most_bytes = std::max(most_bytes, bytes);
      // Where no thread can be started the work is done when it is waited for. std::async loses
      // then what was moved into its function.
      next.done = std::async(std::launch::async | std::launch::deferred,
                             [&work, &block = next.block] { work(block); });
    }
    if (in_hand.empty()) return most_bytes;
    InHand& first = in_hand.front();
    first.done.get();
    take(first.block);
    bytes -= first.bytes;
    in_hand.pop_front();
  }
}

}  // namespace plimsoll::batch
