// The pipeline: lines in, requests through the engine, lines out; bounded at every stage.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "batch/digest.h"
#include "batch/files/in_flight.h"
#include "batch/files/output.h"
#include "batch/files/resume.h"
#include "batch/id_register.h"
#include "batch/input_scan.h"
#include "batch/line_reader.h"
#include "batch/order/line_order.h"
#include "batch/output_line.h"
#include "batch/progress.h"
#include "batch/prompt_builder.h"
#include "batch/run_counts.h"
#include "batch/watch.h"
#include "engine/engine.h"

namespace plimsoll::batch {

struct RunnerOptions {
  size_t max_line_bytes = size_t{16} << 20;
  Slice slice;
  std::optional<uint64_t> total_lines;  // lines of the slice, where known
  const DoneLines* done = nullptr;      // lines that earlier processes of the run have finished
  const LineOrder* order = nullptr;     // in which lines run; null: that of the input
  InFlight* in_flight = nullptr;        // where lines in hand are noted, if anywhere
  IdRegister* ids = nullptr;            // with the ids of lines that are done; null: one of its own
  std::string folder;                   // of temporary files; empty: /var/tmp
  UnknownFields unknown_fields = UnknownFields::warn;
  RequestFields defaults;
  FieldLimits limits;
  OutputOptions output;
};

class Runner {
 public:
  /// All references must outlive the runner. `errors` may be null: failed lines go to `output` too.
  Runner(files::InputFile& input, engine::Engine& engine, PromptBuilder& prompts, Output& output,
         Output* errors, Progress& progress, Watch& watch, RunnerOptions options);

  /// Runs to the end of the input or to the stop. A line's error costs that line. Throws
  /// Error(input_unusable, output_unwritable), BrokenPipe, and whatever the engine throws; each
  /// ends the run.
  RunCounts run();
  /// Counts so far; to be read with the watch's outputs() held.
  [[nodiscard]] const RunCounts& counts() const { return counts_; }
  /// The digests (low halves) of the lines that were read, by slot; for a regular input only.
  [[nodiscard]] files::PagedArray<uint64_t> take_texts() { return std::move(texts_); }
  [[nodiscard]] ProgressSample sample() const;
  /// Numbers of the first 20 lines that the engine has, for messages; to be read with the watch's
  /// outputs() held.
  [[nodiscard]] std::string running() const;

 private:
  struct Running {
    FinishedLine line;
    std::shared_ptr<const grammar::CompiledGrammar> grammar;  // of the answers; null: none
    uint64_t slot = 0;
    size_t unanswered = 0;  // parts that the engine still has
  };
  struct Part {
    std::shared_ptr<Running> running;
    size_t index = 0;
  };
  /// A line whose images are on their way.
  struct Prepared {
    std::shared_ptr<Running> running;
    BuiltRequest built;
  };
  /// Lock of the watch's outputs().
  using Lock = std::unique_lock<std::timed_mutex>;

  void admit(Lock& outputs);
  [[nodiscard]] bool may_admit() const;
  void admit_held();
  [[nodiscard]] bool is_told_to_stop();
  LineReader::Got next(Line& line, int timeout_ms);
  /// True when no line of the run comes after this one.
  [[nodiscard]] bool is_last(const Line& line) const;
  void take(Line line);
  [[nodiscard]] int deaths(const Line& line) const {
    return options_.in_flight ? options_.in_flight->deaths(line.number) : 0;
  }
  void refuse_killer(const Line& line) const;
  void note_id(const LineHead& head);
  void start(const LineHead& head, uint64_t slot, const Digest& identity, OrderedJson body);
  [[nodiscard]] BuiltRequest build(const LineHead& head, const LineRequest& request);
  [[nodiscard]] DoneLines::State done_before(uint64_t slot) const {
    return options_.done ? options_.done->at(slot) : DoneLines::State::open;
  }
  void pass_over(uint64_t slot);
  /// Queues prepared lines in order, up to the first whose images are not there yet.
  void queue_prepared();
  /// True when no line is under way.
  [[nodiscard]] bool is_idle() const { return engine_.idle() && prepared_.empty(); }
  /// Queues prepared lines, and waits for the first one's images when the engine has nothing to
  /// do.
  void await_prepared(Lock& outputs);
  void queue(const std::shared_ptr<Running>& running, BuiltRequest built);
  void answer(engine::RequestOutput output);
  void finish(Running& running);
  void fail_line(uint64_t slot, const LineHead& head, const Digest& identity,
                 const LineError& error);
  void meet_unknown_field(uint64_t line, std::string_view name, std::string_view reason);
  [[nodiscard]] double lines_under_way() const;
  void step(Lock& outputs);
  void drain(Lock& outputs);

  engine::Engine& engine_;
  PromptBuilder& prompts_;
  Output& output_;
  Output* errors_;
  Progress& progress_;
  Watch& watch_;
  RunnerOptions options_;
  files::InputFile& input_;
  LineReader reader_;
  Clock::time_point start_ = Clock::now();
  RunCounts counts_;
  files::PagedArray<uint64_t> texts_;
  IdRegister own_ids_;
  IdRegister& ids_;
  Envelope usual_ = Envelope::plain;
  std::optional<OrderedReader> ordered_;  // where lines do not run in the input's order
  bool ended_ = false;                    // no more lines to read
  std::optional<Line> held_;              // a line under suspicion, held until nothing else runs
  bool alone_ = false;                    // the line under suspicion runs now
  /// The error that ended the input; thrown when all lines before it are answered.
  std::optional<Error> input_error_;
  bool told_other_model_ = false;
  uint64_t next_tag_ = 0;
  std::deque<Prepared> prepared_;
  std::vector<engine::RequestOutput> finished_;
  size_t queued_tokens_ = 0;                  // prompt tokens queued since the last step
  std::unordered_map<uint64_t, Part> parts_;  // by the engine's tag
};

}  // namespace plimsoll::batch
