"""vLLM 0.32.0's classes on a machine without a card: ranks are built one after the other in one process, over stand-ins of the groups. What CPUs
alone refuse is lifted, so that the parameters are those that a Hopper card has right after loading. Import before torch."""
import importlib, json, os, pkgutil

os.environ |= {"VLLM_TARGET_DEVICE": "cpu", "VLLM_LOGGING_LEVEL": "CRITICAL", "HF_HUB_OFFLINE": "1",
               "HUMMING_DISABLE_PARALLEL_BUILD": "1"}  # else two compilers start beside each import
import torch
from transformers import AutoConfig, PretrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from vllm.config import CacheConfig, DeviceConfig, LoadConfig, ModelConfig, ParallelConfig, VllmConfig
from vllm.distributed import parallel_state
from vllm.model_executor.layers.attention import mla_attention
from vllm.model_executor.layers.fused_moe import config as fused_moe_config, modular_kernel
from vllm.model_executor.layers.fused_moe.router import gate_linear
from vllm.platforms.cpu import CpuPlatform
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend, CPUAttentionBackendImpl
from vllm.model_executor import models as vllm_models
from vllm.model_executor.models import param2moe, registry, sarvam, utils as model_utils


class Group:
    """A process group of which one rank is here: building and loading call no collective."""

    def __init__(self, size, rank):
        self.world_size, self.rank_in_group, self.rank, self.local_rank = size, rank, rank, rank
        self.ranks, self.device, self.unique_name = list(range(size)), torch.device("cpu"), "stand-in"
        self.device_group = self.cpu_group = self
        self.device_communicator = None
        self.is_first_rank, self.is_last_rank = rank == 0, rank == size - 1

    def size(self):
        return self.world_size


def lend_kernels():
    """The wheel's kernels do not load without a driver; constructors only ask for them."""
    found = torch._ops._OpNamespace.__getattr__
    def lookup(namespace, name):
        try:
            return found(namespace, name)
        except AttributeError:
            if namespace.name in ("_C", "_moe_C") and not name.startswith("__"):
                return None
            raise
    torch._ops._OpNamespace.__getattr__ = lookup


def round_exp():
    """Mamba's A is -exp(A_log), the last bit of which depends on the device: here it is rounded right."""
    exp = torch.exp
    torch.exp = lambda x: exp(x.double()).to(x.dtype)


def round_mean():
    """Router biases lose their mean (Param2, Sarvam), whose last bit is the processor's: here it is rounded right."""
    for module in (param2moe, sarvam):
        module._zero_mean_tensor = lambda t: t - t.double().mean().to(t.dtype)


class Cuda:
    """The platform, but for what it calls itself."""

    def __init__(self, platform):
        self.platform = platform

    def __getattr__(self, name):
        if name in ("is_device_capability", "is_device_capability_family"):
            return lambda capability: capability in ((9, 0), 90)
        return (lambda *_: True) if name in ("is_cuda", "is_cuda_alike") else getattr(self.platform, name)


def build_what_cards_build():
    """Lifts refusals of the CPU that have nothing to do with weights."""
    for module in (fused_moe_config, gate_linear):
        module.current_platform = Cuda(module.current_platform)
    start = mla_attention.MLACommonImpl.__init__
    mla_attention.MLACommonImpl.__init__ = lambda self, *rest, topk_indices_buffer=None, index_group_builder=None, **named: start(self, *rest, **named)
    modular_kernel.FusedMoEExperts.is_supported_config = staticmethod(lambda *_: (True, None))
    cpu = CPUAttentionBackendImpl.__init__
    CPUAttentionBackendImpl.__init__ = lambda self, *rest, chunk_lookback=-1, use_alibi_sqrt=False, **named: cpu(self, *rest, **named)
    CPUAttentionBackend.supports_alibi_sqrt = classmethod(lambda cls: True)
    choose = CpuPlatform.get_attn_backend_cls.__func__
    CpuPlatform.get_attn_backend_cls = classmethod(
        lambda cls, selected_backend, attn_selector_config, num_heads=None: choose(cls, selected_backend, attn_selector_config._replace(use_sparse=False)))


class Kernel:
    """What a card would choose for a quantized layer: building and loading only keep it."""
    supports_pre_processed_weights = False

    def __init__(self, *_, **__):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


# Of mixtures: the kernel that takes experts as they are stored, or pads them as the most do.
BACKENDS = {"select_fp8_moe_backend": ("fp8", "Fp8MoeBackend", "TRITON"), "select_nvfp4_moe_backend": ("nvfp4", "NvFp4MoeBackend", "MARLIN"),
            "select_mxfp8_moe_backend": ("mxfp8", "Fp8MoeBackend", "MARLIN"), "select_mxfp4_moe_backend": ("mxfp4", "Mxfp4MoeBackend", "MARLIN"),
            "select_int8_moe_backend": ("int8", "Int8MoeBackend", "TRITON"), "select_wna16_moe_backend": ("int_wna16", "WNA16MoEBackend", "MARLIN")}
ORACLE = "vllm.model_executor.layers.fused_moe.oracle."


def choose_for_cards():
    """Quantized layers choose kernels when they are built, of which CPUs have few; what they hold before these repack it depends on none."""
    methods = importlib.import_module("vllm.model_executor.layers.quantization")
    for found in pkgutil.walk_packages(methods.__path__, methods.__name__ + "."):
        try:
            module = importlib.import_module(found.name)
        except Exception:  # what asks for a package that is not installed
            continue
        for name in dir(module):
            if name.startswith("init_") and name.endswith("_linear_kernel"):
                setattr(module, name, Kernel)
            elif name == "choose_mp_linear_kernel":
                setattr(module, name, lambda *_, **__: Kernel)
            elif name == "expose_input_quant_key":
                setattr(module, name, lambda *_: None)
            elif name in BACKENDS:
                oracle, backend, kernel = BACKENDS[name]
                chosen = getattr(importlib.import_module(ORACLE + oracle), backend)[kernel]
                setattr(module, name, lambda *_, chosen=chosen, **__: (chosen, Kernel))
            elif name == "current_platform" and "moe" in found.name:
                module.current_platform = Cuda(module.current_platform)


def be_rank(tp, rank, pp, stage):
    alone = Group(1, 0)
    for name in ("_DP", "_DCP", "_PCP"):
        setattr(parallel_state, name, alone)
    for name in ("_TP", "_ETP", "_EP"):
        setattr(parallel_state, name, Group(tp, rank))
    model_utils._model_to_pp_missing_layer_names.clear()  # by id of a model: another may have it now
    parallel_state._PP = Group(pp, stage)
    parallel_state._WORLD = Group(tp * pp, stage * tp + rank)


def inner_config(config):
    """A config within one, as an object: of its own class, where transformers has one that takes it."""
    try:
        return CONFIG_MAPPING[config["model_type"]].from_dict(config)
    except Exception:
        return PretrainedConfig.from_dict(config)


class Fields(dict):
    """An object of a config whose class would give it attributes."""
    def __getattr__(self, name):
        if name in self:
            return self[name]
        raise AttributeError(name)


def keep_inner_configs(self, **named):
    if "max_position_embeddings" in named:
        self.max_position_embeddings = named["max_position_embeddings"]  # which kinds of RoPE look at
    named = ASSUMED.get(self.model_type, {}) | named
    if "block_configs" in named:
        named["block_configs"] = [Fields({part: Fields(stated) for part, stated in block.items()}) for block in named["block_configs"]]
    PretrainedConfig.__init__(self, **{key: inner_config(value) if key.endswith("_config") and key != "quantization_config" and isinstance(value, dict)
                                       else value for key, value in named.items()})


# What classes that come with checkpoints have under another name, and assume.
OTHER_NAMES = {"exaone": {"num_hidden_layers": "num_layers"}, "telechat": {"num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}}
ASSUMED = {"minicpm": {"tie_word_embeddings": True}, "step1": {"tie_word_embeddings": True}}


def know(folder):
    """Lets transformers read configs of types that it has no class for, as checkpoints with code of their own bring one."""
    kind = json.load(open(os.path.join(folder, "config.json")))["model_type"]
    if kind not in CONFIG_MAPPING:
        name = {"new": "NewConfig", "gte": "GteConfig"}.get(kind, kind)  # which vLLM looks at
        AutoConfig.register(kind, type(name, (PretrainedConfig,), {"model_type": kind, "__init__": keep_inner_configs, "attribute_map": OTHER_NAMES.get(kind, {})}))


# Of earlier releases (0.22.1): the file, which may still be there, and the class.
OLDER = {"QWenLMHeadModel": ("qwen", "QWenLMHeadModel"), "BaichuanForCausalLM": ("baichuan", "BaichuanForCausalLM"),
         "BaiChuanForCausalLM": ("baichuan", "BaiChuanForCausalLM"), "AquilaModel": ("llama", "LlamaForCausalLM"),
         "AquilaForCausalLM": ("llama", "LlamaForCausalLM"), "InternLMForCausalLM": ("llama", "LlamaForCausalLM"),
         "XverseForCausalLM": ("llama", "LlamaForCausalLM")}


def know_older(folder):
    """Models of an earlier release, as this one's."""
    vllm_models.__path__.append(os.path.abspath(folder))
    for architecture, (file, name) in OLDER.items():
        module = importlib.import_module(f"vllm.model_executor.models.{file}")
        registry._PREVIOUSLY_SUPPORTED_MODELS.pop(architecture, None)
        registry.ModelRegistry.register_model(architecture, getattr(module, name))


def config_of(folder, tp, pp, dtype):
    model = ModelConfig(model=folder, dtype=dtype, enforce_eager=True, skip_tokenizer_init=True, allow_deprecated_quantization=True)
    return VllmConfig(model_config=model, device_config=DeviceConfig(device="cpu"), load_config=LoadConfig(use_tqdm_on_load=False),
                      cache_config=CacheConfig(enable_prefix_caching=False),  # CPUs without AMX have none for latent attention
                      parallel_config=ParallelConfig(tensor_parallel_size=tp, pipeline_parallel_size=pp, distributed_executor_backend="mp"))


def prepare():
    """Once, before the first class is built."""
    choose_for_cards()
    torch.set_num_threads(1)
    registry._run_in_subprocess = lambda inspect: inspect()
    torch.use_deterministic_algorithms(True, warn_only=True)  # fills torch.empty with NaN: what no tensor filled shows
    lend_kernels()
    build_what_cards_build()
    round_exp()
    round_mean()
