"""Recurrent models in `tachy segment`: every frame's mask against a loop over ONNX Runtime's Python
package that carries the state by itself, for one stream, several side by side, and two eyes."""
import json
import signal
import subprocess
import time

import common
import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, save

SIDE, DECAY = 48, 0.8
# A mask is 8 bits; the state is carried in float32 by both.
TOLERANCE = 1


def recurrent(path, card_changes=None, gain=(1,)):
    """state' = DECAY state + gain conv(x), mask = sigmoid(state'); ONNX and its card."""
    rng = np.random.default_rng(7)
    w = rng.normal(0, 0.5, (1, 3, 3, 3)).astype(np.float32)
    node = helper.make_node
    nodes = [
        node("Transpose", ["x"], ["c"], perm=[0, 3, 1, 2]), node("Conv", ["c", "w"], ["d"], pads=[1, 1, 1, 1]),
        node("Mul", ["d", "gain"], ["e"]), node("Mul", ["h_in", "decay"], ["f"]), node("Add", ["e", "f"], ["h_out"]),
        node("Sigmoid", ["h_out"], ["s"]), node("Transpose", ["s"], ["y"], perm=[0, 2, 3, 1]),
    ]
    value = helper.make_tensor_value_info
    ins = [value("h_in", TensorProto.FLOAT, [1, 1, SIDE, SIDE]), value("gain", TensorProto.FLOAT, list(gain)),
           value("x", TensorProto.FLOAT, [1, SIDE, SIDE, 3])]
    outs = [value("h_out", TensorProto.FLOAT, [1, 1, SIDE, SIDE]), value("y", TensorProto.FLOAT, [1, SIDE, SIDE, 1])]
    init = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.array([DECAY], np.float32), "decay")]
    graph = helper.make_graph(nodes, "recurrent", ins, outs, init)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    card = {"name": "rec", "task": "segment", "file": path.name,
            "input": {"name": "x", "width": SIDE, "height": SIDE, "layout": "nhwc", "scale": 1 / 255},
            "output": {"name": "y", "meaning": "probability"},
            "state": [{"input": "h_in", "output": "h_out"}], "constants": {"gain": [0.4]}}
    card.update(card_changes or {})
    path.with_suffix(".json").write_text(json.dumps(card))


def raw(path, pix_fmt, channels):
    info = common.ffprobe(path)["streams"][0]
    data = subprocess.run(["ffmpeg", "-v", "error", "-i", str(path), "-f", "rawvideo", "-pix_fmt", pix_fmt, "-"],
                          check=True, capture_output=True).stdout
    return np.frombuffer(data, np.uint8).reshape(-1, info["height"], info["width"], channels)


def free_states(path, ratio, card_changes=None):
    """Two recurrent levels at a part of the picture's size, which the mask is brought back to; and its card."""
    rng = np.random.default_rng(8)
    node, init = helper.make_node, []

    def weight(name, *shape):
        init.append(numpy_helper.from_array(rng.normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape).astype(np.float32), name))
        return name

    def level(n, x, channels):
        """h = expand(state); out = (1 - z) h + z c, gates of x and h."""
        r = f"r{n}"
        return [node("Shape", [x], [r + "s"]), node("Expand", [r + "i", r + "s"], [r + "h"]),
                node("Concat", [x, r + "h"], [r + "xh"], axis=1),
                node("Conv", [r + "xh", weight(r + "wz", channels, 2 * channels, 3, 3)], [r + "g"], pads=[1] * 4),
                node("Sigmoid", [r + "g"], [r + "z"]),
                node("Conv", [r + "xh", weight(r + "wc", channels, 2 * channels, 3, 3)], [r + "d"], pads=[1] * 4),
                node("Tanh", [r + "d"], [r + "c"]), node("Sub", ["one", r + "z"], [r + "k"]),
                node("Mul", [r + "k", r + "h"], [r + "a"]), node("Mul", [r + "z", r + "c"], [r + "b"]),
                node("Add", [r + "a", r + "b"], [r + "o"])]

    init += [numpy_helper.from_array(np.array(v, t), k) for k, v, t in (
        ("one", 1, np.float32), ("ones", [1, 1], np.float32), ("two", [2], np.int64), ("four", [4], np.int64),
        ("zero", [0], np.int64), ("single", [1], np.int64))]
    nodes = [node("Concat", ["ones", "downsample_ratio", "downsample_ratio"], ["scales"], axis=0),
             node("Resize", ["src", "", "scales"], ["small"], mode="linear", coordinate_transformation_mode="half_pixel"),
             node("Conv", ["small", weight("w1", 4, 3, 3, 3)], ["x1"], pads=[1] * 4, strides=[2, 2]), *level(1, "x1", 4),
             node("Conv", ["r1o", weight("w2", 6, 4, 3, 3)], ["x2"], pads=[1] * 4, strides=[2, 2]), *level(2, "x2", 6),
             node("Conv", ["r2o", weight("w3", 1, 6, 1, 1)], ["low"]),
             node("Shape", ["src"], ["size"]), node("Slice", ["size", "two", "four", "zero"], ["hw"]),
             node("Concat", ["single", "single", "hw"], ["sizes"], axis=0),
             node("Resize", ["low", "", "", "sizes"], ["big"], mode="linear", coordinate_transformation_mode="half_pixel"),
             node("Mul", ["big", weight("gain", 1)], ["loud"]), node("Sigmoid", ["loud"], ["pha"])]
    value, picture = helper.make_tensor_value_info, ["batch_size", 3, "height", "width"]
    free = ["batch_size", "channels", "height", "width"]
    ins = [value("src", TensorProto.FLOAT, picture), value("r1i", TensorProto.FLOAT, free),
           value("r2i", TensorProto.FLOAT, free), value("downsample_ratio", TensorProto.FLOAT, [1])]
    outs = [value("pha", TensorProto.FLOAT, ["batch_size", 1, "height", "width"]), value("r1o", TensorProto.FLOAT, free),
            value("r2o", TensorProto.FLOAT, free)]
    init[-1] = numpy_helper.from_array(np.array([6], np.float32), "gain")
    graph = helper.make_graph(nodes, "free", ins, outs, init)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    card = {"name": "free", "task": "segment", "file": path.name,
            "input": {"name": "src", "width": SIDE, "height": SIDE, "layout": "nchw", "scale": 1 / 255},
            "output": {"name": "pha", "meaning": "probability"},
            "state": [{"input": "r1i", "output": "r1o"}, {"input": "r2i", "output": "r2o"}],
            "constants": {"downsample_ratio": ratio}}
    card.update(card_changes or {})
    path.with_suffix(".json").write_text(json.dumps(card))


def loop(model, frames, carry=True, start=0, warm_up=0):
    """The masks of pictures of the model's own size, as 0..255; the first one is seen `warm_up` times before."""
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    state, masks = np.full((1, 1, SIDE, SIDE), start, np.float32), []
    for f in [*[frames[0]] * warm_up, *frames]:
        x = f[None].astype(np.float32) * np.float32(1 / 255)
        after, y = session.run(["h_out", "y"], {"h_in": state, "gain": np.array([0.4], np.float32), "x": x})
        state = after if carry else state
        masks.append(y[0, :, :, 0] * 255)
    return np.stack(masks[warm_up:])


class Recurrent(common.Case):
    def setUp(self):
        super().setUp()
        self.model = self.tmp / "rec.onnx"
        recurrent(self.model)

    def clip(self, name, width=SIDE, frames=40, source="testsrc2"):
        out = self.tmp / name
        common.ffmpeg("-f", "lavfi", "-i", f"{source}=size={width}x{SIDE}:rate=25:duration={frames / 25}",
                      "-pix_fmt", "gbrp", "-c:v", "ffv1", out)
        return out

    # A soft edge of width 1 leaves probabilities as they are; a matte is left so without it.
    def segment(self, inputs, out, *args, check=True, feather=("--feather", "1")):
        return common.run("segment", *inputs, "--model", self.model, "--card", self.model.with_suffix(".json"),
                          "--mode", "mask", *feather, "-c:v", "ffv1", "-y", *args, "-o", out, check=check)

    def compare(self, mask, want, tolerance=TOLERANCE):
        got = raw(mask, "gray", 1)[..., 0].astype(float)
        self.assertEqual(got.shape, want.shape)
        self.assertLessEqual(np.abs(got - want).max(), tolerance)
        return np.abs(got - want).mean() / 255

    def test_every_frame_as_a_loop(self):
        clip, out = self.clip("a.mkv"), self.tmp / "mask.mkv"
        frames = raw(clip, "rgb24", 3)
        want = loop(self.model, frames)
        # The test could not fail if the state made no difference.
        self.assertGreater(np.abs(want - loop(self.model, frames, carry=False)).max(), 20)
        for workers in (1, 4, 8):
            self.segment([clip], out, "--workers", workers)
            self.compare(out, want)
        self.segment([clip], out, "--workers", 4, "--decoders", 4, "--batch", 4)
        self.compare(out, want)

    def test_streams_side_by_side(self):
        a, b = self.clip("a.mkv"), self.clip("b.mkv", frames=33, source="smptebars")
        out = self.tmp / "out"
        out.mkdir()
        self.segment([a, b], f"{out}/", "--parallel", 2, "--workers", 4, "--format", "matroska")
        made = {p.name[0]: p for p in out.iterdir()}
        self.assertEqual(sorted(made), ["a", "b"])
        for clip in (a, b):
            self.compare(made[clip.name[0]], loop(self.model, raw(clip, "rgb24", 3)))

    def test_each_eye_has_its_state(self):
        clip, out = self.clip("wide.mkv", width=2 * SIDE), self.tmp / "mask.mkv"
        frames = raw(clip, "rgb24", 3)
        self.segment([clip], out, "--stereo", "sbs", "--workers", 4)
        got = raw(out, "gray", 1)[..., 0].astype(float)
        for eye in (slice(0, SIDE), slice(SIDE, None)):
            want = loop(self.model, np.ascontiguousarray(frames[:, :, eye]))
            self.assertLessEqual(np.abs(got[:, :, eye] - want).max(), TOLERANCE)

    def test_a_first_picture_warms_up(self):
        """It is seen twice more before the run that counts, in each eye and each stream; every later picture once."""
        recurrent(self.model, {"warm_up": 2})
        clip, out = self.clip("wide.mkv", width=2 * SIDE, frames=12), self.tmp / "mask.mkv"
        frames = raw(clip, "rgb24", 3)
        self.segment([clip], out, "--stereo", "sbs", "--workers", 4)
        got = raw(out, "gray", 1)[..., 0].astype(float)
        for eye in (slice(0, SIDE), slice(SIDE, None)):
            seen = np.ascontiguousarray(frames[:, :, eye])
            want = loop(self.model, seen, warm_up=2)
            self.assertGreater(np.abs(want - loop(self.model, seen)).max(), 10)
            self.assertLessEqual(np.abs(got[:, :, eye] - want).max(), TOLERANCE)

    def kill_at(self, out, frames, *args):
        """Ends a run by SIGKILL once so many frames are kept; False where it was done before."""
        p = subprocess.Popen([common.TACHY, *map(str, args), "-o", out], stderr=subprocess.DEVNULL)
        job, kept, until = out.with_name(out.name + ".tachy") / "job.json", 0, time.monotonic() + 60
        while p.poll() is None and kept < frames and time.monotonic() < until:
            kept = json.loads(job.read_text()).get("frames", 0) if job.exists() else 0
        p.kill()
        p.communicate()
        return p.returncode == -signal.SIGKILL

    def test_killed_runs_go_on(self):
        """Each eye's state, the smoothing's and the frame that others are compared with."""
        clip = self.clip("wide.mkv", width=2 * SIDE, frames=120)
        args = ["segment", "--focus", "off", clip, "--model", self.model, "--card", self.model.with_suffix(".json"), "-q", "--resume",
                "--processing.chunk_size=10", "--mode", "mask", "--feather", "1", "-c:v", "ffv1", "--stereo", "sbs"]
        for more in ([], ["--smooth", "--frame-skip=0.05", "--workers", "3"]):
            ref, out = self.tmp / "ref.mkv", self.tmp / "out.mkv"
            common.run(*args, *more, "-y", "-o", ref)
            self.assertTrue(self.kill_at(out, 70 if more else 40, *args, *more))
            common.run(*args, *more, "-o", out)
            self.assertEqual(out.read_bytes(), ref.read_bytes(), more)
            frames = raw(clip, "rgb24", 3)
            if not more:  # a resumed run that begins with no state would differ too
                got = raw(out, "gray", 1)[..., :SIDE, 0].astype(float)
                self.assertLessEqual(np.abs(got - loop(self.model, np.ascontiguousarray(frames[:, :, :SIDE]))).max(), TOLERANCE)
            out.unlink()

    def test_saved_steps_replay(self):
        clip, saved = self.clip("a.mkv", frames=6), self.tmp / "saved"
        self.segment([clip], self.tmp / "m.mkv", "--save-stage", saved)
        p = common.run("replay", saved, "--stage", "engine", "--golden", check=False)
        self.assertEqual(p.returncode, 0, p.stdout + p.stderr)

    def test_cards_that_do_not_fit(self):
        clip = self.clip("a.mkv", frames=2)
        for change, says in (({"state": []}, "says nothing of the input `h_in`"),
                             ({"constants": {}}, "says nothing of the input `gain`"),
                             ({"constants": {"gain": [1, 2]}}, "gives 2 numbers"),
                             ({"state": [{"input": "h", "output": "h_out"}]}, "the input `h` in `state`"),
                             ({"state": [{"input": "h_in", "output": "z"}]}, "the output `z` in `state`"),
                             ({"state": [{"input": "h_in", "output": "y"}]}, "`y` gives float32")):
            recurrent(self.model, change)
            p = self.segment([clip], self.tmp / "m.mkv", check=False)
            self.assertNotEqual(p.returncode, 0)
            self.assertIn(says, p.stderr)

    def test_a_constant_of_any_size(self):
        """A model of a few bytes does not get a gigabyte."""
        recurrent(self.model, gain=[1 << 14, 1 << 14])
        p = self.segment([self.clip("a.mkv", frames=2)], self.tmp / "m.mkv", check=False)
        self.assertEqual(p.returncode, 1)
        self.assertIn("too many for a constant", p.stderr)

    def test_states_of_free_size(self):
        """The interface of Robust Video Matting's own export: names of dimensions that pictures and states share, a
        ratio that sizes are computed from, and states that begin as one zero of any shape."""
        ratio = 0.5
        free_states(self.model, ratio)
        clip, out = self.clip("a.mkv", frames=24), self.tmp / "mask.mkv"
        session = onnxruntime.InferenceSession(str(self.model), providers=["CPUExecutionProvider"])
        states, want = [np.zeros([1, 1, 1, 1], np.float32)] * 2, []
        for f in raw(clip, "rgb24", 3):
            x = (f.astype(np.float32) * np.float32(1 / 255)).transpose(2, 0, 1)[None]
            y, *states = session.run(["pha", "r1o", "r2o"], {"src": x, "r1i": states[0], "r2i": states[1],
                                                             "downsample_ratio": np.array([ratio], np.float32)})
            want.append(y[0, 0] * 255)
        self.assertEqual([s.shape for s in states], [(1, 4, SIDE // 4, SIDE // 4), (1, 6, SIDE // 8, SIDE // 8)])
        for provider in ("cpu", "auto"):
            p = self.segment([clip], out, "--provider", provider, "--workers", 2, "-v", "verbose")
            self.compare(out, np.stack(want))
            # All sizes are known, so that one plan covers the model.
            self.assertEqual("runs on tachy" in p.stderr, provider == "auto", p.stderr)
        free_states(self.model, ratio, {"state": [{"input": "r1i", "output": "r1o", "shape": [1, 4, 12, 12]},
                                                  {"input": "r2i", "output": "r2o", "shape": [1, 6, 6, 6]}]})
        self.segment([clip], out)
        self.compare(out, np.stack(want))
        free_states(self.model, ratio, {"state": [{"input": "r1i", "output": "r1o", "shape": [1, 4, 12, 11]},
                                                  {"input": "r2i", "output": "r2o"}]})
        self.assertNotEqual(self.segment([clip], out, check=False).returncode, 0)

    def test_a_state_begins_with_its_start(self):
        recurrent(self.model, {"state": [{"input": "h_in", "output": "h_out", "start": 2.5}]})
        clip, out = self.clip("a.mkv", frames=5), self.tmp / "mask.mkv"
        self.segment([clip], out)
        self.compare(out, loop(self.model, raw(clip, "rgb24", 3), start=2.5))

    def test_matte_keeps_its_values(self):
        recurrent(self.model, {"output": {"name": "y", "meaning": "alpha"}})
        clip, out = self.clip("a.mkv", frames=8), self.tmp / "mask.mkv"
        want = loop(self.model, raw(clip, "rgb24", 3))
        self.segment([clip], out, feather=())
        self.compare(out, want)
        for asked in (("--feather", "0.3"), ("--threshold", "0.5")):  # one that is asked for is done
            self.segment([clip], out, feather=asked)
            self.compare(out, np.clip((want / 255 - 0.35) / 0.3, 0, 1) * 255, tolerance=3)  # a step of the mask is 1 / 0.3 steps here

    def test_robust_video_matting(self):
        rvm = common.shared("models/segment/rvm_mobilenetv3_288x512_w8.onnx")
        self.model = self.tmp / "rvm.onnx"
        self.model.symlink_to(rvm)
        states = [{"input": f"r{i}i", "output": f"r{i}o"} for i in (1, 2, 3, 4)]
        self.model.with_suffix(".json").write_text(json.dumps({
            "name": "rvm", "task": "segment", "file": "rvm.onnx", "state": states,
            "input": {"name": "src", "width": 512, "height": 288, "layout": "nhwc", "scale": 1 / 255},
            "output": {"name": "pha", "meaning": "alpha"}}))
        clip, out = self.tmp / "p.mkv", self.tmp / "mask.mkv"
        common.ffmpeg("-i", common.DEPS / "media" / "sample.mp4", "-frames:v", 6, "-vf", "scale=512:288",
                      "-pix_fmt", "gbrp", "-c:v", "ffv1", "-an", clip)
        self.segment([clip], out, "--workers", 2, feather=())
        session = onnxruntime.InferenceSession(str(rvm), providers=["CPUExecutionProvider"])
        names = [i.name for i in session.get_inputs()]
        feed = {i.name: np.zeros(i.shape, np.float32) for i in session.get_inputs()}
        want = []
        for f in raw(clip, "rgb24", 3):
            feed["src"] = f[None].astype(np.float32) * np.float32(1 / 255)
            got = dict(zip([o.name for o in session.get_outputs()], session.run(None, feed)))
            feed.update({n: got[n[:-1] + "o"] for n in names if n != "src"})
            want.append(got["pha"][0, :, :, 0] * 255)
        mean = self.compare(out, np.stack(want))
        print(f"mean absolute difference of alpha: {mean:.1e}")
        self.assertLessEqual(mean, 1e-3)


if __name__ == "__main__":
    common.main()
