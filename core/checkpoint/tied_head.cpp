#include "checkpoint/tied_head.h"

#include <algorithm>
#include <vector>

#include "checkpoint/copy_rows.h"
#include "checkpoint/find_tensor.h"
#include "checkpoint/mapped_file.h"
#include "model/tied_head.h"

namespace plimsoll::checkpoint {
namespace {

constexpr int64_t kCompared = int64_t{1} << 18;  // elements at a time

int64_t columns_of(const TensorEntry& tensor) {
  return tensor.shape.empty() ? 1 : tensor.shape.back();
}

std::vector<float> read_block(const TensorEntry& tensor, const Block& block) {
  std::vector<float> values(static_cast<size_t>(block.rows * block.columns));
  const GuardedRead guard(*tensor.file);
  copy_block(tensor, /*transposed=*/false, block, DType::f32,
             reinterpret_cast<std::byte*>(values.data()), block.columns);
  guard.finish();
  return values;
}

}  // namespace

bool have_equal_values(const TensorEntry& a, const TensorEntry& b) {
  if (a.shape != b.shape || a.shape.size() != 2) return false;
  const int64_t columns = std::max<int64_t>(1, columns_of(a));
  const int64_t step = std::max<int64_t>(1, kCompared / columns);
  for (int64_t row = 0; row < a.shape.front(); row += step) {
    const Block block{
        .row = row, .rows = std::min(step, a.shape.front() - row), .columns = columns_of(a)};
    if (read_block(a, block) != read_block(b, block)) return false;
  }
  return true;
}

void resolve_tied_head(const Checkpoint& checkpoint, model::ModelSpec& spec) {
  if (!spec.tied_head) return;
  const std::string& name = spec.weight(spec.embedding).parts.front().tensor;
  const TensorEntry* const head = find_tensor(checkpoint, spec, spec.tied_head->tensor);
  const TensorEntry* const table = find_tensor(checkpoint, spec, name);
  if (head == nullptr || table == nullptr || head == table) return;
  if (!is_convertible(head->dtype) || !is_convertible(table->dtype)) return;
  if (have_equal_values(*head, *table)) {
    spec.tied_head->stored = true;
  } else {
    model::untie_head(spec);
  }
}

}  // namespace plimsoll::checkpoint
