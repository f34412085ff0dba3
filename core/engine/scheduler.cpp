#include "engine/scheduler.h"

#include <algorithm>
#include <stdexcept>

#include "base/rounding.h"
#include "engine/speculation/speculation.h"

namespace plimsoll::engine {

const std::vector<Piece>& Scheduler::schedule() {
  step_.clear();
  budget_ = limits_.tokens;
  for (Sequence* sequence : running_) sequence->scheduled = 0;
  const uint64_t preemptions_before = preemptions_;
  schedule_decodes();
  const bool prompts_have_room = schedule_prompts();
  if (prompts_have_room && preemptions_ == preemptions_before) admit();
  if (step_.empty() && !(running_.empty() && waiting_.empty()) && !awaits_tokens()) {
    throw std::logic_error("scheduler: no sequence fits the KV blocks, though the plan said so");
  }
  return step_;
}

bool Scheduler::awaits_tokens() const {
  const auto awaits = [](const Sequence* sequence) { return sequence->awaits_token(); };
  return std::ranges::any_of(running_, awaits) || std::ranges::any_of(waiting_, awaits);
}

void Scheduler::commit() {
  for (const Piece& piece : step_) {
    cache_.commit(*piece.sequence, piece.end());
    if (images_ != nullptr) images_->commit(*piece.sequence);
  }
}

void Scheduler::add(Sequence& sequence) {
  waiting_.insert(&sequence);
  is_full_ = false;
}

void Scheduler::remove(Sequence& sequence) {
  is_full_ = false;
  const auto at = std::ranges::lower_bound(running_, &sequence, Older{});
  if (at != running_.end() && *at == &sequence) {
    running_.erase(at);
    if (images_ != nullptr) images_->release(sequence);
    cache_.release(sequence);
  } else {
    waiting_.erase(&sequence);
  }
}

void Scheduler::finish(Sequence& sequence) {
  lengths_.observe(std::ssize(sequence.output));
  ++finished_;
  remove(sequence);
}

void Scheduler::schedule_decodes() {
  const int64_t share = divide_up(running(), limits_.steps);
  for (size_t i = 0; i < running_.size() && budget_ > 0 && std::ssize(step_) < share; ++i) {
    Sequence& sequence = *running_[i];
    if (!sequence.decoding() || sequence.complete()) continue;
    const int64_t drafted = draft_of(sequence, budget_ - (share - std::ssize(step_)));
    // plan() fails only for the youngest sequence of all, which has none to take blocks from; it
    // makes room for the others.
    if (!plan(sequence, 1 + drafted)) preempt(sequence);
    sequence.drafted = std::max<int64_t>(sequence.scheduled - 1, 0);
  }
}

// Every other sequence has its token first, and its block.
int64_t Scheduler::draft_of(const Sequence& sequence, int64_t room) const {
  if (sequence.draft.empty() || room <= 0 || cache_.is_scarce(running())) return 0;
  return std::min(room, worthwhile_draft(sequence, divide_up(running(), limits_.steps)));
}

bool Scheduler::schedule_prompts() {
  for (size_t i = 0; i < running_.size() && budget_ > 0; ++i) {
    Sequence& sequence = *running_[i];
    if (sequence.scheduled > 0 || sequence.decoding() || sequence.awaits_reading) continue;
    if (plan(sequence, sequence.length() - sequence.computed)) continue;
    // Sequences that hold images must go on, so that the room for others comes back.
    if (!lacks_image_room_) return false;
  }
  return true;
}

void Scheduler::admit() {
  while (budget_ > 0 && running() < most_running() && !waiting_.empty()) {
    Sequence& sequence = **waiting_.begin();
    if (sequence.awaits_token() || is_full_) return;
    cache_.attach(sequence);
    if (!fits(sequence)) {
      cache_.release(sequence);
      return;
    }
    if (cache_.prefix_caching()) {
      prefix_queries_ += static_cast<uint64_t>(sequence.length());
      prefix_hits_ += static_cast<uint64_t>(sequence.computed);
    }
    waiting_.erase(waiting_.begin());
    running_.insert(std::ranges::lower_bound(running_, &sequence, Older{}), &sequence);
    sequence.scheduled = 0;
    if (!plan(sequence, sequence.length() - sequence.computed)) return;
  }
}

int64_t Scheduler::most_running() const {
  if (limits_.head_start == 0) return limits_.sequences;
  return std::min(limits_.sequences, limits_.head_start + finished_);
}

double Scheduler::under_way() const {
  double sum = 0;
  for (const Sequence* sequence : running_) {
    const int64_t length = sequence->length() + remaining(*sequence);
    sum += static_cast<double>(sequence->computed) / static_cast<double>(length);
  }
  return sum;
}

// Blocks for all tokens of the candidate must be free beside those that the running ones need for
// theirs, each with its next token; and, by forecast, at moments until all have ended (Gong et al.
// 2025, "Past-Future Scheduler"). Where an answer becomes longer, sequences are preempted.
bool Scheduler::fits(const Sequence& candidate) {
  if (running_.empty()) return true;
  remaining_.clear();
  for (const Sequence* sequence : running_) remaining_.push_back(remaining(*sequence));
  const auto has_room = [&](int64_t tokens) {
    return blocks_after(tokens, candidate) <= cache_.pool().available();
  };
  if (!has_room(1)) return false;
  if (limits_.admission == Admission::next_step) return true;
  // Stays so until a sequence leaves, or another comes to be the first.
  is_full_ = !std::ranges::all_of(moments(remaining(candidate)), has_room);
  return !is_full_;
}

// Needs are largest just before a sequence ends; of those moments an even selection.
const std::vector<int64_t>& Scheduler::moments(int64_t last) {
  constexpr size_t kMoments = 64;
  moments_ = remaining_;
  moments_.push_back(last);
  std::ranges::sort(moments_);
  const size_t count = std::min(moments_.size(), kMoments);
  for (size_t i = 0; i < count; ++i) {
    moments_[i] = moments_[(i + 1) * moments_.size() / count - 1];
  }
  moments_.resize(count);
  return moments_;
}

int64_t Scheduler::blocks_after(int64_t tokens, const Sequence& candidate) const {
  const auto needed = [&](const Sequence& sequence) {
    return cache_.blocks_needed(sequence, sequence.length() + tokens, limits_.tokens);
  };
  int64_t blocks = remaining(candidate) < tokens ? 0 : needed(candidate);
  for (size_t i = 0; i < running_.size(); ++i) {
    const Sequence& sequence = *running_[i];
    blocks += remaining_[i] < tokens ? -cache_.blocks_held(sequence) : needed(sequence);
  }
  return blocks;
}

int64_t Scheduler::remaining(const Sequence& sequence) const {
  const int64_t so_far = sequence.length() - sequence.prompt_length();
  const int64_t limit = sequence.max_length - sequence.prompt_length();
  const int64_t length = sequence.ends_at_limit ? limit : lengths_.expect(so_far, limit);
  return std::max<int64_t>(length - so_far, 1);
}

bool Scheduler::plan(Sequence& sequence, int64_t count) {
  lacks_image_room_ = false;
  const int64_t needed = ImageHolds::needed_end(sequence);
  int64_t end = sequence.computed + std::min(count, budget_);
  if (end < needed) return false;
  while (cache_.reachable_end(sequence) < needed) {
    Sequence* loser = victim(sequence);
    if (loser == nullptr) return false;
    preempt(*loser);
  }
  end = std::min(end, cache_.reachable_end(sequence));
  if (images_ != nullptr) {
    end = images_->hold(sequence, end);
    lacks_image_room_ = end <= sequence.computed;
    if (lacks_image_room_) return false;
  }
  cache_.extend(sequence, end);
  sequence.scheduled = end - sequence.computed;
  budget_ -= sequence.scheduled;
  const int64_t logits_from = std::max(sequence.computed, sequence.first_logits_position());
  step_.push_back({&sequence, sequence.computed, sequence.scheduled, std::min(end, logits_from)});
  return true;
}

Sequence* Scheduler::victim(const Sequence& beneficiary) const {
  for (size_t i = running_.size(); i-- > 0;) {
    if (running_[i]->serial <= beneficiary.serial) return nullptr;
    if (running_[i]->scheduled == 0) return running_[i];
  }
  return nullptr;
}

void Scheduler::preempt(Sequence& sequence) {
  sequence.draft.clear();
  sequence.drafted = 0;
  remove(sequence);
  add(sequence);
  ++preemptions_;
}

}  // namespace plimsoll::engine
