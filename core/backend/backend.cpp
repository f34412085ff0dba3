#include "backend/backend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "backend/random_rows.h"

namespace plimsoll::backend {

namespace {

std::string show(View view) {
  return fmt::format("[{}, {}]", view.rows, view.columns);
}

std::string show(const Weight& weight) {
  return fmt::format("weight `{}` [{}]", weight.spec->name, fmt::join(weight.spec->shape, ", "));
}

template <typename... Args>
[[noreturn]] void disagree(fmt::format_string<Args...> format, Args&&... args) {
  throw std::logic_error(fmt::format(format, std::forward<Args>(args)...));
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

/// A bias or norm weight of as many elements as the op's output has columns; may be empty.
void check_vector(const char* op, const Weight& vector, const char* what, View view) {
  if (!vector) return;
  if (vector.spec->shape.size() != 1 || vector.spec->rows() != view.columns) {
    disagree("{}: {} {} does not match {}", op, what, show(view), show(vector));
  }
}

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

void check_rows(const char* op, View out, const char* what, size_t count) {
  if (out.rows != static_cast<int64_t>(count)) {
    disagree("{}: out {} does not match {} {}", op, show(out), count, what);
  }
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

int64_t sequences(const BatchMeta& batch) {
  return static_cast<int64_t>(batch.context_length.size());
}

void check_tables(const char* op, const KvLayer& cache, const BatchMeta& batch) {
  if (static_cast<size_t>(cache.group) >= batch.block_tables.size()) {
    disagree("{}: KV group {} of {}", op, cache.group, batch.block_tables.size());
  }
  const std::span<const int32_t> table = batch.block_tables[static_cast<size_t>(cache.group)];
  if (static_cast<int64_t>(table.size()) < sequences(batch) * batch.table_stride) {
    disagree("{}: block table of {} entries does not match [{}, {}]", op, table.size(),
             sequences(batch), batch.table_stride);
  }
}

void check_cache(const char* op, View qkv, const model::AttentionSpec& spec, const KvLayer& cache,
                 const BatchMeta& batch) {
  const int64_t stored = spec.keys_of >= 0 ? 0 : spec.stored_heads();  // heads of k and v in qkv
  check_shape(op, "qkv", qkv, static_cast<int64_t>(batch.positions.size()),
              (spec.heads + stored) * spec.head_dim);
  check_tables(op, cache, batch);
}

/// A norm's weight or bias over each head, or over `heads` of them one after the other.
void check_heads(const Weight& vector, int64_t heads, const model::AttentionSpec& spec) {
  if (!vector) return;
  const int64_t all = heads * spec.head_dim;
  const bool shared = spec.norm_span == model::NormSpan::each_head;
  const int64_t elements = vector.spec->elements();
  if (elements == all || (shared && elements == spec.head_dim)) return;
  disagree("rope_and_store: {} is not of {} heads of {}", show(vector), heads, spec.head_dim);
}

void check_expert_biases(const Weight& biases, const Weight& matrices) {
  if (!biases ||
      biases.spec->shape == std::vector{matrices.spec->matrices(), matrices.spec->rows()})
    return;
  disagree("experts: {} does not match {}", show(biases), show(matrices));
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

void Backend::rope_angles(View out, const model::RopeSpec& rope, const BatchMeta& batch) {
  check_shape("rope_angles", "out", out, static_cast<int64_t>(batch.positions.size()),
              rope.rotary_dim);
  if (runs(out)) do_rope_angles(out, rope, batch);
}

void Backend::rope_and_store(View qkv, View angles, const model::AttentionSpec& spec,
                             const HeadNorms& norms, const KvLayer& cache, const BatchMeta& batch) {
  check_cache("rope_and_store", qkv, spec, cache, batch);
  for (const Weight* weight : {&norms.q, &norms.q_bias}) check_heads(*weight, spec.heads, spec);
  for (const Weight* weight : {&norms.k, &norms.k_bias}) check_heads(*weight, spec.kv_heads, spec);
  if (spec.norm_span == model::NormSpan::all_heads &&
      (spec.clamp > 0 || spec.norm_order != model::NormOrder::before_rope)) {
    disagree("rope_and_store: a norm over all heads comes first of all");
  }
  if (spec.rope >= 0 && angles.rows != qkv.rows) {
    disagree("rope_and_store: angles {} do not match qkv {}", show(angles), show(qkv));
  }
  if (runs(qkv)) do_rope_and_store(qkv, angles, spec, norms, cache, batch);
}

void Backend::choose_keys(View chosen, const IndexInputs& in, const model::AttentionSpec& spec,
                          const KvLayer& keys, const BatchMeta& batch) {
  constexpr const char* kOp = "choose_keys";
  const auto rows = static_cast<int64_t>(batch.positions.size());
  check_shape(kOp, "q", in.q, rows, spec.heads * spec.head_dim);
  check_shape(kOp, "weights", in.weights, rows, spec.heads);
  check_rows(kOp, chosen, "positions", batch.positions.size());
  if (chosen.dtype != DType::i32 || chosen.columns == 0) {
    disagree("{}: chosen {} are {}, not positions", kOp, show(chosen), torch_name(chosen.dtype));
  }
  check_tables(kOp, keys, batch);
  const memory::Scope scope(*scratch_);
  auto* workspace = static_cast<std::byte*>(scratch_->take(
      "choice workspace", footprint_.choice_workspace(rows, batch.table_stride * keys.block_size)));
  if (runs(chosen)) do_choose_keys(chosen, in, spec, keys, batch, workspace);
}

void Backend::do_choose_keys(View, const IndexInputs&, const model::AttentionSpec&, const KvLayer&,
                             const BatchMeta&, std::byte*) {
  disagree("choose_keys: the {} backend has no such kernel", footprint_.name());
}

void Backend::attention(View out, View qkv, const model::AttentionSpec& spec,
                        const ScoreTerms& terms, const KvLayer& cache, const BatchMeta& batch) {
  check_cache("attention", qkv, spec, cache, batch);
  check_shape("attention", "out", out, qkv.rows, spec.heads * spec.head_dim);
  const View heads{nullptr, qkv.dtype, qkv.rows, spec.heads, spec.heads};
  check_vector("attention", terms.sinks, "heads", heads);
  check_vector("attention", terms.slopes, "heads", heads);
  if (terms.chosen.columns > 0) {
    check_shape("attention", "chosen", terms.chosen, qkv.rows, terms.chosen.columns);
  }
  const memory::Scope scope(*scratch_);
  auto* workspace = static_cast<std::byte*>(scratch_->take(
      "attention workspace", footprint_.attention_workspace(qkv.rows, sequences(batch), spec)));
  if (runs(out)) do_attention(out, qkv, spec, terms, cache, batch, workspace);
}

void Backend::copy_heads(View out, View in, const HeadColumns& columns) {
  const auto end = [&](int64_t first, int64_t stride) {
    return first + (columns.heads - 1) * stride + columns.width;
  };
  const bool from_nothing = in.rows == 0;
  if (end(columns.to, columns.to_stride) > out.columns ||
      (!from_nothing && (end(columns.from, columns.from_stride) > in.columns ||
                         in.rows != out.rows || in.dtype != out.dtype))) {
    disagree("copy_heads: {} heads of {} columns of in {} do not fit out {}", columns.heads,
             columns.width, show(in), show(out));
  }
  if (columns.width > 0 && runs(out)) do_copy_heads(out, in, columns);
}

void Backend::multiply_gates(View x, View gates, model::GateKind kind) {
  if (gates.rows != x.rows || gates.dtype != x.dtype || x.columns % gates.columns != 0) {
    disagree("multiply_gates: gates {} do not match {}", show(gates), show(x));
  }
  if (runs(x)) do_multiply_gates(x, gates, kind);
}

void Backend::xielu(View x, const Weight& parameters) {
  if (!parameters || parameters.spec->elements() != 4) disagree("xielu: needs four parameters");
  if (runs(x)) do_xielu(x, parameters);
}

void Backend::gated_activation(View out, View in, model::Activation activation) {
  check_shape("gated_activation", "in", in, out.rows, 2 * out.columns);
  if (runs(out)) do_gated_activation(out, in, activation);
}

void Backend::route(const Routing& routing, View logits, const model::RouterSpec& router,
                    const Weight& choice_bias) {
  const int64_t chosen = routing.experts.columns;
  check_shape("route", "experts", routing.experts, logits.rows, routing.weights.columns);
  check_shape("route", "weights", routing.weights, logits.rows, chosen);
  check_vector("route", choice_bias, "logits", logits);
  if (logits.columns > model::kMostExperts || logits.columns % router.groups != 0 ||
      router.groups_chosen > router.groups ||
      chosen > logits.columns / router.groups * router.groups_chosen) {
    disagree("route: {} of logits {} in {} groups, of which {} are chosen", chosen, show(logits),
             router.groups, router.groups_chosen);
  }
  if (router.score == model::RouterScore::sparsemixer && (chosen > 2 || router.groups > 1)) {
    disagree("route: sparsemixer chooses two of all, not {}", chosen);
  }
  if (runs(logits)) do_route(routing, logits, router, choice_bias);
}

void Backend::experts(View out, View in, const Routing& routing, const model::MlpSpec& mlp,
                      const ExpertWeights& weights) {
  const Weight& up = weights.up;
  const Weight& down = weights.down;
  check_same("experts", "out", out, "in", in);
  check_shape("experts", "routing", routing.experts, in.rows, mlp.experts_per_token);
  if (up.spec->columns() != in.columns || up.spec->matrices() != mlp.experts) {
    disagree("experts: in {} does not match {}", show(in), show(up));
  }
  if (down.spec->rows() != out.columns || down.spec->matrices() != mlp.experts) {
    disagree("experts: out {} does not match {}", show(out), show(down));
  }
  if (up.spec->rows() != (mlp.gated ? 2 : 1) * down.spec->columns()) {
    disagree("experts: {} does not match {}", show(up), show(down));
  }
  check_expert_biases(weights.up_bias, up);
  check_expert_biases(weights.down_bias, down);
  const memory::Scope scope(*scratch_);
  auto* workspace = static_cast<std::byte*>(scratch_->take(
      "experts workspace", footprint_.experts_workspace(in.rows, mlp, in.columns, up.dtype)));
  if (runs(out)) do_experts(out, in, routing, mlp, weights, workspace);
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
  if (out.rows != in.rows || out.columns == 0 || in.columns % out.columns != 0) {
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
