"""tachy pose: points against ONNX Runtime's own package, numbers that stay, joint angles, skeletons."""
import contextlib
import csv
import io
import json
import os
import subprocess

import cv2
import numpy as np
import onnxruntime
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

import common
from common import DEPS, models, run

W, H = 800, 512
SHOULDERS = (11, 12)
ANGLES = {"left_elbow": (11, 13, 15), "right_shoulder": (24, 12, 14), "left_shoulder": (23, 11, 13), "right_hip": (12, 24, 26)}


def person(size, flip=False):
    picture = cv2.imread(str(DEPS / "media" / "astronaut.png"))
    return cv2.resize(picture[:, ::-1] if flip else picture, (size, size), interpolation=cv2.INTER_AREA)


def signer(n, turn=0):
    """The first frames of somebody who signs, in the middle of a grey picture, turned by so many degrees."""
    clip, frames = cv2.VideoCapture(str(common.shared("media/asl_walk.mkv"))), []
    for _ in range(n):
        frame = scene((clip.read()[1], 80, 16))
        frames.append(cv2.warpAffine(frame, cv2.getRotationMatrix2D((400, 280), turn, 1), (W, H), borderValue=(90,) * 3))
    return frames


def scene(*people, shade=90):
    frame = np.full((H, W, 3), shade, np.uint8)
    for picture, x, y in people:
        frame[y:y + picture.shape[0], x:x + picture.shape[1]] = picture
    return frame


def points(region):
    return np.array(region["points"])[:, :2]


def moved_by_maps(p, maps, window=7):
    """Points of the network's picture, moved to the mean place of the sure cells around them."""
    maps, side, moved = 1 / (1 + np.exp(-maps.astype(np.float64))), maps.shape[0], p.copy()
    for k, (x, y) in enumerate(p):
        cx, cy = int(x * side / 256), int(y * side / 256)
        if not (0 <= cx < side and 0 <= cy < side):
            continue
        rows = np.arange(max(cy - window // 2, 0), min(cy + window // 2 + 1, side))
        cols = np.arange(max(cx - window // 2, 0), min(cx + window // 2 + 1, side))
        v = maps[np.ix_(rows, cols, [k])][:, :, 0]
        if v.max() >= 0.5:
            moved[k] = np.array([(v.sum(0) * cols).sum(), (v.sum(1) * rows).sum()]) / v.sum() * 256 / side
    return moved


class Pose(common.Case):
    @classmethod
    def setUpClass(cls):
        models("person", "pose")

    def clip(self, frames, name="clip.mkv"):
        """A lossless video, in R'G'B'."""
        path = self.tmp / name
        raw = b"".join(f.tobytes() for f in frames)
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "bgr24", "-s", f"{W}x{H}", "-r", "25",
                        "-i", "-", "-c:v", "libx264rgb", "-qp", "0", "-preset", "ultrafast", str(path)], input=raw, check=True)
        return path

    def pose(self, clip, *args, name="out.jsonl"):
        run("pose", clip, "-o", self.tmp / name, "-y", *args)
        return [json.loads(line) for line in (self.tmp / name).read_text().splitlines()]

    def test_points_are_those_of_the_network(self):
        """From the detector's region on, each frame's crop follows from the two points that are not told."""
        frames = signer(4, turn=15)
        clip = self.clip(frames)
        run("detect", "--model", "person", clip, "-o", self.tmp / "found.jsonl")
        first = json.loads((self.tmp / "found.jsonl").read_text().splitlines()[0])["regions"][0]
        (cx, cy, side, _), angle = first["box"], np.radians(first["angle"])
        session = onnxruntime.InferenceSession(os.environ["TACHY_MODELS"] + "/pose.onnx", providers=["CPUExecutionProvider"])
        for frame, line in zip(frames, self.pose(clip, "--no-smoothing")):
            scale = 1.25 * side / 256
            turn = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            shift = np.array([cx, cy]) - turn @ [128, 128]  # pixel edges at integers
            at = np.concatenate([turn, (shift + turn @ [0.5, 0.5] - 0.5)[:, None]], axis=1)
            crop = cv2.warpAffine(frame, at, (256, 256), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP, borderMode=cv2.BORDER_REPLICATE)
            out, score, maps = session.run(["Identity", "Identity_1", "Identity_3"], {session.get_inputs()[0].name:
                                           crop[None, :, :, ::-1].astype(np.float32) / 255})
            out = out.reshape(39, 5)
            want = moved_by_maps(out[:, :2].astype(np.float64), maps[0]) @ turn.T + shift
            region = line["regions"][0]
            self.assertEqual(len(region["points"]), 33)
            error = np.linalg.norm(points(region) - want[:33], axis=1) / np.ptp(want[:33, 1])
            self.assertLess(error.mean(), 0.005)
            self.assertAlmostEqual(region["score"], float(score[0, 0]), delta=0.02)
            seen = 1 / (1 + np.exp(-out[:33, 3]))
            self.assertLess(np.abs(np.array(region["points"])[:, 3] - seen).mean(), 0.05)
            (cx, cy), up = want[33], want[34] - want[33]
            side, angle = 2 * np.linalg.norm(up), np.arctan2(up[1], up[0]) + np.pi / 2

    def movenet(self):
        net = self.tmp / "movenet.onnx"
        net.symlink_to(common.shared("models/pose/movenet_lightning_from_int8_w8.onnx").resolve())
        (self.tmp / "movenet.json").write_text(json.dumps({
            "name": "movenet", "task": "pose", "file": "movenet.onnx", "license": "Apache-2.0", "input": {"width": 192, "height": 192, "layout": "nhwc",
            "dtype": "uint8"}, "outputs": [{"meaning": "points", "points": 17, "order": "yxs", "unit": "share"}]}))
        return net

    def test_coco_names_the_points(self):
        """pycocotools reads names and bones of both kinds, and rates the points as those of the same people."""
        clip = self.clip(signer(2))
        for points, model in ((33, ()), (17, ("--pose.model", self.movenet()))):
            out = self.tmp / f"out{points}"
            run("curate", "--tasks", "pose", *model, "--to", "coco", "-q", "-o", out, clip)
            with contextlib.redirect_stdout(io.StringIO()):
                truth = COCO(str(out / "coco.json"))
                rated = COCOeval(truth, truth.loadRes([dict(a) for a in truth.anns.values()]), "keypoints")
                rated.params.kpt_oks_sigmas = np.full(points, 0.05)
                rated.evaluate()
                rated.accumulate()
                rated.summarize()
            self.assertEqual(rated.stats[0], 1)
            category, = truth.cats.values()
            names, bones = category["keypoints"], {frozenset(b) for b in category["skeleton"]}
            self.assertEqual((category["name"], len(names), len(set(names)), len(bones)), ("pose", points, points, len(category["skeleton"])))
            other = {i + 1: names.index(n.replace("left", "#").replace("right", "left").replace("#", "right")) + 1 for i, n in enumerate(names)}
            self.assertTrue(all(1 <= i <= points for b in bones for i in b))
            self.assertEqual({frozenset(other[i] for i in b) for b in bones}, bones)  # left and right alike
            for line, a in zip((out / "results.jsonl").read_text().splitlines(), truth.anns.values(), strict=True):
                region, = json.loads(line)["pose"]["regions"]
                at = dict(zip(names, np.array(a["keypoints"]).reshape(-1, 3)[:, :2]))
                for angle, of in (("left_elbow", ("left_shoulder", "left_elbow", "left_wrist")), ("right_hip", ("right_shoulder", "right_hip", "right_knee"))):
                    if angle in region.get("values", {}):
                        u, v = at[of[0]] - at[of[1]], at[of[2]] - at[of[1]]
                        self.assertAlmostEqual(np.degrees(np.arccos(u @ v / np.linalg.norm(u) / np.linalg.norm(v))), region["values"][angle], delta=0.1)
        self.assertEqual(names[:7], ["nose", "left_eye", "right_eye", "left_ear", "right_ear", "left_shoulder", "right_shoulder"])  # as in COCO's own files

    def test_movenet_by_card(self):
        """17 points of a network that neither scores a person nor says where the next crop is."""
        net = self.movenet()
        frames = signer(4, turn=10)
        clip = self.clip(frames)
        run("detect", "--model", "person", clip, "-o", self.tmp / "found.jsonl")
        first = json.loads((self.tmp / "found.jsonl").read_text().splitlines()[0])["regions"][0]
        (cx, cy, side, _), angle = first["box"], np.radians(first["angle"])
        side *= 1.25
        session = onnxruntime.InferenceSession(str(net.resolve()), providers=["CPUExecutionProvider"])
        for frame, line in zip(frames, self.pose(clip, "--model", net, "--no-smoothing"), strict=True):
            turn = side / 192 * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            shift = np.array([cx, cy]) - turn @ [96, 96]
            fine = turn / 4  # a mean over each pixel's area, as the crop is half as fine as the frame
            at = np.concatenate([fine, (shift + fine @ [0.5, 0.5] - 0.5)[:, None]], axis=1)
            crop = cv2.warpAffine(frame, at, (768, 768), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP, borderMode=cv2.BORDER_REPLICATE)
            crop = cv2.resize(crop, (192, 192), interpolation=cv2.INTER_AREA)
            out = session.run(None, {session.get_inputs()[0].name: crop[None, :, :, ::-1]})[0].reshape(17, 3)
            want = out[:, 1::-1].astype(np.float64) * 192 @ turn.T + shift
            region, = line["regions"]
            got = points(region)
            self.assertEqual(len(got), 17)
            sure = out[:, 2] > 0.4
            self.assertGreater(sure.sum(), 8)
            self.assertLess((np.linalg.norm(got - want, axis=1) / np.ptp(want[:, 1]))[sure].mean(), 0.01)
            self.assertAlmostEqual(region["score"], out[:, 2].mean(), delta=0.05)
            self.assertAlmostEqual(region["score"], np.array(region["points"])[:, 3].mean(), delta=1e-4)
            self.assertIn("left_elbow", region["values"])
            low, high = got.min(0), got.max(0)
            (cx, cy), side, angle = (low + high) / 2, 1.5 * (high - low).max(), 0

    def test_bvh_moves_as_the_points(self):
        """Joints by forward kinematics: bones as long as in the first frame, in the directions of the points."""
        clip = self.clip(signer(5))
        lines = self.pose(clip, "--bvh", self.tmp / "motion")
        file, = (self.tmp / "motion").iterdir()
        self.assertEqual(file.name, f"clip.person{lines[0]['regions'][0]['track']}.bvh")
        head, motion = file.read_text().split("MOTION\n")
        names, parents, offsets, stack = [], [], [], []
        for word in head.split("\n"):
            part = word.split()
            if part and part[0] in ("ROOT", "JOINT"):
                names.append(part[1])
                parents.append(stack[-1] if stack else -1)
            elif part and part[0] == "End":
                names.append(None)
                parents.append(stack[-1])
            elif part == ["{"]:
                stack.append(len(names) - 1)
            elif part == ["}"]:
                stack.pop()
            elif part and part[0] == "OFFSET":
                offsets.append(np.array(part[1:], float))
        rows = [np.array(r.split(), float) for r in motion.strip().split("\n")[2:]]
        self.assertEqual((motion.split("\n")[:2], len(rows)), (["Frames: 5", "Frame Time: 0.040000"], 5))

        def turn(z, x, y):
            z, x, y = np.radians([z, x, y])
            a = np.array([[np.cos(z), -np.sin(z), 0], [np.sin(z), np.cos(z), 0], [0, 0, 1]])
            b = np.array([[1, 0, 0], [0, np.cos(x), -np.sin(x)], [0, np.sin(x), np.cos(x)]])
            return a @ b @ np.array([[np.cos(y), 0, np.sin(y)], [0, 1, 0], [-np.sin(y), 0, np.cos(y)]])
        bones = {"LeftElbow": ((11,), (13,)), "LeftWrist": ((13,), (15,)), "RightElbow": ((12,), (14,)), "RightWrist": ((14,), (16,)), "Chest": ((23, 24), (11, 12)),
                 "LeftKnee": ((23,), (25,)), "RightAnkle": ((26,), (28,)), "Neck": ((11, 12), (9, 10))}
        rest = None
        for row, line in zip(rows, lines, strict=True):
            p = np.array(line["regions"][0]["points"])[:, :3] * [1, -1, -1]
            at, turns, k = [], [], 3
            for i, name in enumerate(names):
                up = turns[parents[i]] if i else np.eye(3)
                at.append(at[parents[i]] + up @ offsets[i] if i else row[:3])
                turns.append(up @ turn(*row[k:k + 3]) if name else up)
                k += 3 if name else 0
            np.testing.assert_allclose(at[0], p[[23, 24]].mean(0), atol=0.01)
            now = {n: (at[names.index(n)] - at[parents[names.index(n)]]) for n in bones}
            for n, (a, b) in bones.items():
                want = p[list(b)].mean(0) - p[list(a)].mean(0)
                self.assertGreater(now[n] @ want / np.linalg.norm(now[n]) / np.linalg.norm(want), 0.9999, n)
                self.assertAlmostEqual(np.linalg.norm(now[n]), np.linalg.norm((rest or now)[n]), delta=0.01)
            rest = rest or now
        p = run("pose", clip, "--bvh", self.tmp / "motion", "-f", "null", "-", check=False)
        self.assertIn(f"{file} already exists; use -y", p.stderr)
        (self.tmp / "other").mkdir()
        # Of two inputs with one name each has its own files, and its own frame time.
        subprocess.run(["ffmpeg", "-v", "error", "-r", "10", "-i", clip, "-c:v", "ffv1", self.tmp / "other" / "clip.mkv"], check=True)
        run("pose", clip, self.tmp / "other" / "clip.mkv", "--bvh", self.tmp / "two")
        second = file.name.replace("clip.", "clip.2.")
        self.assertEqual(sorted(f.name for f in (self.tmp / "two").glob("*.bvh")), [second, file.name])
        self.assertEqual((self.tmp / "two" / file.name).read_text(), file.read_text())
        self.assertIn("Frame Time: 0.100000\n", (self.tmp / "two" / second).read_text())
        self.assertIn("leave --resume out", run("pose", clip, "--bvh", self.tmp / "m", "--resume", "-o", self.tmp / "x.jsonl", check=False).stderr)

    def test_numbers_stay_and_people_are_found_again(self):
        a, b = person(380), person(380, flip=True)
        frames = [scene((a, 5 + 2 * t, 60), (b, 415 - t, 100)) for t in range(15)] + [scene(shade=200)] * 3 + [scene((a, 300, 90))] * 5
        found = self.pose(self.clip(frames), "--max-people", "3", "--detect-every", "3")
        for t, f in enumerate(found[4:15], 4):
            left, right = sorted(f["regions"], key=lambda r: points(r)[0, 0])
            before = sorted(found[3]["regions"], key=lambda r: points(r)[0, 0])
            self.assertEqual([left["track"], right["track"]], [r["track"] for r in before])
        self.assertEqual([len(f["regions"]) for f in found[15:18]], [0, 0, 0])
        for f in found[20:]:
            self.assertEqual(len(f["regions"]), 1)
            self.assertGreater(f["regions"][0]["track"], 1)

    def test_angles(self):
        regions = [f["regions"][0] for f in self.pose(self.clip(signer(3)))]
        for r in regions:
            p, told = np.array(r["points"]), r["values"]
            for name, of in ANGLES.items():
                self.assertEqual(name in told, bool((p[list(of), 3] >= 0.5).all()), name)
                if name in told:
                    u, v = p[of[0], :2] - p[of[1], :2], p[of[2], :2] - p[of[1], :2]
                    want = np.degrees(np.arccos(u @ v / np.linalg.norm(u) / np.linalg.norm(v)))
                    self.assertAlmostEqual(told[name], want, delta=0.1)
            self.assertIn("left_shoulder", told)

    def test_skeleton_is_drawn(self):
        clip = self.clip(signer(2))
        p = points(self.pose(clip)[1]["regions"][0])
        pictures = {}
        for name, args in (("bones", ("--no-boxes", "--no-names")), ("none", ("--no-boxes", "--no-names", "--no-points"))):
            run("pose", clip, "-o", self.tmp / f"{name}.mkv", "-crf", "1", *args)
            pictures[name] = cv2.VideoCapture(str(self.tmp / f"{name}.mkv"))
            pictures[name].read()
        changed = np.abs(pictures["bones"].read()[1].astype(int) - pictures["none"].read()[1]).max(axis=2) > 40
        for share in (0.3, 0.5, 0.7):  # between the shoulders, where there is no point
            x, y = p[SHOULDERS[0]] + share * (p[SHOULDERS[1]] - p[SHOULDERS[0]])
            self.assertTrue(changed[int(y) - 1:int(y) + 2, int(x) - 1:int(x) + 2].any())
        self.assertLess(changed.mean(), 0.05)

    def test_csv_and_workers(self):
        clip = self.clip([scene((person(440), 100 + 6 * t, 40)) for t in range(8)])
        frames = self.pose(clip, "--workers", "1")
        run("pose", clip, "-o", self.tmp / "out.csv")
        rows = list(csv.DictReader((self.tmp / "out.csv").read_text().splitlines()))
        self.assertEqual(len(rows), 8)
        for row, f in zip(rows, frames):
            np.testing.assert_allclose(np.array(row["points"].split(), float).reshape(-1, 2), points(f["regions"][0]), rtol=1e-6)
        self.assertEqual(self.pose(clip, "--workers", "4", name="more.jsonl"), frames)
        self.assertEqual(self.pose(clip, "--resume", name="parts.jsonl"), frames)

    def test_mistakes(self):
        for args, says in ((("--model", "person"), 'its card says task "detect"'), (("--detector", "pose"), 'its card says task "pose"'),
                           (("--max-people", "0"), "1 to 32")):
            p = run("pose", "null:64x64@25,frames=1", "-o", self.tmp / "x.jsonl", *args, check=False)
            self.assertIn(says, p.stderr)
            self.assertIn(p.returncode, (1, 2))


if __name__ == "__main__":
    common.main()
