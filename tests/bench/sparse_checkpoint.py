#!/usr/bin/env python3
"""Writes a checkpoint of Llama-3.1-405B's shapes whose files are headers and holes, to time what reads headers alone.

Usage: sparse_checkpoint.py FOLDER      (about 1 MB on disk, 812 GB by size)
"""
import json
import pathlib
import struct
import sys

LAYERS, HIDDEN, WIDE, HEADS, KV_HEADS, HEAD, VOCABULARY, FILES = 126, 16384, 53248, 128, 8, 128, 128256, 191


def tensors():
    yield "model.embed_tokens.weight", [VOCABULARY, HIDDEN]
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", [HIDDEN]
        yield prefix + "self_attn.q_proj.weight", [HEADS * HEAD, HIDDEN]
        yield prefix + "self_attn.k_proj.weight", [KV_HEADS * HEAD, HIDDEN]
        yield prefix + "self_attn.v_proj.weight", [KV_HEADS * HEAD, HIDDEN]
        yield prefix + "self_attn.o_proj.weight", [HIDDEN, HEADS * HEAD]
        yield prefix + "post_attention_layernorm.weight", [HIDDEN]
        yield prefix + "mlp.gate_proj.weight", [WIDE, HIDDEN]
        yield prefix + "mlp.up_proj.weight", [WIDE, HIDDEN]
        yield prefix + "mlp.down_proj.weight", [HIDDEN, WIDE]
    yield "model.norm.weight", [HIDDEN]
    yield "lm_head.weight", [VOCABULARY, HIDDEN]


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    # No dtype is stated: whoever wants to know it has to look at every header.
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": WIDE,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "vocab_size": VOCABULARY,
        "max_position_embeddings": 131072, "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "hidden_act": "silu",
        "tie_word_embeddings": False,
    }
    (folder / "config.json").write_text(json.dumps(config))
    everything = list(tensors())
    weight_map, total = {}, 0
    for index in range(FILES):
        name = f"model-{index + 1:05}-of-{FILES:05}.safetensors"
        header, offset = {}, 0
        for tensor, shape in everything[index::FILES]:
            size = 2
            for extent in shape:
                size *= extent
            header[tensor] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
            weight_map[tensor] = name
            offset += size
        text = json.dumps(header).encode()
        with open(folder / name, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.truncate(8 + len(text) + offset)
        total += offset
    index_text = json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map})
    (folder / "model.safetensors.index.json").write_text(index_text)
    print(f"{len(everything)} tensors, {total / 2 / 1e9:.1f} billion parameters")


main()
