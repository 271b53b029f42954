"""tachy quality: made blur, noise and blocking, CleanVision's scores by Pillow and NumPy, duplicates and odd sizes."""
import csv
import io
import json
import signal
import subprocess

import cv2
import numpy as np
from PIL import Image, ImageFilter, ImageStat

import common
from common import DEPS, run


def astronaut():
    return cv2.imread(str(DEPS / "media" / "astronaut.png"))


def cleanvision(path):
    """The six scores of one picture, by the definitions of CleanVision 0.3 (docs/quality.md)."""
    image = Image.open(path)
    image = image if image.mode == "L" else image.convert("RGB")
    a = np.asarray(image).astype(float)
    bright = a / 255 if a.ndim == 2 else np.sqrt(a**2 @ [0.241, 0.691, 0.068]) / 255
    ratio = max(image.size) / 64
    small = image.resize([max(int(n // ratio), 1) for n in image.size]) if ratio > 1 else image
    grey = small.convert("L")
    edges = np.sqrt(ImageStat.Stat(grey.filter(ImageFilter.FIND_EDGES)).var[0])
    spread = 1 - np.exp(-0.01 * np.std(grey.histogram()))
    return {
        "dark_score": np.percentile(bright, 99), "light_score": 1 - np.percentile(bright, 5),
        "odd_aspect_ratio_score": min(image.size) / max(image.size), "low_information_score": min(0.1 * image.entropy(), 1),
        "blurry_score": min(1 - np.exp(-0.01 * edges) + (spread if spread > 0.18 else 0), 1),
        "grayscale_score": float(a.ndim == 3 and (a.max(2) > a.min(2)).any()),
    }


def crete(grey):
    """The blur effect of Crete et al. 2007, equations 1 to 6."""
    def along(f):
        low = np.stack([f[i:len(f) - 8 + i] for i in range(9)]).mean(0)
        before, after = np.abs(np.diff(f[4:-4], axis=0)), np.abs(np.diff(low, axis=0))
        return 1 - np.maximum(before - after, 0).sum() / before.sum()
    return max(along(grey), along(grey.T))


class FrameQuality(common.Case):
    def picture(self, name, image):
        path = self.tmp / name
        cv2.imwrite(str(path), image)
        return path

    def measure(self, *pictures):
        """The values of each picture."""
        (self.tmp / "out").mkdir(exist_ok=True)
        run("quality", *pictures, "-o", f"{self.tmp}/out/", "-y")
        return [json.loads((self.tmp / "out" / f"{p.stem}.quality.jsonl").read_text())["values"] for p in pictures]

    def test_blur(self):
        image = astronaut()
        pictures = [self.picture(f"blur{s}.png", cv2.GaussianBlur(image, (0, 0), s) if s else image) for s in (0, 1, 2, 4, 8)]
        blur = [v["blur"] for v in self.measure(*pictures)]
        self.assertEqual(blur, sorted(blur))
        self.assertLess(blur[0], 0.4)
        self.assertGreater(blur[3], 0.6)
        for path, got in zip(pictures, blur):  # 512 pixels: measured as they are; luma differs by half a code
            rgb = cv2.imread(str(path))[:, :, ::-1].astype(float)
            self.assertAlmostEqual(got, crete(np.round(rgb @ [0.2126, 0.7152, 0.0722])), delta=0.02)

    def test_noise(self):
        rng = np.random.default_rng(1)
        flat = np.full((240, 320), 120.0)
        photo = cv2.resize(cv2.cvtColor(astronaut(), cv2.COLOR_BGR2GRAY), None, fx=2, fy=2, interpolation=cv2.INTER_CUBIC)
        for base, tolerance in ((flat, 0.05), (photo.astype(float), 0.2)):
            for sigma in (3, 6, 12):
                noisy = np.clip(base + rng.normal(0, sigma, base.shape), 0, 255).round().astype(np.uint8)
                got = self.measure(self.picture("noisy.png", noisy))[0]["noise"]
                self.assertAlmostEqual(got / sigma, 1, delta=tolerance, msg=f"sigma {sigma}")
        self.assertLess(self.measure(self.picture("flat.png", flat.astype(np.uint8)))[0]["noise"], 0.1)

    def test_blocking(self):
        image, got = astronaut(), []
        for quality in (5, 10, 20, 60, 95):
            coded = cv2.imdecode(cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])[1], cv2.IMREAD_COLOR)
            got.append(self.measure(self.picture("coded.png", coded))[0]["blocking"])
        self.assertEqual(got, sorted(got, reverse=True))
        self.assertGreater(got[1], 0.3)
        self.assertLess(got[4], 0.06)
        self.assertLess(self.measure(self.picture("plain.png", image))[0]["blocking"], 0.05)

    def test_light_and_colour(self):
        half = np.zeros((100, 200, 3), np.uint8)
        half[:, 100:] = 255
        red = np.zeros((64, 64, 3), np.uint8)
        red[:, :, 2] = 200
        grey = np.full((64, 64, 3), 118, np.uint8)  # 18 % of the light
        a, b, c = self.measure(self.picture("half.png", half), self.picture("red.png", red), self.picture("grey.png", grey))
        self.assertAlmostEqual(a["brightness"], 0.5, delta=0.01)
        self.assertAlmostEqual(a["contrast"], 0.5, delta=0.01)
        self.assertAlmostEqual(a["black"], 0.5, delta=0.01)
        self.assertAlmostEqual(a["clipped"], 0.5, delta=0.01)
        self.assertAlmostEqual(a["aspect"], 2)
        self.assertAlmostEqual(a["megapixels"], 0.02)
        self.assertEqual([a["grey"], b["grey"], c["grey"]], [1, 0, 1])
        self.assertAlmostEqual(c["exposure"], 0, delta=0.05)
        self.assertEqual([b["grayscale_score"], c["grayscale_score"]], [1, 0])

    def test_scores_are_cleanvisions(self):
        image = astronaut()
        pictures = [self.picture("plain.png", image), self.picture("dark.png", image // 8), self.picture("wide.png", image[200:300]),
                    self.picture("light.png", 255 - (255 - image) // 24), self.picture("flat.png", np.full((90, 90, 3), (9, 80, 99), np.uint8)),
                    self.picture("grey.png", cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)), self.picture("tiny.png", cv2.resize(image, (40, 30))),
                    self.picture("soft.png", cv2.GaussianBlur(image, (0, 0), 40))]
        limits = {"dark_score": 0.32, "light_score": 0.05, "odd_aspect_ratio_score": 0.35, "low_information_score": 0.3,
                  "blurry_score": 0.29, "grayscale_score": 0.5}
        for path, got in zip(pictures, self.measure(*pictures)):
            want = cleanvision(path)
            for name, v in want.items():
                self.assertAlmostEqual(got[name], v, delta=0.05, msg=f"{path.name} {name}")
            self.assertEqual(got["issues"], sum(want[name] < limit for name, limit in limits.items()), path.name)

    def test_report(self):
        image = astronaut()
        names = {"a.png": image, "b.png": image, "c.png": image // 2 + 64, "d.png": image[:, ::-1], "huge.png": cv2.resize(image, (2600, 2600))}
        names.update({f"e{i}.png": cv2.resize(np.roll(image, 37 * i + 90, axis=i % 2), (500 + i, 500)) for i in range(9)})
        for name, i in names.items():
            self.picture(name, i)
        run("quality", *(self.tmp / n for n in names), "-o", f"{self.tmp}/out/", "--quality-report", self.tmp / "r.json")
        r = json.loads((self.tmp / "r.json").read_text())

        def groups(key):
            return [{x["input"].rsplit("/", 1)[1] for x in g} for g in r[key]]
        self.assertEqual((r["frames"], r["inputs"]), (14, 14))
        self.assertEqual(groups("exact_duplicates"), [{"a.png", "b.png"}])
        self.assertEqual([g for g in groups("near_duplicates") if "a.png" in g], [{"a.png", "b.png", "c.png", "huge.png"}])
        self.assertEqual([x["input"].rsplit("/", 1)[1] for x in r["odd_size"]], ["huge.png"])
        self.assertEqual(r["values"]["dark_score"]["below"], 0)
        values = [json.loads(p.read_text())["values"]["blur"] for p in (self.tmp / "out").iterdir()]
        self.assertAlmostEqual(r["values"]["blur"]["mean"], np.mean(values), places=5)

    def test_formats(self):
        """The same picture as 8 and 10 bits, limited and full range, RGB: the same values. CSV has what the lines have."""
        src = DEPS / "media" / "astronaut.png"
        got = {}
        for fmt in ("yuv444p", "yuvj444p", "yuv444p10le", "gbrp"):
            common.ffmpeg("-i", src, "-vf", "scale=out_color_matrix=bt709", "-colorspace", "rgb" if fmt == "gbrp" else "bt709",
                          "-pix_fmt", fmt, "-c:v", "ffv1", self.tmp / f"{fmt}.mkv")
            run("quality", self.tmp / f"{fmt}.mkv", "-o", self.tmp / f"{fmt}.jsonl")
            got[fmt] = json.loads((self.tmp / f"{fmt}.jsonl").read_text())["values"]
        for fmt, v in got.items():
            for name in ("blur", "noise", "brightness", "contrast", "dark_score", "low_information_score", "blurry_score"):
                self.assertAlmostEqual(v[name], got["yuv444p"][name], delta=0.1 if name == "noise" else 0.03, msg=f"{fmt} {name}")
        run("quality", self.tmp / "yuv444p.mkv", "-o", self.tmp / "out.csv")
        row = next(csv.DictReader(io.StringIO((self.tmp / "out.csv").read_text())))
        self.assertEqual({k: float(v) for k, v in row.items() if k not in ("frame", "time")}, got["yuv444p"])

    def test_interrupted(self):
        """Ctrl-C ends a run with a report of the frames that were written."""
        p = subprocess.Popen([common.TACHY, "quality", "null:64x64@30,frames=1000000", "-re", "-f", "json", "-o", "-", "--quality-report",
                              str(self.tmp / "r.json")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        p.stdout.readline()
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=120)
        self.assertEqual(p.returncode, 130, err)
        self.assertEqual(json.loads((self.tmp / "r.json").read_text())["frames"], 1 + len(out.splitlines()))

    def test_mistakes(self):
        for args, says in ((("-o", self.tmp / "x.mp4"), "quality writes lines of text"), (("--device", "cuda", "-o", self.tmp / "x.csv"), "CPU only"),
                           (("--quality-report", "r.json", "--parallel", "2", "-o", self.tmp / "x.csv"), "leave --parallel out")):
            p = run("quality", "null:64x64@25,frames=1", *args, check=False)
            self.assertIn(says, p.stderr)
            self.assertIn(p.returncode, (1, 2))
        (self.tmp / "r.json").write_text("mine")
        p = run("quality", "null:64x64@25,frames=1", "-f", "null", "--quality-report", self.tmp / "r.json", "-", check=False)
        self.assertIn("r.json already exists; use -y", p.stderr)
        self.assertEqual((p.returncode, (self.tmp / "r.json").read_text()), (1, "mine"))
        p = run("quality", "null:64x64@25,frames=1", "-o", self.tmp / "y.csv", "--quality-report", self.tmp / "none" / "r.json", check=False)
        self.assertIn("create it or give another --quality-report", p.stderr)
        run("quality", "null:1x1@25,frames=2", "-o", self.tmp / "one.csv")
        self.assertEqual(len((self.tmp / "one.csv").read_text().splitlines()), 3)


if __name__ == "__main__":
    common.main()
