"""docs/from-python.md: its files go verbatim through `tachy config`, its keys are answered as its table says, its commands
run, and what has another name here is answered in one line."""
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import time

import numpy as np
import onnx
from common import DEPS, ROOT, TACHY, Case, ffmpeg, main, run

PAGE = (ROOT / "docs" / "from-python.md").read_text()
FILES = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
COMMANDS = [re.split(r"\s+# ", line)[0] for line in re.search(r"```sh\n(.*?)```", PAGE, re.S)[1].splitlines()]
KEYS = re.findall(r"(?m)^\| `([a-z_.0-9]+)` \| (works|not needed|not yet) \|", PAGE)
MISTAKES = re.findall(r"(?m)^\| `(tachy .*?)` \| (.*?) \|$", PAGE)
TAKEN = re.findall(r'(?m)^    \{"([a-z_.0-9]+)", "([^"]+)"\},', (ROOT / "tests" / "unit" / "test_schema.c").read_text())
# Options in a run on the CPU with --mode mask, unless another mode is given, and why they do nothing there.
UNUSED = (
    (["--blur", "0.1"], "without --mode blur"), (["--tint", "#ff000080"], "without --mode overlay"),
    (["--background", "green"], "in this --mode; cutout, replace and side-by-side show it"),
    (["--foreground"], "in this --mode"), (["--despill", "green"], "in this --mode"),
    (["--feather", "0.1", "--edge", "hard"], "with --edge hard"), (["--refine", "--edge", "natural"], "with --edge natural"),
    (["--key-black", "0.2"], "without --key"), (["--key-white", "0.8"], "without --key"),
    (["--key-shadows", "remove"], "without --key"), (["--plate-tolerance", "2"], "without --plate"),
    (["--metrics-linger", "1"], "without --enable-metrics"), (["--debug.save_frames=2"], "without --save-stage"),
    (["--performance.frame_skip_threshold=0.9"], "without frame_skip_enabled"),
    (["--performance.frame_skip_threshold=0.9", "--frame-skip"], "without frame_skip_enabled, or beside a distance"),
    (["--gpu.cudnn_benchmark=yes"], "in a run on the CPU"), (["--gpu.cudnn_deterministic=yes"], "in a run on the CPU"),
    (["--gpu.allow_tf32=yes"], "without --provider cuda-ort"), (["--tensorrt.precision.fp16=yes"], "without --provider tensorrt"),
    (["--tensorrt.precision.int8=yes"], "without --provider tensorrt"),
)
USED = (
    ["--mode", "blur", "--blur", "0.1"], ["--mode", "overlay", "--tint", "#ff000080"], ["--mode", "cutout", "--background", "green"],
    ["--mode", "alpha", "--foreground", "--despill", "green"], ["--feather", "0.1"], ["--refine"],
    ["--key", "green", "--key-black", "0.2", "--key-white", "0.8", "--key-shadows", "remove"],
    ["--performance.frame_skip_threshold=0.9", "--performance.frame_skip_enabled=yes"], ["--profile", "quality", "--edge", "natural"],
)


def command(line, cwd):
    args = shlex.split(line)[1:]
    if "segment" in args and "config" not in args:  # nobody is in these pictures
        args += ["--focus", "off"]
    env = dict(os.environ, XDG_CACHE_HOME=str(cwd / "cache"), XDG_STATE_HOME=str(cwd / "state"))
    return subprocess.run([TACHY, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=cwd, env=env, timeout=300)


class Files(Case):
    maxDiff = None

    def config(self, text, *args):
        (self.tmp / "studio.yaml").write_text(text)
        p = run("config", "--json", "-c", "studio.yaml", *args, cwd=self.tmp)
        return json.loads(p.stdout), p.stderr

    def test_each_file(self):
        self.assertGreaterEqual(len(FILES), 3)
        for text in FILES:
            self.config(text)
        s, said = self.config(FILES[0])
        self.assertEqual((s["model.batch_size"]["value"], s["model.input_size"]["value"]), (32, "1024x1024"))
        self.assertEqual(s["model.num_workers"]["value"], 4)
        self.assertRegex(said, r"studio\.yaml:10: processing\.num_threads is ignored: model\.num_workers in line 7")
        self.assertEqual(len(said.splitlines()), 1, said)

    def test_each_key(self):
        """The page has every key of the schema, and says of each what the command says."""
        self.assertEqual(sorted(k for k, _ in KEYS), sorted(k for k, _ in TAKEN))
        answers = {}
        again = [(key, value) for key, value in TAKEN if key == "animation.use_half_precision"]  # contradicts another
        left = [row for row in TAKEN if row not in again]
        while left:  # of several keys for one option one counts
            s, said = self.config("".join(f"{key}: {value}\n" for key, value in left))
            rows = {r["origin"]: r for r in s.values()}
            lines = {key: f"studio.yaml:{n}" for n, (key, _) in enumerate(left, 1) if f"studio.yaml:{n}" in rows}
            self.assertTrue(lines, left)
            for key, line in lines.items():
                row = rows[line]
                answers[key] = "not yet" if "no_effect_yet" in row else "not needed" if "not_needed" in row else "works"
                self.assertEqual(f"{line}: {key} has no effect yet" in said, answers[key] == "not yet", key)
            left = [row for row in left if row[0] not in lines]
            if not left:
                left, again = again, []
        self.assertEqual(answers, dict(KEYS))

    def test_sizes(self):
        for given, value in (("[640, 360]", "640x360"), ("[256]", "256"), ("320x192", "320x192")):
            self.assertEqual(self.config(f"model: {{input_size: {given}}}\n")[0]["model.input_size"]["value"], value)
        for given, why in (("[1, 2, 3]", "takes a list of width and height"), ("[]", "takes a list"), ("[0, 4]", "is not a size")):
            (self.tmp / "bad.yaml").write_text(f"model: {{input_size: {given}}}\n")
            p = run("config", "-c", "bad.yaml", check=False, cwd=self.tmp)
            self.assertEqual((p.returncode, len(p.stderr.splitlines())), (2, 1), p.stderr)
            self.assertIn("bad.yaml:1: model.input_size", p.stderr)
            self.assertIn(why, p.stderr)

    def test_ranges(self):
        for bad in ("32-16", "0-4", "4-", "1-999", "4-8-16", "-4"):
            (self.tmp / "bad.yaml").write_text(f"model: {{batch_size: '{bad}'}}\n")
            p = run("config", "-c", "bad.yaml", check=False, cwd=self.tmp)
            self.assertEqual(p.returncode, 2, bad)
            self.assertIn("is not a whole number from 1 to 256, or a range of them", p.stderr)
        p = run("config", "--workers", "2-4", check=False)
        self.assertIn('"2-4" is not a whole number from 0 to 1024', p.stderr)  # other numbers take no range

    def test_all_shows_other_tasks(self):
        short, every = run("config").stdout, run("config", "--all").stdout
        for key in ("max_num_faces:", "smoothing_window:", "gpu_id:"):
            self.assertNotIn(key, short)
            self.assertIn(key, every)
        self.assertIn("num_workers:", short)
        self.assertIn("max_num_faces: 2", run("config", "--max-faces", "2").stdout)  # what is set is shown


class Runs(Case):
    def setUp(self):
        super().setUp()
        ffmpeg("-f", "lavfi", "-i", "testsrc=size=64x48:rate=25:duration=0.4", self.tmp / "in.mp4")
        (self.tmp / "clips").mkdir()
        os.link(self.tmp / "in.mp4", self.tmp / "clips" / "a.mp4")
        os.link(self.tmp / "in.mp4", self.tmp / "clips" / "b.mp4")

    def labels(self):
        """A network that gives three classes the mean of a colour each, and its card."""
        node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
        x, y = (value(n, onnx.TensorProto.FLOAT, shape) for n, shape in (("x", [1, 3, 32, 32]), ("y", [1, 3])))
        graph = onnx.helper.make_graph([node("GlobalAveragePool", ["x"], ["m"]), node("Flatten", ["m"], ["y"])], "labels", [x], [y])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, str(self.tmp / "labels.onnx"))
        (self.tmp / "labels.json").write_text(json.dumps({
            "name": "labels", "task": "classify", "file": "labels.onnx",
            "input": {"width": 32, "height": 32, "layout": "nchw", "scale": 1 / 255},
            "outputs": [{"meaning": "classes", "activation": "softmax", "labels": ["red", "green", "blue"]}]}))

    def test_each_command(self):
        (self.tmp / "studio.yaml").write_text(FILES[0])
        self.labels()
        ffmpeg("-i", DEPS / "media" / "astronaut.png", "-vf", "crop=300:300:80:0", self.tmp / "portrait.jpg")
        self.assertGreaterEqual(len(COMMANDS), 20)
        for line in COMMANDS:
            p = command(line, self.tmp)
            self.assertEqual(p.returncode, 0, f"{line}\n{p.stderr}")
            for name in re.findall(r"\S+\.(?:mp4|jsonl|csv)\b", line):
                self.assertTrue((self.tmp / name).exists(), line)
        self.assertEqual(sorted(f.name for f in (self.tmp / "done").iterdir()), ["a.cutout.mp4", "b.cutout.mp4"])

    def test_each_mistake(self):
        self.assertGreaterEqual(len(MISTAKES), 5)
        for line, answer in MISTAKES:
            p = command(line, self.tmp)
            self.assertIn(p.returncode, (1, 2), line)
            self.assertEqual(len(p.stderr.splitlines()), 1, f"{line}\n{p.stderr}")
            self.assertIn(answer, p.stderr, line)

    def test_watch(self):
        """Files that lie there, that are written and that are moved there; none is an input twice."""
        p = subprocess.Popen([TACHY, "segment", "--watch", "clips", "--focus", "off", "-q", "-o", "done/",
                              "--json=all.jsonl"], cwd=self.tmp,
                             stderr=subprocess.PIPE, text=True)
        self.addCleanup(p.stderr.close)
        self.addCleanup(p.kill)

        def wait_for(name):
            while not (self.tmp / "done" / name).exists():
                self.assertIsNone(p.poll(), "the watch has ended")
                time.sleep(0.05)

        wait_for("b.cutout.mp4")
        shutil.copy(self.tmp / "in.mp4", self.tmp / "clips" / "written.mp4")
        (self.tmp / "clips" / "notes.txt").write_text("no input")
        (self.tmp / "clips" / "broken.mp4").write_text("no video")
        wait_for("written.cutout.mp4")
        os.rename(self.tmp / "in.mp4", self.tmp / "clips" / "moved.mp4")
        wait_for("moved.cutout.mp4")
        while pathlib.Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text():  # it has its name, the process ends
            time.sleep(0.05)
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(60), 1)  # of the one that was no video
        self.assertEqual(sorted(f.name for f in (self.tmp / "done").iterdir()),
                         [f"{n}.cutout.mp4" for n in ("a", "b", "moved", "written")])
        said = p.stderr.read()
        self.assertEqual(len(said.splitlines()), 1, said)
        self.assertIn("broken.mp4", said)
        lines = [json.loads(line) for line in (self.tmp / "all.jsonl").read_text().splitlines()]
        self.assertEqual([s["output"] for s in lines],
                         [f"done/{n}.cutout.mp4" for n in ("a", "b", "written", "moved")])
        for args, why in ((["clips", "-o", "done/", "--json=all.jsonl"], "already exists; use -y"),
                          (["clips"], "needs another folder"), (["nothere", "-o", "done/"], "there is no such folder"),
                          (["clips", "-o", "clips/"], "would be an input again"), (["clips", "-i", "x.mp4", "-o", "done/"], "other inputs")):
            p = run("segment", "--watch", *args, check=False, cwd=self.tmp)
            self.assertNotEqual(p.returncode, 0)
            self.assertIn(why, p.stderr)

    def said(self, text, *args):
        (self.tmp / "studio.yaml").write_text(text)
        return run("segment", "-y", "-c", "studio.yaml", "in.mp4", "--mode", "mask", "-f", "null", "-", *args, cwd=self.tmp).stderr

    def test_what_has_no_effect_in_a_run(self):
        text = ("performance:\n  target_fps: 65\n  max_latency_ms: 15\ngpu:\n  id: 1\nbatching:\n  dynamic: {timeout_ms: 5}\n"
                "processing:\n  chunk_size: 100\n")
        said = self.said(text)
        for key, why in (("performance.target_fps", "without --live"), ("performance.max_latency_ms", "without --live"),
                         ("gpu.id", "in a run on the CPU"), ("batching.dynamic.timeout_ms", "without batches"),
                         ("processing.chunk_size", "without --resume")):
            self.assertRegex(said, rf"studio\.yaml:\d+: {re.escape(key)} has no effect {why}")
        self.assertIn("--gpu-id has no effect in a run on the CPU", self.said("", "--gpu-id", "0"))
        self.assertEqual(self.said(text, "-q"), "")
        for args, why in UNUSED:
            said = self.said("", *args)
            self.assertIn(f"{args[0].split('=')[0].lstrip('-')} has no effect {why}", said, args)
            self.assertEqual(said.count("no effect"), 1, said)
        for args in USED:
            self.assertNotIn("no effect", self.said("", *args), args)
        self.assertNotIn("no effect", self.said("gpu: {cudnn_benchmark: no}\n", "--frame-skip"))
        (self.tmp / "other.yaml").write_text("segment: {blur: 0.05}\n")  # another task's section
        self.assertNotIn("no effect", run("detect", "-c", "other.yaml", "in.mp4", "-f", "null", "-", cwd=self.tmp).stderr)

    def test_what_is_not_needed_is_said_once_with_v(self):
        self.assertNotIn("not needed", self.said("dataloader: {pin_memory: yes}\n"))
        keys = [key for key, answer in KEYS if answer == "not needed"]
        said = self.said("".join(f"{key}: {dict(TAKEN)[key]}\n" for key in keys), "-v", "verbose")
        for n, key in enumerate(keys, 1):
            self.assertEqual(said.count(f"studio.yaml:{n}: {key} is not needed here: "), 1, said)

    def test_a_size_that_the_model_takes(self):
        """A network with free extents sees pictures of the size that was asked for, from a file or the command line."""
        node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
        free = [value("x", onnx.TensorProto.FLOAT, [1, "h", "w", 3])], [value("y", onnx.TensorProto.FLOAT, [1, "h", "w", 1])]
        axes = onnx.numpy_helper.from_array(np.array([3]), "axes")
        graph = onnx.helper.make_graph([node("ReduceMean", ["x", "axes"], ["y"])], "free", *free, [axes])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
        onnx.save(model, str(self.tmp / "free.onnx"))
        (self.tmp / "free.json").write_text(json.dumps({
            "name": "free", "task": "segment", "file": "free.onnx", "output": {"meaning": "probability"},
            "input": {"width": 64, "height": 48, "layout": "nhwc", "scale": 1 / 255}}))
        for n, (text, args, shape) in enumerate((
                ("", [], (1, 48, 64, 3)), ("model: {input_size: [96, 32]}\n", [], (1, 32, 96, 3)),
                ("model: {input_size: [96, 32]}\n", ["--input-size", "40x80"], (1, 80, 40, 3)))):
            self.said(text, "--model", "free.onnx", "--card", "free.json", "--save-stage", f"s{n}", 1, *args)
            seen = [np.load(f).shape for f in (self.tmp / f"s{n}").glob("frame-000000.eye0.in*.npy")]
            self.assertIn(shape, seen)

    def test_a_size_that_the_model_does_not_take(self):
        said = self.said("model: {input_size: [1024, 1024]}\n")
        self.assertIn("studio.yaml:1: model selfie takes pictures of 256x256 only, not 1024x1024; model.input_size is ignored",
                      said)


if __name__ == "__main__":
    main()
