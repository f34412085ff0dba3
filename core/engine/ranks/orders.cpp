#include "engine/ranks/orders.h"

#include <type_traits>

namespace plimsoll::engine {
namespace {

static_assert(std::is_trivially_copyable_v<Order>);

std::span<const std::byte> bytes_of(const Order& order) {
  return std::as_bytes(std::span(&order, 1));
}

/// f(array) for each array of a step in use but the block tables.
template <typename F>
void for_each_used(const backend::BatchMeta& step, const F& f) {
  f(step.token_ids);
  f(step.positions);
  f(step.row_sequence);
  f(step.query_start);
  f(step.context_length);
  f(step.long_rope);
  f(step.state_slots);
  f(step.logits_rows);
  f(step.rope_positions);
  f(step.seen_end);
  f(step.embedded_rows);
  f(step.embedding_rows);
}

/// f(row) for each row of the block tables, as far as it is in use.
template <typename F>
void for_each_table_row(const backend::BatchMeta& step, const F& f) {
  const auto stride = static_cast<size_t>(step.table_stride);
  for (const std::span<const int32_t> table : step.block_tables) {
    for (size_t row = 0; row < step.context_length.size(); ++row) {
      f(table.subspan(row * stride, static_cast<size_t>(step.table_width)));
    }
  }
}

/// Bytes of an array in a slab of this process, writable.
template <typename T>
std::span<std::byte> writable_bytes(std::span<const T> array) {
  return std::as_writable_bytes(std::span(const_cast<T*>(array.data()), array.size()));
}

}  // namespace

void send_stop(Communicator& world, int64_t to, int64_t kv_blocks) {
  world.send(to, bytes_of({.kind = OrderKind::stop, .kv_blocks = kv_blocks}));
}

void send_advance(Communicator& world, int64_t to) {
  world.send(to, bytes_of({.kind = OrderKind::advance}));
}

void send_images(Communicator& world, int64_t to, const std::vector<EmbeddingRows>& images) {
  world.send(to, bytes_of({.kind = OrderKind::encode, .images = std::ssize(images)}));
  world.send(to, std::as_bytes(std::span(images)));
}

void send_step(Communicator& world, int64_t to, const Step& step) {
  world.send(to, bytes_of({.kind = OrderKind::step,
                           .extent = StepExtent::of(step.meta),
                           .slot = step.meta.slot,
                           .read_rows = std::ssize(step.read),
                           .recorded_size = step.recorded_size}));
  const auto send = [&](const auto& array) {
    if (!array.empty()) world.send(to, std::as_bytes(array));
  };
  for_each_used(step.meta, send);
  for_each_table_row(step.meta, send);
}

Order receive_order(Communicator& world, int64_t from) {
  Order order;
  world.receive(from, std::as_writable_bytes(std::span(&order, 1)));
  return order;
}

std::vector<EmbeddingRows> receive_images(Communicator& world, int64_t from, const Order& order) {
  std::vector<EmbeddingRows> images(order.images);
  world.receive(from, std::as_writable_bytes(std::span(images)));
  return images;
}

backend::BatchMeta receive_step(Communicator& world, int64_t from, const Order& order,
                                BatchArrays& arrays) {
  const backend::BatchMeta step = arrays.meta(static_cast<size_t>(order.slot), order.extent);
  const auto receive = [&](const auto& array) {
    if (!array.empty()) world.receive(from, writable_bytes(array));
  };
  for_each_used(step, receive);
  for_each_table_row(step, receive);
  return step;
}

}  // namespace plimsoll::engine
