#include "shard/ranks/tensor_ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "model/slices.h"
#include "shard/ranks/rank_model.h"
#include "shard/ranks/run_splits.h"

namespace plimsoll::shard {
namespace {

using model::LayerSpec;
using model::ModelSpec;
using model::WeightSpec;

void cut_recurrent(const ModelSpec& rank, int64_t ranks, model::RecurrentSpec& recurrent) {
  if (recurrent.conv.weight != model::kNoWeight)
    recurrent.conv.width = rank.weight(recurrent.conv.weight).rows();
  recurrent.heads /= ranks;
  if (recurrent.groups > 1) recurrent.groups /= ranks;
  if (!spans_ranks(recurrent, ranks)) {
    recurrent.norm_groups = std::max<int64_t>(1, recurrent.norm_groups / ranks);
  }
}

int64_t rows_of(const std::vector<checkpoint::Block>& blocks) {
  int64_t rows = 0;
  for (const checkpoint::Block& block : blocks) rows += block.rows;
  return rows;
}

std::string slices_refusal(const WeightSpec& weight, int64_t ranks) {
  const int64_t unit = model::slice_unit(weight);
  return fmt::format("{} sums over {} inputs, which are no {} slices of whole {}", weight.name,
                     weight.columns(), ranks,
                     unit == 2 ? "pairs" : fmt::format("runs of {}", unit));
}

/// The groups of a rank's `inputs`.
void cut_groups(int64_t inputs, int64_t ranks, model::Packing& packing) {
  if (packing.ordered) {  // inputs are of any group: a rank has the scales of all
    packing.group /= ranks;
    packing.scattered = packing.group > 0;
    return;
  }
  for (int64_t rank = 1; rank < ranks; ++rank) {
    packing.lead = std::max(packing.lead, packing.inputs_before(rank * inputs));
  }
}

/// Cuts the parts of a weight that is kept quantized to a rank's share. A rank finds the bytes that
/// it reads by the whole weight (RankSource).
void cut_parts(const ShardTensor& tensor, int64_t ranks, WeightSpec& cut) {
  const std::vector<checkpoint::Block> blocks = part_blocks(tensor, 0, ranks);
  for (size_t i = 0; i < blocks.size(); ++i) {
    model::Part& part = cut.parts[i];
    part.first_row = 0;
    part.block_count = 1;
    part.block_rows = part.block_stride =
        tensor.split == model::Split::vocabulary ? cut.rows() : blocks[i].rows;
    if (tensor.split == model::Split::row && part.packing) {
      cut_groups(cut.columns(), ranks, *part.packing);
    }
  }
}

/// Why a weight's share is none that `run` computes with; empty: it is one.
std::string share_refusal(const ShardTensor& tensor, int64_t ranks) {
  const WeightSpec& weight = *tensor.weight;
  const auto cuts_order = [&](const model::Part& part) {
    return part.packing && part.packing->ordered && part.packing->group % ranks != 0;
  };
  if (tensor.split == model::Split::row &&
      (weight.slices % ranks != 0 || std::ranges::any_of(weight.parts, cuts_order))) {
    return slices_refusal(weight, ranks);
  }
  const bool padded = tensor.split == model::Split::vocabulary;
  const bool stack = weight.is_stack();
  const int64_t in_matrix = tensor.shape.empty() ? 1 : tensor.shape[stack ? 1 : 0];
  const bool of_first = weight.parts_of_first && tensor.split != model::Split::experts;
  const int64_t rows = (stack && !of_first ? tensor.shape.front() : 1) * in_matrix;
  if (!padded && rows_of(rank_blocks(tensor, 0, ranks)) != rows) {
    return fmt::format("{} is not cut by heads", weight.name);
  }
  return "";
}

/// A layer of `spec` as the weights of `rank` are, which are cut; what vLLM replicates stays whole.
void cut_layer(const ModelSpec& spec, int64_t ranks, const ModelSpec& rank, LayerSpec& layer) {
  const auto is_cut = [&](model::WeightId id) {
    return rank.weight(id).rows() != spec.weight(id).rows() ||
           rank.weight(id).columns() != spec.weight(id).columns();
  };
  if (layer.recurrent && is_cut(layer.recurrent->out.weight)) {
    cut_recurrent(rank, ranks, *layer.recurrent);
  }
  if (layer.mlp.kind != model::MlpKind::none && is_cut(layer.mlp.down.weight)) {
    layer.mlp.intermediate /= ranks;
  }
  model::SharedExperts& shared = layer.mlp.shared;
  if (shared.intermediate > 0 && is_cut(shared.down.weight)) shared.intermediate /= ranks;
  if (layer.shortcut && is_cut(layer.shortcut->down.weight)) layer.shortcut->intermediate /= ranks;
  if (layer.shared_block) layer.shared_block->mlp.intermediate /= ranks;
  if (!layer.has_attention()) return;
  model::AttentionSpec& attention = layer.attention;
  const bool latent = attention.latent.kv_rank > 0;
  if (is_cut(latent ? attention.latent.q_up.weight : attention.qkv.weight)) {
    attention.whole_group = attention.group();
    attention.heads /= ranks;
    attention.kv_heads = std::max<int64_t>(1, attention.kv_heads / ranks);
  }
}

ModelSpec cut_model(const ModelSpec& spec, const Stage& tensors, int64_t ranks) {
  ModelSpec cut = spec;
  for (size_t id = 0; id < tensors.size(); ++id) {
    if (tensors[id].split == model::Split::replicated) continue;
    cut.weights[id].shape = tensors[id].shape;
    WeightSpec& weight = cut.weights[id];
    weight.ranks = ranks;
    weight.split = tensors[id].split;
    if (weight.split == model::Split::experts) {
      if (!weight.parts_of_first)
        weight.parts.resize(weight.parts.size() / static_cast<size_t>(ranks));
      continue;
    }
    if (weight.split == model::Split::row) weight.slices /= ranks;
    if (weight.is_packed()) cut_parts(tensors[id], ranks, weight);
  }
  for (LayerSpec& layer : cut.layers) cut_layer(spec, ranks, cut, layer);
  return cut;
}

/// Whether a cut layer's attention has the weights of its heads.
bool has_own_heads(const ModelSpec& cut, const model::AttentionSpec& attention) {
  const int64_t dim = attention.head_dim;
  const model::LatentSpec& latent = attention.latent;
  if (latent.kv_rank > 0) {
    return cut.weight(latent.q_up.weight).rows() == attention.heads * dim &&
           cut.weight(latent.kv_up.weight).rows() ==
               attention.kv_heads * (latent.unrotated + attention.value_dim);
  }
  const bool together = attention.norm_span == model::NormSpan::all_heads;
  const auto fits = [&](const model::Norm& norm, int64_t heads) {
    if (together) return !norm.present || norm.weight != model::kNoWeight;
    return std::ranges::all_of(std::array{norm.weight, norm.bias}, [&](model::WeightId id) {
      const int64_t numbers = id == model::kNoWeight ? dim : cut.weight(id).elements();
      return numbers == dim || numbers == heads * dim;
    });
  };
  const auto grows = [&](const model::Adapter& adapter, int64_t heads) {
    return adapter.up.weight == model::kNoWeight ||
           cut.weight(adapter.up.weight).rows() == heads * dim;
  };
  const int64_t values = attention.value_dim > 0 ? attention.value_dim : dim;
  const int64_t queries = (attention.gates_in_qkv ? 2 : 1) * attention.heads * dim;
  const int64_t stored = attention.keys_of >= 0 ? 0 : attention.kv_heads;
  return cut.weight(attention.qkv.weight).rows() == queries + stored * (dim + values) &&
         fits(attention.q_norm, attention.heads) && fits(attention.k_norm, attention.kv_heads) &&
         grows(attention.q_adapter, attention.heads) &&
         grows(attention.k_adapter, attention.kv_heads) &&
         grows(attention.v_adapter, attention.kv_heads);
}

/// Why a mixer's heads are not cut so; empty: they are.
std::string mixer_refusal(const ModelSpec& spec, const model::RecurrentSpec& recurrent,
                          int64_t ranks) {
  const std::string& name = spec.weight(recurrent.out.weight).name;
  if (recurrent.heads % ranks != 0) {
    return fmt::format("{} reads {} heads, which {} does not divide", name, recurrent.heads, ranks);
  }
  if (recurrent.tiled && recurrent.heads != recurrent.groups) {
    return fmt::format(
        "{} reads value heads in the order of GGUF files, which ranks do not share yet", name);
  }
  // Mamba's heads may all read one group's B and C; those of the delta rule have their keys.
  const bool is_mamba = recurrent.kind == model::RecurrentKind::mamba1 ||
                        recurrent.kind == model::RecurrentKind::mamba2;
  if (recurrent.groups % ranks == 0 || (is_mamba && recurrent.groups == 1)) return "";
  return fmt::format("{} has heads in {} groups, which {} does not divide", name, recurrent.groups,
                     ranks);
}

/// Why `ranks` ranks cannot share a layer's attention heads or mixer; empty: they can.
std::string heads_refusal(const ModelSpec& spec, const LayerSpec& layer, int64_t ranks) {
  if (layer.has_attention() && layer.attention.heads % ranks != 0) {
    return fmt::format("{} reads {} query heads, which {} does not divide",
                       spec.weight(layer.attention.out.weight).name, layer.attention.heads, ranks);
  }
  const bool latent = layer.has_attention() && layer.attention.latent.kv_rank > 0;
  if (latent) {
    const WeightSpec& kv = spec.weight(layer.attention.latent.kv_up.weight);
    if (kv.parts.size() > 1 && std::ranges::any_of(kv.parts, &model::Part::transposed)) {
      return fmt::format(
          "{} is stored head by head, as in GGUF files, which ranks do not share yet", kv.name);
    }
  }
  return layer.recurrent ? mixer_refusal(spec, *layer.recurrent, ranks) : "";
}

/// Why `run` cannot have `ranks` tensor-parallel ranks; empty: it can.
std::string width_refusal(const ModelSpec& spec, int64_t ranks) {
  if (ranks > model::kMostSlices || model::kMostSlices % ranks != 0) {
    return fmt::format(
        "--tensor-parallel-size {}: run has 2, 4 or 8 ranks that share a layer and answer alike "
        "(--pipeline-parallel-size makes more of them)",
        ranks);
  }
  try {
    const Stage tensors = make_run_tensors(spec, ranks);
    for (const ShardTensor& tensor : tensors) {
      const std::string why = share_refusal(tensor, ranks);
      if (!why.empty()) return fmt::format("--tensor-parallel-size {}: {}", ranks, why);
    }
    for (const LayerSpec& layer : spec.layers) {
      const std::string why = heads_refusal(spec, layer, ranks);
      if (!why.empty()) return fmt::format("--tensor-parallel-size {}: {}", ranks, why);
    }
    const ModelSpec cut = cut_model(spec, tensors, ranks);
    for (const LayerSpec& layer : cut.layers) {
      if (!layer.has_attention() || has_own_heads(cut, layer.attention)) continue;
      return fmt::format("--tensor-parallel-size {}: {} is not cut by heads", ranks,
                         spec.weight(layer.attention.out.weight).name);
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

std::string tensor_refusal(const ModelSpec& spec, int64_t ranks) {
  if (ranks == 1) return "";
  if (const char* why = model::find_unshared(spec)) {
    return fmt::format(
        "--tensor-parallel-size {}: {} has {}, which run does not cut over ranks yet; use 1", ranks,
        spec.architecture, why);
  }
  const std::string why = width_refusal(spec, ranks);
  if (why.empty()) return "";
  std::vector<int64_t> others;
  for (int64_t other = 2; other <= model::kMostSlices; other *= 2) {
    if (width_refusal(spec, other).empty()) others.push_back(other);
  }
  if (others.empty()) return why + "; no other number would do";
  return fmt::format("{}; {} would do", why, fmt::join(others, ", "));
}

ModelSpec cut_for_run(const ModelSpec& spec, int64_t ranks) {
  const std::string why = tensor_refusal(spec, ranks);
  if (!why.empty()) throw Error(ExitCode::usage, why);
  return cut_model(spec, make_run_tensors(spec, ranks), ranks);
}

}  // namespace plimsoll::shard
