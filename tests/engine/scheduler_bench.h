// A scheduler over sequences that are plain structs; tokens come from nowhere.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "engine/scheduler.h"

namespace plimsoll::testing {

using engine::Admission;
using engine::KvCache;
using engine::Piece;
using engine::Scheduler;
using engine::Sequence;
using engine::TokenId;

struct Bench {
  struct Limits {
    int64_t blocks = 100;
    int64_t sequences = 8;
    int64_t tokens = 32;
    std::vector<int64_t> windows = {0};
    bool prefix_caching = true;
    Admission admission = Admission::next_step;
    int64_t steps = 1;
    int64_t head_start = 0;
  };

  explicit Bench(Limits limits)
      : cache({limits.blocks, 4, limits.windows, limits.prefix_caching}),
        scheduler(cache, {limits.sequences, limits.tokens, limits.admission, limits.steps,
                          limits.head_start}),
        steps(static_cast<size_t>(limits.steps)) {}

  /// A prompt of tokens that count up; serials count up from 1.
  Sequence& add(int64_t length, TokenId first) { return add(length, first, ++last_serial); }
  Sequence& add(int64_t length, TokenId first, uint64_t serial) {
    std::vector<TokenId>& prompt = prompts.emplace_back(static_cast<size_t>(length));
    for (TokenId& token : prompt) token = first++;
    Sequence& sequence = sequences.emplace_back();
    sequence.serial = serial;
    sequence.prompt = prompt;
    scheduler.add(sequence);
    return sequence;
  }

  /// The step is on its way: f(sequence) for those that reached their end in the step that ends.
  template <typename F>
  void start(const std::vector<Piece>& pieces, const F& f) {
    scheduler.commit();
    std::vector<Sequence*>& read = under_way.emplace_back();
    for (const Piece& piece : pieces) {
      if (piece.end() < piece.sequence->length()) continue;
      piece.sequence->awaits_reading = true;
      read.push_back(piece.sequence);
    }
    if (under_way.size() < steps) return;
    for (Sequence* sequence : under_way.front()) {
      sequence->awaits_reading = false;
      f(*sequence);
    }
    under_way.pop_front();
  }

  /// Runs a step and prints it. Sequences that reach their end get token 7.
  std::string step() {
    const std::vector<Piece>& pieces = scheduler.schedule();
    const std::string text = print(pieces);
    start(pieces, [](Sequence& sequence) { sequence.output.push_back(7); });
    return text;
  }

  /// "serial:first+count" of each piece.
  static std::string print(const std::vector<Piece>& pieces) {
    std::string text;
    for (const Piece& piece : pieces) {
      text += (text.empty() ? "" : " ") + std::to_string(piece.sequence->serial) + ":" +
              std::to_string(piece.first) + "+" + std::to_string(piece.count);
    }
    return text;
  }

  KvCache cache;
  Scheduler scheduler;
  size_t steps;
  std::deque<std::vector<Sequence*>> under_way;  // by step, those that reach their end
  std::deque<std::vector<TokenId>> prompts;
  std::deque<Sequence> sequences;
  uint64_t last_serial = 0;
};

}  // namespace plimsoll::testing
