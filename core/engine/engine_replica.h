// One replica (data-parallel replica) of the model, with requests and KV blocks of its own.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/batch_builder.h"
#include "engine/cache/kv_cache.h"
#include "engine/engine.h"
#include "engine/layout.h"
#include "engine/ranks/stages.h"
#include "engine/request_state.h"
#include "engine/row_reader.h"
#include "engine/scheduler.h"
#include "engine/speculation/drafter.h"
#include "engine/speculation/speculation.h"

namespace plimsoll::engine {

struct Engine::Replica {
  /// `owner` has the weights; null: this replica itself.
  Replica(const model::ModelSpec& model_spec, const ReplicaRanks& ranks,
          const text::Tokenizer* model_tokenizer, EngineOptions engine_options,
          const Replica* owner);

  void add(Request request);
  void step(std::vector<RequestOutput>& finished);

  /// Counts the pieces of the step that is about to run; true when it has decode rows alone.
  bool count_pieces(const std::vector<Piece>& pieces);
  /// Builds the next step and starts it. The step under way, if any, is finished after that: the
  /// device has the next one by then.
  void start(const std::vector<Piece>& pieces);
  /// Encodes images that the step needs and that are not in the cache yet.
  void encode_images();
  /// Runs a round of the pipeline, which a step may enter, and takes the results of the step that
  /// ends.
  void run(const Step* entering);
  void fill_masks(const Step& step);
  /// Waits for the step under way, on all ranks, and takes the tokens that it drew.
  void finish_step();
  /// Takes the drawn tokens of a step that has been awaited.
  void take_drawn();
  void apply_tokens(const Step& step, const LogitsSlice& slice);
  /// Reads `rows`.
  void read_rows();
  void apply_token(ScoredRow& row);
  void accept(ScoredRow& row);
  /// Sets the draft of a sequence that got a token and decodes.
  void propose_draft(Sequence& sequence);
  void fail(RequestState& request, std::string code, std::string message);
  /// Appends the outputs of requests that have ended.
  void collect(std::vector<RequestOutput>& finished);
  void update_gauges();

  const model::ModelSpec& spec;
  const text::Tokenizer* tokenizer;
  EngineOptions options;
  std::vector<TokenId> eos;
  Stages stages;
  /// Layout of the first stage, as the next two; its limits hold for all stages.
  const EngineLayout& layout;
  backend::Backend& backend;
  Launch& launch;
  KvCache cache;
  ImageCache image_cache;
  ImageHolds image_holds;
  Scheduler scheduler;
  std::optional<Drafter> drafter;
  BatchBuilder builder;
  std::vector<Step> steps;    // one for each slab
  Step* under_way = nullptr;  // the step on the device, whose tokens are not known
  size_t next_slot = 0;
  std::vector<RowReader> readers;             // one for each thread
  std::vector<ScoredRow> rows;                // of the slice of logits at hand, read at once
  std::map<uint64_t, RequestState> requests;  // by the serial of their first choice
  std::vector<Sequence*> decoding;            // got a token in this step, for the drafter
  std::vector<RequestState*> ended;           // in this step
  /// Requests that have ended, but may have rows in steps under way: by round, as many rounds as
  /// there are steps.
  std::vector<std::vector<std::map<uint64_t, RequestState>::node_type>> leaving;
  size_t round = 0;
  std::vector<RequestOutput> rejected;  // since the last step
  uint64_t next_serial = 0;
  int64_t unadmitted = 0;  // requests
  EngineStats stats;
};

}  // namespace plimsoll::engine
