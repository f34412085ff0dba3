#include "shard/unshard.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "base/error.h"
#include "checkpoint/json_events.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/safetensors.h"
#include "model/config.h"
#include "shard/output_folder.h"

namespace plimsoll::shard {
namespace {

namespace fs = std::filesystem;
using checkpoint::HeaderEntry;
using checkpoint::MappedFile;

constexpr int64_t kChunk = int64_t{8} << 20;
constexpr const char* kIndex = "model.safetensors.index.json";

struct StoredTensor {
  const MappedFile* file = nullptr;
  size_t offset = 0;  // in the file
  DType dtype{};
  std::vector<int64_t> shape;
};

/// All tensors of one rank of one stage.
class RankShard {
 public:
  RankShard(const fs::path& folder, const FilePattern& pattern, int64_t stage, int64_t rank) {
    std::error_code error;
    for (int64_t part = 0;; ++part) {
      const fs::path path = folder / pattern.name(stage, rank, part);
      if (!fs::exists(path, error) || (part > 0 && !pattern.numbers_parts())) break;
      add(path);
    }
    first_ = folder / pattern.name(stage, rank, 0);
    if (files_.empty()) {
      fail(ExitCode::checkpoint_unusable,
           "{} is missing; are -tp, -pp and --file-pattern those of the shards?", first_.string());
    }
  }

  [[nodiscard]] const StoredTensor& find(const ShardTensor& expected) const {
    const auto at = tensors_.find(expected.name);
    if (at == tensors_.end()) {
      fail(ExitCode::checkpoint_unusable, "{} and the parts after it lack tensor {}",
           first_.string(), expected.name);
    }
    if (at->second.shape != expected.shape) {
      fail(ExitCode::checkpoint_unusable, "{}: tensor {} has shape {}, expected {}",
           at->second.file->path().string(), expected.name,
           checkpoint::shape_text(at->second.shape), checkpoint::shape_text(expected.shape));
    }
    return at->second;
  }

 private:
  void add(const fs::path& path) {
    files_.push_back(std::make_unique<MappedFile>(path));
    const checkpoint::Header header = checkpoint::read_header(*files_.back());
    for (const HeaderEntry& entry : header.entries) {
      tensors_[entry.name] = {.file = files_.back().get(),
                              .offset = header.data_start + entry.begin,
                              .dtype = entry.dtype,
                              .shape = entry.shape};
    }
  }

  fs::path first_;
  std::vector<std::unique_ptr<MappedFile>> files_;
  std::map<std::string, StoredTensor> tensors_;
};

/// Where a slice of a checkpoint tensor lies in a shard.
struct Piece {
  const StoredTensor* from = nullptr;
  int64_t first_row = 0;  // in the shard's tensor
  Slice slice;
};

/// One tensor of the checkpoint that is put together.
struct Joined {
  const model::Part* part = nullptr;
  DType dtype{};
  std::vector<Piece> pieces;
  std::set<std::pair<int64_t, int64_t>> starts;  // of the pieces; other ranks may repeat them

  [[nodiscard]] int64_t row_elements() const {
    return part->stored_shape.size() == 1 ? 1 : part->stored_shape.back();
  }
  [[nodiscard]] int64_t bytes() const {
    return part->stored_shape[0] * row_elements() * static_cast<int64_t>(dtype_size(dtype));
  }
};

// Stored rows [first, first + count) of a tensor into `to`.
void copy_piece(const Joined& tensor, const Piece& piece, int64_t first, int64_t count,
                std::byte* to) {
  const auto size = static_cast<int64_t>(dtype_size(tensor.dtype));
  const Slice& slice = piece.slice;
  const bool transposed = tensor.part->transposed;
  const int64_t begin = transposed ? slice.column : slice.row;
  const int64_t end = begin + (transposed ? slice.columns : slice.rows);
  const checkpoint::GuardedRead guard(*piece.from->file);
  const std::byte* from = piece.from->file->data() + piece.from->offset;
  for (int64_t i = std::max(begin, first); i < std::min(end, first + count); ++i) {
    std::byte* row = to + (i - first) * tensor.row_elements() * size;
    if (!transposed) {
      const int64_t at = (piece.first_row + i - slice.row) * slice.columns;
      std::memcpy(row + slice.column * size, from + at * size,
                  static_cast<size_t>(slice.columns * size));
      continue;
    }
    for (int64_t r = 0; r < slice.rows; ++r) {
      const int64_t at = (piece.first_row + r) * slice.columns + i - slice.column;
      std::memcpy(row + (slice.row + r) * size, from + at * size, static_cast<size_t>(size));
    }
  }
  guard.finish();
}

using Tensors = std::map<std::string, Joined>;

class Unshard {
 public:
  Unshard(const fs::path& folder, const JobOptions& options)
      : folder_(folder),
        options_(options),
        spec_(model::make_model_spec(model::read_config(folder))) {
    const fs::path sidecar = folder / kSidecar;
    if (fs::exists(sidecar)) {
      const Record record = read_record(sidecar);
      const std::optional<int64_t> max_file_size = options.max_file_size;
      options_ = options_of(record, sidecar);
      options_.max_file_size = max_file_size;
      spellings_ = spellings_of(record, sidecar);
    }
    collect();
  }

  void write(OutputFolder& output) {
    const std::vector<std::vector<Tensors::const_iterator>> files = divide();
    Json map = Json::object();
    int64_t total = 0;
    for (size_t i = 0; i < files.size(); ++i) {
      const std::string name =
          files.size() == 1 ? "model.safetensors"
                            : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files.size());
      write_tensors(files[i], name, output);
      for (const auto& tensor : files[i]) {
        map[tensor->first] = name;
        total += tensor->second.bytes();
      }
    }
    if (files.size() == 1) return;
    const Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
    output.write_file(kIndex, index.dump(2) + "\n");
  }

 private:
  void collect() {
    const FilePattern pattern(options_.file_pattern, options_.tensor_parallel,
                              options_.pipeline_parallel);
    const Layout layout{.tensor_parallel = options_.tensor_parallel,
                        .pipeline_parallel = options_.pipeline_parallel,
                        .release = options_.release};
    stages_ = make_stages(spec_, layout);
    for (size_t stage = 0; stage < stages_.size(); ++stage) {
      for (int64_t rank = 0; rank < layout.tensor_parallel; ++rank) {
        shards_.push_back(
            std::make_unique<RankShard>(folder_, pattern, static_cast<int64_t>(stage), rank));
        for (const ShardTensor& tensor : stages_[stage]) add(tensor, rank);
      }
    }
  }

  void add(const ShardTensor& tensor, int64_t rank) {
    const StoredTensor& stored = shards_.back()->find(tensor);
    int64_t row = 0;
    for (const Slice& slice : rank_slices(tensor, rank, options_.tensor_parallel)) {
      Joined& joined = tensors_[stored_name(slice.part->tensor)];
      joined.part = slice.part;
      if (joined.pieces.empty()) joined.dtype = stored.dtype;
      if (joined.dtype != stored.dtype) {
        fail(ExitCode::checkpoint_unusable, "{}: tensor {} has dtype {}, on other ranks {}",
             stored.file->path().string(), tensor.name, safetensors_name(stored.dtype),
             safetensors_name(joined.dtype));
      }
      if (joined.starts.emplace(slice.row, slice.column).second) {
        joined.pieces.push_back({.from = &stored, .first_row = row, .slice = slice});
      }
      row += slice.rows;
    }
  }

  // The spelling that the source had.
  [[nodiscard]] std::string stored_name(const std::string& name) const {
    for (const auto& [first, second] : spellings_) {
      if (name.starts_with(first)) return second + name.substr(first.size());
    }
    return name;
  }

  static std::vector<std::pair<std::string, std::string>> spellings_of(const Record& record,
                                                                       const fs::path& file) {
    try {
      return record.job.at("spellings").get<std::vector<std::pair<std::string, std::string>>>();
    } catch (const Json::exception&) {
      fail(ExitCode::foreign_output, "{} is no record of plimsoll shard", file.string());
    }
  }

  [[nodiscard]] std::vector<std::vector<Tensors::const_iterator>> divide() const {
    std::vector<std::vector<Tensors::const_iterator>> files(1);
    int64_t bytes = 0;
    for (auto at = tensors_.begin(); at != tensors_.end(); ++at) {
      bytes += at->second.bytes();
      const auto limit = options_.max_file_size;
      if (limit && bytes > *limit && !files.back().empty()) {
        files.emplace_back();
        bytes = at->second.bytes();
      }
      files.back().push_back(at);
    }
    return files;
  }

  static std::string header_of(const std::vector<Tensors::const_iterator>& tensors) {
    Json header = {{"__metadata__", {{"format", "pt"}}}};
    int64_t offset = 0;
    for (const auto& tensor : tensors) {
      const int64_t end = offset + tensor->second.bytes();
      header[tensor->first] = {{"dtype", safetensors_name(tensor->second.dtype)},
                               {"shape", tensor->second.part->stored_shape},
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

  static void write_tensors(const std::vector<Tensors::const_iterator>& tensors,
                            const std::string& name, OutputFolder& output) {
    const std::string header = header_of(tensors);
    int64_t bytes = static_cast<int64_t>(header.size());
    for (const auto& tensor : tensors) bytes += tensor->second.bytes();
    TemporaryFile file(output, name, bytes);
    file.write(header.data(), header.size());
    std::vector<std::byte> buffer;
    for (const auto& at : tensors) {
      const Joined& tensor = at->second;
      const int64_t rows = tensor.part->stored_shape[0];
      const int64_t row_bytes =
          tensor.row_elements() * static_cast<int64_t>(dtype_size(tensor.dtype));
      const int64_t step = std::max<int64_t>(1, kChunk / row_bytes);
      for (int64_t first = 0; first < rows; first += step) {
        const int64_t count = std::min(step, rows - first);
        buffer.resize(static_cast<size_t>(count * row_bytes));
        for (const Piece& piece : tensor.pieces) {
          copy_piece(tensor, piece, first, count, buffer.data());
        }
        file.write(buffer.data(), buffer.size());
      }
    }
    file.finish();
    file.publish();
  }

  fs::path folder_;
  JobOptions options_;
  model::ModelSpec spec_;
  std::vector<std::pair<std::string, std::string>> spellings_;
  std::vector<Stage> stages_;
  std::vector<std::unique_ptr<RankShard>> shards_;
  Tensors tensors_;
};

}  // namespace

void unshard(const fs::path& folder, const fs::path& output, const JobOptions& options) {
  Unshard unshard(folder, options);
  std::error_code error;
  if (fs::equivalent(folder, output, error)) {
    fail(ExitCode::foreign_output, "{} is the shards' own folder; choose another", output.string());
  }
  OutputFolder to(output);
  if (!to.names().empty()) {
    fail(ExitCode::foreign_output, "{} is not empty ({}); choose another folder", output.string(),
         to.names().front());
  }
  to.remove_temporaries();
  for (const std::string& name : side_files(folder)) {
    if (name == kSidecar || name == kJournal || name == kIndex) continue;
    if (fs::equivalent(folder / name, output, error)) continue;
    to.copy(folder / name, name);
  }
  unshard.write(to);
}

}  // namespace plimsoll::shard
