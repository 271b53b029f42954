"""tachy compare-mattes against float64 twins of its figures, written from the papers' definitions: on random mattes in
each form that files have, and on mattes that tachy made of the sample clip. Then what its picture shows, and its errors."""
import json
import math
import subprocess

import cv2
import numpy as np

from common import DEPS, Case, ffmpeg, main, run

METRICS = ("iou", "mad", "mse", "gradient", "connectivity", "dtssd", "ghosting", "false_alpha")


def gradient_magnitude(a, sigma=1.4, epsilon=1e-2):
    """Rhemann 2009: first derivatives of a Gaussian, as whole filters of unit L2 norm."""
    reach = math.ceil(sigma * math.sqrt(-2 * math.log(math.sqrt(2 * math.pi) * sigma * epsilon)))
    x = np.arange(-reach, reach + 1, dtype=np.float64)
    g = np.exp(-x ** 2 / (2 * sigma ** 2)) / (sigma * math.sqrt(2 * math.pi))
    h = np.outer(g, -x * g / sigma ** 2)
    h /= math.sqrt((h ** 2).sum())
    gx, gy = (cv2.filter2D(a, cv2.CV_64F, k, borderType=cv2.BORDER_REPLICATE) for k in (h, h.T))
    return np.hypot(gx, gy)


def source_region(a, b):
    """The largest 4-connected region where both are opaque, the first of several."""
    _, labels = cv2.connectedComponents(((a >= 0.99) & (b >= 0.99)).astype(np.uint8), connectivity=4)
    found, first, count = np.unique(labels, return_index=True, return_counts=True)
    sizes = [(-n, at, k) for k, at, n in zip(found, first, count) if k]
    return labels == min(sizes)[2] if sizes else np.zeros(a.shape, bool)


def phi(a, source):
    """Rhemann 2009: 1 - d where d = alpha - the highest threshold that connects a pixel to the source is >= 0.15."""
    level = np.zeros_like(a)
    for t in np.unique(a):
        _, labels = cv2.connectedComponents((a >= t).astype(np.uint8), connectivity=4)
        joined = np.isin(labels, np.unique(labels[source & (a >= t)])) & (labels > 0)
        level[joined] = t
    d = a - level
    return np.where(d >= 0.15, 1 - d, 1)


def judge(mattes, truth):
    """The figures of each frame, and ghosting over the whole clip."""
    frames, ghosts = {m: [] for m in METRICS}, []
    for i, (a, t) in enumerate(zip(mattes, truth)):
        both, either = ((a >= 0.5) & (t >= 0.5)).sum(), ((a >= 0.5) | (t >= 0.5)).sum()
        source = source_region(a, t)
        left = (t < 0.05) & np.any([p > 0.5 for p in truth[max(0, i - 10):i]] + [np.zeros(t.shape, bool)], axis=0)
        ghosts.append(a[left])
        values = {"iou": both / either if either else 1, "mad": np.abs(a - t).mean(), "mse": ((a - t) ** 2).mean(),
                  "gradient": ((gradient_magnitude(a) - gradient_magnitude(t)) ** 2).sum() / 1000,
                  "connectivity": np.abs(phi(a, source) - phi(t, source)).sum() / 1000,
                  "dtssd": np.sqrt((((a - mattes[i - 1]) - (t - truth[i - 1])) ** 2).mean()) if i else None,
                  "ghosting": a[left].mean() if left.any() else None,
                  "false_alpha": ((a > 0.1) & (t < 0.05)).mean()}
        for m in METRICS:
            frames[m].append(values[m])
    all_ghosts = np.concatenate(ghosts)
    return frames, all_ghosts.mean() if all_ghosts.size else None


def random_mattes(rng, count, w, h, levels=255):
    """A blob that wanders off, with soft edges, holes and specks; the last frames are empty."""
    y, x = np.mgrid[:h, :w]
    out = []
    for i in range(count):
        r = np.hypot(x - w * (0.3 + 0.05 * i), (y - h / 2) * 1.3) / (0.3 * h)
        a = np.clip(4 * (1.2 - r) + 0.4 * cv2.GaussianBlur(rng.standard_normal((h, w)), (0, 0), 2) * 4, 0, 1)
        specks = rng.random((h, w))
        a = np.where(specks < 0.02, rng.random((h, w)), np.where(specks > 0.99, 1, a))
        out.append(np.zeros_like(a) if i >= count - 2 else np.round(a * levels) / levels)
    return out


class Compare(Case):
    def write(self, name, mattes, code=lambda a: np.round(a * 255).astype(np.uint8), kind="png"):
        for i, a in enumerate(mattes):
            self.assertTrue(cv2.imwrite(str(self.tmp / f"{name}_{i:03d}.{kind}"), code(a)))
        return self.tmp / f"{name}_%03d.{kind}"

    def compare(self, *args):
        return json.loads(run("compare-mattes", *args, "--json").stdout)

    def check(self, got, mattes, truth, close=2e-5):
        frames, ghosting = judge(mattes, truth)
        for m in METRICS:
            self.assertEqual([v is None for v in got[m]["frames"]], [v is None for v in frames[m]], m)
            have = [v for v in got[m]["frames"] if v is not None]
            want = [v for v in frames[m] if v is not None]
            np.testing.assert_allclose(have, want, rtol=close, atol=close * 1e-2, err_msg=m)
            mean = ghosting if m == "ghosting" else np.mean(want) if want else None
            if mean is None:
                self.assertIsNone(got[m]["mean"])
            else:
                self.assertAlmostEqual(got[m]["mean"], mean, delta=close * max(1, mean))
                worst = (min if m == "iou" else max)(have)
                self.assertEqual((got[m]["worst"], got[m]["worst_frame"]), (worst, got[m]["frames"].index(worst)), m)

    def test_twins_on_random_mattes(self):
        seed = int.from_bytes(np.random.default_rng().bytes(4), "little")
        print(f"seed {seed}")
        rng = np.random.default_rng(seed)
        a, b, truth = (random_mattes(rng, 14, 97, 61) for _ in range(3))
        files = [self.write(n, m) for n, m in (("a", a), ("b", b), ("t", truth))]
        got = self.compare(files[0], files[1], "--truth", files[2])
        self.assertEqual((got["frames"], got["width"], got["height"], got["against"]), (14, 97, 61, str(files[2])))
        self.check(got["judged"][0], a, truth)
        self.check(got["judged"][1], b, truth)
        alone = self.compare(files[0], files[1])
        self.assertEqual(len(alone["judged"]), 1)
        self.check(alone["judged"][0], a, b)

    def test_no_difference(self):
        truth = random_mattes(np.random.default_rng(1), 14, 64, 48)
        name = self.write("t", truth)
        got = self.compare(name, name)["judged"][0]
        self.assertEqual([got[m]["mean"] for m in METRICS if m not in ("ghosting", "iou")], [0] * 6)
        self.assertEqual(got["iou"]["mean"], 1)
        self.check(got, truth, truth)

    def test_every_form_of_a_matte(self):
        """Alpha plane, 16 bits, 10 bits, limited range: the same figures as from 8-bit grey, or close by the rounding."""
        rng = np.random.default_rng(2)
        a, truth = (random_mattes(rng, 4, 66, 50) for _ in range(2))
        grey, t = self.write("a", a), self.write("t", truth)

        def colours(m):
            return np.dstack([np.full(m.shape + (3,), 77, np.uint8), np.round(m * 255).astype(np.uint8)])
        forms = {"rgba": (self.write("rgba", a, colours), 2e-5),
                 "rgb": (self.write("rgb", a, lambda m: np.dstack([np.round(m * 255).astype(np.uint8)] * 3)), 2e-5)}
        np.testing.assert_allclose(*(self.compare(n, t)["judged"][0]["mad"]["frames"] for n in (grey, forms["rgba"][0])))
        # 1023 levels: files of 16 bits are read as 10.
        fine = [np.round(m * 1023) / 1023 for m in a]
        forms["16 bits"] = (self.write("deep", fine, lambda m: np.round(m * 65535).astype(np.uint16)), None)
        for pix in ("gray10le", "yuv444p10le"):
            ffmpeg("-i", forms["16 bits"][0], "-c:v", "ffv1", "-pix_fmt", pix, self.tmp / f"{pix}.mkv")
            forms[pix] = (self.tmp / f"{pix}.mkv", None)
        ffmpeg("-i", grey, "-c:v", "ffv1", "-pix_fmt", "yuva444p", "-vf", "format=gray,split[x][y];[x][y]alphamerge",
               self.tmp / "alpha.mkv")
        forms["yuva444p"] = (self.tmp / "alpha.mkv", 2e-5)
        raw = b"".join(np.round(16 + m * 219).astype(np.uint8).tobytes() + bytes([128]) * (2 * m.size) for m in a)
        subprocess.run(["ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", "yuv444p", "-s", "66x50", "-i", "-", "-c:v",
                        "ffv1", "-color_range", "tv", str(self.tmp / "tv.mkv")], input=raw, check=True)
        limited = [np.round(m * 219) / 219 for m in a]
        self.check(self.compare(self.tmp / "tv.mkv", t)["judged"][0], limited, truth)
        for form, (name, close) in forms.items():
            with self.subTest(form=form):
                got = self.compare(name, t)["judged"][0]
                if close:
                    self.check(got, a, truth, close)
                else:
                    want = np.mean([np.abs(m - x).mean() for m, x in zip(fine, truth)])
                    self.assertLess(abs(got["mad"]["mean"] - want), 1.5 / 1023)
        # swscale's grey of 10 bits keeps what 10 bits hold.
        self.assertLess(self.compare(forms["16 bits"][0], forms["gray10le"][0])["judged"][0]["mad"]["mean"], 1 / 1023)

    def test_twins_on_real_mattes(self):
        clip = DEPS / "media/sample.mp4"
        if not clip.exists():
            self.skipTest("the sample clip is not here")
        mattes = []
        for name, options in (("a", ["--smooth"]), ("t", ["--refine"])):
            run("segment", clip, "--mode", "mask", "--max-frames", "6", *options, "-q", "-o", self.tmp / f"{name}.mkv")
            ffmpeg("-i", self.tmp / f"{name}.mkv", "-fps_mode", "passthrough", "-vf", "scale=192:108:flags=area:out_range=full,format=gray", "-c:v",
                   "ffv1", self.tmp / f"{name}-small.mkv")
            raw = subprocess.run(["ffmpeg", "-v", "error", "-i", self.tmp / f"{name}-small.mkv", "-fps_mode",
                                  "passthrough", "-f", "rawvideo", "-"],
                                 capture_output=True, check=True).stdout
            mattes.append(list(np.frombuffer(raw, np.uint8).reshape(-1, 108, 192) / 255))
        self.assertEqual(len(mattes[0]), 6)
        self.check(self.compare(self.tmp / "a-small.mkv", self.tmp / "t-small.mkv")["judged"][0], *mattes)

    def test_picture(self):
        """Small mattes are shown as they are: the worst frame by the first figure, and where alpha is too much."""
        rng = np.random.default_rng(3)
        a, b, truth = (random_mattes(rng, 5, 80, 60) for _ in range(3))
        files = [self.write(n, m) for n, m in (("a", a), ("b", b), ("t", truth))]
        sheet = self.tmp / "sheet.png"
        worst = self.compare(files[0], files[1], "--truth", files[2], "-o", sheet)["judged"]
        frame = min((j["iou"]["worst"], j["iou"]["worst_frame"]) for j in worst)[1]
        picture = cv2.imread(str(sheet))
        self.assertEqual(picture.shape[1], 6 + 5 * 390)
        y, tiles = 48, []
        for k in range(5):
            tiles.append(picture[y:y + 60, 6 + k * 390:86 + k * 390].astype(int))
        for tile, m in zip(tiles, (a, b, truth)):
            self.assertLessEqual(np.abs(tile - np.round(m[frame] * 255)[:, :, None]).max(), 1)
        for tile, m in zip(tiles[3:], (a, b)):
            d = m[frame] - truth[frame]
            np.testing.assert_array_equal(tile[:, :, 2] > tile[:, :, 0], d > 1e-9)  # red over blue: too much
            np.testing.assert_array_equal(tile.max(axis=2) > 0, np.abs(d) > 1e-9)

    def test_errors(self):
        rng = np.random.default_rng(4)
        a = self.write("a", random_mattes(rng, 5, 40, 30))
        short = self.write("short", random_mattes(rng, 4, 40, 30))
        wide = self.write("wide", random_mattes(rng, 5, 42, 30))
        there = self.tmp / "there.png"
        there.write_text("x")
        for status, words, args in [(1, ["short_%03d.png ends after 4 frames", "a_%03d.png"], (a, short)),
                                    (1, ["ends after 4 frames"], (short, a)), (2, ["two mattes"], (a,)),
                                    (1, ["frame 0 is 40x30", "42x30", "wide"], (a, a, "--truth", wide)),
                                    (1, ["none.png", "No such file"], (a, self.tmp / "none.png")),
                                    (1, ["there.png"], (a, a, "-o", there))]:
            p = run("compare-mattes", *args, check=False)
            self.assertEqual(p.returncode, status, p.stderr)
            for word in words:
                self.assertIn(word, p.stderr)
        self.assertEqual(there.read_text(), "x")


if __name__ == "__main__":
    main()
