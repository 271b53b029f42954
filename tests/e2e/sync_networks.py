"""Generated networks with the signature of SyncNet (Chung and Zisserman 2016): not trained. A bright picture and a loud sound have vectors that
are near each other, so a clip that flickers as its sound does has an offset.

    sync_networks.py FOLDER [SIDE] [--torch]    writes sync-lips.onnx, sync-sound.onnx and their card sync.json; --torch compares them with
                                                the same graphs in PyTorch

`lips` 1 x 3 x 5 x S x S, B, G, R from 0 to 255 of five pictures, and `sound` 1 x 1 x 13 x 20, cepstra of 0.2 s -> 1 x 1024. S is 224 as
published, or less for tests.
"""
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LENGTH = 1024
BRIGHT, LOUD = (0.034, -3.0), (0.408, -7.88)  # make -1 to 1 of the mean picture and of the energy's logarithm in the tests' clip


class Onnx:
    """Operations that become nodes of a graph; values are names."""

    def __init__(self, weights):
        self.w, self.nodes = weights, []

    def node(self, op, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def const(self, name): return name
    def add(self, a, b): return self.node("Add", a, b)
    def mul(self, a, b): return self.node("Mul", a, b)
    def matmul(self, a, b): return self.node("MatMul", a, b)
    def relu(self, a): return self.node("Relu", a)
    def flat(self, a): return self.node("Flatten", a)
    def mean(self, a): return self.node("ReduceMean", a, axes=[1])
    def gemm(self, a, b): return self.node("Gemm", a, b)
    def first(self, a): return self.node("Gather", a, "first", axis=2)
    def pool(self, a): return self.node("MaxPool", a, kernel_shape=[3, 3], strides=[2, 2])

    def conv(self, x, name, steps, around=0):
        bias = [f"{name}_bias"] if f"{name}_bias" in self.w else []
        return self.node("Conv", x, name, *bias, strides=steps, pads=[around] * 2 * len(steps))

    def save(self, path, name, shape, made):
        value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in ((name, shape), ("vector", [1, LENGTH]))]
        nodes = [*self.nodes, helper.make_node("Identity", [made], ["vector"])]
        used = {n for node in nodes for n in node.input}
        graph = helper.make_graph(nodes, "generated", value[:1], value[1:], [numpy_helper.from_array(v, n) for n, v in self.w.items() if n in used])
        m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(m)
        onnx.save(m, path)


class Torch:
    """The same operations by PyTorch."""

    def __init__(self, weights):
        import torch
        self.t, self.w = torch, {n: torch.from_numpy(np.asarray(v)) for n, v in weights.items()}

    def const(self, name): return self.w[name]
    def add(self, a, b): return a + b
    def mul(self, a, b): return a * b
    def matmul(self, a, b): return a @ b
    def relu(self, a): return a.relu()
    def flat(self, a): return a.flatten(1)
    def mean(self, a): return a.mean(1, keepdim=True)
    def gemm(self, a, b): return self.t.addmm(self.t.zeros(LENGTH), a, b)
    def first(self, a): return a[:, :, :1]
    def pool(self, a): return self.t.nn.functional.max_pool2d(a, 3, 2)

    def conv(self, x, name, steps, around=0):
        f = self.t.nn.functional
        return (f.conv3d if len(steps) == 3 else f.conv2d)(x, self.w[name], self.w.get(f"{name}_bias"), stride=steps, padding=around)


def weights(side, seed=1):
    """Of both networks."""
    rng, cell, inner, heard = np.random.default_rng(seed), side // 16, 32 * 16, 8 * 6 * 9
    w = {"way": rng.normal(size=(1, LENGTH)) / 4, "lips_1": rng.normal(size=(16, 3, 5, cell, cell)) / cell / 200, "lips_1_bias": rng.normal(size=16),
         "lips_2": rng.normal(size=(32, 16, 1, 4, 4)) / 16, "lips_3": rng.normal(size=(inner, LENGTH)) / np.sqrt(inner) / 40,
         "sound_1": rng.normal(size=(8, 1, 3, 3)) / 30, "sound_1_bias": rng.normal(size=8),
         "sound_2": rng.normal(size=(heard, LENGTH)) / np.sqrt(heard) / 40,
         "lips_scale": BRIGHT[0], "lips_shift": BRIGHT[1], "sound_scale": LOUD[0], "sound_shift": LOUD[1]}
    return {n: np.float32(v) for n, v in w.items()} | {"first": np.int64([0])}


def shared(o, mean, own, name):
    """What both vectors have in common, and what is a network's own."""
    level = o.add(o.mul(mean, o.const(f"{name}_scale")), o.const(f"{name}_shift"))
    return o.add(o.matmul(level, o.const("way")), own)


def lips(o, x, side):
    y = o.relu(o.conv(x, "lips_1", [1, side // 16, side // 16]))
    y = o.relu(o.conv(y, "lips_2", [1, 4, 4]))
    return shared(o, o.mean(o.flat(x)), o.gemm(o.flat(y), o.const("lips_3")), "lips")


def sound(o, x):
    y = o.pool(o.relu(o.conv(x, "sound_1", [1, 1], 1)))
    return shared(o, o.mean(o.flat(o.first(x))), o.gemm(o.flat(y), o.const("sound_2")), "sound")


def make(folder, side=224, seed=1):
    """Writes both networks and their card; returns the card's path."""
    folder, w = pathlib.Path(folder), weights(side, seed)
    a, b = Onnx(w), Onnx(w)
    a.save(folder / "sync-lips.onnx", "lips", [1, 3, 5, side, side], lips(a, "lips", side))
    b.save(folder / "sync-sound.onnx", "sound", [1, 1, 13, 20], sound(b, "sound"))
    card = {"name": "sync-generated", "title": "generated, not trained", "task": "avsync", "license": "CC0-1.0",
            "networks": {"lips": "sync-lips.onnx", "sound": "sync-sound.onnx"}}
    (folder / "sync.json").write_text(json.dumps(card, indent=1))
    return folder / "sync.json"


def differences(folder, side=224, seed=1):
    """PyTorch's vectors against ONNX Runtime's, of pictures and cepstra as clips have them: by network, of the largest number."""
    import onnxruntime
    import torch
    rng, o, far = np.random.default_rng(2), Torch(weights(side, seed)), {}
    feeds = {"lips": rng.uniform(0, 255, (1, 3, 5, side, side)), "sound": rng.normal(size=(1, 1, 13, 20)) * 8}
    for name, x in feeds.items():
        session = onnxruntime.InferenceSession(str(pathlib.Path(folder) / f"sync-{name}.onnx"), providers=["CPUExecutionProvider"])
        got = session.run(None, {name: np.float32(x)})[0]
        with torch.no_grad():
            x = torch.from_numpy(np.float32(x))
            want = (lips(o, x, side) if name == "lips" else sound(o, x)).numpy()
        far[name] = float(np.abs(got - want).max() / np.abs(want).max())
    return far


if __name__ == "__main__":
    size = [int(a) for a in sys.argv[2:3] if a != "--torch"]
    make(sys.argv[1], *size)
    if "--torch" in sys.argv:
        print("PyTorch against ONNX Runtime:", differences(sys.argv[1], *size))
