#include "shard/unshard.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <tuple>

#include "base/error.h"
#include "shard/joined.h"
#include "shard/origin.h"
#include "shard/output_folder.h"
#include "shard/quantized/quantized.h"
#include "shard/quantized/tensor_patterns.h"
#include "shard/ranks/rank_file.h"
#include "shard/verify.h"

namespace plimsoll::shard {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kChunk = int64_t{8} << 20;
constexpr const char* kIndex = "model.safetensors.index.json";

/// A tensor under the name that the source had for it.
struct NamedTensor {
  std::string name;
  const JoinedTensor* tensor = nullptr;
};

/// One file of the checkpoint.
struct File {
  std::string name;
  std::vector<NamedTensor> tensors;  // in the order of their bytes
};

// ---- the record of a job that is not finished ----

// Names, sizes and times of the folder's files.
Json state_of(const fs::path& folder) {
  Json files = Json::array();
  std::set<fs::path> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->is_regular_file(error)) names.insert(at->path());
  }
  for (const fs::path& name : names) {
    const auto time = fs::last_write_time(name, error).time_since_epoch().count();
    files.push_back({{"name", name.filename().string()},
                     {"bytes", fs::file_size(name, error)},
                     {"modified", time}});
  }
  if (error) fail(ExitCode::checkpoint_unusable, "{}: {}", folder.string(), error.message());
  return files;
}

Json description_of(const fs::path& folder, const Json& state, const JobOptions& options) {
  return {{"unshard", fs::canonical(folder).string()},
          {"shards", state},
          {"max_file_size", options.max_file_size ? Json(*options.max_file_size) : Json()}};
}

void write_journal(const Record& record, OutputFolder& output) {
  output.write_file(kJournal, record_text(record, ""));
}

// The record of an earlier run of the same job, or a new one for an empty folder.
Record start_record(const OutputFolder& output, Json job) {
  const std::vector<std::string> names = output.names();
  if (names.empty()) return {.job = std::move(job), .files = {}};
  if (!std::ranges::binary_search(names, kJournal)) {
    fail(ExitCode::foreign_output, "{} is not empty ({}); choose another folder",
         output.path().string(), names.front());
  }
  Record earlier = read_record(output.path() / kJournal);
  if (earlier.job == job) return earlier;
  fail(ExitCode::foreign_output,
       "{} holds what another job left unfinished, or the shards were changed since; choose "
       "another folder",
       output.path().string());
}

/// Refuses what cannot be put together again.
model::ModelSpec joinable(model::ModelSpec spec) {
  if (!spec.stacked_tensors.empty()) {
    fail(
        ExitCode::usage,
        "--unshard: {} stores all experts of a layer as one tensor ({}), which is not put together "
        "again yet",
        spec.architecture, spec.stacked_tensors.front().tensor);
  }
  for (const model::WeightSpec& weight : spec.weights) {
    if (weight.parts.empty() || !weight.parts.front().is_changed()) continue;
    fail(ExitCode::usage,
         "--unshard: vLLM stores {} of {} with other values than the checkpoint's, which rounded "
         "them",
         weight.name, spec.architecture);
  }
  const auto has_mean = [](const model::WeightSpec& weight) {
    return !weight.parts.empty() && weight.parts.front().mapping == model::Mapping::less_mean;
  };
  if (std::ranges::any_of(spec.weights, has_mean)) {
    fail(ExitCode::usage,
         "--unshard: vLLM stores router biases of {} without their mean, which is lost",
         spec.architecture);
  }
  return spec;
}

class Unshard {
 public:
  Unshard(const fs::path& folder, const JobOptions& options)
      : max_file_size_(options.max_file_size),
        origin_(read_origin(folder, {.file_pattern = options.file_pattern,
                                     .release = options.release,
                                     .tensor_parallel = options.tensor_parallel})),
        spec_(joinable(shards_spec(folder, origin_))),
        joined_(folder, spec_, origin_.hints) {}

  /// Writes the files that `record` has not yet, and keeps it up to date in the folder.
  void write(OutputFolder& output, Record& record) {
    const std::vector<File> files = divide();
    Json map = Json::object();
    int64_t total = 0;
    for (const File& file : files) {
      if (!is_whole(file, output, record)) {
        record.files[file.name] = write_file(file, output);
        write_journal(record, output);
      }
      for (const NamedTensor& tensor : file.tensors) {
        map[tensor.name] = file.name;
        total += tensor.tensor->bytes();
      }
    }
    if (files.size() == 1) return;
    const Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
    output.write_file(kIndex, index.dump(2) + "\n");
  }

 private:
  // The spelling that the source had.
  [[nodiscard]] std::string stored_name(const std::string& name) const {
    for (const auto& [first, second] : origin_.spellings) {
      if (name.starts_with(first)) return second + name.substr(first.size());
    }
    return name;
  }

  [[nodiscard]] std::vector<File> divide() const {
    std::vector<File> files(1);
    int64_t bytes = 0;
    for (const auto& [name, tensor] : joined_.tensors()) {
      bytes += tensor.bytes();
      if (max_file_size_ && bytes > *max_file_size_ && !files.back().tensors.empty()) {
        files.emplace_back();
        bytes = tensor.bytes();
      }
      files.back().tensors.push_back({.name = stored_name(name), .tensor = &tensor});
    }
    for (size_t i = 0; i < files.size(); ++i) {
      files[i].name = files.size() == 1
                          ? "model.safetensors"
                          : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files.size());
      // Tensors are sorted as by safetensors' own writer: wide types first, so that all lie
      // aligned.
      std::ranges::sort(files[i].tensors, [](const NamedTensor& a, const NamedTensor& b) {
        return std::make_tuple(b.tensor->dtype(), std::cref(a.name)) <
               std::make_tuple(a.tensor->dtype(), std::cref(b.name));
      });
    }
    return files;
  }

  static std::string header_of(const File& file) {
    OrderedJson header = {{"__metadata__", {{"format", "pt"}}}};
    int64_t offset = 0;
    for (const auto& [name, tensor] : file.tensors) {
      const int64_t end = offset + tensor->bytes();
      header[name] = {{"dtype", safetensors_name(tensor->dtype())},
                      {"shape", tensor->part().stored_shape},
                      {"data_offsets", {offset, end}}};
      offset = end;
    }
    std::string json = header.dump();
    json.resize((json.size() + 7) / 8 * 8, ' ');
    std::string text(sizeof(uint64_t), '\0');
    const uint64_t length = json.size();
    std::memcpy(text.data(), &length, sizeof length);
    return text + json;
  }

  static bool is_whole(const File& file, const OutputFolder& output, const Record& record) {
    const auto known = record.files.find(file.name);
    if (known == record.files.end() || !output.is_file(file.name)) return false;
    const fs::path path = output.path() / file.name;
    std::error_code error;
    const auto bytes = static_cast<uint64_t>(known->second.bytes);
    if (fs::file_size(path, error) != bytes || error) return false;
    return digest_file(path, {known->second.bytes}).digest == known->second.digest;
  }

  static FileRecord write_file(const File& from, OutputFolder& output) {
    const std::string header = header_of(from);
    int64_t bytes = static_cast<int64_t>(header.size());
    for (const NamedTensor& named : from.tensors) bytes += named.tensor->bytes();
    RankFile file(output, from.name, bytes, kChunk);
    file.add(header);
    for (const NamedTensor& named : from.tensors) {
      const JoinedTensor& tensor = *named.tensor;
      const int64_t rows = tensor.stored_rows();
      const int64_t row_bytes = tensor.bytes() / rows;
      const int64_t step = std::max<int64_t>(1, kChunk / row_bytes);
      for (int64_t first = 0; first < rows; first += step) {
        const int64_t count = std::min(step, rows - first);
        const auto size = static_cast<size_t>(count * row_bytes);
        const std::span<std::byte> room = file.room(size);
        tensor.copy_stored_rows(first, count, room.data());
        if (tensor.is_mapped()) checkpoint::unmap_values(room.data(), size / sizeof(float));
        file.commit(size);
      }
    }
    file.finish();
    file.publish();
    return file.record();
  }

  std::optional<int64_t> max_file_size_;
  Origin origin_;
  model::ModelSpec spec_;
  JoinedCheckpoint joined_;
};

}  // namespace

void unshard(const fs::path& folder, const fs::path& output, const JobOptions& options) {
  check_apart(folder, output, "the shards' folder");
  if (fs::exists(folder / kSidecar)) {
    if (const auto difference = verify_digests(folder)) {
      fail(ExitCode::checkpoint_unusable, "{}; nothing was written", *difference);
    }
  }
  const Json state = state_of(folder);
  Unshard unshard(folder, options);
  OutputFolder to(output);
  Record record = start_record(to, description_of(folder, state, options));
  to.remove_temporaries();
  write_journal(record, to);
  unshard.write(to, record);
  for (const std::string& name : side_files(folder)) {
    if (name == kSidecar || name == kJournal || name == kIndex) continue;
    to.copy(folder / name, name);
  }
  if (state_of(folder) != state) {
    fail(ExitCode::checkpoint_unusable,
         "{}: its files were changed while they were read; the checkpoint in {} counts as "
         "unfinished; start again into a fresh folder",
         folder.string(), output.string());
  }
  to.remove(kJournal);
}

}  // namespace plimsoll::shard
