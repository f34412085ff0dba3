#include "batch/watch.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace plimsoll::batch {
namespace {

using namespace std::chrono_literals;

constexpr auto kLook = 50ms;
constexpr auto kPublish = 1s;
// A run that holds its outputs longer than that hangs.
constexpr auto kPatience = 500ms;
// Between two looks no more than that counts as silence.
constexpr auto kLongLook = 500ms;

}  // namespace

Watch::Watch(Progress& progress, WatchOptions options, const std::string& phase)
    : progress_(progress), options_(std::move(options)) {
  enter(phase);
  publish(shown_, Clock::now());  // a sign of life before the first line
  thread_ = std::thread([this] { work(); });
}

Watch::~Watch() {
  {
    const std::lock_guard lock(board_);
    ended_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Watch::enter(const std::string& phase) {
  ProgressSample sample;
  sample.phase = phase;
  show(sample);
}

void Watch::show(const ProgressSample& sample) {
  const std::lock_guard lock(board_);
  shown_ = sample;
  shown_at_ = Clock::now();
  silent_ = {};
}

void Watch::on_status(std::function<void()> sync) {
  const std::lock_guard lock(board_);
  sync_ = std::move(sync);
}

Cause Watch::cause() const {
  if (options_.stop && options_.stop->load()) return Cause::signal;
  if (options_.deadline && Clock::now() >= *options_.deadline) return Cause::time_limit;
  return Cause::none;
}

Clock::time_point Watch::end_of_grace() {
  const std::lock_guard lock(board_);
  if (!told_) told_ = Clock::now();
  return *told_ + options_.grace;
}

ProgressSample Watch::sample(Clock::time_point now) {
  const std::lock_guard lock(board_);
  ProgressSample sample = shown_;
  sample.seconds += std::chrono::duration<double>(now - shown_at_).count();
  return sample;
}

void Watch::work() {
  while (true) {
    {
      std::unique_lock lock(board_);
      if (wake_.wait_for(lock, kLook, [this] { return ended_; })) return;
    }
    look();
  }
}

void Watch::look() {
  const Clock::time_point now = Clock::now();
  ProgressSample current = sample(now);
  progress_.tick(now, [&] { return current; });
  if (options_.status && options_.status->exchange(false)) {
    progress_.note(describe(current));
    const std::unique_lock outputs(outputs_, kPatience);
    const std::lock_guard lock(board_);
    try {
      if (outputs && sync_) sync_();
    } catch (const std::exception& error) {
      // The next record will fail likewise, and end the run.
      progress_.note(error.what());
    }
  }
  if (now - published_ >= kPublish) publish(current, now);
  const Cause told = cause();
  if (told != Cause::none && (!current.phase.empty() || now >= end_of_grace())) leave(told);
  if (options_.stall && is_stalled(now)) leave(Cause::stall);
}

void Watch::publish(const ProgressSample& current, Clock::time_point now) {
  published_ = now;
  if (options_.publish_status) options_.publish_status(current);
}

bool Watch::is_stalled(Clock::time_point now) {
  const Clock::duration passed = now - std::exchange(looked_, now);
  const std::unique_lock outputs(outputs_, std::try_to_lock);
  const std::lock_guard lock(board_);
  if (!outputs || !shown_.phase.empty()) {
    silent_ = {};  // no step is under way
  } else {
    silent_ += std::min<Clock::duration>(passed, kLongLook);
  }
  return silent_ > *options_.stall;
}

void Watch::leave(Cause cause) {
  // The lock keeps the end out of the middle of a record, where it comes in time; a torn record is
  // cut by the next life.
  const std::unique_lock outputs(outputs_, kPatience);
  try {
    if (outputs && sync_) sync_();
  } catch (const std::exception& error) {
    progress_.note(error.what());
  }
  progress_.finish();
  options_.leave(cause, outputs ? AtRest::yes : AtRest::no);
}

}  // namespace plimsoll::batch
