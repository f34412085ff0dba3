#include "backend/backend.h"

#include <cstring>
#include <vector>

#include "backend/checks.h"
#include "backend/random_rows.h"

namespace plimsoll::backend {
namespace {

View take_rows(memory::Arena& scratch, std::string_view name, View like, int64_t columns) {
  const size_t bytes = like.rows * columns * dtype_size(like.dtype);
  return {scratch.take(name, bytes), like.dtype, like.rows, columns, columns};
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
  slice.data = static_cast<std::byte*>(data) + first * dtype_size(dtype);
  slice.columns = count;
  return slice;
}

View View::slice_rows(int64_t first, int64_t count) const {
  if (first < 0 || count < 0 || first + count > rows) {
    disagree("slice: rows [{}, {}) of {}", first, first + count, show(*this));
  }
  View slice = *this;
  slice.data = static_cast<std::byte*>(data) + first * stride * dtype_size(dtype);
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
    std::vector<float> row(columns);
    const size_t row_bytes = row.size() * dtype_size(weight.dtype);
    for (int64_t r = first; r < first + count; ++r) {
      uint64_t state = seed + static_cast<uint64_t>(r) * 0x9E3779B97F4A7C15;
      for (float& value : row) value = scale * uniform_of(state);
      convert(row.data(), DType::f32, static_cast<std::byte*>(to) + (r - first) * row_bytes,
              weight.dtype, row.size());
    }
  };
  const auto packed = [&](size_t part) {
    return random_rows(*weight.spec->parts[part].packing, columns, seed + part, scale);
  };
  do_load_weight(weight, {rows, packed});
}

void Backend::run(const ops::FusedLinear& op) {
  op.check();
  const memory::Scope scope(*scratch_);
  const bool norms = op.norm.present, stores = op.end == ProductEnd::stored;
  const View in = norms ? take_rows(*scratch_, "normed", op.in, op.in.columns) : op.in;
  const View product =
      stores ? op.out : take_rows(*scratch_, "product", op.out, op.weight.spec->rows());
  if (runs(op.out) && fuse(op)) return;
  if (norms) run(ops::Norm{in, op.in, op.norm, op.norm_weight});
  run(ops::Linear{product, in, op.weight, op.bias});
  if (op.end == ProductEnd::added) run(ops::Add{op.out, product});
  if (op.end == ProductEnd::gated) run(ops::GatedActivation{op.out, product, op.activation});
}

void Backend::sum_linear(const ops::Linear& op) {
  run(op);
  if (runs(op.out) && !footprint_.slices(*op.weight.spec)) op.weight.ranks->all_reduce_sum(op.out);
}

void Backend::sum_add_norm(const ops::AddNorm& op, TensorRanks& ranks) {
  op.check();
  if (!runs(op.out) || ranks.sum_add_norm(op)) return;
  ranks.all_reduce_sum(op.delta);
  run(op);
}

void Backend::refuse(std::string_view op) const {
  disagree("{}: the {} backend has no such kernel", op, footprint_.name());
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

CommunicatorId Backend::make_communicator_id() const {
  throw std::logic_error("ranks that share the host's memory meet elsewhere");
}

std::unique_ptr<ProcessTeam> Backend::join_processes(std::span<Backend* const>,
                                                     const Membership&) const {
  throw std::logic_error("ranks that share the host's memory meet elsewhere");
}

void Backend::copy_from_peer(std::span<const std::byte> from, void* to) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

std::unique_ptr<memory::Memory> Backend::take_memory(size_t bytes) {
  return std::make_unique<memory::HostMemory>(bytes);
}

std::unique_ptr<memory::Memory> Backend::take_host_memory(size_t bytes) {
  return std::make_unique<memory::HostMemory>(bytes);
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
