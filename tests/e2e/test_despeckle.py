"""--despeckle: holes and specks that last for fewer frames than it says, against NumPy and OpenCV's connected components. The
network's mask is the picture's brightness. A run that was killed and went on gives the same bytes, and so does any number of
workers; so it is with --look-ahead."""
import json
import signal
import subprocess
import time

import common
import cv2
import numpy as np
from onnx import TensorProto, helper, save

W, H, FRAMES, LASTS = 96, 80, 60, 5
THERE, WHOLE, REACH, LARGE = 16, 239, 2, 50  # of docs/segment.md


def brightness(path):
    node, value = helper.make_node, helper.make_tensor_value_info
    graph = helper.make_graph([node("ReduceMean", ["x"], ["y"], axes=[3], keepdims=1)], "brightness",
                              [value("x", TensorProto.FLOAT, [1, H, W, 3])], [value("y", TensorProto.FLOAT, [1, H, W, 1])])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    path.with_suffix(".json").write_text(json.dumps({
        "name": "brightness", "task": "segment", "file": path.name, "output": {"meaning": "alpha"},
        "input": {"width": W, "height": H, "layout": "nhwc", "scale": 1 / 255}}))


def scene(frames):
    """Somebody who sways, holes and specks for 1 to 12 frames each that move by a pixel a frame, and a hand that parts."""
    rng, masks = np.random.default_rng(5), np.zeros((frames, H, W), np.uint8)
    for i, m in enumerate(masks):
        cv2.ellipse(m, (40 + int(6 * np.sin(i / 6)), 45), (16, 28), 0, 0, 360, 255, -1)
        if 30 < i < 40:
            m[58:62] = 0  # the legs are cut off, and stay: they were there before
    for _ in range(70):
        lasts, first = rng.integers(1, 13), rng.integers(0, frames)
        at, size, value = rng.integers((0, 0), (W, H)), rng.integers(1, 4), int(rng.choice((0, 60, 120, 255)))
        for i in range(first, min(first + lasts, frames)):
            cv2.circle(masks[i], (int(at[0] + i - first), int(at[1])), int(size), value, -1)
    return np.stack([cv2.blur(m, (2, 2)) for m in masks])


def wanted(masks, lasts):
    kernel, n, out = np.ones((2 * REACH + 1,) * 2, np.uint8), len(masks), masks.copy()
    for value, inside in ((0, masks >= THERE), (255, masks <= WHOLE)):
        def ages(order):
            age = np.zeros(masks.shape, np.uint8)
            for k, i in enumerate(order):
                before = cv2.dilate(age[order[k - 1]], kernel) if k else np.full((H, W), lasts)
                age[i] = np.where(inside[i], np.minimum(before + 1, lasts), 0)
            return age
        past = ages(list(range(n)))
        for i in range(n):
            # Only lasts - 1 future frames are needed; a part in all of those has lasted anyway.
            future = np.zeros((H, W), np.uint8)
            end = min(i + lasts - 1, n - 1)
            for k in range(end, i - 1, -1):
                first = 1 if end == i + lasts - 1 else lasts
                future = np.where(inside[k], first if k == end else np.minimum(cv2.dilate(future, kernel) + 1, lasts), 0).astype(np.uint8)
            count, label = cv2.connectedComponents(inside[i].astype(np.uint8), connectivity=4)
            for c in range(1, count):
                part = label == c
                enough = (past[i][part].astype(int) + future[part] - 1 >= lasts).sum()
                old = (past[i][part] >= lasts).sum()
                if part.sum() <= W * H // LARGE and 4 * max(enough, old) < part.sum():
                    out[i][part] = value
    return out


class Despeckle(common.Case):
    def setUp(self):
        super().setUp()
        self.model = self.tmp / "brightness.onnx"
        brightness(self.model)
        self.masks = scene(FRAMES)
        self.clip = self.tmp / "in.mkv"
        subprocess.run(["ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", "gray", "-s", f"{W}x{H}", "-r", "25", "-i", "-",
                        "-pix_fmt", "gbrp", "-c:v", "ffv1", str(self.clip)], input=self.masks.tobytes(), check=True)

    def args(self, *more):
        return ["segment", "--focus", "off", self.clip, "--model", self.model, "--card", self.model.with_suffix(".json"),
                "--mode", "mask", "-c:v", "ffv1", "-q", *more]

    def got(self, path):
        data = subprocess.run(["ffmpeg", "-v", "error", "-i", str(path), "-f", "rawvideo", "-pix_fmt", "gray", "-"], check=True,
                              capture_output=True).stdout
        return np.frombuffer(data, np.uint8).reshape(-1, H, W)

    def test_short_ones_go_and_long_ones_stay(self):
        out = self.tmp / "out.mkv"
        for lasts, workers in ((LASTS, 1), (LASTS, 4), (2, 3)):
            common.run(*self.args("--despeckle", lasts, "--workers", workers, "-y", "-o", out))
            want = wanted(self.masks, lasts)
            self.assertEqual(np.abs(self.got(out).astype(int) - want).max(), 0)
            changed = (want != self.masks).any(axis=(1, 2)).mean()
            self.assertGreater(changed, 0.3 if lasts == LASTS else 0)  # else nothing was there to go
            self.assertGreater((want[:, :12] > 0).sum(), 100)  # and some had to stay

    def test_a_killed_run_goes_on(self):
        self.clip = self.clip.rename(self.tmp / "short.mkv")
        long = self.tmp / "in.mkv"
        common.ffmpeg("-stream_loop", 5, "-i", self.clip, "-c", "copy", long)
        self.clip = long
        ref, out = self.tmp / "ref.mkv", self.tmp / "out.mkv"
        args = self.args("--despeckle", LASTS, "--smooth", "--look-ahead", 3, "--resume", "--processing.chunk_size=10")
        common.run(*args, "-y", "-o", ref)
        job, kept, until = out.with_name(out.name + ".tachy") / "job.json", 0, time.monotonic() + 60
        p = subprocess.Popen([common.TACHY, *map(str, args), "-o", out], stderr=subprocess.DEVNULL)
        while p.poll() is None and kept < 30 and time.monotonic() < until:
            kept = json.loads(job.read_text()).get("frames", 0) if job.exists() else 0
        p.kill()
        p.communicate()
        self.assertEqual(p.returncode, -signal.SIGKILL)
        common.run(*args, "-o", out)
        self.assertEqual(out.read_bytes(), ref.read_bytes())
        common.run(*args[:-2], "--workers", 1, "-y", "-o", out)
        self.assertTrue((self.got(out) == self.got(ref)).all())
        common.run(*args[:-4], "-y", "-o", out)
        self.assertFalse((self.got(out) == self.got(ref)).all())  # frames to come make a difference

    def test_what_cannot_be_is_refused(self):
        for more, says in ((["--look-ahead", 3], "give --smooth as well"),
                           (["--look-ahead", 3, "--smooth", "--live"], "with --live no frame waits")):
            p = common.run(*self.args(*more, "-o", self.tmp / "out.mkv"), check=False)
            self.assertEqual(p.returncode, 2)
            self.assertIn(says, p.stderr)
        common.run(*self.args("--despeckle", LASTS, "--live", "-f", "null", "-o", "-"))  # only by earlier frames


if __name__ == "__main__":
    common.main()
