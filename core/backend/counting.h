// A backend that computes nothing: with a counting scratch arena, the forward pass checks its
// shapes and finds the peak of its scratch.
#pragma once

#include "backend/backend.h"

namespace plimsoll::backend {

/// A counting backend with the sizes of any footprint. Its scratch arena must count.
class CountingBackend final : public Backend {
 public:
  using Backend::Backend;

 protected:
  void do_load_weight(const Weight&, const RowReader&) override { never("load_weight"); }
  void do_embed(View, const Weight&, const BatchMeta&, float) override { never("embed"); }
  void do_embed_positions(View, const Weight&, const BatchMeta&, int64_t) override {
    never("embed_positions");
  }
  void do_gather_rows(View, View, const BatchMeta&) override { never("gather_rows"); }
  void do_norm(View, View, const model::Norm&, const Weight&, const Weight&) override {
    never("norm");
  }
  void do_add(View, View) override { never("add"); }
  void do_add_norm(View, View, View, const model::Norm&, const Weight&, const Weight&) override {
    never("add_norm");
  }
  void do_linear(View, View, const Weight&, const Weight&, model::Activation, std::byte*) override {
    never("linear");
  }
  void do_rope_angles(View, const model::RopeSpec&, const BatchMeta&) override {
    never("rope_angles");
  }
  void do_rope_and_store(View, View, const model::AttentionSpec&, const HeadNorms&, const KvLayer&,
                         const BatchMeta&) override {
    never("rope_and_store");
  }
  void do_attention(View, View, const model::AttentionSpec&, const ScoreTerms&, const KvLayer&,
                    const BatchMeta&, std::byte*) override {
    never("attention");
  }
  void do_copy_heads(View, View, const HeadColumns&) override { never("copy_heads"); }
  void do_multiply_gates(View, View, model::GateKind) override { never("multiply_gates"); }
  void do_xielu(View, const Weight&) override { never("xielu"); }
  void do_limit_gates(View, const model::GateLimits&) override { never("limit_gates"); }
  void do_gated_activation(View, View, model::Activation) override { never("gated_activation"); }
  void do_route(const Routing&, View, const model::RouterSpec&, const Weight&) override {
    never("route");
  }
  void do_experts(View, View, const Routing&, const model::MlpSpec&, const ExpertWeights&,
                  std::byte*) override {
    never("experts");
  }
  void do_soft_cap(View, float) override { never("soft_cap"); }
  void do_multiply_factors(View, const Weight&, View) override { never("multiply_factors"); }
  void do_scale(View, float) override { never("scale"); }
  void do_draw(const BatchMeta&, View, int64_t, std::byte*) override { never("draw"); }
  const float* do_host_logits(View, std::span<float>) override {
    never("host_logits");
    return nullptr;
  }

 private:
  /// Throws for an op that was not stopped before: the scratch arena does not count, which is our
  /// bug.
  static void never(std::string_view op);
};

}  // namespace plimsoll::backend
