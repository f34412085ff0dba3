#include "launch/draft_source.h"

#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "checkpoint/read_model.h"
#include "shard/shard_files.h"

namespace plimsoll::launch {
namespace {

/// Models of one tokenizer differ by the padding of their tables alone, such as 151,936 and 152,064
/// rows in Qwen2.5.
constexpr int64_t kPadding = 1024;

/// Calls f; its errors name the draft model.
template <typename F>
auto of_draft(const std::filesystem::path& path, const F& f) {
  try {
    return f();
  } catch (const Error& error) {
    fail(error.code(), "--speculative-config: the draft model {}: {}", path.string(), error.what());
  }
}

model::ModelFolder read_draft_model(const std::filesystem::path& path) {
  if (!is_lone_config(path)) return checkpoint::read_model(path);
  model::ModelFolder model{.config = checkpoint::read_config(path), .spec = {}};
  model.spec = model::make_model_spec(model.config);
  return model;
}

ModelSource open_draft_model(const std::filesystem::path& path, const model::ModelFolder& model,
                             Weights weights) {
  if (is_lone_config(path)) weights = Weights::none;
  if (weights == Weights::checkpoint && shard::looks_sharded(path)) {
    fail(ExitCode::checkpoint_unusable,
         "it holds shards; a draft model is read from an ordinary checkpoint");
  }
  return {model.spec, model.config, {path, weights, {}}, Experts::all};
}

}  // namespace

bool is_lone_config(const std::filesystem::path& path) {
  std::error_code ignored;
  return path.extension() == ".json" && std::filesystem::is_regular_file(path, ignored);
}

DraftSource::DraftSource(std::filesystem::path path, Weights weights)
    : path_(std::move(path)),
      model_(of_draft(path_, [&] { return read_draft_model(path_); })),
      source_(of_draft(path_, [&] { return open_draft_model(path_, model_, weights); })) {}

const model::ModelSpec& DraftSource::spec(const model::ModelSpec& large, DType dtype) {
  const model::ModelSpec& own = model_.spec;
  const auto refuse = [&](const std::string& why) {
    fail(ExitCode::usage, "--speculative-config: the draft model {}: {}", path_.string(), why);
  };
  if (own.is_recurrent()) {
    refuse(own.architecture +
           " keeps a state that goes token by token and cannot go back where a proposed token was "
           "wrong");
  }
  if (std::abs(own.vocab_size - large.vocab_size) > kPadding) {
    refuse("it has " + std::to_string(own.vocab_size) + " tokens, the model " +
           std::to_string(large.vocab_size) + ": both must have one tokenizer");
  }
  const auto known = specs_.find(dtype);
  if (known != specs_.end()) return known->second;
  EngineArgs args;
  args.dtype = torch_name(dtype);
  return specs_.emplace(dtype, of_draft(path_, [&] { return source_.spec(args); })).first->second;
}

const checkpoint::WeightSource* DraftSource::reader(const model::ModelSpec& spec) {
  return source_.reader(spec, {});
}

}  // namespace plimsoll::launch
