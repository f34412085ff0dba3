// A pass over an input before a launch that compiles the grammars its lines ask for.
#pragma once

#include <cstdint>
#include <string>

#include "batch/fields/request_fields.h"
#include "batch/files/resume.h"
#include "batch/input_scan.h"
#include "files/input_file.h"
#include "grammar/compiler.h"

namespace plimsoll::batch {

struct GrammarSurveyOptions {
  RequestFields defaults;
  FieldLimits limits;
  size_t max_line_bytes = size_t{16} << 20;
  Slice slice;
  const DoneLines* done = nullptr;  // lines that need no grammar any more; null: none
};

struct GrammarSurvey {
  int64_t lines = 0;          // that have a grammar
  int64_t refused_lines = 0;  // whose grammar cannot be compiled
  uint64_t first_refused = 0;
  std::string first_reason;
};

/// Compiles the grammars of a regular input's lines; `compiler` keeps them, and the refusals. Reads
/// only lines with a field of structured_fields.h; defaults are the caller's to compile.
GrammarSurvey survey_grammars(files::InputFile& input, const GrammarSurveyOptions& options,
                              grammar::Compiler& compiler);

}  // namespace plimsoll::batch
