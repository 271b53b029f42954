"""tachy inpaint: holes of pictures beside OpenCV's Telea, clips whose content is known, formats, and what is refused."""
import subprocess

import cv2
import numpy as np

import common
from common import DEPS, run


def psnr(a, b, where):
    return 10 * np.log10(255**2 / max(((a.astype(float) - b)[where] ** 2).mean(), 1e-9))


class Inpaint(common.Case):
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
        p = run("inpaint", "--hole", "1,2,3,4", "--device", "cuda", clip, "-o", self.tmp / "x.png", check=False)
        self.assertNotEqual(p.returncode, 0)


if __name__ == "__main__":
    common.main()
