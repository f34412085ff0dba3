#include "backend/backend.h"

#include <cstring>
#include <vector>

#include "backend/checks.h"
#include "backend/random_rows.h"

namespace plimsoll::backend {
namespace {

void check_norm(const char* op, View out, View in, const Weight& weight, const Weight& bias) {
  check_same(op, "out", out, "in", in);
  check_vector(op, weight, "in", in);
  check_vector(op, bias, "in", in);
}

void check_matrix(const char* op, const Weight& weight, View out, View in) {
  if (!weight || weight.spec->matrices() != 1) disagree("{}: not given one matrix", op);
  if (in.columns != weight.spec->columns()) {
    disagree("{}: in {} does not match {}", op, show(in), show(weight));
  }
  if (out.columns != weight.spec->rows()) {
    disagree("{}: out {} does not match {}", op, show(out), show(weight));
  }
  if (out.rows != in.rows) disagree("{}: out {} does not match in {}", op, show(out), show(in));
}

void check_table(const char* op, View out, const Weight& table) {
  if (out.columns != table.spec->columns()) {
    disagree("{}: out {} does not match {}", op, show(out), show(table));
  }
}

void check_logits(const char* op, View logits) {
  if (logits.dtype == DType::f32) return;
  disagree("{}: {} are {}, not float32", op, show(logits), torch_name(logits.dtype));
}

/// The next number of a splitmix64 sequence, in [-1, 1).
float uniform_of(uint64_t& state) {
  uint64_t mixed = state += 0x9E3779B97F4A7C15;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
  mixed ^= mixed >> 31;
  return static_cast<float>(static_cast<int64_t>(mixed >> 40) - (int64_t{1} << 23)) * 0x1p-23f;
}

}  // namespace

View View::slice_columns(int64_t first, int64_t count) const {
  if (first < 0 || count < 0 || first + count > columns) {
    disagree("slice: columns [{}, {}) of {}", first, first + count, show(*this));
  }
  View slice = *this;
  slice.data = static_cast<std::byte*>(data) + static_cast<size_t>(first) * dtype_size(dtype);
  slice.columns = count;
  return slice;
}

View View::slice_rows(int64_t first, int64_t count) const {
  if (first < 0 || count < 0 || first + count > rows) {
    disagree("slice: rows [{}, {}) of {}", first, first + count, show(*this));
  }
  View slice = *this;
  slice.data = static_cast<std::byte*>(data) +
               static_cast<size_t>(first) * static_cast<size_t>(stride) * dtype_size(dtype);
  slice.rows = count;
  return slice;
}

Weight Backend::load_weight(const model::WeightSpec& spec, DType dtype, void* storage,
                            const RowReader& read) {
  const Weight weight{.spec = &spec, .dtype = dtype, .data = storage};
  do_load_weight(weight, read);
  return weight;
}

void Backend::fill_random(const Weight& weight, uint64_t seed, float scale) {
  const int64_t columns = weight.spec->columns();
  const auto rows = [&](int64_t first, int64_t count, void* to) {
    std::vector<float> row(static_cast<size_t>(columns));
    const size_t row_bytes = row.size() * dtype_size(weight.dtype);
    for (int64_t r = first; r < first + count; ++r) {
      uint64_t state = seed + static_cast<uint64_t>(r) * 0x9E3779B97F4A7C15;
      for (float& value : row) value = scale * uniform_of(state);
      convert(row.data(), DType::f32,
              static_cast<std::byte*>(to) + static_cast<size_t>(r - first) * row_bytes,
              weight.dtype, row.size());
    }
  };
  const auto packed = [&](size_t part) {
    return random_rows(*weight.spec->parts[part].packing, columns, seed + part, scale);
  };
  do_load_weight(weight, {rows, packed});
}

void Backend::embed(View out, const Weight& table, const BatchMeta& batch, float scale) {
  check_rows("embed", out, "ids", batch.token_ids.size());
  check_table("embed", out, table);
  if (runs(out)) do_embed(out, table, batch, scale);
}

void Backend::embed_positions(View out, const Weight& table, const BatchMeta& batch,
                              int64_t offset) {
  check_rows("embed_positions", out, "positions", batch.positions.size());
  check_table("embed_positions", out, table);
  if (runs(out)) do_embed_positions(out, table, batch, offset);
}

void Backend::gather_rows(View out, View in, const BatchMeta& batch) {
  check_rows("gather_rows", out, "rows", batch.logits_rows.size());
  if (out.columns != in.columns || out.dtype != in.dtype) {
    disagree("gather_rows: out {} does not match in {}", show(out), show(in));
  }
  if (runs(out)) do_gather_rows(out, in, batch);
}

void Backend::norm(View out, View in, const model::Norm& spec, const Weight& weight,
                   const Weight& bias) {
  const bool in_turn = weight && weight.spec->elements() % in.columns == 0;
  check_norm("norm", out, in, in_turn ? Weight{} : weight, bias);
  if (runs(out)) do_norm(out, in, spec, weight, bias);
}

void Backend::add(View residual, View delta) {
  check_same("add", "residual", residual, "delta", delta);
  if (runs(residual)) do_add(residual, delta);
}

void Backend::add_norm(View out, View residual, View delta, const model::Norm& spec,
                       const Weight& weight, const Weight& bias) {
  check_same("add_norm", "residual", residual, "delta", delta);
  check_norm("add_norm", out, residual, weight, bias);
  if (runs(out)) do_add_norm(out, residual, delta, spec, weight, bias);
}

void Backend::linear(View out, View in, const Weight& weight, const Weight& bias,
                     model::Activation activation) {
  check_matrix("linear", weight, out, in);
  check_vector("linear", bias, "out", out);
  const memory::Scope scope(*scratch_);
  auto* workspace = static_cast<std::byte*>(scratch_->take(
      "linear workspace", footprint_.linear_workspace(in.rows, *weight.spec, weight.dtype)));
  if (runs(out)) do_linear(out, in, weight, bias, activation, workspace);
}

void Backend::linear_across(View out, View in, const Weight& weight, const Weight& bias) {
  check_matrix("linear_across", weight, out, in);
  check_vector("linear_across", bias, "out", out);
  const memory::Scope scope(*scratch_);
  auto* workspace = static_cast<std::byte*>(scratch_->take(
      "linear workspace", footprint_.linear_workspace(in.rows, *weight.spec, weight.dtype)));
  if (runs(out)) do_linear_across(out, in, weight, bias, workspace);
}

void Backend::do_linear_across(View out, View in, const Weight& weight, const Weight& bias,
                               std::byte* workspace) {
  do_linear(out, in, weight, bias, model::Activation::none, workspace);
  weight.ranks->sum(out);
}

void Backend::sum_add_norm(const SummedNorm& op, TensorRanks& ranks) {
  check_same("sum_add_norm", "residual", op.residual, "delta", op.delta);
  check_norm("sum_add_norm", op.out, op.residual, op.weight, op.bias);
  if (!runs(op.out) || ranks.sum_add_norm(op)) return;
  ranks.sum(op.delta);
  do_add_norm(op.out, op.residual, op.delta, op.norm, op.weight, op.bias);
}

void Backend::place_embeddings(View out, const BatchMeta& batch) {
  if (batch.embedded_rows.size() != batch.embedding_rows.size() ||
      out.columns != batch.embeddings.columns || out.dtype != batch.embeddings.dtype) {
    disagree("place_embeddings: {} rows of out {} do not match {} of embeddings {}",
             batch.embedded_rows.size(), show(out), batch.embedding_rows.size(),
             show(batch.embeddings));
  }
  if (runs(out)) do_place_embeddings(out, batch);
}

void Backend::average_parts(View out, View in) {
  if (out.rows != in.rows || out.columns == 0 || in.columns % out.columns != 0 ||
      out.dtype != in.dtype) {
    disagree("average_parts: out {} does not divide in {}", show(out), show(in));
  }
  if (runs(out)) do_average_parts(out, in);
}

void Backend::scale_columns(View x, const Weight& weight) {
  if (weight.spec->elements() != x.columns) {
    disagree("scale_columns: x {} does not match {}", show(x), show(weight));
  }
  if (runs(x)) do_scale_columns(x, weight);
}

void Backend::do_place_embeddings(View, const BatchMeta&) {
  disagree("place_embeddings: the {} backend sees no pictures", footprint_.name());
}

void Backend::do_average_parts(View, View) {
  disagree("average_parts: the {} backend sees no pictures", footprint_.name());
}

void Backend::do_scale_columns(View, const Weight&) {
  disagree("scale_columns: the {} backend sees no pictures", footprint_.name());
}

void Backend::soft_cap(View x, float cap) {
  if (runs(x)) do_soft_cap(x, cap);
}

void Backend::multiply_factors(View x, const Weight& factors, View indices) {
  const bool by_index = indices.columns > 0;
  if (by_index) check_shape("multiply_factors", "indices", indices, x.rows, x.columns);
  if (!factors || (!by_index && factors.spec->elements() != 1)) {
    disagree("multiply_factors: one factor, or one for each index");
  }
  if (runs(x)) do_multiply_factors(x, factors, indices);
}

void Backend::scale(View x, float factor) {
  if (runs(x)) do_scale(x, factor);
}

void Backend::parallel(int64_t tasks, const HostJob& job) {
  for (int64_t task = 0; task < tasks; ++task) job(task);
}

void Backend::run_step(int64_t, const std::function<void()>& ops) {
  ops();
}

void Backend::send(void*, std::span<const std::byte>) {
  disagree("send: the {} backend has the host's memory", footprint_.name());
}

MeetingId Backend::make_meeting() const {
  throw std::logic_error("ranks that share the host's memory meet elsewhere");
}

std::unique_ptr<FarTeam> Backend::meet(std::span<Backend* const>, const Meeting&) const {
  throw std::logic_error("ranks that share the host's memory meet elsewhere");
}

void Backend::take_from(std::span<const std::byte> from, void* to) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

std::unique_ptr<memory::Memory> Backend::take_memory(size_t bytes) {
  return std::make_unique<memory::HostMemory>(bytes);
}

std::unique_ptr<memory::Memory> Backend::take_host_memory(size_t bytes) {
  return std::make_unique<memory::HostMemory>(bytes);
}

void Backend::draw(const BatchMeta& batch, View logits, int64_t first) {
  check_logits("draw", logits);
  if (first < 0 || first + logits.rows > static_cast<int64_t>(batch.drawing.temperature.size())) {
    disagree("draw: rows [{}, {}) of {}", first, first + logits.rows,
             batch.drawing.temperature.size());
  }
  const memory::Scope scope(*scratch_);
  auto* workspace = static_cast<std::byte*>(
      scratch_->take("draw workspace", footprint_.draw_workspace(logits.rows, logits.columns)));
  if (runs(logits)) do_draw(batch, logits, first, workspace);
}

void Backend::do_draw(const BatchMeta&, View, int64_t, std::byte*) {
  disagree("draw: the {} backend draws on the host", footprint_.name());
}

const float* Backend::host_logits(View logits, std::span<float> staging) {
  check_logits("host_logits", logits);
  if (!footprint_.shares_memory() &&
      static_cast<int64_t>(staging.size()) < logits.rows * logits.stride) {
    disagree("host_logits: {} do not fit staging of {}", show(logits), staging.size());
  }
  return runs(logits) ? do_host_logits(logits, staging) : nullptr;
}

}  // namespace plimsoll::backend
