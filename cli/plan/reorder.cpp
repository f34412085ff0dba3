#include "cli/plan/reorder.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "cli/run/order.h"
#include "engines/engine.h"
#include "files/names.h"
#include "files/output_file.h"
#include "files/packing.h"

namespace plimsoll::cli {
namespace {

constexpr size_t kWrittenAtOnce = size_t{1} << 20;

void write_lines(const files::InputFile& input, const batch::LineOrder& order,
                 files::OutputFile& file) {
  std::string text;
  const auto write = [&] {
    file.append(text);
    text.clear();
  };
  for (const batch::OrderedLine& line : order.lines) {
    const size_t at = text.size();
    text.resize(at + line.place.bytes);
    input.read_again(line.place.offset, text.data() + at, line.place.bytes);
    text += '\n';
    if (text.size() >= kWrittenAtOnce) write();
  }
  write();
}

}  // namespace

void check_reorder(const PlanOptions& options) {
  if (options.reorder.empty()) return;
  if (engines::find_engine(options.engine) != nullptr || options.engine == "all") {
    fail(ExitCode::usage,
         "--reorder: goes with a plan of vllm or plimsoll; their order suits other engines too");
  }
  if (!options.has_prompts) fail(ExitCode::usage, "--reorder: orders the lines of -i FILE");
  if (files::is_stream(options.reorder)) {
    fail(ExitCode::usage, "--reorder {}: is no file", options.reorder);
  }
  const std::string part = options.reorder + ".part";
  const std::string record = options.reorder + ".run.json";
  std::vector<files::UsedFile> used = {{"--reorder", options.reorder, files::Use::write},
                                       {"--reorder", part, files::Use::write}};
  for (const std::string& input : input_paths(options.run)) {
    used.push_back({"-i", input, files::Use::read});
  }
  files::check_distinct(used);
  files::check_folder(options.reorder);
  files::check_name(options.reorder);
  if (files::packing_for(options.reorder) != files::Packing::none) {
    fail(ExitCode::usage, "--reorder {}: lines are not packed; give another name", options.reorder);
  }
  for (const std::string& other : {record, part}) {  // a run that has begun, or answers
    if (!files::exists(other)) continue;
    fail(ExitCode::foreign_output, "--reorder {}: {} is there already; choose another name",
         options.reorder, other);
  }
  if (options.run.existing == files::Existing::refuse && files::exists(options.reorder)) {
    fail(ExitCode::foreign_output,
         "--reorder {}: is there already; choose another name, or replace it with --overwrite",
         options.reorder);
  }
}

void write_in_order(const PlanOptions& options, const files::InputFile& input,
                    const batch::LineOrder& order) {
  const std::string bound = bound_by_input(input);
  if (!bound.empty()) fail(ExitCode::usage, "--reorder: {}: {}", input.name(), bound);
  const std::string part = options.reorder + ".part";
  files::OutputFile file = files::OutputFile::open_owned(part);
  try {
    file.truncate(0);
    write_lines(input, order, file);
    file.sync();
    file.rename(options.reorder, options.run.existing);
  } catch (const Error&) {
    files::remove_if_possible(part);
    throw;
  }
  file.close();
}

}  // namespace plimsoll::cli
