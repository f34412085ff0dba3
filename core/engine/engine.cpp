#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "engine/batch_builder.h"
#include "engine/kv_cache.h"
#include "engine/layout.h"
#include "engine/request_state.h"
#include "engine/row_reader.h"
#include "engine/scheduler.h"
#include "memory/host_memory.h"

namespace plimsoll::engine {

namespace {

KvCacheOptions cache_options(const EngineLayout& layout, bool prefix_caching) {
  KvCacheOptions options{layout.num_blocks, layout.kv.block_size, {}, prefix_caching};
  for (const KvGroup& group : layout.kv.groups) options.windows.push_back(group.window);
  return options;
}

// longrope: one table for all tokens of a request, chosen by how long it may become.
bool wants_long_rope(const model::ModelSpec& spec, int64_t length) {
  return std::ranges::any_of(spec.ropes, [&](const model::RopeSpec& rope) {
    return rope.long_table && length > rope.original_max_position;
  });
}

// The rows whose logits a step wants, in the order of the batch.
class WantedRows {
 public:
  explicit WantedRows(const std::vector<Piece>& pieces) : piece_(pieces.begin()) {}

  /// The next row's sequence and position; there must be one.
  std::pair<Sequence*, int64_t> next() {
    while (piece_->logits_from + taken_ >= piece_->end()) {
      ++piece_;
      taken_ = 0;
    }
    return {piece_->sequence, piece_->logits_from + taken_++};
  }

 private:
  std::vector<Piece>::const_iterator piece_;
  int64_t taken_ = 0;  // of this piece
};

}  // namespace

struct Engine::Impl {
  Impl(const model::ModelSpec& model_spec, const checkpoint::WeightSource& weights,
       backend::Backend& model_backend, const text::Tokenizer* model_tokenizer,
       EngineOptions engine_options);

  void add(Request request);
  void step(std::vector<RequestOutput>& finished);

  /// Counts the pieces of the step that is about to run; true when it has decode rows alone.
  bool count_pieces(const std::vector<Piece>& pieces);
  void score(backend::View hidden, const std::vector<Piece>& pieces);
  void read_rows(const float* logits, int64_t stride);
  void settle(ScoredRow& row);
  void accept(ScoredRow& row);
  void wake_followers(RequestState& request);
  void fail(RequestState& request, std::string code, std::string message);
  void update_gauges();

  const model::ModelSpec& spec;
  backend::Backend& backend;
  const text::Tokenizer* tokenizer;
  EngineOptions options;
  std::vector<TokenId> eos;
  EngineLayout layout;
  EnginePlan plan;
  memory::HostMemory memory;
  memory::Arena arena;
  Launch launch;
  KvCache cache;
  Scheduler scheduler;
  BatchBuilder batch;
  std::vector<RowReader> readers;             // one for each thread
  std::vector<ScoredRow> rows;                // of the slice of logits at hand
  std::map<uint64_t, RequestState> requests;  // by the serial of their first choice
  std::vector<RequestState*> ended;           // in this step
  std::vector<RequestOutput> rejected;        // since the last step
  uint64_t next_serial = 0;
  int64_t unadmitted = 0;  // requests
  EngineStats stats;
};

Engine::Impl::Impl(const model::ModelSpec& model_spec, const checkpoint::WeightSource& weights,
                   backend::Backend& model_backend, const text::Tokenizer* model_tokenizer,
                   EngineOptions engine_options)
    : spec(model_spec),
      backend(model_backend),
      tokenizer(model_tokenizer),
      options(std::move(engine_options)),
      layout(resolve_layout(spec, options, backend.footprint())),
      plan(plan_layout(spec, layout, backend.footprint())),
      memory(plan.total_bytes),
      arena(memory::Arena::placing(memory.data(), memory.size())),
      launch(spec, layout, backend, arena),
      cache(cache_options(layout, options.prefix_caching)),
      scheduler(cache, {layout.limits.sequences, layout.limits.batched_tokens}),
      batch(launch.batch, layout.limits) {
  const auto vocabulary = static_cast<size_t>(spec.vocab_size);
  for (size_t at = 0; at < launch.sampling_ids.size(); at += vocabulary) {
    readers.emplace_back(launch.sampling_values.subspan(at, vocabulary),
                         launch.sampling_ids.subspan(at, vocabulary));
  }
  for (const TokenId token : options.eos_token_ids) {
    if (token >= 0 && token < spec.vocab_size) eos.push_back(token);
  }
  check_regions(plan, arena);
  launch.model.load(weights);
  stats.kv_blocks = layout.num_blocks;
}

void Engine::Impl::add(Request request) {
  if (auto fault = find_fault(request, spec.vocab_size, layout.max_model_len)) {
    RequestOutput output;
    output.tag = request.tag;
    output.prompt_tokens = static_cast<int64_t>(request.prompt.size());
    output.failure = std::move(fault);
    rejected.push_back(std::move(output));
    return;
  }
  const auto prompt_length = static_cast<int64_t>(request.prompt.size());
  ChoiceContext context{.tokenizer = tokenizer, .eos = eos, .run_seed = options.seed};
  context.max_tokens = std::min(request.sampling.max_tokens, layout.max_model_len - prompt_length);
  context.long_rope = wants_long_rope(spec, prompt_length + context.max_tokens);
  const uint64_t serial = next_serial;
  next_serial += static_cast<uint64_t>(request.sampling.n);
  RequestState& state =
      requests.try_emplace(serial, std::move(request), serial, context).first->second;
  ++unadmitted;
  scheduler.add(state.leader().sequence());
  state.followers_wait = true;
  // Without whole blocks to share there is nothing to wait for.
  if (!options.prefix_caching || prompt_length <= layout.kv.block_size) wake_followers(state);
}

void Engine::Impl::wake_followers(RequestState& request) {
  if (!std::exchange(request.followers_wait, false)) return;
  for (size_t i = 1; i < request.choices.size(); ++i) {
    scheduler.add(request.choices[i]->sequence());
  }
}

void Engine::Impl::step(std::vector<RequestOutput>& finished) {
  std::ranges::move(rejected, std::back_inserter(finished));
  rejected.clear();
  const std::vector<Piece>& pieces = scheduler.schedule();
  if (pieces.empty()) return;
  const auto start = std::chrono::steady_clock::now();
  const bool decodes_alone = count_pieces(pieces);
  {
    const memory::Scope scope(launch.scratch);
    const backend::View hidden = launch.model.forward(batch.build(pieces));
    scheduler.commit();
    score(hidden, pieces);
  }
  for (RequestState* request : ended) {
    finished.push_back(request->take_output());
    requests.erase(request->leader().sequence().serial);
  }
  ended.clear();
  update_gauges();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  (decodes_alone ? stats.decode_seconds : stats.prefill_seconds) += spent.count();
}

bool Engine::Impl::count_pieces(const std::vector<Piece>& pieces) {
  ++stats.steps;
  stats.peak_running = std::max(stats.peak_running, scheduler.running());
  stats.kv_blocks_peak = std::max(stats.kv_blocks_peak, cache.pool().used());
  bool decodes_alone = true;
  for (const Piece& piece : pieces) {
    RequestState& request = piece.sequence->choice->request();
    if (!std::exchange(request.admitted, true)) {
      --unadmitted;
      request.cached_tokens = piece.first;
    }
    if (piece.sequence->decoding()) continue;
    decodes_alone = false;
    stats.prompt_tokens += static_cast<uint64_t>(piece.count);
  }
  return decodes_alone;
}

void Engine::Impl::score(backend::View hidden, const std::vector<Piece>& pieces) {
  WantedRows wanted(pieces);
  for (int64_t first = 0; first < hidden.rows; first += layout.limits.logits_rows) {
    const int64_t count = std::min(layout.limits.logits_rows, hidden.rows - first);
    rows.resize(static_cast<size_t>(count));
    for (ScoredRow& row : rows) std::tie(row.sequence, row.position) = wanted.next();
    const memory::Scope scope(launch.scratch);
    const backend::View logits = launch.model.logits(hidden.slice_rows(first, count));
    read_rows(backend.host_logits(logits, {}), logits.stride);
    for (ScoredRow& row : rows) settle(row);
  }
}

// Rows are read on all threads, each with its own working memory; what a row says depends on
// nothing but the row and its sequence.
void Engine::Impl::read_rows(const float* logits, int64_t stride) {
  std::atomic<size_t> next = 0;
  const auto work = [&](int64_t thread) {
    RowReader& reader = readers[static_cast<size_t>(thread)];
    for (size_t i = next++; i < rows.size(); i = next++) {
      const float* values = logits + static_cast<int64_t>(i) * stride;
      reader.read(rows[i], {values, static_cast<size_t>(spec.vocab_size)});
    }
  };
  backend.parallel(std::min<int64_t>(std::ssize(readers), std::ssize(rows)), work);
}

void Engine::Impl::settle(ScoredRow& row) {
  RequestState& request = row.sequence->choice->request();
  if (request.failure) return;
  switch (row.outcome) {
    case Sampled::not_finite:
      return fail(
          request, "numeric",
          fmt::format("logits after token {} are not finite (NaN or infinity)", row.position));
    case Sampled::nothing_allowed:
      return fail(request, "bad_field",
                  "allowed_token_ids, bad_words, min_tokens and logit_bias together leave no "
                  "token");
    case Sampled::token:
      return row.of_prompt() ? request.add_prompt_logprobs(std::move(*row.logprobs)) : accept(row);
  }
}

void Engine::Impl::accept(ScoredRow& row) {
  Choice& choice = *row.sequence->choice;
  RequestState& request = choice.request();
  if (row.logprobs) choice.add_logprobs(std::move(*row.logprobs));
  choice.accept(row.token);
  ++stats.generated_tokens;
  wake_followers(request);
  if (!choice.finished()) return;
  scheduler.remove(*row.sequence);
  if (--request.unfinished == 0) ended.push_back(&request);
}

void Engine::Impl::fail(RequestState& request, std::string code, std::string message) {
  request.fail(std::move(code), std::move(message));
  for (const auto& choice : request.choices) {
    if (!choice->finished()) scheduler.remove(choice->sequence());
  }
  ended.push_back(&request);
}

void Engine::Impl::update_gauges() {
  stats.cached_prompt_tokens = scheduler.prefix_hits();
  stats.prefix_queries_tokens = scheduler.prefix_queries();
  stats.preemptions = scheduler.preemptions();
  stats.running = scheduler.running();
  stats.waiting = unadmitted;
  stats.kv_blocks_used = cache.pool().used();
}

Engine::Engine(const model::ModelSpec& spec, const checkpoint::WeightSource& weights,
               backend::Backend& backend, const text::Tokenizer* tokenizer, EngineOptions options)
    : impl_(std::make_unique<Impl>(spec, weights, backend, tokenizer, std::move(options))) {}

Engine::~Engine() = default;

const EnginePlan& Engine::plan() const {
  return impl_->plan;
}
void Engine::add(Request request) {
  impl_->add(std::move(request));
}
int64_t Engine::waiting() const {
  return impl_->unadmitted;
}
bool Engine::idle() const {
  return impl_->requests.empty() && impl_->rejected.empty();
}
void Engine::step(std::vector<RequestOutput>& finished) {
  impl_->step(finished);
}
const EngineStats& Engine::stats() const {
  return impl_->stats;
}
std::vector<MeasuredRegion> Engine::measured() const {
  return measure_regions(impl_->plan, impl_->arena, impl_->launch, impl_->stats.kv_blocks_peak);
}

}  // namespace plimsoll::engine
