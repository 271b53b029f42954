"""Boxes, points, classes and vectors out of generated tensors, against plain NumPy written from the published
layout of each family of networks."""
import json
import os
import subprocess
import unittest

import numpy as np

import common

TOOL = os.environ.get("DECODE_TOOL", str(common.ROOT / "build/tests/unit/decode_tool"))


def overlap(a, b):
    """Intersection over union of boxes x0 y0 x1 y1: a [n,4] with b [4]."""
    low, high = np.maximum(a[:, :2], b[:2]), np.minimum(a[:, 2:], b[2:])
    common_area = np.prod(np.maximum(high - low, 0), axis=1)
    area = np.prod(a[:, 2:] - a[:, :2], axis=1) + np.prod(b[2:] - b[:2])
    return common_area / (area - common_area)


def suppress(boxes, scores, classes, most):
    kept = []
    for i in np.argsort(-scores, kind="stable"):
        same = [k for k in kept if classes[k] == classes[i]]
        if not same or overlap(boxes[same], boxes[i]).max() <= most:
            kept.append(i)
    return kept


def corners(centre):
    return np.concatenate([centre[..., :2] - centre[..., 2:] / 2, centre[..., :2] + centre[..., 2:] / 2], axis=-1)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


class Decode(common.Case):
    WIDTH, HEIGHT = 640, 480  # of the frame

    def card(self, outputs, size=(416, 416), fit="stretch"):
        path = self.tmp / "card.json"
        path.write_text(json.dumps({
            "name": "net", "task": "detect", "file": "net.onnx",
            "input": {"width": size[0], "height": size[1], "layout": "nchw", "fit": fit}, "outputs": outputs}))
        return path

    def tool(self, card, tensors, batch=1, item=0, check=True):
        args = []
        for name, t in tensors.items():
            path = self.tmp / f"{len(args)}.npy"
            np.save(path, np.ascontiguousarray(t))
            args.append(f"{name}={path}")
        p = subprocess.run([TOOL, str(card), str(batch), str(item), str(self.WIDTH), str(self.HEIGHT), *args],
                           capture_output=True, text=True, timeout=60)
        if check:
            self.assertEqual(p.returncode, 0, p.stderr)
            return json.loads(p.stdout)["regions"]
        return p

    def on_frame(self, boxes, size, fit="stretch"):
        """Boxes in tensor pixels as centre and extents on the frame."""
        sx, sy, px, py = self.WIDTH / size[0], self.HEIGHT / size[1], 0, 0
        if fit == "letterbox":
            scale = min(size[0] / self.WIDTH, size[1] / self.HEIGHT)
            w, h = round(self.WIDTH * scale), round(self.HEIGHT * scale)
            px, py, sx, sy = (size[0] - w) // 2, (size[1] - h) // 2, self.WIDTH / w, self.HEIGHT / h
        b = (boxes - [px, py, px, py]) * [sx, sy, sx, sy]
        return np.concatenate([(b[:, :2] + b[:, 2:]) / 2, b[:, 2:] - b[:, :2]], axis=1)

    def compare(self, found, boxes, scores, classes, kept, size, fit="stretch"):
        self.assertGreater(len(kept), 3)
        self.assertEqual(len(found), len(kept))
        want = self.on_frame(boxes[kept], size, fit)
        np.testing.assert_allclose([f["box"] for f in found], want, rtol=1e-4, atol=1e-2)
        np.testing.assert_allclose([f["score"] for f in found], scores[kept], rtol=1e-5)
        self.assertEqual([f["class"] for f in found], [int(c) for c in classes[kept]])

    def test_yolox(self):
        rng = np.random.default_rng(1)
        for size, fit in (((416, 416), "letterbox"), ((320, 256), "stretch")):
            strides = [8, 16, 32]
            grid = np.concatenate([np.stack([*np.meshgrid(np.arange(size[0] // s), np.arange(size[1] // s)),
                                             np.full((size[1] // s, size[0] // s), s)], axis=-1).reshape(-1, 3)
                                   for s in strides])
            out = rng.random((2, len(grid), 5 + 7), dtype=np.float32)
            out[..., :4] = rng.normal(0, 0.7, out[..., :4].shape)
            out[..., 2:4] += 1
            o = out[1].astype(np.float64)
            centre = np.concatenate([(o[:, :2] + grid[:, :2]) * grid[:, 2:], np.exp(o[:, 2:4]) * grid[:, 2:]], axis=1)
            scores = o[:, 4] * o[:, 5:].max(axis=1)
            classes = o[:, 5:].argmax(axis=1)
            sel = scores >= 0.9
            b, s, c = corners(centre)[sel], scores[sel], classes[sel]
            card = self.card([{"meaning": "boxes", "form": "yolox", "name": "output", "strides": strides,
                               "threshold": 0.9, "overlap": 0.3}], size, fit)
            found = self.tool(card, {"output": out}, batch=2, item=1)
            self.compare(found, b, s, c, suppress(b, s, c, 0.3), size, fit)

    def yolo(self, columns, objectness, unit):
        rng = np.random.default_rng(2)
        size, n, classes = (320, 320), 500, 4
        o = rng.random((n, 4 + objectness + classes))
        o[:, :2] *= 320
        o[:, 2:4] = 10 + o[:, 2:4] * 60
        centre = o[:, :4].copy()
        if unit == "share":
            o[:, :4] /= 320
        scores = o[:, 4 + objectness:].max(axis=1) * (o[:, 4] if objectness else 1)
        names = o[:, 4 + objectness:].argmax(axis=1)
        sel = scores >= 0.6
        b, s, c = corners(centre)[sel], scores[sel], names[sel]
        out = (o.T if columns else o)[None].astype(np.float32)
        card = self.card([{"meaning": "boxes", "form": "yolo", "name": "o", "columns": columns, "unit": unit,
                           "objectness": objectness, "threshold": 0.6, "overlap": 0.2,
                           "labels": ["cat", "dog", "car", "bus"]}], size)
        found = self.tool(card, {"o": out})
        self.compare(found, b, s, c, suppress(b, s, c, 0.2), size)
        self.assertEqual(found[0]["label"], ["cat", "dog", "car", "bus"][found[0]["class"]])

    def test_yolo_v5_v8_v11(self):
        for columns, objectness, unit in ((False, True, "pixels"), (True, False, "pixels"), (True, False, "share")):
            with self.subTest(columns=columns, unit=unit):
                self.yolo(columns, objectness, unit)

    def ssd(self, exponent, yx, how, points):
        rng = np.random.default_rng(3)
        size, strides, per_cell, classes = (128, 128), [8, 16], [2, 6], 3 if how == "softmax" else 1
        anchors = np.concatenate([
            np.repeat(np.stack(np.meshgrid((np.arange(128 // s) + 0.5) / (128 // s),
                                           (np.arange(128 // s) + 0.5) / (128 // s)), axis=-1).reshape(-1, 2), k, axis=0)
            for s, k in zip(strides, per_cell)])
        n = len(anchors)
        raw = rng.normal(0, 1, (n, 4 + 2 * points))
        logits = rng.normal(0, 2, (n, classes))
        scale, anchor = ([10, 10, 5, 5], [0.2, 0.3]) if exponent else ([128] * 4, [1, 1])
        if not exponent:
            raw = raw * 10
            raw[:, 2:4] = 20 + np.abs(raw[:, 2:4])
        v = raw.copy()
        if yx:
            v = v.reshape(n, -1, 2)[..., ::-1].reshape(n, -1)
        centre = v[:, :2] / scale[:2] * anchor + anchors
        extents = v[:, 2:4] / scale[2:]
        extents = (np.exp(extents) if exponent else extents) * anchor
        boxes = corners(np.concatenate([centre, extents], axis=1)) * 128
        spots = (v[:, 4:].reshape(n, points, 2) / scale[:2] * anchor + anchors[:, None]) * 128
        p = softmax(logits)[:, 1:] if how == "softmax" else sigmoid(logits)
        scores, names = p.max(axis=1), p.argmax(axis=1)
        sel = scores >= 0.95
        b, s, c, k = boxes[sel], scores[sel], names[sel], spots[sel]
        first = 128 // 8 * (128 // 8) * 2
        out = {"b0": raw[None, :first].astype(np.float32), "b1": raw[None, first:].astype(np.float32),
               "s0": logits[None, :first].astype(np.float32), "s1": logits[None, first:].astype(np.float32)}
        entry = {"meaning": "boxes", "form": "ssd", "name": ["b0", "b1"], "scores": ["s0", "s1"], "strides": strides,
                 "per_cell": per_cell, "scale": scale, "anchor": anchor, "points": points, "threshold": 0.95,
                 "extents": "logarithm" if exponent else "linear", "order": "yx" if yx else "xy", "activation": how,
                 "overlap": 0.3}
        if how == "softmax":
            entry["nothing"] = "first"
        found = self.tool(self.card([entry], size), out)
        kept = suppress(b, s, c, 0.3)
        self.compare(found, b, s, c, kept, size)
        if points:
            want = k[kept] * [self.WIDTH / 128, self.HEIGHT / 128]
            np.testing.assert_allclose([np.array(f["points"])[:, :2] for f in found], want, rtol=1e-4, atol=1e-2)

    def test_ssd(self):
        self.ssd(False, False, "sigmoid", 6)  # as BlazeFace
        self.ssd(True, True, "softmax", 0)    # as SSD MobileNet

    def test_ssd_blend(self):
        """Overlapping boxes averaged by score, as MediaPipe does."""
        anchors = np.array([[0.25, 0.25], [0.25, 0.25], [0.75, 0.25], [0.75, 0.25]] +
                           [[0.25, 0.75]] * 2 + [[0.75, 0.75]] * 2)
        raw = np.zeros((8, 4))
        raw[:, 2:] = 60
        raw[:2, 0] = [0, 8]
        logits = np.full((8, 1), -9.0)
        logits[:2, 0] = [2, 1]
        s = sigmoid(logits[:2, 0])
        x = (anchors[:2, 0] * 128 + raw[:2, 0]) @ s / s.sum()
        found = self.tool(self.card([{"meaning": "boxes", "form": "ssd", "name": "b", "scores": "s", "strides": [64],
                                      "per_cell": [2], "scale": 128, "blend": True, "overlap": 0.3,
                                      "activation": "sigmoid"}], (128, 128)),
                          {"b": raw[None].astype(np.float32), "s": logits[None].astype(np.float32)})
        self.assertEqual(len(found), 1)
        np.testing.assert_allclose(found[0]["box"], [x * 5, 32 * 3.75, 60 * 5, 60 * 3.75], rtol=1e-5)
        self.assertAlmostEqual(found[0]["score"], s[0], places=5)

    def test_distances(self):
        """SCRFD: outputs a level without a batch dimension, points apart."""
        rng = np.random.default_rng(4)
        size, strides = (160, 160), [8, 16, 32]
        outs, boxes, spots, scores = {}, [], [], []
        for l, s in enumerate(strides):
            n = 160 // s
            at = np.repeat(np.stack(np.meshgrid(np.arange(n), np.arange(n)), axis=-1).reshape(-1, 2) * s, 2, axis=0)
            d, p = rng.random((len(at), 4)) * 3 + 0.5, rng.normal(0, 1, (len(at), 10))
            c = rng.random((len(at), 1))
            outs[f"s{l}"], outs[f"b{l}"], outs[f"p{l}"] = c, d, p
            boxes.append(np.concatenate([at - d[:, :2] * s, at + d[:, 2:] * s], axis=1))
            spots.append((p * s).reshape(-1, 5, 2) + at[:, None])
            scores.append(c[:, 0])
        b, k, s = np.concatenate(boxes), np.concatenate(spots), np.concatenate(scores)
        sel = s >= 0.9
        b, k, s = b[sel], k[sel], s[sel]
        card = self.card([{"meaning": "boxes", "form": "distances", "name": ["b0", "b1", "b2"],
                           "scores": ["s0", "s1", "s2"], "point_outputs": ["p0", "p1", "p2"], "points": 5,
                           "strides": strides, "per_cell": [2, 2, 2], "centre": 0, "threshold": 0.9,
                           "overlap": 0.4}], size)
        found = self.tool(card, {k: v.astype(np.float32) for k, v in outs.items()})
        names = np.zeros(len(b), int)
        kept = suppress(b, s, names, 0.4)
        self.compare(found, b, s, names, kept, size)
        np.testing.assert_allclose([np.array(f["points"])[:, :2] for f in found], k[kept] * [4, 3], rtol=1e-4, atol=1e-2)

    def test_detr(self):
        rng = np.random.default_rng(5)
        boxes, logits = rng.random((1, 100, 4)), rng.normal(0, 4, (1, 100, 6))
        p = softmax(logits[0])[:, :-1]
        scores, names = p.max(axis=1), p.argmax(axis=1)
        order = [i for i in np.argsort(-scores, kind="stable") if scores[i] >= 0.5]
        card = self.card([{"meaning": "boxes", "form": "detr", "name": "pred_boxes", "scores": "logits",
                           "activation": "softmax"}])
        found = self.tool(card, {"logits": logits.astype(np.float32), "pred_boxes": boxes.astype(np.float32)})
        self.compare(found, corners(boxes[0] * 416), scores, names, np.array(order), (416, 416))

    def test_corners(self):
        """The end of TensorFlow's detectors: y before x, a count, class numbers."""
        boxes = np.sort(np.random.default_rng(6).random((1, 10, 2, 2)), axis=2).reshape(1, 10, 4)
        scores = np.linspace(0.95, 0.5, 10)[None]
        classes = np.arange(10)[None] % 3
        card = self.card([{"meaning": "boxes", "form": "corners", "name": "boxes", "scores": "scores",
                           "classes": "classes", "number": "n", "order": "yx", "threshold": 0.1}])
        found = self.tool(card, {"boxes": boxes.astype(np.float32), "scores": scores.astype(np.float32),
                                 "classes": classes.astype(np.float32), "n": np.array([7], np.float32)})
        self.assertEqual(len(found), 7)
        b = boxes[0, :, [1, 0, 3, 2]].T * 416
        self.compare(found, b, scores[0], classes[0], np.arange(7), (416, 416))

    def test_points(self):
        rng = np.random.default_rng(7)
        v = (rng.random((1, 468 * 3)) * 192).astype(np.float32)
        found = self.tool(self.card([{"meaning": "points", "name": "mesh", "points": 468, "order": "xyz"},
                                     {"meaning": "score", "name": "flag", "activation": "sigmoid"}], (192, 192)),
                          {"mesh": v.reshape(1, 1404, 1, 1), "flag": np.array([[[[2.0]]]], np.float32)})[0]
        want = v.reshape(468, 3) * [640 / 192, 480 / 192, 640 / 192]
        np.testing.assert_allclose(np.array(found["points"])[:, :3], want, rtol=1e-5)
        self.assertAlmostEqual(found["score"], sigmoid(2.0), places=6)
        pose = rng.random((1, 1, 17, 3)).astype(np.float32)  # MoveNet
        found = self.tool(self.card([{"meaning": "points", "name": "pose", "points": 17, "order": "yxs",
                                      "unit": "share"}], (192, 192)), {"pose": pose})[0]
        p = np.array(found["points"])
        np.testing.assert_allclose(p[:, [1, 0, 3]], pose[0, 0] * [480, 640, 1], rtol=1e-5)

    def test_heatmaps(self):
        rng = np.random.default_rng(8)
        maps = rng.random((2, 5, 24, 32)).astype(np.float32)
        for layout in ("nchw", "nhwc"):
            out = maps if layout == "nchw" else maps.transpose(0, 2, 3, 1)
            found = self.tool(self.card([{"meaning": "heatmaps", "name": "m", "points": 5, "layout": layout}],
                                        (128, 96)), {"m": np.ascontiguousarray(out)}, batch=2, item=1)[0]
            for k, p in enumerate(found["points"]):
                m = maps[1, k]
                y, x = np.unravel_index(m.argmax(), m.shape)
                dx = np.sign(m[y, x + 1] - m[y, x - 1]) / 4 if 0 < x < 31 else 0
                dy = np.sign(m[y + 1, x] - m[y - 1, x]) / 4 if 0 < y < 23 else 0
                np.testing.assert_allclose(p, [(x + .5 + dx) * 20, (y + .5 + dy) * 20, 0, m.max()], rtol=1e-5)

    def test_points_that_maps_move(self):
        """To the mean of the sure cells around them; those outside and those where no cell is sure stay."""
        rng = np.random.default_rng(11)
        maps = rng.normal(-3, 3, (2, 24, 32, 6)).astype(np.float32)
        maps[1, :, :, 5] = -1
        at = np.array([[60.5, 50], [1, 2], [127, 95], [-30, 10], [140, 200], [64, 48]], np.float32)
        found = self.tool(self.card([{"meaning": "points", "name": "p", "points": 6, "heatmaps": "m", "window": 5}], (128, 96)),
                          {"p": np.stack([at[::-1], at]).reshape(2, 12), "m": maps}, batch=2, item=1)[0]
        v, want = sigmoid(maps[1].astype(np.float64)), at.astype(np.float64)
        for k, (x, y) in enumerate(at[:3]):
            rows, cols = (np.arange(max(int(c / 4) - 2, 0), min(int(c / 4) + 3, n)) for c, n in ((y, 24), (x, 32)))
            near = v[rows[0]:rows[-1] + 1, cols[0]:cols[-1] + 1, k]
            self.assertGreater(near.max(), 0.5)
            want[k] = 4 * near.sum(0) @ cols / near.sum(), 4 * near.sum(1) @ rows / near.sum()
        np.testing.assert_allclose(np.array(found["points"])[:, :2], want * 5, rtol=1e-4)

    def test_points_in_the_place_of_others(self):
        """Those keep their depth, new ones get the mean depth that the card says."""
        rng = np.random.default_rng(12)
        base, eye, iris = rng.random((6, 3)) * 90, rng.random((3, 2)) * 90, rng.random((2, 2)) * 90
        found = self.tool(self.card([{"meaning": "points", "name": "p", "points": 6, "order": "xyz"},
                                     {"meaning": "points", "name": "e", "points": 3, "at": [4, 0, 2]},
                                     {"meaning": "points", "name": "i", "points": 2, "at": [6, 7], "depth_of": [0, 2]}], (128, 96)),
                          {k: v.astype(np.float32).reshape(1, -1) for k, v in (("p", base), ("e", eye), ("i", iris))})[0]
        want = np.concatenate([base, np.zeros((2, 3))])
        want[[4, 0, 2], :2], want[6:, :2], want[6:, 2] = eye, iris, base[[0, 2], 2].mean()
        np.testing.assert_allclose(np.array(found["points"])[:, :3], want * 5, rtol=1e-4)
        self.assertEqual([p[3] for p in found["points"]], [1] * 8)

    def test_classes_and_vectors(self):
        rng = np.random.default_rng(9)
        logits, vector = rng.normal(0, 3, (1, 8)), rng.normal(0, 1, (1, 128)).astype(np.float16)
        names = [f"thing {i}" for i in range(8)]
        found = self.tool(self.card([{"meaning": "classes", "name": "l", "activation": "softmax", "top": 3,
                                      "labels": names}, {"meaning": "embedding", "name": "v"}]),
                          {"l": logits.astype(np.float32), "v": vector})[0]
        p = softmax(logits[0])
        order = np.argsort(-p)[:3]
        self.assertEqual(list(found["values"]), [names[i] for i in order])
        np.testing.assert_allclose(list(found["values"].values()), p[order], rtol=1e-5)
        self.assertEqual(found["label"], names[order[0]])
        v = vector[0].astype(np.float64)
        np.testing.assert_allclose(found["embedding"], v / np.linalg.norm(v), rtol=1e-5, atol=1e-7)

    def test_nan_and_inf_are_no_boxes(self):
        out = np.full((1, 20, 9), np.nan, np.float32)
        out[0, 5:10] = np.inf
        out[0, 10:, 4:] = 0.9
        card = self.card([{"meaning": "boxes", "form": "yolo", "name": "o", "objectness": True}])
        self.assertEqual(self.tool(card, {"o": out}), [])

    def test_what_does_not_fit_is_named(self):
        entry = {"meaning": "boxes", "form": "yolox", "name": "output", "strides": [8, 16, 32]}
        p = self.tool(self.card([entry]), {"output": np.zeros((1, 3548, 85), np.float32)}, check=False)
        self.assertEqual(p.returncode, 1)
        self.assertIn("`output` has 301580 numbers a picture, which are no 3549 boxes", p.stderr)
        p = self.tool(self.card([{**entry, "labels": ["a", "b"]}]), {"output": np.zeros((1, 3549, 85), np.float32)},
                      check=False)
        self.assertIn("has 80 classes, but the card or --labels names 2", p.stderr)
        p = self.tool(self.card([{**entry, "strides": 8}]), {"output": np.zeros((1, 3549, 85), np.float32)}, check=False)
        self.assertIn("`outputs[0].strides` must be an array", p.stderr)
        p = self.tool(self.card([{"meaning": "points", "name": "x", "points": 3, "order": "xq"}]),
                      {"x": np.zeros((1, 9), np.float32)}, check=False)
        self.assertIn("must have a letter for each number of a point", p.stderr)
        for more, says in (({"heatmaps": "m", "window": 4}, "must be odd"), ({"heatmaps": "m"}, "`m` has no map for each of the card's 3"),
                           ({"heatmaps": "none"}, "names the output `none`, which the model does not have"),
                           ({"at": [0, 1, 2]}, "needs an entry with the meaning points before"),
                           ({"at": [0, 1]}, "as many numbers as there are `points`"), ({"at": [0, -1, 2]}, "must be numbers of points"),
                           ({"depth_of": [0]}, "is for points with `at`")):
            p = self.tool(self.card([{"meaning": "points", "name": "x", "points": 3, **more}]),
                          {"x": np.zeros((1, 6), np.float32), "m": np.zeros((1, 8, 8, 4), np.float32)}, check=False)
            self.assertNotEqual(p.returncode, 0)
            self.assertIn(says, p.stderr)


if __name__ == "__main__":
    common.main()
