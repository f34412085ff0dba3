// Output lines as text: plain, OpenAI batch, ids alone; answers and failures.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "batch/digest.h"
#include "batch/finished_line.h"
#include "batch/line_error.h"

namespace plimsoll::batch {

enum class OutputFormat : uint8_t { json, ids };

/// Options that every output line of a run shares.
struct OutputOptions {
  OutputFormat format = OutputFormat::json;
  const text::Tokenizer* tokenizer = nullptr;
  text::AnswerFormats formats = {};  // of the model's answers
  std::string model;                 // name shown in response bodies
  int64_t created = 0;               // seconds, shown in response bodies
  uint64_t seed = 0;                 // with the line's text, the source of response ids
};

/// The output line of an answer, with its line end.
std::string answer_line(const FinishedLine& line, const OutputOptions& options);
/// The output line of a failure, with its line end.
std::string failure_line(const LineHead& head, const Digest& identity, const LineError& error,
                         const OutputOptions& options);

}  // namespace plimsoll::batch
