"""Inputs of quantized matrices rounded as each format asks, in their own type and in full rows: the slow twin of what `plimsoll run` does without
--quantized-activations off. Rounding is to the nearest, ties to even."""
import math, re
import torch

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def to_fp8(x):
    return x.clamp(-448, 448).to(torch.float8_e4m3fn).to(x.dtype)


def to_e2m1(x):
    """Ties go to the even code."""
    distances = (x.abs().clamp(max=6)[..., None] - E2M1).abs()
    best = distances.argmin(-1)
    upper = len(E2M1) - 1 - distances.flip(-1).argmin(-1)
    return E2M1.to(x.dtype)[torch.where((upper != best) & (upper % 2 == 0), upper, best)].copysign(x)


def largest(x):
    return x.abs().amax(-1, keepdim=True).clamp(min=1e-12)


def in_groups(round_group, size):
    """Of the last inputs there may be fewer."""
    def rounded(x):
        return torch.cat([round_group(part) for part in x.split(size, -1)], -1)
    return rounded


def int8_token(x):
    scale = largest(x) / 127
    return (x / scale).round() * scale


def int8_zeros(x):
    low, high = x.amin(-1, keepdim=True).clamp(max=0), x.amax(-1, keepdim=True).clamp(min=0)
    scale = ((high - low) / 255).clamp(min=1e-12)
    zero = (-128 - low / scale).round()
    return ((x / scale).round() + zero).clamp(-128, 127).sub(zero) * scale


def int8_static(scale, zero):
    return lambda x: ((x / scale).round() + zero).clamp(-128, 127).sub(zero) * scale


def fp8_token(x):
    scale = largest(x) / 448
    return to_fp8(x / scale) * scale


def fp8_static(scale):
    return lambda x: to_fp8(x / scale) * scale


def nvfp4(world):
    def rounded(x):
        scale = to_fp8(world * largest(x) / 6)
        return torch.where(scale > 0, to_e2m1(x * world / scale.clamp(min=1e-12)) * scale / world, 0)
    return in_groups(rounded, 16)


def mx(bits):
    def rounded(x):
        fraction, exponent = torch.frexp(largest(x) if bits == 4 else largest(x) / 448)
        power = exponent - torch.where(fraction >= 0.875, 2, 3) if bits == 4 else exponent - (fraction == 0.5).int()
        scale = torch.exp2(power.to(x.dtype))
        return (to_e2m1 if bits == 4 else to_fp8)(x / scale) * scale
    return in_groups(rounded, 32)


def of_compressed(inputs, group, beside):
    if not inputs:
        return None
    form, whole = inputs["type"], group["weights"]
    if inputs["num_bits"] == 4:
        return nvfp4(beside("input_global_scale")) if whole["group_size"] == 16 else mx(4)
    if form == "float" and inputs["strategy"] == "group":
        return in_groups(fp8_token, inputs["group_size"])
    if not inputs["dynamic"]:
        return fp8_static(beside("input_scale")) if form == "float" else int8_static(beside("input_scale"), beside("input_zero_point", 0))
    if form == "float":
        return fp8_token
    return int8_token if inputs.get("symmetric", True) else int8_zeros


def group_of(words, module):
    by_target = {target: group for group in words["config_groups"].values() for target in group["targets"]}
    fitting = [t for t in sorted(by_target, key=lambda t: ("re:" in t, t)) if t == module or (t.startswith("re:") and re.match(t[3:], module))]
    return by_target[(fitting or ["Linear"])[0]]


def of_quark(words, beside):
    inputs = words["global_quant_config"]["input_tensors"]
    if not inputs:
        return None
    if inputs["dtype"] == "int8":
        return int8_static(beside("input_scale"), 0 if inputs["symmetric"] else beside("input_zero_point"))
    if inputs["dtype"] == "fp4":
        return mx(4)
    if not inputs["is_dynamic"]:
        return fp8_static(beside("input_scale"))
    return in_groups(fp8_token, 128) if inputs["qscheme"] == "per_group" else fp8_token


def of_modelopt(words, beside):
    algorithm = words.get("quantization", words)["quant_algo"]
    return {"FP8": lambda: fp8_static(beside("input_scale")), "FP8_PER_CHANNEL_PER_TOKEN": lambda: fp8_token, "FP8_PB_WO": lambda: in_groups(fp8_token, 128),
            "MXFP8": lambda: mx(8), "NVFP4": lambda: nvfp4(1 / beside("input_scale"))}.get(algorithm, lambda: None)()


def of_fp8(words, beside):
    if "weight_block_size" in words:
        return in_groups(fp8_token, words["weight_block_size"][1])
    return fp8_static(beside("activation_scale", None) or beside("input_scale")) if words["activation_scheme"] == "static" else fp8_token


def rounding_of(words, module, beside):
    """What a configuration asks of a module's inputs; beside(ending, fallback): a number stored beside its matrix."""
    method = words["quant_method"]
    if method == "compressed-tensors":
        group = group_of(words, module)
        return of_compressed(group["input_activations"], group, beside)
    of = {"quark": of_quark, "modelopt": of_modelopt, "fp8": of_fp8, "fbgemm_fp8": lambda *_: fp8_token}.get(method)
    return of(words, beside) if of else None


def rounds(words):
    return words["quant_method"] in ("compressed-tensors", "quark", "modelopt", "fp8", "fbgemm_fp8")


def as_stored(model, stored):
    """Modules by their names in the checkpoint, which differ where a class calls its layers otherwise ("backbone.layers" and "model.layers")."""
    bases = {re.sub(r".*?(layers\.)", r"\1", base, count=1): base for base in (name.rsplit(".", 1)[0] for name in stored)}
    return {bases.get(re.sub(r".*?(layers\.)", r"\1", name, count=1), name): module for name, module in model.named_modules()}


def rounding_inputs(model, words, stored):
    """Has the model's modules that `stored` holds quantized round their inputs from now on."""
    for name, module in as_stored(model, stored).items():
        held = stored.get(name + ".weight_packed", stored.get(name + ".weight"))
        if not isinstance(module, torch.nn.Linear) or held is None or held.dtype in (torch.float32, torch.bfloat16, torch.float16):
            continue
        def beside(ending, fallback=math.nan, name=name):
            return stored[f"{name}.{ending}"].float().item() if f"{name}.{ending}" in stored else fallback
        rounding = rounding_of(words, name, beside)
        if rounding:
            module.register_forward_pre_hook(lambda _, inputs, rounding=rounding: (rounding(inputs[0]), *inputs[1:]))
