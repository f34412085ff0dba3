"""How checkpoints store quantised matrices, and what config.json says of them: what the programs beside share."""
import torch


def pack(codes, bits):
    """[rows, n] of numbers to [rows, n * bits / 32] words, lowest first, running over their ends."""
    shifts = torch.arange(bits)
    stream = ((codes.long()[..., None] >> shifts) & 1).reshape(codes.shape[0], -1, 32)
    words = (stream << torch.arange(32)).sum(-1)
    return (words - ((words >> 31) << 32)).to(torch.int32)


def compressed(form, weights, activations, left):
    group = {"targets": ["Linear"], "weights": weights | {"dynamic": False}, "input_activations": activations}
    return {"quant_method": "compressed-tensors", "format": form, "ignore": left, "quantization_status": "compressed", "config_groups": {"group_0": group}}
