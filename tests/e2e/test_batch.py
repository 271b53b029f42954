"""Batches in `tachy segment`: the same masks as one by one, with a model that takes any number of
pictures, and with one that takes a single one."""
import json

import common
import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

SIDE = 48


def any_batch(path, batch="n"):
    """A small network, 3x3 convolution, sigmoid, whose batch is free or as given; ONNX and its card."""
    rng = np.random.default_rng(5)
    w = rng.normal(0, 0.4, (1, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Transpose", ["x"], ["c"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["c", "w"], ["d"], pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["d"], ["e"]),
        helper.make_node("Transpose", ["e"], ["y"], perm=[0, 2, 3, 1]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, SIDE, SIDE, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, SIDE, SIDE, 1])
    graph = helper.make_graph(nodes, "any", [x], [y], [numpy_helper.from_array(w, "w")])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    card = {"version": 1, "name": "any", "task": "segment", "license": "CC0-1.0", "file": path.name,
            "input": {"width": SIDE, "height": SIDE, "layout": "nhwc", "channels": "rgb", "dtype": "float32",
                      "fit": "stretch", "scale": 1 / 255},
            "output": {"meaning": "probability", "layout": "nhwc", "width": SIDE, "height": SIDE}}
    path.with_suffix(".json").write_text(json.dumps(card))


class Batch(common.Case):
    def card(self, model):
        return () if isinstance(model, str) else ("--card", model.with_suffix(".json"))

    def hashes(self, clip, model, *args):
        summary = self.tmp / "summary.json"
        p = common.run("segment", clip, "--model", model, "--mode", "mask", "-f", "framemd5", "-y",
                       f"--json={summary}", *self.card(model), *args, "-")
        return [l for l in p.stdout.splitlines() if not l.startswith("#")], p.stderr, json.loads(summary.read_text())

    def clip(self, name, frames, extra=()):
        out = self.tmp / name
        common.ffmpeg("-f", "lavfi", "-i", f"testsrc2=size=320x240:rate=25:duration={frames / 25}", *extra, out)
        return out

    def test_same_masks(self):
        clip = self.clip("a.mkv", 37)
        model = self.tmp / "any.onnx"
        any_batch(model)
        one, _, _ = self.hashes(clip, model)
        self.assertEqual(len(one), 37)
        for batch in (2, 4, 16):
            many, text, s = self.hashes(clip, model, "--batch", batch)
            self.assertEqual(one, many, f"batch {batch}")
            self.assertNotIn("one picture a run", text)
            steps = {x["name"]: x for x in s["steps"]}
            self.assertEqual(s["frames"], 37)
            self.assertGreater(steps["model"]["busy_s"], 0)

    def test_auto(self):
        clip, model = self.clip("a.mkv", 9), self.tmp / "any.onnx"
        any_batch(model)
        want, _, _ = self.hashes(clip, model)
        p = common.run("segment", clip, "--model", model, "--mode", "mask", "-f", "framemd5", "-y", "--batch", "auto", "-v", "verbose", "-")
        self.assertRegex(p.stderr, r"auto: 2 pictures in a run take [\d.]+ ms each")
        self.assertRegex(p.stderr, r"auto: segment runs \d+ pictures? at once")
        self.assertEqual(self.hashes(clip, model, "--batch", "auto")[0], want)
        any_batch(model, batch=1)
        p = common.run("segment", clip, "--model", model, "--mode", "mask", "-f", "null", "--batch", "auto", "-v", "verbose", "-")
        self.assertIn("auto: segment runs 1 picture at once", p.stderr)

    def test_both_eyes(self):
        clip = self.clip("a_sbs.mkv", 20)
        model = self.tmp / "any.onnx"
        any_batch(model)
        one, _, _ = self.hashes(clip, model, "--stereo", "sbs", "--smooth", "0.5")
        many, _, _ = self.hashes(clip, model, "--stereo", "sbs", "--smooth", "0.5", "--batch", "5")
        self.assertEqual(one, many)

    def test_task_without_batches(self):
        common.models("face", "face-mesh")
        for batch, said in ((1, 0), (4, 1)):
            p = common.run("track", "null:320x240,frames=3", "-f", "null", "--batch", batch)
            self.assertEqual(p.stderr.count("track: takes one picture at a time, since what it looks at follows from the frame before"), said, p.stderr)

    def test_model_of_one_picture(self):
        clip = self.clip("a.mkv", 10)
        model = self.tmp / "one.onnx"
        any_batch(model, batch=1)
        one, _, _ = self.hashes(clip, model)
        many, text, _ = self.hashes(clip, model, "--batch", 4)
        self.assertEqual(one, many)
        self.assertIn("takes one picture a run", text)

    def test_card_of_a_free_batch(self):
        """`model verify` holds what a card says of batches against the model."""
        for batch, says, status in (("n", "free", 0), (1, "free", 1), (1, "one", 0)):
            model = self.tmp / f"net-{batch}.onnx"
            any_batch(model, batch=batch)
            card = json.loads(model.with_suffix(".json").read_text())
            card["input"]["batch"] = says
            model.with_suffix(".json").write_text(json.dumps(card))
            p = common.run("model", "verify", model, "--card", model.with_suffix(".json"), check=False)
            self.assertEqual(p.returncode, status, p.stderr)

    def test_zoo_in_batches(self):
        common.models("selfie")
        clip = self.clip("a.mkv", 11)
        one, _, _ = self.hashes(clip, "selfie")
        many, text, _ = self.hashes(clip, "selfie", "--batch", 4)
        self.assertEqual(one, many)
        self.assertNotIn("one picture a run", text)

    def test_budget(self):
        clip = self.clip("a.mkv", 30)
        model = self.tmp / "any.onnx"
        any_batch(model)
        one, _, _ = self.hashes(clip, model)
        few, _, _ = self.hashes(clip, model, "--max-memory", 1)
        self.assertEqual(one, few)
        large = self.tmp / "large.mkv"
        common.ffmpeg("-f", "lavfi", "-i", "testsrc2=size=3840x2160:rate=25:duration=0.2", large)
        p = common.run("segment", large, "--model", model, *self.card(model), "--max-memory", 10, "-f", "null", "-", check=False)
        self.assertEqual(p.returncode, 1)
        self.assertIn("do not fit", p.stderr)


if __name__ == "__main__":
    common.main()
