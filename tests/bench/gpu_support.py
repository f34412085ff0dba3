"""Measurements of tests/bench/gpu that need more than a shell: runs plimsoll on made-up models and prompts, watches the card's
memory by nvidia-smi meanwhile, and writes rows of a table. Standard library alone."""
import argparse
import json
import os
import random
import struct
import subprocess
import sys
import threading
import time

GIB = 1 << 30
LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "hidden_act": "silu",
    "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256, "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": False, "bos_token_id": 128000,
    "eos_token_id": 128001,
}
# Llama-3-8B: what a decode step reads besides KV, and multiply-adds of a token (head included).
PARAMETERS = 8.03e9
READ_PER_STEP = 2 * (PARAMETERS - 128256 * 4096)
KV_PER_TOKEN = 131072
READ_RATE = 4.60e12  # measured on an H200
PEAK = 796e12        # bf16 products, measured on an H200


def model_folder(work):
    folder = os.path.join(work, "llama-8b")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(LLAMA_8B, file)
    return folder


def write_prompts(path, count, length, max_tokens, seed=1):
    numbers = random.Random(seed)
    with open(path, "w") as file:
        for i in range(count):
            ids = [numbers.randrange(1000, 120000) for _ in range(length)]
            file.write(json.dumps({"id": str(i), "prompt_token_ids": ids, "max_tokens": max_tokens, "temperature": 0,
                                   "ignore_eos": True}) + "\n")


class CardMemory(threading.Thread):
    """The most that nvidia-smi shows as used while it runs, in bytes."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most = 0
        self.total = 0
        self.stopped = threading.Event()

    @staticmethod
    def read():
        answer = subprocess.run(["nvidia-smi", "--query-gpu=memory.used,memory.total", "--format=csv,noheader,nounits", "-i", "0"],
                                capture_output=True, text=True, check=True).stdout
        used, total = answer.strip().split(",")
        return int(used) << 20, int(total) << 20

    def run(self):
        while not self.stopped.is_set():
            used, self.total = self.read()
            self.most = max(self.most, used)
            self.stopped.wait(0.1)

    def finish(self):
        self.stopped.set()
        self.join()
        return self.most


class Session:
    def __init__(self, options):
        self.options = options
        self.failed = False

    def row(self, what, figure, target, good):
        mark = "" if good is None else ("yes" if good else "**no**")
        line = f"| {what} | {figure} | {target} | {mark} |"
        print(line, flush=True)
        new = not os.path.exists(self.options.table)
        with open(self.options.table, "a") as file:
            if new:
                file.write("| what | measured | target | reached |\n|---|---|---|---|\n")
            file.write(line + "\n")
        self.failed |= good is False

    def run(self, name, arguments, prompts, timeout=540):
        """(report, peak bytes on the card, bytes there before, seconds, exit status)"""
        report = os.path.join(self.options.work, name + ".report.json")
        if os.path.exists(report):
            os.remove(report)
        output = os.path.join(self.options.work, name + ".out.jsonl")
        command = [self.options.program, "run", model_folder(self.options.work), "-i", prompts, "-o", output, "--overwrite",
                   "--skip-tokenizer-init", "--generation-config", "vllm", "--device", "cuda", "--report", report,
                   "--progress", "none"] + arguments
        before, _ = CardMemory.read()
        card = CardMemory()
        card.start()
        start = time.time()
        ours = dict(os.environ, LD_LIBRARY_PATH=self.options.libraries)
        ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=timeout, check=False, env=ours)
        seconds = time.time() - start
        peak = card.finish()
        if ended.returncode != 0:
            print(ended.stderr[-2000:], file=sys.stderr)
        content = {}
        if os.path.exists(report):
            with open(report) as file:
                content = json.load(file)
        return content, peak, before, seconds, ended.returncode

    # ---- memory: never over the line ----

    def check_line(self, name, utilization, arguments, prompts):
        report, peak, _, _, status = self.run(name, ["--load-format", "dummy", "--gpu-memory-utilization", str(utilization)]
                                              + arguments, prompts)
        _, total = CardMemory.read()
        line = utilization * total
        self.row(f"peak memory, {name}", f"{peak / GIB:.2f} GiB of {line / GIB:.2f} (status {status})", "under the line",
                 status == 0 and peak <= line)
        slack = line - peak
        most = max(0.01 * total, 256 << 20)
        self.row(f"left under the line, {name}", f"{slack / (1 << 20):.0f} MiB", f"< {most / (1 << 20):.0f} MiB",
                 status == 0 and 0 <= slack <= most)
        return report

    def memory(self):
        prompts = os.path.join(self.options.work, "memory.jsonl")
        write_prompts(prompts, 24, 3000, 16)
        for utilization in (0.7, 0.95):
            for context in (32768, 131072):
                self.check_line(f"utilization {utilization}, context {context}", utilization,
                                ["--max-model-len", str(context)], prompts)
        self.check_line("utilization 0.9, 1,024 sequences, batch 8192", 0.9,
                        ["--max-model-len", "32768", "--max-num-seqs", "1024", "--max-num-batched-tokens", "8192"], prompts)
        self.check_line("utilization 0.9, eager", 0.9, ["--max-model-len", "32768", "--enforce-eager"], prompts)

    def hog(self):
        """Beside a process that holds a part of the card: a launch that fits beside it, and one that must be refused."""
        prompts = os.path.join(self.options.work, "hog.jsonl")
        write_prompts(prompts, 4, 1000, 8)
        program = ("import torch, time\nx = torch.empty(40 << 30, dtype=torch.uint8, device='cuda')\n"
                   "print('held', flush=True)\ntime.sleep(400)\n")
        held = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        try:
            held.stdout.readline()
            base = ["--load-format", "dummy", "--max-model-len", "32768"]
            _, peak, before, _, status = self.run("hog-fits", base + ["--gpu-memory-utilization", "0.6"], prompts)
            _, total = CardMemory.read()
            self.row("beside a hog of 40 GiB, utilization 0.6", f"{(peak - before) / GIB:.1f} GiB more, status {status}",
                     f"at most {0.6 * total / GIB:.1f} GiB of its own", status == 0 and peak - before <= 0.6 * total)
            _, peak, before, _, status = self.run("hog-refused", base + ["--gpu-memory-utilization", "0.95"], prompts)
            self.row("beside a hog of 40 GiB, utilization 0.95", f"status {status}", "6, and no out-of-memory", status == 6)
        finally:
            held.kill()
            held.wait()

    # ---- speed ----

    def decode(self):
        """By two runs of unequal length: what the longer one takes more is of steps that decode alone."""
        context, steps, fewer = 1024, 192, 64
        for rows in (1, 64, 256, 512):
            seconds = []
            for count in (fewer, steps):
                prompts = os.path.join(self.options.work, f"decode{rows}-{count}.jsonl")
                write_prompts(prompts, rows, context, count)
                report, _, _, _, status = self.run(f"decode{rows}", ["--load-format", "dummy", "--max-model-len", "4096",
                                                                      "--max-num-seqs", str(max(rows, 8)),
                                                                      "--no-enable-prefix-caching"], prompts)
                if status != 0:
                    break
                seconds.append(report["seconds"]["decode_steps"])
            if len(seconds) < 2 or seconds[1] <= seconds[0]:
                self.row(f"decode, batch {rows}", f"status {status}", "", False)
                continue
            step = (seconds[1] - seconds[0]) / (steps - fewer)
            length = context + (steps + fewer) / 2
            roof = max(READ_PER_STEP / READ_RATE, 2 * PARAMETERS * rows / PEAK) + rows * length * KV_PER_TOKEN / READ_RATE
            self.row(f"decode, batch {rows}, context 1k", f"{rows / step:.0f} tok/s, {1e3 * step:.2f} ms a step, "
                     f"{100 * roof / step:.0f} % of the roof", "75 %", roof / step >= 0.75)

    def prefill(self):
        length = 8192
        prompts = os.path.join(self.options.work, "prefill.jsonl")
        write_prompts(prompts, 8, length, 1)
        report, _, _, _, status = self.run("prefill", ["--load-format", "dummy", "--max-model-len", "16384",
                                                       "--max-num-batched-tokens", "8192", "--no-enable-prefix-caching"],
                                           prompts)
        seconds = report.get("seconds", {}).get("prefill_steps")
        if status != 0 or not seconds:
            return self.row("prefill of 8k", f"status {status}", "", False)
        products = 2 * (PARAMETERS - 2 * 128256 * 4096) * length
        attention = 32 * 4 * 32 * 128 * length * length / 2
        rate = 8 * (products + attention) / seconds
        self.row("prefill, 8 prompts of 8k", f"{8 * length / seconds:.0f} tok/s, {rate / 1e12:.0f} TFLOP/s, "
                 f"{100 * rate / PEAK:.0f} % of the peak of products", "70 %", rate / PEAK >= 0.7)

    def batch(self):
        prompts = os.path.join(self.options.work, "batch.jsonl")
        count, length, answer = 1000, 512, 256
        write_prompts(prompts, count, length, answer)
        report, _, _, _, status = self.run("batch", ["--load-format", "dummy", "--max-model-len", "4096", "--max-num-seqs",
                                                     "1024", "--no-enable-prefix-caching"], prompts)
        seconds = report.get("seconds", {}).get("run")
        if status != 0 or not seconds:
            return self.row("1,000 prompts of 512 and 256", f"status {status}", "", False)
        kv = count * answer * (length + answer / 2) * KV_PER_TOKEN / READ_RATE
        steps = answer * max(READ_PER_STEP / READ_RATE, 2 * PARAMETERS * count / PEAK)
        roof = kv + steps + 2 * PARAMETERS * count * length / PEAK
        self.row("1,000 prompts of 512 tokens and 256 answered", f"{count * answer / seconds:.0f} tok/s, {seconds:.1f} s, "
                 f"{100 * roof / seconds:.0f} % of the roof", "", None)

    def load(self):
        """A real checkpoint of 16 GB from the page cache, to the first token."""
        folder = model_folder(self.options.work)
        write_checkpoint(folder)
        prompts = os.path.join(self.options.work, "load.jsonl")
        write_prompts(prompts, 1, 16, 1)
        for attempt in ("cold or warm", "warm"):
            report, _, _, seconds, status = self.run("load", ["--max-model-len", "4096"], prompts)
            loading = report.get("seconds", {}).get("load")
            if status != 0 or not loading:
                self.row("load of 16 GB", f"status {status}", "", False)
                continue
            rate = 2 * PARAMETERS / loading
            self.row(f"load of 16 GB, {attempt}", f"{loading:.2f} s, {rate / 1e9:.1f} GB/s, {100 * rate / 55.5e9:.0f} % of pinned "
                     f"PCIe; start to end {seconds:.2f} s", "40 %, first token under 3 s", rate >= 0.4 * 55.5e9 and seconds < 3)


def tensors():
    c = LLAMA_8B
    hidden, inner, kv = c["hidden_size"], c["intermediate_size"], c["num_key_value_heads"] * c["head_dim"]
    yield "model.embed_tokens.weight", [c["vocab_size"], hidden]
    for i in range(c["num_hidden_layers"]):
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
    yield "lm_head.weight", [c["vocab_size"], hidden]


def write_checkpoint(folder):
    """Four shards of small random numbers; the same megabyte over and over, which costs no time to make."""
    if os.path.exists(os.path.join(folder, "model.safetensors.index.json")):
        return
    numbers = random.Random(7)
    # bf16 between 2^-9 and 2^-5 in size, of both signs.
    pattern = b"".join(struct.pack("<H", numbers.choice((0, 0x8000)) | numbers.randrange(0x3B00, 0x3D00))
                       for _ in range(1 << 19))
    shards, index = [[] for _ in range(4)], {}
    for i, item in enumerate(tensors()):
        shards[i * 4 // 291].append(item)
    for number, items in enumerate(shards):
        name = f"model-{number + 1:05d}-of-00004.safetensors"
        header, offset = {}, 0
        for tensor, shape in items:
            size = 2
            for n in shape:
                size *= n
            header[tensor] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
            index[tensor] = name
            offset += size
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(os.path.join(folder, name), "wb", buffering=0) as file:
            file.write(struct.pack("<Q", len(text)) + text)
            left = offset
            while left > 0:
                left -= file.write(pattern[:min(left, len(pattern))])
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {}, "weight_map": index}, file)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["memory", "hog", "decode", "prefill", "batch", "load"])
    parser.add_argument("--program", required=True)
    parser.add_argument("--libraries", default="", help="where the program's libraries are")
    parser.add_argument("--work", required=True)
    parser.add_argument("--table", required=True)
    options = parser.parse_args()
    session = Session(options)
    getattr(session, options.part)()
    sys.exit(1 if session.failed else 0)


if __name__ == "__main__":
    main()
