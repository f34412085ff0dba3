#include "batch/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace plimsoll::batch {
namespace {

// Waiting for input with nothing else to do: often enough to see a signal.
constexpr int kIdleWaitMs = 100;
// Answers that wait for earlier lines (streams only) stop the reading from here on.
constexpr size_t kHeldBackBytes = size_t{64} << 20;
// Lines read ahead whose images are being decoded.
constexpr size_t kPrepared = 64;
constexpr size_t kNamedUnknownFields = 100;
constexpr uint64_t kToldFailures = 3;  // of an input that cannot be scanned

}  // namespace

Runner::Runner(files::InputFile& input, engine::Engine& engine, PromptBuilder& prompts,
               Output& output, Output* errors, Progress& progress, Watch& watch,
               RunnerOptions options)
    : engine_(engine),
      prompts_(prompts),
      output_(output),
      errors_(errors),
      progress_(progress),
      watch_(watch),
      options_(std::move(options)),
      input_(input),
      reader_(input, options_.max_line_bytes),
      texts_(options_.folder),
      own_ids_(options_.folder),
      ids_(options_.ids ? *options_.ids : own_ids_) {
  if (!options_.order) return;
  ordered_.emplace(input, *options_.order, options_.slice);
  for (const uint64_t text : options_.order->texts) texts_.push_back(text);
}

RunCounts Runner::run() {
  Lock outputs(watch_.outputs());
  ended_ = options_.slice.count == 0;
  counts_.total = options_.total_lines;
  if (const DoneLines* before = options_.done) {
    // Lines of earlier lives are counted before they are read: the run may be stopped before that.
    counts_.ok = before->ok;
    counts_.failed = before->failed;
    counts_.failed_by_code = before->failed_by_code;
    counts_.lines = counts_.resumed = before->ok + before->failed;
  }
  bool done = false;
  while (!done && !is_told_to_stop()) {
    admit(outputs);
    await_prepared(outputs);
    done = is_idle() && ended_ && !held_;
    if (!engine_.idle()) step(outputs);
    queued_tokens_ = 0;
    watch_.show(sample());
  }
  if (!done) drain(outputs);
  if (done && input_error_) {
    output_.sync();
    const std::string answered =
        counts_.lines == 0   ? ""
        : counts_.lines == 1 ? "; the line before is answered"
                             : fmt::format("; the {} lines before are answered", counts_.lines);
    fail(input_error_->code(), "{}{}", input_error_->what(), answered);
  }
  return counts_;
}

// The outputs are at rest while the engine works, however long that takes.
void Runner::step(Lock& outputs) {
  watch_.show(sample());
  finished_.clear();
  outputs.unlock();
  engine_.step(finished_);
  outputs.lock();
  for (engine::RequestOutput& output : finished_) answer(std::move(output));
}

bool Runner::is_told_to_stop() {
  const Cause cause = watch_.cause();
  if (cause == Cause::none) return false;
  counts_.ending = cause == Cause::signal ? Ending::stopped : Ending::time_limit;
  return true;
}

void Runner::drain(Lock& outputs) {
  const Clock::time_point end = watch_.end_of_grace();
  while (!engine_.idle() && Clock::now() < end) step(outputs);
  counts_.abandoned = counts_.lines - counts_.ok - counts_.failed;
}

// ---- lines in ----

bool Runner::may_admit() const {
  const engine::EnginePlan& plan = engine_.plan();
  return !ended_ && engine_.waiting() < plan.max_num_seqs && prepared_.size() < kPrepared &&
         queued_tokens_ < 2 * static_cast<size_t>(plan.max_num_batched_tokens) &&
         (is_idle() || !prompts_.is_full()) && output_.held_back() < kHeldBackBytes &&
         (!errors_ || errors_->held_back() < kHeldBackBytes);
}

// A line that may kill the process does it alone.
void Runner::admit_held() {
  if (!is_idle()) return;
  alone_ = true;
  take(*std::exchange(held_, std::nullopt));
}

void Runner::admit(Lock& outputs) {
  if (is_idle()) alone_ = false;
  if (alone_) return;
  if (held_) return admit_held();
  Line line;
  while (may_admit()) {
    const bool idle = is_idle();
    if (idle) outputs.unlock();
    const LineReader::Got got = next(line, idle ? kIdleWaitMs : 0);
    if (idle) outputs.lock();
    if (got == LineReader::Got::nothing_yet) return;
    if (got == LineReader::Got::end) {
      ended_ = true;
      return;
    }
    // The slice ends with this line: what follows is not even waited for.
    ended_ = is_last(line);
    if (deaths(line) > 0) {
      held_ = line;
      return;
    }
    take(std::move(line));
    if (is_told_to_stop()) return;
  }
}

// Reads the next line. An input that breaks off is an error of the lines behind the break, not of
// those that came.
LineReader::Got Runner::next(Line& line, int timeout_ms) {
  try {
    return ordered_ ? ordered_->next(line, usual_) : reader_.next(line, timeout_ms);
  } catch (const Error& error) {
    input_error_ = error;
    return LineReader::Got::end;
  }
}

bool Runner::is_last(const Line& line) const {
  if (ordered_) return ordered_->at_end();
  return line.ordinal >= options_.slice.first &&
         line.ordinal - options_.slice.first + 1 >= options_.slice.count;
}

void Runner::take(Line line) {
  const Digest identity = digest(line.text);
  const bool ours = line.ordinal >= options_.slice.first;
  const uint64_t slot = ours ? line.ordinal - options_.slice.first : 0;
  if (ours && input_.is_regular() && !ordered_) texts_.push_back(identity.low);
  const bool open = done_before(slot) == DoneLines::State::open;
  if (ours && !open && options_.done && slot < options_.done->batch.size()) {
    usual_ = options_.done->batch[slot] ? Envelope::batch : Envelope::plain;
    return pass_over(slot);
  }
  if (ours && open) ++counts_.lines;
  LineHead head;
  try {
    OrderedJson body = read_envelope(line, usual_, head);
    usual_ = head.envelope;
    note_id(head);
    if (ours && open) {
      refuse_killer(line);
      start(head, slot, identity, std::move(body));
    }
  } catch (const LineError& error) {
    usual_ = head.envelope;
    ids_.take_failed(head);
    if (ours && open) fail_line(slot, head, identity, error);
  }
  if (ours && !open) pass_over(slot);
}

void Runner::refuse_killer(const Line& line) const {
  const int deaths = this->deaths(line);
  if (deaths < InFlight::kTooMany) return;
  throw LineError(code::crashed, fmt::format("line {}: the process died {} times while it had this "
                                             "line in hand; --retry-failed tries it again",
                                             line.number, deaths));
}

void Runner::pass_over(uint64_t slot) {
  output_.put(slot, "");
  if (errors_) errors_->put(slot, "");
}

void Runner::note_id(const LineHead& head) {
  if (const uint64_t before = ordered_ ? ordered_->same_id() : ids_.take(head).before) {
    throw LineError(code::duplicate_id,
                    fmt::format("line {}: the id is that of line {} too", head.number, before));
  }
}

void Runner::start(const LineHead& head, uint64_t slot, const Digest& identity, OrderedJson body) {
  const auto unknown = [&](std::string_view name, std::string_view nearest) {
    meet_unknown_field(head.number, name, nearest);
  };
  LineRequest request =
      read_request(head, std::move(body), options_.defaults, options_.limits, unknown);
  BuiltRequest built = build(head, request);
  if (!request.fields.model.empty() && request.fields.model != options_.output.model &&
      !told_other_model_) {
    told_other_model_ = true;
    progress_.note(
        printable(fmt::format("line {} asks for model \"{}\"; {} answers it", head.number,
                              request.fields.model, options_.output.model)));
  }
  auto running = std::make_shared<Running>();
  running->slot = slot;
  running->grammar = built.sampling.front().grammar;
  running->line.head = head;
  running->line.identity = identity;
  if (head.endpoint == Endpoint::chat) {
    const OrderedJson& last = request.messages.back();
    running->line.last_role = last["role"].get<std::string>();
    const OrderedJson content = last.value("content", OrderedJson());
    if (content.is_string()) running->line.last_content = content.get<std::string>();
  }
  running->line.fields = std::move(request.fields);
  counts_.dropped_tokens += static_cast<uint64_t>(built.dropped_tokens);
  if (options_.in_flight) options_.in_flight->begin(head.number);
  // Prompts queue in the input's order: those behind a line with images wait too.
  for (const Prompt& prompt : built.prompts) {
    for (const TokenIds& part : prompt.parts) queued_tokens_ += part.size();
  }
  prepared_.push_back({std::move(running), std::move(built)});
  queue_prepared();
}

BuiltRequest Runner::build(const LineHead& head, const LineRequest& request) {
  const auto& constraint = request.fields.constraint;
  if (constraint) ++counts_.structured.lines;
  try {
    return prompts_.start(head, request);
  } catch (const LineError& error) {
    if (constraint && error.param() == constraint->field) ++counts_.structured.refused;
    throw;
  }
}

void Runner::queue_prepared() {
  while (!prepared_.empty() && prepared_.front().built.is_ready()) {
    Prepared next = std::move(prepared_.front());
    prepared_.pop_front();
    try {
      prompts_.finish(next.built);
      queue(next.running, std::move(next.built));
    } catch (const LineError& error) {
      const FinishedLine& line = next.running->line;
      fail_line(next.running->slot, line.head, line.identity, error);
    }
  }
}

void Runner::await_prepared(Lock& outputs) {
  if (engine_.idle() && !prepared_.empty()) {
    outputs.unlock();
    for (const ComingImage& image : prepared_.front().built.coming) image.pixels.wait();
    outputs.lock();
  }
  queue_prepared();
}

void Runner::queue(const std::shared_ptr<Running>& running, BuiltRequest built) {
  FinishedLine& line = running->line;
  line.prompts = std::move(built.prompts);
  line.dropped_tokens = built.dropped_tokens;
  line.outputs.resize(built.sampling.size());
  running->unanswered = built.sampling.size();
  size_t index = 0;
  for (const Prompt& prompt : line.prompts) {
    for (const TokenIds& part : prompt.parts) {
      engine::Request request;
      request.tag = next_tag_++;
      // Random numbers hang on the id; further prompts and parts of one line draw their own.
      request.key = line.head.id.value_or("") + (index == 0 ? "" : fmt::format("\x1f{}", index));
      request.prompt = part;
      request.sampling = std::move(built.sampling[index]);
      request.images = prompt.images;
      parts_[request.tag] = {running, index++};
      engine_.add(std::move(request));
    }
  }
}

void Runner::meet_unknown_field(uint64_t line, std::string_view name, std::string_view reason) {
  on_unknown(options_.unknown_fields)(name, reason);
  const std::string shown(shortened_name(name));
  const auto known = counts_.unknown_fields.find(shown);
  if (known != counts_.unknown_fields.end()) {
    ++known->second;
  } else if (counts_.unknown_fields.size() < kNamedUnknownFields) {
    counts_.unknown_fields[shown] = 1;
    progress_.note(printable(fmt::format("line {}: {}: {}", line, shown, reason)));
  }
}

// ---- lines out ----

void Runner::answer(engine::RequestOutput output) {
  const auto found = parts_.find(output.tag);
  const Part part = found->second;
  parts_.erase(found);
  part.running->line.outputs[part.index] = std::move(output);
  if (--part.running->unanswered == 0) finish(*part.running);
}

void Runner::finish(Running& running) {
  FinishedLine& line = running.line;
  try {
    read_parts(options_.output.formats, running.grammar.get(), line);
  } catch (const LineError& error) {
    fail_line(running.slot, line.head, line.identity, error);
    return;
  }
  counts_.add(line, options_.output.formats.tools != nullptr);
  output_.put(running.slot, answer_line(line, options_.output));
  if (errors_) errors_->put(running.slot, "");
  if (options_.in_flight) options_.in_flight->end(line.head.number);
  ++counts_.ok;
}

void Runner::fail_line(uint64_t slot, const LineHead& head, const Digest& identity,
                       const LineError& error) {
  const std::string text = failure_line(head, identity, error, options_.output);
  output_.put(slot, errors_ ? "" : text);
  if (errors_) errors_->put(slot, text);
  if (options_.in_flight) options_.in_flight->end(head.number);
  // A regular input was scanned before the run, which has reported the lines that cannot be
  // answered.
  if (!input_.is_regular() && counts_.failed < kToldFailures) {
    const std::string place = fmt::format("line {}", head.number);
    const std::string reason = error.what();
    progress_.note(printable(reason.starts_with(place) ? reason : place + ": " + reason));
  }
  ++counts_.failed;
  ++counts_.failed_by_code[error.code()];
}

std::string Runner::running() const {
  constexpr size_t kNamed = 20;
  std::set<uint64_t> numbers;
  for (const auto& [tag, part] : parts_) numbers.insert(part.running->line.head.number);
  std::string text;
  size_t named = 0;
  for (const uint64_t number : numbers) {
    if (named++ == kNamed) return text + " and others";
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  }
  return text;
}

// Lines in hand, each counted as the share of it that is computed.
double Runner::lines_under_way() const {
  const engine::EngineStats& stats = engine_.stats();
  const uint64_t in_hand = counts_.lines - counts_.ok - counts_.failed;
  const auto sequences = static_cast<double>(stats.running + stats.waiting);
  return sequences > 0 ? static_cast<double>(in_hand) * stats.under_way / sequences : 0;
}

ProgressSample Runner::sample() const {
  const engine::EngineStats& stats = engine_.stats();
  ProgressSample sample;
  sample.done = counts_.ok + counts_.failed;
  sample.failed = counts_.failed;
  sample.total = options_.total_lines;
  if (sample.total && *sample.total > 0) {
    const auto total = static_cast<double>(*sample.total);
    sample.fraction = (static_cast<double>(sample.done) + lines_under_way()) / total;
    sample.before = static_cast<double>(counts_.resumed) / total;
  } else if (input_.is_regular() && input_.size() > 0) {
    const auto read = static_cast<double>(reader_.bytes_read());
    sample.fraction = std::min(1.0, read / static_cast<double>(input_.size()));
  }
  sample.tokens_in = stats.prompt_tokens;
  sample.tokens_out = stats.generated_tokens;
  sample.running = stats.running;
  sample.waiting = stats.waiting;
  if (stats.kv_blocks > 0) {
    sample.kv_use =
        static_cast<double>(stats.kv_blocks_used) / static_cast<double>(stats.kv_blocks);
  }
  sample.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  sample.order = ordered_ ? "prefix" : "file";
  return sample;
}

}  // namespace plimsoll::batch
