"""Generated networks with the signature of a published CLIP (ViT-B/32, 512 numbers): random weights, no use for pictures.

    clip_networks.py FOLDER VOCABULARY [--real] [--torch]    writes clip.onnx, clip-text.onnx and their card clip.json

They are small; with --real as wide and deep as ViT-B/32.

`pixel_values` N x 3 x 224 x 224 -> `image_embeds` N x 512; `input_ids` N x 77 (int64) -> `text_embeds` N x 512, taken where the
largest token is. The same graph stands here as functions over NumPy's or PyTorch's operations: image() and text().
"""
import json
import math
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZE, PATCH, TOKENS, WORDS = 512, 32, 77, 49408
# Width, heads and layers of the networks of pictures and of texts.
SMALL, REAL = {"i": (64, 4, 2), "t": (64, 4, 2)}, {"i": (768, 12, 12), "t": (512, 8, 12)}
MEAN, STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]


def weights(seed, sizes):
    """By name; those of block k of a network begin with "ik." or "tk."."""
    rng = np.random.default_rng(seed)

    def draw(*shape, scale=None):
        return rng.normal(0, scale or 1 / math.sqrt(shape[0]), shape).astype(np.float32)
    wi, wt = sizes["i"][0], sizes["t"][0]
    w = {"patch": draw(3 * PATCH * PATCH, wi), "class": draw(1, 1, wi, scale=1), "place": draw(1 + (224 // PATCH) ** 2, wi, scale=0.3),
         "words": draw(WORDS, wt, scale=1), "place_text": draw(TOKENS, wt, scale=0.3), "to": draw(wi, SIZE), "to_text": draw(wt, SIZE)}
    for tower, (wide, _, layers) in sizes.items():
        for k in range(layers):
            b = f"{tower}{k}."
            w |= {b + "qkv": draw(wide, 3 * wide), b + "out": draw(wide, wide), b + "up": draw(wide, 4 * wide), b + "down": draw(4 * wide, wide)}
            w |= {b + n: np.ones(wide, np.float32) + draw(wide, scale=0.1) for n in ("norm1", "norm2")}
        w[tower + "norm"] = np.ones(wide, np.float32)
    return w


class Sized:
    """Width, heads and layers of the network at hand, from its weights' shapes."""

    def __init__(self, w):
        self.w = w

    def begin(self, tower):
        self.wide, self.layers = self.w[tower + "norm"].shape[0], sum(n.startswith(tower) and n.endswith(".qkv") for n in self.w)
        self.heads = self.wide // 64 if self.wide > 64 else 4


class Onnx(Sized):
    """Operations of a graph; a value is its name."""

    def __init__(self, w):
        super().__init__(w)
        self.nodes, self.used, self.consts = [], set(), {}

    def node(self, op, *inputs, **attributes):
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [out], **attributes))
        return out

    def const(self, value, dtype=np.int64):
        name = f"c{len(self.consts)}"
        self.consts[name] = np.array(value, dtype)
        return name

    def weight(self, name):
        self.used.add(name)
        return name

    def matmul(self, a, b): return self.node("MatMul", a, b)
    def add(self, a, b): return self.node("Add", a, b)
    def reshape(self, a, *shape): return self.node("Reshape", a, self.const(shape))
    def turn(self, a, *axes): return self.node("Transpose", a, perm=list(axes))
    def softmax(self, a): return self.node("Softmax", a, axis=-1)
    def scale(self, a, s): return self.node("Mul", a, self.const(s, np.float32))
    def norm(self, a, w): return self.node("LayerNormalization", a, w, self.const(np.zeros(self.wide), np.float32), axis=-1, epsilon=1e-5)
    def gelu(self, a): return self.node("Mul", a, self.node("Sigmoid", self.scale(a, 1.702)))
    def part(self, a, axis, at): return self.node("Gather", a, self.const(at), axis=axis)
    def causal(self, a): return self.add(a, self.const(np.triu(np.full((TOKENS, TOKENS), -1e9), 1), np.float32))
    def words(self, w, ids): return self.node("Gather", w, ids, axis=0)
    def end(self, x, ids):
        at = self.node("ArgMax", ids, axis=1, keepdims=1)
        at = self.node("Unsqueeze", at, self.const([2]))
        return self.node("Squeeze", self.node("GatherElements", x, self.node("Expand", at, self.const([1, 1, self.wide])), axis=1), self.const([1]))

    def first(self, c, x):
        n = self.node("Gather", self.node("Shape", x), self.const([0]), axis=0)
        c = self.node("Expand", c, self.node("Concat", n, self.const([1, self.wide]), axis=0))
        return self.node("Concat", c, x, axis=1)

    def model(self, name, dtype, shape, result, out):
        io = [helper.make_tensor_value_info(name, dtype, shape)], [helper.make_tensor_value_info(out, TensorProto.FLOAT, ["batch", SIZE])]
        self.nodes.append(helper.make_node("Identity", [result], [out]))
        init = [numpy_helper.from_array(self.w[n], n) for n in sorted(self.used)] + [numpy_helper.from_array(v, n) for n, v in self.consts.items()]
        graph = helper.make_graph(self.nodes, "generated", *io, init)
        m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(m)
        return m


class Torch(Sized):
    """The same operations by PyTorch."""

    def __init__(self, w):
        import torch
        super().__init__({k: torch.from_numpy(v) for k, v in w.items()})
        self.t = torch

    def weight(self, name): return self.w[name]
    def matmul(self, a, b): return a @ b
    def add(self, a, b): return a + b
    def reshape(self, a, *shape): return a.reshape(*[a.shape[i] if s == 0 else s for i, s in enumerate(shape)])
    def turn(self, a, *axes): return a.permute(*axes)
    def softmax(self, a): return a.softmax(-1)
    def scale(self, a, s): return a * s
    def norm(self, a, w): return self.t.nn.functional.layer_norm(a, (self.wide,), w, None, 1e-5)
    def gelu(self, a): return a * self.t.sigmoid(1.702 * a)
    def part(self, a, axis, at): return a.select(axis, at)
    def causal(self, a): return a + self.t.full((TOKENS, TOKENS), -1e9).triu(1)
    def words(self, w, ids): return w[ids]
    def end(self, x, ids): return x[self.t.arange(x.shape[0]), ids.argmax(1)]
    def first(self, c, x): return self.t.cat([c.expand(x.shape[0], 1, self.wide), x], 1)


def block(o, b, x, n, causal):
    q = o.reshape(o.matmul(o.norm(x, o.weight(b + "norm1")), o.weight(b + "qkv")), 0, n, 3, o.heads, o.wide // o.heads)
    q, k, v = (o.turn(o.part(q, 2, i), 0, 2, 1, 3) for i in range(3))
    a = o.scale(o.matmul(q, o.turn(k, 0, 1, 3, 2)), 1 / math.sqrt(o.wide // o.heads))
    a = o.matmul(o.softmax(o.causal(a) if causal else a), v)
    x = o.add(x, o.matmul(o.reshape(o.turn(a, 0, 2, 1, 3), 0, n, o.wide), o.weight(b + "out")))
    return o.add(x, o.matmul(o.gelu(o.matmul(o.norm(x, o.weight(b + "norm2")), o.weight(b + "up"))), o.weight(b + "down")))


def image(o, x):
    o.begin("i")
    side = 224 // PATCH
    x = o.turn(o.reshape(x, 0, 3, side, PATCH, side, PATCH), 0, 2, 4, 1, 3, 5)
    x = o.first(o.weight("class"), o.matmul(o.reshape(x, 0, side * side, 3 * PATCH * PATCH), o.weight("patch")))
    x = o.add(x, o.weight("place"))
    for k in range(o.layers):
        x = block(o, f"i{k}.", x, side * side + 1, False)
    return o.matmul(o.norm(o.part(x, 1, 0), o.weight("inorm")), o.weight("to"))


def text(o, ids):
    o.begin("t")
    x = o.add(o.words(o.weight("words"), ids), o.weight("place_text"))
    for k in range(o.layers):
        x = block(o, f"t{k}.", x, TOKENS, True)
    return o.matmul(o.norm(o.end(x, ids), o.weight("tnorm")), o.weight("to_text"))


def make(folder, vocabulary, seed=1, link=True, sizes=None):
    """Writes both networks and their card, and links the vocabulary there; returns the weights."""
    folder, w = pathlib.Path(folder), weights(seed, sizes or SMALL)
    o = Onnx(w)
    onnx.save(o.model("pixel_values", TensorProto.FLOAT, ["batch", 3, 224, 224], image(o, "pixel_values"), "image_embeds"), folder / "clip.onnx")
    o = Onnx(w)
    onnx.save(o.model("input_ids", TensorProto.INT64, ["batch", TOKENS], text(o, "input_ids"), "text_embeds"), folder / "clip-text.onnx")
    card = {"name": "clip-generated", "title": "generated, of no use for pictures", "task": "categorize", "file": "clip.onnx", "license": "CC0-1.0",
            "input": {"width": 224, "height": 224, "layout": "nchw", "batch": "free", "fit": "crop", "scale": 1 / 255, "mean": MEAN, "std": STD},
            "outputs": [{"meaning": "embedding", "name": "image_embeds"}],
            "text": {"file": "clip-text.onnx", "input": "input_ids", "output": "text_embeds",
                     "vocabulary": {"file": pathlib.Path(vocabulary).name, "sources": [{"file": str(pathlib.Path(vocabulary).resolve())}]}}}
    (folder / "clip.json").write_text(json.dumps(card, indent=1))
    if link:
        (folder / pathlib.Path(vocabulary).name).symlink_to(pathlib.Path(vocabulary).resolve())
    return w


if __name__ == "__main__":
    made = make(sys.argv[1], sys.argv[2], sizes=REAL if "--real" in sys.argv else SMALL)
    if "--torch" in sys.argv:
        import onnxruntime
        import torch
        rng, t = np.random.default_rng(2), Torch(made)
        x = rng.normal(size=(3, 3, 224, 224)).astype(np.float32)
        ids = rng.integers(1, WORDS - 2, (3, TOKENS))
        ids[:, 40] = WORDS - 1
        for f, feed, file in ((image, x, "clip.onnx"), (text, ids, "clip-text.onnx")):
            with torch.no_grad():
                want = f(t, torch.from_numpy(feed)).numpy()
            s = onnxruntime.InferenceSession(str(pathlib.Path(sys.argv[1]) / file), providers=["CPUExecutionProvider"])
            print(file, "PyTorch against ONNX Runtime:", np.abs(s.run(None, {s.get_inputs()[0].name: feed})[0] - want).max())
