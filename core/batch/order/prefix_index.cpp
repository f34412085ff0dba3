#include "batch/order/prefix_index.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "batch/order/block_hashes.h"
#include "engine/admission.h"

namespace plimsoll::batch {
namespace {

IndexedSequence describe_sequence(const TokenIds& ids, const engine::SamplingParams& sampling) {
  IndexedSequence sequence;
  sequence.prompt = static_cast<uint32_t>(ids.size());
  sequence.choices = static_cast<uint32_t>(sampling.n);
  sequence.scores_prompt = sampling.prompt_logprobs.has_value();
  sequence.ends_at_limit = sampling.ignore_eos && sampling.stop.empty() &&
                           sampling.stop_token_ids.empty() && !sampling.grammar;
  sequence.answer = static_cast<uint32_t>(
      sequence.ends_at_limit ? sampling.max_tokens
                             : engine::AnswerLengths().expect(0, sampling.max_tokens));
  return sequence;
}

}  // namespace

PrefixIndex::PrefixIndex(int64_t block_size, size_t most_hashes)
    : block_size_(static_cast<size_t>(std::max<int64_t>(1, block_size))),
      most_hashes_(most_hashes) {}

void PrefixIndex::add_line(const BuiltRequest* request) {
  size_t part = 0;
  for (const Prompt& prompt : request ? request->prompts : std::vector<Prompt>()) {
    for (const TokenIds& ids : prompt.parts) {
      IndexedSequence sequence = describe_sequence(ids, request->sampling[part++]);
      const std::vector<uint64_t> blocks = hash_blocks(ids, prompt.images.get(), block_size_);
      while (hashes_.size() + blocks.size() / stride_ > most_hashes_ && !hashes_.empty()) halve();
      sequence.first_hash = hashes_.size();
      for (size_t i = stride_ - 1; i < blocks.size(); i += stride_) hashes_.push_back(blocks[i]);
      sequences_.push_back(sequence);
      prompt_tokens_ += sequence.prompt;
    }
  }
  first_sequence_.push_back(static_cast<uint32_t>(sequences_.size()));
}

// A hash stands for all tokens before its end, so that every second one says the same, coarser.
void PrefixIndex::halve() {
  size_t kept = 0;
  for (IndexedSequence& sequence : sequences_) {
    const auto count = static_cast<size_t>(hash_count(sequence));
    const size_t first = sequence.first_hash;
    sequence.first_hash = kept;
    for (size_t i = 1; i < count; i += 2) hashes_[kept++] = hashes_[first + i];
  }
  hashes_.resize(kept);
  stride_ *= 2;
}

int64_t PrefixIndex::depth_of(uint32_t line) const {
  const auto own = sequences(line);
  return own.empty() ? 0 : hash_count(own.front());
}

uint64_t PrefixIndex::hash_of(uint32_t line, int64_t depth) const {
  return hash(sequences(line).front(), depth);
}

PrefixIndex::Work PrefixIndex::work_of(uint32_t line) const {
  Work work;
  for (const IndexedSequence& sequence : sequences(line)) {
    work = std::max(work, Work{sequence.answer, sequence.prompt});
  }
  return work;
}

int64_t PrefixIndex::common_depth(uint32_t a, uint32_t b) const {
  int64_t common = 0;
  int64_t differs = std::min(depth_of(a), depth_of(b)) + 1;
  while (differs - common > 1) {
    const int64_t middle = common + (differs - common) / 2;
    (hash_of(a, middle - 1) == hash_of(b, middle - 1) ? common : differs) = middle;
  }
  return common;
}

std::vector<uint32_t> PrefixIndex::prefix_order() const {
  std::vector<uint32_t> order(lines());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint32_t>(i);
  std::vector<Range> todo = {{0, order.size()}};
  while (!todo.empty()) {
    const Range range = todo.back();
    todo.pop_back();
    split(range, order, todo);
  }
  return order;
}

// Gathers the lines that share one block more than all do, and puts these groups and the lines that
// share none in order.
void PrefixIndex::split(const Range& range, std::vector<uint32_t>& lines,
                        std::vector<Range>& todo) const {
  const auto begin = lines.begin() + static_cast<std::ptrdiff_t>(range.begin);
  const auto end = lines.begin() + static_cast<std::ptrdiff_t>(range.end);
  if (begin == end) return;
  int64_t depth = depth_of(*begin);  // shared by all
  for (auto line = begin; line != end; ++line) {
    depth = std::min(depth, common_depth(*begin, *line));
  }
  using Keyed = std::pair<std::optional<uint64_t>, uint32_t>;  // the next hash, and the line
  std::vector<Keyed> keyed;
  keyed.reserve(range.end - range.begin);
  for (auto line = begin; line != end; ++line) {
    keyed.emplace_back(
        depth_of(*line) > depth ? std::optional(hash_of(*line, depth)) : std::nullopt, *line);
  }
  std::ranges::sort(keyed);
  struct Group {
    Work longest;
    std::vector<uint32_t> lines;  // the first is the earliest
  };
  std::vector<Group> groups;
  std::optional<uint64_t> before;
  for (const auto& [hash, line] : keyed) {
    if (!hash || hash != before) groups.emplace_back();
    before = hash;
    groups.back().lines.push_back(line);
    groups.back().longest = std::max(groups.back().longest, work_of(line));
  }
  std::ranges::sort(groups, [](const Group& a, const Group& b) {
    return std::tuple(b.longest, a.lines.front()) < std::tuple(a.longest, b.lines.front());
  });
  size_t at = range.begin;
  for (const Group& group : groups) {
    if (group.lines.size() > 1) todo.push_back({at, at + group.lines.size()});
    for (const uint32_t line : group.lines) lines[at++] = line;
  }
}

}  // namespace plimsoll::batch
