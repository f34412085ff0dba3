#include "backend/checks.h"

#include <fmt/ranges.h>

namespace plimsoll::backend {

std::string show(View view) {
  return fmt::format("[{}, {}]", view.rows, view.columns);
}

std::string show(const Weight& weight) {
  return fmt::format("weight `{}` [{}]", weight.spec->name, fmt::join(weight.spec->shape, ", "));
}

void check_shape(const char* op, const char* what, View view, int64_t rows, int64_t columns) {
  if (view.rows != rows || view.columns != columns) {
    disagree("{}: {} {} is not [{}, {}]", op, what, show(view), rows, columns);
  }
  if (view.stride < view.columns && view.rows > 1) {
    disagree("{}: {} {} has rows {} elements apart", op, what, show(view), view.stride);
  }
}

void check_same(const char* op, const char* what_a, View a, const char* what_b, View b) {
  if (a.rows != b.rows || a.columns != b.columns || a.dtype != b.dtype) {
    disagree("{}: {} {} {} does not match {} {} {}", op, what_a, show(a), torch_name(a.dtype),
             what_b, show(b), torch_name(b.dtype));
  }
}

void check_vector(const char* op, const Weight& vector, const char* what, View view) {
  if (!vector) return;
  if (vector.spec->shape.size() != 1 || vector.spec->rows() != view.columns) {
    disagree("{}: {} {} does not match {}", op, what, show(view), show(vector));
  }
}

void check_logits(const char* op, View logits) {
  if (logits.dtype == DType::f32) return;
  disagree("{}: {} are {}, not float32", op, show(logits), torch_name(logits.dtype));
}

void check_rows(const char* op, View out, const char* what, size_t count) {
  if (out.rows != static_cast<int64_t>(count)) {
    disagree("{}: out {} does not match {} {}", op, show(out), count, what);
  }
}

void check_tables(const char* op, const KvLayer& cache, const BatchMeta& batch) {
  if (static_cast<size_t>(cache.group) >= batch.block_tables.size()) {
    disagree("{}: KV group {} of {}", op, cache.group, batch.block_tables.size());
  }
  const std::span<const int32_t> table = batch.block_tables[cache.group];
  if (static_cast<int64_t>(table.size()) < sequences(batch) * batch.table_stride) {
    disagree("{}: block table of {} entries does not match [{}, {}]", op, table.size(),
             sequences(batch), batch.table_stride);
  }
}

int64_t sequences(const BatchMeta& batch) {
  return static_cast<int64_t>(batch.context_length.size());
}

}  // namespace plimsoll::backend
