"""Small random models of changed configs, what `plimsoll run` answers of them, and the tally of outcomes: what the programs beside share."""
import collections, copy, json, math, os, random, re, shutil, subprocess, sys, tempfile
import torch
from safetensors.torch import load_file, save_file

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/plimsoll")
# Keys that say nothing of what is compared.
IDLE = ("use_cache", "return_dict", "output_", "is_", "torchscript", "add_cross", "tf_", "use_bfloat16", "architectures", "model_type",
        "dtype", "version", "init", "drop", "_token", "token_id", "time_step")
SIZES = ("size", "vocab", "layers", "heads", "dim", "embd")
TOLERANCE = 3e-3  # of a log probability, and 2 % of that of its size: right ones stay under 1e-4; deep sums of Mamba-2 reach 1e-2


# ---- changes: each returns what it did, or finds nothing to change (IndexError, KeyError, TypeError) ----

def is_idle(key):
    return any(word in key for word in IDLE)


def keys_of(config, kind, *words):
    found = [k for k, v in config.items() if type(v) is kind and not is_idle(k)]
    return [k for k in found if any(w in k for w in words)] if words else found


def first_key(config, *names):
    return next((n for n in names if n in config), None)


def hidden_key(config):
    return first_key(config, "hidden_size", "n_embd", "d_model")


def change_heads(config, rng, choices):
    """Heads and those of keys and values; heads keep their size."""
    heads = first_key(config, "num_attention_heads", "n_head", "n_heads")
    groups = first_key(config, "num_key_value_heads", "num_kv_heads")
    count, shared = rng.choice(choices)
    if "head_dim" not in config:
        config[hidden_key(config)] = config[hidden_key(config)] // config[heads] * count
    config[heads] = count
    if groups and isinstance(config[groups], int):
        config[groups] = shared
    return heads, count, shared


def change_number(config, rng, kind, words, choices):
    key = rng.choice(keys_of(config, kind, *words))
    config[key] = rng.choice(choices(config[key]))
    return key, config[key]


def leave_out(config, rng):
    key = rng.choice([k for k in config if not is_idle(k) and not any(w in k for w in SIZES)])
    return "without", key, config.pop(key)


def without_each(config):
    """The config without one of its keys, for each of them, and what was left out."""
    for key in [k for k in config if not is_idle(k)]:
        yield {k: v for k, v in config.items() if k != key}, [("without", key, config[key])]


def changed(config, seed, name, changes, most):
    """The config after up to `most` changes (seed 0: none), and what they were."""
    rng, made = random.Random(f"{name} {seed}"), []
    config = copy.deepcopy(config)
    for _ in range(rng.randint(1, most) if seed else 0):
        try:
            made.append(rng.choice(changes)(config, rng))
        except (IndexError, KeyError, TypeError):
            pass  # it has nothing of the kind
    return config, made


# ---- models and their answers ----

def write_json(folder, config, name="config.json"):
    with open(os.path.join(folder, name), "w") as file:
        json.dump(config, file, indent=1)


def attention_of(config):
    """Eager attention of 5.23 adds Falcon's ALiBi twice."""
    return "sdpa" if config.get("model_type") == "falcon" else "eager"


def draw_weights(model):
    """So large that a wrong rule shows, so small that nothing saturates."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            if "dt_bias" in name:  # transformers clamps small steps in prefill alone
                weight.copy_(1 + 2 * torch.rand(weight.shape, generator=generator))
            elif weight.dim() < 2 or "conv" in name or "A_log" in name or weight.shape[-1] == 1:
                weight.add_(0.15 * noise)
            elif "embed" in name or "wte" in name:
                weight.copy_(noise)
            else:
                weight.copy_(1.6 / math.sqrt(min(weight.shape[-2:]) if weight.dim() > 2 else weight.shape[-1]) * noise)
        for name, buffer in model.named_buffers():
            if name.endswith(("correction_bias", "expert_bias")):
                buffer.copy_(0.1 * torch.randn(buffer.shape, generator=generator))
    model.tie_weights()


def as_published(tensors, config):
    """Of tensors that transformers 5.23 saves otherwise than published checkpoints have them: kimi_linear's dense layers under the experts' name,
    longcat_flash's experts that compute nothing, olmo_hybrid's norms under older names and its convolutions in equal thirds."""
    if config.model_type == "kimi_linear":
        return {re.sub(r"block_sparse_moe\.((gate|up|down)_proj)", r"mlp.\1", name): tensor for name, tensor in tensors.items()}
    if config.model_type == "longcat_flash":
        return {name: tensor for name, tensor in tensors.items() if int((re.findall(r"experts\.(\d+)\.", name) or [0])[0]) < config.n_routed_experts}
    if config.model_type == "olmo_hybrid":
        for old, new in (("attention_layer_norm", "input_layernorm"), ("feedforward_layer_norm", "post_attention_layernorm")):
            tensors = {name.replace(old, new): tensor for name, tensor in tensors.items()}
        keys = config.linear_num_key_heads * config.linear_key_head_dim
        for base in [name.removesuffix("q_conv1d.weight") for name in tensors if name.endswith("q_conv1d.weight")]:
            names = [f"{base}{kind}_conv1d.weight" for kind in "qkv"]
            whole = torch.cat([tensors[name] for name in names])
            tensors |= {name: part.contiguous() for name, part in zip(names, whole.split([keys, keys, len(whole) - 2 * keys]))}
    return tensors


def save_checkpoint(model, folder):
    """The model as it would be published, config.json too; answers are to be greedy whatever the class would have."""
    model.save_pretrained(folder)
    path = os.path.join(folder, "model.safetensors")
    if model.config.model_type in ("kimi_linear", "longcat_flash", "olmo_hybrid"):
        save_file(as_published(load_file(path), model.config), path)
    generation = os.path.join(folder, "generation_config.json")
    if os.path.exists(generation):
        os.remove(generation)


def draw_ids(rng, vocabulary):
    return [[rng.randrange(3, vocabulary) for _ in range(length)] for length in (5, 33, 70)]


def told_by(logits, ids):
    """Log probabilities of the tokens after the first; [tokens, vocabulary] of logits."""
    found = torch.log_softmax(logits.double(), -1)
    told = [found[i, token].item() for i, token in enumerate(ids[1:])]
    if any(math.isnan(p) for p in told):
        raise ValueError("not a number")
    return told


def ask_transformers(model, prompts):
    with torch.no_grad():
        return [told_by(model(torch.tensor([ids]), use_cache=False).logits[0], ids) for ids in prompts]


def ask_plimsoll(program, folder, requests, flags, dtype="float32"):
    """The answers' lines, or None; the status; what it said last."""
    lines = os.path.join(folder, "in.jsonl")
    with open(lines, "w") as file:
        for request in requests:
            file.write(json.dumps({"max_tokens": 1, "temperature": 0, "prompt_logprobs": 0} | request) + "\n")
    with tempfile.TemporaryDirectory() as other:
        answers = os.path.join(other, "out.jsonl")
        run = subprocess.run([program, "run", folder, "-i", lines, "-o", answers, "--dtype", dtype, *flags], capture_output=True, text=True, timeout=600)
        if run.returncode not in (0, 3):
            return None, run.returncode, run.stderr.strip().split("\n")[-1]
        return [json.loads(line) for line in open(answers)], run.returncode, ""


def told_in(choice):
    """An answer's log probabilities of its prompt."""
    return [next(iter(token.values()))["logprob"] for token in choice["prompt_logprobs"][1:]]


def compare_answers(prompts, expected, asked):
    """An outcome, and words: of log probabilities and of what ask_plimsoll found."""
    found, status, said = asked
    if found is None:
        return ("refused" if status in (2, 5, 6) else "ENDED"), f"{status}: {said[:250]}"
    errors = []
    for ids, probabilities, line in zip(prompts, expected, found, strict=True):
        if line["error"]:
            return "DIFFERS", line["error"]["message"][:200]
        choice = line["choices"][0]
        if choice.get("prompt_token_ids", ids) != ids:
            return "DIFFERS", f"ids: {len(ids)} and {len(choice['prompt_token_ids'])}"
        told = told_in(choice)
        errors += [abs(a - b) / (1 + 0.02 * abs(a)) for a, b in zip(probabilities, told, strict=True)]
    wrong = sum(error > TOLERANCE for error in errors)
    # A token or few, in a mixture: scores of experts that are equal but for rounding.
    return ("DIFFERS", f"{max(errors):.1e}, {wrong} of {len(errors)} tokens") if wrong else ("equal", f"{max(errors):.1e}")


# ---- outcomes: "equal", "refused" and "skipped" (the reference cannot build it) are fine; words in capitals are findings ----

class Outcomes:
    def __init__(self, keep=None, quiet=()):
        self.counts, self.keep, self.quiet = collections.Counter(), keep, quiet

    def add(self, outcome, *words):
        self.counts[outcome] += 1
        if outcome not in self.quiet:
            print(outcome, *words, flush=True)

    def attempt(self, compare, name, seed):
        """Adds what `compare(folder)` returns, in a folder that is kept where that is a finding."""
        with tempfile.TemporaryDirectory() as folder:
            outcome, words, of = compare(folder)
            if self.keep and outcome.isupper():
                shutil.copytree(folder, os.path.join(self.keep, f"{name}-{seed}"), dirs_exist_ok=True)
        self.add(outcome, name, seed, words, *of)

    def end(self):
        print(", ".join(f"{count} {outcome}" for outcome, count in sorted(self.counts.items())))
        sys.exit(1 if any(outcome.isupper() for outcome in self.counts) else 0)
