"""Memory of a session, measured in a child process: shared by test_accuracy.py and bench/engine_memory."""
import gc
import json
import subprocess
import sys


def of_session(model, which):
    """MiB by which a process grows while `model` is opened and run with "tachy" or "cpu": at the peak,
    and afterwards. RuntimeError where it cannot be."""
    import onnx
    dims = [d.dim_param for i in onnx.load(model).graph.input for d in i.type.tensor_type.shape.dim if d.dim_param]
    p = subprocess.run([sys.executable, __file__, str(model), which, *dims], capture_output=True, text=True, timeout=300)
    if p.returncode:
        raise RuntimeError((p.stderr.strip().splitlines() or ["it crashed"])[-1][:120])
    return json.loads(p.stdout.splitlines()[-1])


def status(key):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(key)) / 1024


def child(model, which, *dims):
    import test_provider as provider
    provider.setUpModule()
    onnx, np = provider.onnx, provider.np
    small = provider.net([onnx.helper.make_node("Relu", ["x"], ["y"])], {"x": (1, 4)}, "y")
    first = provider.both(small)  # what a process needs once, both providers loaded
    feeds = {n: np.zeros((1, 4), np.float32) for n in "x"}
    for s in first:
        s.run(None, feeds)
    options = provider.options(which == "tachy", dims)
    extra = {} if which == "tachy" else {"providers": ["CPUExecutionProvider"]}
    gc.collect()
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")  # the peak counts from here
    before = status("VmRSS")
    session = provider.ort.InferenceSession(model, options, **extra)
    rng = np.random.default_rng(1)
    types = {"tensor(float)": np.float32, "tensor(int32)": np.int32, "tensor(int64)": np.int64}
    feeds = {i.name: rng.random([d if isinstance(d, int) else 1 for d in i.shape]).astype(types[i.type])
             for i in session.get_inputs()}
    for _ in range(3):
        session.run(None, feeds)
    print(json.dumps({"peak": status("VmHWM") - before, "held": status("VmRSS") - before}))


if __name__ == "__main__":
    child(*sys.argv[1:])
