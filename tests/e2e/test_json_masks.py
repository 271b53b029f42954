"""Run lengths and polygons of mode json against COCO's own code (pycocotools, where it is
installed) and against a decoder written here from the format's description."""
import json
import os
import subprocess
import unittest

import numpy as np

import common

TOOL = os.environ.get("MASK_TOOL", str(common.ROOT / "build/tests/unit/mask_tool"))


def line(mask, width, height, threshold=0.5):
    h, w = mask.shape
    p = subprocess.run([TOOL, "json", *map(str, (width, height, w, h, threshold))], input=mask.tobytes(),
                       capture_output=True, check=True)
    return json.loads(p.stdout)


def decode(seg):
    """COCO's compressed run lengths to a boolean picture."""
    runs, i, s = [], 0, seg["counts"]
    while i < len(s):
        x = k = 0
        while True:
            c = ord(s[i]) - 48
            x |= (c & 31) << 5 * k
            i, k = i + 1, k + 1
            if not c & 32:
                if c & 16:
                    x |= -1 << 5 * k
                break
        runs.append(x + (runs[-2] if len(runs) > 2 else 0))
    flat = np.repeat(np.arange(len(runs)) % 2, runs).astype(bool)
    return flat.reshape(seg["size"][1], seg["size"][0]).T


def shapes():
    rng = np.random.default_rng(3)
    y, x = np.mgrid[:90, :120]
    ring = ((x - 60) ** 2 + (y - 45) ** 2 < 40 ** 2) & ((x - 60) ** 2 + (y - 45) ** 2 > 15 ** 2)
    yield "nothing", np.zeros((7, 5), bool)
    yield "everything", np.ones((7, 5), bool)
    yield "one pixel", np.ones((1, 1), bool)
    yield "noise", rng.random((37, 41)) < 0.5
    yield "top row", np.arange(20).reshape(4, 5) < 5
    yield "ring", ring
    yield "two people", (((x - 30) ** 2 / 400 + (y - 50) ** 2 / 1200) < 1) | (((x - 90) ** 2 / 300 + (y - 40) ** 2 / 900) < 1)
    yield "long columns", np.tile(np.arange(3000)[:, None] % 1500 < 1400, (1, 9))
    for _ in range(20):
        yield "random size", rng.random(rng.integers(1, 60, 2)) < rng.random()


class Json(common.Case):
    def test_run_lengths(self):
        for name, m in shapes():
            got = line(m.astype(np.uint8) * 255, m.shape[1], m.shape[0])
            self.assertEqual(got["segmentation"]["size"], list(m.shape))
            self.assertTrue(np.array_equal(decode(got["segmentation"]), m), name)
            self.assertAlmostEqual(got["coverage"], m.mean(), places=6)

    def test_same_string_as_coco(self):
        try:
            import pycocotools.mask as coco
        except ImportError:
            raise unittest.SkipTest("pycocotools is not installed")
        for name, m in shapes():
            got = line(m.astype(np.uint8) * 255, m.shape[1], m.shape[0])["segmentation"]["counts"]
            want = coco.encode(np.asfortranarray(m.astype(np.uint8)))["counts"].decode()
            self.assertEqual(got, want, name)

    def test_polygons_cover_the_mask(self):
        import cv2
        for name, m in shapes():
            got = line(m.astype(np.uint8) * 255, m.shape[1], m.shape[0])["polygons"]
            if name in ("noise", "random size"):
                continue
            # Corners lie between pixels: drawn at four times the size, then sampled at centres.
            big = np.zeros((m.shape[0] * 4, m.shape[1] * 4), np.uint8)
            for p in got:
                self.assertEqual(len(p) % 2, 0)
                self.assertGreaterEqual(len(p), 6)
                cv2.fillPoly(big, [np.array(p).reshape(-1, 2) * 4], 1)
            filled = big[2::4, 2::4].astype(bool)
            want = m
            if name == "ring":  # outer contours only: the hole is filled
                y, x = np.mgrid[:90, :120]
                want = (x - 60) ** 2 + (y - 45) ** 2 < 40 ** 2
            union = (filled | want).sum()
            self.assertGreater((filled & want).sum() / union if union else 1, 0.95, name)
        self.assertEqual(len(line(np.zeros((9, 9), np.uint8), 9, 9)["polygons"]), 0)

    def test_frame_size(self):
        """A small mask is brought to the frame's size, like every other mode does it."""
        m = np.zeros((16, 16), np.uint8)
        m[:, 8:] = 255
        got = decode(line(m, 333, 77)["segmentation"])
        self.assertEqual(got.shape, (77, 333))
        self.assertTrue((got == (np.arange(333) >= 166)).all())

    def test_noise_stays_bounded(self):
        m = (np.random.default_rng(0).random((256, 256)) < 0.5).astype(np.uint8) * 255
        got = line(m, 256, 256)
        self.assertLessEqual(len(got["polygons"]), 64)
        self.assertTrue(np.array_equal(decode(got["segmentation"]), m > 0))


if __name__ == "__main__":
    common.main()
