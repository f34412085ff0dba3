#include "engines/llamacpp/llamacpp.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/amount.h"
#include "base/counted.h"
#include "base/error.h"
#include "engines/llamacpp/companions.h"
#include "engines/llamacpp/fit.h"
#include "engines/llamacpp/lines.h"

namespace plimsoll::engines::llamacpp {
namespace {

std::vector<Buffer> buffers_of(const Launch& launch, const Memory& memory) {
  std::vector<Buffer> buffers;
  const auto add = [&](const std::string& name, int card, const Usage& usage) {
    if (usage.total() > 0)
      buffers.push_back({name, card, usage.model, usage.context, usage.compute});
  };
  add("CPU", kHost, memory.plain);
  add("CPU_REPACK", kHost, memory.repacked);
  add("CUDA_Host", kHost, memory.pinned);
  for (size_t i = 0; i < memory.cards.size(); ++i)
    add(launch.cards[i].name, static_cast<int>(i), memory.cards[i]);
  return buffers;
}

/// The pattern of what of a split layer lies elsewhere, behind its number.
std::string_view rest_pattern(Fraction kept) {
  switch (kept) {
    case Fraction::attention:
      return "ffn_(gate|up|gate_up|down).*";
    case Fraction::up:
      return "ffn_(gate|gate_up|down).*";
    case Fraction::gate:
      return "ffn_down.*";
    case Fraction::dense:
      break;
  }
  return "ffn_(up|down|gate_up|gate)_(ch|)exps";
}

/// [layers, pattern, buffer] of neighboring layers alike: ["16-48", ..., "CPU"].
OrderedJson overrides_json(const Launch& launch, const Placement& placement) {
  OrderedJson rows = OrderedJson::array();
  const auto& partial = placement.partial;
  for (size_t i = 0; i < partial.size();) {
    size_t end = i + 1;
    while (end < partial.size() && partial[end].kept == partial[i].kept &&
           partial[end].device == partial[i].device &&
           partial[end].layer == partial[end - 1].layer + 1)
      ++end;
    const std::string first = std::to_string(partial[i].layer);
    const int device = partial[i].device;
    rows.push_back({end == i + 1 ? first : fmt::format("{}-{}", first, partial[end - 1].layer),
                    rest_pattern(partial[i].kept),
                    device == kHost ? "CPU" : launch.cards[static_cast<size_t>(device)].name});
    i = end;
  }
  return rows;
}

OrderedJson fit_json(const Launch& launch, const Fit& fit) {
  OrderedJson json = {{"status", fit.success ? "success" : "failure"},
                      {"n_ctx", launch.whole_context(fit.placement.context)},
                      {"n_gpu_layers", fit.placement.gpu_layers}};
  if (launch.cards.size() > 1) {
    json["tensor_split"] = OrderedJson::array();
    for (size_t i = 0; i < launch.cards.size(); ++i) {
      const auto& shares = fit.placement.shares;
      json["tensor_split"].push_back(i < shares.size() ? std::llround(shares[i]) : 0);
    }
  }
  if (!fit.placement.partial.empty())
    json["override_tensor"] = overrides_json(launch, fit.placement);
  return json;
}

void fill_resolved(const Shape& shape, const Launch& launch, const Placement& placement,
                   Answer& answer) {
  const int64_t context = placement.context;
  answer.resolved = {{"architecture", shape.architecture},
                     {"n_ctx", launch.whole_context(context)},
                     {"n_ctx_seq", launch.sequence_context(context)},
                     {"n_batch", launch.batch_of(context)},
                     {"n_ubatch", launch.micro_batch_of(context)},
                     {"n_seq_max", launch.sequences},
                     {"kv_unified", launch.unified},
                     {"flash_attn", launch.flash_attention},
                     {"type_k", type_name(*launch.key_type)},
                     {"type_v", type_name(*launch.value_type)},
                     {"n_gpu_layers", placement.gpu_layers}};
}

void fill_sizing(const Shape& shape, const Launch& launch, Answer& answer) {
  OrderedJson& sizing = answer.sizing;
  for (const char* key : {"n_ctx", "n_ctx_seq", "n_batch", "n_ubatch", "n_seq_max"})
    sizing[key] = answer.resolved[key];
  sizing["buffers"] = OrderedJson::object();
  for (const Buffer& buffer : answer.buffers)
    sizing["buffers"][buffer.name] = {buffer.model, buffer.context, buffer.compute};
  const auto logits = static_cast<double>(launch.sequences * shape.vocabulary * kFloat32);
  sizing["output_mib"] = std::round(logits / static_cast<double>(kMiB) * 100) / 100;
}

void fill_figures(const Shape& shape, const Launch& launch, const Placement& placement,
                  Answer& answer) {
  Figures& figures = answer.figures;
  figures.dtype = "gguf";
  figures.kv_dtype = type_name(*launch.key_type);
  figures.ranks = std::max<int64_t>(1, std::ssize(launch.cards));
  figures.context = answer.resolved["n_ctx_seq"];
  figures.running = launch.sequences;
  figures.step_tokens = answer.resolved["n_ubatch"];
  figures.kv_tokens = answer.resolved["n_ctx"];
  const int64_t all = shape.count() + 1;
  figures.card_layers =
      placement.gpu_layers < 0 ? all : std::min<int64_t>(placement.gpu_layers, all);
  for (const Buffer& buffer : answer.buffers) figures.kv_bytes += buffer.context;
  figures.bytes_per_token =
      static_cast<double>(figures.kv_bytes) / static_cast<double>(figures.kv_tokens);
  figures.kv_formula = fmt::format("{} tokens, {} sequences", figures.kv_tokens, figures.running);
}

}  // namespace

void answer_to(const Question& question, Version, Answer& answer) {
  if (question.gguf == nullptr) {
    fail(
        ExitCode::usage,
        "{}: llama.cpp loads GGUF files; name one, convert the model with llama.cpp's "
        "convert_hf_to_gguf.py and llama-quantize, or plan what these make of it with --gguf-type, "
        "such as --gguf-type Q4_K_M",
        question.config_path);
  }
  Launch launch = read_launch(question);
  Shape shape = shape_of(*question.gguf);
  apply_overrides(launch, shape);
  check_launch(launch, shape);
  Companions companions(launch);
  companions.reserve(launch);
  Fit fitted;
  fitted.placement = asked_placement(shape, launch);
  if (launch.fits) {
    fitted = fit(shape, launch, [&](const Placement& placement) {
      return companions.draft_on(launch, placement);
    });
  }
  companions.add_draft(fitted.placement);
  answer.buffers = buffers_of(launch, measure(shape, launch, fitted.placement));
  answer.cards = launch.cards;
  fill_resolved(shape, launch, fitted.placement, answer);
  fill_sizing(shape, launch, answer);
  if (launch.fits && !launch.cards.empty()) answer.sizing["fit"] = fit_json(launch, fitted);
  fill_figures(shape, launch, fitted.placement, answer);
  companions.add_adapters(shape, launch, fitted.placement);
  answer.says = fitted.says;
  const std::vector<std::string> lines = lines_of(shape, launch, fitted.placement, answer.buffers);
  answer.says.insert(answer.says.end(), lines.begin(), lines.end());
  for (const Launch& draft : launch.draft) {
    for (const Card& card : draft.cards)
      if (std::ranges::find(answer.cards, card.name, &Card::name) == answer.cards.end())
        answer.cards.push_back(card);
  }
  companions.add_to(answer.buffers, answer.cards);
  if (!companions.empty()) answer.sizing["beside"] = companions.json();
  answer.notes = launch.notes;
  const std::vector<std::string> beside = companions.notes();
  answer.notes.insert(answer.notes.end(), beside.begin(), beside.end());
  if (shape.left_out_layers > 0) {
    answer.notes.push_back(fmt::format("{} of multi-token prediction left out (--no-mtp)",
                                       counted(shape.left_out_layers, "layer")));
  }
}

}  // namespace plimsoll::engines::llamacpp
