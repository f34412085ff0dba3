#include "shard/shard_reader.h"

#include <algorithm>

#include "base/error.h"

namespace plimsoll::shard {
namespace {

const model::ModelSpec& check_plain(const model::ModelSpec& spec) {
  if (!spec.quantization.empty()) {
    fail(ExitCode::checkpoint_unusable,
         "the shards are quantised ({}), which is not supported yet; use the unquantised model",
         spec.quantization);
  }
  return spec;
}

}  // namespace

ShardReader::ShardReader(const std::filesystem::path& folder, const model::ModelSpec& spec,
                         const ShardHints& hints)
    : joined_(folder, check_plain(spec), hints) {
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
