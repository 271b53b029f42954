"""--smooth and --refine on labelled material: what docs/segment-quality.md says, measured.

Smoothing: people on green screens, whose chroma key is the truth, put over photographs (still,
moving sideways, and over a panning background) with sensor noise and through an encoder; and
clips with object masks. Refining: labelled photographs at frame size, and the labels themselves
made small and brought back. Run by itself it prints the tables. SMOOTH_FRAMES: of each green screen (24)."""
import os
import pathlib
import subprocess
import unittest

import numpy as np

import common

TOOL = os.environ.get("MASK_TOOL", str(common.ROOT / "build/tests/unit/mask_tool"))
STRENGTH = 0.7  # what a bare --smooth means
SIZE = 256
FRAMES = int(os.environ.get("SMOOTH_FRAMES", "24"))  # 40 in the docs


def tool(*args, data):
    p = subprocess.run([TOOL, *map(str, args)], input=data, capture_output=True, check=True)
    return np.frombuffer(p.stdout, np.uint8)


class Model:
    """The public conversion of the selfie network, run as its users run it."""

    def __init__(self):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.net = onnxruntime.InferenceSession(str(common.shared("models/segment/selfie_segmentation.onnx")), options,
                                                providers=["CPUExecutionProvider"])
        self.name = self.net.get_inputs()[0].name

    def mask(self, bgr):
        import cv2
        x = cv2.resize(bgr, (SIZE, SIZE), interpolation=cv2.INTER_AREA)[:, :, ::-1].astype(np.float32) / 255
        p = self.net.run(None, {self.name: x[None]})[0].reshape(SIZE, SIZE)
        return (np.clip(p, 0, 1) * 255 + 0.5).astype(np.uint8)


def luma(bgr):
    return (bgr @ np.array([0.0722, 0.7152, 0.2126]) * 219 / 255 + 16.5).astype(np.uint8)


def read_frames(path, count):
    import cv2
    video, frames = cv2.VideoCapture(str(path)), []
    while len(frames) < count:
        ok, f = video.read()
        if not ok:
            break
        frames.append(f)
    return frames


def through_encoder(frames, folder):
    h, w = frames[0].shape[:2]
    path = pathlib.Path(folder) / "clip.mp4"
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "bgr24", "-s", f"{w}x{h}", "-r", "25",
                    "-i", "-", "-c:v", "libx264", "-crf", "26", "-preset", "fast", "-pix_fmt", "yuv420p", str(path)],
                   input=b"".join(f.tobytes() for f in frames), check=True)
    return read_frames(path, len(frames))


def green_screen(clip, photo, motion, folder):
    """Frames and the truth (share of person in each pixel)."""
    import cv2
    h, w, rng = 480, 640, np.random.default_rng(1)
    back = cv2.resize(cv2.imread(str(photo)), (w + 200, h))
    frames, truth = [], []
    for i, f in enumerate(read_frames(clip, FRAMES)):
        f = cv2.resize(f, (f.shape[1] * h // f.shape[0], h), interpolation=cv2.INTER_AREA)
        excess = f[:, :, 1].astype(int) - np.maximum(f[:, :, 0], f[:, :, 2])
        alpha = np.zeros((h, w), np.float32)
        person = np.zeros((h, w, 3), np.float32)
        f[:, :, 1] = np.minimum(f[:, :, 1], np.maximum(f[:, :, 0], f[:, :, 2]))  # no green spill
        x = (w - f.shape[1]) // 2 + (int(60 * np.sin(i * np.pi / 20)) if motion == "moves" else 0)
        alpha[:, x:x + f.shape[1]] = 1 - np.clip((excess - 20) / 80, 0, 1)
        person[:, x:x + f.shape[1]] = f
        pan = 100 + (int(90 * np.sin(i * np.pi / 25)) if motion == "camera pans" else 0)
        a = alpha[..., None]
        im = back[:, pan:pan + w] * (1 - a) + person * a + rng.normal(0, 3, (h, w, 3))
        frames.append(np.clip(im, 0, 255).astype(np.uint8))
        truth.append(cv2.resize(alpha, (SIZE, SIZE), interpolation=cv2.INTER_AREA))
    return through_encoder(frames, folder), truth


def labelled(folder):
    """A clip with object masks on some frames; truth is None on the others."""
    import cv2
    frames, truth = [], []
    for f in sorted(folder.glob("*.jpg")):
        m = folder.parent.parent / "masks" / folder.name / (f.stem + ".png")
        frames.append(cv2.imread(str(f)))
        label = (cv2.imread(str(m)).max(2) > 0).astype(np.float32) if m.exists() else None
        truth.append(None if label is None else cv2.resize(label, (SIZE, SIZE), interpolation=cv2.INTER_AREA))
    return frames, truth


def iou(masks, truth):
    scores = []
    for m, t in zip(masks, truth):
        if t is not None:
            a, b = m >= 128, t >= 0.5
            scores.append((a & b).sum() / max(1, (a | b).sum()))
    return float(np.mean(scores)) if scores else float("nan")


def flicker(masks, guides, truth):
    """Mean |m(t) - m(t-1)| where neither luma nor truth changed."""
    total = count = 0
    for t in range(1, len(masks)):
        still = np.abs(guides[t].astype(int) - guides[t - 1]) <= 2
        if truth[t] is not None and truth[t - 1] is not None:
            still &= np.abs(truth[t] - truth[t - 1]) < 0.02
        total += np.abs(masks[t].astype(int) - masks[t - 1])[still].sum()
        count += still.sum()
    return total / max(1, count)


class Smooth(common.Case):
    def measure(self, name, frames, truth):
        h, w = frames[0].shape[:2]
        model = Model()
        masks = np.array([model.mask(f) for f in frames])
        data = b"".join(luma(f)[:h, :w].tobytes() for f in frames)
        guides = tool("guide", w, h, SIZE, SIZE, data=data).reshape(-1, SIZE, SIZE)
        data = b"".join(m.tobytes() + g.tobytes() for m, g in zip(masks, guides))
        out = tool("smooth", SIZE, SIZE, STRENGTH, data=data).reshape(-1, SIZE, SIZE)
        row = (name, iou(masks, truth), iou(out, truth), flicker(masks, guides, truth), flicker(out, guides, truth))
        print("| %-30s | %.4f | %.4f | %6.3f | %6.3f | -%.0f %% |" % (*row, 100 - 100 * row[4] / max(row[3], 1e-9)))
        return row

    def test_iou_and_flicker(self):
        rows = []
        print("\n| clip | IoU before | IoU after | flicker before | flicker after | |")
        for clip, photo in (("dhlive_greenscreen_assets", "sam2_groceries"), ("dhlive_greenscreen_assets2", "sam2_truck")):
            for motion in ("still", "moves", "camera pans"):
                frames, truth = green_screen(common.shared(f"media/{clip}.mp4"), common.shared(f"media/{photo}.jpg"),
                                             motion, self.tmp)
                rows.append(self.measure(f"{clip[19:]}, {motion}", frames, truth))
        folder = common.shared("labels/vos/examples/images")
        for clip in ("judo", "bike"):
            rows.append(self.measure(f"vos {clip}", *labelled(folder / clip)))
        before, after = (float(np.mean([r[i] for r in rows])) for i in (1, 2))
        print(f"mean IoU {before:.4f} -> {after:.4f}")
        self.assertGreaterEqual(after, before)
        for name, iou0, iou1, flicker0, flicker1 in rows:
            moving = "still" not in name
            self.assertGreaterEqual(iou1, iou0 - (0 if moving else 0.002), name)
            self.assertLessEqual(flicker1, 0.7 * flicker0, name)


class Refine(common.Case):
    def people(self):
        import cv2
        for path in sorted(common.shared("labels/people/images").glob("*.jpg")):
            im = cv2.imread(str(path))
            label = cv2.imread(str(path.parent.parent / "masks" / (path.stem + ".png")), 0)
            if label is None or (label > 127).sum() < 100:
                continue
            if label.shape != im.shape[:2]:
                label = cv2.resize(label, im.shape[1::-1], interpolation=cv2.INTER_NEAREST)
            yield im, label > 127

    def score(self, p, truth, band):
        q = p >= 128
        return ((q & truth).sum() / max(1, (q | truth).sum()), np.abs(p / 255 - truth)[band].mean(), (q != truth)[band].mean())

    def test_edges(self):
        """Near edges means within 1 % of the height, at least 4 pixels."""
        import cv2
        model = Model()
        kinds = {"network, 256x256": [], "network, made 64x64": [], "labels, made 64x64": []}
        for im, truth in self.people():
            h, w = truth.shape
            t8 = truth.astype(np.uint8)
            far = cv2.distanceTransform(t8, cv2.DIST_L2, 5) + cv2.distanceTransform(1 - t8, cv2.DIST_L2, 5)
            band = far <= max(4, 0.01 * h)
            mask = model.mask(im)
            small = cv2.resize(mask, (64, 64), interpolation=cv2.INTER_AREA)
            label = cv2.resize(t8 * 255, (64, 64), interpolation=cv2.INTER_AREA)
            for name, m in zip(kinds, (mask, small, label)):
                out = tool("refine", w, h, m.shape[1], m.shape[0], data=luma(im).tobytes() + m.tobytes())
                plain, fine = out.reshape(2, h, w)
                kinds[name].append(self.score(plain, truth, band) + self.score(fine, truth, band))
        print("\n| mask | IoU | refined | error near edges | refined | wrong near edges | refined |")
        for name, rows in kinds.items():
            r = np.mean(rows, 0)
            print("| %-20s | %.4f | %.4f | %.4f | %.4f | %.4f | %.4f |" % (name, r[0], r[3], r[1], r[4], r[2], r[5]))
            self.assertGreaterEqual(r[3], r[0] - (0.0001 if "256" in name else 0), name)
            self.assertLess(r[4], r[1], name)
            self.assertLess(r[5], r[2], name)


if __name__ == "__main__":
    common.main()
