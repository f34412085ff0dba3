// The class itself, and the ops that take rows one by one.
#include <algorithm>
#include <cmath>

#include "backend/cpu/ops.h"
#include "base/error.h"

namespace plimsoll::backend {

std::unique_ptr<Backend> make_cpu_backend(CpuOptions options) {
  if (!has_isa(options.isa))
    fail(ExitCode::usage, "this processor has no {}; the best for it is {}", isa_name(options.isa),
         isa_name(detect_isa()));
  if (options.threads < 1) fail(ExitCode::usage, "at least one thread is needed");
  return std::make_unique<CpuBackend>(options);
}

CpuBackend::CpuBackend(CpuOptions options)
    : Backend(cpu_footprint()),
      kernels_(kernels_for(options.isa)),
      integer_product_(options.integer_tiles != nullptr ? options.integer_tiles
                                                        : integer_product(options.isa)),
      fixed_(fixed_kernels(options.isa)),
      asked_ahead_(asked_ahead()),
      bf16_tiles_(options.bf16_tiles != nullptr ? options.bf16_tiles : bf16_tiles(options.isa)),
      pool_(options.threads),
      attention_scratch_(options.threads),
      decoded_scales_(options.threads),
      rounded_(options.threads),
      unpacked_(options.threads) {}

void CpuBackend::parallel(int64_t tasks, const HostJob& job) {
  pool_.run(tasks, INT64_MAX, [&](int64_t task, int) { job(task); });
}

void CpuBackend::norm_row(float* out, const float* in, int64_t width, const model::Norm& spec,
                          const float* weight, const float* bias) const {
  kernels_.norm({.in = in,
                 .out = out,
                 .width = width,
                 .weight = weight,
                 .bias = bias,
                 .kind = spec.kind,
                 .epsilon = spec.epsilon,
                 .weight_offset = spec.weight_offset});
}

void CpuBackend::compute(const ops::Norm& op) {
  const int64_t turns = op.weight ? op.weight.spec->elements() / op.in.columns : 1;
  for_rows(op.in.rows, op.in.columns, [&](int64_t t) {
    const float* weights = op.weight ? floats(op.weight) + t % turns * op.in.columns : nullptr;
    norm_row(row_of(op.out, t), row_of(op.in, t), op.in.columns, op.spec, weights, floats(op.bias));
  });
}

void CpuBackend::compute(const ops::Add& op) {
  for_rows(op.residual.rows, op.residual.columns, [&](int64_t t) {
    kernels_.add(row_of(op.residual, t), row_of(op.delta, t), op.residual.columns);
  });
}

void CpuBackend::compute(const ops::AddNorm& op) {
  for_rows(op.residual.rows, op.residual.columns, [&](int64_t t) {
    kernels_.add(row_of(op.residual, t), row_of(op.delta, t), op.residual.columns);
    norm_row(row_of(op.out, t), row_of(op.residual, t), op.residual.columns, op.spec,
             floats(op.weight), floats(op.bias));
  });
}

void CpuBackend::compute(const ops::LimitGates& op) {
  const int64_t n = op.x.columns / 2;
  for_rows(op.x.rows, op.x.columns, [&](int64_t t) {
    float* gate = row_of(op.x, t);
    if (op.limits.gate > 0) {  // NaN stays
      for (int64_t i = 0; i < n; ++i) gate[i] = std::min(gate[i], op.limits.gate);
    }
    if (op.limits.up > 0) kernels_.clamp(gate + n, n, op.limits.up);
  });
}

void CpuBackend::compute(const ops::GatedActivation& op) {
  for_rows(op.out.rows, op.in.columns, [&](int64_t t) {
    const float* gate = row_of(op.in, t);
    kernels_.gate(row_of(op.out, t), gate, gate + op.out.columns, op.out.columns, {op.activation});
  });
}

void CpuBackend::compute(const ops::PlaceEmbeddings& op) {
  const BatchMeta& batch = *op.batch;
  const View& from = batch.embeddings;
  for_rows(std::ssize(batch.embedded_rows), op.out.columns, [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    std::copy_n(row_of(from, batch.embedding_rows[at]), op.out.columns,
                row_of(op.out, batch.embedded_rows[at]));
  });
}

void CpuBackend::compute(const ops::AverageParts& op) {
  const int64_t parts = op.in.columns / op.out.columns;
  for_rows(op.out.rows, op.in.columns, [&](int64_t t) {
    float* to = row_of(op.out, t);
    std::copy_n(row_of(op.in, t), op.out.columns, to);
    for (int64_t part = 1; part < parts; ++part) {
      kernels_.add(to, row_of(op.in, t) + part * op.out.columns, op.out.columns);
    }
    kernels_.scale(to, 1.f / static_cast<float>(parts), op.out.columns);
  });
}

void CpuBackend::compute(const ops::ScaleColumns& op) {
  const auto* factors = static_cast<const float*>(op.weight.data);
  for_rows(op.x.rows, op.x.columns, [&](int64_t t) {
    float* row = row_of(op.x, t);
    for (int64_t i = 0; i < op.x.columns; ++i) row[i] *= factors[i];
  });
}

void CpuBackend::compute(const ops::SoftCap& op) {
  for_rows(op.x.rows, op.x.columns,
           [&](int64_t t) { kernels_.soft_cap(row_of(op.x, t), op.x.columns, op.cap); });
}

void CpuBackend::compute(const ops::MultiplyFactors& op) {
  const float* by = floats(op.factors);
  if (op.indices.columns == 0) return compute(ops::Scale{op.x, by[0]});
  for_rows(op.x.rows, op.x.columns, [&](int64_t t) {
    const int32_t* at = static_cast<const int32_t*>(op.indices.data) + t * op.indices.stride;
    for (int64_t i = 0; i < op.x.columns; ++i) row_of(op.x, t)[i] *= by[at[i]];
  });
}

void CpuBackend::compute(const ops::Scale& op) {
  for_rows(op.x.rows, op.x.columns,
           [&](int64_t t) { kernels_.scale(row_of(op.x, t), op.factor, op.x.columns); });
}

void CpuBackend::compute(const ops::CopyHeads& op) {
  for_rows(op.out.rows, op.columns.heads * op.columns.width, [&](int64_t t) {
    float* to = row_of(op.out, t) + op.columns.to;
    const float* from = op.in.rows == 0 ? nullptr : row_of(op.in, t) + op.columns.from;
    for (int64_t h = 0; h < op.columns.heads; ++h) {
      if (from == nullptr) {
        std::fill_n(to + h * op.columns.to_stride, op.columns.width, 0.f);
      } else {
        std::copy_n(from + h * op.columns.from_stride, op.columns.width,
                    to + h * op.columns.to_stride);
      }
    }
  });
}

void CpuBackend::compute(const ops::MultiplyGates& op) {
  for_rows(op.x.rows, op.x.columns, [&](int64_t t) {
    kernels_.multiply_gates(row_of(op.x, t), row_of(op.gates, t), op.x.columns, op.gates.columns,
                            op.kind);
  });
}

void CpuBackend::compute(const ops::Xielu& op) {
  const float* p = floats(op.parameters);
  const auto softplus = [](float a) { return a > 20 ? a : std::log1p(std::exp(a)); };
  const Xielu xielu{
      .positive = softplus(p[0]), .negative = p[2] + softplus(p[1]), .beta = p[2], .epsilon = p[3]};
  for_rows(op.x.rows, op.x.columns,
           [&](int64_t t) { kernels_.xielu(row_of(op.x, t), op.x.columns, xielu); });
}

const float* CpuBackend::do_host_logits(View logits, std::span<float>) {
  return static_cast<const float*>(logits.data);
}

void CpuBackend::compute(const ops::MatchSize& op) {
  constexpr float kLeast = 1e-5f;
  const auto width = static_cast<float>(op.x.columns);
  for_rows(op.x.rows, 2 * op.x.columns, [&](int64_t t) {
    float* row = row_of(op.x, t);
    const float* other = row_of(op.like, t);
    const float own = std::max(kernels_.dot(row, row, op.x.columns) / width, kLeast);
    const float wanted = kernels_.dot(other, other, op.x.columns) / width;
    kernels_.scale(row, std::sqrt(wanted) / std::sqrt(own), op.x.columns);
  });
}

void CpuBackend::compute(const ops::KeepAbove& op) {
  for_rows(op.x.rows, 3 * op.x.columns,
           [&](int64_t t) { kernels_.keep_above(row_of(op.x, t), op.deviations, op.x.columns); });
}

}  // namespace plimsoll::backend
