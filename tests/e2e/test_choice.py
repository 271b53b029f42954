"""What is kept besides what the network says, or without one: --garbage-matte, --key, --plate, --person. Pictures are made and read by OpenCV
and FFmpeg, and truth is made with them."""
import json

import cv2
import numpy as np

from common import Case, DEPS, ffmpeg, main, models, run, shared

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


class Key(Choice):
    screen = np.array([0.12, 0.55, 0.22])  # red, green, blue

    def picture(self, name="screen.png", light=0.0, size=(320, 180)):
        """A grey disc with a soft rim over a screen, and its alpha. light: how much darker the screen is at the sides."""
        w, h = size
        y, x = np.mgrid[:h, :w]
        alpha = np.clip((h * 0.35 - np.hypot(x - w / 2, y - h / 2)) / 12 + 0.5, 0, 1)[..., None]
        back = self.screen * (1 - light * abs(x / (w / 2) - 1))[..., None]
        rgb = alpha * np.array([0.6, 0.6, 0.6]) + (1 - alpha) * back
        cv2.imwrite(str(self.tmp / name), (rgb[..., ::-1] * 255).round().astype(np.uint8))
        return self.tmp / name, alpha[..., 0]

    def test_alpha_and_colours(self):
        """Alpha of a mixture is exact to the steps of the picture, and so are the person's estimated colours."""
        source, alpha = self.picture()
        got = self.masks(source, "--key", "#1f8c38", "--key-black", "0", "--key-white", "1")[0] / 255
        self.assertLess(abs(got - alpha).max(), 0.02)
        out = self.tmp / "out.png"
        p = run("segment", source, "-q", "--key", "#1f8c38", "--key-black", "0", "--key-white", "1", "--background", "#ff00ff",
                "--foreground", "--json", "-o", out)
        self.assertIsNone(json.loads(p.stdout)["model"])  # none ran
        want = alpha[..., None] * 0.6 + (1 - alpha[..., None]) * np.array([1.0, 0, 1.0])
        error = abs(cv2.imread(str(out))[..., ::-1] / 255 - want)
        print(f"colour error: mean {error.mean():.4f}, 99 % {np.quantile(error, 0.99):.3f}")
        self.assertLess(error.mean(), 0.005)
        self.assertLess(np.quantile(error, 0.99), 0.08)

    def test_uneven_light_and_video(self):
        """The screen is found, whatever brought its chroma down, and is gone where it is darker as well."""
        source, alpha = self.picture(light=0.3)
        for codec in (["-c:v", "ffv1", "-pix_fmt", "yuv444p"], ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", 12],
                      ["-c:v", "libx264", "-pix_fmt", "yuv422p10le", "-crf", 12]):
            clip = self.tmp / "clip.mkv"
            ffmpeg("-loop", 1, "-i", source, "-t", "0.2", *codec, clip)
            for key in ("green", "auto"):
                with self.subTest(codec=codec[3], key=key):
                    for got in self.masks(clip, "--key", key):
                        self.assertEqual(got[alpha == 0].max(), 0)
                        self.assertEqual(got[alpha == 1].min(), 255)
                        # 8 % of the pixels are rim, where the ramp from 0.15 on and the light missing at dark edges
                        # cost up to 0.2.
                        self.assertLess(abs(got / 255 - alpha).mean(), 0.08 * 0.2)

    def test_shadows_and_samples(self):
        source, alpha = self.picture()
        dark = cv2.imread(str(source))
        dark[:, :60] = (dark[:, :60] * 0.6).round()  # a shadow
        cv2.imwrite(str(source), dark)
        args = ["--key", "#1f8c38", "--key-black", "0.05"]
        kept, removed = self.masks(source, *args)[0], self.masks(source, *args, "--key-shadows", "remove")[0]
        second = self.masks(source, *args, "--key", "#135422")[0]
        self.assertGreater(kept[:, :60].min(), 80)
        for got in (removed, second):
            self.assertEqual(got[:, :60].max(), 0)
            self.assertEqual(got[alpha == 1].min(), 255)

    def test_with_a_network(self):
        """--model multiplies; without it no network runs."""
        source, alpha = self.picture("a.png", size=(512, 512))
        face = cv2.imread(str(PORTRAIT))
        mixed = (alpha[..., None] * face + (1 - alpha[..., None]) * self.screen[::-1] * 255).round().astype(np.uint8)
        cv2.imwrite(str(source), mixed)
        key = ["--key", "#1f8c38"]
        net, keyed, both = (self.masks(source, *o)[0].astype(int) for o in ([], key, [*key, "--model", "selfie"]))
        self.assertEqual(abs(both - (net * keyed + 127) // 255).max(), 0)
        self.assertGreater((both != keyed).mean(), 0.01)
        alone = run("segment", source, *key, "--model-dir", self.tmp / "nowhere", "-f", "null", "-o", "-", "--json", "-q")
        self.assertIsNone(json.loads(alone.stdout)["engine"])

    def test_the_same_whoever_works(self):
        source, _ = self.picture()
        clip = self.tmp / "clip.mkv"
        ffmpeg("-f", "lavfi", "-i", "color=black:s=320x180:r=25:d=0.2", "-loop", 1, "-i", source, "-filter_complex",
               "[1]trim=duration=1,fps=25,format=yuv420p[s];[0]format=yuv420p[b];[b][s]concat=n=2", "-c:v", "libx264", clip)
        hashes = {run("segment", clip, "--key", "auto", "--mode", "mask", "-q", "-f", "framemd5", "-o", "-", *o).stdout
                  for o in ([], ["--workers", 1], ["--workers", 3], ["--decoders", 2])}
        self.assertEqual(len(hashes), 1)
        masks = self.masks(clip, "--key", "auto")
        self.assertEqual(masks[0].min(), 255)  # black: no screen yet
        self.assertLess(masks[-1].mean(), 120)

    def test_modes(self):
        source, alpha = self.picture()
        line = json.loads(run("segment", source, "-q", "--key", "auto", "--mode", "json", "-o", "-").stdout)
        self.assertAlmostEqual(line["coverage"], (alpha > 0.5).mean(), delta=0.01)
        sides = self.tmp / "two_sbs.png"
        cv2.imwrite(str(sides), np.hstack([cv2.imread(str(source))] * 2))
        line = json.loads(run("segment", sides, "-q", "--key", "auto", "--mode", "json", "-o", "-").stdout)
        self.assertEqual(len(line["eyes"]), 2)
        for mode in ("blur", "overlay", "alpha", "side-by-side"):
            run("segment", source, "-q", "-y", "--key", "auto", "--mode", mode, "-o", self.tmp / "out.png")

    def test_the_green_screen_clips(self):
        """Pure green (255 in green, 0 elsewhere) is nobody, what has no green over red and blue is somebody."""
        for name in ("dhlive_greenscreen_assets.mp4", "dhlive_greenscreen_assets2.mp4"):
            clip = shared("media/" + name)
            ffmpeg("-ss", 2, "-i", clip, "-frames:v", 1, self.tmp / "frame.png")
            b, g, r = cv2.split(cv2.imread(str(self.tmp / "frame.png")).astype(int))
            excess = g - np.maximum(r, b)
            got = self.masks(clip, "--key", "green", "-ss", 2, "--max-frames", 1)[0]
            # A pixel of margin, since the clips' chroma has half the frame's size.
            screen = cv2.erode((excess > 240).astype(np.uint8), np.ones((5, 5))) > 0
            person = cv2.erode((excess < 8).astype(np.uint8), np.ones((5, 5))) > 0
            self.assertGreater(screen.mean(), 0.2)
            self.assertGreater(person.mean(), 0.2)
            self.assertEqual((got[screen] > 2).mean(), 0)
            self.assertLess((got[person] < 253).mean(), 0.001)

    def test_despill_of_the_green_screen_clips(self):
        """What green has over red and blue is gone from soft edges and beside them; without the option it is not."""
        for name in ("dhlive_greenscreen_assets.mp4", "dhlive_greenscreen_assets2.mp4"):
            clip, excess = shared("media/" + name), {}
            for what in ("off", "green", "auto"):
                out = self.tmp / "cut.png"
                run("segment", clip, "-ss", 2, "--max-frames", 1, "--key", "green", "--mode", "alpha", "--despill", what, "-q", "-y",
                    "-o", out)
                b, g, r, alpha = cv2.split(cv2.imread(str(out), cv2.IMREAD_UNCHANGED).astype(int))
                inside = cv2.erode((alpha == 255).astype(np.uint8), np.ones((9, 9)))
                band = (alpha > 25) & (inside == 0)
                excess[what] = float(np.maximum(g - np.maximum(r, b), 0)[band].mean())
                deep = cv2.erode((alpha == 255).astype(np.uint8), np.ones((3, 3)), iterations=alpha.shape[0] // 15) > 0
                colours = np.stack([b, g, r])[:, deep]
                if what == "off":
                    before = colours
                self.assertTrue((colours == before).all())
            print(f"{name}: mean green excess around the edge, of 255: " + ", ".join(f"{k} {v:.1f}" for k, v in excess.items()))
            self.assertGreater(excess["off"], 10)
            self.assertLess(excess["green"], 0.2 * excess["off"])
            self.assertLess(excess["auto"], 0.2 * excess["off"])

    def test_wrong_ones(self):
        source, _ = self.picture()
        for options, word in ((["--key", "grey"], "no hue"), (["--key", "nocolour"], "is not a colour"),
                              (["--key", "auto", "--key", "green"], "only one of"), (["--key", "auto", "--refine"], "--refine"),
                              (["--key", "auto", "--key-black", "0.5", "--key-white", "0.4"], "is not below"),
                              (["--key", "auto", "--device", "cuda"], "CPU only"), (["--despill", "auto"], "no --key")):
            p = run("segment", source, *options, "-f", "null", "-o", "-", check=False)
            self.assertNotEqual(p.returncode, 0)
            self.assertIn(word, p.stderr)


class Plate(Choice):
    """A made scene: a photo-like plate, frames with other light, noise, and a disc whose alpha is known."""

    def scene(self, gain=1.0, offset=0.0, noise=0.01):
        rng = np.random.default_rng(7)
        h, w = 180, 320
        wall = cv2.resize(rng.random((12, 20, 3)), (w, h), interpolation=cv2.INTER_CUBIC) * 0.5 + 0.2
        y, x = np.mgrid[:h, :w]
        alpha = np.clip((h * 0.35 - np.hypot(x - w / 2, y - h / 2)) / 6 + 0.5, 0, 1)[..., None]
        stripes = np.where((x // 9 % 2)[..., None] == 1, [0.95, 0.1, 0.1], [0.05, 0.05, 0.9])
        frame = alpha * stripes + (1 - alpha) * (wall * gain + offset)
        frame = frame + rng.normal(0, noise, frame.shape)
        cv2.imwrite(str(self.tmp / "plate.png"), (np.clip(wall + rng.normal(0, noise, wall.shape), 0, 1) * 255).round().astype(np.uint8))
        cv2.imwrite(str(self.tmp / "frame.png"), (np.clip(frame, 0, 1) * 255).round().astype(np.uint8))
        return self.tmp / "frame.png", alpha[..., 0]

    def judge(self, source, alpha, *options):
        got = self.masks(source, "--plate", self.tmp / "plate.png", *options)[0]
        far = cv2.dilate((alpha > 0).astype(np.uint8), np.ones((5, 5))) == 0
        inside = cv2.erode((alpha == 1).astype(np.uint8), np.ones((5, 5))) == 1
        return (got[far] > 25).mean(), (got[inside] < 230).mean()

    def test_light_and_noise(self):
        for what, kw in (("alike", {}), ("darker", dict(gain=0.8)), ("brighter", dict(gain=1.15, offset=0.04)),
                         ("noisy", dict(noise=0.04))):
            with self.subTest(what):
                wrong, holes = self.judge(*self.scene(**kw))
                print(f"{what}: {wrong:.5f} of the scene kept, {holes:.5f} of the disc lost")
                self.assertLess(wrong, 0.002)
                self.assertLess(holes, 0.03 if what == "noisy" else 0.005)  # noise of 10 codes hides a like colour

    def test_formats(self):
        source, alpha = self.scene()
        for pixels in ("yuv420p", "yuv444p", "yuv422p10le", "gray"):
            clip = self.tmp / "clip.mkv"
            ffmpeg("-i", source, "-c:v", "ffv1", "-pix_fmt", pixels, clip)
            with self.subTest(pixels):
                wrong, holes = self.judge(clip, alpha)
                self.assertLess(wrong, 0.005)
                self.assertLess(holes, 0.05 if pixels != "gray" else 0.5)  # in grey the stripes cross the wall's own

    def test_a_real_scene(self):
        """An empty frame against another one a minute later, and a person between."""
        clip = shared("media/one-by-one-person-detection.mp4")
        ffmpeg("-i", clip, "-vf", r"select=eq(n\,480)", "-frames:v", 1, self.tmp / "plate.png")
        empty, person = (self.masks(clip, "--plate", self.tmp / "plate.png", "-ss", s, "--max-frames", 1)[0] > 127
                         for s in (0, 102))
        self.assertLess(empty.mean(), 0.02)
        box = person[30:360, 380:500]
        self.assertGreater(box.mean(), 0.4)
        person[:, 370:520] = False
        self.assertLess(person.mean(), 0.03)

    def test_the_same_whoever_works_and_what_is_refused(self):
        source, _ = self.scene()
        plate = self.tmp / "plate.png"
        args = ["segment", source, "--plate", plate, "-q"]
        hashes = {run(*args, "--mode", "mask", "-f", "framemd5", "-o", "-", *o).stdout for o in ([], ["--workers", 1])}
        self.assertEqual(len(hashes), 1)
        other = self.tmp / "other.png"
        cv2.imwrite(str(other), 255 - cv2.imread(str(plate)))
        run(*args, "-o", self.tmp / "out.png")
        warned = run("segment", source, "--plate", other, "-y", "-o", self.tmp / "out.png")
        self.assertIn("was the camera moved?", warned.stderr)
        for options, word in ((["--plate", self.tmp / "missing.png"], "missing.png"), (["--plate", plate, "--smooth"], "--smooth"),
                              (["--plate", plate, "--device", "cuda"], "CPU only")):
            p = run("segment", source, *options, "-f", "null", "-o", "-", check=False)
            self.assertNotEqual(p.returncode, 0)
            self.assertIn(word, p.stderr)


class Person(Choice):
    def pair(self):
        """The same person twice, the one on the right smaller."""
        face = cv2.imread(str(PORTRAIT))
        frame = np.full((512, 1024, 3), 200, np.uint8)
        frame[:, :512] = face
        frame[212:, 640:940] = cv2.resize(face, (300, 300))
        cv2.imwrite(str(self.tmp / "pair.png"), frame)
        return self.tmp / "pair.png"

    def test_whom(self):
        source = self.pair()
        both = self.masks(source)[0]
        left, right = (both[:, :600] > 127).sum(), (both[:, 600:] > 127).sum()
        self.assertGreater(left, 1.5 * right)
        self.assertGreater(right, 15000)
        self.assertTrue((self.masks(source, "--person", "all")[0] == both).all())
        for person, kept in (("largest", 0), ("center", 0), ("1", 0), ("2", 1)):
            with self.subTest(person):
                got = self.masks(source, "--person", person)[0]
                sides = [(got[:, :600] > 127).sum(), (got[:, 600:] > 127).sum()]
                self.assertGreater(sides[kept], 0.98 * (left, right)[kept])
                self.assertEqual(sides[1 - kept], 0)
        self.assertEqual(self.masks(source, "--person", "9")[0].max(), 0)
        cv2.imwrite(str(source), cv2.imread(str(source))[:, 300:])  # now the small one is nearer to the middle
        got = self.masks(source, "--person", "center")[0]
        self.assertEqual(got[:, :300].max(), 0)
        self.assertGreater((got[:, 300:] > 127).sum(), 0.8 * right)

    def test_followed_by_any_number_of_workers(self):
        """A clip in which the small one comes closer and the large one leaves the picture."""
        clip = self.tmp / "clip.mkv"
        ffmpeg("-loop", 1, "-i", self.pair(), "-t", 1, "-vf", "crop=640:360:'min(384,n*16)':150,format=yuv420p", "-c:v", "ffv1", clip)
        args = ["segment", clip, "--mode", "mask", "-q", "--person", "1", "-f", "framemd5", "-o", "-"]
        hashes = {run(*args, *o).stdout for o in ([], ["--workers", 1], ["--workers", 3], ["--decoders", 2])}
        self.assertEqual(len(hashes), 1)

    def test_wrong_ones(self):
        for options, word in ((["--person", "0"], "--person"), (["--person", "tallest"], "--person"),
                              (["--person", "1", "--key", "green"], "--person"), (["--person", "1", "--device", "cuda"], "CPU only")):
            p = run("segment", PORTRAIT, *options, "-f", "null", "-o", "-", check=False)
            self.assertNotEqual(p.returncode, 0)
            self.assertIn(word, p.stderr)


if __name__ == "__main__":
    main()
