"""tachy track: points against ONNX Runtime's own package, numbers that stay, cuts, text and overlay."""
import csv
import json
import os
import subprocess

import cv2
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import common
from common import DEPS, ffprobe, models, run

FACE = DEPS / "media" / "astronaut.png"
W, H = 640, 360
EYES = (33, 263)


def face(size, flip=False):
    """The head of the picture, `size` pixels square."""
    picture = cv2.imread(str(FACE))[20:200, 135:315]
    return cv2.resize(picture[:, ::-1] if flip else picture, (size, size), interpolation=cv2.INTER_AREA)


def scene(*heads, shade=90):
    """A frame with heads at (x, y), the left upper corner."""
    frame = np.full((H, W, 3), shade, np.uint8)
    for head, x, y in heads:
        frame[y:y + head.shape[0], x:x + head.shape[1]] = head
    return frame


def points(region):
    return np.array(region["points"])[:, :2]


def crop_of(p):
    """What the next frame's crop is, from this one's points: centre, side, angle in radians."""
    low, high = p.min(0), p.max(0)
    d = p[EYES[1]] - p[EYES[0]]
    return (low + high) / 2, 1.5 * (high - low).max(), np.arctan2(d[1], d[0])


class Track(common.Case):
    @classmethod
    def setUpClass(cls):
        models("face", "face-mesh")

    def clip(self, frames, name="clip.mkv"):
        """A lossless video, in R'G'B'."""
        path = self.tmp / name
        raw = b"".join(f.tobytes() for f in frames)
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "bgr24", "-s", f"{W}x{H}", "-r", "25",
                        "-i", "-", "-c:v", "libx264rgb", "-qp", "0", "-preset", "ultrafast", str(path)], input=raw, check=True)
        return path

    def track(self, clip, *args, name="out.jsonl", **kw):
        run("track", clip, "-o", self.tmp / name, "-y", *args, **kw)
        return [json.loads(line) for line in (self.tmp / name).read_text().splitlines()]

    def test_points_are_those_of_the_network(self):
        head = face(260)
        turned = cv2.warpAffine(scene((head, 180, 60)), cv2.getRotationMatrix2D((310, 190), 20, 1), (W, H), borderValue=(90,) * 3)
        frames = self.track(self.clip([turned] * 4), "--no-smoothing")
        session = onnxruntime.InferenceSession(os.environ["TACHY_MODELS"] + "/face-mesh.onnx", providers=["CPUExecutionProvider"])
        for before, now in zip(frames[1:], frames[2:]):
            (cx, cy), side, angle = crop_of(points(before["regions"][0]))
            scale = side / 192
            turn = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            shift = np.array([cx, cy]) - turn @ [96, 96]  # pixel edges at integers
            at = np.concatenate([turn, (shift + turn @ [0.5, 0.5] - 0.5)[:, None]], axis=1)
            crop = cv2.warpAffine(turned, at, (192, 192), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)
            out = session.run(["conv2d_21"], {session.get_inputs()[0].name:
                              crop[None, :, :, ::-1].astype(np.float32) / 255})[0].reshape(468, 3)[:, :2]
            want = out @ turn.T + shift
            found = points(now["regions"][0])
            eye = np.linalg.norm(want[EYES[0]] - want[EYES[1]])
            error = np.linalg.norm(found - want, axis=1) / eye
            self.assertLess(error.mean(), 0.005)
            self.assertLess(np.percentile(error, 95), 0.01)
            self.assertGreater(now["regions"][0]["score"], 0.9)

    def test_refined_points_are_those_of_the_network(self):
        models("face-mesh-attention")
        frame = scene((face(260), 180, 60))
        frames = self.track(self.clip([frame] * 3), "--no-smoothing", "--refine-landmarks")
        session = onnxruntime.InferenceSession(os.environ["TACHY_MODELS"] + "/face-mesh-attention.onnx",
                                               providers=["CPUExecutionProvider"])
        (cx, cy), side, angle = crop_of(points(frames[1]["regions"][0]))
        scale = side / 192
        turn = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        shift = np.array([cx, cy]) - turn @ [96, 96]
        at = np.concatenate([turn, (shift + turn @ [0.5, 0.5] - 0.5)[:, None]], axis=1)
        crop = cv2.warpAffine(frame, at, (192, 192), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)
        out = session.run(["output_left_iris", "output_right_iris", "output_lips"], {session.get_inputs()[0].name:
                          crop[None, :, :, ::-1].astype(np.float32) / 255})
        left, right, lips = (o.reshape(-1, 2) @ turn.T + shift for o in out)
        found = points(frames[2]["regions"][0])
        self.assertEqual(len(found), 478)
        eye = np.linalg.norm(found[EYES[0]] - found[EYES[1]])
        for got, want in ((found[468:473], left), (found[473:478], right), (found[[61, 146, 91]], lips[:3])):
            self.assertLess(np.linalg.norm(got - want, axis=1).max() / eye, 0.01)

    def test_pose_and_expression(self):
        """Of a picture, of its mirror image, turned by 20 degrees, at half the size, and with the nose squeezed to a side."""
        models("face-mesh-attention")
        head = face(260)
        turned = cv2.warpAffine(scene((head, 180, 60)), cv2.getRotationMatrix2D((310, 190), -20, 1), (W, H), borderValue=(90,) * 3)
        plain, mirrored, turned, half = ({**f["regions"][0]["values"], "points": points(f["regions"][0])} for f in (
            self.track(self.clip([picture] * 3), "--no-smoothing", "--refine-landmarks")[2] for picture in (
                scene((head, 180, 60)), scene((head, 180, 60))[:, ::-1], turned, scene((face(130), 245, 125)))))
        self.assertLess(abs(plain["yaw"]), 6)
        self.assertAlmostEqual(mirrored["yaw"], -plain["yaw"], delta=3)
        self.assertAlmostEqual(turned["roll"] - plain["roll"], 20, delta=2)
        self.assertAlmostEqual(half["z"] / plain["z"], 2, delta=0.1)
        eye = np.linalg.norm(plain["points"][EYES[0]] - plain["points"][EYES[1]])
        middle = (plain["points"][EYES[0]] + plain["points"][EYES[1]]) / 2
        self.assertAlmostEqual(plain["x"], (middle[0] - W / 2) * 9 / eye, delta=0.3)
        self.assertGreater(min(plain["mouthSmileLeft"], plain["mouthSmileRight"]), 0.4)  # she smiles, with open lips
        self.assertGreater(plain["jawOpen"], 0.1)
        self.assertEqual((plain["eyeBlinkLeft"], plain["eyeBlinkRight"], plain["mouthPucker"]), (0, 0, 0))
        for name in ("mouthSmile", "eyeWide", "browDown", "browOuterUp", "eyeBlink"):
            self.assertAlmostEqual(mirrored[name + "Left"], plain[name + "Right"], delta=0.25)

    def expression_card(self, points, names, outputs=None, **keys):
        """A generated network that takes these points at any place and size, and its card."""
        random, n = np.random.default_rng(3), len(points)
        const = {"mean": np.array([1]), "flat": np.array([1, 2 * n]), "all": np.array([1, 2]),
                 "w": random.normal(0, 1, (2 * n, outputs or len(names))).astype(np.float32)}
        nodes = [("ReduceMean", ["points", "mean"], "c"), ("Sub", ["points", "c"], "d"), ("ReduceL2", ["d", "all"], "s"), ("Div", ["d", "s"], "e"),
                 ("Reshape", ["e", "flat"], "f"), ("MatMul", ["f", "w"], "g"), ("Sigmoid", ["g"], "out")]
        graph = helper.make_graph([helper.make_node(op, ins, [out]) for op, ins, out in nodes], "expression",
                                  [helper.make_tensor_value_info("points", TensorProto.FLOAT, [1, n, 2])],
                                  [helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, outputs or len(names)])],
                                  [numpy_helper.from_array(v, k) for k, v in const.items()])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(self.tmp / "expression.onnx"))
        card = self.tmp / "expression.json"
        card.write_text(json.dumps({"version": 1, "name": "generated", "task": "track", "networks": {"expression": "expression.onnx"},
                                    "points": points, "names": names, **keys}))
        return card

    def test_expression_by_a_network(self):
        """52 coefficients in place of the 15 by geometry, as ONNX Runtime gives them for the points that are told."""
        chosen, names = [*range(0, 468, 4)][:100], [f"sign{i}" for i in range(52)]
        card = self.expression_card(chosen, names)
        clip = self.clip([scene((face(260), 180 - 20 * i, 60)) for i in range(4)])
        frames = self.track(clip, "--expression-card", card, "--workers", 2)
        session = onnxruntime.InferenceSession(str(self.tmp / "expression.onnx"), providers=["CPUExecutionProvider"])
        plain = self.track(clip)
        self.assertEqual(len(frames), 4)
        for f, by_geometry in zip(frames, plain):
            values, pose = f["regions"][0]["values"], by_geometry["regions"][0]["values"]
            self.assertEqual(list(values), ["yaw", "pitch", "roll", "x", "y", "z", *names])
            self.assertEqual([values[k] for k in ("yaw", "z")], [pose[k] for k in ("yaw", "z")])
            want = session.run(None, {"points": points(f["regions"][0])[chosen][None].astype(np.float32)})[0][0]
            self.assertLess(abs(np.array([values[n] for n in names]) - want).max(), 2e-3)

    def test_expression_cards_that_cannot_be_used(self):
        clip, names = self.clip([scene((face(260), 180, 60))] * 2), ["a", "b"]
        for args, text in ((dict(points=[0, 478], names=names), "`points` must be whole numbers from 0 to 477"),
                           (dict(points=[], names=names), "`points` must be an array of 1 to 478 numbers of points"),
                           (dict(points=[0, 1], names=["a", ""]), "`names` must be texts of 1 to 64 bytes"),
                           (dict(points=[0, 1], names=names, feather=0.1), "`feather` is not a key"),
                           (dict(points=[0, 1], names=names, outputs=3), "as `expression` its out should have 2 numbers, and has 3"),
                           (dict(points=[0, 470], names=names), "the card takes point 470, and faces have 468 points: add --refine-landmarks")):
            p = run("track", clip, "--expression-card", self.expression_card(**args), "-o", self.tmp / "no.jsonl", check=False)
            self.assertEqual(p.returncode, 1, p.stderr)
            self.assertIn(text, p.stderr)
        p = run("track", clip, "--sandbox", "--expression-card", self.tmp / "expression.json", "-o", self.tmp / "no.jsonl", check=False)
        self.assertEqual(p.returncode, 2, p.stderr)
        self.assertIn("leave it or --expression-card out", p.stderr)

    def test_a_file_that_wants_refined_points_warns_without_the_model(self):
        (self.tmp / "live.yaml").write_text("version: 1\ntracking: {refine_landmarks: yes}\n")
        folder = self.tmp / "models"
        folder.mkdir()
        for name in ("face", "face-mesh"):
            (folder / f"{name}.onnx").symlink_to(os.environ["TACHY_MODELS"] + f"/{name}.onnx")
        clip = self.clip([scene((face(260), 180, 60))])
        p = run("track", clip, "-c", self.tmp / "live.yaml", "--model-dir", folder, "-o", self.tmp / "out.jsonl")
        self.assertIn("tachy model pull face-mesh-attention", p.stderr)
        self.assertEqual(len(json.loads((self.tmp / "out.jsonl").read_text())["regions"][0]["points"]), 468)
        p = run("track", clip, "--refine-landmarks", "--model-dir", folder, "-o", self.tmp / "no.jsonl", check=False)
        self.assertNotEqual(p.returncode, 0)
        self.assertIn("tachy model pull face-mesh-attention", p.stderr)

    def test_found_again_after_a_cut(self):
        small, large = face(180), face(300, flip=True)
        frames = [scene((small, 20, 20))] * 6 + [scene((large, 330, 40), shade=30)] * 6 + [scene(shade=200)] * 3 \
            + [scene((small, 400, 150))] * 6
        found = self.track(self.clip(frames))
        self.assertEqual(len(found), len(frames))
        for first, last, x in ((0, 6, 110), (8, 12, 480), (17, 21, 490)):  # two frames after each cut
            for f in found[first:last]:
                self.assertEqual(len(f["regions"]), 1, f["frame"])
                self.assertLess(abs(f["regions"][0]["box"][0] - x), 60)
        self.assertEqual([len(f["regions"]) for f in found[12:15]], [0, 0, 0])

    def test_numbers_stay(self):
        a, b = face(200), face(200, flip=True)
        clip = self.clip([scene((a, 10 + 5 * t, 20), (b, 420 - 3 * t, 140)) for t in range(30)])
        frames = self.track(clip, "--max-faces", "4")
        for t, f in enumerate(frames):
            left, right = sorted(f["regions"], key=lambda r: r["box"][0])
            self.assertEqual({left["track"], right["track"]}, {0, 1})
            self.assertEqual(left["track"], min(frames[0]["regions"], key=lambda r: r["box"][0])["track"])
            # Smoothed points lag by less than what a frame moves.
            self.assertLess(abs((right["box"][0] - left["box"][0]) - (410 - 8 * t)), 40)
        self.assertEqual([len(f["regions"]) for f in self.track(clip)], [1] * 30)  # one face is the default

    def test_workers_change_nothing(self):
        clip = self.clip([scene((face(220), 100 + 6 * t, 40)) for t in range(16)])
        one = (self.track(clip, "--workers", "1"), (self.tmp / "out.jsonl").read_bytes())[1]
        self.track(clip, "--workers", "5", name="more.jsonl")
        self.assertEqual((self.tmp / "more.jsonl").read_bytes(), one)
        # With a smoothing that continues where the previous part ended.
        self.track(clip, "--resume", name="parts.jsonl")
        self.assertEqual((self.tmp / "parts.jsonl").read_bytes(), one)

    def test_cores_change_nothing(self):
        a, b = face(150), face(150, flip=True)  # three, two, three: the detector finds the third again
        frames = [scene((a, 10 + 3 * t, 20), (b, 250, 150 - t), *([] if 8 <= t < 12 else [(a, 470, 190)])) for t in range(24)]
        clip, found = self.clip(frames), {}
        cores = sorted(os.sched_getaffinity(0))
        for some in (cores[:1], cores):  # of one core the faces are looked at one after the other
            regions = self.track(clip, "--max-faces", "4", "--detect-every", "2", preexec_fn=lambda: os.sched_setaffinity(0, some))
            self.assertEqual([len(f["regions"]) for f in regions[:8] + regions[13:]], [3] * 19)
            found[len(some)] = (self.tmp / "out.jsonl").read_bytes()
        self.assertEqual(found[1], found[len(cores)])

    def test_frames_searched_together(self):
        """Frames with nobody before, between and after: also of one core the lines are those of the detector frame by frame."""
        a = face(200)
        frames = [scene(shade=120)] * 7 + [scene((a, 60, 40))] * 4 + [scene(shade=60)] * 11 + [scene((a, 320, 60))] * 3 + [scene(shade=90)] * 2
        clip, config, found = self.clip(frames), self.tmp / "batch.yaml", set()
        for batch in (1, 2, 100):
            config.write_text(f"face_detection_batch: {batch}\n")
            regions = self.track(clip, "-c", config, *(["--workers", "1"] if batch == 2 else []))
            self.assertEqual([bool(f["regions"]) for f in regions[:11]], [False] * 7 + [True] * 4)
            found.add((self.tmp / "out.jsonl").read_bytes())
        self.track(clip, "-c", config, "--resume", name="parts.jsonl")
        self.assertEqual(found, {(self.tmp / "parts.jsonl").read_bytes()})

    def test_window_of_smoothing(self):
        """It is the cut-off of as much noise; 1 is none; --min-cutoff wins."""
        noise = np.random.default_rng(1)
        clip = self.clip([np.clip(scene((face(200), 220, 80)) + noise.normal(0, 12, (H, W, 3)), 0, 255).astype(np.uint8) for _ in range(30)])

        def jitter(lines):
            track = np.array([points(line["regions"][0]) for line in lines[10:]])
            return np.abs(np.diff(track, axis=0)).mean()

        as_said = self.track(clip, "--smoothing-window", 9)
        self.assertEqual(as_said, self.track(clip, "--min-cutoff", repr(25 / (np.pi * 8))))
        raw = self.track(clip, "--smoothing-window", 1)
        self.assertEqual(raw, self.track(clip, "--no-smoothing"))
        self.assertEqual(self.track(clip, "--smoothing-window", 9, "--min-cutoff", 3), self.track(clip, "--min-cutoff", 3))
        calm = [jitter(lines) for lines in (raw, self.track(clip, "--smoothing-window", 3), as_said, self.track(clip, "--smoothing-window", 50))]
        self.assertEqual(calm, sorted(calm, reverse=True))
        self.assertLess(calm[2], 0.8 * calm[0])

    def test_csv_has_the_same(self):
        clip = self.clip([scene()] * 2 + [scene((face(220), 100 + 6 * t, 40)) for t in range(5)])
        frames = self.track(clip)
        run("track", clip, "-o", self.tmp / "out.csv")
        rows = list(csv.DictReader((self.tmp / "out.csv").read_text().splitlines()))
        regions = [(f, r) for f in frames for r in f["regions"]]
        self.assertEqual(len(rows), len(regions))
        self.assertGreaterEqual(len(rows), 4)
        for row, (f, r) in zip(rows, regions):
            self.assertEqual((int(row["frame"]), int(row["track"])), (f["frame"], r["track"]))
            np.testing.assert_allclose([float(row[k]) for k in "xywh"], r["box"], rtol=1e-6)
            np.testing.assert_allclose(np.array(row["points"].split(), float).reshape(-1, 2), points(r), rtol=1e-6)

    def test_overlay(self):
        clip = self.clip([scene((face(260), 180, 60))] * 5)
        box = self.track(clip, "--no-smoothing")[3]["regions"][0]["box"]
        out = self.tmp / "out.mkv"
        run("track", clip, "-o", out, "--no-smoothing", "--no-points", "-c:v", "libx264rgb", "-crf", "0")
        self.assertEqual(int(ffprobe(out, "-count_frames")["streams"][0]["nb_read_frames"]), 5)
        video = cv2.VideoCapture(str(out))
        for _ in range(4):
            _, frame = video.read()
        changed = (np.abs(frame.astype(int) - scene((face(260), 180, 60))) > 20).any(axis=2)
        x0, y0, x1, y1 = box[0] - box[2] / 2, box[1] - box[3] / 2, box[0] + box[2] / 2, box[1] + box[3] / 2
        ys, xs = np.nonzero(changed)
        self.assertLess(abs(xs.min() - x0), 3)
        self.assertLess(abs(ys.max() + 1 - y1), 3)
        self.assertFalse(changed[int(y0) + 4:int(y1) - 4, int(x0) + 4:int(x1) - 4].any())  # the face itself is seen
        # The first colour of the palette, 2ecc71, on the left edge, which may be between two columns.
        edge = frame[int(box[1]), int(x0) - 1:int(x0) + 2].astype(int)
        self.assertLess(np.abs(edge - [0x71, 0xcc, 0x2e]).max(axis=1).min(), 110)

    def test_what_is_refused(self):
        clip = self.clip([scene()] * 2)
        for args, status, text in ((("--model", "face"), 1, 'its card says task "detect"'),
                                   (("--detector", "face-mesh"), 1, 'its card says task "track"'),
                                   (("--max-faces", "0"), 2, "max-faces")):
            p = run("track", clip, "-o", self.tmp / "no.jsonl", *args, check=False)
            self.assertEqual(p.returncode, status, p.stderr)
            self.assertIn(text, p.stderr)
            self.assertFalse((self.tmp / "no.jsonl").exists())


if __name__ == "__main__":
    if not FACE.exists():
        print("skipped: the test media are not here (tools/setup --tests)")
        raise SystemExit(77)
    common.main()
