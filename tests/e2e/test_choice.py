"""What is kept besides what the network says: --garbage-matte. Pictures are made and read by OpenCV and FFmpeg."""
import json

import cv2
import numpy as np

from common import Case, DEPS, ffmpeg, main, models, run

PORTRAIT = DEPS / "media" / "astronaut.png"


class Choice(Case):
    @classmethod
    def setUpClass(cls):
        models("selfie")

    def masks(self, source, *options):
        """The frames of mode mask, in grey."""
        out = self.tmp / "masks"
        out.mkdir(exist_ok=True)
        run("segment", source, "--mode", "mask", "-q", "-y", *options, "-o", out / "%04d.png")
        frames = [cv2.imread(str(p), cv2.IMREAD_GRAYSCALE) for p in sorted(out.iterdir())]
        for p in out.iterdir():
            p.unlink()
        return frames


class Garbage(Choice):
    def test_rectangles_and_pictures(self):
        plain = self.masks(PORTRAIT)[0]
        h, w = plain.shape
        self.assertGreater((plain > 200).mean(), 0.2)
        box = np.zeros((h, w), int)
        box[100:300, 40:290] = box[h // 2:, :w // 4] = 255
        ramp = np.tile(np.linspace(0, 255, w).round().astype(np.uint8), (h, 1))
        cv2.imwrite(str(self.tmp / "ramp.png"), ramp)
        two = ["--garbage-matte", "40,100,250,200", "--garbage-matte", "0%,50%,25%,50%"]
        picture = ["--garbage-matte", self.tmp / "ramp.png"]
        for what, options, bound in (("rectangles", two, box), ("picture", picture, ramp.astype(int)),
                                     ("both", two + picture, (box * ramp + 127) // 255)):
            with self.subTest(what):
                got = self.masks(PORTRAIT, *options)[0].astype(int)
                self.assertEqual(abs(got - (plain * bound + 127) // 255).max(), 0)

    def test_every_mode_and_json(self):
        """Outside nothing is kept, whichever way alpha is used."""
        out = self.tmp / "out.png"
        for mode in ("cutout", "alpha", "blur"):
            run("segment", PORTRAIT, "-q", "-y", "--mode", mode, "--garbage-matte", "0,0,50%,100%", "-o", out)
            got = cv2.imread(str(out), cv2.IMREAD_UNCHANGED)
            w = got.shape[1]
            if mode == "blur":  # all of it is the blurred picture
                self.assertLess(np.diff(got[:, w // 2 + 8:].astype(int), axis=0).std(), 3)
            else:
                self.assertEqual(got[:, w // 2:, 3 if mode == "alpha" else slice(3)].max(), 0)
        line = run("segment", PORTRAIT, "-q", "--mode", "json", "--garbage-matte", "0,0,50%,100%", "-o", "-").stdout
        self.assertNotIn('"polygons":[]', line)
        self.assertLessEqual(max(int(x) for p in json.loads(line)["polygons"] for x in p[::2]), w // 2)

    def test_a_turned_video(self):
        """Rectangles are of the picture as it is shown."""
        clip, turned = self.tmp / "in.mkv", self.tmp / "turned.mp4"
        ffmpeg("-loop", 1, "-i", PORTRAIT, "-vf", "scale=320:240,format=yuv420p", "-t", "0.2", "-c:v", "libx264", clip)
        ffmpeg("-i", clip, "-c", "copy", "-metadata:s:v", "rotate=90", turned)
        plain = self.masks(turned)
        got = self.masks(turned, "--garbage-matte", "30,40,100,200")
        self.assertEqual(plain[0].shape, (320, 240))
        for a, b in zip(plain, got, strict=True):
            want = np.zeros_like(a)
            want[40:240, 30:130] = a[40:240, 30:130]
            self.assertTrue((b == want).all())
            self.assertGreater(want.max(), 200)

    def test_wrong_ones(self):
        for text, status in (("1,2,3", 1), ("0,0,0,5", 1), ("-1,0,5,5", 1), ("missing.png", 1)):
            p = run("segment", PORTRAIT, "--garbage-matte=" + text, "-f", "null", "-o", "-", check=False)
            self.assertEqual(p.returncode, status, p.stderr)
            self.assertIn("--garbage-matte", p.stderr)


if __name__ == "__main__":
    main()
