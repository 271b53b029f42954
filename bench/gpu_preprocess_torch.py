#!/usr/bin/env python3
"""Preprocess of NV12 frames on an NVIDIA GPU by PyTorch's operators, one after the other and through
torch.compile: what `tests/check/tachy_check --cuda --bench preprocess` is compared with in one run.

    bench/gpu_preprocess_torch.py [--json FILE] [--seconds 40] [--no-compile]
    bench/gpu_preprocess_torch.py --device cpu --scale 8        a rehearsal: small pictures, no GPU

The chain: planes to float16, each to the tensor's size by torch.nn.functional.interpolate(mode="area"),
BT.709 limited range to R'G'B', clamp, (v - mean) / std; NCHW float16. Frames are noise, more of them in
turn than the L2 holds; the median of 11 passes over all of them, by CUDA events. Rows of each case: eager one
frame a call, eager 8, compiled 8.

Compiled cases have a process each, since a second shape in one process makes PyTorch compile for free sizes, which
its area resize cannot do, and since a case that fails spoils its process. Compiled for 4K, pictures of one channel end
in an illegal address (PyTorch 2.11), so there they are the channels of one picture, which is slower otherwise. All
processes load PyTorch and compile at once, and then measure one after the other. What is not done `--seconds` after the
start is reported as such."""
import argparse
import json
import subprocess
import sys
import threading
import time

CASES = [  # name, width, height, eyes, side, frames in memory, compiled with pictures as channels
    ("8K nv12 -> 2 x 1024 f16", 7680, 3840, 2, 1024, 16, False),
    ("4K nv12 -> 512 f16", 3840, 2160, 1, 512, 32, True),
]
MATRIX = [[1.164384, 0.0, 1.792741], [1.164384, -0.213249, -0.532909], [1.164384, 2.112402, 0.0]]
EAGER, COMPILED = "torch", "torch.compile"


def work(version, cases, device, scale):
    """Loads PyTorch, compiles, says so, waits for a line, measures the cases (number and batch), prints a line of JSON for
    each."""
    import torch
    import torch.nn.functional as F

    def preprocess(frames, width, height, eyes, side, as_channels, matrix, mean, std):
        """(n, height * 3 / 2, width) bytes to (n * eyes, 3, side, side), eye after eye of each frame."""
        n = frames.shape[0]
        luma = frames[:, :height].reshape(n, height, eyes, width // eyes).permute(0, 2, 1, 3)
        chroma = frames[:, height:].reshape(n, height // 2, eyes, width // eyes // 2, 2).permute(0, 2, 4, 1, 3)
        each = 1 if as_channels else n * eyes
        luma = luma.reshape(each, -1, height, width // eyes).half()
        chroma = chroma.reshape(each, -1, height // 2, width // eyes // 2).half()
        luma = F.interpolate(luma, size=(side, side), mode="area").reshape(n * eyes, 1, side, side)
        chroma = F.interpolate(chroma, size=(side, side), mode="area").reshape(n * eyes, 2, side, side)
        yuv = torch.cat([(luma - 16) / 255, (chroma - 128) / 255], 1)
        rgb = torch.einsum("ck,nkhw->nchw", matrix, yuv).clamp(0, 1)
        return (rgb - mean) / std

    def seconds(call, batches):
        """Median time of a batch."""
        times = []
        for _ in range(14):
            if device == "cpu":
                start = time.perf_counter()
                for b in batches:
                    call(b)
                times.append((time.perf_counter() - start) / len(batches))
                continue
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for b in batches:
                call(b)
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) * 1e-3 / len(batches))
        return sorted(times[3:])[5]

    def copy_rate():
        a = torch.empty((1 << 30) // scale // scale, dtype=torch.uint8, device=device)
        b = torch.empty_like(a)
        return 2 * a.numel() / seconds(b.copy_, [a])

    constants = [torch.tensor(v, device=device).half() for v in (MATRIX, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    constants[1:] = [v.view(1, 3, 1, 1) for v in constants[1:]]
    f = preprocess if version == EAGER else torch.compile(preprocess, dynamic=False)

    def case(i, batch):
        name, width, height, eyes, side, pool, channels = CASES[i]
        channels = channels and version == COMPILED
        width, height, side = width // scale, height // scale, side // scale
        frames = torch.randint(0, 256, (pool, height * 3 // 2, width), dtype=torch.uint8, device=device)
        moved = batch * (frames[0].numel() + eyes * 3 * side * side * 2)
        return name, moved, list(frames.split(batch)), lambda b: f(b, width, height, eyes, side, channels, *constants)

    with torch.no_grad():
        start = time.perf_counter()
        if version == COMPILED:
            _, _, batches, call = case(*cases[0])
            call(batches[0])
        first = time.perf_counter() - start
        print(json.dumps({"torch": torch.__version__}), flush=True)
        sys.stdin.readline()
        rate = copy_rate()
        gpu = torch.cuda.get_device_name() if device == "cuda" else "none"
        for i, batch in cases:
            name, moved, batches, call = case(i, batch)
            t = seconds(call, batches)
            print(json.dumps({"version": version, "case": f"{batch} x {name}", "us": t * 1e6, "bytes": moved,
                              "share_of_copy": moved / t / rate, "copy_bytes_per_s": rate, "compile_s": first,
                              "gpu": gpu}), flush=True)


class Worker:
    """A process of this script and the rows that are expected of it, each in its turn."""

    def __init__(self, version, cases, a):
        self.version, self.cases = version, cases
        self.log, self.hello = [], {}
        self.p = subprocess.Popen(
            [sys.executable, __file__, "--work", json.dumps([version, cases, a.device, a.scale])], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.reader = threading.Thread(target=lambda: self.log.extend(self.p.stderr), daemon=True)
        self.reader.start()

    def ready(self, deadline):
        """Returns when it has compiled, failed, or is late."""
        timer = threading.Timer(max(deadline - time.monotonic(), 0), self.p.kill)
        timer.start()
        self.hello = json.loads(self.p.stdout.readline() or "{}")
        timer.cancel()

    def rows(self, deadline):
        timer = threading.Timer(max(deadline - time.monotonic(), 0), self.p.kill)
        timer.start()
        got = []
        try:
            self.p.stdin.write("go\n")
            self.p.stdin.flush()
            for line in self.p.stdout:
                got.append({**json.loads(line), **self.hello})
        except (BrokenPipeError, ValueError):
            pass
        self.p.wait()
        late = time.monotonic() >= deadline
        timer.cancel()
        self.reader.join(1)
        why = "not done in time" if late else "".join(self.log).strip().split("\n")[-1] or f"status {self.p.returncode}"
        for i, batch in self.cases[len(got):]:
            got.append({"version": self.version, "case": f"{batch} x {CASES[i][0]}", "failed": why})
        return got


def show(r):
    text = f"{r['version']:22} gpu {r['case']:44} "
    if "failed" in r:
        return text + f"failed: {r['failed']}"
    return text + (f"{r['us']:9.1f} us {r['bytes'] / r['us'] * 1e-3:8.1f} GB/s {100 * r['share_of_copy']:5.1f} % of the "
                   "copy rate")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--json", help="the rows as a JSON file")
    ap.add_argument("--seconds", type=float, default=40, help="for all together")
    ap.add_argument("--no-compile", action="store_true")
    ap.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    ap.add_argument("--scale", type=int, default=1, help="pictures and tensors are smaller by this")
    ap.add_argument("--work", help=argparse.SUPPRESS)
    a = ap.parse_args()
    if a.work:
        work(*json.loads(a.work))
        return
    deadline = time.monotonic() + a.seconds
    workers = [Worker(EAGER, [(i, batch) for i in range(len(CASES)) for batch in (1, 8)], a)]
    if not a.no_compile:
        workers += [Worker(COMPILED, [(i, 8)], a) for i in range(len(CASES))]
    rows = []
    for w in workers:
        w.ready(deadline)
    for w in workers:
        for r in w.rows(deadline):
            rows.append(r)
            print(show(r), flush=True)
    result = {"seconds": round(a.seconds - (deadline - time.monotonic()), 1), "rows": rows}
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(result, f, indent=1)
            f.write("\n")
    print(json.dumps(result))
    if not any("us" in r for r in rows):
        sys.exit(1)


main()
