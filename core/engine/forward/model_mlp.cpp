// Parts of a layer that work on each token by itself: MLPs, experts and what stands beside them.
#include "engine/forward/model.h"

namespace plimsoll::engine {

using backend::View;
using memory::Scope;
using model::Activation;
using model::MlpKind;
using model::MlpSpec;

void Model::feed_forward(const MlpSpec& mlp, const MlpInputs& inputs, View out, Sum sum) {
  const View in = inputs.normed;
  const Scope scope(backend_.scratch());
  switch (mlp.kind) {
    case MlpKind::plain: {
      const View up = take("mlp up", in.rows, mlp.intermediate);
      const bool is_xielu = mlp.xielu != model::kNoWeight;
      linear(up, in, mlp.up, is_xielu ? Activation::none : mlp.activation);
      if (is_xielu) backend_.run(ops::Xielu{up, weight(mlp.xielu)});
      return linear(out, up, mlp.down, Activation::none, sum);
    }
    case MlpKind::gated:
      return gated({.intermediate = mlp.intermediate,
                    .activation = mlp.activation,
                    .up = mlp.up,
                    .down = mlp.down,
                    .gate_factor = mlp.gate_factor,
                    .out_factor = mlp.out_factor,
                    .gate_deviations = mlp.gate_deviations,
                    .limits = mlp.limits},
                   in, out, sum);
    case MlpKind::experts:
      experts(mlp, inputs, out);
      if (mlp.experts_out_norm.present) norm(out, out, mlp.experts_out_norm);
      if (mlp.shared.intermediate > 0) add_shared(mlp, in, out);
      return;
    case MlpKind::none:
      return;
  }
}

void Model::gated(const GatedMlp& mlp, View in, View out, Sum sum) {
  const View activated = take("mlp activated", in.rows, mlp.intermediate);
  {
    const Scope inner(backend_.scratch());
    const View up = take("mlp gate and up", in.rows, 2 * mlp.intermediate);
    linear(up, in, mlp.up, Activation::none);
    adapt(up, in, mlp.adapter);
    if (mlp.gate_factor != 1) {
      backend_.run(ops::Scale{up.slice_columns(0, mlp.intermediate), mlp.gate_factor});
    }
    if (mlp.gate_deviations != 0) {
      const int64_t columns = mlp.intermediate * weight(mlp.down.weight).spec->ranks;
      change_across(up.slice_columns(0, mlp.intermediate), columns, [&](View all) {
        backend_.run(ops::KeepAbove{all, mlp.gate_deviations});
      });
    }
    if (mlp.limits.any()) backend_.run(ops::LimitGates{up, mlp.limits});
    backend_.run(ops::GatedActivation{activated, up, mlp.activation});
  }
  linear(out, activated, mlp.down, Activation::none, sum);
  if (mlp.out_factor != 1) backend_.run(ops::Scale{out, mlp.out_factor});
}

void Model::experts(const MlpSpec& mlp, const MlpInputs& inputs, View out) {
  const model::RouterSpec& router = mlp.router;
  const Scope scope(backend_.scratch());
  const View in = own_input(mlp.experts_norm, inputs, inputs.normed);
  const View logits = take("router logits", in.rows, mlp.experts + router.identities, DType::f32);
  const backend::Routing routing{
      take("chosen experts", in.rows, mlp.experts_per_token, DType::i32),
      take("expert weights", in.rows, mlp.experts_per_token, DType::f32)};
  {
    const Scope inner(backend_.scratch());
    linear(logits, own_input(router.norm, inputs, in), router.gate, Activation::none);
  }
  if (router.logits_factor != 1) backend_.run(ops::Scale{logits, router.logits_factor});
  backend_.run(ops::Route{routing, logits, router, weight(router.choice_bias)});
  if (router.expert_scale != model::kNoWeight) {
    backend_.run(
        ops::MultiplyFactors{routing.weights, weight(router.expert_scale), routing.experts});
  }
  const auto sum_chosen = [&](View to, View from) {
    backend_.run(ops::Experts{to,
                              from,
                              routing,
                              mlp,
                              {.up = share(mlp.up.weight),
                               .down = share(mlp.down.weight),
                               .up_bias = weight(mlp.up.bias),
                               .down_bias = weight(mlp.down.bias)}});
  };
  if (mlp.latent == 0) return sum_chosen(out, in);
  const View narrow_in = take("latent experts in", in.rows, mlp.latent);
  const View narrow_out = take("latent experts out", in.rows, mlp.latent);
  linear(narrow_in, in, mlp.latent_in, Activation::none);
  sum_chosen(narrow_out, narrow_in);
  linear(out, narrow_out, mlp.latent_out, Activation::none);
}

View Model::own_input(const model::Norm& spec, const MlpInputs& inputs, View usual) {
  if (!spec.present) return usual;
  const View own = take("own mlp in", inputs.residual.rows, inputs.residual.columns);
  norm(own, inputs.residual, spec);
  return own;
}

void Model::add_shared(const MlpSpec& mlp, View in, View out) {
  const model::SharedExperts& shared = mlp.shared;
  const View own = take("shared experts", out.rows, out.columns);
  if (mlp.gated) {
    gated({.intermediate = shared.intermediate,
           .activation = mlp.activation,
           .up = shared.up,
           .down = shared.down,
           .limits = shared.limits},
          in, own);
  } else {
    const Scope inner(backend_.scratch());
    const View up = take("shared up", in.rows, shared.intermediate);
    linear(up, in, shared.up, mlp.activation);
    linear(own, up, shared.down, Activation::none);
  }
  if (shared.gate.weight != model::kNoWeight) {
    const View gate = take("shared gate", in.rows, 1);
    linear(gate, in, shared.gate, Activation::none);
    backend_.run(ops::MultiplyGates{own, gate, model::GateKind::sigmoid});
  }
  if (shared.factor != 1) backend_.run(ops::Scale{own, shared.factor});
  if (shared.out_norm.present) norm(own, own, shared.out_norm);
  backend_.run(ops::Add{out, own});
}

}  // namespace plimsoll::engine
