"""Generated networks with the signature of a published SAM 2.1 for video (image encoder, memory attention, mask decoder, memory encoder, as
NVIDIA's SAM2-ONNX-TRT exports them): not trained, but they follow what a prompt is on. A memory is the colour of each cell and whether the
mask has it; attention looks for cells of that colour near that place.

    sam_video_networks.py FOLDER [SIZE]    writes image_encoder.onnx, memory_attention.onnx, mask_decoder.onnx, memory_encoder.onnx and
                                           their card image_encoder.json

With s = SIZE/16; N objects, M memories, P pointers:
`image` 1 x 3 x SIZE x SIZE -> `pix_feat` 1 x 256 x s x s, `high_res_feat0` 1 x 32 x 4s x 4s, `high_res_feat1` 1 x 64 x 2s x 2s,
`vision_feats` 1 x 256 x s x s, `vision_pos_embed` ss x 1 x 256; `current_vision_feat` and `current_vision_pos_embed` as these two,
`memory_0` N x P x 256, `memory_1` N x M x 64 x s x s, `memory_pos_embed` N x Mss+4P x 64, `cond_frame_id_diff` -> `image_embed` N x 256 x
s x s; `point_coords` N x K x 2, `point_labels` N x K, `image_embed`, `high_res_feats_0`, `high_res_feats_1` -> `obj_ptr` N x 256,
`mask_for_mem` N x 1 x SIZE x SIZE, `pred_mask` N x 1 x 4s x 4s, `iou` and `occ_logit` N x 1; `mask_for_mem`, `pix_feat`, `occ_logit` ->
`maskmem_features` N x 64 x s x s, `maskmem_pos_enc` N x ss x 64, `temporal_code` 7 x 1 x 1 x 64.
"""
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto

import sam_networks

COLOUR, SQUARE, INSIDE, AGE, PLACE = 0, 3, 4, 5, 8  # channels of a memory: colour, its square, in the mask, weight by age; places
WAVES = 14        # of a place, each along x and y
SHARP, NEAR, LOST, MEMORIES = 40.0, 1.2, 0.15, 7


class Onnx(sam_networks.Onnx):
    def shape(self, a, axis): return self.node("Gather", self.node("Shape", a), self.const([axis], np.int64), axis=0)
    def whole(self, *values): return self.node("Concat", *[v if isinstance(v, str) else self.const([v], np.int64) for v in values], axis=0)
    def reshaped(self, a, *shape): return self.node("Reshape", a, self.whole(*shape))
    def expand(self, a, *shape): return self.node("Expand", a, self.whole(*shape))
    def join(self, axis, *parts): return self.node("Concat", *parts, axis=axis)
    def first(self, a, axis, n): return self.node("Slice", a, self.const([0], np.int64), n, self.const([axis], np.int64))
    def larger(self, a, value): return self.node("Cast", self.node("Greater", a, self.const(value)), to=TensorProto.FLOAT)
    def most(self, a, *axes): return self.node("ReduceMax", a, axes=list(axes), keepdims=1)
    def total(self, a, *axes): return self.node("ReduceSum", a, self.const(axes, np.int64), keepdims=1)
    def sigmoid(self, a): return self.node("Sigmoid", a)
    def choose(self, how, a, b): return self.add(self.mul(how, a), self.mul(self.sub(self.const(1), how), b))  # how: 1 or 0

    def larger_picture(self, a, times):
        return self.node("Resize", a, "", self.const([1, 1, times, times]), mode="linear", coordinate_transformation_mode="half_pixel")

    def up_to(self, n):
        """1, 2, 3, ... before n."""
        return self.node("Cast", self.node("Range", self.const(1, np.int64), self.node("Squeeze", n), self.const(1, np.int64)), to=TensorProto.FLOAT)


class Torch(sam_networks.Torch):
    def const(self, value, dtype=np.float32): return super().const(value) if dtype == np.float32 else int(np.asarray(value).item())
    def shape(self, a, axis): return a.shape[axis]
    def reshaped(self, a, *shape): return a.reshape(shape)
    def expand(self, a, *shape): return a.expand(shape)
    def join(self, axis, *parts): return self.t.cat(parts, axis)
    def first(self, a, axis, n): return a.narrow(axis, 0, n)
    def larger(self, a, value): return (a > value).float()
    def most(self, a, *axes): return a.amax(axes, keepdim=True)
    def total(self, a, *axes): return a.sum(axes, keepdim=True)
    def sigmoid(self, a): return a.sigmoid()
    def choose(self, how, a, b): return how * a + (1 - how) * b
    def larger_picture(self, a, times): return self.t.nn.functional.interpolate(a, scale_factor=times, mode="bilinear", align_corners=False)
    def up_to(self, n): return self.t.arange(1, n).float()


def waves(n, size):
    """Of each of n x n cells: its place in cosines and sines, n*n x 4 WAVES."""
    at = sam_networks.places(n, size).T / size
    angle = at[:, :, None] * np.arange(1, WAVES + 1) * np.pi
    return np.concatenate([np.cos(angle), np.sin(angle)], 2).reshape(n * n, -1).astype(np.float32)


def weights(seed=1):
    w = sam_networks.weights(seed)
    rng = np.random.default_rng(seed + 1)
    e = w["embed"].astype(np.float64)
    w["colour"] = np.linalg.pinv(e).astype(np.float32)  # 3 x 256: from an embedding to its colour
    w["fine"] = np.linalg.pinv(w["f0"].astype(np.float64)).astype(np.float32)
    q, _ = np.linalg.qr(np.concatenate([e, rng.normal(size=(256, 2))], 1))
    w["belongs"], w["nothing"] = q[:, 3].astype(np.float32), q[:, 4].astype(np.float32)  # directions that no colour has
    w["ages"] = np.zeros((MEMORIES, 64), np.float32)
    w["ages"][:, AGE] = 2.5 - np.arange(MEMORIES) * 0.4
    w["ages"][MEMORIES - 1, AGE] = 1.0  # of the frame with the prompt
    w["gain"] = np.float32([1.0, 0.9, 0.8, 0.7])  # of a pointer's four tokens
    w["absent"] = rng.normal(size=256).astype(np.float32) * 0.1
    return w


def encoder(o, x, w, size):
    n = size // 16
    f0, f1, embed = sam_networks.encoder(o, x, w, size)
    place = np.zeros((n * n, 1, 256), np.float32)
    place[:, 0, :4 * WAVES] = waves(n, size)
    return {"pix_feat": embed, "high_res_feat0": f0, "high_res_feat1": f1,
            "vision_feats": o.add(embed, o.const(4 * w["nothing"].reshape(1, 256, 1, 1))), "vision_pos_embed": o.const(place)}


def cells(o, embed, w, n):
    """B x n*n x 3: the colours of embedded cells."""
    return o.matmul(o.turn(o.reshape(embed, 0, 256, n * n), 0, 2, 1), o.const(w["colour"].T))


def attention(o, w, size, feat, place, pointers, memories, pos, age):
    n = size // 16
    many, some = o.shape(pointers, 0), o.shape(pointers, 1)
    feat = o.sub(feat, o.const(4 * w["nothing"].reshape(1, 256, 1, 1)))
    tokens = o.reshaped(o.turn(memories, 0, 1, 3, 4, 2), many, -1, 64)
    tokens = o.join(1, tokens, o.reshaped(pointers, many, -1, 64))
    # The ages of pointers: that of the prompt, then 1, 2, 3, ... frames.
    since = o.join(0, o.reshaped(age, 1), o.up_to(some))
    old = o.mul(o.reshaped(since, some, 1, 1), o.const(np.eye(64, dtype=np.float32)[AGE] * -0.1))
    old = o.reshaped(o.expand(old, some, 4, 64), 1, -1, 64)
    there = o.mul(o.shape(memories, 1), o.const([n * n], np.int64))
    keys = o.join(1, o.first(pos, 1, there), o.expand(old, many, o.shape(old, 1), 64))
    keys = o.add(tokens, keys)
    # Near in colour and place: -SHARP |c - d|^2 + NEAR sum cos(p - q) + age
    colour = cells(o, feat, w, n)
    q = np.zeros((3, 64), np.float32)
    q[range(3), range(COLOUR, COLOUR + 3)] = 2 * SHARP
    ones = np.zeros((1, n * n, 64), np.float32)
    ones[:, :, SQUARE], ones[:, :, AGE] = -SHARP, 1
    look = np.zeros((256, 64), np.float32)
    look[range(4 * WAVES), range(PLACE, PLACE + 4 * WAVES)] = NEAR
    query = o.add(o.add(o.matmul(colour, o.const(q)), o.const(ones)), o.matmul(o.turn(place, 1, 0, 2), o.const(look)))
    weight = o.softmax(o.matmul(query, o.turn(keys, 0, 2, 1)))
    seen = o.matmul(o.matmul(weight, tokens), o.const(np.eye(64, dtype=np.float32)[:, [INSIDE]]))  # N x n*n x 1
    belongs = o.reshape(o.mul(seen, o.const(w["belongs"])), 0, n, n, 256)
    return o.add(o.turn(belongs, 0, 3, 1, 2), feat)


def decoder(o, w, size, at, label, embed, f0, f1):
    n, m = size // 16, size // 4
    many = o.shape(at, 0)
    colour = cells(o, embed, w, n)
    fine = o.matmul(o.turn(o.reshape(f0, 1, 32, m * m), 0, 2, 1), o.const(w["fine"].T))  # 1 x m*m x 3

    def distance(c):
        """B x m*m: of the fine colours from one of each object, squared; c: B x 1 x 3."""
        d = o.sub(fine, c)
        return o.sum(o.mul(d, d), 2)

    def mean(weight):
        """B x 1 x 3: the mean colour of cells, B x n*n x 1 of them."""
        return o.div(o.total(o.mul(colour, weight), 1), o.add(o.total(weight, 1), o.const(1e-4)))

    # Of prompts: near the place that points or a box's middle are at, in colour and place.
    upper, lower = (o.sum(o.mul(at, o.reshape(o.equal(label, k), 0, 0, 1)), 1, 1) for k in (2, 3))
    corner = o.add(o.equal(label, 2), o.equal(label, 3))
    boxed = o.most(corner, 1)
    yes = o.equal(label, 1)
    point = o.div(o.sum(o.mul(at, o.reshape(yes, 0, 0, 1)), 1, 1), o.reshape(o.higher(o.sum(yes, 1, 1), o.const(1)), -1, 1, 1))
    point = o.choose(o.reshape(boxed, -1, 1, 1), o.mul(o.add(upper, lower), o.const(0.5)), point)

    def away(k):
        p = o.const(sam_networks.places(k, size).T)  # k*k x 2
        d = o.sub(p, point)
        return o.mul(o.sum(o.mul(d, d), 2), o.const(1 / size ** 2))
    near = o.reshape(o.softmax(o.mul(away(n), o.const(-4.0 * n * n))), 0, n * n, 1)
    reach = o.add(o.mul(boxed, o.const(0.4)), o.const(0.35))  # a box allows for more colours
    prompted = o.sub(reach, o.add(distance(mean(near)), o.mul(away(m), o.const(3.0))))
    # Of memory: what belongs to it, with the colour that it has there.
    belongs = o.matmul(o.turn(o.reshape(embed, 0, 256, n * n), 0, 2, 1), o.const(w["belongs"].reshape(256, 1)))
    inside = o.sigmoid(o.mul(o.sub(belongs, o.const(0.5)), o.const(20.0)))
    wide = o.larger_picture(o.reshape(belongs, 0, 1, n, n), 4)
    remembered = o.sub(o.sub(o.reshape(wide, 0, m * m), o.const(0.25)), o.mul(distance(mean(inside)), o.const(0.5)))
    asked = o.reshape(o.most(o.larger(label, -0.5), 1), -1, 1)
    contrast = o.mul(o.mean(o.abs(f1), 1, 2, 3), o.const(0.01))
    logits = o.clip(o.mul(o.add(o.choose(asked, prompted, remembered), contrast), o.const(30.0)), -32.0, 32.0)
    score = o.choose(asked, o.const(5.0), o.mul(o.sub(o.reshape(o.most(belongs, 1), -1, 1), o.const(LOST)), o.const(10.0)))
    there = o.larger(score, 0.0)
    logits = o.choose(there, logits, o.const(-1024.0))
    sure = o.higher(o.tanh(o.mul(logits, o.const(0.2))), o.const(0.0))
    iou = o.div(o.sum(o.mul(sure, sure), 1, 1), o.add(o.sum(sure, 1, 1), o.const(1.0)))
    low = o.reshape(logits, 0, 1, m, m)
    high = o.sub(o.mul(o.sigmoid(o.larger_picture(low, 4)), o.const(20.0)), o.const(10.0))
    # A pointer: four tokens that look like cells of the thing.
    c = mean(o.choose(o.reshape(asked, -1, 1, 1), near, inside))
    square = o.sum(o.mul(c, c), 2, 1)
    one = o.expand(o.const(np.ones((1, 1, 1))), many, 1, 1)
    token = o.join(2, c, o.reshape(square, 0, 1, 1), one, o.expand(o.const(np.zeros((1, 1, 1))), many, 1, 59))
    pointer = o.reshape(o.mul(token, o.const(w["gain"].reshape(1, 4, 1))), 0, 256)
    pointer = o.choose(there, pointer, o.const(w["absent"].reshape(1, 256)))
    return {"obj_ptr": pointer, "mask_for_mem": high, "pred_mask": low, "iou": iou, "occ_logit": score}


def memory_encoder(o, w, size, mask, feat, score):
    n = size // 16
    many = o.shape(mask, 0)
    inside = o.mul(o.add(o.mean(o.reshape(mask, 0, n, 16, n, 16), 2, 4), o.const(10.0)), o.const(0.05))
    inside = o.mul(o.reshape(inside, 0, n * n, 1), o.reshape(o.larger(score, 0.0), -1, 1, 1))
    colour = o.expand(cells(o, feat, w, n), many, n * n, 3)
    token = o.join(2, colour, o.sum(o.mul(colour, colour), 2, 1), inside, o.expand(o.const(np.zeros((1, 1, 1))), many, n * n, 59))
    place = np.zeros((1, n * n, 64), np.float32)
    place[:, :, PLACE:PLACE + 4 * WAVES] = waves(n, size)
    return {"maskmem_features": o.turn(o.reshape(token, 0, n, n, 64), 0, 3, 1, 2), "maskmem_pos_enc": o.expand(o.const(place), many, n * n, 64),
            "temporal_code": o.const(w["ages"].reshape(MEMORIES, 1, 1, 64))}


def make(folder, size=1024, seed=1):
    """Writes the networks and their card."""
    folder, w, n = pathlib.Path(folder), weights(seed), size // 16
    fixed = {"pix_feat": [1, 256, n, n], "high_res_feat0": [1, 32, 4 * n, 4 * n], "high_res_feat1": [1, 64, 2 * n, 2 * n],
             "vision_feats": [1, 256, n, n], "vision_pos_embed": [n * n, 1, 256]}

    def save(name, inputs, outputs, shapes):
        onnx.save(o.model(inputs, {k: (v, shapes[k]) for k, v in outputs.items()}), folder / f"{name}.onnx")
    o = Onnx()
    save("image_encoder", {"image": [1, 3, size, size]}, encoder(o, "image", w, size), fixed)
    o = Onnx()
    inputs = {"current_vision_feat": fixed["vision_feats"], "current_vision_pos_embed": fixed["vision_pos_embed"],
              "memory_0": ["batch_size", "num", 256], "memory_1": ["batch_size", "buff_size", 64, n, n],
              "memory_pos_embed": ["batch_size", "buff_size_embed", 64], "cond_frame_id_diff": []}
    save("memory_attention", inputs, {"image_embed": attention(o, w, size, *inputs)}, {"image_embed": ["images", 256, n, n]})
    o = Onnx()
    inputs = {"point_coords": ["batch_size", "num_points", 2], "point_labels": ["batch_size", "num_points"],
              "image_embed": ["batch_size", 256, n, n], "high_res_feats_0": fixed["high_res_feat0"], "high_res_feats_1": fixed["high_res_feat1"]}
    save("mask_decoder", inputs, decoder(o, w, size, *inputs),
         {"obj_ptr": ["pointers", 256], "mask_for_mem": ["masks", 1, size, size], "pred_mask": ["masks", 1, 4 * n, 4 * n], "iou": ["masks", 1],
          "occ_logit": ["masks", 1]})
    o = Onnx()
    inputs = {"mask_for_mem": ["batch_size", 1, size, size], "pix_feat": fixed["pix_feat"], "occ_logit": ["batch_size", 1]}
    save("memory_encoder", inputs, memory_encoder(o, w, size, *inputs),
         {"maskmem_features": ["memories", 64, n, n], "maskmem_pos_enc": ["memories", n * n, 64], "temporal_code": [MEMORIES, 1, 1, 64]})
    card = {"name": "sam-video-generated", "title": "generated, not trained", "task": "masks", "file": "image_encoder.onnx", "license": "CC0-1.0",
            "input": {"name": "image", "width": size, "height": size, "layout": "nchw", "scale": 1 / 255, "mean": sam_networks.MEAN,
                      "std": sam_networks.STD},
            "outputs": [{"meaning": "raw", "name": "vision_feats"}],
            "memory": {"attention": {"file": "memory_attention.onnx"}, "decoder": {"file": "mask_decoder.onnx"},
                       "encoder": {"file": "memory_encoder.onnx"}}}
    (folder / "image_encoder.json").write_text(json.dumps(card, indent=1))


if __name__ == "__main__":
    make(sys.argv[1], *map(int, sys.argv[2:3]))
