// A step's arrays on their way to another process.
#include "engine/ranks/orders.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <deque>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "memory/host_memory.h"

using namespace plimsoll;

namespace {

/// What is sent is received, in its order.
class Post : public engine::Communicator {
 public:
  void send(int64_t, std::span<const std::byte> bytes) override {
    letters_.emplace_back(bytes.begin(), bytes.end());
  }
  void receive(int64_t, std::span<std::byte> bytes) override {
    REQUIRE(letters_.front().size() == bytes.size());
    std::ranges::copy(letters_.front(), bytes.begin());
    letters_.pop_front();
  }
  [[nodiscard]] bool empty() const { return letters_.empty(); }

 private:
  std::deque<std::vector<std::byte>> letters_;
};

engine::BatchShape shape() {
  engine::BatchShape shape;
  shape.limits = {.batched_tokens = 8, .sequences = 4, .logits_rows = 4, .table_stride = 4};
  shape.vocab_size = 64;
  shape.kv_groups = 2;
  shape.images = shape.turns = shape.sees_ahead = shape.states = true;
  return shape;
}

/// Arrays of a model with images, states and kinds of positions.
class Arrays {
 public:
  explicit Arrays(uint8_t filled) : memory_(kBytes) { std::memset(memory_.data(), filled, kBytes); }
  engine::BatchArrays& batch() { return batch_; }

 private:
  static constexpr size_t kBytes = size_t{1} << 20;
  memory::HostMemory memory_;
  memory::Arena arena_ = memory::Arena::placing(memory_.data(), kBytes);
  engine::BatchArrays batch_{arena_, arena_, shape(), backend::cpu_footprint()};
};

/// f(name, array) for each array of a step.
template <typename F>
void for_each_array(const backend::BatchMeta& step, const F& f) {
  f("token_ids", std::as_bytes(step.token_ids));
  f("positions", std::as_bytes(step.positions));
  f("row_sequence", std::as_bytes(step.row_sequence));
  f("query_start", std::as_bytes(step.query_start));
  f("context_length", std::as_bytes(step.context_length));
  f("long_rope", std::as_bytes(step.long_rope));
  f("state_slots", std::as_bytes(step.state_slots));
  f("logits_rows", std::as_bytes(step.logits_rows));
  f("rope_positions", std::as_bytes(step.rope_positions));
  f("seen_end", std::as_bytes(step.seen_end));
  f("embedded_rows", std::as_bytes(step.embedded_rows));
  f("embedding_rows", std::as_bytes(step.embedding_rows));
}

}  // namespace

TEST_CASE("each array of a step reaches the process that serves it") {
  Arrays ours(7), theirs(0);
  engine::Step step;
  step.meta = ours.batch().meta(0, {.tokens = 6,
                                    .sequences = 3,
                                    .logits_rows = 2,
                                    .table_width = 3,
                                    .embedded = 4,
                                    .turns = true,
                                    .sees_ahead = true});
  Post post;
  engine::send_step(post, 1, step);
  const engine::Order order = engine::receive_order(post, 0);
  CHECK(order.kind == engine::OrderKind::step);
  const backend::BatchMeta received = engine::receive_step(post, 0, order, theirs.batch());
  CHECK(post.empty());
  for_each_array(received, [](const char* name, std::span<const std::byte> array) {
    INFO(name);
    CHECK(!array.empty());
    CHECK(std::ranges::all_of(array, [](std::byte byte) { return byte == std::byte{7}; }));
  });
  for (const std::span<const int32_t> table : received.block_tables)
    CHECK(table.first(3)[0] == 0x07070707);
}
