// Steps and pictures on the ranks of one copy, over processes too.
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
    const int64_t rank = ranks_of(processes_, process, size_of_copy_).first;
    if (rank < static_cast<int64_t>(end)) f(rank);
  }
}

void Stages::run(const Step& step, const StepRunner::Reader& read) {
  for_each_server(static_cast<size_t>(size_of_copy_), [&](int64_t rank) {
    send_step(world(0), rank, step.meta, std::ssize(step.read));
  });
  run_own(step, read);
}

void Stages::run_own(const Step& step, const StepRunner::Reader& read) {
  on_all([&](size_t index) {
    Stage& stage = *stages_[index];
    if (index > 0) {
      stage.step.meta = stage.launch.batch.copy(step.meta);
      stage.step.meta.embeddings = stage.launch.embeddings;
      if (stage.launch.model.has_head()) stage.step.read = step.read;
    }
    const bool reads = reads_own() && &stage == &reading();
    stage.runner.run(
        index == 0 ? step : stage.step, reads ? read : [](const LogitsSlice&) {});
    if (index == 0 && own_.first == kScheduler && !reads_own()) receive_logits(step, read);
  });
}

void Stages::send_logits(const LogitsSlice& slice) {
  world(last() - static_cast<size_t>(own_.first)).send(kScheduler, bytes_of(slice.values, slice));
}

// In slices as the last stage makes them.
void Stages::receive_logits(const Step& step, const StepRunner::Reader& read) {
  const Launch& launch = first().launch;
  const int64_t vocabulary = first().rank.spec->vocab_size;
  const int64_t most = first().layout.staging_rows;
  const auto rows = std::ssize(step.read);
  for (int64_t begin = 0; begin < rows; begin += most) {
    const LogitsSlice slice{begin, std::min(most, rows - begin), launch.logits_staging.data(),
                            vocabulary};
    world(0).receive(static_cast<int64_t>(last()), bytes_of(launch.logits_staging.data(), slice));
    read(slice);
  }
}

void Stages::stop(int64_t kv_blocks) {
  for_each_server(static_cast<size_t>(size_of_copy_),
                  [&](int64_t rank) { send_stop(world(0), rank, kv_blocks); });
}

int64_t Stages::serve() {
  Stage& own = first();
  for (;;) {
    const Order order = receive_order(world(0), kScheduler);
    if (order.kind == OrderKind::stop) return order.kv_blocks;
    if (order.kind == OrderKind::encode) {
      const auto pictures = receive_pictures(world(0), kScheduler, order);
      on_all([&](size_t index) { share_embeddings(index, pictures); });
      continue;
    }
    own.step.meta = receive_step(world(0), kScheduler, order, own.launch.batch);
    own.step.meta.embeddings = own.launch.embeddings;
    own.step.read.resize(static_cast<size_t>(order.read_rows));
    run_own(own.step, [this](const LogitsSlice& slice) { send_logits(slice); });
  }
}

void Stages::encode(const std::vector<PictureJob>& jobs) {
  std::vector<EmbeddingRows> pictures;
  for (const PictureJob& job : jobs) pictures.push_back({job.first_row, job.picture->tokens()});
  for_each_server(tensor_ranks_, [&](int64_t rank) { send_pictures(world(0), rank, pictures); });
  on_all([&](size_t index) {
    if (index < tensor_ranks_) encode(index, jobs);
    share_embeddings(index, pictures);
  });
}

void Stages::encode(size_t index, const std::vector<PictureJob>& jobs) {
  Launch& launch = stages_[index]->launch;
  for (size_t i = index; i < jobs.size(); i += std::min(tensor_ranks_, size())) {
    launch.tower->encode(
        *jobs[i].picture->pixels,
        launch.embeddings.slice_rows(jobs[i].first_row, jobs[i].picture->tokens()));
  }
}

void Stages::share_embeddings(size_t index, const std::vector<EmbeddingRows>& pictures) {
  const size_t rank = static_cast<size_t>(own_.first) + index;
  if (tensor_ranks_ == 1 || rank >= tensor_ranks_) return;
  const auto encoding = static_cast<size_t>(ranks_of(processes_, 0, size_of_copy_).size());
  for (size_t i = 0; i < pictures.size(); ++i) {
    const backend::View rows =
        stages_[index]->launch.embeddings.slice_rows(pictures[i].first, pictures[i].count);
    const auto owner = static_cast<int32_t>(i % std::min(tensor_ranks_, encoding));
    team_of_[index]->share_rows(rows, std::vector(static_cast<size_t>(rows.rows), owner));
  }
}

}  // namespace plimsoll::engine
