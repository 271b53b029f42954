"""Networks of the size and graph of SAM 2's tiny one (Hiera-T image encoder with its neck; prompt encoder and mask decoder) and of
LaMa (18 residual blocks of fast Fourier convolutions), random weights. Once, over ONNX's or PyTorch's operations: the same graph for both.

    graph_networks.py FOLDER    writes sam2.onnx, sam2-prompts.onnx, lama.onnx and their cards sam2.json, lama.json
"""
import json
import math
import pathlib
import sys

import numpy as np

SIDE, BATCH, FILL_SIDE = 1024, 64, 512


class Weights:
    """By name, made where they are first asked for, the same ones each time."""

    def __init__(self, seed=1):
        self.rng, self.made = np.random.default_rng(seed), {}

    def __call__(self, name, *shape, fan=None, ones=False):
        if name not in self.made:
            w = self.rng.standard_normal(shape, dtype=np.float32)
            self.made[name] = (1 + 0.1 * w if ones else w / np.float32(math.sqrt(fan or shape[0]))).astype(np.float32)
        return self.made[name]


class Onnx:
    def __init__(self, w):
        import onnx
        self.onnx, self.nodes, self.consts, self.w = onnx, [], {}, w

    def node(self, op, *inputs, **attributes):
        out = f"v{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(op, list(inputs), [out], **attributes))
        return out

    def const(self, value, dtype=np.float32, name=None):
        name = name or f"c{len(self.consts)}"
        self.consts[name] = np.asarray(value, dtype)
        return name

    def weight(self, name, *shape, **kw): return self.const(self.w(name, *shape, **kw), name=name)
    def ints(self, *v): return self.const(v, np.int64)
    def add(self, a, b): return self.node("Add", a, b)
    def sub(self, a, b): return self.node("Sub", a, b)
    def mul(self, a, b): return self.node("Mul", a, b)
    def matmul(self, a, b): return self.node("MatMul", a, b)
    def reshape(self, a, *s): return self.node("Reshape", a, self.ints(*s))
    def turn(self, a, *axes): return self.node("Transpose", a, perm=list(axes))
    def softmax(self, a): return self.node("Softmax", a, axis=-1)
    def norm(self, a, n, name): return self.node("LayerNormalization", a, self.weight(name + ".g", n, ones=True), self.weight(name + ".b", n, fan=100), axis=-1, epsilon=1e-6)
    def relu(self, a): return self.node("Relu", a)
    def sigmoid(self, a): return self.node("Sigmoid", a)
    def sin(self, a): return self.node("Sin", a)
    def cos(self, a): return self.node("Cos", a)
    def cat(self, axis, *a): return self.node("Concat", *a, axis=axis)
    def part(self, a, axis, first, end): return self.node("Slice", a, self.ints(first), self.ints(end), self.ints(axis))
    def pick(self, a, axis, at): return self.node("Gather", a, self.const(at, np.int64), axis=axis)
    def pad(self, a, n): return self.node("Pad", a, self.ints(0, 0, 0, 0, 0, n, n, 0))
    def pool(self, a): return self.node("MaxPool", a, kernel_shape=[2, 2], strides=[2, 2])
    def double(self, a): return self.node("Resize", a, "", self.const([1, 1, 2, 2]), mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    def conv(self, a, name, i, o, k, s, p): return self.node("Conv", a, self.weight(name, o, i, k, k, fan=i * k * k), self.weight(name + ".b", o, fan=100), kernel_shape=[k, k], strides=[s, s], pads=[p] * 4)
    def convt(self, a, name, i, o): return self.node("ConvTranspose", a, self.weight(name, i, o, 2, 2, fan=i), self.weight(name + ".b", o, fan=100), kernel_shape=[2, 2], strides=[2, 2])
    def gelu(self, a):
        e = self.node("Erf", self.mul(a, self.const(1 / math.sqrt(2))))
        return self.mul(self.mul(a, self.add(e, self.const(1.0))), self.const(0.5))
    def attend(self, q, k, v, d):
        return self.matmul(self.softmax(self.matmul(self.mul(q, self.const(1 / math.sqrt(d))), self.turn(k, 0, 1, 3, 2))), v)

    def mirror(self, a, n): return self.node("Pad", a, self.ints(0, 0, n, n, 0, 0, n, n), mode="reflect")
    def up3(self, a, name, i, o): return self.node("ConvTranspose", a, self.weight(name, i, o, 3, 3, fan=i * 9 / 4), self.weight(name + ".b", o, fan=100), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, output_padding=[1, 1])

    def spectrum(self, a, h, w):
        """Half of the spectrum of both axes, real parts and then imaginary ones as channels."""
        x = self.node("DFT", self.node("Unsqueeze", a, self.ints(4)), axis=3, onesided=1)
        x = self.mul(self.node("DFT", x, axis=2), self.const(1 / math.sqrt(h * w)))
        return self.cat(1, *(self.node("Gather", x, self.const(k, np.int64), axis=4) for k in range(2)))

    def picture(self, a, n, h, w):
        """Back from there. The half that is left out is the mirror image of the one that is there, so that counts twice."""
        parts = [self.node("Unsqueeze", self.part(a, 1, k, k + n), self.ints(4)) for k in (0, n)]
        x = self.node("DFT", self.cat(4, *parts), axis=2, inverse=1)
        twice = np.full((w // 2 + 1, 1), 2 * math.sqrt(h * w))
        twice[[0, -1]] /= 2
        x = self.node("DFT", self.mul(x, self.const(twice)), self.const(w, np.int64), axis=3, inverse=1)
        return self.node("Gather", x, self.const(0, np.int64), axis=4)

    def equal(self, a, v): return self.node("Cast", self.node("Equal", a, self.const(v)), to=self.onnx.TensorProto.FLOAT)

    def save(self, path, inputs, outputs):
        h, t = self.onnx.helper, self.onnx.TensorProto.FLOAT
        self.nodes += [h.make_node("Identity", [v], [n]) for n, (v, _) in outputs.items()]
        g = h.make_graph(self.nodes, "generated", [h.make_tensor_value_info(n, t, s) for n, s in inputs.items()],
                         [h.make_tensor_value_info(n, t, s) for n, (_, s) in outputs.items()],
                         [self.onnx.numpy_helper.from_array(v, n) for n, v in self.consts.items()])
        self.onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), str(path))


class Torch:
    """Weights are parameters of `module`, so that torch.compile sees a module like any other."""

    def __init__(self, w, module):
        import torch
        self.t, self.f, self.w, self.m = torch, torch.nn.functional, w, module

    def weight(self, name, *shape, **kw):
        key = name.replace(".", "_")
        if not hasattr(self.m, key):
            self.m.register_parameter(key, self.t.nn.Parameter(self.t.from_numpy(self.w(name, *shape, **kw)), requires_grad=False))
        return getattr(self.m, key)

    def const(self, value):
        return value if isinstance(value, float) else self.buffer(value)

    def buffer(self, value):
        n = self.n = getattr(self, "n", 0) + 1
        if not hasattr(self.m, f"const{n}"):
            self.m.register_buffer(f"const{n}", self.t.as_tensor(np.asarray(value, np.float32)))
        return getattr(self.m, f"const{n}")

    def add(self, a, b): return a + b
    def sub(self, a, b): return a - b
    def mul(self, a, b): return a * b
    def matmul(self, a, b): return a @ b
    def reshape(self, a, *s): return a.reshape(*[a.shape[i] if v == 0 else v for i, v in enumerate(s)])
    def turn(self, a, *axes): return a.permute(*axes)
    def softmax(self, a): return a.softmax(-1)
    def norm(self, a, n, name): return self.f.layer_norm(a, (n,), self.weight(name + ".g", n, ones=True), self.weight(name + ".b", n, fan=100), 1e-6)
    def relu(self, a): return a.relu()
    def sigmoid(self, a): return a.sigmoid()
    def sin(self, a): return a.sin()
    def cos(self, a): return a.cos()
    def cat(self, axis, *a): return self.t.cat(a, axis)
    def part(self, a, axis, first, end): return a.narrow(axis, first, end - first)
    def pick(self, a, axis, at): return a.select(axis, at)
    def pad(self, a, n): return self.f.pad(a, (0, 0, 0, n, 0, n))
    def pool(self, a): return self.f.max_pool2d(a, 2)
    def double(self, a): return self.f.interpolate(a, scale_factor=2, mode="nearest")
    def conv(self, a, name, i, o, k, s, p): return self.f.conv2d(a, self.weight(name, o, i, k, k, fan=i * k * k), self.weight(name + ".b", o, fan=100), s, p)
    def convt(self, a, name, i, o): return self.f.conv_transpose2d(a, self.weight(name, i, o, 2, 2, fan=i), self.weight(name + ".b", o, fan=100), 2)
    def mirror(self, a, n): return self.f.pad(a, (n, n, n, n), mode="reflect")
    def up3(self, a, name, i, o): return self.f.conv_transpose2d(a, self.weight(name, i, o, 3, 3, fan=i * 9 / 4), self.weight(name + ".b", o, fan=100), 2, 1, 1)
    def gelu(self, a): return self.f.gelu(a)

    def spectrum(self, a, h, w):
        """In float32, as autocast has it."""
        x = self.t.fft.rfftn(a.float(), dim=(-2, -1), norm="ortho")
        return self.t.cat((x.real, x.imag), 1).to(a.dtype)

    def picture(self, a, n, h, w):
        x = a.float()
        return self.t.fft.irfftn(self.t.complex(x[:, :n], x[:, n:]), s=(h, w), dim=(-2, -1), norm="ortho").to(a.dtype)

    def attend(self, q, k, v, d):
        """As SAM 2's own code does it; what is of one picture is of all prompts."""
        n = max(t.shape[0] for t in (q, k, v))
        return self.f.scaled_dot_product_attention(*(t.expand(n, -1, -1, -1) for t in (q, k, v)))

    def equal(self, a, v): return (a == v).to(a.dtype)


def linear(o, x, name, i, n): return o.add(o.matmul(x, o.weight(name, i, n)), o.weight(name + ".b", n, fan=100))


def block(o, x, name, side, dim, out, heads, window, pool):
    """x: 1 x side x side x dim."""
    short, x = x, o.norm(x, dim, name + ".norm1")
    if dim != out:
        short = linear(o, x, name + ".short", dim, out)
        short = o.turn(o.pool(o.turn(short, 0, 3, 1, 2)), 0, 2, 3, 1)
    w, n = window or side, 1
    whole = side
    if window:
        n = -(-side // window)
        whole = n * window
        if whole != side:
            x = o.pad(x, whole - side)
        x = o.turn(o.reshape(x, 1, n, window, n, window, dim), 0, 1, 3, 2, 4, 5)
    b, d = n * n, out // heads
    x = o.reshape(linear(o, o.reshape(x, b, w * w, dim), name + ".qkv", dim, 3 * out), b, w * w, 3, heads, d)
    q, k, v = (o.pick(x, 2, i) for i in range(3))  # b x ww x heads x d
    if pool:
        q = o.turn(o.pool(o.turn(o.reshape(q, b, w, w, out), 0, 3, 1, 2)), 0, 2, 3, 1)
        w, side, whole = w // 2, side // 2, whole // 2
        q = o.reshape(q, b, w * w, heads, d)
    q, k, v = (o.turn(t, 0, 2, 1, 3) for t in (q, k, v))
    x = o.reshape(o.turn(o.attend(q, k, v, d), 0, 2, 1, 3), b, w * w, out)
    x = linear(o, x, name + ".proj", out, out)
    if window:
        x = o.reshape(o.turn(o.reshape(x, 1, n, n, w, w, out), 0, 1, 3, 2, 4, 5), 1, whole, whole, out)
        if whole != side:
            x = o.part(o.part(x, 1, 0, side), 2, 0, side)
    else:
        x = o.reshape(x, 1, side, side, out)
    x = o.add(short, x)
    y = o.gelu(linear(o, o.norm(x, out, name + ".norm2"), name + ".up", out, 4 * out))
    return o.add(x, linear(o, y, name + ".down", 4 * out, out))


def encoder(o, x):
    x = o.turn(o.conv(x, "patch", 3, 96, 7, 4, 3), 0, 2, 3, 1)
    side, dim, heads, at, levels = SIDE // 4, 96, 1, 0, []
    x = o.add(x, o.weight("place", 1, side, side, dim, fan=25))
    for stage, (depth, window) in enumerate(((1, 8), (2, 4), (7, 14), (2, 7))):
        for k in range(depth):
            first = stage and not k
            w = (8, 8, 4, 14)[stage] if first else 0 if at in (5, 7, 9) else window
            x = block(o, x, f"b{at}", side, dim, dim * 2 if first else dim, heads * (2 if first else 1), w, first)
            if first:
                side, dim, heads = side // 2, dim * 2, heads * 2
            at += 1
        levels.append(o.turn(x, 0, 3, 1, 2))
    f = [o.conv(v, f"neck{i}", 96 * 2 ** i, 256, 1, 1, 0) for i, v in enumerate(levels)]
    embed = o.add(o.add(f[2], o.double(f[3])), o.weight("no_memory", 1, 256, 1, 1, fan=100))
    return o.conv(f[0], "s0", 256, 32, 1, 1, 0), o.conv(f[1], "s1", 256, 64, 1, 1, 0), embed


def cross(o, name, q, k, v, inner, b):
    """Attention of 8 heads; b: of the batch of q, and k's own may be 1."""
    d = inner // 8
    q, k, v = (o.turn(o.reshape(linear(o, t, f"{name}.{n}", 256, inner), n_b, -1, 8, d), 0, 2, 1, 3)
               for n, t, n_b in (("q", q, 0), ("k", k, 0), ("v", v, 0)))
    x = o.reshape(o.turn(o.attend(q, k, v, d), 0, 2, 1, 3), b, -1, inner)
    return linear(o, x, name + ".out", inner, 256)


def mlp(o, x, name, sizes):
    for i in range(len(sizes) - 1):
        x = linear(o, x, f"{name}{i}", sizes[i], sizes[i + 1])
        x = o.relu(x) if i + 2 < len(sizes) else x
    return x


def decoder(o, f0, f1, embed, at, label):
    n, b = SIDE // 16, BATCH
    p = o.mul(at, o.const(2.0 / SIDE))
    p = o.mul(o.matmul(o.add(p, o.const(1.0 / SIDE - 1)), o.weight("gauss", 2, 128, fan=1)), o.const(2 * math.pi))
    p = o.cat(2, o.sin(p), o.cos(p))
    sparse = p
    for v in range(4):
        sparse = o.add(sparse, o.mul(o.reshape(o.equal(label, float(v)), b, -1, 1), o.weight(f"label{v}", 1, 1, 256, fan=25)))
    spread = o.const(np.zeros((b, 1, 1), np.float32))
    tokens = o.add(o.weight("tokens", 1, 6, 256, fan=25), spread)
    none = o.add(o.weight("none", 1, 1, 256, fan=25), spread)
    tokens = o.cat(1, tokens, sparse, none)
    keys = o.turn(o.reshape(o.add(embed, o.weight("no_mask", 1, 256, 1, 1, fan=25)), 1, 256, n * n), 0, 2, 1)
    place = o.weight("dense", 1, n * n, 256, fan=4)
    queries = tokens
    for k in range(2):
        a = f"l{k}"
        kb = 0
        if k:
            q = o.add(queries, tokens)
            queries = o.add(queries, cross(o, a + ".self", q, q, queries, 256, b))
        else:
            queries = cross(o, a + ".self", queries, queries, queries, 256, b)
        queries = o.norm(queries, 256, a + ".n1")
        q, kp = o.add(queries, tokens), o.add(keys, place)
        queries = o.norm(o.add(queries, cross(o, a + ".to", q, kp, keys, 128, b)), 256, a + ".n2")
        queries = o.norm(o.add(queries, mlp(o, queries, a + ".mlp", (256, 2048, 256))), 256, a + ".n3")
        q = o.add(queries, tokens)
        keys = o.norm(o.add(keys, cross(o, a + ".back", kp, q, queries, 128, b)), 256, a + ".n4")
    q, kp = o.add(queries, tokens), o.add(keys, place)
    queries = o.norm(o.add(queries, cross(o, "last", q, kp, keys, 128, b)), 256, "n5")
    up = o.reshape(o.turn(keys, 0, 2, 1), b, 256, n, n)
    up = o.add(o.convt(up, "up1", 256, 64), f1)
    up = o.gelu(o.turn(o.norm(o.turn(up, 0, 2, 3, 1), 64, "upnorm"), 0, 3, 1, 2))
    up = o.gelu(o.add(o.convt(up, "up2", 64, 32), f0))
    hyper = o.cat(1, *[mlp(o, o.part(queries, 1, 3 + i, 4 + i), f"hyper{i}.", (256, 256, 256, 32)) for i in range(3)])
    masks = o.reshape(o.matmul(hyper, o.reshape(up, b, 32, 16 * n * n)), b, 3, 4 * n, 4 * n)
    scores = o.sigmoid(mlp(o, o.reshape(o.part(queries, 1, 1, 2), b, 256), "iou.", (256, 256, 256, 4)))
    return masks, o.part(scores, 1, 1, 4)


def fourier(o, x, name, n, h, w):
    """A convolution of the spectrum, on half as many channels."""
    c = n // 2
    x = o.relu(o.conv(x, name + ".in", n, c, 1, 1, 0))
    y = o.relu(o.conv(o.spectrum(x, h, w), name + ".fu", 2 * c, 2 * c, 1, 1, 0))
    return o.conv(o.add(x, o.picture(y, c, h, w)), name + ".out", c, n, 1, 1, 0)


def near_far(o, near, far, name, n, m, h, w):
    """A fast Fourier convolution: n channels of what is near, m of what is far, each hears of the other."""
    mirrored = o.mirror(near, 1)
    y = o.add(o.conv(mirrored, name + ".ll", n, n, 3, 1, 0), o.conv(o.mirror(far, 1), name + ".gl", m, n, 3, 1, 0))
    z = o.add(o.conv(mirrored, name + ".lg", n, m, 3, 1, 0), fourier(o, far, name + ".gg", m, h, w))
    return o.relu(y), o.relu(z)


def filler(o, image, mask):
    h = w = FILL_SIDE // 8
    n, m = 128, 384
    known = o.mul(image, o.sub(o.const(1.0), mask))
    x = o.relu(o.conv(o.mirror(o.cat(1, known, mask), 3), "first", 4, 64, 7, 1, 0))
    x = o.relu(o.conv(o.mirror(x, 1), "down1", 64, 128, 3, 2, 0))
    x = o.relu(o.conv(o.mirror(x, 1), "down2", 128, 256, 3, 2, 0))
    x = o.mirror(x, 1)
    near, far = (o.relu(o.conv(x, f"down3{k}", 256, c, 3, 2, 0)) for k, c in (("l", n), ("g", m)))
    for k in range(18):
        a, b = near_far(o, near, far, f"r{k}a", n, m, h, w)
        a, b = near_far(o, a, b, f"r{k}b", n, m, h, w)
        near, far = o.add(near, o.mul(a, o.const(0.25))), o.add(far, o.mul(b, o.const(0.25)))
    x = o.cat(1, near, far)
    for name, i, c in (("grow1", 512, 256), ("grow2", 256, 128), ("grow3", 128, 64)):
        x = o.relu(o.up3(x, name, i, c))
    x = o.sigmoid(o.conv(o.mirror(x, 3), "paint", 64, 3, 7, 1, 0))
    return o.add(known, o.mul(x, mask))


FEATURES = {"high_res_feats_0": [1, 32, 256, 256], "high_res_feats_1": [1, 64, 128, 128], "image_embed": [1, 256, 64, 64]}


def make(folder, w=None):
    folder, w = pathlib.Path(folder), w or Weights()
    o = Onnx(w)
    o.save(folder / "sam2.onnx", {"image": [1, 3, SIDE, SIDE]}, {n: (v, s) for (n, s), v in zip(FEATURES.items(), encoder(o, "image"))})
    o = Onnx(w)
    masks, scores = decoder(o, *FEATURES, "point_coords", "point_labels")
    o.save(folder / "sam2-prompts.onnx", {**FEATURES, "point_coords": [BATCH, 1, 2], "point_labels": [BATCH, 1]},
           {"masks": (masks, [BATCH, 3, SIDE // 4, SIDE // 4]), "iou_predictions": (scores, [BATCH, 3])})
    card = {"name": "sam2-size", "task": "masks", "file": "sam2.onnx", "license": "CC0-1.0",
            "input": {"name": "image", "width": SIDE, "height": SIDE, "layout": "nchw", "scale": 1 / 255, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
            "outputs": [{"meaning": "raw", "name": "image_embed"}], "prompts": {"file": "sam2-prompts.onnx"}}
    (folder / "sam2.json").write_text(json.dumps(card))
    o = Onnx(w)
    s = FILL_SIDE
    o.save(folder / "lama.onnx", {"image": [1, 3, s, s], "mask": [1, 1, s, s]}, {"output": (filler(o, "image", "mask"), [1, 3, s, s])})
    card = {"name": "lama-size", "task": "inpaint", "file": "lama.onnx", "license": "CC0-1.0",
            "input": {"name": "image", "hole": "mask", "width": s, "height": s, "layout": "nchw", "scale": 1 / 255},
            "output": {"name": "output", "meaning": "picture"}}
    (folder / "lama.json").write_text(json.dumps(card))
    return w


if __name__ == "__main__":
    made = make(sys.argv[1])
    print(sum(v.size for v in made.made.values()) / 1e6, "M weights")
