#include "engine/engine_replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <span>
#include <utility>

#include "engine/schedule_shape.h"
#include "engine/vision/image_fault.h"
#include "text/text_error.h"

namespace plimsoll::engine {

namespace {

EngineOptions shareable(const model::ModelSpec& spec, EngineOptions options) {
  options.prefix_caching = shares_prefixes(spec, options);
  return options;
}

}  // namespace

Engine::Replica::Replica(const model::ModelSpec& model_spec, const ReplicaRanks& ranks,
                         const text::Tokenizer* model_tokenizer, EngineOptions engine_options,
                         const Replica* owner)
    : spec(model_spec),
      tokenizer(model_tokenizer),
      options(shareable(model_spec, std::move(engine_options))),
      stages(ranks),
      layout(stages.first().layout),
      backend(*stages.first().rank.backend),
      launch(stages.first().launch),
      cache(cache_options(layout.kv, layout.num_blocks, options.prefix_caching,
                          layout.state_arrays ? layout.limits.sequences : 0)),
      image_cache(layout.images ? layout.images->cache_tokens : 0),
      image_holds(image_cache),
      scheduler(cache,
                {layout.limits.sequences, layout.limits.batched_tokens, options.admission,
                 layout.stages, options.head_start},
                layout.images ? &image_holds : nullptr),
      builder(launch.batch, layout.limits, backend.footprint(), layout.recorded_sizes),
      steps(launch.batch.slabs()),
      leaving(steps.size()) {
  const auto vocabulary = static_cast<size_t>(spec.vocab_size);
  const Launch& sampling = stages.reading().launch;
  for (size_t at = 0; at < sampling.sampling_ids.size(); at += vocabulary) {
    readers.emplace_back(sampling.sampling_values.subspan(at, vocabulary),
                         sampling.sampling_ids.subspan(at, vocabulary));
  }
  for (const TokenId token : options.eos_token_ids) {
    if (token >= 0 && token < spec.vocab_size) eos.push_back(token);
  }
  owner == nullptr ? stages.load(options.seed) : stages.borrow(owner->stages, options.seed);
  stages.finish_launch();
  options.jump_ahead = options.jump_ahead && tokenizer != nullptr && !spec.is_recurrent() &&
                       backend.footprint().shares_memory();
  if (layout.draft) drafter.emplace(spec, launch, layout, backend);
  stats.kv_blocks = layout.num_blocks;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved into the map
void Engine::Replica::add(Request request) {
  auto fault = find_fault(request, spec.vocab_size, layout.max_model_len);
  if (!fault && request.images) {
    fault = find_image_fault(*request.images, layout, launch.tower, launch.embeddings);
  }
  if (fault) {
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
  for (const auto& choice : state.choices) scheduler.add(choice->sequence());
}

void Engine::Replica::step(std::vector<RequestOutput>& finished) {
  std::ranges::move(rejected, std::back_inserter(finished));
  rejected.clear();
  const std::vector<Piece>& pieces = scheduler.schedule();
  if (pieces.empty() && under_way == nullptr && stages.idle()) return;
  const auto begin = std::chrono::steady_clock::now();
  // The time goes to the step whose results it brings.
  const bool brings_decodes = under_way != nullptr && under_way->decodes_alone;
  const bool brings_nothing = under_way == nullptr;
  const size_t last = (next_slot + steps.size() - 1) % steps.size();
  const Step& next = steps[pieces.empty() ? last : next_slot];
  if (!pieces.empty()) {
    start(pieces);
  } else if (!stages.idle()) {
    run(nullptr);
  } else {
    finish_step();
  }
  if (drafter) {
    std::erase_if(decoding, [](const Sequence* sequence) { return sequence->choice->ended(); });
    drafter->propose(decoding);
    decoding.clear();
  }
  collect(finished);
  update_gauges();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  const bool decodes = brings_nothing ? next.decodes_alone : brings_decodes;
  (decodes ? stats.decode_seconds : stats.prefill_seconds) += spent.count();
}

void Engine::Replica::start(const std::vector<Piece>& pieces) {
  Step& step = steps[next_slot];
  step.decodes_alone = count_pieces(pieces);
  encode_images();
  builder.build(pieces, next_slot, step);
  step.meta.embeddings = launch.embeddings;
  scheduler.commit();
  next_slot = (next_slot + 1) % steps.size();
  for (const WantedRow& wanted : step.read) {
    Sequence& sequence = *wanted.sequence;
    if (wanted.position + 1 == sequence.length()) sequence.awaits_reading = true;
  }
  run(&step);
  finish_step();
  under_way = &step;
  for (size_t entry = 0; entry < step.drawn.size(); ++entry) {
    Sequence& sequence = *step.drawn[entry].sequence;
    if (!sequence.choice->ended()) sequence.pending = static_cast<int32_t>(entry);
  }
  // Rows that the host reads were waited for: there is nothing to be ahead of.
  if (!step.read.empty() || backend.footprint().ahead() == 0 || layout.stages > 1) finish_step();
}

void Engine::Replica::run(const Step* entering) {
  const auto take_before = [&] {
    if (under_way == nullptr) return;
    backend.await_step(under_way->meta);  // by a rank's own thread: the others wait by themselves
    take_drawn();
  };
  stages.run(
      entering,
      [&](const Step& ending, const LogitsSlice& slice) {
        take_before();
        apply_tokens(ending, slice);
      },
      [&](const Step& step) {
        take_before();
        fill_masks(step);
      });
}

// While the forward pass runs: each mask depends on the token before.
void Engine::Replica::fill_masks(const Step& step) {
  const auto words = static_cast<size_t>(launch.batch.mask_words());
  const std::span<int32_t> masks = launch.batch.slab(step.meta.slot).masks;
  backend.parallel(std::ssize(step.masked), [&](int64_t mask) {
    const size_t entry = step.masked[static_cast<size_t>(mask)];
    const Choice& choice = *step.drawn[entry].sequence->choice;
    const std::span<int32_t> own = masks.subspan(static_cast<size_t>(mask) * words, words);
    if (choice.ended()) {  // the row is not used
      std::ranges::fill(own, -1);
    } else {
      choice.sampling().fill_mask(own);
    }
  });
}

void Engine::Replica::encode_images() {
  const std::vector<ImageJob> jobs = image_holds.take_jobs();
  if (jobs.empty()) return;
  const auto begin = std::chrono::steady_clock::now();
  stages.encode(jobs);
  stats.encoded_images += jobs.size();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  stats.encode_seconds += spent.count();
}

void Engine::Replica::finish_step() {
  if (under_way == nullptr) return;
  stages.await_step(under_way->meta);
  take_drawn();
}

void Engine::Replica::take_drawn() {
  const Step& step = *std::exchange(under_way, nullptr);
  for (size_t entry = 0; entry < step.drawn.size(); ++entry) {
    const WantedRow& wanted = step.drawn[entry];
    wanted.sequence->pending = -1;
    const int32_t token = step.meta.drawn[entry];
    ScoredRow row;
    row.sequence = wanted.sequence;
    row.position = wanted.position;
    if (token == backend::kDrewNotFinite) row.outcome = Sampled::not_finite;
    if (token == backend::kDrewNothingAllowed) row.outcome = Sampled::nothing_allowed;
    row.token = token;
    apply_token(row);
  }
}

bool Engine::Replica::count_pieces(const std::vector<Piece>& pieces) {
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
    if (piece.sequence->decoding()) {
      const bool forced = piece.sequence->draft_kind == DraftKind::forced;
      (forced ? stats.forced_tokens : stats.drafted_tokens) +=
          static_cast<uint64_t>(piece.sequence->drafted);
      continue;
    }
    decodes_alone = false;
    stats.prompt_tokens += static_cast<uint64_t>(piece.count);
  }
  return decodes_alone;
}

// A row behind a proposed token is read after the row before it, whose token may be another one.
void Engine::Replica::apply_tokens(const Step& step, const LogitsSlice& slice) {
  const std::span<const WantedRow> wanted = std::span(step.read).subspan(slice.first, slice.count);
  const auto deepest = std::ranges::max_element(wanted, {}, &WantedRow::draft);
  for (int64_t draft = 0; draft <= deepest->draft; ++draft) {
    rows.clear();
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i].draft != draft || !wanted[i].holds()) continue;
      ScoredRow& row = rows.emplace_back();
      row.sequence = wanted[i].sequence;
      row.position = wanted[i].position;
      row.logits = {slice.values + static_cast<int64_t>(i) * slice.stride,
                    static_cast<size_t>(spec.vocab_size)};
    }
    read_rows();
    for (ScoredRow& row : rows) apply_token(row);
  }
}

// Reads rows on all threads, each with its own working memory; a row's result depends on nothing
// but the row and its sequence.
void Engine::Replica::read_rows() {
  std::atomic<size_t> next = 0;
  const auto work = [&](int64_t thread) {
    RowReader& reader = readers[thread];
    for (size_t i = next++; i < rows.size(); i = next++) {
      if (!rows[i].sequence->choice->ended()) reader.read(rows[i]);
    }
  };
  stages.reading().rank.backend->parallel(std::min<int64_t>(std::ssize(readers), std::ssize(rows)),
                                          work);
}

void Engine::Replica::apply_token(ScoredRow& row) {
  RequestState& request = row.sequence->choice->request();
  if (row.sequence->choice->ended()) return;
  if (!row.of_prompt()) row.sequence->awaits_reading = false;
  switch (row.outcome) {
    case Sampled::not_finite:
      return fail(
          request, "numeric",
          fmt::format("logits after token {} are not finite (NaN or infinity)", row.position));
    case Sampled::nothing_allowed:
      return fail(request, "bad_field",
                  "allowed_token_ids, bad_words, min_tokens, logit_bias, stop_token_ids and the "
                  "grammar together leave no token");
    case Sampled::token:
      if (!row.of_prompt()) return accept(row);
      // A preempted prompt may be under way twice.
      if (row.position != row.sequence->score_from) return;
      return request.add_prompt_logprobs(std::move(*row.logprobs));
  }
}

void Engine::Replica::accept(ScoredRow& row) {
  Choice& choice = *row.sequence->choice;
  RequestState& request = choice.request();
  if (row.logprobs) choice.add_logprobs(std::move(*row.logprobs));
  try {
    choice.accept(row.token);
  } catch (const text::TextError& error) {
    return fail(request, "tokenizer_error", error.what());
  } catch (const grammar::OutsideMask& error) {
    return fail(request, "bad_field", error.what());
  }
  ++stats.generated_tokens;
  const bool forced = row.sequence->draft_kind == DraftKind::forced;
  if (verify_draft(*row.sequence, row.token)) {
    ++(forced ? stats.kept_forced_tokens : stats.kept_tokens);
  }
  if (!choice.finished()) {
    scheduler.apply_token(*row.sequence);
    if (row.sequence->decoding()) propose_draft(*row.sequence);
    return;
  }
  scheduler.finish(*row.sequence);
  if (drafter) drafter->forget(*row.sequence);
  if (--request.unfinished == 0) ended.push_back(&request);
}

void Engine::Replica::propose_draft(Sequence& sequence) {
  if (options.jump_ahead && propose_forced(sequence, *tokenizer)) return;
  propose(sequence, options.ngram);
  if (drafter) decoding.push_back(&sequence);
}

void Engine::Replica::fail(RequestState& request, std::string code, std::string message) {
  request.fail(std::move(code), std::move(message));
  for (const auto& choice : request.choices) {
    if (!choice->finished()) scheduler.remove(choice->sequence());
    if (drafter) drafter->forget(choice->sequence());
  }
  ended.push_back(&request);
}

void Engine::Replica::collect(std::vector<RequestOutput>& finished) {
  auto& gone = leaving[round++ % leaving.size()];
  gone.clear();
  for (RequestState* request : ended) {
    finished.push_back(request->take_output());
    gone.push_back(requests.extract(request->leader().sequence().serial));
  }
  ended.clear();
  if (under_way == nullptr && stages.idle()) {
    for (auto& nodes : leaving) nodes.clear();
  }
}

void Engine::Replica::update_gauges() {
  stats.cached_prompt_tokens = scheduler.prefix_hits();
  stats.prefix_queries_tokens = scheduler.prefix_queries();
  stats.preemptions = scheduler.preemptions();
  stats.running = scheduler.running();
  stats.waiting = unadmitted;
  stats.under_way = scheduler.under_way();
  stats.kv_blocks_used = cache.pool().used();
}

}  // namespace plimsoll::engine
