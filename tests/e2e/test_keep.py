"""--keep objects: what people hold stays, and shadows, what was uncovered and a moving camera add nothing. Scenes are made
here, so the truth of person and object is known; the network's mask is how red the picture is."""
import json
import signal
import subprocess
import time

import common
import cv2
import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

W, H, FRAMES = 192, 144, 70
LEARNT = 15  # frames after which the wall is known


def redness(path):
    node, value = helper.make_node, helper.make_tensor_value_info
    weights = numpy_helper.from_array(np.array([[4], [-2], [-2]], np.float32), "w")
    nodes = [node("MatMul", ["x", "w"], ["r"]), node("Sub", ["r", "half"], ["s"]), node("Clip", ["s", "zero", "one"], ["y"])]
    limits = [numpy_helper.from_array(np.array(v, np.float32), k) for v, k in ((0, "zero"), (0.5, "half"), (1, "one"))]
    graph = helper.make_graph(nodes, "redness", [value("x", TensorProto.FLOAT, [1, H, W, 3])],
                              [value("y", TensorProto.FLOAT, [1, H, W, 1])], [weights, *limits])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    path.with_suffix(".json").write_text(json.dumps({
        "name": "redness", "task": "segment", "file": path.name, "output": {"meaning": "alpha"},
        "input": {"width": W, "height": H, "layout": "nhwc", "scale": 1 / 255}}))


def person(i):
    x = 80 + 10 * np.sin(i / 5)
    return cv2.ellipse(np.zeros((H, W), np.uint8), (int(x), 105), (24, 60), 0, 0, 360, 1, -1) > 0, x


def stick(i):
    """Held at the person's side, 7 pixels thick, and swung."""
    x, angle = person(i)[1] + 18, -0.6 + 0.5 * np.sin(i / 4)
    end = (int(x + 62 * np.cos(angle)), int(85 + 62 * np.sin(angle)))
    return cv2.line(np.zeros((H, W), np.uint8), (int(x), 85), end, 1, 7) > 0


class Scene:
    """A wall of grey blotches with noise, somebody in red, and what `draw` adds: before the person, to (picture, i)."""

    def __init__(self, draw=None, pans=False):
        rng = np.random.default_rng(3)
        wall = cv2.resize(rng.uniform(90, 200, (12, 30)).astype(np.float32), (2 * W, H), interpolation=cv2.INTER_CUBIC)
        self.frames, self.people = [], []
        for i in range(FRAMES):
            at = 2 * i if pans else 0
            picture = np.repeat(wall[:, at:at + W, None], 3, axis=2)
            if draw:
                draw(picture, i)
            alpha, _ = person(i)
            picture[alpha] = (200, 60, 60)
            self.frames.append(np.clip(picture + rng.normal(0, 2, picture.shape), 0, 255).astype(np.uint8))
            self.people.append(alpha)


def hold(picture, i):
    picture[stick(i)] = (60, 150, 40)


def shade(picture, i):
    """The person's shadow on the wall."""
    shadow = np.roll(person(i)[0], 25, axis=1)
    picture[shadow] *= 0.7


def take_away(picture, i):
    """Something beside the person stands there for 30 frames, then it is gone."""
    if i < 30:
        picture[70:100, 112:140] = (60, 150, 40)


class Keep(common.Case):
    def setUp(self):
        super().setUp()
        self.model, self.clip = self.tmp / "redness.onnx", self.tmp / "in.mkv"
        redness(self.model)

    def write(self, scene, times=1):
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{W}x{H}", "-r", "25", "-i", "-",
                        "-pix_fmt", "yuv444p", "-c:v", "ffv1", str(self.clip)],
                       input=np.stack(scene.frames * times).tobytes(), check=True)

    def args(self, *more):
        return ["segment", "--focus", "off", self.clip, "--model", self.model, "--card", self.model.with_suffix(".json"),
                "--mode", "mask", "-c:v", "ffv1", "-q", *more]

    def masks(self, *more):
        out = self.tmp / "out.mkv"
        common.run(*self.args(*more, "-y", "-o", out))
        data = subprocess.run(["ffmpeg", "-v", "error", "-i", str(out), "-f", "rawvideo", "-pix_fmt", "gray", "-"], check=True,
                              capture_output=True).stdout
        return np.frombuffer(data, np.uint8).reshape(-1, H, W) / 255

    def added(self, scene):
        """Mean alpha that the option adds where nobody is."""
        self.write(scene)
        more = self.masks("--keep", "objects") - self.masks()
        return np.mean([m[~p].mean() for m, p in zip(more, scene.people)])

    def test_what_is_held_stays(self):
        scene = Scene(hold)
        self.write(scene)
        held = [stick(i) & ~p for i, p in enumerate(scene.people)]
        recall, elsewhere = {}, {}
        for keep in ("people", "objects"):
            masks = self.masks("--keep", keep)
            recall[keep] = np.mean([m[h].mean() for m, h in list(zip(masks, held))[LEARNT:]])
            near = [cv2.dilate((h | p).astype(np.uint8), np.ones((5, 5))) > 0 for h, p in zip(held, scene.people)]
            elsewhere[keep] = np.mean([m[~n].mean() for m, n in zip(masks, near)])
        print(f"recall of the stick {recall['objects']:.3f}, without {recall['people']:.3f}; "
              f"false alpha {elsewhere['objects']:.5f}, without {elsewhere['people']:.5f}")
        self.assertGreater(recall["objects"], 0.9)
        self.assertLess(recall["people"], 0.05)
        self.assertLess(elsewhere["objects"], 0.001)

    def test_what_is_not_held_goes(self):
        for draw, pans in ((None, False), (shade, False), (take_away, False), (hold, True)):
            with self.subTest(draw=draw, pans=pans):
                self.assertLess(self.added(Scene(draw, pans)), 0.001)

    def test_a_killed_run_goes_on(self):
        self.write(Scene(hold), times=5)
        ref, out = self.tmp / "ref.mkv", self.tmp / "killed.mkv"
        args = self.args("--keep", "objects", "--resume", "--processing.chunk_size=10")
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
        common.run(*args, "--workers", 1, "-y", "-o", out)
        self.assertEqual(out.read_bytes(), ref.read_bytes())

    def test_what_cannot_be_is_refused(self):
        self.write(Scene())
        for args, says in ((self.args("--device", "cuda"), "--keep runs on the CPU only: leave it or --device cuda out"),
                           (["segment", self.clip, "--key", "green"], "--keep shapes the mask of a network")):
            p = common.run(*args, "--keep", "objects", "-o", self.tmp / "out.mkv", check=False)
            self.assertNotEqual(p.returncode, 0)
            self.assertIn(says, p.stderr)


if __name__ == "__main__":
    common.main()
