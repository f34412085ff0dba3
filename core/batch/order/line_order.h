// The order in which the lines of an input run, where it is not the input's own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "batch/input_scan.h"
#include "batch/order/prefix_index.h"
#include "batch/prompt_survey.h"

namespace plimsoll::batch {

/// A line of an ordered run, with what the lines before it in the input say of it.
struct OrderedLine {
  LinePlace place;
  uint64_t same_id = 0;              // the line before it that has its id; 0: none
  Envelope usual = Envelope::plain;  // of the lines before it
};

/// Some 70 bytes a line.
struct LineOrder {
  std::vector<OrderedLine> lines;  // those that are not done, in the order in which they run
  std::vector<uint64_t> texts;     // low half of each line's digest, by slot, done or not
};

/// The lines of an input and the index of their prompts, for a survey to fill.
class LineIndex {
 public:
  explicit LineIndex(int64_t block_size) : prompts(block_size) {}

  /// Takes the next line of the slice; lines that are done are known by their texts alone.
  void add(const SurveyedLine& line, bool is_done);
  /// Puts the lines in this order of the index's numbers.
  void arrange(std::span<const uint32_t> order);

  PrefixIndex prompts;  // of the lines of `order`, in the input's order
  LineOrder order;
};

/// Reads lines of a regular input, which is not packed, in an order of their own.
class OrderedReader {
 public:
  /// All must outlive the reader.
  OrderedReader(const files::InputFile& input, const LineOrder& order, const Slice& slice)
      : input_(input), order_(order), slice_(slice) {}

  /// The next line, and the envelope of those before it in the input. Throws Error(input_unusable)
  /// when its text is no longer what it was.
  LineReader::Got next(Line& line, Envelope& usual);
  [[nodiscard]] bool at_end() const { return next_ == order_.lines.size(); }
  /// The line that has the id of the last one, before it in the input; 0: none.
  [[nodiscard]] uint64_t same_id() const { return order_.lines[next_ - 1].same_id; }

 private:
  const files::InputFile& input_;
  const LineOrder& order_;
  const Slice& slice_;
  size_t next_ = 0;
};

}  // namespace plimsoll::batch
