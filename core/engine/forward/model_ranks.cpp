// Communication of ranks that have the heads, columns and vocabulary of a model between them: sums
// over inputs, rows of the token table, logits.
#include <algorithm>

#include "engine/forward/model.h"

namespace plimsoll::engine {

using backend::View;
using backend::Weight;
using memory::Scope;
using model::Activation;

Weight Model::share(model::WeightId id) const {
  Weight share = weight(id);
  const bool meets = share && share.spec->ranks > 1 &&
                     (share.spec->split == model::Split::row || share.some_experts());
  if (meets) share.ranks = tensor_;
  return share;
}

// A bias joins the first slice of a sum, which the first rank has (model/slices.h).
void Model::linear(View out, View in, const model::Linear& linear, Activation activation, Sum sum) {
  const Weight matrix = share(linear.weight);
  if (matrix.ranks == nullptr) {
    return backend_.run(ops::Linear{out, in, matrix, weight(linear.bias), activation});
  }
  const Weight bias = tensor_->rank() == 0 ? weight(linear.bias) : Weight{};
  if (sum == Sum::with_norm) return backend_.run(ops::Linear{out, in, matrix, bias, activation});
  backend_.sum_linear({out, in, matrix, bias});
}

Model::Sum Model::sum_before(const model::Norm* next, const model::Linear& linear) const {
  const bool follows = next != nullptr && backend_.footprint().sums_with_norms();
  return follows && share(linear.weight).ranks != nullptr ? Sum::with_norm : Sum::now;
}

void Model::add_norm(View out, View residual, View delta, const model::Norm& spec, Sum sum) {
  const Weight gains = weight(spec.weight), bias = weight(spec.bias);
  if (sum == Sum::now) return backend_.run(ops::AddNorm{out, residual, delta, spec, gains, bias});
  backend_.sum_add_norm({out, residual, delta, spec, gains, bias}, *tensor_);
}

void Model::share_columns(View columns, View all) {
  if (tensor_ != nullptr) tensor_->share_columns(columns, all);
}

void Model::change_across(View x, int64_t columns, const std::function<void(View all)>& change) {
  if (x.columns == columns) return change(x);
  const Scope scope(backend_.scratch());
  const View all = take("columns of all ranks", x.rows, columns);
  share_columns(x, all);
  change(all);
  const int64_t first = tensor_ == nullptr ? 0 : tensor_->first_column(x.columns, columns);
  copy(x, all.slice_columns(first, x.columns));
}

void Model::norm_across(View x, const model::Norm& spec, int64_t groups) {
  // Groups may share their weights.
  const int64_t columns = std::max(x.columns, weight(spec.weight).spec->rows());
  change_across(x, columns, [&](View all) {
    if (groups > 1) {  // each a row
      all.rows *= groups;
      all.columns = all.stride = all.columns / groups;
    }
    norm(all, all, spec);
  });
}

void Model::look_up(const Step& step, model::WeightId table_id, float scale, View out) {
  Weight table = weight(table_id);
  if (table.spec->ranks > 1) table.ranks = tensor_;
  backend_.run(ops::Embed{out, table, step.batch, scale});
  if (table.ranks != nullptr) tensor_->all_reduce_sum(out);
}

View Model::logits(View hidden) {
  const View logits = take("logits", hidden.rows, spec_.vocab_size, DType::f32);
  const Weight& head = weight(spec_.head);
  const bool shared = head.spec->ranks > 1;
  const Scope scope(backend_.scratch());
  const View own = shared ? take("own logits", hidden.rows, head.spec->rows(), DType::f32) : logits;
  linear(own, hidden, {.weight = spec_.head, .bias = spec_.head_bias}, Activation::none);
  if (spec_.logits_scale != 1) backend_.run(ops::Scale{own, spec_.logits_scale});
  if (spec_.final_soft_cap > 0) backend_.run(ops::SoftCap{own, spec_.final_soft_cap});
  if (tensor_ != nullptr && shared) tensor_->gather_columns(own, logits);
  return logits;
}

void Model::share_drawn(const backend::BatchMeta& batch) {
  const auto count = std::ssize(batch.drawing.temperature);
  if (tensor_ == nullptr || count == 0) return;
  static constexpr int32_t kFirst[] = {0};
  tensor_->all_gather_rows({batch.drawn_on_device, DType::i32, 1, count, count}, kFirst);
}

}  // namespace plimsoll::engine
