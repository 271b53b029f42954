"""tachy masks: filters and suppression as a twin in NumPy of the reference's steps has them, over ONNX Runtime's results of generated
networks; COCO's run lengths by pycocotools."""
import json
import math
import subprocess
import unittest

import cv2
import numpy as np
import onnx
import onnxruntime
from pycocotools import mask as coco
from pycocotools.coco import COCO

import common
import sam_networks
from common import run

SIZE = 256  # of the encoder's picture in most tests
LOOSE = ("--pred-iou-thresh", 0.5, "--stability-score-thresh", 0.7)


def upsample(logits, w, h):
    """Bilinear, without aligned corners, in float32, as PyTorch's."""
    def axis(n, to):
        at = np.maximum((np.arange(to, dtype=np.float32) + np.float32(0.5)) * np.float32(n / to) - np.float32(0.5), 0)
        first = np.minimum(at.astype(int), n - 1)
        return first, np.minimum(first + 1, n - 1), (at - first).astype(np.float32)
    y0, y1, v = axis(logits.shape[-2], h)
    x0, x1, u = axis(logits.shape[-1], w)
    rows = logits[..., y0, :] * (1 - v)[:, None] + logits[..., y1, :] * v[:, None]
    return rows[..., x0] * (1 - u) + rows[..., x1] * u


def overlap(a, b):
    w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    common_area = max(w, 0) * max(h, 0)
    both = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common_area
    return common_area / both if both else 0


def suppress(found, key, most):
    kept = []
    for f in sorted(found, key=key, reverse=True):
        if all(overlap(f["box"], k["box"]) <= most for k in kept):
            kept.append(f)
    return kept


class Twin:
    """The reference's automatic masks, over networks that ONNX Runtime runs."""

    def __init__(self, folder):
        self.encoder, self.prompts = (onnxruntime.InferenceSession(str(folder / n), providers=["CPUExecutionProvider"])
                                      for n in ("sam.onnx", "sam-prompts.onnx"))

    def see(self, picture):
        h, w = picture.shape[:2]
        size = self.encoder.get_inputs()[0].shape[2]
        how = cv2.INTER_AREA if w > size else cv2.INTER_LINEAR
        x = (cv2.resize(picture.astype(np.float32), (size, size), interpolation=how) / 255 - sam_networks.MEAN) / sam_networks.STD
        names = [o.name for o in self.encoder.get_outputs()]
        self.features = dict(zip(names, self.encoder.run(None, {"image": x.transpose(2, 0, 1)[None].astype(np.float32)}), strict=True))
        self.w, self.h, self.size = w, h, size

    def ask(self, points, labels):
        """Points in pixels of the picture: n x p x 2. Returns logits and scores."""
        at = np.asarray(points, np.float32) * np.float32([self.size / self.w, self.size / self.h])
        return self.prompts.run(["masks", "iou_predictions"], {
            **self.features, "point_coords": at.astype(np.float32), "point_labels": np.asarray(labels, np.float32),
            "mask_input": np.zeros((1, 1, self.size // 4, self.size // 4), np.float32), "has_mask_input": np.zeros(1, np.float32)})

    @staticmethod
    def mend(m, area):
        """Small holes and islands of both kinds, by what the map was."""
        out = m.copy()
        for side, value in ((m <= 0, 10), (m > 0, -10)):
            _, labels, stats, _ = cv2.connectedComponentsWithStats(side.astype(np.uint8), connectivity=8)
            small = [i for i in range(1, len(stats)) if stats[i, cv2.CC_STAT_AREA] <= area]
            out[np.isin(labels, small)] = value
        return out

    def crop(self, picture, box, side, area=0):
        """All masks of a crop with their scores, before any filter."""
        x0, y0, x1, y1 = box
        self.see(picture[y0:y1, x0:x1])
        at = (np.arange(side) + 0.5) / side
        points = np.stack(np.meshgrid(at * self.w, at * self.h), -1).reshape(-1, 1, 2)
        masks, scores = self.ask(points, np.ones((len(points), 1)))
        H, W = picture.shape[:2]
        found = []
        for i in range(len(points)):
            for k in range(3):
                m = upsample(self.mend(masks[i, k], area) if area else masks[i, k], self.w, self.h)
                if not (m > 0).any():
                    continue
                ys, xs = np.nonzero((m > 0).any(1))[0], np.nonzero((m > 0).any(0))[0]
                whole = np.zeros((H, W), bool)
                whole[y0:y1, x0:x1] = m > 0
                b = np.float32([xs[0] + x0, ys[0] + y0, xs[-1] + x0, ys[-1] + y0])
                edge = (abs(b - np.float32(box)) <= 20) & ~(abs(b - np.float32([0, 0, W, H])) <= 20)
                found.append({"mask": whole, "box": b, "score": scores[i, k], "stability": (m > 1).sum() / (m > -1).sum(), "cut": edge.any(),
                              "point": points[i, 0] + [x0, y0], "crop": (x1 - x0) * (y1 - y0)})
        return found

    @staticmethod
    def crops(w, h, layers, ratio=0.3413):
        boxes = [(0, 0, w, h)]
        for layer in range(1, layers + 1):
            n = 2 ** layer
            o = int(np.float32(ratio) * min(w, h) * 2 / n)
            cw, ch = math.ceil((o * (n - 1) + w) / n), math.ceil((o * (n - 1) + h) / n)
            boxes += [(x, y, min(x + cw, w), min(y + ch, h)) for x in ((cw - o) * i for i in range(n)) for y in ((ch - o) * i for i in range(n))]
        return boxes


def between(values, share):
    """A threshold that about this share of the values is below, in the middle of a gap, so that rounding decides nothing."""
    v = np.sort(np.asarray(values, np.float64))
    first = int(len(v) * share)
    near = v[max(first - 4, 0):first + 5]
    i = np.diff(near).argmax()
    return (near[i] + near[i + 1]) / 2


class Masks(common.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        media = common.SHARED / "media"
        cls.photos = [cv2.imread(str(media / n)) for n in ("sam2_truck.jpg", "sam2_groceries.jpg")]
        if any(p is None for p in cls.photos):
            raise unittest.SkipTest("the shared photos are not here")

    def setUp(self):
        super().setUp()
        self.weights = sam_networks.make(self.tmp, SIZE)
        self.twin = Twin(self.tmp)

    def picture(self, photo, side=SIZE):
        """RGB, and its file."""
        p = self.photos[photo]
        p = cv2.resize(p[:min(p.shape[:2]), :min(p.shape[:2])], (side, side), interpolation=cv2.INTER_AREA)
        path = self.tmp / f"{photo}-{side}.png"
        cv2.imwrite(str(path), p)
        return p[:, :, ::-1], path

    def regions(self, path, *args, model="sam.onnx"):
        out = self.tmp / "out.jsonl"
        run("masks", "--model", self.tmp / model, path, "-o", out, "-y", *args)
        frame, = map(json.loads, out.read_text().splitlines())
        self.assertEqual(all(r["segmentation"]["size"] == [frame["height"], frame["width"]] for r in frame["regions"]), True)
        return frame["regions"]

    def hold(self, regions, want):
        """The same masks, each once."""
        self.assertEqual(len(regions), len(want))
        left = list(want)
        for r in regions:
            m = coco.decode(r["segmentation"]).astype(bool)
            best = max(left, key=lambda f: (f["mask"] & m).sum() / (f["mask"] | m).sum())
            left = [f for f in left if f is not best]
            self.assertGreaterEqual((best["mask"] & m).sum() / (best["mask"] | m).sum(), 0.99)
            self.assertAlmostEqual(r["score"], best["score"], delta=2e-3)
            self.assertAlmostEqual(r["values"]["stability"], best["stability"], delta=5e-3)
            self.assertEqual(r["values"]["area"], m.sum())
            x, y, w, h = coco.toBbox(r["segmentation"])
            self.assertEqual(r["box"], [x + w / 2, y + h / 2, w, h])
            if best.get("point") is not None:
                np.testing.assert_allclose(r["points"][0][:2], best["point"], atol=0.01)

    def automatic(self, photo, side, layers=0, area=0, picture_side=SIZE, *args):
        picture, path = self.picture(photo, picture_side)
        crops = [self.twin.crop(picture, b, side, area) for b in Twin.crops(picture_side, picture_side, layers)]
        every = [f for c in crops for f in c]
        good = between([f["score"] for f in every], 0.3)
        stable = between([f["stability"] for f in every if f["score"] > good], 0.3)
        passed = [[f for f in c if f["score"] > good and f["stability"] >= stable and not f["cut"]] for c in crops]
        want = [f for c in passed for f in suppress(c, lambda f: f["score"], 0.7)]
        if layers:
            want = suppress(want, lambda f: 1 / f["crop"], 0.7)
        before = sum(map(len, passed))
        self.assertTrue(len(every) > before > len(want) > 3, (len(every), before, len(want)))  # each step has something to do
        self.hold(self.regions(path, "--points-per-side", side, "--pred-iou-thresh", good, "--stability-score-thresh", stable, "--crop-n-layers",
                               layers, "--min-mask-region-area", area, *args), want)

    def test_a_grid(self):
        for photo in range(2):
            self.automatic(photo, 12)

    def test_a_large_picture_in_odd_batches(self):
        self.automatic(0, 9, 0, 0, 2 * SIZE, "--sam2-batch", 7)

    def test_crops(self):
        self.automatic(1, 6, 1)

    def test_small_holes_and_islands(self):
        self.automatic(0, 10, 0, 12)

    def test_one_run_takes_64_points(self):
        _, path = self.picture(0)
        want = self.regions(path, "--points-per-side", 8, *LOOSE, "--sam2-batch", 5)
        m = onnx.load(self.tmp / "sam-prompts.onnx")  # a network that takes 64 prompts at a time and no other number
        for io in (*m.graph.input, *m.graph.output):
            for d in io.type.tensor_type.shape.dim:
                if d.dim_param in ("num_labels", "num_points"):
                    d.dim_value = 64 if d.dim_param == "num_labels" else 1
        onnx.save(m, self.tmp / "sam-prompts.onnx")
        got = self.regions(path, "--points-per-side", 8, *LOOSE)
        self.assertGreater(len(got), 3)
        self.assertEqual([r["segmentation"] for r in got], [r["segmentation"] for r in want])
        p = run("masks", "--model", self.tmp / "sam.onnx", path, "-o", self.tmp / "x.jsonl", "--sam2-batch", 32, check=False)
        self.assertNotEqual(p.returncode, 0)

    def best(self, points, labels):
        masks, scores = self.twin.ask([points], [labels])
        k = scores[0].argmax()
        m = upsample(masks[0, k], self.twin.w, self.twin.h)
        return {"mask": m > 0, "score": scores[0, k], "stability": (m > 1).sum() / (m > -1).sum()}

    def test_prompts(self):
        picture, path = self.picture(0, 2 * SIZE)
        self.twin.see(picture)
        w, h = self.twin.w, self.twin.h
        one = self.best([[100, 60], [0, 0], [0, 0]], [1, -1, -1])
        self.hold(self.regions(path, "--point", "100,60"), [one])
        less = self.best([[100, 60], [300, 100], [0, 0], [0, 0]], [1, 0, -1, -1])
        self.assertLess(less["mask"].sum(), one["mask"].sum())
        got = self.regions(path, "--point", "100,60,1", "--point", "300,100,0")
        self.hold(got, [less])
        self.assertEqual([p[2:] for p in got[0]["points"]], [[0, 1], [0, 0]])
        self.hold(self.regions(path, "--point", f"{100 / w:%},{60 / h:%}"), [one])
        box = self.best([[40, 30], [240, 200]], [2, 3])
        self.hold(self.regions(path, "--box", "40,30,200,170"), [box])
        other = self.best([[0, 256], [128, 512]], [2, 3])
        self.hold(self.regions(path, "--box", "40,30,200,170", "--box", "0,50%,25%,50%"), [box, other])
        refined = self.best([[40, 30], [240, 200], [60, 190]], [2, 3, 0])
        self.hold(self.regions(path, "--box", "40,30,200,170", "--point", "60,190,0"), [refined])

    def test_what_a_detector_finds(self):
        common.models("face")
        photo = next(iter(sorted((common.SHARED / "media").glob("portrait_*.jpg"))))
        run("detect", "--model", "face", photo, "-o", self.tmp / "faces.jsonl")
        faces = json.loads((self.tmp / "faces.jsonl").read_text())["regions"]
        got = self.regions(photo, "--find", "face")
        self.assertEqual(len(got), len(faces))
        for r, f in zip(got, faces, strict=True):
            self.assertEqual((r.get("label"), r.get("class")), (f.get("label"), f.get("class")))
            x, y, w, h = coco.toBbox(r["segmentation"])
            self.assertTrue(f["box"][0] - f["box"][2] * .52 <= x and x + w <= f["box"][0] + f["box"][2] * .52)
        self.assertEqual(self.regions("null:64x64@25,frames=1", "--find", "face"), [])

    def test_turned_pictures(self):
        picture, path = self.picture(1)
        want, asked = ([coco.decode(r["segmentation"]).astype(bool) for r in self.regions(path, *args)]
                       for args in (("--points-per-side", 8, *LOOSE), ("--point", "60,200")))
        for turn, code in ((90, cv2.ROTATE_90_CLOCKWISE), (180, cv2.ROTATE_180), (270, cv2.ROTATE_90_COUNTERCLOCKWISE)):
            stored, clip = self.tmp / "stored.png", self.tmp / f"turned{turn}.mov"
            cv2.imwrite(str(stored), cv2.rotate(picture[:, :, ::-1], code))
            common.ffmpeg("-i", stored, "-c:v", "png", self.tmp / "plain.mov")
            common.ffmpeg("-i", self.tmp / "plain.mov", "-c", "copy", "-metadata:s:v", f"rotate={turn}", clip)
            for args, all_of in ((("--points-per-side", 8, *LOOSE), want), (("--point", "60,200"), asked)):
                got = [np.rot90(coco.decode(r["segmentation"]), turn // 90).astype(bool) for r in self.regions(clip, *args)]
                self.assertEqual(len(got), len(all_of))
                for m in all_of:
                    self.assertGreater(max((m & n).sum() / (m | n).sum() for n in got), 0.99, (turn, args))

    def test_overlay(self):
        picture, path = self.picture(0)
        regions = self.regions(path, "--points-per-side", 6, *LOOSE)
        run("masks", "--model", self.tmp / "sam.onnx", path, "--points-per-side", 6, *LOOSE, "-o", self.tmp / "over.png")
        seen = np.any(cv2.imread(str(self.tmp / "over.png"))[:, :, ::-1] != picture, 2)
        union = np.any([coco.decode(r["segmentation"]) for r in regions], 0)
        self.assertFalse((seen & ~union).any())
        self.assertGreater(seen.sum(), 0.95 * union.sum())  # a tint may have the colour of what it is over

    def test_white_is_what_inpaint_fills(self):
        picture, path = self.picture(0)
        asked = ("--points-per-side", 3, *LOOSE)
        union = np.any([coco.decode(r["segmentation"]) for r in self.regions(path, *asked)], 0)
        white, filled, clip = self.tmp / "white.png", self.tmp / "filled.png", self.tmp / "turned.mov"
        run("masks", "--model", self.tmp / "sam.onnx", path, *asked, "--white", "-o", white)
        np.testing.assert_array_equal(cv2.imread(str(white), cv2.IMREAD_UNCHANGED), np.where(union, 255, 0))
        run("inpaint", "--hole", white, path, "-o", filled)
        changed = np.any(cv2.imread(str(filled))[:, :, ::-1] != picture, 2)
        self.assertFalse((changed & ~union).any())
        self.assertGreater(changed.sum(), 0.5 * union.sum())
        common.ffmpeg("-i", path, "-c:v", "png", self.tmp / "plain.mov")
        common.ffmpeg("-i", self.tmp / "plain.mov", "-c", "copy", "-metadata:s:v", "rotate=90", clip)
        run("masks", "--model", self.tmp / "sam.onnx", clip, *asked, "--white", "-c:v", "ffv1", "-o", self.tmp / "white.mkv", "-o",
            self.tmp / "white.jsonl")
        frame, = map(json.loads, (self.tmp / "white.jsonl").read_text().splitlines())
        common.ffmpeg("-i", self.tmp / "white.mkv", self.tmp / "shown.png")
        shown = cv2.imread(str(self.tmp / "shown.png"), cv2.IMREAD_GRAYSCALE)
        np.testing.assert_array_equal(shown >= 128, np.rot90(np.any([coco.decode(r["segmentation"]) for r in frame["regions"]], 0)))

    def test_fast_mode(self):
        _, path = self.picture(0)
        self.assertEqual(self.regions(path, "--fast-mode", *LOOSE), self.regions(path, "--points-per-side", 8, *LOOSE))
        small = self.tmp / "small"
        small.mkdir()
        sam_networks.make(small, SIZE // 2)
        zoo = self.tmp / "zoo"
        zoo.mkdir()
        for folder, name, tail in ((self.tmp, "sam-whole", {"smaller": "sam-half"}), (small, "sam-half", {})):
            card = json.loads((folder / "sam.json").read_text()) | {"name": name, "file": f"{name}.onnx"} | tail
            card["prompts"]["file"] = f"{name}-prompts.onnx"
            (zoo / f"{name}.json").write_text(json.dumps(card))
            (zoo / f"{name}.onnx").write_bytes((folder / "sam.onnx").read_bytes())
            (zoo / f"{name}-prompts.onnx").write_bytes((folder / "sam-prompts.onnx").read_bytes())

        def masks(name, *args):
            run("masks", "--model", name, "--model-dir", zoo, path, "-o", self.tmp / "f.jsonl", "-y", *args)
            return json.loads((self.tmp / "f.jsonl").read_text())["regions"]
        self.assertEqual(masks("sam-whole", "--fast-mode", *LOOSE), masks("sam-half", "--points-per-side", 8, *LOOSE))
        self.assertNotEqual(masks("sam-whole", "--fast-mode", *LOOSE), masks("sam-whole", "--points-per-side", 8, *LOOSE))

    def test_a_video_by_several_workers(self):
        clip = self.tmp / "clip.mkv"
        common.ffmpeg("-loop", 1, "-i", self.picture(0)[1], "-vf", "rotate=0.05*n,hue=h=20*n", "-frames:v", 6, "-r", 5, "-c:v", "ffv1", clip)
        lines = []
        for workers in (1, 3):
            run("masks", "--model", self.tmp / "sam.onnx", clip, "--points-per-side", 5, *LOOSE, "--workers", workers, "-o", self.tmp / "v.jsonl", "-y")
            lines.append((self.tmp / "v.jsonl").read_text())
        self.assertEqual(lines[0], lines[1])
        self.assertEqual(len(lines[0].splitlines()), 6)

    def test_pictures_of_a_few_pixels(self):
        for size in ("1x1", "2x3", "3x70"):
            self.regions(f"null:{size}@25,frames=1", "--points-per-side", 3, "--pred-iou-thresh", 0, "--stability-score-thresh", 0, "--crop-n-layers", 2)

    def test_inside_curate(self):
        _, path = self.picture(1)
        want = self.regions(path, "--points-per-side", 6, *LOOSE)
        self.assertGreater(len(want), 1)
        run("curate", "--tasks", "masks,quality", "--masks.model", self.tmp / "sam.onnx", "--masks.points_per_side", 6,
            "--masks.pred_iou_thresh", 0.5, "--masks.stability_score_thresh", 0.7, "--keep", "masks > 1", "--to",
            "coco", path, "-o", self.tmp / "found")
        data = COCO(str(self.tmp / "found" / "coco.json"))
        notes = data.loadAnns(data.getAnnIds())
        self.assertEqual(len(notes), len(want))
        for note, r in zip(notes, want, strict=True):
            m = data.annToMask(note)
            self.assertTrue((m == coco.decode(r["segmentation"])).all())
            self.assertEqual(note["area"], m.sum())
            self.assertNotIn("keypoints", note)

    def test_the_published_size(self):
        """1024 pixels, 256 x 256 logits, 32 x 32 points."""
        folder = self.tmp / "full"
        folder.mkdir()
        sam_networks.make(folder)
        _, path = self.picture(0, 512)
        got = self.regions(path, "--point", "30%,20%", model="full/sam.onnx")
        self.assertEqual(len(got), 1)

    def test_the_same_graph_in_pytorch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is not installed")
        picture, _ = self.picture(0)
        self.twin.see(picture)
        o, rng = sam_networks.Torch(), np.random.default_rng(1)
        x = ((picture / 255 - sam_networks.MEAN) / sam_networks.STD).transpose(2, 0, 1)[None].astype(np.float32)
        at, label = rng.uniform(0, SIZE, (64, 3, 2)).astype(np.float32), rng.integers(-1, 4, (64, 3)).astype(np.float32)
        with torch.no_grad():
            features = sam_networks.encoder(o, torch.from_numpy(x), self.weights, SIZE)
            masks, scores = sam_networks.decoder(o, self.weights, SIZE, *features, torch.from_numpy(at), torch.from_numpy(label),
                                                 torch.zeros(1, 1, SIZE // 4, SIZE // 4), torch.zeros(1))
        want = self.twin.ask(at, label)
        self.assertLess(np.abs(want[0] - masks.numpy()).max(), 2e-2)
        self.assertLess(np.abs(want[1] - scores.numpy()).max(), 1e-4)

    def test_mistakes(self):
        _, path = self.picture(0)
        net, out = ("--model", self.tmp / "sam.onnx"), ("-o", self.tmp / "x.jsonl", "-y")

        def said(*args):
            p = run("masks", *args, *out, check=False)
            self.assertNotEqual(p.returncode, 0, args)
            return p.stderr
        self.assertIn("--model FILE", said(path))
        for text in ("5", "1,2,3", "1,2,1,1", "a,b", "-1,5", "1,2,"):
            self.assertIn("is no point", said(path, *net, f"--point={text}"), text)
        self.assertIn("is no rectangle", said(path, *net, "--box", "1,2,3"))
        self.assertIn("one --box", said(path, *net, "--box", "1,2,3,4", "--box", "1,2,3,4", "--point", "1,2"))
        self.assertIn("one --box", said(path, *net, "--find", "face", "--point", "1,2"))
        self.assertIn("leave --boxes out", said(path, *net, "--white", "--boxes"))
        self.assertIn("up to 16", said(path, *net, *["--point=1,1"] * 17))
        common.models("face")
        self.assertIn('task "masks"', said(path, "--model", "face"))
        card = json.loads((self.tmp / "sam.json").read_text())

        def with_card(change, says):
            c = json.loads(json.dumps(card))
            change(c)
            (self.tmp / "sam.json").write_text(json.dumps(c))
            self.assertIn(says, said(path, *net))
        with_card(lambda c: c.pop("prompts"), "has no `prompts`")
        with_card(lambda c: c["prompts"].pop("file"), "`prompts.file` is missing")
        with_card(lambda c: c["prompts"].update(mask="x"), "`prompts.mask` is not a key of model cards")
        with_card(lambda c: c["prompts"].update(file="none.onnx"), "none.onnx")
        with_card(lambda c: c["prompts"].update(points="corners"), "gives its input point_coords")
        with_card(lambda c: c["prompts"].update(masks="alpha"), "alpha")
        with_card(lambda c: c["prompts"].update(scores="masks"), "gives no score")
        with_card(lambda c: c["prompts"].update(masks="iou_predictions"), "gives no mask")
        with_card(lambda c: c["prompts"]["constants"].pop("mask_input"), "mask_input")
        with_card(lambda c: c["input"].update(fit="letterbox"), "stretch")
        with_card(lambda c: c["prompts"].update(file="sam.onnx"), "sam.onnx")
        (self.tmp / "sam.json").write_text(json.dumps(card))
        (self.tmp / "sam-prompts.onnx").write_bytes((self.tmp / "sam-prompts.onnx").read_bytes()[:3000])
        said(path, *net)


if __name__ == "__main__":
    common.main()
