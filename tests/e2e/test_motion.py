"""tachy motion: flow against OpenCV's DIS and known flow, the camera, things that move, flow that is kept."""
import json
import os
import subprocess

import cv2
import numpy as np

import common
from common import DEPS, run


def read_flo(path):
    """Middlebury's format."""
    data = path.read_bytes()
    assert data[:4] == b"PIEH", path
    w, h = np.frombuffer(data[4:12], "<i4")
    return np.frombuffer(data[12:], "<f4").reshape(h, w, 2)


def error(flow, truth):
    return float(np.hypot(*(flow - truth).transpose(2, 0, 1)).mean())


class Motion(common.Case):
    def clip(self, frames, name="clip.mkv"):
        h, w = frames[0].shape[:2]
        path = self.tmp / name
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "bgr24", "-s", f"{w}x{h}", "-r", "25", "-i", "-",
                        "-c:v", "ffv1", "-pix_fmt", "bgr0", str(path)], input=b"".join(f.tobytes() for f in frames), check=True)
        return path

    def lines(self, clip, *args):
        out = self.tmp / "out.jsonl"
        run("motion", clip, "-o", out, "-y", *args)
        return [json.loads(line) for line in out.read_text().splitlines()]

    def walk(self, n, thing=None):
        """A camera that goes 5 pixels to the right and 2 down per frame over a picture; `thing` goes to the right in front of it."""
        wall = cv2.imread(str(DEPS / "media" / "astronaut.png"))
        frames = []
        for i in range(n):
            frame = wall[100 + 2 * i:340 + 2 * i, 60 + 5 * i:380 + 5 * i].copy()
            if thing is not None:
                x = 100 + 8 * i
                frame[90:154, x:x + 64] = thing
            frames.append(frame)
        return frames

    def test_flow_is_at_least_as_good_as_dis(self):
        """Two labelled pairs, at the pictures' own size."""
        dis = cv2.DISOpticalFlow_create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
        for n in "12":
            pair = [cv2.imread(str(common.shared(f"labels/flow/0000{n}_img{k}.ppm"))) for k in "12"]
            truth = read_flo(common.shared(f"labels/flow/0000{n}_flow.flo"))
            folder = self.tmp / f"flow{n}"
            run("motion", self.clip(pair), "--motion-size", "0", "--flow-cache", folder, "-f", "null", "-")
            files = list(folder.iterdir())
            self.assertEqual(len(files), 1)
            ours = error(read_flo(files[0]), truth)
            theirs = error(dis.calc(*(cv2.cvtColor(p, cv2.COLOR_BGR2GRAY) for p in pair), None), truth)
            self.assertLessEqual(ours, theirs)

    def test_the_camera(self):
        lines = self.lines(self.clip(self.walk(6)))
        self.assertNotIn("values", lines[0])
        for line in lines[1:]:
            v = line["values"]
            self.assertAlmostEqual(v["camera_x"], -5, delta=0.05)
            self.assertAlmostEqual(v["camera_y"], -2, delta=0.05)
            self.assertAlmostEqual(v["camera_zoom"], 1, delta=1e-3)
            self.assertEqual(v["shot"], 1 if abs(v["camera_x"]) > 0.7 * (abs(v["camera_x"]) + abs(v["camera_y"])) else 5)
            self.assertGreater(v["camera_agree"], 0.9)
            self.assertLess(v["moving"], 0.02)

    def test_a_thing_against_the_camera(self):
        thing = cv2.resize(cv2.imread(str(DEPS / "media" / "astronaut.png"))[20:276, 100:356], (64, 64), interpolation=cv2.INTER_AREA)
        for i, line in enumerate(self.lines(self.clip(self.walk(5, thing)))[1:]):
            r = line["regions"][0]
            x, y, w, h = r["box"]  # the middle, width and height
            self.assertLess(abs(x - (100 + 8 * i + 32)), 40)
            self.assertLess(abs(y - 122), 16)
            self.assertTrue(64 <= w <= 136 and 64 <= h <= 96, r["box"])
            # 8 against the camera's -5; the wall around it, which is covered and uncovered, counts as well.
            self.assertAlmostEqual(r["values"]["motion_x"], 13, delta=4)
            self.assertAlmostEqual(r["values"]["motion_y"], 2, delta=1)

    def test_kept_flow_is_read(self):
        """A kept file's numbers are those of the result, and one that is cut short is made again."""
        clip, folder = self.clip(self.walk(3)), self.tmp / "flow"
        first = self.lines(clip, "--flow-cache", folder)
        files = sorted(folder.iterdir())
        self.assertEqual(len(files), 2)
        for f in files:
            data = bytearray(f.read_bytes())
            data[12:] = np.full((len(data) - 12) // 4, 3, "<f4").tobytes()
            f.write_bytes(data)
        self.assertAlmostEqual(self.lines(clip, "--flow-cache", folder)[1]["values"]["motion"], 3 * 2 ** 0.5, places=4)
        for f in files:
            f.write_bytes(f.read_bytes()[:100])
        self.assertEqual(self.lines(clip, "--flow-cache", folder), first)

    def test_bits_do_not_depend_on_the_machine(self):
        clip = self.clip(self.walk(4))
        want = self.lines(clip, "--workers", "1")
        self.assertEqual(self.lines(clip, "--workers", "3"), want)
        for isa in ("c", "avx2"):
            os.environ["TACHY_CPU"] = isa
            try:
                self.assertEqual(self.lines(clip), want)
            finally:
                del os.environ["TACHY_CPU"]

    def test_odd_pictures(self):
        for w, h in ((1, 1), (2, 300), (333, 3)):
            lines = self.lines(self.clip([np.full((h, w, 3), 40 * i, np.uint8) for i in range(3)]))
            self.assertEqual(len(lines), 3)
            self.assertTrue(np.isfinite(list(lines[2]["values"].values())).all())

    def test_a_folder_that_cannot_be(self):
        (self.tmp / "file").write_text("")
        p = run("motion", self.clip(self.walk(2)), "--flow-cache", self.tmp / "file" / "x", "-f", "null", "-", check=False)
        self.assertEqual(p.returncode, 1)
        self.assertIn("file", p.stderr)


if __name__ == "__main__":
    common.main()
