"""tachy detect and classify: boxes and labels against plain loops over ONNX Runtime's own package."""
import importlib.machinery
import importlib.util
import json
import subprocess
import sys

import cv2
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import common
from common import DEPS, ROOT, models, run, shared

FACE = DEPS / "media" / "astronaut.png"


def video(path, frames):
    """A lossless R'G'B' video of B'G'R' arrays."""
    h, w = frames[0].shape[:2]
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "bgr24", "-s", f"{w}x{h}", "-r", "25", "-i",
                    "-", "-c:v", "libx264rgb", "-qp", "0", "-preset", "ultrafast", str(path)],
                   input=b"".join(f.tobytes() for f in frames), check=True)
    return path


def scene(*at, w=640, h=360):
    """Heads of one size at (x, y)."""
    head = cv2.resize(cv2.imread(str(FACE))[20:200, 135:315], (200, 200), interpolation=cv2.INTER_AREA)
    frame = np.full((h, w, 3), 90, np.uint8)
    for x, y in at:
        frame[y:y + 200, x:x + 200] = head
    return frame


class Base(common.Case):
    def lines(self, verb, clip, *args, name="out.jsonl"):
        run(verb, clip, "-o", self.tmp / name, "-y", *args)
        return [json.loads(line) for line in (self.tmp / name).read_text().splitlines()]


class Detect(Base):
    def test_yolox_is_the_plain_loop_s(self):
        model, clip = shared("models/detect/yolox_nano.onnx"), shared("media/one-by-one-person-detection.mp4")
        loader = importlib.machinery.SourceFileLoader("bench_detect", str(ROOT / "bench" / "detect"))
        bench = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_detect", loader))
        sys.path.append(str(ROOT / "bench"))  # it imports from there
        loader.exec_module(bench)
        short = bench.rgb_copy(clip, self.tmp / "short.mkv", "-ss", "20", "-t", "4")
        (self.tmp / "yolox_nano.onnx").symlink_to(model)
        args = ("--model", "yolox-nano", "--model-dir", str(self.tmp))
        run("model", "verify", *args[1:])
        frames = self.lines("detect", short, *args)
        boxes = [[[r["box"][0] - r["box"][2] / 2, r["box"][1] - r["box"][3] / 2, r["box"][0] + r["box"][2] / 2,
                   r["box"][1] + r["box"][3] / 2, r["score"], r["class"]] for r in f["regions"]] for f in frames]
        same = bench.compare(boxes, bench.loop(model, short, exact=True)["boxes"])
        self.assertEqual(same["alone"], 0)
        self.assertGreater(same["pairs"], 15)
        self.assertGreaterEqual(same["worst_overlap"], 0.999)
        self.assertLessEqual(same["score_difference"], 0.002)
        # Some classes, by the names of a file.
        persons = [[r["box"] for r in f["regions"] if r["label"] == "person"] for f in frames]
        names = self.tmp / "names.txt"
        names.write_text("".join(f"thing {i}\n" for i in range(80)))
        found = self.lines("detect", short, *args, "--labels", names, "--classes", "thing 0")
        self.assertEqual([[r["box"] for r in f["regions"]] for f in found], persons)
        self.assertEqual({r["label"] for f in found for r in f["regions"]}, {"thing 0"})
        # Any number of workers.
        one = (self.tmp / "out.jsonl").read_bytes()
        self.lines("detect", short, *args, "--labels", names, "--classes", "thing 0", "--workers", "3", name="more.jsonl")
        self.assertEqual((self.tmp / "more.jsonl").read_bytes(), one)

    def test_faces(self):
        models("face")
        clip = video(self.tmp / "clip.mkv", [scene((20, 40), (400, 100)), scene((220, 80)), scene()])
        frames = self.lines("detect", clip)
        self.assertEqual([len(f["regions"]) for f in frames], [2, 1, 0])
        left, right = sorted(frames[0]["regions"], key=lambda r: r["box"][0])
        self.assertLess(np.abs(np.subtract(right["box"][:2], left["box"][:2]) - [380, 60]).max(), 12)
        for r in frames[0]["regions"] + frames[1]["regions"]:
            self.assertEqual(r["label"], "face")
            right_eye, left_eye, nose = np.array(r["points"])[:3, :2]
            self.assertLess(right_eye[0], nose[0])
            self.assertLess(nose[0], left_eye[0])
        self.assertEqual([len(f["regions"]) for f in self.lines("detect", clip, "--conf", "1")], [0, 0, 0])
        self.assertEqual([len(f["regions"]) for f in self.lines("detect", clip, "--max-det", "1")], [1, 1, 0])
        self.assertEqual([len(f["regions"]) for f in self.lines("detect", clip, "--provider", "null")], [0, 0, 0])
        rows = (run("detect", clip, "-o", self.tmp / "out.csv"), (self.tmp / "out.csv").read_text().splitlines())[1]
        self.assertEqual([r.split(",")[0] for r in rows], ["frame", "0", "0", "1"])

    def test_two_eyes(self):
        models("face")
        eye = scene((60, 80), w=320)
        clip = video(self.tmp / "sbs.mkv", [np.concatenate([eye, eye], axis=1)] * 2)
        for f in self.lines("detect", clip, "--stereo", "sbs", "--max-det", "1"):
            left, right = f["regions"]
            np.testing.assert_allclose(np.subtract(right["box"], left["box"]), [320, 0, 0, 0], atol=0.5)

    def test_what_is_refused(self):
        models("face", "face-mesh", "selfie")
        clip = video(self.tmp / "clip.mkv", [scene()])
        wrong = self.tmp / "names.txt"
        wrong.write_text("one\ntwo\n")
        for args, text in ((("--model", "selfie"), 'its card says task "segment"'),
                           (("--classes", "cat"), 'no class "cat"'),
                           (("--labels", wrong), "names 2"),
                           (("--labels", self.tmp / "none"), "none")):
            p = run("detect", clip, "-o", self.tmp / "no.jsonl", *args, check=False)
            self.assertIn(p.returncode, (1, 2))
            self.assertIn(text, p.stderr)
            self.assertFalse((self.tmp / "no.jsonl").exists())


class Classify(Base):
    """A small network of random weights: the mean of each colour of 4 x 4 tiles, and a linear layer."""
    CLASSES, SIZE = 10, 64

    def network(self):
        rng = np.random.default_rng(5)
        weights = rng.normal(0, 4, (48, self.CLASSES)).astype(np.float32)
        nodes = [helper.make_node("AveragePool", ["x"], ["p"], kernel_shape=[16, 16], strides=[16, 16]),
                 helper.make_node("Flatten", ["p"], ["f"]), helper.make_node("MatMul", ["f", "w"], ["y"])]
        graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 64, 64])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", self.CLASSES])],
                                  [numpy_helper.from_array(weights, "w")])
        model = self.tmp / "net.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(model))
        card = self.tmp / "card.json"
        card.write_text(json.dumps({
            "name": "net", "task": "classify", "file": "net.onnx",
            "input": {"width": 64, "height": 64, "layout": "nchw", "scale": 0.00392156886, "mean": [0.485, 0.456, 0.406],
                      "std": [0.229, 0.224, 0.225]},
            "outputs": [{"meaning": "classes", "activation": "softmax", "top": 3,
                         "labels": [f"class {i}" for i in range(self.CLASSES)]}]}))
        return model, card

    def test_labels_are_the_network_s(self):
        model, card = self.network()
        rng = np.random.default_rng(6)
        tiles = rng.integers(0, 256, (12, 4, 4, 3), np.uint8)
        frames = [np.kron(t, np.ones((64, 64, 1), np.uint8)).astype(np.uint8) for t in tiles] # 256 x 256
        clip = video(self.tmp / "clip.mkv", frames)
        session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        for args in ((), ("--batch", "4")):
            found = self.lines("classify", clip, "--model", model, "--card", card, *args)
            self.assertEqual(len(found), len(frames))
            for f, picture in zip(found, frames):
                x = cv2.resize(picture, (64, 64), interpolation=cv2.INTER_AREA)[:, :, ::-1].astype(np.float32) / 255
                x = ((x - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]).transpose(2, 0, 1)[None].astype(np.float32)
                y = session.run(None, {"x": x})[0][0].astype(np.float64)
                p = np.exp(y - y.max()) / np.exp(y - y.max()).sum()
                best = np.argsort(-p)[:3]
                r, = f["regions"]
                self.assertEqual((r["class"], r["label"]), (best[0], f"class {best[0]}"))
                self.assertEqual(r["box"], [128, 128, 256, 256])
                self.assertEqual(list(r["values"]), [f"class {i}" for i in best])
                np.testing.assert_allclose(list(r["values"].values()), p[best], atol=0.002)
        found = self.lines("classify", clip, "--model", model, "--card", card, "--top", "1", "--conf", "0.9")
        self.assertLessEqual(max(len(f["regions"][0].get("values", {})) for f in found), 1)

    def test_a_model_is_needed(self):
        clip = video(self.tmp / "clip.mkv", [scene()])
        p = run("classify", clip, "-o", self.tmp / "no.jsonl", check=False)
        self.assertIn("--model", p.stderr)
        self.assertNotEqual(p.returncode, 0)


if __name__ == "__main__":
    if not FACE.exists():
        print("skipped: the test media are not here (tools/setup --tests)")
        raise SystemExit(77)
    common.main()
