"""Measurements of tests/bench/gpu that need more than a shell: runs plimsoll on made-up models and prompts, watches the card's
memory by nvidia-smi meanwhile, and writes rows of a table. Standard library alone."""
import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time

from gpu_checkpoint import model_folder, write_checkpoint

GIB = 1 << 30
# Llama-3-8B: what a decode step reads besides KV, and multiply-adds of a token (head included).
PARAMETERS = 8.03e9
EMBEDDED = 128256 * 4096  # parameters of the token table, and of the head
READ_PER_STEP = 2 * (PARAMETERS - EMBEDDED)
KV_PER_TOKEN = 131072
# Bytes per second that a kernel reads, and bf16 products: an H200's as measured; of an H100 nine tenths of the data sheet's 3.35 TB/s, and products
# as an H200's. Other cards are held against an H200.
ROOFS = {"H200": (4.60e12, 796e12), "H100": (3.00e12, 796e12)}
PINNED_PCIE = 55.5e9


def write_prompts(path, count, length, max_tokens, seed=1):
    numbers = random.Random(seed)
    with open(path, "w") as file:
        for i in range(count):
            ids = [numbers.randrange(1000, 120000) for _ in range(length)]
            file.write(json.dumps({"id": str(i), "prompt_token_ids": ids, "max_tokens": max_tokens, "temperature": 0,
                                   "ignore_eos": True}) + "\n")


def card_name():
    return subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader", "-i", "0"], capture_output=True, text=True,
                          check=True).stdout.strip()


def roofs_of(name):
    for kind, roofs in ROOFS.items():
        if kind in name:
            return roofs
    print(f"no roofs of a {name} are known: shares are of an H200's", file=sys.stderr)
    return ROOFS["H200"]


class CardMemory(threading.Thread):
    """The most that nvidia-smi shows as used while it runs, in bytes."""

    def __init__(self, interval):
        super().__init__(daemon=True)
        self.interval = interval
        self.most = 0
        self.stopped = threading.Event()

    @staticmethod
    def read():
        answer = subprocess.run(["nvidia-smi", "--query-gpu=memory.used,memory.total", "--format=csv,noheader,nounits", "-i", "0"],
                                capture_output=True, text=True, check=True).stdout
        used, total = answer.strip().split(",")
        return int(used) << 20, int(total) << 20

    def run(self):
        while not self.stopped.is_set():
            self.most = max(self.most, self.read()[0])
            self.stopped.wait(self.interval)

    def finish(self):
        self.stopped.set()
        self.join()
        return self.most


class Hog:
    """A process that holds so many bytes of the card."""

    def __init__(self, size):
        program = (f"import torch, time\nx = torch.empty({size}, dtype=torch.uint8, device='cuda')\n"
                   "print('held', flush=True)\ntime.sleep(400)\n")
        self.process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        self.holds = self.process.stdout.readline().strip() == "held"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class Session:
    def __init__(self, options):
        self.options = options
        self.failed = False
        self.began = time.time()
        self.card = card_name()
        self.read_rate, self.peak = roofs_of(self.card)

    def left(self):
        return max(1.0, self.options.seconds - (time.time() - self.began))

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

    def run(self, name, arguments, prompts, watch=5.0):
        """(report, peak bytes on the card, bytes there before, seconds, exit status); memory is looked at every `watch` seconds"""
        report = os.path.join(self.options.work, name + ".report.json")
        if os.path.exists(report):
            os.remove(report)
        output = os.path.join(self.options.work, name + ".out.jsonl")
        command = [self.options.program, "run", model_folder(self.options.work), "-i", prompts, "-o", output, "--overwrite",
                   "--skip-tokenizer-init", "--generation-config", "vllm", "--device", "cuda", "--report", report,
                   "--progress", "none"] + arguments
        before, _ = CardMemory.read()
        card = CardMemory(watch)
        card.start()
        start = time.time()
        ours = dict(os.environ, LD_LIBRARY_PATH=self.options.libraries)
        try:
            ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=self.left(), check=False, env=ours)
            status, said = ended.returncode, ended.stderr
        except subprocess.TimeoutExpired as late:
            status, said = "no time left", (late.stderr or b"").decode(errors="replace")
        seconds = time.time() - start
        peak = card.finish()
        # What was chosen and what is slow stands there, too.
        print(f"-- {name}: {' '.join(arguments)}\n{said[-3000:]}", file=sys.stderr, flush=True)
        content = {}
        if os.path.exists(report):
            with open(report) as file:
                content = json.load(file)
        return content, peak, before, seconds, status

    @staticmethod
    def most_rows(length):
        """Sequences of so many tokens that find room beside the model, with 6 GiB for steps and all else."""
        _, total = CardMemory.read()
        return int((0.9 * total - 2 * PARAMETERS - 6 * GIB) // (length * KV_PER_TOKEN))

    def step_roof(self, rows, length):
        """Seconds of a decode step at best (weights and KV read one after the other)."""
        weights = max(READ_PER_STEP / self.read_rate, 2 * PARAMETERS * rows / self.peak)
        return weights + rows * length * KV_PER_TOKEN / self.read_rate

    # ---- memory: never over the line ----

    def check_line(self, name, utilization, arguments, prompts):
        report, peak, _, _, status = self.run(name, ["--load-format", "dummy", "--gpu-memory-utilization", str(utilization)]
                                              + arguments, prompts, watch=0.1)
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
        """Beside a process that holds a part of the card: launches that fit beside it, take what is left, and must be refused."""
        prompts = os.path.join(self.options.work, "hog.jsonl")
        write_prompts(prompts, 4, 1000, 8)
        _, total = CardMemory.read()
        for taken, utilization, wanted in ((0.3 * total, 0.6, 0), (0.3 * total, 0.95, 0), (total - 12 * GIB, 0.95, 6)):
            what = f"beside a hog of {taken / GIB:.0f} GiB, utilization {utilization}"
            with Hog(int(taken)) as hog:
                if not hog.holds:
                    self.row(what, "the hog did not start (it wants PyTorch)", "", False)
                    continue
                _, peak, before, _, status = self.run(f"hog-{utilization}", ["--load-format", "dummy", "--max-model-len", "32768",
                                                      "--gpu-memory-utilization", str(utilization)], prompts, watch=0.1)
            own = peak - before
            self.row(what, f"{own / GIB:.1f} GiB more, status {status}", f"status {wanted}, at most {utilization * total / GIB:.1f} GiB",
                     status == wanted and own <= utilization * total)

    # ---- speed ----

    def decode(self):
        """By two runs of unequal length: what the longer one takes more is of steps that decode alone."""
        steps, fewer = 256, 128  # more than the steps that prompts take, or the first would have ended before the last begins
        for rows, target in ((1, 0.86), (64, 0.8), (256, 0.8), (512, 0.8)):
            # All at once, or it would be steps of fewer rows.
            context = min(1024, self.most_rows(1) // rows - steps - 64) // 16 * 16
            what = f"decode, batch {rows}, context {context}"
            if context < 64:
                self.row(what, "no room for it on this card", "", None)
                continue
            seconds = []
            for count in (fewer, steps):
                prompts = os.path.join(self.options.work, f"decode{rows}-{count}.jsonl")
                write_prompts(prompts, rows, context, count)
                report, _, _, _, status = self.run(f"decode{rows}", ["--load-format", "dummy", "--max-model-len", "4096",
                                                                      "--max-num-seqs", str(max(rows, 8)),
                                                                      "--no-enable-prefix-caching"], prompts)
                if status != 0:
                    break
                if report["engine"]["peak_running"] != rows or report["engine"]["preemptions"] != 0:
                    status = f"{report['engine']['peak_running']} ran at once, {report['engine']['preemptions']} preemptions"
                    break
                seconds.append(report["seconds"]["decode_steps"])
            if len(seconds) < 2 or seconds[1] <= seconds[0]:
                self.row(what, f"status {status}", "", False)
                continue
            step = (seconds[1] - seconds[0]) / (steps - fewer)
            roof = self.step_roof(rows, context + (steps + fewer) / 2)
            self.row(what, f"{rows / step:.0f} tok/s, {1e3 * step:.2f} ms a step, {100 * roof / step:.0f} % of the roof",
                     f"{100 * target:.0f} %", roof / step >= target)

    def prefill(self):
        for count, length in ((8, 8192), (2, 32768)):
            prompts = os.path.join(self.options.work, f"prefill{length}.jsonl")
            write_prompts(prompts, count, length, 1)
            report, _, _, _, status = self.run("prefill", ["--load-format", "dummy", "--max-model-len", str(2 * length),
                                                           "--max-num-batched-tokens", "8192", "--no-enable-prefix-caching"],
                                               prompts)
            what = f"prefill, {count} prompts of {length}"
            seconds = report.get("seconds", {}).get("prefill_steps")
            if status != 0 or not seconds:
                self.row(what, f"status {status}", "", False)
                continue
            products = 2 * (PARAMETERS - 2 * EMBEDDED) * length
            attention = 32 * 4 * 32 * 128 * length * length / 2
            rate = count * (products + attention) / seconds
            self.row(what, f"{count * length / seconds:.0f} tok/s, {rate / 1e12:.0f} TFLOP/s, "
                     f"{100 * rate / self.peak:.0f} % of the peak of products", "80 %", rate / self.peak >= 0.8)

    def batch(self):
        for count, length, answer in ((1000, 512, 256), (1000, 1000, 1000)):
            self.batch_of(count, length, answer)
        self.beside_transformers(512, 256)

    def batch_of(self, count, length, answer):
        prompts = os.path.join(self.options.work, f"batch{length}.jsonl")
        write_prompts(prompts, count, length, answer)
        report, _, _, _, status = self.run("batch", ["--load-format", "dummy", "--max-model-len", "4096", "--max-num-seqs",
                                                     "1024", "--no-enable-prefix-caching"], prompts)
        what = f"{count} prompts of {length} tokens and {answer} answered"
        seconds = report.get("seconds", {}).get("run")
        if status != 0 or not seconds:
            return self.row(what, f"status {status}", "", False)
        mean = length + answer / 2
        rows = min(count, 1024, self.most_rows(mean))
        roof = count / rows * answer * self.step_roof(rows, mean) + 2 * PARAMETERS * count * length / self.peak
        return self.row(what, f"{count * answer / seconds:.0f} tok/s, {seconds:.1f} s, at most {report['engine']['peak_running']} at once, "
                        f"{report['engine']['preemptions']} preemptions, {100 * roof / seconds:.0f} % of the roof", "80 %",
                        roof / seconds >= 0.8)

    def beside_transformers(self, length, answer):
        """A quarter of the prompts is enough to tell its speed."""
        command = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "beside_transformers"),
                   os.path.join(model_folder(self.options.work), "config.json"), "--prompts", "256", "--length", str(length),
                   "--answer", str(answer), "--batch", "128"]
        what = f"transformers, batches of 128 prompts of {length} tokens and {answer} answered"
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=self.left(), check=True)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            print(error, str(error.stderr)[-2000:], file=sys.stderr)
            return self.row(what, "did not run", "", None)
        found = json.loads(ended.stdout.strip().splitlines()[-1])
        return self.row(what, f"{found['tokens_per_second']:.0f} tok/s", f"transformers {found['transformers']}, torch {found['torch']}",
                        None)

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
            self.row(f"load of 16 GB, {attempt}", f"{loading:.2f} s, {rate / 1e9:.1f} GB/s, {100 * rate / PINNED_PCIE:.0f} % of pinned "
                     f"PCIe; start to end {seconds:.2f} s", "40 %, first token under 3 s", rate >= 0.4 * PINNED_PCIE and seconds < 3)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["memory", "hog", "decode", "prefill", "batch", "load"])
    parser.add_argument("--program", required=True)
    parser.add_argument("--libraries", default="", help="where the program's libraries are")
    parser.add_argument("--work", required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--seconds", type=float, default=540, help="until it must have ended")
    options = parser.parse_args()
    session = Session(options)
    getattr(session, options.part)()
    sys.exit(1 if session.failed else 0)


if __name__ == "__main__":
    main()
