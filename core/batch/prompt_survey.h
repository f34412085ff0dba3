// A pass over a prompt file before a launch: what `run` would make of every line, and how long it
// is.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "batch/input_scan.h"
#include "batch/prompt_builder.h"
#include "files/input_file.h"

namespace plimsoll::batch {

/// A line of the slice, as the survey found it.
struct SurveyedLine {
  LinePlace place;
  uint64_t text = 0;                      // low half of its digest
  Envelope usual = Envelope::plain;       // of the lines before it
  uint64_t same_id = 0;                   // the line before it that has its id; 0: none
  const BuiltRequest* request = nullptr;  // null: it fails, or is done
  std::string fault = {};                 // why it cannot be answered in any context; else empty
};

struct SurveyOptions {
  PromptOptions prompts;
  ChatOptions chat;
  RequestFields defaults;
  FieldLimits limits;
  UnknownFields unknown_fields = UnknownFields::warn;
  /// Called for every field that has no effect, with the reason; may be null.
  std::function<void(uint64_t line, std::string_view name, std::string_view reason)> unknown;
  size_t max_line_bytes = size_t{16} << 20;
  Slice slice;                       // lines before it are read for their ids alone
  uint64_t most_bytes = UINT64_MAX;  // of the input that are read
  int64_t block_size = 16;           // prefixes are shared in whole blocks
  bool keeps_sequences = true;       // in PromptSurvey::sequences, 16 bytes each
  /// Why the launch refuses a line's images, if it does; null: it refuses none.
  std::function<std::optional<engine::RequestOutput::Failure>(const engine::Images&)> image_fault;
  /// True for slots whose prompts are not to be read; null: all are read.
  std::function<bool(uint64_t slot)> is_done;
  /// Called for every line of the slice, in order; may be null.
  std::function<void(const SurveyedLine&)> each;
};

/// One sequence that the file asks for, in tokens.
struct SurveyedSequence {
  int64_t prompt = 0;
  int64_t answer = 0;  // at most
};

struct PromptSurvey {
  int64_t lines = 0;  // not blank
  int64_t chats = 0;
  /// Lines that `run` would answer with an error; lines over the context are not counted.
  int64_t bad_lines = 0;
  uint64_t first_bad_line = 0;
  std::string first_bad_reason;
  int64_t duplicate_ids = 0;
  int64_t cut_lines = 0;       // lines whose prompt --long-prompt or truncate_prompt_tokens cuts
  int64_t dropped_tokens = 0;  // tokens cut from them
  int64_t split_lines = 0;     // lines whose prompt --long-prompt splits
  int64_t over_context = 0;    // lines that fail because their prompt does not fit
  uint64_t first_over_context = 0;
  int64_t longest_over_context = 0;  // tokens of the longest of them
  int64_t open_ended = 0;            // lines that state no max_tokens
  int64_t prompt_tokens = 0;         // of `sequences`, each prompt once
  /// Tokens of `prompt_tokens` that lie in whole blocks of a prefix earlier in the file.
  int64_t shared_tokens = 0;
  bool sharing_cut_off = false;  // the file has more blocks than are remembered
  /// Sequences of lines that would run, each choice by itself; empty where they are not kept.
  std::vector<SurveyedSequence> sequences;

  /// Tokens that prompts share, where all blocks were remembered.
  [[nodiscard]] std::optional<uint64_t> all_shared_tokens() const {
    return sharing_cut_off ? std::nullopt : std::optional(static_cast<uint64_t>(shared_tokens));
  }
};

/// Reads the input to its end. Throws Error(input_unusable) for what is not text.
PromptSurvey survey_prompts(files::InputFile& input, const SurveyOptions& options);

}  // namespace plimsoll::batch
