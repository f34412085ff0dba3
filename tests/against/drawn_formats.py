"""Random quantized matrices: the numbers that codes and scales stand for, the tensors that hold them, and what config.json says of them. A format's
function in FORMATS takes a random.Random and returns how a matrix is drawn (shape, generator, module) -> (weight, {ending: tensor}), words for the
outcome, and a function of the names of modules that are left whole: quantization_config."""
import json, math, re
import torch
from stored_formats import compressed, pack, pack_whole

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
       0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]
FP4 = [0, 0.0052083333, 0.6666667, 1.0, 0.3333333, 0.5, 0.1666667, 0.25, 0, -0.0052083333, -0.6666667, -1.0, -0.3333333, -0.5, -0.1666667, -0.25]


class Unfit(ValueError):
    """The format cannot hold a matrix of this shape."""


def fit(truth):
    if not truth:
        raise Unfit


def whole(shape, low, high, generator):
    return torch.randint(low, high + 1, shape, generator=generator)


def uniform(shape, scale, generator, dtype=torch.float32, signed=False):
    """Scales of which the product with a code's spread is about 1 / sqrt(inputs); `signed`: some below 0, as AutoRound writes them."""
    sizes = scale * (0.6 + 0.8 * torch.rand(shape, generator=generator))
    return (sizes * (1 - 2 * whole(shape, 0, 1, generator)) if signed else sizes).to(dtype)


def target(inputs, spread):
    return 1.5 / math.sqrt(inputs) / spread


def groups_of(inputs, size):
    fit(size <= 0 or inputs % size == 0)
    return inputs // size if size > 0 else 1


def group_index(inputs, groups, turned, generator):
    index = torch.arange(inputs) // (inputs // groups)
    return index[torch.randperm(inputs, generator=generator)] if turned else index


# ---- matrices [out, in] ----

def gptq(shape, g, bits, group_size, sym, desc_act, checkpoint_format="gptq", turned=None, signed=False):
    """`turned`: whether inputs are in an order of their own, which with static groups they are not."""
    out, inputs = shape
    fit(out * bits % 32 == 0 and inputs * bits % 32 == 0)
    groups = groups_of(inputs, group_size)
    codes = whole(shape, 0, 2**bits - 1, g)
    scales = uniform((groups, out), target(inputs, 2**bits / 3.4), g, torch.float16, signed)
    lowest = 0 if checkpoint_format == "gptq_v2" else 1
    zeros = torch.full((groups, out), 2**(bits - 1)) if sym else whole((groups, out), lowest, 2**bits - 1, g)
    index = group_index(inputs, groups, desc_act if turned is None else turned, g)
    weight = (codes - zeros[index].T) * scales.float()[index].T
    return weight, {"qweight": pack(codes, bits).T, "qzeros": pack(zeros - lowest, bits), "scales": scales, "g_idx": index.to(torch.int32)}


def in_nibbles(shape, g, group_size, sym, signed, names):
    """Eight outputs in a word; names: of codes, zero points and scales, and whether symmetric ones have a sign."""
    out, inputs = shape
    fit(out % 8 == 0)
    groups = groups_of(inputs, group_size)
    codes, zeros = whole((inputs, out), 0, 15, g), whole((groups, out), 0, 15, g)
    if sym:
        zeros.fill_(8)
    scales = uniform((groups, out), target(inputs, 4.7), g, torch.float16, signed)
    index = group_index(inputs, groups, False, g)
    order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])  # which column lies in each nibble
    sign = 8 if sym and names[3] else 0

    def words(numbers):
        return pack((numbers ^ sign).reshape(len(numbers), -1, 8)[:, :, order].reshape(len(numbers), -1), 4)
    return ((codes - zeros[index]) * scales.float()[index]).T, {names[0]: words(codes), names[1]: words(zeros), names[2]: scales}


def awq(shape, g, group_size, sym=False, signed=False):
    return in_nibbles(shape, g, group_size, sym, signed, ("qweight", "qzeros", "scales", False))


def quark_int4(shape, g, group_size, sym):
    """In AWQ's order; signed where they are symmetric."""
    return in_nibbles(shape, g, group_size, sym, False, ("weight", "weight_zero_point", "weight_scale", True))


def packed(shape, g, bits, group_size, sym, actorder, scale_dtype, over_ends=True, signed=False):
    out, inputs = shape
    fit(inputs * bits % 32 == 0 and (sym or out * bits % 32 == 0))
    words = pack if over_ends else pack_whole
    groups = groups_of(inputs, group_size)
    codes = whole(shape, 0, 2**bits - 1, g)
    scales = uniform((out, groups), target(inputs, 2**bits / 3.4), g, scale_dtype, signed)
    zeros = torch.full((out, groups), 2**(bits - 1)) if sym else whole((out, groups), 0, 2**bits - 1, g)
    index = group_index(inputs, groups, actorder, g)
    tensors = {"weight_packed": words(codes, bits), "weight_scale": scales, "weight_shape": torch.tensor(shape)}
    if actorder:
        tensors["weight_g_idx"] = index.to(torch.int32)
    if not sym:
        tensors["weight_zero_point"] = words(zeros.T.contiguous(), bits).T
    return (codes - zeros[:, index]) * scales.float()[:, index], tensors


def bytes_of(shape, g, kind, scale, scale_shape, block=None, scale_dtype=torch.float32, beside=None):
    """int8 or fp8 codes by scales of `scale_shape(out, in)`, perhaps of blocks; `beside`: further tensors of each matrix."""
    out, inputs = shape
    codes = whole(shape, -127, 127, g).to(torch.int8) if kind == "int8" else (torch.randn(shape, generator=g) * 80).clamp(-448, 448).to(torch.float8_e4m3fn)
    size = (-(-out // block[0]), -(-inputs // block[1])) if block else scale_shape(out, inputs)
    scales = uniform(size, target(inputs, 73), g)
    powers = scale_dtype == torch.uint8
    stored = torch.log2(scales).round().add(127).to(torch.uint8) if powers else scales.to(scale_dtype)
    spread = torch.exp2(stored.float() - 127) if powers else stored.float()
    if block:
        spread = spread.repeat_interleave(block[0], 0)[:out].repeat_interleave(block[1], 1)[:, :inputs]
        stored = stored.reshape(scale_shape(*stored.shape)) if scale_shape else stored
    elif spread.dim() == 1 and len(spread) > 1:
        spread = spread[:, None]
    return codes.float() * spread, {"weight": codes, scale: stored} | (beside(out) if beside else {})


def nibbles(codes):
    return (codes[:, 0::2] | (codes[:, 1::2] << 4)).to(torch.uint8)


def nvfp4(shape, g, modelopt, inputs_whole, inputs_name="input_scale"):
    out, inputs = shape
    fit(inputs % 16 == 0)
    codes = whole(shape, 0, 15, g)
    scales = (20 + 200 * torch.rand((out, inputs // 16), generator=g)).to(torch.float8_e4m3fn)
    spread = E2M1[codes] * scales.float().repeat_interleave(16, 1)
    if modelopt:
        second = uniform((), target(inputs, 350), g)
        tensors = {"weight": nibbles(codes), "weight_scale": scales, "weight_scale_2": second}
        return spread * second, tensors | ({} if inputs_whole else {inputs_name: torch.tensor(0.01)})
    world = 1 / uniform((1,), target(inputs, 350), g)
    tensors = {"weight_packed": nibbles(codes), "weight_scale": scales, "weight_global_scale": world}
    return spread / world, tensors | ({} if inputs_whole else {"input_global_scale": torch.tensor([50.0])})


def mxfp4(shape, g, name):
    fit(shape[1] % 32 == 0)
    codes, middle = whole(shape, 0, 15, g), round(math.log2(target(shape[1], 2.9)))
    powers = whole((shape[0], shape[1] // 32), middle - 1, middle + 1, g)
    spread = torch.exp2(powers.float()).repeat_interleave(32, 1)
    return E2M1[codes] * spread, {name: nibbles(codes), "weight_scale": (powers + 127).to(torch.uint8)}


def bitsandbytes(shape, g, kind, blocksize, double):
    count, quant = shape[0] * shape[1], torch.tensor(NF4 if kind == "nf4" else FP4)
    fit(shape[1] % 2 == 0)
    codes, most = whole((count,), 0, 15, g), target(shape[1], 0.5)
    blocks = -(-count // blocksize)
    tensors = {"weight": (codes[0::2] << 4 | codes[1::2]).to(torch.uint8)[:, None], "weight.quant_map": quant}
    state = {"quant_type": kind, "blocksize": blocksize, "dtype": "bfloat16", "shape": list(shape)}
    amax = uniform((blocks,), most, g)
    if double:
        nested, steps = torch.sort(2 * torch.rand(256, generator=g) - 1)[0], whole((blocks,), 0, 255, g)
        largest = uniform((-(-blocks // 256),), most / 3, g)
        amax = nested[steps] * largest.repeat_interleave(256)[:blocks] + most
        tensors |= {"weight.nested_absmax": largest, "weight.nested_quant_map": nested}
        state |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": most}
    tensors["weight.absmax"] = steps.to(torch.uint8) if double else amax
    tensors[f"weight.quant_state.bitsandbytes__{kind}"] = torch.tensor(list(json.dumps(state).encode()), dtype=torch.uint8)
    return (quant[codes] * amax.repeat_interleave(blocksize)[:count]).reshape(shape), tensors


# ---- formats ----

def one(*_):
    return ()


def of_one(*_):
    return (1,)


def of_rows(out, _):
    return (out,)


def of_columns(out, _):
    return (out, 1)


def drawer(matrix, **options):
    return lambda shape, generator, module="": matrix(shape, generator, **options)


def shown(options):
    return {key: str(value).removeprefix("torch.") for key, value in options.items() if not callable(value)}


def made(matrix, options, words):
    """`words`: quantization_config, or a function of the names that are left whole."""
    return drawer(matrix, **options), shown(options), words


def escaped(name):
    return name.replace(".", "\\.")


def draw_gptq(rng):
    o = {"bits": rng.choice([2, 3, 4, 4, 8]), "group_size": rng.choice([16, 32, 64, 128, -1]), "sym": rng.random() < 0.5, "desc_act": rng.random() < 0.35,
         "checkpoint_format": rng.choice(["gptq", "gptq", "gptq_v2"])}
    static = o["desc_act"] and rng.random() < 0.3
    more = {"turned": False} if static else {}
    words = {"quant_method": "gptq", "static_groups": static} | o
    draw, said, config = made(gptq, o | more | {"signed": rng.random() < 0.2},
                              lambda left: words | {"lm_head": "lm_head" not in left, "dynamic": {f"-:{escaped(name)}$": {} for name in left} or None})
    return draw, said, config


RULES = (".*\\.mlp\\..*", ".*down_proj", "model\\.layers\\.[01]\\..*", "model\\.layers\\.1\\..*(q|gate|w1)_.*", ".*(k|v|qkv)_proj$", "layers.*")  # the last fits nothing


def draw_gptq_rules(rng):
    """GPTQModel's `dynamic`: the first that fits counts, in the order of the file."""
    o = {"bits": 4, "group_size": rng.choice([32, 64, -1]), "sym": rng.random() < 0.5, "desc_act": False}
    rules = {rng.choice(["+:", "+:", ""]) + rule: {key: value for key, value in {"bits": rng.choice([2, 4, 8]), "group_size": rng.choice([16, 32, 128, -1]), "sym": rng.random() < 0.5}.items() if rng.random() < 0.6}
             for rule in rng.sample(RULES, rng.randint(1, 5))}
    def of(module):
        return o | next((differing for rule, differing in rules.items() if re.match(rule.removeprefix("+:"), module)), {})
    def draw(shape, generator, module=""):
        return gptq(shape, generator, **of(module))
    def config(left):
        return {"quant_method": "gptq", "lm_head": "lm_head" not in left, "dynamic": {f"-:{escaped(name)}$": {} for name in left} | rules} | o
    return draw, {"rules": rules} | o, config


def draw_auto_round(rng):
    o = {"group_size": rng.choice([32, 64, 128, -1]), "sym": rng.random() < 0.5}
    as_awq = rng.random() < 0.4
    bits = 4 if as_awq else rng.choice([2, 3, 4, 8])
    if not as_awq:
        o |= {"bits": bits, "desc_act": False}
    words = {"quant_method": "auto-round", "bits": bits, "data_type": "int", "group_size": o["group_size"], "sym": o["sym"],
             "packing_format": "auto_round:auto_awq" if as_awq else "auto_round:auto_gptq"}
    return made(awq if as_awq else gptq, o, lambda left: words | {"extra_config": {name: {"bits": 16, "data_type": "float"} for name in left}})


def draw_awq(rng):
    o = {"group_size": rng.choice([16, 32, 64, 128, -1])}
    sym = rng.random() < 0.2
    words = {"quant_method": "awq", "bits": 4, "zero_point": not sym, "version": "gemm"} | o
    return made(awq, o | {"sym": sym, "signed": rng.random() < 0.2}, lambda left: words | {"modules_to_not_convert": [name for name in left if name != "lm_head"] or None})


def draw_packed(rng):
    o = {"bits": rng.choice([2, 3, 3, 4, 4, 8]), "over_ends": rng.random() < 0.5, "group_size": rng.choice([16, 32, 64, 128, -1]), "sym": rng.random() < 0.5, "scale_dtype": rng.choice([torch.bfloat16, torch.float16])}
    o["actorder"] = o["group_size"] > 0 and rng.random() < 0.3
    group = o["group_size"] if o["group_size"] > 0 else None
    words = {"num_bits": o["bits"], "type": "int", "strategy": "group" if group else "channel", "symmetric": o["sym"], "group_size": group,
             "actorder": "group" if o["actorder"] else rng.choice([None, "weight"])}
    return made(packed, o | {"signed": rng.random() < 0.2}, lambda left: compressed("pack-quantized", words, None, left))


def int8_inputs(symmetric):
    """Scales of inputs of about 1 in size, and a code of 0."""
    beside = {"input_scale": torch.tensor([0.03], dtype=torch.float32)} | ({} if symmetric else {"input_zero_point": torch.tensor([-7], dtype=torch.int8)})
    return lambda _: beside


def draw_int8(rng):
    o = {"kind": "int8", "scale": "weight_scale", "scale_shape": rng.choice([of_columns, of_columns, of_one]), "scale_dtype": rng.choice([torch.bfloat16, torch.float32])}
    per = "channel" if o["scale_shape"] is of_columns else "tensor"
    token = {"num_bits": 8, "type": "int", "strategy": "token", "symmetric": rng.random() < 0.7, "dynamic": True}
    tensor = token | {"strategy": "tensor", "dynamic": False}
    inputs = rng.choice([token, token, tensor, None])
    if inputs is tensor:
        o["beside"] = int8_inputs(tensor["symmetric"])
    return made(bytes_of, o, lambda left: compressed("int-quantized", {"num_bits": 8, "type": "int", "strategy": per, "symmetric": True}, inputs, left))


def draw_fp8_ct(rng):
    per = rng.choice(["channel", "tensor", "block"])
    block = rng.choice([(128, 128), (128, 128), (64, 32)]) if per == "block" else None
    o = {"kind": "fp8", "scale": "weight_scale", "scale_shape": {"channel": of_columns, "tensor": of_one, "block": None}[per], "block": block,
         "scale_dtype": rng.choice([torch.bfloat16, torch.float32])}
    words = {"num_bits": 8, "type": "float", "strategy": per, "symmetric": True} | ({"block_structure": list(block)} if block else {})
    inputs = {"num_bits": 8, "type": "float", "strategy": "group" if block else "token", "symmetric": True, "dynamic": True} | ({"group_size": 128} if block else {})
    if not block and rng.random() < 0.3:
        inputs |= {"strategy": "tensor", "dynamic": False}
        o["beside"] = lambda _: {"input_scale": torch.tensor([0.02])}
    return made(bytes_of, o, lambda left: compressed("float-quantized", words, inputs, left))


def draw_fp8_hf(rng):
    block = rng.choice([(128, 128), (128, 128), (64, 128), None])
    names = rng.choice([("weight_scale", "input_scale"), ("weight_scale_inv", "activation_scale")])
    o = {"kind": "fp8", "scale": "weight_scale_inv" if block else names[0], "scale_shape": None if block else rng.choice([one, of_one]), "block": block,
         "scale_dtype": rng.choice([torch.float32, torch.float32, torch.bfloat16])}
    static = not block and rng.random() < 0.5
    if static:
        o["beside"] = lambda _: {names[1]: torch.tensor(0.02)}
    words = {"quant_method": "fp8", "activation_scheme": "static" if static else "dynamic"} | ({"weight_block_size": list(block), "fmt": "e4m3"} if block else {})
    key = rng.choice(["modules_to_not_convert", "ignored_layers"])
    return made(bytes_of, o, lambda left: words | {key: left})


def draw_fbgemm(rng):
    o = {"kind": "fp8", "scale": "weight_scale", "scale_shape": of_columns}
    return made(bytes_of, o, lambda left: {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0, "modules_to_not_convert": left})


def input_scale(_):
    return {"input_scale": torch.tensor(0.02)}


MODELOPT = {
    "FP8": (bytes_of, {"kind": "fp8", "scale": "weight_scale", "scale_shape": one, "beside": input_scale}),
    "FP8_PER_CHANNEL_PER_TOKEN": (bytes_of, {"kind": "fp8", "scale": "weight_scale", "scale_shape": of_rows}),
    "FP8_PB_WO": (bytes_of, {"kind": "fp8", "scale": "weight_scale", "block": (128, 128), "scale_shape": lambda down, across: (down, 1, across, 1)}),
    "MXFP8": (bytes_of, {"kind": "fp8", "scale": "weight_scale", "block": (1, 32), "scale_shape": None, "scale_dtype": torch.uint8}),
    "NVFP4": (nvfp4, {"modelopt": True, "inputs_whole": False}),
    "W4A16_NVFP4": (nvfp4, {"modelopt": True, "inputs_whole": True}),
}


def draw_modelopt(rng):
    algorithm = rng.choice(sorted(MODELOPT))
    matrix, o = MODELOPT[algorithm]
    producer = {"name": "modelopt", "version": "0.37.0"}
    words = {"quant_algo": algorithm} | ({"group_size": 16} if "NVFP4" in algorithm else {})
    nested = rng.random() < 0.5
    def config(left):
        if nested:
            return {"quant_method": "modelopt", "producer": producer, "quantization": words | {"exclude_modules": left}}
        return {"quant_method": "modelopt", "producer": producer, "ignore": left} | words
    draw, _, config = made(matrix, o, config)
    return draw, words, config


def draw_nvfp4(rng):
    half = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "symmetric": True}
    o = {"modelopt": False, "inputs_whole": rng.random() < 0.4}
    return made(nvfp4, o, lambda left: compressed("nvfp4-pack-quantized", half, None if o["inputs_whole"] else half | {"dynamic": "local"}, left))


def draw_mxfp4(rng):
    half = {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32, "symmetric": True}
    inputs = rng.choice([None, half | {"dynamic": True}])
    return made(mxfp4, {"name": "weight_packed"}, lambda left: compressed("mxfp4-pack-quantized", half | {"scale_dtype": "torch.uint8"}, inputs, left))


CT_PARTS = {  # matrix, options, format, weights, inputs
    "w4a16": (packed, {"bits": 4, "group_size": 32, "sym": True, "actorder": False, "scale_dtype": torch.bfloat16}, "pack-quantized",
              {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}, None),
    "w8a16": (packed, {"bits": 8, "group_size": -1, "sym": False, "actorder": False, "scale_dtype": torch.float16}, "pack-quantized",
              {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": False}, None),
    "fp8": (bytes_of, {"kind": "fp8", "scale": "weight_scale", "scale_shape": lambda out, _: (out, 1), "scale_dtype": torch.bfloat16}, "float-quantized",
            {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True}, {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True}),
    "int8": (bytes_of, {"kind": "int8", "scale": "weight_scale", "scale_shape": lambda out, _: (out, 1)}, "int-quantized",
             {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}, {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True}),
    "nvfp4": (nvfp4, {"modelopt": False, "inputs_whole": False}, "nvfp4-pack-quantized",
              {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "symmetric": True},
              {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "symmetric": True, "dynamic": "local"}),
}


def draw_ct_groups(rng):
    """Schemes of several groups: a whole name goes before patterns, those by their text, the class last (compressed_tensors.utils.match_targets)."""
    kinds = rng.sample(sorted(CT_PARTS), 4)
    patterns = rng.sample(["re:.*self_attn.*", "re:.*(q|o|up|w3)_proj$", "re:model\\.layers\\.1\\..*", "re:.*down_proj", "re:.*mlp.*", "re:mlp.*", "re:layers.*"], 4)
    targets = [["Linear"], patterns[:2], patterns[2:], [f"model.layers.{rng.choice([0, 1])}.{rng.choice(['self_attn.q_proj', 'self_attn.o_proj', 'mlp.down_proj', 'mlp.up_proj'])}"]]
    chosen = list(zip(targets, kinds))
    rng.shuffle(chosen)
    by_target = {target: kind for names, kind in chosen for target in names}
    def of(module):
        found = [t for t in sorted(by_target, key=lambda t: ("re:" in t, t)) if module == t or (t.startswith("re:") and re.match(t[3:], module))]
        return by_target[(found or ["Linear"])[0]]
    def draw(shape, generator, module=""):
        matrix, options, *_ = CT_PARTS[of(module)]
        return matrix(shape, generator, **options)
    def config(left):
        groups = {f"group_{i}": {"targets": names, "format": CT_PARTS[kind][2], "weights": CT_PARTS[kind][3], "input_activations": CT_PARTS[kind][4]} for i, (names, kind) in enumerate(chosen)}
        ignored = [name if i % 2 else "re:.*" + escaped(name.removeprefix("model.")) + "$" for i, name in enumerate(left)]
        return compressed("mixed-precision", {}, None, ignored) | {"config_groups": groups}
    return draw, {str(names): kind for names, kind in chosen}, config


def draw_bitsandbytes(rng):
    o = {"kind": rng.choice(["nf4", "fp4"]), "blocksize": rng.choice([32, 64, 64, 128, 256, 512, 1024, 4096]), "double": rng.random() < 0.6}
    words = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": o["kind"], "bnb_4bit_use_double_quant": o["double"],
             "bnb_4bit_quant_storage": "uint8", "bnb_4bit_compute_dtype": "bfloat16"}
    return made(bitsandbytes, o, lambda left: words | {"llm_int8_skip_modules": left or None})


def quark_zeros(per_row):
    def beside(out):
        return {"weight_zero_point": torch.zeros((out,) if per_row else (), dtype=torch.int8), "input_scale": torch.tensor(0.03), "input_zero_point": torch.tensor(-7, dtype=torch.int8)}
    return beside


QUARK = {  # matrix, options, weight, input_tensors
    "fp8": (bytes_of, {"kind": "fp8", "scale": "weight_scale", "scale_shape": one, "beside": input_scale}, {"dtype": "fp8_e4m3", "qscheme": "per_tensor"},
            {"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_dynamic": False}),
    "fp8 by channel": (bytes_of, {"kind": "fp8", "scale": "weight_scale", "scale_shape": of_rows}, {"dtype": "fp8_e4m3", "qscheme": "per_channel", "ch_axis": 0},
                       {"dtype": "fp8_e4m3", "qscheme": "per_channel", "ch_axis": 1, "is_dynamic": True}),
    "fp8 in blocks": (bytes_of, {"kind": "fp8", "scale": "weight_scale", "scale_shape": None, "block": (128, 128)},
                      {"dtype": "fp8_e4m3", "qscheme": "per_block", "block_size": [128, 128]}, {"dtype": "fp8_e4m3", "qscheme": "per_group", "group_size": 128, "is_dynamic": True}),
    "int8": (bytes_of, {"kind": "int8", "scale": "weight_scale", "scale_shape": one, "beside": quark_zeros(False)}, {"dtype": "int8", "qscheme": "per_tensor", "symmetric": True},
             {"dtype": "int8", "qscheme": "per_tensor", "is_dynamic": False, "symmetric": False}),
    "int8 by channel": (bytes_of, {"kind": "int8", "scale": "weight_scale", "scale_shape": of_rows, "beside": quark_zeros(True)},
                        {"dtype": "int8", "qscheme": "per_channel", "symmetric": True, "ch_axis": 0}, {"dtype": "int8", "qscheme": "per_tensor", "is_dynamic": False, "symmetric": False}),
    "mxfp4": (mxfp4, {"name": "weight"}, {"dtype": "fp4", "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0", "is_dynamic": False},
              {"dtype": "fp4", "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0", "is_dynamic": True}),
    "nvfp4": (nvfp4, {"modelopt": True, "inputs_whole": False, "inputs_name": "input_scale_2"},
              [{"dtype": "fp4", "qscheme": "per_group", "group_size": 16, "is_dynamic": False}, {"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_dynamic": False}],
              [{"dtype": "fp4", "qscheme": "per_group", "group_size": 16, "is_dynamic": True}, {"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_dynamic": False}]),
    "int4": (quark_int4, {}, {"qscheme": "per_group"}, None),
}


def draw_quark(rng):
    kind = rng.choice(sorted(QUARK))
    matrix, o, weight, inputs = QUARK[kind]
    if kind == "mxfp4":
        inputs = rng.choice([inputs, None])
    if kind == "int4":
        o = {"group_size": rng.choice([16, 32, 64]), "sym": rng.random() < 0.5}
        weight = weight | {"dtype": rng.choice(["int4", "uint4"]), "group_size": o["group_size"], "symmetric": o["sym"]}
    entry = {"weight": weight, "input_tensors": inputs, "output_tensors": None, "bias": None}
    draw, _, config = made(matrix, o, lambda left: {"quant_method": "quark", "export": {"weight_format": "real_quantized", "pack_method": "reorder"}, "global_quant_config": entry,
                                                   "layer_quant_config": {}, "layer_type_quant_config": {}, "exclude": left})
    return draw, kind, config


FORMATS = {"gptq": draw_gptq, "gptq_rules": draw_gptq_rules, "ct_groups": draw_ct_groups, "auto_round": draw_auto_round, "awq": draw_awq, "packed": draw_packed, "int8": draw_int8, "fp8_ct": draw_fp8_ct, "fp8_hf": draw_fp8_hf,
           "fbgemm": draw_fbgemm, "modelopt": draw_modelopt, "nvfp4": draw_nvfp4, "mxfp4": draw_mxfp4, "bitsandbytes": draw_bitsandbytes, "quark": draw_quark}
