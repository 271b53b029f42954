"""Generated networks with the signature of a published LaMa: not trained, but the filled part follows from the picture around it, far
and near, by a fast Fourier convolution (Chi et al. 2020; Suvorov et al. 2022).

    lama_networks.py FOLDER [SIZE]    writes lama.onnx and its card lama.json

`image` N x 3 x S x S, R, G, B from 0 to 1, and `mask` N x 1 x S x S, 1 for what is to be filled -> `output` N x 3 x S x S, 0 to 255. S is
512 as published, or less for tests. Outside of the mask the output is the image. `free` leaves the height and width open as well.
"""
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH = 8  # channels


class Weights:
    """The same numbers for both forms of the graph: they ask for them in the same order."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def weights(self, n_in, n_out, k):
        w = self.rng.normal(size=(n_out, n_in, k, k)) / np.sqrt(n_in * k * k)
        return w.astype(np.float32), (self.rng.normal(size=n_out) / 8).astype(np.float32)


class Onnx(Weights):
    """Operations of a graph; a value is its name."""

    def __init__(self, seed):
        super().__init__(seed)
        self.nodes, self.consts = [], {}

    def node(self, op, *inputs, **attributes):
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [out], **attributes))
        return out

    def const(self, value, dtype=np.float32):
        name = f"c{len(self.consts)}"
        self.consts[name] = np.asarray(value, dtype)
        return name

    def add(self, a, b): return self.node("Add", a, b)
    def sub(self, a, b): return self.node("Sub", a, b)
    def mul(self, a, b): return self.node("Mul", a, b)
    def relu(self, a): return self.node("Relu", a)
    def sigmoid(self, a): return self.node("Sigmoid", a)
    def clip(self, a, lo, hi): return self.node("Clip", a, self.const(lo), self.const(hi))
    def join(self, *parts): return self.node("Concat", *parts, axis=1)
    def part(self, a, begin, end): return self.node("Slice", a, *(self.const([v], np.int64) for v in (begin, end, 1)))

    def conv(self, x, n_in, n_out, k):
        """With the picture mirrored at its edges, as LaMa's."""
        if k > 1:
            x = self.node("Pad", x, self.const([0, 0, k // 2, k // 2] * 2, np.int64), mode="reflect")
        return self.node("Conv", x, *map(self.const, self.weights(n_in, n_out, k)), kernel_shape=[k, k])

    def fourier(self, x, n):
        """A convolution of the spectrum over the whole picture."""
        x = self.node("Unsqueeze", x, self.const([4], np.int64))
        for axis in (3, 2):
            x = self.node("DFT", x, axis=axis)
        area = self.node("ReduceProd", self.node("Cast", self.node("Slice", self.node("Shape", x), *(self.const([v], np.int64) for v in (2, 4))),
                                                 to=TensorProto.FLOAT), keepdims=0)
        x = self.node("Div", x, self.node("Sqrt", area))
        real, imaginary = (self.node("Gather", x, self.const(k, np.int64), axis=4) for k in range(2))
        y = self.relu(self.conv(self.join(real, imaginary), 2 * n, 2 * n, 1))
        parts = [self.node("Unsqueeze", self.part(y, a, a + n), self.const([4], np.int64)) for a in (0, n)]
        x = self.node("Concat", *parts, axis=4)
        for axis in (2, 3):
            x = self.node("DFT", x, axis=axis, inverse=1)
        return self.mul(self.node("Gather", x, self.const(0, np.int64), axis=4), self.node("Sqrt", area))


class Torch(Weights):
    """The same operations by PyTorch."""

    def __init__(self, seed):
        import torch
        super().__init__(seed)
        self.t = torch

    def const(self, value): return self.t.as_tensor(np.float32(value))
    def add(self, a, b): return a + b
    def sub(self, a, b): return a - b
    def mul(self, a, b): return a * b
    def relu(self, a): return a.relu()
    def sigmoid(self, a): return a.sigmoid()
    def clip(self, a, lo, hi): return a.clamp(lo, hi)
    def join(self, *parts): return self.t.cat(parts, 1)
    def part(self, a, begin, end): return a[:, begin:end]

    def conv(self, x, n_in, n_out, k):
        f = self.t.nn.functional
        return f.conv2d(f.pad(x, [k // 2] * 4, mode="reflect") if k > 1 else x, *map(self.t.from_numpy, self.weights(n_in, n_out, k)))

    def fourier(self, x, n):
        x = self.t.fft.fftn(x, dim=(2, 3), norm="ortho")
        y = self.relu(self.conv(self.join(x.real, x.imag), 2 * n, 2 * n, 1))
        return self.t.fft.ifftn(self.t.complex(y[:, :n], y[:, n:]), dim=(2, 3), norm="ortho").real


def block(o, x, n):
    """Half of the channels are near (local), half far (global); each hears of the other."""
    half = n // 2
    near, far = o.part(x, 0, half), o.part(x, half, n)
    to_near = o.add(o.conv(near, half, half, 3), o.conv(far, half, half, 3))
    to_far = o.add(o.conv(near, half, half, 3), o.mul(o.fourier(far, half), o.const(0.2)))
    return o.add(x, o.relu(o.join(to_near, to_far)))


def filled(o, image, mask, white):
    image = o.mul(image, o.sub(o.const(1), mask))
    x = o.relu(o.conv(o.join(image, mask), 4, WIDTH, 7))
    for _ in range(2):
        x = block(o, x, WIDTH)
    x = o.add(o.mul(o.sigmoid(o.conv(x, WIDTH, 3, 7)), mask), image)
    return o.clip(o.mul(x, o.const(white)), 0, white) if white != 1 else x


def make(folder, size=512, seed=1, free=False, white=255, name="lama"):
    """Writes the network and its card; returns the card's path."""
    folder, g = pathlib.Path(folder), Onnx(seed)
    x = filled(g, "image", "mask", white)
    g.nodes.append(helper.make_node("Identity", [x], ["output"]))
    h, w = ("height", "width") if free else (size, size)
    shape = {n: ["batch", c, h, w] for n, c in (("image", 3), ("mask", 1), ("output", 3))}
    value = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shape.items()}
    graph = helper.make_graph(g.nodes, "generated", [value["image"], value["mask"]], [value["output"]],
                              [numpy_helper.from_array(v, n) for n, v in g.consts.items()])
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(m)
    onnx.save(m, folder / f"{name}.onnx")
    card = {"name": f"{name}-generated", "title": "generated, not trained", "task": "inpaint", "file": f"{name}.onnx", "license": "CC0-1.0",
            "input": {"name": "image", "hole": "mask", "width": size, "height": size, "layout": "nchw", "scale": 1 / 255, "batch": "free"},
            "output": {"name": "output", "meaning": "picture", "white": white}}
    (folder / f"{name}.json").write_text(json.dumps(card, indent=1))
    return folder / f"{name}.onnx"


if __name__ == "__main__":
    make(sys.argv[1], *map(int, sys.argv[2:3]))
