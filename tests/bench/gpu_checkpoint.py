"""A checkpoint of Llama-3-8B's shape with made-up weights, for tests/bench/gpu: 16 GB in a few seconds. Standard library alone."""
import json
import os
import random
import struct

LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "hidden_act": "silu",
    "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256, "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": False, "bos_token_id": 128000,
    "eos_token_id": 128001,
}
SHARDS = 4


def model_folder(work):
    folder = os.path.join(work, "llama-8b")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(LLAMA_8B, file)
    return folder


def tensors(config):
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    kv = config["num_key_value_heads"] * config["head_dim"]
    yield "model.embed_tokens.weight", [config["vocab_size"], hidden]
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        yield layer + "self_attn.q_proj.weight", [hidden, hidden]
        yield layer + "self_attn.k_proj.weight", [kv, hidden]
        yield layer + "self_attn.v_proj.weight", [kv, hidden]
        yield layer + "self_attn.o_proj.weight", [hidden, hidden]
        yield layer + "mlp.gate_proj.weight", [inner, hidden]
        yield layer + "mlp.up_proj.weight", [inner, hidden]
        yield layer + "mlp.down_proj.weight", [hidden, inner]
        yield layer + "input_layernorm.weight", [hidden]
        yield layer + "post_attention_layernorm.weight", [hidden]
    yield "model.norm.weight", [hidden]
    yield "lm_head.weight", [config["vocab_size"], hidden]


def header(items):
    """A shard's header for tensors of bf16, and how many bytes they take behind it."""
    entries, offset = {}, 0
    for tensor, shape in items:
        size = 2
        for n in shape:
            size *= n
        entries[tensor] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, offset


def write_checkpoint(folder, config=None):
    """Shards of small random numbers; the same megabyte over and over, which costs no time to make."""
    if os.path.exists(os.path.join(folder, "model.safetensors.index.json")):
        return
    numbers = random.Random(7)
    # bf16 between 2^-9 and 2^-5 in size, of both signs.
    pattern = b"".join(struct.pack("<H", numbers.choice((0, 0x8000)) | numbers.randrange(0x3B00, 0x3D00))
                       for _ in range(1 << 19))
    everything = list(tensors(config or LLAMA_8B))
    shards, index = [[] for _ in range(SHARDS)], {}
    for i, item in enumerate(everything):
        shards[i * SHARDS // len(everything)].append(item)
    for number, items in enumerate(shards):
        name = f"model-{number + 1:05d}-of-{SHARDS:05d}.safetensors"
        index.update((tensor, name) for tensor, _ in items)
        head, left = header(items)
        with open(os.path.join(folder, name), "wb", buffering=0) as file:
            file.write(head)
            while left > 0:
                left -= file.write(pattern[:min(left, len(pattern))])
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {}, "weight_map": index}, file)
