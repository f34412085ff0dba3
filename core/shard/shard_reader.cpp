#include "shard/shard_reader.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/safetensors.h"
#include "files/digest.h"
#include "shard/job.h"

namespace plimsoll::shard {
namespace {

// Whether a file has the record's size, and its digest up to the first tensors.
bool is_beginning_of(const FileRecord& record, const std::filesystem::path& path) {
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

const model::ModelSpec& check_plain(const model::ModelSpec& spec) {
  if (!spec.quantization.empty()) {
    fail(ExitCode::checkpoint_unusable,
         "the shards are quantised ({}), which is not supported yet; use the unquantised model",
         spec.quantization);
  }
  return spec;
}

// Files of different jobs may fit together; the sidecar's digests tell. Reads each file up to its
// first tensors, not all of it: that is --verify's work.
void check_one_job(const std::filesystem::path& folder, const std::string& file_pattern) {
  const std::filesystem::path sidecar = folder / kSidecar;
  if (!std::filesystem::exists(sidecar)) return;
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

}  // namespace

ShardReader::ShardReader(const std::filesystem::path& folder, const model::ModelSpec& spec,
                         const ShardHints& hints)
    : joined_(folder, check_plain(spec), hints) {
  check_one_job(folder, hints.file_pattern);
  for (const auto& [name, tensor] : joined_.tensors()) {
    if (checkpoint::is_convertible(tensor.dtype())) continue;
    fail(ExitCode::checkpoint_unusable,
         "{}: what it holds of tensor {} has dtype {}; expected BF16, F16, F32 or F64",
         tensor.file().string(), name, safetensors_name(tensor.dtype()));
  }
}

void ShardReader::read_rows(const model::WeightSpec& weight, int64_t first, int64_t count,
                            DType dtype, void* to) const {
  const int64_t row_bytes = weight.columns() * static_cast<int64_t>(dtype_size(dtype));
  auto* const out = static_cast<std::byte*>(to);
  if (!weight.constant.empty()) {
    return convert(weight.constant.data() + first, DType::f32, out, dtype,
                   static_cast<size_t>(count));
  }
  const bool is_there = std::ranges::all_of(weight.parts, [&](const model::Part& part) {
    return joined_.tensors().contains(part.tensor);
  });
  // Of vLLM alone, or a bias of `run` that vLLM's shards lack: neither computes with it here.
  if (weight.kept == model::Kept::in_vllm || (weight.kept == model::Kept::in_run && !is_there)) {
    std::memset(out, 0, static_cast<size_t>(count * row_bytes));
    return;
  }
  checkpoint::for_each_part(
      weight, first, count, [&](const model::Part& part, int64_t from, int64_t at, int64_t rows) {
        const JoinedTensor& tensor = joined_.tensors().at(part.tensor);
        checkpoint::for_each_run(part, from, rows, [&](int64_t stored, int64_t done, int64_t run) {
          tensor.copy({.row = stored, .rows = run, .column = 0, .columns = weight.columns()}, dtype,
                      out + (at + done) * row_bytes);
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
