"""How checkpoints store quantized matrices, and what config.json says of them: what the programs beside share."""
import torch


def pack(codes, bits):
    """[rows, n] of numbers to [rows, n * bits / 32] words, lowest first, running over their ends."""
    shifts = torch.arange(bits)
    stream = ((codes.long()[..., None] >> shifts) & 1).reshape(codes.shape[0], -1, 32)
    words = (stream << torch.arange(32)).sum(-1)
    return (words - ((words >> 31) << 32)).to(torch.int32)


def pack_whole(codes, bits):
    """The same to ceil(n / (32 // bits)) words, whole numbers alone in each."""
    each = 32 // bits
    padded = torch.nn.functional.pad(codes.long(), (0, -codes.shape[1] % each)).reshape(codes.shape[0], -1, each)
    words = (padded << (torch.arange(each) * bits)).sum(-1)
    return (words - ((words >> 31) << 32)).to(torch.int32)


def compressed(form, weights, activations, left):
    group = {"targets": ["Linear"], "weights": weights | {"dynamic": False}, "input_activations": activations}
    return {"quant_method": "compressed-tensors", "format": form, "ignore": left, "quantization_status": "compressed", "config_groups": {"group_0": group}}
