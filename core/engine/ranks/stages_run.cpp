// Steps and images on the ranks of one replica, over processes too.
#include <algorithm>
#include <stdexcept>

#include "engine/ranks/stages.h"

namespace plimsoll::engine {
namespace {

/// The rank that has the scheduler.
constexpr int64_t kScheduler = 0;

/// A slice's logits, which lie without gaps.
template <typename Value>
auto bytes_of(Value* values, const LogitsSlice& slice) {
  const std::span all(values, static_cast<size_t>(slice.count * slice.stride));
  if constexpr (std::is_const_v<Value>) {
    return std::as_bytes(all);
  } else {
    return std::as_writable_bytes(all);
  }
}

}  // namespace

void Stages::for_each_server(size_t end, const std::function<void(int64_t)>& f) {
  if (processes_ == nullptr) return;
  for (int64_t process = 1; process < processes_->count(); ++process) {
    const int64_t rank = ranks_of(processes_, process, size_of_replica_).first;
    if (rank < static_cast<int64_t>(end)) f(rank);
  }
}

const Step*& Stages::step_of(Stage& stage, size_t rounds_ago) const {
  return stage.under_way[(round_ + depth() - rounds_ago) % depth()];
}

bool Stages::idle() const {
  const auto is_none = [](const Step* step) { return step == nullptr; };
  return std::ranges::all_of(stages_.front()->under_way, is_none);
}

void Stages::run(const Step* entering, const Reader& read, const FillMasks& fill_masks) {
  for_each_server(static_cast<size_t>(size_of_replica_), [&](int64_t rank) {
    if (entering == nullptr) return send_advance(world(0), rank);
    send_step(world(0), rank, *entering);
  });
  run_own(entering, read, fill_masks);
}

void Stages::run_own(const Step* entering, const Reader& read, const FillMasks& fill_masks) {
  on_all([&](size_t index) {
    enter(index, entering);
    run_stage(index, read, fill_masks);
    step_of(*stages_[index], depth() - 1) = nullptr;
  });
  ++round_;
}

void Stages::enter(size_t index, const Step* entering) {
  Stage& stage = *stages_[index];
  step_of(stage, 0) = entering;
  if (entering == nullptr || index == 0) return;
  Step& step = stage.steps[round_ % depth()];
  step.meta = stage.launch.batch.copy(entering->meta);
  step.meta.embeddings = stage.launch.embeddings;
  step.recorded_size = entering->recorded_size;
  if (stage.launch.model.has_head()) step.read = entering->read;
  step_of(stage, 0) = &step;
}

// Runs a step on one stage. Logits go before hidden states, and a stage sends its hidden states
// before it receives those of the stage before: so the last stage goes on first, then the one
// before it, and so to the first, in whatever order they wait.
void Stages::run_stage(size_t index, const Reader& read, const FillMasks& fill_masks) {
  Stage& stage = *stages_[index];
  const size_t number = (static_cast<size_t>(own_.first) + index) / tensor_ranks_;
  if (const Step* step = step_of(stage, number)) {
    const bool reads = reads_own() && &stage == &reading();
    const auto read_slice = [&](const LogitsSlice& slice) {
      if (!reads) return;
      require_all();
      read(*step, slice);
    };
    stage.runner.run(*step, read_slice, [&] { fill_masks(*step); });
  }
  if (index == 0 && own_.first == kScheduler && !reads_own()) {
    if (const Step* ending = step_of(stage, depth() - 1)) receive_logits(*ending, read);
  }
  const auto tokens_of = [](const Step& step) { return std::ssize(step.meta.token_ids); };
  if (const Step* step = step_of(stage, number); step != nullptr && number + 1 < depth()) {
    stage.launch.model.send_hidden(tokens_of(*step));
  }
  if (number == 0) return;
  if (const Step* next = step_of(stage, number - 1)) {
    stage.launch.model.receive(tokens_of(*next));
  }
}

void Stages::require_all() const {
  if (!shares_memory() && processes_ != nullptr && processes_->aborted()) throw RankLost();
}

// A step that runs ahead has its arrays in another slab; the one before it in this slab may not
// have been copied to the device yet.
void Stages::await_slot(int64_t slot) {
  if (shares_memory()) return;
  backend::BatchMeta before;
  before.slot = static_cast<int32_t>(slot);
  on_all([&](size_t rank) { stages_[rank]->rank.backend->await_step(before); });
  require_all();
}

// Waits for the devices of this process. Steps that other processes still take part in end here
// too, before any process closes its end of a connection.
void Stages::synchronize_local() {
  on_all([&](size_t rank) { stages_[rank]->rank.backend->synchronize(); });
}

void Stages::send_logits(const LogitsSlice& slice) {
  world(last() - static_cast<size_t>(own_.first)).send(kScheduler, bytes_of(slice.values, slice));
}

// Receives logits in slices, as the last stage makes them.
void Stages::receive_logits(const Step& step, const Reader& read) {
  const Launch& launch = first().launch;
  const int64_t vocabulary = first().rank.spec->vocab_size;
  const int64_t most = first().layout.staging_rows;
  const auto rows = std::ssize(step.read);
  for (int64_t begin = 0; begin < rows; begin += most) {
    const LogitsSlice slice{begin, std::min(most, rows - begin), launch.logits_staging.data(),
                            vocabulary};
    world(0).receive(static_cast<int64_t>(last()), bytes_of(launch.logits_staging.data(), slice));
    read(step, slice);
  }
}

void Stages::stop(int64_t kv_blocks) {
  for_each_server(static_cast<size_t>(size_of_replica_),
                  [&](int64_t rank) { send_stop(world(0), rank, kv_blocks); });
}

int64_t Stages::serve() {
  Stage& own = first();
  for (;;) {
    const Order order = receive_order(world(0), kScheduler);
    if (order.kind == OrderKind::stop) {
      synchronize_local();
      return order.kv_blocks;
    }
    if (order.kind == OrderKind::encode) {
      const auto images = receive_images(world(0), kScheduler, order);
      on_all([&](size_t index) { share_embeddings(index, images); });
      continue;
    }
    Step& step = own.steps[round_ % depth()];
    if (order.kind == OrderKind::step) {
      await_slot(order.slot);
      step.meta = receive_step(world(0), kScheduler, order, own.launch.batch);
      step.meta.embeddings = own.launch.embeddings;
      step.read.resize(order.read_rows);
      step.recorded_size = order.recorded_size;
    }
    run_own(order.kind == OrderKind::step ? &step : nullptr,
            [this](const Step&, const LogitsSlice& slice) { send_logits(slice); }, {});
  }
}

void Stages::encode(const std::vector<ImageJob>& jobs) {
  std::vector<EmbeddingRows> images;
  for (const ImageJob& job : jobs) images.push_back({job.first_row, job.image->tokens()});
  for_each_server(tensor_ranks_, [&](int64_t rank) { send_images(world(0), rank, images); });
  on_all([&](size_t index) {
    if (index < tensor_ranks_) encode(index, jobs);
    share_embeddings(index, images);
  });
}

void Stages::encode(size_t index, const std::vector<ImageJob>& jobs) {
  Launch& launch = stages_[index]->launch;
  for (size_t i = index; i < jobs.size(); i += std::min(tensor_ranks_, size())) {
    launch.tower->encode(*jobs[i].image->pixels,
                         launch.embeddings.slice_rows(jobs[i].first_row, jobs[i].image->tokens()));
  }
}

void Stages::share_embeddings(size_t index, const std::vector<EmbeddingRows>& images) {
  const size_t rank = static_cast<size_t>(own_.first) + index;
  if (tensor_ranks_ == 1 || rank >= tensor_ranks_) return;
  const auto encoding = static_cast<size_t>(ranks_of(processes_, 0, size_of_replica_).size());
  for (size_t i = 0; i < images.size(); ++i) {
    const backend::View rows =
        stages_[index]->launch.embeddings.slice_rows(images[i].first, images[i].count);
    const auto owner = static_cast<int32_t>(i % std::min(tensor_ranks_, encoding));
    team_of_[index]->all_gather_rows(rows, std::vector(static_cast<size_t>(rows.rows), owner));
  }
}

}  // namespace plimsoll::engine
