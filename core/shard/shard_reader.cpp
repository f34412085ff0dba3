#include "shard/shard_reader.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/packed_weights.h"
#include "checkpoint/safetensors.h"
#include "files/digest.h"
#include "shard/apart.h"
#include "shard/job.h"
#include "shard/origin.h"

namespace plimsoll::shard {
namespace {

namespace fs = std::filesystem;

// True when a file has the record's size, and its digest up to the first tensors.
bool is_beginning_of(const FileRecord& record, const fs::path& path) {
  constexpr size_t kEnough = size_t{1} << 20;
  const checkpoint::MappedFile file(path);
  if (static_cast<int64_t>(file.size()) != record.bytes) return false;
  const checkpoint::Header header = checkpoint::read_header(file);
  if (record.prefixes.size() != header.entries.size() + 1) return false;
  size_t index = 0;
  size_t end = header.data_start;
  while (index < header.entries.size() && end < header.data_start + kEnough) {
    end = header.data_start + header.entries[index++].end;
  }
  files::Digest hash;
  const checkpoint::GuardedRead guard(file);
  hash.add(file.data(), end);
  guard.finish();
  return hash.hex().starts_with(record.prefixes[index]);
}

// Checks by the sidecar's digests that files are of one job, since those of different jobs may fit
// together. Reads each file up to its first tensors, not all of it: that is --verify's work.
void check_one_job(const fs::path& folder, const std::string& file_pattern) {
  const fs::path sidecar = folder / kSidecar;
  if (!fs::exists(sidecar)) return;
  const Record record = read_record(sidecar);
  for (const auto& rank : find_shard_files(folder, file_pattern).by_rank) {
    for (const ShardFile& shard : rank) {
      const auto known = record.files.find(shard.path.filename().string());
      if (known != record.files.end() && is_beginning_of(known->second, shard.path)) continue;
      fail(ExitCode::checkpoint_unusable,
           "{} is not the file that {} tells of: shards of several jobs are mixed, or it was "
           "changed; plimsoll shard --verify {} says more",
           shard.path.string(), kSidecar, folder.string());
    }
  }
}

std::unique_ptr<const model::ModelSpec> plain_table(const model::ModelSpec& spec) {
  auto table = std::make_unique<model::ModelSpec>(spec);
  set_apart(*table);
  return table;
}

/// The table that the shards were cut by: the engine's, or vLLM's of quantized weights.
std::unique_ptr<const model::ModelSpec> cut_table(const fs::path& folder, const ShardHints& hints,
                                                  const model::ModelSpec& spec) {
  if (spec.quantization.empty()) return plain_table(spec);
  Origin origin = read_origin(folder, hints);
  if (!hints.file_pattern.empty()) origin.hints.file_pattern = hints.file_pattern;
  return std::make_unique<const model::ModelSpec>(shards_spec(folder, origin));
}

/// A joined tensor's bytes, which take memory from the first reading on.
class JoinedBytes {
 public:
  explicit JoinedBytes(const JoinedTensor& tensor)
      : tensor_(tensor),
        bytes_(std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(tensor.bytes()))) {}

  [[nodiscard]] const std::byte* data() const { return bytes_.get(); }
  void fill() {
    std::call_once(filled_,
                   [&] { tensor_.copy_stored_rows(0, tensor_.stored_rows(), bytes_.get()); });
  }

 private:
  const JoinedTensor& tensor_;
  std::unique_ptr<std::byte[]> bytes_;
  std::once_flag filled_;
};

}  // namespace

ShardReader::ShardReader(const fs::path& folder, std::unique_ptr<const model::ModelSpec> table,
                         const ShardHints& hints)
    : table_(std::move(table)), joined_(folder, *table_, hints) {
  check_one_job(folder, hints.file_pattern);
}

ShardReader::ShardReader(const fs::path& folder, const model::ModelSpec& spec,
                         const ShardHints& hints)
    : ShardReader(folder, plain_table(spec), hints) {
  check_parts(spec);
}

ShardReader::ShardReader(const fs::path& folder, const Json& config, const ShardHints& hints,
                         quantization::Activations activations, model::ModelSpec& spec)
    : ShardReader(folder, cut_table(folder, hints, spec), hints) {
  if (!spec.dtype_stated) {
    std::vector<DType> stored;
    for (const auto& [name, tensor] : joined_.tensors()) stored.push_back(tensor.dtype());
    spec.dtype = checkpoint::common_dtype(stored);
  }
  if (!spec.quantization.empty()) {
    quantization::assign_packings(config, find(), activations, spec);
  }
  check_parts(spec);
}

quantization::FindStored ShardReader::find() const {
  return [this](const std::string& name) -> std::optional<quantization::StoredTensor> {
    const auto found = joined_.tensors().find(name);
    if (found == joined_.tensors().end()) return std::nullopt;
    const auto bytes = std::make_shared<JoinedBytes>(found->second);
    return quantization::StoredTensor{.name = name,
                                      .dtype = found->second.dtype(),
                                      .shape = found->second.part().stored_shape,
                                      .data = bytes->data(),
                                      .guarded = [bytes](const auto& read) {
                                        bytes->fill();
                                        read();
                                      }};
  };
}

std::unique_ptr<model::PackedRows> ShardReader::packed(const model::WeightSpec& weight, size_t part,
                                                       const checkpoint::Block& block) const {
  if (weight.parts[part].packing->format == model::PackedFormat::online_fp8) {
    return WeightSource::packed(weight, part, block);
  }
  return checkpoint::open_part(weight, weight.parts[part], block, find());
}

void ShardReader::check_parts(const model::ModelSpec& spec) const {
  const auto check_plain = [&](const JoinedTensor& tensor, const std::string& name) {
    if (checkpoint::is_convertible(tensor.dtype())) return;
    fail(ExitCode::checkpoint_unusable,
         "{}: what it holds of tensor {} has dtype {}; expected BF16, F16, F32 or F64",
         tensor.file().string(), name, safetensors_name(tensor.dtype()));
  };
  for (const model::WeightSpec& weight : spec.weights) {
    for (const model::Part& part : weight.parts) {
      if (part.packing) {
        (void)checkpoint::open_part(weight, part, checkpoint::whole_part(weight, part), find());
        continue;
      }
      const auto found = joined_.tensors().find(part.tensor);
      if (found != joined_.tensors().end()) {
        check_plain(found->second, part.tensor);
      } else if (weight.kept == model::Kept::in_model) {
        fail(ExitCode::checkpoint_unusable,
             "the shards hold {} quantized, which config.json does not tell of", part.tensor);
      }
    }
  }
}

uint64_t ShardReader::stored_bytes(const model::WeightSpec& weight, int64_t first,
                                   int64_t count) const {
  uint64_t bytes = 0;
  if (weight.kept == model::Kept::in_vllm || !weight.constant.empty()) return bytes;
  checkpoint::for_each_part(
      weight, first, count, [&](const model::Part& part, int64_t, int64_t, int64_t rows) {
        const auto from = joined_.tensors().find(part.tensor);
        if (from == joined_.tensors().end()) return;
        bytes += static_cast<uint64_t>(rows * weight.columns()) * dtype_size(from->second.dtype());
      });
  return bytes;
}

void ShardReader::read_block(const model::WeightSpec& weight, const checkpoint::Block& block,
                             DType dtype, void* to) const {
  const int64_t row_bytes = block.columns * static_cast<int64_t>(dtype_size(dtype));
  auto* const out = static_cast<std::byte*>(to);
  if (!weight.constant.empty()) return checkpoint::copy_constant(weight, block, dtype, out);
  const bool is_there = std::ranges::all_of(weight.parts, [&](const model::Part& part) {
    return joined_.tensors().contains(part.tensor);
  });
  // The weight is vLLM's alone, or a bias of `run` that vLLM's shards lack: it has no effect here.
  if (weight.kept == model::Kept::in_vllm || (weight.kept == model::Kept::in_run && !is_there)) {
    std::memset(out, 0, static_cast<size_t>(block.rows * row_bytes));
    return;
  }
  checkpoint::for_each_part(
      weight, block.row, block.rows,
      [&](const model::Part& part, int64_t from, int64_t at, int64_t rows) {
        const JoinedTensor& tensor = joined_.tensors().at(part.tensor);
        checkpoint::for_each_run(part, from, rows, [&](int64_t stored, int64_t done, int64_t run) {
          std::byte* const here = out + (at + done) * row_bytes;
          // A tower runs some of its weights the other way round than vLLM keeps them.
          if (part.transposed != tensor.part().transposed) {
            tensor.copy_transposed({block.column, block.columns, stored, run}, dtype, here);
          } else {
            tensor.copy({stored, run, block.column, block.columns}, dtype, here);
          }
        });
      });
}

std::optional<DType> ShardReader::dtype() const {
  std::optional<DType> common;
  for (const auto& [name, tensor] : joined_.tensors()) {
    if (common && *common != tensor.dtype()) return std::nullopt;
    common = tensor.dtype();
  }
  return common;
}

}  // namespace plimsoll::shard
