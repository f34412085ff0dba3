"""What vLLM 0.32.0's own class of an architecture answers on this CPU, in the checkpoint's dtype: the class and its loader as they are; attention,
linear layers, custom ops and experts by plain torch in place of kernels, over one sequence. Import before torch."""
import inspect
import vllm_ranks
import torch
import torch.nn.functional as F
from vllm.config import set_current_vllm_config
from vllm.model_executor.custom_op import CustomOp
from vllm.model_executor.layers.attention import Attention
from vllm.model_executor.layers.attention.mla_attention import MLAAttention
from vllm.model_executor.layers.fused_moe.activation import MoEActivation
from vllm.model_executor.layers.fused_moe.router.cpu_router import CPURouter
from vllm.model_executor.layers.fused_moe.runner.moe_runner import MoERunner
from vllm.model_executor.layers.linear import UnquantizedLinearMethod
from vllm.model_executor.layers.vocab_parallel_embedding import UnquantizedEmbeddingMethod
from vllm.model_executor.model_loader.default_loader import DefaultModelLoader
from vllm.model_executor.model_loader.utils import initialize_model
from vllm.model_executor.model_loader.weight_tying import maybe_retie_word_embeddings
from vllm.model_executor.models import minicpm
from vllm.utils.torch_utils import set_default_torch_dtype
from vllm.v1.attention.backend import AttentionType


# ---- attention ----

def sees(n, window=None, lookback=-1):
    """[n, n]: whether a position sees another; in chunks it sees its own and `lookback` of those before, which are a window together."""
    own, other = torch.arange(n)[:, None], torch.arange(n)[None, :]
    if window and lookback >= 0:
        chunk = window // (lookback + 1)
        return (other <= own) & (own // chunk - other // chunk <= lookback)
    return (other <= own) & ((own - other < window) if window else True)


def softmax_attention(query, key, value, scale, seen, slopes=None, root=False, soft_cap=None, sinks=None):
    """[heads, n, value size] of query [heads, n, size], key and value [KV heads, n, size]. `root`: ALiBi goes by the root of distances."""
    group, n = len(query) // len(key), query.shape[1]
    key, value = key.repeat_interleave(group, 0), value.repeat_interleave(group, 0)
    scores = query @ key.transpose(1, 2) * scale
    if soft_cap:
        scores = soft_cap * torch.tanh(scores / soft_cap)
    if slopes is not None:
        distance = (torch.arange(n)[:, None] - torch.arange(n)[None, :]).clamp(min=0).to(scores.dtype)
        scores = scores - torch.as_tensor(slopes, dtype=scores.dtype)[:, None, None] * (distance.sqrt() if root else distance)
    scores = scores.masked_fill(~seen, -torch.inf)
    if sinks is not None:
        scores = torch.cat((scores, sinks.to(scores.dtype)[:, None, None].expand(-1, n, 1)), -1)
    return torch.softmax(scores, -1)[..., :n] @ value


# Arguments of Attention's constructor that change nothing here, or are read from the layer.
PLAIN = ("self", "num_heads", "head_size", "num_kv_heads", "cache_config", "quant_config", "prefix", "per_layer_sliding_window", "attn_type",
         "head_size_v", "attn_backend", "scale", "alibi_slopes", "logits_soft_cap", "kv_sharing_target_layer_name", "mm_prefix_clamp_sliding_window",
         "sinks", "chunk_lookback", "use_alibi_sqrt")


def remember(start):
    """Keeps what a layer was asked for."""
    signature = inspect.signature(start)
    def started(self, *rest, **named):
        asked = dict(signature.bind(self, *rest, **named).arguments)
        asked |= asked.pop("extra_impl_args", {})
        start(self, *rest, **named)
        unknown = [k for k, v in asked.items() if k not in PLAIN and v is not None and v is not False]
        if unknown or self.attn_type != AttentionType.DECODER:
            raise NotImplementedError(f"attention with {unknown} of type {self.attn_type}")
        self.asked = asked
    return started


KEYS = {}  # and values by layer, for layers that share another's


def attend(self, query, key, value, output_shape=None, output_dtype=None):
    heads = lambda x, count, size: x.reshape(-1, count, size).transpose(0, 1)
    shared = self.asked.get("kv_sharing_target_layer_name")
    if shared is None:
        KEYS[self.layer_name] = heads(key, self.num_kv_heads, self.head_size), heads(value, self.num_kv_heads, self.head_size_v)
    key, value = KEYS[shared or self.layer_name]
    seen = sees(len(query), self.sliding_window, self.asked.get("chunk_lookback", -1))
    out = softmax_attention(heads(query, self.num_heads, self.head_size), key, value, self.asked["scale"], seen, self.asked.get("alibi_slopes"),
                            self.asked.get("use_alibi_sqrt"), self.asked.get("logits_soft_cap"), self.asked.get("sinks"))
    return out.transpose(0, 1).reshape(output_shape or (-1, self.num_heads * self.head_size_v))


# ---- experts ----

ACTIVATIONS = {MoEActivation.SILU: F.silu, MoEActivation.GELU: F.gelu, MoEActivation.GELU_TANH: lambda x: F.gelu(x, approximate="tanh")}


def run_experts(x, w13, w2, weights, ids, activation=F.silu):
    """Each token's experts, one after the other: w13 [experts, gate and up, hidden], w2 [experts, hidden, intermediate]."""
    out = torch.zeros_like(x)
    for token in range(len(x)):
        for weight, expert in zip(weights[token], ids[token].tolist(), strict=True):
            gate, up = F.linear(x[token], w13[expert]).chunk(2)
            out[token] += weight * F.linear(activation(gate) * up, w2[expert])
    return out


def run_mixture(self, hidden_states, router_logits, shared_experts_input, input_ids, *_):
    """In place of MoERunner's entry: routed experts, behind the shared ones' output where there are any."""
    if self.gate is not None:
        router_logits, _ = self.gate(hidden_states)
    weights, ids = self.router.select_experts(hidden_states=hidden_states, router_logits=router_logits, topk_indices_dtype=torch.int64, input_ids=input_ids)
    experts = self.routed_experts
    if experts.apply_router_weight_on_input or hasattr(experts, "w13_bias"):
        raise NotImplementedError("experts with weights on inputs, or biases")
    routed = run_experts(hidden_states, experts.w13_weight, experts.w2_weight, weights, ids, ACTIVATIONS[experts.activation])
    return routed if self.shared_experts is None else (self.shared_experts._layer(shared_experts_input), routed)


def choose_experts(hidden_states, logits, topk, renormalize, **_):
    """In place of fused_topk."""
    weights, ids = torch.softmax(logits, -1).topk(topk)
    return weights / weights.sum(-1, keepdim=True) if renormalize else weights, ids, ids


def route_as_cards(choose):
    """CPUs choose without groups by softmax alone: cards by either score, with a bias for the choice, and then a factor of the weights."""
    def chosen(self, hidden_states, router_logits, indices_type, *, input_ids=None):
        if self.use_grouped_topk or self.custom_routing_function is not None:
            return choose(self, hidden_states, router_logits, indices_type, input_ids=input_ids)
        logits, bias = router_logits.float(), self.e_score_correction_bias
        scores = torch.softmax(logits, -1) if self.scoring_func == "softmax" else logits.sigmoid()
        ids = (scores if bias is None else scores + bias).topk(self.top_k)[1]
        weights = scores.gather(1, ids)
        if self.renormalize:
            weights = weights / weights.sum(-1, keepdim=True)
        return weights * (1 if bias is None else self.routed_scaling_factor), ids
    return chosen


# ---- latent attention ----

def attend_latent(self, query, latent, rotated, output_shape=None, **_):
    """In place of MLAAttention's entry: query [n, heads, size]; keys and values of all heads from the latent [n, rank], and one rotated part of
    their keys [n, 1, size]."""
    both = self.kv_b_proj(latent)[0].view(len(query), self.num_heads, -1)
    keys, values = both.split([self.qk_nope_head_dim, self.v_head_dim], -1)
    keys = torch.cat((keys, rotated.expand(-1, self.num_heads, -1)), -1)
    out = softmax_attention(*(x.transpose(0, 1) for x in (query, keys, values)), self.scale, sees(len(query)))
    return out.transpose(0, 1).reshape(output_shape)


# ---- the class ----

def prepare():
    """Once, before the first class is built."""
    vllm_ranks.prepare()
    vllm_ranks.Group.all_reduce = vllm_ranks.Group.all_gather = vllm_ranks.Group.gather = lambda self, x, *_: x  # of one rank
    Attention.__init__, Attention.forward = remember(Attention.__init__), attend
    UnquantizedLinearMethod.apply = UnquantizedEmbeddingMethod.apply = lambda self, layer, x, bias=None: F.linear(x, layer.weight, bias)
    CustomOp.dispatch_forward = lambda self, **_: self.forward_native if type(self).forward_native is not CustomOp.forward_native else self.forward_cuda
    minicpm.fused_topk, minicpm.fused_experts = choose_experts, run_experts  # a class with experts of its own
    CPURouter._compute_routing, MLAAttention.forward = route_as_cards(CPURouter._compute_routing), attend_latent
    MoERunner._select_forward = lambda self: lambda *given: run_mixture(self, *given)


def load(folder):
    """The class with its weights, and its config. Raises where a parameter is left unfilled, or vLLM finds no place for a tensor."""
    vllm_ranks.know(folder)
    vllm_ranks.be_rank(1, 0, 1, 0)
    config = vllm_ranks.config_of(folder, 1, 1, "float32")
    with set_current_vllm_config(config), set_default_torch_dtype(torch.float32), torch.device("cpu"):
        model = initialize_model(config).eval()
        DefaultModelLoader(config.load_config).load_weights(model, config.model_config)
        maybe_retie_word_embeddings(model, config.model_config)
    unfilled = [name for name, tensor in model.named_parameters() if torch.isnan(tensor).any()]
    if unfilled:
        raise ValueError(f"unfilled: {', '.join(unfilled[:3])}")
    return model, config


def answer(folder, prompts):
    """Logits [tokens, vocabulary] of each prompt."""
    model, config = load(folder)
    with torch.no_grad(), set_current_vllm_config(config):
        return [model.compute_logits(model(torch.tensor(ids), torch.arange(len(ids)), None)) for ids in prompts]
