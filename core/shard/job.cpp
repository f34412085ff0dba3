#include "shard/job.h"

#include <set>

#include "base/error.h"
#include "base/json_bytes.h"

namespace plimsoll::shard {
namespace {

constexpr size_t kLargestRecord = size_t{256} << 20;
constexpr const char* kTool = "plimsoll shard";

Layout make_layout(const Source& source, const JobOptions& options) {
  return {.tensor_parallel = options.tensor_parallel,
          .pipeline_parallel = options.pipeline_parallel,
          .dtype = resolve_dtype(options.dtype, source.dtype(), source.spec(), options.release),
          .release = options.release,
          .pipeline_partition = options.pipeline_partition};
}

[[noreturn]] void refuse(const std::filesystem::path& file) {
  fail(ExitCode::foreign_output, "{} is no record of plimsoll shard; choose another folder",
       file.string());
}

}  // namespace

Job::Job(const Source& source, const JobOptions& options)
    : source_(source),
      options_(options),
      layout_(make_layout(source, options)),
      pattern_(options.file_pattern, options.tensor_parallel, options.pipeline_parallel) {
  if (!source.quantization().empty() && options.release < since::kQuantizedLayers) {
    fail(ExitCode::usage,
         "--vllm-version {}: the parameters of quantized layers ({}) are known of {} and later",
         model::version_text(options.release), source.quantization(),
         model::version_text(since::kQuantizedLayers));
  }
  for (Stage& stage : make_stages(source.spec(), layout_)) {
    stages_.push_back({.tensors = std::move(stage), .parts = {}});
  }
  size_t most_parts = 0;
  for (StagePlan& stage : stages_) {
    stage.parts = plan_parts(stage.tensors, options.max_file_size);
    most_parts = std::max(most_parts, stage.parts.size());
  }
  if (most_parts > 1 && !pattern_.numbers_parts()) {
    fail(
        ExitCode::usage,
        "--file-pattern '{}': {} parts of a rank would overwrite each other; put {{part}} into it, "
        "or raise --max-file-size",
        pattern_.text(), most_parts);
  }
}

std::string Job::file_name(size_t stage, int64_t rank, size_t part) const {
  return pattern_.name(static_cast<int64_t>(stage), rank, static_cast<int64_t>(part));
}

std::vector<std::string> Job::file_names() const {
  std::vector<std::string> names;
  for (size_t stage = 0; stage < stages_.size(); ++stage) {
    for (size_t part = 0; part < stages_[stage].parts.size(); ++part) {
      for (int64_t rank = 0; rank < layout_.tensor_parallel; ++rank) {
        names.push_back(file_name(stage, rank, part));
      }
    }
  }
  return names;
}

int64_t Job::bytes() const {
  int64_t bytes = 0;
  for (const StagePlan& stage : stages_) {
    for (const PartPlan& part : stage.parts) bytes += part.bytes() * layout_.tensor_parallel;
  }
  return bytes;
}

Json Job::description() const {
  Json description = {
      {"architecture", source_.spec().architecture},
      {"tensor_parallel_size", options_.tensor_parallel},
      {"pipeline_parallel_size", options_.pipeline_parallel},
      {"pipeline_partition", options_.pipeline_partition},
      {"dtype", torch_name(layout_.dtype)},
      {"max_file_size", options_.max_file_size ? Json(*options_.max_file_size) : Json()},
      {"file_pattern", pattern_.text()},
      {"spellings", source_.spellings()},
      {"vllm_version", model::version_text(options_.release)},
      {"source", source_.identity()}};
  if (!source_.quantization().empty()) description["quantised"] = source_.quantized_tensors();
  return description;
}

// ---- records ----

std::string record_text(const Record& record, const std::string& tool_version) {
  Json files = Json::object();
  for (const auto& [name, file] : record.files) {
    files[name] = {{"bytes", file.bytes}, {"xxh3", file.digest}, {"prefixes", file.prefixes}};
  }
  Json side_files = Json::object();
  for (const auto& [name, file] : record.side_files) {
    side_files[name] = {{"bytes", file.bytes}, {"xxh3", file.digest}};
  }
  const Json json = {{"tool", kTool},  {"version", tool_version},  {"job", record.job},
                     {"files", files}, {"side_files", side_files}, {"left_out", record.left_out}};
  return with_texts(json, text_or_bytes).dump(1) + "\n";
}

Record read_record(const std::filesystem::path& file) {
  try {
    const Json json = with_texts(read_json_file(file, kLargestRecord), text_of_bytes);
    if (json.at("tool") != kTool) refuse(file);
    Record record{.job = json.at("job"), .files = {}};
    for (const auto& [name, entry] : json.at("files").items()) {
      record.files[name] = {.bytes = entry.at("bytes").get<int64_t>(),
                            .digest = entry.at("xxh3").get<std::string>(),
                            .prefixes = entry.at("prefixes").get<std::vector<std::string>>()};
    }
    const Json side_files = json.value("side_files", Json::object());
    for (const auto& [name, entry] : side_files.items()) {
      record.side_files[name] = {.bytes = entry.at("bytes").get<int64_t>(),
                                 .digest = entry.at("xxh3").get<std::string>(),
                                 .prefixes = {}};
    }
    record.left_out = json.value("left_out", std::vector<std::string>{});
    return record;
  } catch (const Json::exception&) {
    refuse(file);
  } catch (const Error&) {
    refuse(file);
  }
}

JobOptions options_of(const Record& record, const std::filesystem::path& file) {
  try {
    JobOptions options;
    const Json& job = record.job;
    options.tensor_parallel = job.at("tensor_parallel_size").get<int64_t>();
    options.pipeline_parallel = job.at("pipeline_parallel_size").get<int64_t>();
    options.pipeline_partition = job.value("pipeline_partition", std::vector<int64_t>{});
    options.dtype = job.at("dtype").get<std::string>();
    options.max_file_size.reset();
    if (!job.at("max_file_size").is_null()) {
      options.max_file_size = job.at("max_file_size").get<int64_t>();
    }
    options.file_pattern = job.at("file_pattern").get<std::string>();
    options.release = parse_release(job.at("vllm_version").get<std::string>());
    if (options.tensor_parallel < 1 || options.pipeline_parallel < 1) refuse(file);
    return options;
  } catch (const Json::exception&) {
    refuse(file);
  }
}

}  // namespace plimsoll::shard
