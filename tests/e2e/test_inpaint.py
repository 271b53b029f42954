"""tachy inpaint: holes of pictures beside OpenCV's Telea, clips whose content is known, formats, and what is refused."""
import json
import os
import subprocess

import cv2
import lama_networks
import numpy as np
import onnxruntime

import common
from common import DEPS, run


def psnr(a, b, where):
    return 10 * np.log10(255**2 / max(((a.astype(float) - b)[where] ** 2).mean(), 1e-9))


class Pictures(common.Case):
    def setUp(self):
        super().setUp()
        self.wall = cv2.imread(str(DEPS / "media" / "astronaut.png"))

    def write(self, name, picture):
        cv2.imwrite(str(self.tmp / name), picture)
        return self.tmp / name

    def fill(self, picture, hole):
        out = self.tmp / "out.png"
        run("inpaint", "--hole", self.write("hole.png", hole), self.write("in.png", picture), "-o", out, "-y")
        return cv2.imread(str(out))

    def clip(self, frames, name, pix="bgr0"):
        h, w = frames[0].shape[:2]
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "bgr24", "-s", f"{w}x{h}", "-r", "25", "-i", "-",
                        "-c:v", "ffv1", "-pix_fmt", pix, str(self.tmp / name)], input=b"".join(f.tobytes() for f in frames), check=True)
        return self.tmp / name

    def frames(self, path, pix="bgr24", size=(320, 240)):
        raw = subprocess.run(["ffmpeg", "-v", "error", "-i", str(path), "-f", "rawvideo", "-pix_fmt", pix, "-"], check=True,
                             capture_output=True).stdout
        return np.frombuffer(raw, np.uint8).reshape(-1, size[1], size[0], 3)

    def walk(self, n):
        """A pan, with an ellipse that goes another way in front of it."""
        true, bad, holes = [], [], []
        for i in range(n):
            f = self.wall[120 + 2 * i:360 + 2 * i, 60 + 4 * i:380 + 4 * i].copy()
            m = np.zeros(f.shape[:2], np.uint8)
            cv2.ellipse(m, (60 + 9 * i, 110), (26, 44), 0, 0, 360, 255, -1)
            true.append(f)
            bad.append(np.where(m[..., None] > 0, np.uint8([20, 200, 60]), f))
            holes.append(m)
        return true, bad, holes


class Inpaint(Pictures):
    def test_turned(self):
        """A video or picture of holes is as the input is shown, however either is stored."""
        wall = self.wall[:240, :320]
        hole = np.zeros(wall.shape[:2], np.uint8)
        hole[20:60, 200:280] = 255
        plain, turned = self.tmp / "plain.mov", self.tmp / "turned.mov"
        common.ffmpeg("-i", self.clip([wall] * 2, "in.mkv"), "-c:v", "png", "-pix_fmt", "rgb24", plain)
        for degrees, k in ((90, 1), (180, 2), (270, 3)):
            common.ffmpeg("-i", plain, "-c", "copy", "-metadata:s:v", f"rotate={degrees}", turned)
            shown, there = np.rot90(wall, k), np.rot90(hole, k)
            masks = self.clip([cv2.cvtColor(there, cv2.COLOR_GRAY2BGR)] * 2, "holes.mkv")
            stored = self.tmp / "stored.mov"  # masks that are stored as the input is
            common.ffmpeg("-i", self.clip([cv2.cvtColor(hole, cv2.COLOR_GRAY2BGR)] * 2, "plain.mkv"), "-c:v", "png", self.tmp / "masks.mov")
            common.ffmpeg("-i", self.tmp / "masks.mov", "-c", "copy", "-metadata:s:v", f"rotate={degrees}", stored)
            for given in (masks, stored):
                run("inpaint", "--hole", given, turned, "-c:v", "ffv1", "-o", self.tmp / "out.mkv", "-y")
                got = self.frames(self.tmp / "out.mkv", size=shown.shape[1::-1])[0]
                changed = (got != shown).any(2)
                self.assertFalse((changed & (there == 0)).any(), (degrees, given))
                self.assertGreater(changed[there > 0].mean(), 0.5)

    def test_pictures_beside_telea(self):
        ours, telea = [], []
        for seed in range(6):
            rng = np.random.default_rng(seed)
            x, y = rng.integers(0, 150, 2)
            whole = self.wall[y:y + 300, x:x + 300]
            hole = np.zeros(whole.shape[:2], np.uint8)
            cv2.ellipse(hole, (int(rng.integers(60, 240)), int(rng.integers(60, 240))), (32, 24), float(rng.integers(180)), 0, 360, 255, -1)
            cv2.line(hole, (int(rng.integers(300)), 0), (int(rng.integers(300)), 299), 255, 3)
            bad = whole.copy()
            bad[hole > 0] = 0
            got = self.fill(bad, hole)
            self.assertTrue((got[hole == 0] == whole[hole == 0]).all())
            ours.append(psnr(got, whole, hole > 0))
            telea.append(psnr(cv2.inpaint(bad, hole, 3, cv2.INPAINT_TELEA), whole, hole > 0))
        print(f"PSNR in holes {np.mean(ours):.2f} dB, Telea {np.mean(telea):.2f} dB")
        self.assertGreater(np.mean(ours), np.mean(telea))

    def test_clip_shows_what_is_behind(self):
        """Other frames show nearly all of it: far better than each frame alone, and nothing else changes."""
        true, bad, holes = self.walk(16)
        masks = self.clip([cv2.cvtColor(m, cv2.COLOR_GRAY2BGR) for m in holes], "holes.mkv")
        out = self.tmp / "out.mkv"
        run("inpaint", "--hole", masks, self.clip(bad, "in.mkv"), "-c:v", "ffv1", "-o", out)
        got = self.frames(out)
        self.assertEqual(len(got), len(true))
        self.assertTrue(all((g[m == 0] == t[m == 0]).all() for g, t, m in zip(got, true, holes)))
        together = np.mean([psnr(g, t, m > 0) for g, t, m in zip(got, true, holes)])
        alone = np.mean([psnr(self.fill(bad[i], holes[i]), true[i], holes[i] > 0) for i in (2, 8, 14)])
        print(f"as a clip {together:.1f} dB, each frame alone {alone:.1f} dB")
        self.assertGreater(together, alone + 5)

    def test_what_is_invented_stays(self):
        """A hole that nothing ever uncovers looks the same in all frames of a still clip."""
        frame = self.wall[:240, :320]
        out = self.tmp / "out.mkv"
        run("inpaint", "--hole", "100,60,80,70", self.clip([frame] * 6, "in.mkv"), "-c:v", "ffv1", "-o", out)
        got = self.frames(out).astype(int)
        self.assertLessEqual(np.abs(got - got[0]).max(), 2)
        self.assertGreater(np.abs(got[0] - frame)[60:130, 100:180].max(), 0)

    def test_formats(self):
        """Inside of the hole samples change, outside none does, whatever they are made of."""
        frame = self.wall[100:340, 100:420]
        for pix in ("yuv420p", "yuv422p10le", "yuv444p", "gray", "bgr0"):
            clip = self.tmp / f"{pix}.mkv"
            subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "bgr24", "-s", "320x240", "-r", "25", "-i", "-", "-c:v",
                            "ffv1", "-pix_fmt", pix, str(clip)], input=frame.tobytes() * 2, check=True)
            out = self.tmp / f"out-{pix}.mkv"
            run("inpaint", "--hole", "50%,40,20%,64", clip, "-c:v", "ffv1", "-o", out)
            a, b = (self.frames(p, "rgb24").astype(int) for p in (clip, out))
            changed = np.abs(a - b).max(axis=(0, 3)) > 8
            self.assertTrue(changed[44:100, 164:220].mean() > 0.3, pix)
            changed[38:106, 158:226] = False
            self.assertFalse(changed.any(), pix)

    def test_small_and_whole(self):
        one = self.write("one.png", np.full((1, 1, 3), 7, np.uint8))
        run("inpaint", "--hole", "0,0,1,1", one, "-o", self.tmp / "a.png")
        self.assertEqual(cv2.imread(str(self.tmp / "a.png")).shape, (1, 1, 3))
        run("inpaint", "--hole", "0,0,100%,100%", self.write("in.png", self.wall[:64, :64]), "-o", self.tmp / "b.png")
        self.assertLessEqual(int(np.ptp(cv2.imread(str(self.tmp / "b.png")))), 8)  # one grey

    def test_people(self):
        """Without --hole people go. The network finds the astronaut, and what remains shows no more of her."""
        wall = np.full((480, 640, 3), (180, 150, 120), np.uint8)
        picture = wall.copy()
        picture[:, 64:576] = self.wall[16:496]
        out = self.tmp / "out.png"
        run("inpaint", "--focus", "off", self.write("in.png", picture), "-o", out)
        got = cv2.imread(str(out)).astype(int)
        face = (slice(80, 180), slice(260, 330))
        self.assertGreater(np.abs(got - picture)[face].mean(), 20)

    def test_refused(self):
        clip = self.write("in.png", self.wall[:64, :64])
        for args, words in ((["--hole", "nothing.png"], "neither a rectangle"), (["--hole", "1,2,0,4"], "neither a rectangle")):
            p = run("inpaint", *args, clip, "-o", self.tmp / "x.png", check=False)
            self.assertEqual(p.returncode, 1)
            self.assertIn(words, p.stderr)
        for hole in ("64,2,3,4", "0,100%,3,4"):
            p = run("inpaint", "--hole", hole, clip, "-o", self.tmp / "x.png", check=False)
            self.assertEqual(p.returncode, 2)
            self.assertIn(f"--hole: {hole} is outside of the picture, which has 64x64 pixels", p.stderr)


def parts(side, begin, end, scale, size):
    """Where along an axis windows of the network's `side` begin that show begin..end of `size` pixels, and how long they are."""
    long, around = int(np.ceil(side * scale)), int(side // 8 * scale)
    lo, hi = max(begin - around, 0), min(end + around, size)
    n = max(1, int(np.ceil((hi - lo - long // 4) / (long - long // 4))))
    middles = (lo + hi) / 2 + (np.arange(n) - (n - 1) / 2) * ((hi - lo - long) / max(n - 1, 1))
    at = np.floor(middles - long / 2 + 0.5).astype(int)
    return [(size - long) // 2] if long > size else list(np.clip(at, 0, size - long)), long


class Network(Pictures):
    """--fill with a generated network of LaMa's signature, beside a loop over ONNX Runtime's own package."""

    def setUp(self):
        super().setUp()
        self.side = 96
        self.net = lama_networks.make(self.tmp, self.side)

    def infer(self, net, image, mask):
        """R, G, B of any size, 0 to 255, and where it is to be filled."""
        session = onnxruntime.InferenceSession(str(net))
        white = 255 if net.stem != "unit" else 1
        x = np.float32(image / 255).transpose(2, 0, 1)[None]
        return session.run(None, {"image": x, "mask": np.float32(mask)[None, None]})[0][0].transpose(1, 2, 0) * (255 / white)

    def test_the_same_graph_in_pytorch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is not installed")
        rng = np.random.default_rng(1)
        image, mask = rng.uniform(0, 255, (self.side, self.side, 3)), np.float32(rng.uniform(size=(self.side, self.side)) > 0.5)
        with torch.no_grad():
            want = lama_networks.filled(lama_networks.Torch(1), torch.from_numpy(np.float32(image / 255).transpose(2, 0, 1)[None]),
                                        torch.from_numpy(mask[None, None]), 255)
        self.assertLess(np.abs(self.infer(self.net, image, mask) - want.numpy()[0].transpose(1, 2, 0)).max(), 1e-3)

    def test_on_a_gpu(self):
        """Kernels as loops over a driver without a GPU. Matrices of the Fourier transforms stand on the left, so that channels stay last."""
        net = lama_networks.make(self.tmp, 64)
        gpu = {**os.environ, "LD_LIBRARY_PATH": f"{common.FAKES}:{os.environ['LD_LIBRARY_PATH']}", "TACHY_EP": os.environ["TACHY_TEST_EP_HOST"]}
        clip, out = self.write("in.png", self.wall[:64, :64]), [self.tmp / f"{n}.png" for n in ("cpu", "gpu")]
        args = ("inpaint", "--fill", net, "--hole", "20,10,30,20", clip, "-y", "-o")
        run(*args, out[0])
        said = run(*args, out[1], "--device", "cuda", "--precision", "fp32", "--provider", "tachy", "--provider-option", f"library={gpu['TACHY_EP']}", env=gpu).stdout
        self.assertIn("on Fake GPU, fp32", said)
        a, b = (cv2.imread(str(v)).astype(int) for v in out)
        self.assertLessEqual(np.abs(a - b).max(), 1)
        shown = run("engine", "show", net, "--device", "cuda", "--precision", "fp32", env=gpu).stdout
        self.assertEqual(shown.count("MatMul(const"), 8)

    def expect(self, picture, hole, scale=1, net=None):
        """A single hole. The picture goes on at its edge."""
        h, w = hole.shape
        rgb = picture[..., ::-1].astype(np.float64)
        ys, xs = np.nonzero(hole)
        rows, side = parts(self.side, ys.min(), ys.max() + 1, scale, h)
        columns, _ = parts(self.side, xs.min(), xs.max() + 1, scale, w)
        total, weights = np.zeros((h, w, 3)), np.zeros((h, w, 1))

        def fade(n):
            edge = np.minimum(np.arange(side), np.arange(side)[::-1]) + 1
            return np.minimum(edge / (side // 4 + 1), 1) if n > 1 else np.ones(side)
        for y in rows:
            for x in columns:
                iy, ix = np.clip(np.arange(y, y + side), 0, h - 1), np.clip(np.arange(x, x + side), 0, w - 1)
                image, mask = rgb[np.ix_(iy, ix)], hole[np.ix_(iy, ix)] > 0
                if not mask.any():
                    continue
                if side > self.side:
                    image, mask = (cv2.resize(np.float64(v), (self.side, self.side), interpolation=cv2.INTER_AREA) for v in (image, mask))
                    mask = mask > 0
                got = cv2.resize(self.infer(net or self.net, image, mask), (side, side), interpolation=cv2.INTER_LINEAR)
                inside = [slice(max(-at, 0), min(n - at, side)) for at, n in ((y, h), (x, w))]
                to = tuple(slice(s.start + at, s.stop + at) for s, at in zip(inside, (y, x), strict=True))
                inside = tuple(inside)
                weight = np.outer(fade(len(rows)), fade(len(columns)))[inside][..., None]
                total[to] += weight * got[inside]
                weights[to] += weight
        out = rgb.copy()
        where = hole > 0
        out[where] = (total / np.maximum(weights, 1e-9))[where]
        return out[..., ::-1]

    def fill_net(self, picture, hole, *args, net=None):
        out = self.tmp / "net.png"
        run("inpaint", "--fill", net or self.net, *args, "--hole", self.write("hole.png", hole), self.write("in.png", picture), "-o", out, "-y")
        return cv2.imread(str(out)).astype(int)

    def same(self, picture, hole, scale=1, net=None):
        got, want = self.fill_net(picture, hole, net=net), self.expect(picture, hole, scale, net)
        self.assertTrue((got[hole == 0] == picture[hole == 0]).all())
        self.assertLessEqual(np.abs(got - want).max(), 1)
        self.assertGreater(np.abs(got - picture)[hole > 0].mean(), 5)

    @staticmethod
    def hole(shape, *boxes):
        m = np.zeros(shape[:2], np.uint8)
        for x, y, w, h in boxes:
            m[y:y + h, x:x + w] = 255
        return m

    def test_a_crop_around_a_hole(self):
        wall = self.wall[:240, :320]
        self.same(wall, self.hole(wall.shape, (100, 90, 40, 30)))
        self.same(wall, self.hole(wall.shape, (0, 200, 30, 40)))  # at the edge
        small = self.wall[200:250, 100:170]
        self.same(small, self.hole(small.shape, (10, 5, 30, 20)))  # smaller than the network's picture
        ellipse = np.zeros(wall.shape[:2], np.uint8)
        cv2.ellipse(ellipse, (200, 120), (30, 20), 30, 0, 360, 255, -1)
        self.same(wall, ellipse)

    def test_shrunk_only_if_it_must_be(self):
        """144 pixels with an eighth of the window to each side are two windows long, and too deep for tiles."""
        self.same(self.wall, self.hole(self.wall.shape, (180, 200, 144, 144)), scale=2)

    def test_tiles(self):
        """A line is too long for a window, but no tile lies inside of it."""
        line = self.hole(self.wall.shape, (20, 250, 470, 6))
        self.same(self.wall, line)
        cross = line | self.hole(self.wall.shape, (250, 30, 6, 450))
        self.same(self.wall, cross)

    def test_several_holes_in_a_run(self):
        boxes = [(40, 40, 30, 30), (300, 60, 24, 40), (60, 400, 40, 20), (400, 400, 30, 30), (220, 220, 20, 20)]
        hole = self.hole(self.wall.shape, *boxes)
        want = self.wall.astype(float)
        for b in boxes:
            one = self.hole(self.wall.shape, b)
            want[one > 0] = self.expect(self.wall, one)[one > 0]
        for args in ([], ["--lama-batch", 2]):
            got = self.fill_net(self.wall, hole, *args)
            self.assertTrue((got[hole == 0] == self.wall[hole == 0]).all())
            self.assertLessEqual(np.abs(got - want).max(), 1)

    def test_free_sizes_and_other_white(self):
        wall = self.wall[:240, :320]
        net = lama_networks.make(self.tmp, self.side, free=True, white=1, name="unit")
        self.same(wall, self.hole(wall.shape, (100, 90, 40, 30)), net=net)
        self.assertIn("it runs as its card says", run("model", "verify", net).stdout)

    def test_published_size(self):
        """The card that docs/inpaint.md has."""
        hole = self.hole(self.wall.shape, (200, 150, 120, 160))
        self.side = 512
        net = lama_networks.make(self.tmp, self.side, name="lama_fp32")
        text = (common.ROOT / "docs" / "inpaint.md").read_text()
        (self.tmp / "lama_fp32.json").write_text(text.split("```json\n")[1].split("```")[0])
        self.same(self.wall, hole, net=net)

    def test_curate(self):
        wall, hole = self.wall[:240, :320], "100,60,60,50"
        out = self.tmp / "curated"
        run("curate", self.write("in.png", wall), "--tasks", "inpaint", "--inpaint.hole", hole, "--inpaint.network", self.net, "-o", f"{out}/")
        mended = [p for p in out.rglob("*.png")]
        self.assertEqual(len(mended), 1)
        want = self.expect(wall, self.hole(wall.shape, (100, 60, 60, 50)))
        self.assertLessEqual(np.abs(cv2.imread(str(mended[0])) - want).max(), 1)

    def test_clip(self):
        """Other frames show all that is behind the moving hole, so the network changes nothing; what it fills once stays."""
        true, bad, holes = self.walk(8)
        masks = self.clip([cv2.cvtColor(m, cv2.COLOR_GRAY2BGR) for m in holes], "holes.mkv")
        got = []
        for name, args in (("patches", []), ("net", ["--fill", self.net])):
            run("inpaint", *args, "--hole", masks, self.clip(bad, "in.mkv"), "-c:v", "ffv1", "-o", self.tmp / f"{name}.mkv")
            got.append(self.frames(self.tmp / f"{name}.mkv").astype(int))
        self.assertTrue((got[0] == got[1]).all())
        frame, hole = true[0], self.hole(true[0].shape, (100, 60, 60, 50))
        run("inpaint", "--fill", self.net, "--hole", "100,60,60,50", self.clip([frame] * 4, "still.mkv"), "-c:v", "ffv1", "-o",
            self.tmp / "still-net.mkv")
        still = self.frames(self.tmp / "still-net.mkv").astype(int)
        self.assertLessEqual(np.abs(still[0] - self.expect(frame, hole)).max(), 1)
        self.assertLessEqual(np.abs(still - still[0]).max(), 2)

    def test_turned(self):
        """The network sees a picture as it is shown."""
        wall = self.wall[:240, :320]
        hole = self.hole(wall.shape, (100, 90, 40, 30))
        clip, turned = self.clip([wall], "in.mkv"), self.tmp / "turned.mov"
        for degrees, k in ((90, 1), (180, 2)):
            common.ffmpeg("-i", clip, "-c:v", "png", "-pix_fmt", "rgb24", self.tmp / "plain.mov")
            common.ffmpeg("-i", self.tmp / "plain.mov", "-c", "copy", "-metadata:s:v", f"rotate={degrees}", turned)
            mask = self.write("hole.png", np.rot90(hole, k))
            run("inpaint", "--fill", self.net, "--hole", mask, turned, "-c:v", "ffv1", "-o", self.tmp / "out.mkv", "-y")
            got = self.frames(self.tmp / "out.mkv", size=(240, 320) if k == 1 else (320, 240))[0].astype(int)
            self.assertLessEqual(np.abs(got - self.expect(np.rot90(wall, k), np.rot90(hole, k))).max(), 1)

    def test_formats(self):
        frame = self.wall[100:340, 100:420]
        want = self.expect(frame, self.hole(frame.shape, (160, 40, 64, 64)))[..., ::-1]
        for pix, near in (("yuv420p", 6), ("yuv422p10le", 4), ("yuv444p", 3), ("gray", 255)):
            clip, out = self.clip([frame], f"{pix}.mkv", pix), self.tmp / f"out-{pix}.mkv"
            run("inpaint", "--fill", self.net, "--hole", "160,40,64,64", clip, "-c:v", "ffv1", "-o", out)
            a, b = (self.frames(p, "rgb24").astype(int) for p in (clip, out))
            changed = np.abs(a - b).max(axis=(0, 3)) > 8
            self.assertTrue(changed[44:100, 164:220].mean() > 0.3, pix)
            self.assertLessEqual(np.abs(b[0] - want)[44:100, 164:220].mean(), near, pix)
            changed[38:106, 158:226] = False
            self.assertFalse(changed.any(), pix)

    def test_refused(self):
        picture = self.write("in.png", self.wall[:64, :64])
        card = json.loads((self.tmp / "lama.json").read_text())

        def fails(*words, **change):
            (self.tmp / "lama.json").write_text(json.dumps({**card, **change}))
            p = run("inpaint", "--fill", self.net, "--hole", "1,2,30,4", picture, "-o", self.tmp / "x.png", "-y", check=False)
            self.assertNotEqual(p.returncode, 0)
            for w in words:
                self.assertIn(w, p.stderr)
        fails("input.hole", input={k: v for k, v in card["input"].items() if k != "hole"})
        fails("`nothere`", "input.hole", input={**card["input"], "hole": "nothere"})
        fails("picture and the task inpaint", output={"meaning": "alpha"})
        fails("white", output={**card["output"], "white": 0})
        fails("100 wide", input={**card["input"], "width": 100})
        for task in ("segment", "detect"):
            fails("go together", task=task)
        p = run("inpaint", "--fill", "nothere.onnx", "--hole", "1,2,30,4", picture, "-o", self.tmp / "x.png", check=False)
        self.assertIn("nothere.onnx", p.stderr)


if __name__ == "__main__":
    common.main()
