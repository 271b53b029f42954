"""The cards of docs/cards.md, each with a generated network that has the inputs and outputs of the published one. What the
networks compute is ours and small; names, ranks, types and free sizes are theirs, and large pictures are a quarter as wide and
high. Masks are held against a loop over ONNX Runtime's Python package that prepares the pictures by itself."""
import json
import re
import subprocess

import common
import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, save

FRAMES = 2
FREE = {"rvm", "modnet"}  # whose export leaves the sizes free
RVM_STATES = (16, 20, 40, 64)
# Outputs with their channels; the card's own is among them.
OUTPUTS = {"rvm": (("fgr", 3), ("pha", 1)), "rvm-fixed": (("fgr", 3), ("pha", 1)), "modnet": (("output", 1),),
           "pp-humanseg": (("save_infer_model/scale_0.tmp_1", 2),), "u2net-human": tuple((str(1959 + i), 1) for i in range(7)),
           "birefnet-portrait": (("output_image", 1),), "background-matting": (("pha", 1), ("fgr", 3))}
ACTIVATION = {"alpha": "Clip", "probability": "Sigmoid", "logit": None, "probabilities": "Softmax"}


def cards():
    text = (common.ROOT / "docs" / "cards.md").read_text()
    found = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.S)]
    for at in (card["input"] for card in found):
        at.update({k: at[k] // 4 if at["width"] > 500 else at[k] for k in ("height", "width")})
    return found


class Graph:
    def __init__(self):
        self.rng, self.nodes, self.init, self.ins, self.outs, self.n = np.random.default_rng(8), [], [], [], [], 0

    def constant(self, v, dtype=np.float32):
        self.n += 1
        self.init.append(numpy_helper.from_array(np.array(v, dtype), f"c{self.n}"))
        return f"c{self.n}"

    def node(self, op, *ins, out=None, **attributes):
        self.n += 1
        out = out or f"t{self.n}"
        self.nodes.append(helper.make_node(op, ins, [out], **attributes))
        return out

    def conv(self, x, channels, of):
        return self.node("Conv", x, self.constant(self.rng.normal(0, 1 / np.sqrt(of), (channels, of, 1, 1))))

    def value(self, where, name, shape):
        where.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name


def recurrent(g, x, sizes, constant):
    """Four states, each at half the size of the one before; returns what they add to the mask. sizes: theirs if they are fixed."""
    scale = g.node("Concat", g.constant([1, 1]), *[g.value(g.ins, "downsample_ratio", [1])] * 2, axis=0) if constant else \
        g.constant([1, 1, 0.375, 0.375])
    x, of, sum_of = g.node("Resize", x, "", scale, mode="linear"), 3, []
    for i, channels in enumerate(RVM_STATES):
        shape = [1, channels, *sizes[i]] if sizes else [f"b{i}", f"c{i}", f"h{i}", f"w{i}"]
        state = g.value(g.ins, f"r{i + 1}i", shape)
        x = g.conv(g.node("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1), channels, of)
        grown = g.node("Expand", state, g.node("Shape", x))
        x = g.node("Add", g.node("Mul", g.constant(0.6), grown), g.node("Mul", g.constant(0.4), x), out=f"r{i + 1}o")
        g.value(g.outs, f"r{i + 1}o", shape)
        sum_of.append(g.node("ReduceMean", x, axes=[1, 2, 3], keepdims=1))
        of = channels
    return g.node("Sum", *sum_of)


def network(path, card):
    g, at = Graph(), card["input"]
    name, w, h = card["name"], at["width"], at["height"]
    picture = ["batch", 3, "height", "width"] if name in FREE else [1, 3, h, w]
    x = g.value(g.ins, at["name"], picture)
    if "plate" in at:
        x = g.node("Sub", x, g.value(g.ins, at["plate"], picture))
    more, sizes = None, []
    if "state" in card:
        y, z = int(h * 0.375), int(w * 0.375)
        for _ in RVM_STATES:
            y, z = -(-y // 2), -(-z // 2)
            sizes.append((y, z))
        more = recurrent(g, x, None if name in FREE else sizes, "constants" in card)
    wanted = card["output"].get("name", OUTPUTS[name][0][0])
    for out, channels in OUTPUTS[name]:
        v = g.conv(x, channels, 3)
        v = g.node("Add", v, more) if more and out == wanted else v
        op = ACTIVATION[card["output"]["meaning"]]
        if op == "Clip":
            v = g.node("Clip", g.node("Add", g.node("Mul", v, g.constant(0.3)), g.constant(0.5)), g.constant(0), g.constant(1))
        elif op:
            v = g.node(op, v, **({"axis": 1} if op == "Softmax" else {}))
        g.node("Identity", v, out=out)
        g.value(g.outs, out, ["batch", channels, "height", "width"] if name in FREE else [1, channels, h, w])
    graph = helper.make_graph(g.nodes, name, g.ins, g.outs, g.init)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))


def prepared(card, frame):
    at = card["input"]
    v = (frame.astype(np.float32) * at["scale"] - np.float32(at.get("mean", 0))) / np.float32(at.get("std", 1))
    return np.ascontiguousarray(v.transpose(2, 0, 1)[None])


def loop(path, card, frames, plate):
    """Masks as 0..255."""
    session, at = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]), card["input"]
    names = [o.name for o in session.get_outputs()]
    wanted = card["output"].get("name", names[0])
    state = {s["input"]: np.zeros([1, 1, 1, 1] if card["name"] in FREE else session.get_inputs()[[
        i.name for i in session.get_inputs()].index(s["input"])].shape, np.float32) for s in card.get("state", [])}
    masks = []
    warm_up = card.get("warm_up", 0)
    for f in [*[frames[0]] * warm_up, *frames]:
        feed = {at["name"]: prepared(card, f), **state,
                **{k: np.array([v], np.float32) for k, v in card.get("constants", {}).items()}}
        if "plate" in at:
            feed[at["plate"]] = prepared(card, plate)
        got = dict(zip(names, session.run(names, feed)))
        state = {s["input"]: got[s["output"]] for s in card.get("state", [])}
        mask = got[wanted][0, card["output"].get("channel", 0)]
        masks.append(255 / (1 + np.exp(-mask)) if card["output"]["meaning"] == "logit" else mask * 255)
    return np.stack(masks[warm_up:])


class Cards(common.Case):
    def pictures(self, source, name, w, h, frames):
        """A clip of so many RGB frames of the size, and these."""
        out = self.tmp / name
        common.ffmpeg("-f", "lavfi", "-i", f"{source}=size={w}x{h}:rate=25:duration={frames / 25}", "-pix_fmt", "rgb24",
                      "-c:v", "png" if frames == 1 else "rawvideo", out)
        raw = subprocess.run(["ffmpeg", "-v", "error", "-i", str(out), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"],
                             check=True, capture_output=True).stdout
        return out, np.frombuffer(raw, np.uint8).reshape(frames, h, w, 3)

    def check(self, card):
        w, h = card["input"]["width"], card["input"]["height"]
        model, path = self.tmp / card["file"], self.tmp / f"{card['name']}.json"
        network(model, card)
        path.write_text(json.dumps(card))
        clip, frames = self.pictures("testsrc2", "in.nut", w, h, FRAMES)
        args = ["segment", clip, "--model", model, "--card", path, "--mode", "mask", "-c:v", "ffv1", "-pix_fmt", "gray", "-y"]
        if card["output"]["meaning"] != "alpha":
            args += ["--threshold", "0.5", "--feather", "1"]  # probabilities as they are
        plate, empty = None, None
        if "plate" in card["input"]:
            refused = common.run(*args, "-o", self.tmp / "out.mkv", check=False)
            self.assertEqual(refused.returncode, 2)
            self.assertIn("name it with --plate FILE", refused.stderr)
            plate, empty = self.pictures("smptebars", "plate.png", w, h, 1)
            args += ["--plate", plate]
        common.run(*args, "-o", self.tmp / "out.mkv")
        got = subprocess.run(["ffmpeg", "-v", "error", "-i", str(self.tmp / "out.mkv"), "-f", "rawvideo", "-pix_fmt", "gray", "-"],
                             check=True, capture_output=True).stdout
        got = np.frombuffer(got, np.uint8).reshape(FRAMES, h, w).astype(float)
        want = loop(model, card, frames, None if empty is None else empty[0])
        self.assertGreater(want.std(), 10)  # else any mask would do
        self.assertLessEqual(np.abs(got - want).max(), 1.01)

    def verify(self, model, path):
        return common.run("model", "verify", model, "--card", path, check=False)

    def test_a_card_is_completed_by_answers(self):
        """A skeleton's open keys are asked for one by one; with the last answer the model runs."""
        card = next(c for c in cards() if c["name"] == "rvm")
        model, path = self.tmp / "My Net.onnx", self.tmp / "my.json"
        network(model, card)
        info = json.loads(common.run("model", "info", model, "--json").stdout)
        self.assertEqual(info["inputs"][0], {"name": "src", "dtype": "float32", "shape": [None, 3, None, None]})
        self.assertEqual([o["name"] for o in info["outputs"]], [o.name for o in onnxruntime.InferenceSession(
            str(model), providers=["CPUExecutionProvider"]).get_outputs()])
        mine = json.loads(common.run("model", "card", model).stdout)
        self.assertEqual((mine["name"], mine["file"], mine["output"]),
                         ("my_net", "my_net.onnx", {"name": "pha", "meaning": "", "layout": "nchw"}))
        answers = {"task": "segment", "input.width": 320, "input.height": 180, "input.channels": "rgb", "input.scale": 1 / 255,
                   "output.meaning": "alpha", "constants.downsample_ratio": 0.375}
        asked = []
        while True:
            path.write_text(json.dumps(mine))
            p = self.verify(model, path)
            found = re.search(r"`([a-z0-9_.]+)` is open: ", p.stderr)
            if not found:
                break
            self.assertNotEqual(p.returncode, 0)
            self.assertLessEqual(len(p.stderr.strip().replace(str(self.tmp), "")), 240)
            asked.append(key := found[1])
            if re.match(r"constants.r\di", key):  # what they are is the network's states
                del mine["constants"][key[10:]]
                mine.setdefault("state", []).append({"input": key[10:], "output": key[10:-1] + "o"})
                continue
            *section, last = key.split(".")
            (mine[section[0]] if section else mine)[last] = answers[key]
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        self.assertEqual(set(asked), set(answers) | {f"constants.r{i}i" for i in range(1, 5)})
        self.assertIn("it runs as its card says", p.stdout)
        del mine["sha256"]
        path.write_text(json.dumps(mine))
        self.assertIn("no SHA-256 in the card; not verified", self.verify(model, path).stdout)

    def test_verify_finds_a_wrong_meaning(self):
        card = next(c for c in cards() if c["name"] == "birefnet-portrait")
        model, path = self.tmp / "net.onnx", self.tmp / "net.json"
        network(model, card)
        for meaning, status in (("logit", 0), ("probability", 1)):
            card["output"]["meaning"] = meaning
            path.write_text(json.dumps(card))
            p = self.verify(model, path)
            self.assertEqual(p.returncode, status, p.stderr)
        self.assertRegex(p.stderr, r"values from -\d.* to \d.*; of any number logit makes a mask")

    def test_no_skeleton_takes_points_for_a_mask(self):
        """A network of 17 heat maps and one of a list of boxes: nothing says segment."""
        for shape in ([1, 17, 48, 36], [1, 100, 6]):
            g = Graph()
            x = g.conv(g.value(g.ins, "x", [1, 3, 96, 72]), 1, 3)
            g.node("Expand", g.node("ReduceMean", x, axes=[1, 2, 3], keepdims=0), g.constant(shape, np.int64), out="y")
            g.value(g.outs, "y", shape)
            save(helper.make_model(helper.make_graph(g.nodes, "pose", g.ins, g.outs, g.init),
                                   opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(self.tmp / "pose.onnx"))
            card = json.loads(common.run("model", "card", self.tmp / "pose.onnx").stdout)
            self.assertEqual((card["task"], card["outputs"]), ("", [{"name": "y", "meaning": ""}]))

    def test_each_card_as_a_loop(self):
        self.assertEqual({c["name"] for c in cards()}, set(OUTPUTS))
        for card in cards():
            with self.subTest(card=card["name"]):
                self.check(card)


common.main()
