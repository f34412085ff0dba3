#include "shard/origin.h"

#include "base/error.h"
#include "model/config.h"
#include "shard/apart.h"
#include "shard/job.h"
#include "shard/quantized/quantized.h"

namespace plimsoll::shard {

namespace fs = std::filesystem;

Origin read_origin(const fs::path& folder, const ShardHints& hints) {
  Origin origin{.hints = hints, .spellings = {}, .present = {}, .listed = {}};
  const fs::path sidecar = folder / kSidecar;
  if (!fs::exists(sidecar)) return origin;
  const Record record = read_record(sidecar);
  const JobOptions recorded = options_of(record, sidecar);
  origin.hints = {.file_pattern = recorded.file_pattern,
                  .release = recorded.release,
                  .tensor_parallel = recorded.tensor_parallel};
  try {
    record.job.at("spellings").get_to(origin.spellings);
    if (!record.job.contains("quantised")) return origin;
    const Json& quantized = record.job.at("quantised");
    origin.present = TensorPatterns(quantized.at("present"));
    origin.listed = TensorPatterns(quantized.at("listed"));
  } catch (const Json::exception&) {
    fail(ExitCode::foreign_output, "{} is no record of plimsoll shard", sidecar.string());
  }
  return origin;
}

model::ModelSpec shards_spec(const fs::path& folder, const Origin& origin) {
  auto [config, spec] = model::read_model_folder(folder);
  resolve_tied_head(folder, origin.hints.file_pattern, spec);
  set_apart(spec);
  if (spec.quantization.empty()) return spec;
  const RankShard first(find_shard_files(folder, origin.hints.file_pattern).by_rank.front());
  const bool listed = spec.quantization == "compressed-tensors";
  const StoredTensors stored{
      .is_plain =
          [&](const model::WeightSpec& weight) { return first.tensors().contains(weight.name); },
      .holds_codes =
          [&](const model::WeightSpec& weight) {
            if (weight.use != model::WeightUse::linear || !weight.constant.empty()) return false;
            const auto found = first.tensors().find(weight.name);
            return found == first.tensors().end() || dtype_size(found->second.dtype) == 1;
          },
      .has =
          [&](const std::string& name) {
            return origin.present ? origin.present->contains(name) : name.ends_with(".g_idx");
          },
      .is_listed =
          [&](const std::string& name) {
            return origin.listed ? origin.listed->contains(name) : listed;
          }};
  quantize_weights(config, stored, spec);
  return spec;
}

}  // namespace plimsoll::shard
