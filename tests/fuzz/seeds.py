"""seeds.py FUZZER FOLDER: a few small, sound inputs for a fuzzer to start from, made here."""
import json
import pathlib
import random
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))


def write(out, name, data):
    (out / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def npy(out):
    import numpy as np
    for t in ("<f4", "<f2", "u1", "<i8"):
        for shape in ((), (3,), (2, 3, 4)):
            np.save(out / f"{t[-2:]}-{len(shape)}.npy", np.zeros(shape, t))


def plan(out):
    r = random.Random(1)
    for i in range(300):
        write(out, str(i), bytes(r.randrange(256) for _ in range(r.randrange(20, 200))))


def onnx(out):
    from onnx import TensorProto as T, helper as h
    x = h.make_tensor_value_info("x", T.FLOAT, [1, "h", 8, 3])
    y = h.make_tensor_value_info("y", T.FLOAT16, None)
    w = h.make_tensor("w", T.FLOAT, [3], [1, 2, 3])
    nodes = [h.make_node("Mul", ["x", "w"], ["z"]), h.make_node("Cast", ["z"], ["y"], to=T.FLOAT16)]
    inputs = [x, h.make_tensor_value_info("w", T.FLOAT, [3])]
    for name, weights in [("small", [w]), ("weight_is_input", [])]:
        write(out, f"{name}.onnx", h.make_model(h.make_graph(nodes, "g", inputs, [y], weights)).SerializeToString())


def tflite(out):
    import numpy as np
    import tflite_build
    rng = np.random.default_rng(1)
    for name in ("HARD_SWISH", "RESIZE_BILINEAR", "ADD", "PRELU", "MEAN", "PAD", "CONCATENATION", "STRIDED_SLICE"):
        n = tflite_build.Net()
        y, s = n.conv(n.input([1, 6, 6, 2]), [1, 6, 6, 2], 4, rng, k=3)
        ints = lambda *v: n.const(np.int32(v))
        more, shape, options = {
            "RESIZE_BILINEAR": ([ints(12, 12)], [1, 12, 12, 4], ("ResizeBilinearOptions", dict(halfPixelCenters=True))),
            "ADD": ([n.const(np.float32([1, 2, 3, 4]))], s, ("AddOptions", dict(fusedActivationFunction=1))),
            "PRELU": ([n.const(np.float32([1, 2, 3, 4]))], s, None),
            "MEAN": ([ints(1, 2)], [1, 1, 1, 4], ("ReducerOptions", dict(keepDims=True))),
            "PAD": ([n.const(np.int32([[0, 0], [1, 1], [0, 2], [0, 0]]))], [1, 8, 8, 4], None),
            "CONCATENATION": ([y], [1, 6, 6, 8], ("ConcatenationOptions", dict(axis=3))),
            "STRIDED_SLICE": ([ints(0, 1, 1, 0), ints(1, 5, 5, 4), ints(1, 1, 2, 1)], [1, 4, 2, 4],
                              ("StridedSliceOptions", {})),
        }.get(name, ([], s, None))
        n.output(n.op(name, [y] + more, shape, options=options))
        write(out, f"{name.lower()}.tflite", n.bytes())


def job(out):
    # src/sink/part.c: kind, flags, pts, dts, duration, size, records of side data that follow, checksum
    def record(kind, data=b"", flags=0, pts=0, side=0):
        return struct.pack("=IIqqqQII", kind, flags, pts, pts, 1, len(data), side, 0) + data
    part = (b"tachyp1\n" + record(1, b"abcd", 1, 0, side=1) + record(2, b"side", 5) + record(1, b"efgh", 0, 1)
            + record(3, b"head", 0, 2))
    write(out, "part", b"\0" + part)
    write(out, "part_with_sums", b"\1" + part)
    write(out, "part_that_claims_more", b"\0tachyp1\n" + struct.pack("=IIqqqQII", 1, 0, 0, 0, 1, 2**31 - 65536, 0, 0))
    write(out, "part_empty", b"\1tachyp1\n" + record(3))
    record = {"of": {"input": "a"}, "parts": [8, 8], "part_frames": 10, "frames": 20, "last_pts": 19, "end_time": 0.8,
              "encoder_pts": 19, "encoder_distance": 1, "last_frames": [{"frame": 18, "pts": 18, "pixels": "00"}],
              "state": {"bytes": 4, "digest": "00"}, "published": {"device": 1, "inode": 2}}
    write(out, "record", b"\2" + json.dumps(record).encode())
    write(out, "record_begun", b'\2{"of": {}}')
    write(out, "state", b"\3\5" + bytes(200))


def profile(out):
    node = {"cat": "Node", "pid": 1, "tid": 7, "dur": 12, "ts": 100, "ph": "X", "name": "conv_1_kernel_time",
            "args": {"op_name": "Conv", "output_size": "4096"}}
    run = {"cat": "Session", "pid": 1, "tid": 7, "dur": 20, "ts": 90, "ph": "X", "name": "model_run", "args": {}}
    lines = [json.dumps(e) for e in (node, {**node, "name": "relu_kernel_time", "args": {"output_size": 7}}, node, run)]
    write(out, "operators", b"\0[\n" + ",\n".join(lines).encode() + b"\n]\n")
    write(out, "longest", b"\0[\n" + json.dumps({**node, "dur": 10**17, "ts": 1e300}).encode() + b"\n]\n")
    row = {"decode": 1.5, "model": 2, "where": {"decode": {"resource": "nvdec", "copies": 2}},
           "link": {"copy to device": 0.5}, "link_copies": {"copy to device": 2}}
    write(out, "times", b"\1" + json.dumps({"a": row, "b": {}}).encode())


def replay(out):
    color = dict.fromkeys(("matrix", "primaries", "transfer", "range", "chroma_loc"), 1)
    video = {"format": "gray", "width": 8, "height": 8, "time_base": [1, 25], "fps": [25, 1], "color": color,
             "rotation": 0, "flipped": False, "stereo": 0}
    item = {"frame": 0, "eye": 0, "pts": 0, "duration": 1, "discontinuity": 1, "color": color,
            "placement": [0, 0, 8, 8], "planes": ["plane.npy"], "inputs": ["tensor.npy"], "outputs": ["tensor.npy"],
            "mask": ["plane.npy"]}
    index = {"version": 1, "tachy": "0", "task": "segment", "describe": "", "input": video, "items": [item, item],
             "settings": {"segment.mode": "mask", "model.provider_options": ["a=1"], "processing.workers": "2"}}
    for stage in range(3):
        write(out, f"index-{stage}", bytes([stage]) + json.dumps(index).encode())


def metrics(out):
    for i, text in enumerate([
            "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer 0123456789abcdef\r\n\r\n",
            "GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: bearer 0123456789abcdee\r\n\r\n",
            "POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", "GET / HTTP/1.0\r\n\r\n",
            "PUT /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            "GET /metrics?a=b&c HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nConnection: keep-alive\r\n\r\n" * 2]):
        for kind in (0, 1):
            write(out, f"{i}-{kind}", bytes([kind, 20]) + text.encode())


def prompt(out):
    lines = ["stats", "set crf 20", "set segment.mode blur", "config all", "pause", "profile 2m", "jobs", "stop", "quit",
             "segment 'a b.mp4' -o \"out\\\"x\".mp4 -c:v libx264 --crf=20 -vn", "help set", "# nothing", "wait",
             "profile segment a.mp4 --trace t.json -- -b", "config a b", "probe a --json", "model list", "unclosed 'quote"]
    for i, line in enumerate(lines):
        write(out, str(i), line + "\n")
    write(out, "all", "\n".join(lines))
    write(out, "long", "a" * 4090 + "\nb\n" + "set " * 1100)


FUZZERS = {"fuzz_npy": npy, "fuzz_plan": plan, "fuzz_onnx": onnx, "fuzz_tflite": tflite,
           "fuzz_job": job, "fuzz_profile": profile, "fuzz_replay": replay, "fuzz_metrics": metrics, "fuzz_prompt": prompt}
FUZZERS[sys.argv[1]](pathlib.Path(sys.argv[2]))
