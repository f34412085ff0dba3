// Orders of the process with the scheduler to the processes that serve it, over a replica's ranks:
// the first rank of a process receives the order, its arrays in the place that the step reads them
// from.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/batch_meta.h"
#include "engine/batch_arrays.h"
#include "engine/batch_builder.h"
#include "engine/ranks/communicator.h"

namespace plimsoll::engine {

/// Kinds of orders. `advance`: no step enters, and steps under way go on.
enum class OrderKind : int64_t { step, advance, encode, stop };

/// An order without its arrays.
struct Order {
  OrderKind kind = OrderKind::stop;
  StepExtent extent{};        // of the step
  int64_t slot = 0;           // of the step's arrays
  int64_t read_rows = 0;      // logits rows of the step that the host reads
  int64_t recorded_size = 0;  // Step::recorded_size
  int64_t images = 0;         // number of images whose embeddings follow
  int64_t kv_blocks = 0;      // with stop: most blocks in use at one time
};

/// Rows of an image's embeddings in the cache.
struct EmbeddingRows {
  int64_t first = 0, count = 0;
};

/// Sends an order to the rank `to`; throws as Communicator.
void send_stop(Communicator& world, int64_t to, int64_t kv_blocks);
void send_images(Communicator& world, int64_t to, const std::vector<EmbeddingRows>& images);
void send_advance(Communicator& world, int64_t to);
/// Sends a step with its arrays; the last of its logits rows, as many as the host reads, are the
/// host's.
void send_step(Communicator& world, int64_t to, const Step& step);

Order receive_order(Communicator& world, int64_t from);
std::vector<EmbeddingRows> receive_images(Communicator& world, int64_t from, const Order& order);
/// Receives the arrays of the ordered step, into a slab that is laid out as the sender's.
backend::BatchMeta receive_step(Communicator& world, int64_t from, const Order& order,
                                BatchArrays& arrays);

}  // namespace plimsoll::engine
