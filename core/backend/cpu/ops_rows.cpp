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
      bf16_tiles_(options.bf16_tiles != nullptr ? options.bf16_tiles : bf16_tiles(options.isa)),
      pool_(options.threads),
      attention_scratch_(static_cast<size_t>(options.threads)),
      nested_scales_(static_cast<size_t>(options.threads)),
      rounded_(static_cast<size_t>(options.threads)) {}

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

void CpuBackend::do_norm(View out, View in, const model::Norm& spec, const Weight& weight,
                         const Weight& bias) {
  const int64_t turns = weight ? weight.spec->elements() / in.columns : 1;
  for_rows(in.rows, in.columns, [&](int64_t t) {
    const float* weights = weight ? floats(weight) + t % turns * in.columns : nullptr;
    norm_row(row_of(out, t), row_of(in, t), in.columns, spec, weights, floats(bias));
  });
}

void CpuBackend::do_add(View residual, View delta) {
  for_rows(residual.rows, residual.columns, [&](int64_t t) {
    kernels_.add(row_of(residual, t), row_of(delta, t), residual.columns);
  });
}

void CpuBackend::do_add_norm(View out, View residual, View delta, const model::Norm& spec,
                             const Weight& weight, const Weight& bias) {
  for_rows(residual.rows, residual.columns, [&](int64_t t) {
    kernels_.add(row_of(residual, t), row_of(delta, t), residual.columns);
    norm_row(row_of(out, t), row_of(residual, t), residual.columns, spec, floats(weight),
             floats(bias));
  });
}

void CpuBackend::do_limit_gates(View x, const model::GateLimits& limits) {
  const int64_t n = x.columns / 2;
  for_rows(x.rows, x.columns, [&](int64_t t) {
    float* gate = row_of(x, t);
    if (limits.gate > 0) {  // NaN stays
      for (int64_t i = 0; i < n; ++i) gate[i] = std::min(gate[i], limits.gate);
    }
    if (limits.up > 0) kernels_.clamp(gate + n, n, limits.up);
  });
}

void CpuBackend::do_gated_activation(View out, View in, model::Activation activation) {
  for_rows(out.rows, in.columns, [&](int64_t t) {
    const float* gate = row_of(in, t);
    kernels_.gate(row_of(out, t), gate, gate + out.columns, out.columns, {activation});
  });
}

void CpuBackend::do_place_embeddings(View out, const BatchMeta& batch) {
  const View& from = batch.embeddings;
  for_rows(std::ssize(batch.embedded_rows), out.columns, [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    std::copy_n(row_of(from, batch.embedding_rows[at]), out.columns,
                row_of(out, batch.embedded_rows[at]));
  });
}

void CpuBackend::do_average_parts(View out, View in) {
  const int64_t parts = in.columns / out.columns;
  for_rows(out.rows, in.columns, [&](int64_t t) {
    float* to = row_of(out, t);
    std::copy_n(row_of(in, t), out.columns, to);
    for (int64_t part = 1; part < parts; ++part) {
      kernels_.add(to, row_of(in, t) + part * out.columns, out.columns);
    }
    kernels_.scale(to, 1.f / static_cast<float>(parts), out.columns);
  });
}

void CpuBackend::do_scale_columns(View x, const Weight& weight) {
  const auto* factors = static_cast<const float*>(weight.data);
  for_rows(x.rows, x.columns, [&](int64_t t) {
    float* row = row_of(x, t);
    for (int64_t i = 0; i < x.columns; ++i) row[i] *= factors[i];
  });
}

void CpuBackend::do_soft_cap(View x, float cap) {
  for_rows(x.rows, x.columns, [&](int64_t t) { kernels_.soft_cap(row_of(x, t), x.columns, cap); });
}

void CpuBackend::do_multiply_factors(View x, const Weight& factors, View indices) {
  const float* by = floats(factors);
  if (indices.columns == 0) return do_scale(x, by[0]);
  for_rows(x.rows, x.columns, [&](int64_t t) {
    const int32_t* at = static_cast<const int32_t*>(indices.data) + t * indices.stride;
    for (int64_t i = 0; i < x.columns; ++i) row_of(x, t)[i] *= by[at[i]];
  });
}

void CpuBackend::do_scale(View x, float factor) {
  for_rows(x.rows, x.columns, [&](int64_t t) { kernels_.scale(row_of(x, t), factor, x.columns); });
}

void CpuBackend::do_copy_heads(View out, View in, const HeadColumns& columns) {
  for_rows(out.rows, columns.heads * columns.width, [&](int64_t t) {
    float* to = row_of(out, t) + columns.to;
    const float* from = in.rows == 0 ? nullptr : row_of(in, t) + columns.from;
    for (int64_t h = 0; h < columns.heads; ++h) {
      if (from == nullptr) {
        std::fill_n(to + h * columns.to_stride, columns.width, 0.f);
      } else {
        std::copy_n(from + h * columns.from_stride, columns.width, to + h * columns.to_stride);
      }
    }
  });
}

void CpuBackend::do_multiply_gates(View x, View gates, model::GateKind kind) {
  for_rows(x.rows, x.columns, [&](int64_t t) {
    kernels_.multiply_gates(row_of(x, t), row_of(gates, t), x.columns, gates.columns, kind);
  });
}

void CpuBackend::do_xielu(View x, const Weight& parameters) {
  const float* p = floats(parameters);
  const auto softplus = [](float a) { return a > 20 ? a : std::log1p(std::exp(a)); };
  const Xielu xielu{
      .positive = softplus(p[0]), .negative = p[2] + softplus(p[1]), .beta = p[2], .epsilon = p[3]};
  for_rows(x.rows, x.columns, [&](int64_t t) { kernels_.xielu(row_of(x, t), x.columns, xielu); });
}

const float* CpuBackend::do_host_logits(View logits, std::span<float>) {
  return static_cast<const float*>(logits.data);
}

void CpuBackend::do_match_size(View x, View like) {
  constexpr float kLeast = 1e-5f;
  const auto width = static_cast<float>(x.columns);
  for_rows(x.rows, 2 * x.columns, [&](int64_t t) {
    float* row = row_of(x, t);
    const float* other = row_of(like, t);
    const float own = std::max(kernels_.dot(row, row, x.columns) / width, kLeast);
    const float wanted = kernels_.dot(other, other, x.columns) / width;
    kernels_.scale(row, std::sqrt(wanted) / std::sqrt(own), x.columns);
  });
}

void CpuBackend::do_keep_above(View x, float deviations) {
  for_rows(x.rows, 3 * x.columns,
           [&](int64_t t) { kernels_.keep_above(row_of(x, t), deviations, x.columns); });
}

}  // namespace plimsoll::backend
