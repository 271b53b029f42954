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


class Graph:
    def __init__(self, seed):
        self.rng, self.nodes, self.consts = np.random.default_rng(seed), [], {}

    def node(self, op, *inputs, **attributes):
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [out], **attributes))
        return out

    def const(self, value, dtype=np.float32):
        name = f"c{len(self.consts)}"
        self.consts[name] = np.asarray(value, dtype)
        return name

    def conv(self, x, n_in, n_out, k):
        """With the picture mirrored at its edges, as LaMa's."""
        if k > 1:
            x = self.node("Pad", x, self.const([0, 0, k // 2, k // 2] * 2, np.int64), mode="reflect")
        w = self.rng.normal(size=(n_out, n_in, k, k)) / np.sqrt(n_in * k * k)
        return self.node("Conv", x, self.const(w), self.const(self.rng.normal(size=n_out) / 8), kernel_shape=[k, k])

    def fourier(self, x, n):
        """A convolution of the spectrum over the whole picture."""
        x = self.node("Unsqueeze", x, self.const([4], np.int64))
        for axis in (2, 3):
            x = self.node("DFT", x, axis=axis)
        area = self.node("ReduceProd", self.node("Cast", self.node("Slice", self.node("Shape", x), *(self.const([v], np.int64) for v in (2, 4))),
                                                 to=TensorProto.FLOAT), keepdims=0)
        x = self.node("Div", x, self.node("Sqrt", area))
        real, imaginary = (self.node("Gather", x, self.const(k, np.int64), axis=4) for k in range(2))
        y = self.node("Relu", self.conv(self.node("Concat", real, imaginary, axis=1), 2 * n, 2 * n, 1))
        parts = [self.node("Unsqueeze", self.node("Slice", y, *(self.const([v], np.int64) for v in (a, a + n, 1))),
                           self.const([4], np.int64)) for a in (0, n)]
        x = self.node("Concat", *parts, axis=4)
        for axis in (2, 3):
            x = self.node("DFT", x, axis=axis, inverse=1)
        return self.node("Mul", self.node("Gather", x, self.const(0, np.int64), axis=4), self.node("Sqrt", area))

    def block(self, x, n):
        """Half of the channels are near (local), half far (global); each hears of the other."""
        near, far = (self.node("Slice", x, *(self.const([v], np.int64) for v in (a, a + n // 2, 1))) for a in (0, n // 2))
        half = n // 2
        to_near = self.node("Add", self.conv(near, half, half, 3), self.conv(far, half, half, 3))
        to_far = self.node("Add", self.conv(near, half, half, 3), self.node("Mul", self.fourier(far, half), self.const(0.2)))
        return self.node("Add", x, self.node("Relu", self.node("Concat", to_near, to_far, axis=1)))


def make(folder, size=512, seed=1, free=False, white=255, name="lama"):
    """Writes the network and its card; returns the card's path."""
    folder, g = pathlib.Path(folder), Graph(seed)
    known = g.node("Sub", g.const(1), "mask")
    image = g.node("Mul", "image", known)
    x = g.node("Relu", g.conv(g.node("Concat", image, "mask", axis=1), 4, WIDTH, 7))
    for _ in range(2):
        x = g.block(x, WIDTH)
    x = g.node("Sigmoid", g.conv(x, WIDTH, 3, 7))
    x = g.node("Add", g.node("Mul", x, "mask"), image)
    if white != 1:
        x = g.node("Clip", g.node("Mul", x, g.const(white)), g.const(0), g.const(white))
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
