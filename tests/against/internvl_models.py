"""InternVL as published (InternVLChatModel) from transformers' own model of it: its config, its weights under the published names, and the images
that our processor makes, which `images` compares with vLLM's."""
import json, os, subprocess
import numpy, torch
from transformers import InternVLConfig

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/tests/tools/process_images")
LAYER = {"lambda_1": "ls1", "lambda_2": "ls2", "layernorm_before": "norm1", "layernorm_after": "norm2", "attention.projection_layer": "attn.proj",
         "attention.q_norm": "attn.q_norm", "attention.k_norm": "attn.k_norm", "mlp": "mlp"}
OUTER = {"model.language_model.": "language_model.model.", "lm_head.": "language_model.lm_head.", "model.multi_modal_projector.layer_norm.": "mlp1.0.",
         "model.multi_modal_projector.linear_1.": "mlp1.1.", "model.multi_modal_projector.linear_2.": "mlp1.3.",
         "model.vision_tower.embeddings.cls_token": "vision_model.embeddings.class_embedding",
         "model.vision_tower.embeddings.position_embeddings": "vision_model.embeddings.position_embedding",
         "model.vision_tower.embeddings.patch_embeddings.projection.": "vision_model.embeddings.patch_embedding."}


def context_token(folder):
    tokens = json.load(open(os.path.join(folder, "tokenizer.json")))["added_tokens"]
    return next(token["id"] for token in tokens if token["content"] == "<IMG_CONTEXT>")


def config_of(chat, folder):
    """transformers' config of a published one."""
    vision = {key: chat["vision_config"][key] for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act",
                                                          "layer_norm_eps", "norm_type")}
    sizes = {key: [chat["vision_config"][key]] * 2 for key in ("image_size", "patch_size")}
    flags = {"attention_bias": chat["vision_config"]["qkv_bias"], "use_qk_norm": chat["vision_config"]["qk_normalization"]}
    text = {key: value for key, value in chat["llm_config"].items() if key not in ("architectures", "torch_dtype")}
    layer = chat["select_layer"]
    return InternVLConfig(vision_config=vision | sizes | flags, text_config=text, image_token_id=context_token(folder),
                          downsample_ratio=chat["downsample_ratio"], vision_feature_layer=layer if layer < 0 else layer + 1,
                          tie_word_embeddings=chat["tie_word_embeddings"])


def published_name(name):
    for theirs, ours in OUTER.items():
        if name.startswith(theirs):
            return ours + name[len(theirs):]
    number, rest = name.removeprefix("model.vision_tower.encoder.layer.").split(".", 1)
    part = next(part for part in LAYER if rest.startswith(part))
    return f"vision_model.encoder.layers.{number}.{LAYER[part]}{rest[len(part):]}"


def published_tensors(model):
    """q, k and v of the tower are one there."""
    tensors, found = dict(model.state_dict()), {}
    for name, tensor in tensors.items():
        if ".vision_tower." in name and ".q_proj." in name:
            key = published_name(name.replace("attention.q_proj", "attention.projection_layer")).replace("attn.proj", "attn.qkv")
            found[key] = torch.cat([tensors[name.replace("q_proj", part)] for part in ("q_proj", "k_proj", "v_proj")])
        elif not (".vision_tower." in name and any(part in name for part in (".k_proj.", ".v_proj."))):
            found[published_name(name)] = tensor
    return {name: tensor.contiguous().clone() for name, tensor in found.items()}


def prepared(paths, chat, folder):
    """[tiles, 3, side, side] of all images."""
    side = chat["force_image_size"]
    model = {"patch_size": chat["vision_config"]["patch_size"], "shuffle": int(1 / chat["downsample_ratio"])}
    values = os.path.join(folder, "values")
    tiles = []
    for path in paths:
        asked = {"file": path, "processor": "internvl", "settings": chat | {"image_size": side}, "values": values} | model
        subprocess.run([TOOL], input=json.dumps(asked) + "\n", text=True, check=True, capture_output=True)
        tiles.append(numpy.fromfile(values, dtype=numpy.float32).reshape(-1, 3, side, side))
    return torch.from_numpy(numpy.concatenate(tiles))
