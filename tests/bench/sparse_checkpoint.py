#!/usr/bin/env python3
"""Writes a checkpoint of Llama-3.1-405B's shapes whose files are headers and holes, to time what reads headers alone.

Usage: sparse_checkpoint.py FOLDER      (about 1 MB on disk, 812 GB by size)
"""
import json
import pathlib
import sys

from gpu_checkpoint import header, tensors

LAYERS, HIDDEN, WIDE, HEADS, KV_HEADS, HEAD, VOCABULARY, FILES = 126, 16384, 53248, 128, 8, 128, 128256, 191


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    # No dtype is stated: whoever wants to know it has to look at every header.
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": WIDE,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "vocab_size": VOCABULARY,
        "max_position_embeddings": 131072, "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "hidden_act": "silu",
        "tie_word_embeddings": False,
    }
    (folder / "config.json").write_text(json.dumps(config))
    everything = list(tensors(config))
    weight_map, total = {}, 0
    for index in range(FILES):
        name = f"model-{index + 1:05}-of-{FILES:05}.safetensors"
        items = everything[index::FILES]
        weight_map.update((tensor, name) for tensor, _ in items)
        head, size = header(items)
        with open(folder / name, "wb") as file:
            file.write(head)
            file.truncate(len(head) + size)
        total += size
    index_text = json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map})
    (folder / "model.safetensors.index.json").write_text(index_text)
    print(f"{len(everything)} tensors, {total / 2 / 1e9:.1f} billion parameters")


main()
