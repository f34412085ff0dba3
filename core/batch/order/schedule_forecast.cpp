#include "batch/order/schedule_forecast.h"

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

namespace plimsoll::batch {
namespace {

using engine::Piece;
using engine::Sequence;
using engine::TokenId;

struct ForecastRequest;

/// One choice of a request, of which the scheduler sees the sequence.
struct ForecastChoice : Sequence {
  ForecastRequest* request = nullptr;
};

struct ForecastRequest {
  std::vector<TokenId> prompt;
  std::vector<ForecastChoice> choices;
  int64_t answer = 0;  // tokens of each choice
  int64_t unfinished = 0;
  bool admitted = false;
};

/// Tokens with the index's hashes in place of their blocks, and tokens of their own behind these.
std::vector<TokenId> tokens_of(const PrefixIndex& index, const IndexedSequence& sequence,
                               int64_t block_size, uint64_t serial) {
  std::vector<TokenId> tokens(sequence.prompt, 0);
  const auto put = [&](int64_t at, uint64_t value) {
    for (int64_t i = 0; i < 2 && at + i < std::ssize(tokens); ++i) {
      tokens[static_cast<size_t>(at + i)] = static_cast<TokenId>(value >> (32 * i));
    }
  };
  const int64_t hashes = index.hash_count(sequence);
  for (int64_t at = 0; at < std::ssize(tokens); at += block_size) {
    const int64_t hash = at / index.span();
    put(at, hash < hashes ? index.hash(sequence, hash) : serial);
  }
  return tokens;
}

/// A replica of the engine without its arithmetic (engine/engine_replica.cpp).
class ForecastReplica {
 public:
  ForecastReplica(const engine::ScheduleShape& launch, ScheduleForecast& result)
      : runs_ahead_(launch.runs_ahead),
        cache_(launch.cache),
        scheduler_(cache_, launch.limits),
        result_(result) {}

  [[nodiscard]] size_t requests() const { return requests_.size(); }
  [[nodiscard]] int64_t unadmitted() const { return unadmitted_; }
  [[nodiscard]] uint64_t preemptions() const { return scheduler_.preemptions(); }
  [[nodiscard]] int64_t blocks_peak() const { return blocks_peak_; }
  [[nodiscard]] bool is_idle() const { return requests_.empty() && drawn_.empty(); }

  void add(const PrefixIndex& index, const IndexedSequence& wanted) {
    const uint64_t serial = next_serial_;
    next_serial_ += wanted.choices;
    ForecastRequest& request = requests_[serial];
    request.prompt = tokens_of(index, wanted, cache_.block_size(), serial);
    request.answer = wanted.answer;
    request.unfinished = wanted.choices;
    request.choices.resize(wanted.choices);
    for (size_t i = 0; i < request.choices.size(); ++i) {
      ForecastChoice& sequence = request.choices[i];
      sequence.request = &request;
      sequence.serial = serial + i;
      sequence.prompt = request.prompt;
      sequence.max_length = sequence.prompt_length() + wanted.answer;
      sequence.ends_at_limit = wanted.ends_at_limit;
    }
    if (wanted.scores_prompt && wanted.prompt > 1) request.choices[0].score_from = 0;
    ++unadmitted_;
    for (ForecastChoice& choice : request.choices) scheduler_.add(choice);
  }

  void step() {
    const std::vector<Piece>& pieces = scheduler_.schedule();
    if (!pieces.empty()) count(pieces);
    std::vector<Sequence*> drawn;
    for (const Piece& piece : pieces) {
      if (piece.end() == piece.sequence->length()) drawn.push_back(piece.sequence);
    }
    scheduler_.commit();
    take_drawn();
    drawn_ = std::move(drawn);
    for (Sequence* sequence : drawn_) sequence->pending = 0;
    if (!runs_ahead_) take_drawn();
  }

 private:
  static ForecastRequest& request_of(Sequence* sequence) {
    return *static_cast<ForecastChoice*>(sequence)->request;
  }

  void count(const std::vector<Piece>& pieces) {
    ++result_.steps;
    blocks_peak_ = std::max(blocks_peak_, cache_.pool().used());
    for (const Piece& piece : pieces) {
      ForecastRequest& request = request_of(piece.sequence);
      if (std::exchange(request.admitted, true)) continue;
      --unadmitted_;
      result_.cached_tokens += static_cast<uint64_t>(piece.first);
    }
  }

  void take_drawn() {
    for (Sequence* sequence : std::exchange(drawn_, {})) {
      sequence->pending = -1;
      sequence->score_from = -1;
      // No prompt has a token below zero.
      sequence->output.push_back(
          static_cast<TokenId>(-1 - static_cast<int64_t>(sequence->serial % INT32_MAX)));
      ++result_.completion_tokens;
      ForecastRequest& request = request_of(sequence);
      if (std::ssize(sequence->output) < request.answer) {
        scheduler_.apply_token(*sequence);
        continue;
      }
      scheduler_.finish(*sequence);
      if (--request.unfinished > 0) continue;
      requests_.erase(request.choices[0].serial);
    }
  }

  bool runs_ahead_;
  engine::KvCache cache_;
  engine::Scheduler scheduler_;
  ScheduleForecast& result_;
  std::map<uint64_t, ForecastRequest> requests_;  // by the serial of their first choice
  std::vector<Sequence*> drawn_;  // by the step before, whose tokens are not known yet
  uint64_t next_serial_ = 0;
  int64_t unadmitted_ = 0;
  int64_t blocks_peak_ = 0;
};

/// The runner's loop over the engine's (runner.cpp, engine/engine.cpp).
class ForecastRun {
 public:
  ForecastRun(const PrefixIndex& index, const engine::ScheduleShape& launch)
      : index_(index), limits_(launch.limits) {
    for (int64_t i = 0; i < launch.replicas; ++i) {
      replicas_.push_back(std::make_unique<ForecastReplica>(launch, result_));
    }
  }

  ScheduleForecast run(std::span<const uint32_t> order) {
    size_t next = 0;
    while (true) {
      int64_t queued = 0;
      while (next < order.size() && may_add(queued)) queued += add_line(order[next++]);
      const auto is_idle = [](const auto& replica) { return replica->is_idle(); };
      if (next == order.size() && std::ranges::all_of(replicas_, is_idle)) break;
      for (const auto& replica : replicas_) replica->step();
    }
    for (const auto& replica : replicas_) {
      result_.preemptions += replica->preemptions();
      result_.kv_blocks_peak += replica->blocks_peak();
    }
    return result_;
  }

 private:
  [[nodiscard]] bool may_add(int64_t queued) const {
    int64_t unadmitted = 0;
    for (const auto& replica : replicas_) unadmitted += replica->unadmitted();
    return unadmitted < limits_.sequences && queued < 2 * limits_.tokens;
  }

  int64_t add_line(uint32_t line) {
    int64_t tokens = 0;
    for (const IndexedSequence& sequence : index_.sequences(line)) {
      const auto requests = [](const auto& replica) { return replica->requests(); };
      (*std::ranges::min_element(replicas_, {}, requests))->add(index_, sequence);
      tokens += sequence.prompt;
    }
    result_.prompt_tokens += static_cast<uint64_t>(tokens);
    return tokens;
  }

  const PrefixIndex& index_;
  engine::SchedulerLimits limits_;
  ScheduleForecast result_;
  std::vector<std::unique_ptr<ForecastReplica>> replicas_;
};

}  // namespace

ScheduleForecast forecast_schedule(const PrefixIndex& index, std::span<const uint32_t> order,
                                   const engine::ScheduleShape& launch) {
  return ForecastRun(index, launch).run(order);
}

}  // namespace plimsoll::batch
