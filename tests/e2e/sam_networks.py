"""Generated networks with the signature of a published SAM 2 (image encoder; prompt encoder with mask decoder): not trained, but their
masks follow from the picture, so that filters have something to do. A mask is what is near a point in colour and place.

    sam_networks.py FOLDER [SIZE]    writes sam.onnx, sam-prompts.onnx and their card sam.json

`image` 1 x 3 x S x S -> `high_res_feats_0` 1 x 32 x S/4 x S/4, `high_res_feats_1` 1 x 64 x S/8 x S/8, `image_embed` 1 x 256 x S/16 x S/16;
these, `point_coords` N x P x 2, `point_labels` N x P, `mask_input` and `has_mask_input` -> `masks` N x 3 x S/4 x S/4 (logits),
`iou_predictions` N x 3. S is 1024 as published, or less for tests. The graph stands here once, over ONNX's or PyTorch's operations.
"""
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
NEAR, REACH, STEEP, BIG = (0.9, 0.35, 0.12), 3.0, 24.0, 1e4  # thresholds of the three masks; what a picture's side counts as in colours


class Onnx:
    """Operations of a graph; a value is its name."""

    def __init__(self):
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
    def div(self, a, b): return self.node("Div", a, b)
    def matmul(self, a, b): return self.node("MatMul", a, b)
    def reshape(self, a, *shape): return self.node("Reshape", a, self.const(shape, np.int64))
    def turn(self, a, *axes): return self.node("Transpose", a, perm=list(axes))
    def mean(self, a, *axes): return self.node("ReduceMean", a, axes=list(axes), keepdims=0)
    def sum(self, a, axis, keep=0): return self.node("ReduceSum", a, self.const([axis], np.int64), keepdims=keep)
    def least(self, a, axis): return self.node("ReduceMin", a, axes=[axis], keepdims=0)
    def lower(self, a, b): return self.node("Min", a, b)
    def higher(self, a, b): return self.node("Max", a, b)
    def clip(self, a, lo, hi): return self.node("Clip", a, self.const(lo), self.const(hi))
    def softmax(self, a): return self.node("Softmax", a, axis=-1)
    def tanh(self, a): return self.node("Tanh", a)
    def abs(self, a): return self.node("Abs", a)
    def equal(self, a, value): return self.node("Cast", self.node("Equal", a, self.const(value)), to=TensorProto.FLOAT)
    def part(self, a, axis, at): return self.node("Gather", a, self.const([at], np.int64), axis=axis)

    def model(self, inputs, outputs):
        """name -> shape; name -> (value, shape)."""
        made = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, (_, s) in outputs.items()]
        self.nodes += [helper.make_node("Identity", [v], [n]) for n, (v, _) in outputs.items()]
        graph = helper.make_graph(self.nodes, "generated", [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
                                  made, [numpy_helper.from_array(v, n) for n, v in self.consts.items()])
        m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(m)
        return m


class Torch:
    """The same operations by PyTorch."""

    def __init__(self):
        import torch
        self.t = torch

    def const(self, value): return self.t.as_tensor(np.asarray(value, np.float32))
    def add(self, a, b): return a + b
    def sub(self, a, b): return a - b
    def mul(self, a, b): return a * b
    def div(self, a, b): return a / b
    def matmul(self, a, b): return a @ b
    def reshape(self, a, *shape): return a.reshape(*[a.shape[i] if s == 0 else s for i, s in enumerate(shape)])
    def turn(self, a, *axes): return a.permute(*axes)
    def mean(self, a, *axes): return a.mean(axes)
    def sum(self, a, axis, keep=0): return a.sum(axis, keepdim=bool(keep))
    def least(self, a, axis): return a.amin(axis)
    def lower(self, a, b): return self.t.minimum(a, b)
    def higher(self, a, b): return self.t.maximum(a, b)
    def clip(self, a, lo, hi): return a.clamp(lo, hi)
    def softmax(self, a): return a.softmax(-1)
    def tanh(self, a): return a.tanh()
    def abs(self, a): return a.abs()
    def equal(self, a, value): return (a == value).float()
    def part(self, a, axis, at): return a.narrow(axis, at, 1)


def weights(seed=1):
    rng = np.random.default_rng(seed)
    w = {n: rng.normal(size=(c, 3)).astype(np.float32) / 4 for n, c in (("f0", 32), ("f1", 64), ("embed", 256))}
    e = w["embed"].astype(np.float64)
    w["query"] = (e @ np.linalg.inv(e.T @ e) @ w["f0"].T).astype(np.float32)  # from the embedding of a colour to its fine features
    return w


def places(n, size):
    """Of the n x n cells of a picture of `size` pixels: 2 x n*n."""
    at = (np.arange(n) + 0.5) * size / n
    return np.stack(np.meshgrid(at, at), 0).reshape(2, -1)


def encoder(o, x, w, size):
    def features(name, n, cell):
        pooled = o.mean(o.reshape(x, 1, 3, n, cell, n, cell), 3, 5)
        return o.reshape(o.matmul(o.const(w[name]), o.reshape(pooled, 3, n * n)), 1, len(w[name]), n, n)
    return features("f0", size // 4, 4), features("f1", size // 8, 8), features("embed", size // 16, 16)


def decoder(o, w, size, f0, f1, embed, at, label, mask, has):
    n, m = size // 16, size // 4
    corner0, corner1 = o.equal(label, 2), o.equal(label, 3)
    positive, negative = o.equal(label, 1), o.equal(label, 0)
    corner = o.add(corner0, corner1)  # a box is asked for by its middle
    upper, lower = (o.sum(o.mul(at, o.reshape(c, 0, 0, 1)), 1, 1) for c in (corner0, corner1))
    middle = o.mul(o.add(upper, lower), o.const(0.5))
    inside = o.reshape(corner, 0, 0, 1)
    at = o.add(o.mul(at, o.sub(o.const(1), inside)), o.mul(middle, inside))
    positive = o.add(positive, corner)

    def distance(cells):
        """N x P x cells, shares of the picture's side, squared."""
        p = o.const(places(cells, size))
        dx, dy = (o.sub(o.part(at, 2, k), o.reshape(o.part(p, 0, k), 1, 1, -1)) for k in range(2))
        return o.mul(o.add(o.mul(dx, dx), o.mul(dy, dy)), o.const(1 / size ** 2))
    look = o.softmax(o.mul(distance(n), o.const(-float(n * n))))
    query = o.matmul(o.matmul(look, o.turn(o.reshape(embed, 256, n * n), 1, 0)), o.const(w["query"]))
    f0 = o.reshape(f0, 32, m * m)
    colour = o.add(o.sub(o.sum(o.mul(query, query), 2, 1), o.mul(o.matmul(query, f0), o.const(2.0))), o.sum(o.mul(f0, f0), 0, 1))
    d = o.add(colour, o.mul(distance(m), o.const(REACH)))
    near, away = (o.least(o.add(d, o.reshape(o.mul(o.sub(o.const(1), s), o.const(BIG)), 0, 0, 1)), 1) for s in (positive, negative))
    p = o.const(places(m, size))
    box = o.const(BIG)
    for k in range(2):
        row = o.part(p, 0, k)
        box = o.lower(box, o.sub(row, o.reshape(o.part(upper, 2, k), -1, 1)))
        box = o.lower(box, o.sub(o.reshape(o.part(lower, 2, k), -1, 1), row))
    box = o.add(o.mul(box, o.const(8 / size)), o.mul(o.sub(o.const(1), o.clip(o.sum(corner, 1, 1), 0.0, 1.0)), o.const(BIG)))
    contrast = o.mul(o.mean(o.abs(f1), 1, 2, 3), o.const(0.1))
    m3 = o.sub(o.add(o.reshape(o.const(NEAR), 1, 3, 1), contrast), o.reshape(near, -1, 1, m * m))
    for bound in (o.sub(away, near), box):
        m3 = o.lower(m3, o.reshape(bound, -1, 1, m * m))
    # Near its edge a mask is as soft as the picture is there.
    logits = o.clip(o.mul(m3, o.const(STEEP)), -32.0, 32.0)
    logits = o.add(logits, o.reshape(o.mul(has, o.mean(mask, 1)), 1, 1, m * m))
    sure = o.higher(o.tanh(o.mul(logits, o.const(0.2))), o.const(0.0))  # a mask is good if it is sure of most of itself
    score = o.div(o.sum(o.mul(sure, sure), 2), o.add(o.sum(sure, 2), o.const(1.0)))
    return o.reshape(logits, -1, 3, m, m), score


def make(folder, size=1024, seed=1):
    """Writes both networks and their card; returns the weights."""
    folder, w = pathlib.Path(folder), weights(seed)
    n = {"high_res_feats_0": [1, 32, size // 4, size // 4], "high_res_feats_1": [1, 64, size // 8, size // 8],
         "image_embed": [1, 256, size // 16, size // 16]}
    o = Onnx()
    made = encoder(o, "image", w, size)
    onnx.save(o.model({"image": [1, 3, size, size]}, {k: (v, n[k]) for k, v in zip(n, made, strict=True)}), folder / "sam.onnx")
    o = Onnx()
    masks, scores = decoder(o, w, size, *n, "point_coords", "point_labels", "mask_input", "has_mask_input")
    inputs = {"image_embed": n["image_embed"], **n, "point_coords": ["num_labels", "num_points", 2], "point_labels": ["num_labels", "num_points"],
              "mask_input": ["num_masks", 1, size // 4, size // 4], "has_mask_input": ["num_masks"]}
    onnx.save(o.model(inputs, {"masks": (masks, ["num_labels", 3, size // 4, size // 4]), "iou_predictions": (scores, ["num_labels", 3])}),
              folder / "sam-prompts.onnx")
    card = {"name": "sam-generated", "title": "generated, not trained", "task": "masks", "file": "sam.onnx", "license": "CC0-1.0",
            "input": {"name": "image", "width": size, "height": size, "layout": "nchw", "scale": 1 / 255, "mean": MEAN, "std": STD},
            "outputs": [{"meaning": "raw", "name": "image_embed"}],
            "prompts": {"file": "sam-prompts.onnx", "constants": {"mask_input": 0, "has_mask_input": 0}}}
    (folder / "sam.json").write_text(json.dumps(card, indent=1))
    return w


if __name__ == "__main__":
    make(sys.argv[1], *map(int, sys.argv[2:3]))
