"""tachy animate: the portrait moves as its driver, outside of the mesh it stays, and what it refuses."""
import json
import os
import re
import subprocess
import wave

import cv2
import numpy as np

import common
from common import DEPS, ffprobe, models, run, shared
from terminal import Terminal

FACE = DEPS / "media" / "astronaut.png"
TOOL = os.environ.get("FACE_TOOL", str(common.ROOT / "build/tests/unit/face_tool"))
OVAL = [10, 338, 297, 332, 284, 251, 389, 356, 454, 323, 361, 288, 397, 365, 379, 378, 400, 377, 152, 148, 176, 149, 150, 136, 172,
        58, 132, 93, 234, 127, 162, 21, 54, 103, 67, 109]
# Around mouth and eyes, in whose openings lie other triangles.
INSIDE = {78, 191, 80, 81, 82, 13, 312, 311, 310, 415, 308, 324, 318, 402, 317, 14, 87, 178, 88, 95, 33, 246, 161, 160, 159, 158, 157,
          173, 133, 155, 154, 153, 145, 144, 163, 7, 362, 398, 384, 385, 386, 387, 388, 466, 263, 249, 390, 373, 374, 380, 381, 382}


def head():
    picture = cv2.imread(str(FACE))[20:200, 135:315]
    return cv2.resize(picture, (300, 300), interpolation=cv2.INTER_AREA)


class Animate(common.Case):
    @classmethod
    def setUpClass(cls):
        models("face", "face-mesh")

    def driver(self, angles):
        """A head that leans to the side."""
        path, frames = self.tmp / "driver.mkv", []
        for a in angles:
            turn = cv2.getRotationMatrix2D((150, 150), -a, 1)
            frame = np.full((360, 480, 3), 90, np.uint8)
            frame[30:330, 90:390] = cv2.warpAffine(head(), turn, (300, 300), borderMode=cv2.BORDER_REPLICATE)
            frames.append(frame)
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "bgr24", "-s", "480x360", "-r", "25", "-i", "-",
                        "-c:v", "libx264rgb", "-qp", "0", str(path)], input=b"".join(f.tobytes() for f in frames), check=True)
        return path

    def portrait(self):
        path = self.tmp / "portrait.png"
        picture = np.full((700, 900, 3), 60, np.uint8)
        picture[200:500, 300:600] = head()
        cv2.imwrite(str(path), picture)
        return path

    def angles(self, clip):
        """Of the line between the eyes, degrees."""
        run("track", "--no-smoothing", clip, "-o", self.tmp / "p.jsonl", "-y")
        found = []
        for line in (self.tmp / "p.jsonl").read_text().splitlines():
            p = np.array(json.loads(line)["regions"][0]["points"])
            found.append(np.degrees(np.arctan2(p[263, 1] - p[33, 1], p[263, 0] - p[33, 0])))
        return np.array(found)

    def leans(self, clip):
        found = self.angles(clip)
        return found - found[0]

    def test_portrait_leans_as_its_driver(self):
        angles = [*range(0, 16, 2), *range(16, -16, -2)]
        driver, out = self.driver(angles), self.tmp / "out.mkv"
        run("animate", "--no-smoothing", "--image", self.portrait(), driver, "-o", out, "-y", "-c:v", "ffv1")
        video = ffprobe(out)["streams"][0]
        self.assertEqual((video["width"], video["height"]), (900, 700))
        a, b = self.leans(driver), self.leans(out)
        self.assertEqual(len(b), len(angles))
        self.assertGreater(np.corrcoef(a, b)[0, 1], 0.98)
        self.assertAlmostEqual(np.polyfit(a, b, 1)[0], 1, delta=0.2)

    def test_absolute_motion(self):
        """The head is as the driver's from the first frame on, though that begins aside."""
        driver, out = self.driver([12, 12, 2, -8]), self.tmp / "out.mkv"
        for motion, by in (("absolute", 0), ("relative", 12)):
            run("animate", "--no-smoothing", "--motion", motion, "--image", self.portrait(), driver, "-o", out, "-y", "-c:v", "ffv1")
            off = self.angles(driver) - self.angles(out)
            self.assertLess(abs(off - by).max(), 2.5, (motion, off))

    def test_background_stays(self):
        out = self.tmp / "out.mkv"
        run("animate", "--image", self.portrait(), self.driver([0, 5, 10]), "-o", out, "-y", "-c:v", "ffv1")
        frames, video = [], cv2.VideoCapture(str(out))
        while True:
            ok, frame = video.read()
            if not ok:
                break
            frames.append(frame)
        self.assertEqual(len(frames), 3)
        self.assertTrue((frames[0][:, :80] == frames[2][:, :80]).all())
        self.assertTrue((frames[0][300:400, 400:500] != frames[2][300:400, 400:500]).any())

    def test_several_at_once(self):
        """Each of several inputs at its own rate moves the portrait as it would alone; one that cannot be read stops no other."""
        for name, angles in {"a": range(0, 16), "b": range(0, -24, -2), "dead": range(0, 40)}.items():
            self.driver(angles).rename(self.tmp / f"{name}.mkv")
        dead = self.tmp / "dead.mkv"
        dead.write_bytes(dead.read_bytes()[:400])  # its header alone
        common = ("animate", "--image", self.portrait(), "-q", "-f", "framemd5")
        for name in "ab":
            run(*common, self.tmp / f"{name}.mkv", "-o", f"{self.tmp}/alone/")
        p = run(*common, "-re", "--parallel", 3, dead, self.tmp / "a.mkv", self.tmp / "b.mkv", "-o", f"{self.tmp}/together/", check=False)
        self.assertEqual(p.returncode, 1, p.stderr)
        self.assertIn("dead.mkv", p.stderr)
        for name, frames in {"a": 16, "b": 12}.items():
            alone, together = ((self.tmp / folder / f"{name}.animate.framemd5").read_text() for folder in ("alone", "together"))
            self.assertEqual(together, alone)
            lines = [line for line in alone.splitlines() if not line.startswith("#")]
            self.assertEqual(len(lines), frames)
            self.assertGreater(len({line.split(",")[-1] for line in lines}), frames // 2)  # it moves

    def test_real_clips_at_once(self):
        """Two cameras' worth of people, --batch too: each output is the one that its input has alone."""
        clips = [shared(f"media/liveportrait_{name}.mp4") for name in ("d0", "d6")]
        common = ("animate", "--image", shared("media/portrait_pd_s9.jpg"), "--max-frames", 30, "-f", "framemd5")
        for clip in clips:
            run(*common, "-q", clip, "-o", f"{self.tmp}/alone/")
        p = run(*common, "--parallel", 2, "--batch", 4, *clips, "-o", f"{self.tmp}/together/")
        self.assertIn("animate: takes one picture at a time", p.stderr)
        for clip in clips:
            alone, together = ((self.tmp / folder / f"{clip.stem}.animate.framemd5").read_text() for folder in ("alone", "together"))
            self.assertEqual(together, alone)
            self.assertGreater(len({line.split(",")[-1] for line in alone.splitlines() if line[0] != "#"}), 20)  # it moves

    def turned(self, points, luma, degrees):
        """The mesh at that turn, painted with a portrait of that luma: 0 is a hole."""
        height, width = luma.shape
        (self.tmp / "points.txt").write_text(f"{width} {height}\n" + "\n".join(" ".join(map(str, p)) for p in points) + "\n")
        p = subprocess.run([TOOL, self.tmp / "points.txt", str(degrees)], input=luma.tobytes() + bytes([128]) * (width * height // 2),
                           capture_output=True, check=True)
        return np.frombuffer(p.stdout, np.uint8)[:width * height].reshape(height, width)

    def rotated(self, points, degrees):
        c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        middle = points[1] + [0, 0, 0.8 * np.linalg.norm(points[33, :2] - points[263, :2])]
        x, y, z = (points - middle).T
        return np.stack([c * x + s * z, y, c * z - s * x], 1) + middle

    def nearest(self, points, width, height, degrees):
        """Where the surface in front has its texture, by a depth buffer; nan at mouth, eyes, the outline and near its sides, which have
        rules of their own."""
        listed = re.findall(r"\{\{(\d+), (\d+), (\d+)\}\}", (common.ROOT / "src/animate/face_triangles.inc").read_text())
        self.assertGreater(len(listed), 800)
        listed = [list(map(int, t)) for t in listed]
        outer = set(OVAL[3:14] + OVAL[-13:-2])
        for _ in range(2):
            outer |= {k for t in listed if set(t) & outer for k in t}
        outer |= set(OVAL)
        at = self.rotated(points, degrees)
        depth, u = np.full((height, width), np.inf), np.full((height, width), np.nan)
        for t in listed:
            a, b, d = at[t]
            area = (b[0] - a[0]) * (d[1] - a[1]) - (b[1] - a[1]) * (d[0] - a[0])
            if area <= 0:
                continue
            x0, y0, x1, y1 = *np.floor(at[t].min(0)[:2]).astype(int), *np.ceil(at[t].max(0)[:2]).astype(int)
            px, py = np.meshgrid(np.arange(x0, x1), np.arange(y0, y1))
            v = ((px + 0.5 - a[0]) * (d[1] - a[1]) - (py + 0.5 - a[1]) * (d[0] - a[0])) / area
            w = ((b[0] - a[0]) * (py + 0.5 - a[1]) - (b[1] - a[1]) * (px + 0.5 - a[0])) / area
            z = a[2] + v * (b[2] - a[2]) + w * (d[2] - a[2])
            front = (v >= 0) & (w >= 0) & (v + w <= 1) & (z < depth[y0:y1, x0:x1])
            of = points[t, 0]
            depth[y0:y1, x0:x1][front] = z[front]
            own = set(t) & outer or all(k in INSIDE for k in t)
            u[y0:y1, x0:x1][front] = np.nan if own else (of[0] + v * (of[1] - of[0]) + w * (of[2] - of[0]))[front]
        return u

    def points_of(self, picture):
        run("track", picture, "-o", self.tmp / "p.jsonl", "-y")
        points = np.array(json.loads((self.tmp / "p.jsonl").read_text())["regions"][0]["points"])[:, :3]
        return np.vstack([points[:478], np.zeros((478 - min(len(points), 478), 3))])

    def test_no_seam_at_the_cheek(self):
        """The rim of the face is not stretched over the cheek that turns to the viewer."""
        for picture in (self.portrait(), shared("media/portrait_pd_s0.jpg")):
            points = self.points_of(picture)
            height, width = (n // 2 * 2 for n in cv2.imread(str(picture)).shape[:2])
            oval, luma = points[OVAL, :2], np.full((height, width), 250, np.uint8)
            cv2.fillPoly(luma, [(oval.mean(0) + 0.95 * (oval - oval.mean(0))).round().astype(np.int32)], 100)
            for side in (-1, 1):
                rim = {}
                for degrees in (0, 15 * side, 25 * side):
                    at = self.rotated(points, degrees)[:468, :2].astype(np.float32)
                    face = cv2.fillConvexPoly(np.zeros((height, width), np.uint8), cv2.convexHull(at).round().astype(np.int32), 1)
                    edge = int((0.3 if side < 0 else 0.7) * np.ptp(at[:, 0]) + at[:, 0].min())
                    near = np.s_[:, :edge] if side < 0 else np.s_[:, edge:]
                    rim[degrees] = (self.turned(points, luma, degrees)[near][face[near] > 0] > 175).mean()
                with self.subTest(picture=picture.name, side=side):
                    print(picture.name, {k: round(float(v), 3) for k, v in rim.items()})
                    self.assertLess(max(rim.values()), 2 * rim[0])

    def test_no_hole_opens(self):
        """Up to 25 degrees of yaw the mesh covers all it covers at rest, with what is in front."""
        pictures = [self.portrait(), shared("media/portrait_pd_s0.jpg"), shared("media/portrait_pd_s9.jpg"), shared("media/portrait_pd_s10.jpg")]
        for picture in pictures:
            height, width = (n // 2 * 2 for n in cv2.imread(str(picture)).shape[:2])
            points = self.points_of(picture)
            luma = np.tile(np.linspace(4, 250, width).round().astype(np.uint8), (height, 1))
            oval = points[OVAL, :2]
            border = oval.mean(0) + 2.4 * (oval - oval.mean(0))
            inside = cv2.fillPoly(np.zeros((height, width), np.uint8), [border.round().astype(np.int32)], 1)
            least, most = cv2.erode(inside, np.ones((5, 5))) > 0, cv2.dilate(inside, np.ones((5, 5))) > 0
            for degrees in range(-25, 26, 5):
                with self.subTest(picture=picture.name, degrees=degrees):
                    made = self.turned(points, luma, degrees)
                    self.assertEqual((made[least] == 0).sum(), 0)
                    self.assertEqual((made[~most] != 0).sum(), 0)
                    u = self.nearest(points, width, height, degrees)
                    known = ~np.isnan(u)
                    wrong = abs((made[known] - 4.0) / 246 * (width - 1) + 0.5 - u[known]) > 0.005 * width
                    self.assertGreater(known.sum(), 0.05 * least.sum())
                    self.assertLess(wrong.mean(), 0.01, (wrong.sum(), known.sum()))

    def portraits(self):
        """A folder of two; the second is narrower and shows the face the other way round."""
        folder = self.tmp / "portraits"
        folder.mkdir(exist_ok=True)
        self.portrait().rename(folder / "1.png")
        picture = np.full((700, 450, 3), 160, np.uint8)
        picture[200:500, 75:375] = head()[:, ::-1]
        cv2.imwrite(str(folder / "2.png"), picture)
        (folder / "notes.txt").write_text("no picture")
        return folder

    def frames(self, path):
        video, found = cv2.VideoCapture(str(path)), []
        while (frame := video.read())[0]:
            found.append(frame[1].astype(int))
        return found

    def test_one_of_several(self):
        folder, driver, out = self.portraits(), self.driver([0, 5, 10]), self.tmp / "out.mkv"
        made = {}
        for name, args in {"one": ["--image", folder / "1.png"], "first": ["--image", folder],
                           "second": ["--image", folder / "1.png", "--image", folder / "2.png", "--portrait", 2],
                           "mirrored": ["--image", folder, "--mirror"]}.items():
            run("animate", *args, driver, "-o", out, "-y", "-c:v", "ffv1")
            made[name] = self.frames(out)
        for one, first, second, mirrored in zip(*made.values()):
            self.assertTrue((one == first).all())
            self.assertLess(abs(mirrored[:, ::-1] - one).mean(), 0.5)  # chroma's rounding
            self.assertLess(second[:, :220].max(), 3)  # bars
            self.assertLess(second[:, 680:].max(), 3)
            self.assertLess(abs(second[:, 230:290] - 160).max(), 4)
        p = run("animate", "--image", folder, "--portrait", 3, driver, "-o", out, "-y", check=False)
        self.assertNotEqual(p.returncode, 0)
        self.assertIn("--portrait 3: --image names 2", p.stderr)

    def test_keys(self):
        """The driver leans for good; a new rest, another portrait and a mirror are in the last picture."""
        folder, driver, out = self.portraits(), self.driver([0] * 10 + [12] * 490), self.tmp / "out.mkv"
        run("animate", "--image", folder, "--portrait", 2, "--max-frames", 1, driver, "-o", out, "-c:v", "ffv1", "-y")
        rest = self.frames(out)[0]
        t = Terminal("animate", "--image", folder, "--no-smoothing", "-re", driver, "-o", out, "-c:v", "ffv1", "-y")

        def later(n):
            now = int(t.expect(r"%  +(\d+)/").group(1))
            while int(t.expect(r"%  +(\d+)/").group(1)) < now + n:
                pass

        later(20)
        for key, answer in [("?", "1 to 9 another portrait.*l landmarks"), ("l", "landmarks are shown"), ("l", "landmarks are hidden"),
                            ("b", "there is only the mesh"), ("9", "to more than the 2 that --image names"), ("m", "mirrored"),
                            ("2", "portrait 2")]:
            t.type(key)
            t.expect(answer)
        later(10)
        t.type("c")
        t.expect("counts as at rest")
        later(10)
        t.type("q")
        t.wait()
        made = self.frames(out)
        leans = [abs(f[:, ::-1] - rest)[200:500, 300:600].mean() for f in made]
        before = [x for f, x in zip(made, leans) if f[0, 0].max() < 3][0]
        self.assertGreater(before, 5, leans)
        self.assertLess(leans[-1], before / 4, leans)

    def test_landmarks(self):
        """What --landmarks changes lies around the points that are tracked in the picture without them."""
        out, driver = self.tmp / "out.mkv", self.driver([0, 8])
        made = {}
        for name, args in {"plain": [], "drawn": ["--landmarks"], "mirrored": ["--landmarks", "--mirror"]}.items():
            run("animate", "--no-smoothing", "--image", self.portrait(), *args, driver, "-o", out, "-y", "-c:v", "ffv1")
            made[name] = self.frames(out)
            if not args:
                run("track", "--no-smoothing", out, "-o", self.tmp / "p.jsonl", "-y")
        points = [np.array(json.loads(line)["regions"][0]["points"])[:, :2] for line in (self.tmp / "p.jsonl").read_text().splitlines()]
        for plain, drawn, mirrored, p in zip(*made.values(), points):
            changed = np.argwhere(abs(drawn - plain).max(2) > 20)[:, ::-1]
            self.assertGreater(len(changed), 468)
            away = np.linalg.norm(changed[:, None] + 0.5 - p[None], axis=2)
            self.assertLess(np.quantile(away.min(1), 0.95), 6)  # pixels; the tracker finds the points of a painted face elsewhere
            self.assertLess(np.quantile(away.min(0), 0.95), 6)
            self.assertLess(abs(mirrored[:, ::-1] - drawn).mean(), 0.5)
        p = run("animate", "--image", self.portrait(), "--landmarks", "--device", "cuda", driver, "-o", out, "-y", check=False)
        self.assertEqual(p.returncode, 1)
        self.assertIn("leave them or --device cuda out", p.stderr)

    def test_driver_beside_the_portrait(self):
        """The driver upright and as high as the portrait, whose pictures are those without it; of a turned input as well."""
        out, driver, turned = self.tmp / "out.mkv", self.driver([0, 8]), self.tmp / "turned.mp4"
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", str(driver), "-vf", "transpose=1", "-c:v", "libx264rgb", "-qp", "0",
                        str(self.tmp / "upside.mp4")], check=True)
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", str(self.tmp / "upside.mp4"), "-c", "copy", "-metadata:s:v", "rotate=90", str(turned)],
                       check=True)
        common = ("animate", "--no-smoothing", "--image", self.portrait(), "-o", out, "-y", "-c:v", "ffv1")
        run(*common, driver)
        alone = self.frames(out)
        for clip in (driver, turned):
            run(*common, clip, "--side-by-side")
            for n, (both, portrait) in enumerate(zip(self.frames(out), alone, strict=True)):
                self.assertEqual(both.shape, (700, 934 + 900, 3))
                if clip == driver:  # points of turned pictures differ a little
                    self.assertLess(abs(both[:, 934:] - portrait).mean(), 0.1)
                wanted = cv2.resize(self.frames(driver)[n].astype(np.uint8), (934, 700)).astype(int)
                self.assertLess(abs(both[:, :934] - wanted).mean(), 3)
        for args, status, text in ((["--device", "cuda", driver], 1, "leave it or --device cuda out"),
                                   (["--audio", driver], 2, "leave --side-by-side out")):
            p = run(*common, *args, "--side-by-side", check=False)
            self.assertEqual(p.returncode, status, p.stderr)
            self.assertIn(text, p.stderr)

    def mouth(self, clip):
        """How far the lips are apart in each frame, shares of the eyes' distance."""
        run("track", "--no-smoothing", clip, "-o", self.tmp / "p.jsonl", "-y")
        lines = (self.tmp / "p.jsonl").read_text().splitlines()
        points = [np.array(json.loads(line)["regions"][0]["points"])[:, :2] for line in lines]
        return np.array([np.linalg.norm(p[13] - p[14]) / np.linalg.norm(p[33] - p[263]) for p in points])

    def test_speech_opens_the_mouth(self):
        speech, out = shared("media/flp_speech_a-01.wav"), self.tmp / "out.mkv"
        run("animate", "--image", shared("media/portrait_pd_s0.jpg"), "--audio", speech, out, "-c:v", "ffv1", "-y")
        with wave.open(str(speech)) as f:
            rate = f.getframerate()
            samples = np.frombuffer(f.readframes(f.getnframes()), np.int16).reshape(-1, f.getnchannels())[:, 0] / 32768
        loud = np.array([np.sqrt((samples[max(0, int((i - 0.5) / 25 * rate)):int((i + 1.5) / 25 * rate)] ** 2).mean())
                         for i in range(-(-len(samples) * 25 // rate))])
        open_by = self.mouth(out)
        self.assertEqual(len(open_by), len(loud))
        correlation = np.corrcoef(np.sqrt(loud), open_by)[0, 1]
        print("correlation of mouth and envelope", round(correlation, 3), "opening p95", round(np.quantile(open_by, 0.95), 3))
        self.assertGreater(correlation, 0.8)
        self.assertGreater(np.quantile(open_by, 0.95) - open_by.min(), 0.05)
        kinds = {s["codec_type"]: s for s in ffprobe(out)["streams"]}
        sound = subprocess.run(["ffmpeg", "-v", "error", "-i", str(out), "-vn", "-ac", "1", "-f", "f32le", "-"], capture_output=True,
                               check=True).stdout
        sound = np.frombuffer(sound, np.float32)
        self.assertEqual(kinds["audio"]["sample_rate"], str(rate))
        self.assertEqual(len(sound), len(samples))
        self.assertLess(abs(sound - samples).max(), 1e-3)

    def test_silence_keeps_the_mouth_closed(self):
        quiet, out = self.tmp / "quiet.wav", self.tmp / "out.mkv"
        noise = np.random.default_rng(1).normal(0, 10 ** (-75 / 20), 48000) * 32768
        with wave.open(str(quiet), "wb") as f:
            f.setparams((1, 2, 16000, 0, "NONE", ""))
            f.writeframes(np.concatenate([np.zeros(16000), noise]).astype("<i2").tobytes())
        p = run("animate", "--image", self.portrait(), "--audio", quiet, "-r", 10, "-o", out, "-c:v", "ffv1", "-y")
        made = self.frames(out)
        self.assertEqual(len(made), 40, p.stderr)
        for frame in made[1:]:
            self.assertTrue((frame == made[0]).all())
        name = self.tmp / "quiet.animate.mkv"
        run("animate", "--image", self.portrait(), "--audio", quiet, "-r", 5, "-ss", 1, "-t", 1)
        self.assertEqual(len(self.frames(name)), 5)

    def test_sound_that_cannot_be_used(self):
        out, mute = self.tmp / "out.mkv", self.driver([0])
        for args, status, text in [(["--audio", mute], 1, "holds no sound"), (["--audio", self.tmp / "none.wav"], 1, "No such file"),
                                   (["--audio", mute, "-i", mute], 2, "leave it or the input out"),
                                   (["--audio", mute, "--loop"], 2, "leave --loop out")]:
            p = run("animate", "--image", self.portrait(), *args, "-o", out, check=False)
            self.assertEqual(p.returncode, status, p.stderr)
            self.assertIn(text, p.stderr)
            self.assertFalse(out.exists())

    def test_portraits_that_cannot_be_used(self):
        driver, out = self.driver([0]), self.tmp / "out.mkv"
        for name, picture in (("plain.png", np.full((300, 300, 3), 120, np.uint8)), ("one.png", np.zeros((1, 1, 3), np.uint8))):
            cv2.imwrite(str(self.tmp / name), picture)
            p = run("animate", "--image", self.tmp / name, driver, "-o", out, check=False)
            self.assertEqual(p.returncode, 1)
            self.assertIn("shows no face", p.stderr)
            self.assertFalse(out.exists())
        (self.tmp / "empty").mkdir()
        p = run("animate", "--image", self.tmp / "empty", driver, "-o", out, check=False)
        self.assertIn("there is no picture in this folder", p.stderr)
        p = run("animate", driver, "-o", out, check=False)
        self.assertEqual(p.returncode, 2)
        self.assertIn("--image FILE", p.stderr)


if __name__ == "__main__":
    if not FACE.exists():
        print("skipped: the test media are not here (tools/setup --tests)")
        raise SystemExit(77)
    common.main("Animate.test_background_stays", "Animate.test_silence_keeps_the_mouth_closed")
