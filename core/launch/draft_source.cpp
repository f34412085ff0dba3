#include "launch/draft_source.h"

#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "checkpoint/read_model.h"

namespace plimsoll::launch {
namespace {

/// Models of one tokenizer differ by the padding of their tables alone, such as 151,936 and 152,064
/// rows in Qwen2.5.
constexpr int64_t kPadding = 1024;

bool is_config(const std::filesystem::path& path) {
  return path.filename() == "config.json" || path.extension() == ".json";
}

model::ModelFolder read_draft_model(const std::filesystem::path& path) {
  if (!is_config(path)) return checkpoint::read_model(path);
  model::ModelFolder model{.config = checkpoint::read_config(path), .spec = {}};
  model.spec = model::make_model_spec(model.config);
  return model;
}

}  // namespace

DraftSource::DraftSource(std::filesystem::path path, Weights weights)
    : path_(std::move(path)),
      model_(read_draft_model(path_)),
      source_(model_.spec, model_.config, {path_, is_config(path_) ? Weights::none : weights, {}},
              Experts::all) {}

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
  return specs_.emplace(dtype, source_.spec(args)).first->second;
}

const checkpoint::WeightSource* DraftSource::reader(const model::ModelSpec& spec) {
  return source_.reader(spec, {});
}

}  // namespace plimsoll::launch
