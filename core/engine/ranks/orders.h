// What the process with the scheduler tells those that serve it, over a copy's ranks: the first
// rank of a process gets the order, its arrays in the place that the step reads them from.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/batch_meta.h"
#include "engine/batch_arrays.h"
#include "engine/batch_builder.h"
#include "engine/ranks/communicator.h"

namespace plimsoll::engine {

/// `advance`: no step enters, those under way go on.
enum class OrderKind : int64_t { step, advance, encode, stop };

/// An order without its arrays.
struct Order {
  OrderKind kind = OrderKind::stop;
  StepExtent extent{};        // of a step
  int64_t slot = 0;           // of its arrays
  int64_t read_rows = 0;      // of its logits: that the host wants
  int64_t recorded_size = 0;  // as Step's
  int64_t pictures = 0;       // whose embeddings are shared
  int64_t kv_blocks = 0;      // when it stops: most that were in use at one time
};

/// Embeddings of a picture in the cache.
struct EmbeddingRows {
  int64_t first = 0, count = 0;
};

/// Sent to the rank `to`; throws as Communicator.
void send_stop(Communicator& world, int64_t to, int64_t kv_blocks);
void send_pictures(Communicator& world, int64_t to, const std::vector<EmbeddingRows>& pictures);
void send_advance(Communicator& world, int64_t to);
/// With the step's arrays; the last of its logits rows, as many as it reads, are the host's.
void send_step(Communicator& world, int64_t to, const Step& step);

Order receive_order(Communicator& world, int64_t from);
std::vector<EmbeddingRows> receive_pictures(Communicator& world, int64_t from, const Order& order);
/// The arrays of the step that was ordered, into a slab that is laid out as the sender's.
backend::BatchMeta receive_step(Communicator& world, int64_t from, const Order& order,
                                BatchArrays& arrays);

}  // namespace plimsoll::engine
