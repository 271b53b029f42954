"""Networks with the signatures of the LivePortrait family (Guo et al., 2024) and generated weights: none of its own. They move nothing
by sense; what counts is that what goes in and out, and the kinds of layers between, are those of the family.

    portrait_networks.py FOLDER [--real] [--free]   writes appearance.onnx, motion.onnx, stitching.onnx, warping.onnx, generator.onnx, card.json
"""
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

KEYPOINTS, BINS = 21, 66
# Side of the crop, of the features; depth and channels of the features; widths of layers; blocks.
SMALL = {"crop": 64, "side": 16, "depth": 4, "channels": 8, "wide": 16, "blocks": 1, "levels": 2}
REAL = {"crop": 256, "side": 64, "depth": 16, "channels": 32, "wide": 64, "blocks": 3, "levels": 4}


class Graph:
    """Nodes in a row; names are numbers. `n`: pictures per run, or the name of a free dimension."""

    def __init__(self, seed, n=1):
        self.nodes, self.weights, self.random, self.count, self.n = [], [], np.random.default_rng(seed), 0, n

    def const(self, value, dtype=np.float32):
        self.count += 1
        name = f"w{self.count}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def add(self, op, *inputs, **attributes):
        self.count += 1
        out = f"t{self.count}"
        self.nodes.append(helper.make_node(op, list(inputs), [out], **attributes))
        return out

    def conv(self, x, i, o, k=3, dims=2, stride=1, groups=1, gain=1.0):
        w = self.random.normal(0, gain * (2 / (i // groups * k ** dims)) ** 0.5, (o, i // groups) + (k,) * dims)
        return self.add("Conv", x, self.const(w), self.const(self.random.normal(0, 0.05, o)), kernel_shape=[k] * dims, strides=[stride] * dims,
                        pads=[k // 2] * (2 * dims), group=groups)

    def linear(self, x, i, o, gain=1.0):
        return self.add("Gemm", x, self.const(self.random.normal(0, gain / i ** 0.5, (i, o))), self.const(self.random.normal(0, 0.05, o)))

    def relu(self, x):
        return self.add("Relu", x)

    def reshape(self, x, *shape):
        """A first 1 stands for the pictures, which 0 keeps."""
        return self.add("Reshape", x, self.const((0,) + shape[1:] if shape[0] == 1 and self.n != 1 else shape, np.int64))

    def grow(self, x, *scales):
        return self.add("Resize", x, "", self.const((1, 1) + scales), mode="nearest", nearest_mode="floor",
                        coordinate_transformation_mode="asymmetric")

    def norm(self, x, channels):
        return self.add("InstanceNormalization", x, self.const(np.ones(channels)), self.const(np.zeros(channels)), epsilon=1e-5)

    def save(self, path, ins, outs):
        """ins: {name: shape}, outs: {name: (tensor, shape)}; shapes of one picture."""
        def info(name, shape):
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, [self.n, *shape[1:]])
        nodes = self.nodes + [helper.make_node("Identity", [t], [name]) for name, (t, _) in outs.items()]
        graph = helper.make_graph(nodes, path.stem, [info(n, s) for n, s in ins.items()], [info(n, s) for n, (_, s) in outs.items()],
                                  self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        onnx.checker.check_model(model)
        onnx.save(model, str(path))


def appearance(path, c):
    g, w = Graph(1), c["wide"]
    x = g.relu(g.conv("img", 3, w, 7))
    while_side = c["crop"]
    while while_side > c["side"]:
        x = g.add("AveragePool", g.relu(g.conv(x, w, 2 * w)), kernel_shape=[2, 2], strides=[2, 2])
        w, while_side = 2 * w, while_side // 2
    x = g.conv(x, w, c["channels"] * c["depth"], 1)
    shape = [1, c["channels"], c["depth"], c["side"], c["side"]]
    x = g.reshape(x, *shape)
    for _ in range(c["blocks"]):
        y = g.conv(g.relu(x), c["channels"], c["channels"], 3, 3, gain=0.5)
        x = g.add("Add", x, g.conv(g.relu(y), c["channels"], c["channels"], 3, 3, gain=0.5))
    g.save(path, {"img": [1, 3, c["crop"], c["crop"]]}, {"feature_3d": (x, shape)})


def motion(path, c, n=1):
    g, w = Graph(2, n), c["wide"] // 2
    x = g.conv("img", 3, w, 4 + 1, stride=4)
    for _ in range(c["levels"]):
        for _ in range(c["blocks"]):
            y = g.conv(g.norm(x, w), w, w, 7, groups=w)
            x = g.add("Add", x, g.conv(g.relu(g.conv(y, w, 4 * w, 1)), 4 * w, w, 1, gain=0.5))
        x, w = g.conv(x, w, 2 * w, 3, stride=2), 2 * w
    x = g.reshape(g.add("GlobalAveragePool", x), 1, w)
    sizes = {"pitch": BINS, "yaw": BINS, "roll": BINS, "t": 3, "exp": 3 * KEYPOINTS, "scale": 1, "kp": 3 * KEYPOINTS}
    outs = {}
    for name, size in sizes.items():
        y = g.linear(x, w, size, 3.0 if size == BINS else 0.5)
        if size == BINS:  # about straight ahead
            y = g.add("Add", y, g.const(-((np.arange(BINS) - 32.5) / 6) ** 2))
        if name in ("t", "exp"):
            y = g.add("Mul", y, g.const(0.05))
        if name == "scale":
            y = g.add("Add", g.add("Mul", g.add("Tanh", y), g.const(0.1)), g.const(1.0))
        if name == "kp":
            y = g.add("Tanh", y)
        outs[name] = (y, [1, size])
    g.save(path, {"img": [1, 3, c["crop"], c["crop"]]}, outs)


def stitching(path, c):
    g, x, n = Graph(3), "input", 6 * KEYPOINTS
    for o in (128, 128, 64):
        x, n = g.relu(g.linear(x, n, o)), o
    x = g.add("Mul", g.linear(x, n, 3 * KEYPOINTS + 2), g.const(0.02))
    g.save(path, {"input": [1, 6 * KEYPOINTS]}, {"output": (x, [1, 3 * KEYPOINTS + 2])})


def hourglass(g, x, i, w, c):
    """In three dimensions, down to a level where the depth is still whole."""
    skips = []
    for _ in range(c["levels"]):
        skips.append((x, i))
        x = g.add("AveragePool", g.relu(g.conv(x, i, w, 3, 3)), kernel_shape=[1, 2, 2], strides=[1, 2, 2])
        i, w = w, min(2 * w, 8 * c["wide"])
    for skip, n in reversed(skips):
        o = max(i // 2, 16)
        x = g.relu(g.conv(g.grow(x, 1, 2, 2), i, o, 3, 3))
        x, i = g.add("Concat", x, skip, axis=1), o + n
    return x, i


def warping(path, c, n=1):
    g, k = Graph(4, n), KEYPOINTS
    d, s, ch = c["depth"], c["side"], c["channels"]
    axes = [np.linspace(-1, 1, n) for n in (s, s, d)]
    grid = np.stack(np.meshgrid(axes[2], axes[1], axes[0], indexing="ij")[::-1], -1)[None, None]  # x, y, z
    at = g.const(grid)

    def points(name):
        return g.reshape(name, 1, k, 1, 1, 1, 3)

    def each(x, axis, *zero):
        """The same for every picture."""
        if n == 1:
            return x
        return g.add("Add", x, g.reshape(g.add("Mul", g.add("ReduceSum", source, g.const(axis, np.int64)), g.const(0.0)), *zero))

    source, driving = points("kp_source"), points("kp_driving")
    moved = g.add("Add", at, g.add("Sub", source, driving))
    motions = g.add("Concat", each(at, [1, 5], 1, 1, 1, 1, 1, 1), moved, axis=1)  # 1, k + 1, d, s, s, 3

    def heat(p):
        far = g.add("ReduceSum", g.add("Mul", *(2 * [g.add("Sub", at, p)])), g.const([-1], np.int64), keepdims=0)
        return g.add("Exp", g.add("Mul", far, g.const(-50.0)))

    heats = g.add("Concat", each(g.const(np.zeros((1, 1, d, s, s))), [1, 5], 1, 1, 1, 1, 1), g.add("Sub", heat(driving), heat(source)), axis=1)
    few = g.relu(g.conv("feature_3d", ch, 4, 1, 3))
    if n == 1:
        many = g.add("Expand", few, g.const([k + 1, 4, d, s, s], np.int64))
    else:
        many = g.add("Expand", g.reshape(few, 1, 1, 4, d, s, s), g.const([1, k + 1, 4, d, s, s], np.int64))
        many = g.reshape(many, -1, 4, d, s, s)
    sampled = g.add("GridSample", many, g.reshape(motions, k + 1 if n == 1 else -1, d, s, s, 3), mode="linear", align_corners=0)
    sampled = g.reshape(sampled, -1 if n != 1 else 1, k + 1, 4, d, s, s)
    seen = g.add("Concat", g.reshape(heats, 1, k + 1, 1, d, s, s), sampled, axis=2)
    x, wide = hourglass(g, g.reshape(seen, 1, 5 * (k + 1), d, s, s), 5 * (k + 1), c["wide"], c)
    mask = g.add("Softmax", g.conv(x, wide, k + 1, 3, 3), axis=1)
    weighed = g.add("Mul", g.reshape(mask, 1, k + 1, d, s, s, 1), motions)
    field = g.add("ReduceSum", weighed, g.const([1], np.int64), keepdims=0)  # 1, d, s, s, 3
    out = g.reshape(g.add("GridSample", "feature_3d", field, mode="linear", align_corners=0), 1, ch * d, s, s)
    out = g.add("LeakyRelu", g.conv(out, ch * d, 4 * c["wide"]), alpha=0.01)
    out = g.conv(out, 4 * c["wide"], 4 * c["wide"], 1)
    seen = g.add("Sigmoid", g.conv(g.reshape(x, 1, wide * d, s, s), wide * d, 1, 7 if d > 8 else 3))
    g.save(path, {"feature_3d": [1, ch, d, s, s], "kp_source": [1, k, 3], "kp_driving": [1, k, 3]},
           {"out": (g.add("Mul", out, seen), [1, 4 * c["wide"], s, s])})


def generator(path, c, sigmoid=True, n=1):
    g, w, s = Graph(5, n), 4 * c["wide"], c["side"]
    seg = x = "feature"
    i = w

    def spade(x, channels, size):
        """Normalised, then scaled and moved by what is seen in the input at each place."""
        at = seg if size == s else g.grow(seg, size // s, size // s)
        h = g.relu(g.conv(at, w, 2 * c["wide"]))
        gamma, beta = g.conv(h, 2 * c["wide"], channels, gain=0.5), g.conv(h, 2 * c["wide"], channels, gain=0.5)
        return g.add("Add", g.add("Mul", g.norm(x, channels), g.add("Add", gamma, g.const(1.0))), beta)

    def block(x, i, o, size):
        y = g.conv(g.add("LeakyRelu", spade(x, i, size), alpha=0.2), i, o)
        y = g.conv(g.add("LeakyRelu", spade(y, o, size), alpha=0.2), o, o)
        return g.add("Add", y, x if i == o else g.conv(x, i, o, 1))

    for _ in range(2 * c["blocks"]):
        x = block(x, i, i, s)
    for _ in range(2):
        s2 = 2 * (s if i == w else s2)
        x = g.grow(x, 2, 2)
        x, i = block(x, i, i // 2, s2), i // 2
    x = g.add("DepthToSpace", g.conv(g.add("LeakyRelu", x, alpha=0.2), i, 12), blocksize=2, mode="CRD")
    side = 8 * s
    g.save(path, {"feature": [1, w, s, s]}, {"out": (g.add("Sigmoid", x) if sigmoid else x, [1, 3, side, side])})


def write(folder, c=None, n=1):
    """The five networks and their card; returns the card's path. `n`: pictures per run of those that run for each frame on a GPU, or the
    name of that dimension, which is free then."""
    folder, c = pathlib.Path(folder), c or SMALL
    folder.mkdir(parents=True, exist_ok=True)
    roles = {"appearance": appearance, "motion": motion, "stitching": stitching, "warping": warping, "generator": generator}
    for name, make in roles.items():
        make(folder / f"{name}.onnx", c, **({"n": n} if name in ("motion", "warping", "generator") else {}))
    card = {"version": 1, "name": "generated-portrait", "title": "Generated weights, the signatures of LivePortrait", "task": "animate",
            "license": "CC0-1.0", "networks": {name: f"{name}.onnx" for name in roles}}
    (folder / "card.json").write_text(json.dumps(card, indent=2))
    return folder / "card.json"


def through(folder, n):
    """Networks that hand the portrait's crop of n x n pixels through: what is pasted is what was there. Returns their card's path."""
    def save(name, nodes, ins, outs, weights=()):
        graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info(k, TensorProto.FLOAT, s) for k, s in ins.items()],
                                  [helper.make_tensor_value_info(k, TensorProto.FLOAT, s) for k, s in outs.items()], list(weights))
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), str(card.parent / f"{name}.onnx"))

    def whole(name, *values):
        return helper.make_tensor(name, TensorProto.INT64, [len(values)], values)

    card = write(folder, dict(SMALL, crop=n, side=n // 4))
    save("appearance", [helper.make_node("Reshape", ["img", "shape"], ["feature_3d"])], {"img": [1, 3, n, n]}, {"feature_3d": [1, 3, 1, n, n]},
         [whole("shape", 1, 3, 1, n, n)])
    nodes = [helper.make_node("Add", ["kp_source", "kp_driving"], ["a"]), helper.make_node("ReduceSum", ["a", "all"], ["b"], keepdims=1),
             helper.make_node("Reshape", ["feature_3d", "flat"], ["f"]), helper.make_node("Mul", ["b", "zero"], ["c"]),
             helper.make_node("Unsqueeze", ["c", "axis"], ["d"]), helper.make_node("Add", ["f", "d"], ["out"])]
    save("generator", nodes, {"feature_3d": [1, 3, 1, n, n], "kp_source": [1, 21, 3], "kp_driving": [1, 21, 3]}, {"out": [1, 3, n, n]},
         [helper.make_tensor("zero", TensorProto.FLOAT, [], [0]), whole("flat", 1, 3, n, n), whole("all", 1, 2), whole("axis", 3)])
    said = json.loads(card.read_text())
    del said["networks"]["warping"], said["networks"]["stitching"]
    card.write_text(json.dumps(said))
    return card


def in_torch(path):
    """The same graph by PyTorch's operations: a module whose forward takes the inputs in their order and gives a tuple of the outputs."""
    import torch
    from torch.nn import functional as F
    graph = onnx.load(str(path)).graph

    def pool(x, a):
        return (F.avg_pool2d if x.dim() == 4 else F.avg_pool3d)(x, a["kernel_shape"], a["strides"])

    ops = {
        "Add": lambda a, x, y: x + y, "Sub": lambda a, x, y: x - y, "Mul": lambda a, x, y: x * y,
        "Relu": lambda a, x: x.relu(), "Tanh": lambda a, x: x.tanh(), "Exp": lambda a, x: x.exp(), "Sigmoid": lambda a, x: x.sigmoid(),
        "LeakyRelu": lambda a, x: F.leaky_relu(x, a["alpha"]), "Softmax": lambda a, x: x.softmax(a["axis"]), "Identity": lambda a, x: x,
        "Conv": lambda a, x, w, b: (F.conv2d if x.dim() == 4 else F.conv3d)(x, w, b, a["strides"], a["pads"][:x.dim() - 2], 1, a["group"]),
        "Gemm": lambda a, x, w, b: x @ w + b, "AveragePool": lambda a, x: pool(x, a), "GlobalAveragePool": lambda a, x: x.mean((2, 3), keepdim=True),
        "InstanceNormalization": lambda a, x, w, b: F.instance_norm(x, weight=w, bias=b, eps=a["epsilon"]),
        "Reshape": lambda a, x, to: x.reshape([d or x.shape[i] for i, d in enumerate(to)]), "Expand": lambda a, x, to: x.expand(torch.broadcast_shapes(x.shape, to)), "Concat": lambda a, *x: torch.cat(x, a["axis"]),
        "Resize": lambda a, x, none, scales: F.interpolate(x, scale_factor=scales[2:], mode="nearest"),
        "ReduceSum": lambda a, x, axes: x.sum(axes, keepdim=bool(a["keepdims"])),
        "GridSample": lambda a, x, at: F.grid_sample(x, at, mode="bilinear", align_corners=False),
        "DepthToSpace": lambda a, x: F.pixel_shuffle(x, a["blocksize"]),
    }
    whole = {n for node in graph.node if node.op_type in ("Reshape", "Expand", "Resize", "ReduceSum") for n in node.input[1:]}

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.known, self.weights = {}, []
            for w in graph.initializer:
                value = numpy_helper.to_array(w)
                if w.name in whole:  # sizes and axes
                    self.known[w.name] = value.tolist()
                else:
                    self.weights.append(w.name)
                    self.register_buffer(w.name, torch.from_numpy(value.copy()))
            self.steps = [(ops[n.op_type], {a.name: helper.get_attribute_value(a) for a in n.attribute}, list(n.input), n.output[0])
                          for n in graph.node]
            self.takes, self.gives = [i.name for i in graph.input], [o.name for o in graph.output]

        def forward(self, *inputs):
            at = {"": None, **self.known, **{n: getattr(self, n) for n in self.weights}, **dict(zip(self.takes, inputs))}
            for op, attributes, names, out in self.steps:
                at[out] = op(attributes, *[at[n] for n in names])
            return tuple(at[n] for n in self.gives)
    return Net().eval()


if __name__ == "__main__":
    print(write(sys.argv[1], REAL if "--real" in sys.argv else SMALL, "batch" if "--free" in sys.argv else 1))
