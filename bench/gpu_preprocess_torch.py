#!/usr/bin/env python3
"""Preprocess of NV12 frames on an NVIDIA GPU by PyTorch's operators, one after the other and through
torch.compile: what `tests/check/tachy_check --cuda --bench preprocess` is compared with in one run.

    bench/gpu_preprocess_torch.py [--json FILE] [--no-compile]

The chain: planes to float16, each to the tensor's size by torch.nn.functional.interpolate(mode="area"),
BT.709 limited range to R'G'B', clamp, (v - mean) / std; NCHW float16. Frames are noise, more of them in
turn than the L2 holds; the median of 21 passes over all of them, by CUDA events."""
import argparse
import json
import subprocess
import sys

import torch
import torch.nn.functional as F

CASES = [  # name, width, height, eyes, side, frames a call, frames in memory
    ("8 x 8K nv12 -> 2 x 1024 f16", 7680, 3840, 2, 1024, 8, 16),
    ("8 x 4K nv12 -> 512 f16", 3840, 2160, 1, 512, 8, 32),
    ("1 x 8K nv12 -> 2 x 1024 f16", 7680, 3840, 2, 1024, 1, 16),
    ("1 x 4K nv12 -> 512 f16", 3840, 2160, 1, 512, 1, 32),
]
MATRIX = [[1.164384, 0.0, 1.792741], [1.164384, -0.213249, -0.532909], [1.164384, 2.112402, 0.0]]


def preprocess(frames, width, height, eyes, side, matrix, mean, std):
    """(n, height * 3 / 2, width) bytes to (n * eyes, 3, side, side), eye after eye of each frame."""
    n = frames.shape[0]
    luma = frames[:, :height].reshape(n, height, eyes, width // eyes).permute(0, 2, 1, 3)
    chroma = frames[:, height:].reshape(n, height // 2, eyes, width // eyes // 2, 2).permute(0, 2, 4, 1, 3)
    luma = F.interpolate(luma.reshape(n * eyes, 1, height, width // eyes).half(), size=(side, side), mode="area")
    chroma = F.interpolate(chroma.reshape(n * eyes, 2, height // 2, width // eyes // 2).half(), size=(side, side),
                           mode="area")
    yuv = torch.cat([(luma - 16) / 255, (chroma - 128) / 255], 1)
    rgb = torch.einsum("ck,nkhw->nchw", matrix, yuv).clamp(0, 1)
    return (rgb - mean) / std


def seconds(call, batches):
    """Median time of a batch."""
    times = []
    for i in range(24):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for b in batches:
            call(b)
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e-3 / len(batches))
    return sorted(times[3:])[10]


def copy_rate():
    a = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    return 2 * a.numel() / seconds(b.copy_, [a])


def one_case(version, name, width, height, eyes, side, batch, pool):
    constants = [torch.tensor(MATRIX, device="cuda").half()] + [
        torch.tensor(v, device="cuda").half().view(1, 3, 1, 1) for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    f = preprocess if version == "torch" else torch.compile(preprocess, dynamic=False)
    with torch.no_grad():
        rate = copy_rate()
        frames = torch.randint(0, 256, (pool, height * 3 // 2, width), dtype=torch.uint8, device="cuda")
        moved = batch * (frames[0].numel() + eyes * 3 * side * side * 2)
        t = seconds(lambda b: f(b, width, height, eyes, side, *constants), list(frames.split(batch)))
    return {"version": version, "case": name, "us": t * 1e6, "bytes": moved, "share_of_copy": moved / t / rate,
            "copy_bytes_per_s": rate}


def in_own_process(version, i):
    """A case that fails on the card spoils the process's context, not the other cases."""
    p = subprocess.run([sys.executable, __file__, "--case", str(i), "--version", version], text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if p.returncode:
        return {"version": version, "case": CASES[i][0], "failed": (p.stderr.strip() or "no message").split("\n")[-1]}
    return json.loads(p.stdout.split("\n")[-2])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--json")
    ap.add_argument("--no-compile", action="store_true")
    ap.add_argument("--case", type=int, help="this one alone, as a line of JSON")
    ap.add_argument("--version", default="torch", choices=["torch", "torch.compile"])
    a = ap.parse_args()
    if a.case is not None:
        print(json.dumps(one_case(a.version, *CASES[a.case])))
        return
    rows = []
    for i, case in enumerate(CASES):
        for version in ["torch"] if a.no_compile else ["torch", "torch.compile"]:
            r = in_own_process(version, i)
            rows.append(r)
            print(f"{version:22} gpu {case[0]:44} " + (f"failed: {r['failed']}" if "failed" in r else
                  f"{r['us']:9.1f} us {r['bytes'] / r['us'] * 1e-3:8.1f} GB/s {100 * r['share_of_copy']:5.1f} % of the "
                  "copy rate"), flush=True)
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}, f, indent=1)
            f.write("\n")


main()
