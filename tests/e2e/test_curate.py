"""tachy curate: several tasks over one decoding, conditions, filters, resume after any end."""
import contextlib
import csv
import html
import io
import json
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import tarfile
import time
import unittest

import cv2
import duckdb
import numpy as np
import onnx
import onnxruntime
import pyarrow.parquet
from onnx import TensorProto, helper, numpy_helper
from pycocotools.coco import COCO

import clip_networks
import common
from common import DEPS, TACHY, ffmpeg, ffprobe, models, run
from terminal import Terminal


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def clip(path, frames, at=0, size="320x240"):
    """A piece of the sample clip, in which a face moves."""
    ffmpeg("-ss", at, "-i", DEPS / "media" / "sample.mp4", "-frames:v", frames, "-an", "-vf", f"scale={size.replace('x', ':')}",
           "-c:v", "libx264", "-preset", "ultrafast", path)


def face_network(folder):
    """A vector of a face by random weights: good enough to tell two pictures apart."""
    w = np.random.default_rng(5).normal(size=(192, 48)).astype(np.float32)
    nodes = [helper.make_node("AveragePool", ["x"], ["small"], kernel_shape=[14, 14], strides=[14, 14]),
             helper.make_node("Flatten", ["small"], ["flat"]), helper.make_node("Gemm", ["flat", "w"], ["v"])]
    w -= w.mean(0)  # brightness does not count
    value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "g", [value("x", [1, 3, 112, 112])], [value("v", [1, 48])], [numpy_helper.from_array(w, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "embed.onnx")
    (folder / "embed.json").write_text(json.dumps({"name": "embed", "task": "embed", "file": "embed.onnx", "outputs": [{"meaning": "embedding"}],
                                                   "input": {"width": 112, "height": 112, "layout": "nchw", "scale": 2 / 255, "mean": 1}}))
    return folder / "embed.onnx"


def files_of(folder):
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


class Curate(common.Case):
    @classmethod
    def setUpClass(cls):
        models("face", "face-mesh", "person", "pose")

    def setUp(self):
        super().setUp()
        self.inputs = self.tmp / "in"
        self.inputs.mkdir()

    def curate(self, *args, out="out", tasks="detect", **kw):
        return run("curate", "--tasks", tasks, "-q", "-o", self.tmp / out, *args, **kw)

    def results(self, out="out"):
        return lines(self.tmp / out / "results.jsonl")

    def test_tasks_share_one_decoding(self):
        clip(self.inputs / "a.mp4", 9)
        clip(self.inputs / "b.mkv", 5, at=1, size="640x480")
        ffmpeg("-i", self.inputs / "a.mp4", "-frames:v", "1", self.inputs / "c.png")
        p = self.curate(self.inputs, "--json", tasks="detect,pose")
        summary, got = json.loads(p.stdout), self.results()
        counted = sum(int(ffprobe(f, "-count_frames")["streams"][0]["nb_read_frames"]) for f in self.inputs.iterdir())
        self.assertEqual((summary["decoded"], summary["frames"], len(got)), (counted,) * 3)
        calls = {s["name"]: s["calls"] for s in summary["steps"]}
        self.assertLessEqual({"decode", "detect.model", "pose.track", "pose.lines", "results"}, set(calls))
        self.assertEqual(set(calls.values()), {counted})
        for name in ("a.mp4", "b.mkv", "c.png"):
            own = [x for x in got if x["file"].endswith(name)]
            self.assertEqual([x["frame"] for x in own], list(range(len(own))))
            for task in ("detect", "pose"):  # each reports its own values only
                run(task, "-q", "-y", self.inputs / name, "-o", self.tmp / "alone.jsonl")
                alone = lines(self.tmp / "alone.jsonl")
                self.assertEqual([x[task]["regions"] for x in own], [x["regions"] for x in alone], (name, task))
        self.assertTrue(any(x["detect"]["regions"] for x in got))

    def test_progress_of_each_task(self):
        """A block on a terminal, which is gone at the end; then a table of all stages."""
        for repeat in (5, 25, 100):  # a run may end before a loaded machine shows anything
            ffmpeg("-y", "-stream_loop", repeat, "-i", DEPS / "media" / "sample.mp4", "-an", "-frames:v", 60 * repeat, "-vf", "scale=160:120", "-preset", "ultrafast",
                   self.inputs / "a.mp4")
            t = Terminal("curate", "--tasks", "detect,pose", "--pose.when", "frame < 9", "-y", "-o", self.tmp / "out", self.inputs, columns=70)
            self.assertEqual(t.wait(300), 0, t.shown)
            if re.search(r"detect +\d+ frames", t.shown):
                break
        self.assertRegex(t.shown, r"0/1 inputs .*\r\n  decode +\d+ frames +\d+ %.*\r\n  detect +\d+ frames +\d+ %  preprocess \d+ %  model \d+ %")
        self.assertLess(max(len(x) for x in re.split(r"\r|\n|\x1b\[[KA]", t.shown.split("1 inputs:")[0])), 70)
        screen, y, x = {}, 0, 0
        for at in re.finditer(r"\x1b\[([KA])|([\r\n])|([^\x1b\r\n]+)", t.shown):
            if at[1] == "K":
                screen[y] = screen.get(y, "")[:x]
            elif at[1] == "A":
                y -= 1
            elif at[2]:
                x, y = (0, y) if at[2] == "\r" else (x, y + 1)
            else:
                screen[y] = screen.get(y, "").ljust(x)[:x] + at[3]
                x += len(at[3])
        last = [screen[i] for i in sorted(screen) if screen[i]]
        self.assertTrue(last[0].startswith("1 inputs: 1 done"), last)
        self.assertIn(f"{60 * repeat} frames decoded", last[1])
        table = {w[0]: (int(w[1]), float(w[2]), int(w[3])) for w in (x.split() for x in last[3:])}
        self.assertEqual([table[k][0] for k in ("decode", "detect.model", "pose.track", "results")], [60 * repeat, 60 * repeat, 9, 60 * repeat])
        self.assertAlmostEqual(sum(v[2] for v in table.values()), 100, delta=len(table) / 2)

    def test_tasks_that_look_ahead(self):
        """Of every input all frames come, though none follows in its stream; pictures are mended, sound belongs to its own pictures."""
        names = ("a.mkv", "b.mkv", "c.mp4", "d.png")
        for name, at in zip(names, (0, 8)):
            ffmpeg("-ss", at, "-i", common.shared("media/liveportrait_d6.mp4"), "-t", "1.6", "-vf", "scale=320:-2", "-c:a", "pcm_s16le", self.inputs / name)
        clip(self.inputs / "c.mp4", 12)
        ffmpeg("-i", self.inputs / "c.mp4", "-frames:v", "1", self.inputs / "d.png")
        hole = ("--hole", "100,60,50,70")
        self.curate(self.inputs, "--inpaint.hole", hole[1], "--keep", "avsync.speaks >= 0 or frame == 0", tasks="avsync,inpaint,motion", timeout=600)
        got = self.results()
        for name in names:
            own = [x for x in got if x["file"].endswith(name)]
            counted = int(ffprobe(self.inputs / name, "-count_frames")["streams"][0]["nb_read_frames"])
            self.assertEqual([x["frame"] for x in own], list(range(counted)))
            run("motion", "-q", "-y", self.inputs / name, "-o", self.tmp / "alone.jsonl")
            self.assertEqual([x["motion"].get("values") for x in own], [x.get("values") for x in lines(self.tmp / "alone.jsonl")], name)
            for x in own:
                self.assertAlmostEqual(x["inpaint"]["values"]["hole"], 50 * 70 / (x["width"] * x["height"]), 6)
                self.assertTrue(0 < x["inpaint"]["values"]["invented"] <= 1)
            run("inpaint", "-q", "-y", *hole, self.inputs / name, "-o", self.tmp / "mended.mkv", "-c:v", "ffv1")
            mended = cv2.VideoCapture(str(self.tmp / "mended.mkv")).read()[1].astype(float)
            self.assertEqual([x["keep"] for x in own if x["frame"] == 0], [True])
            picture = cv2.imread(str(self.tmp / "out" / own[0]["picture"])).astype(float)
            plain = cv2.VideoCapture(str(self.inputs / name)).read()[1].astype(float)
            self.assertLess(np.abs(picture - mended).mean(), 2.5)
            inside = np.s_[60:130, 100:150]
            self.assertLess(np.abs(picture - mended)[inside].mean(), np.abs(plain - mended)[inside].mean() / 2)
            if name.endswith(".mkv"):
                run("avsync", "-q", "-y", self.inputs / name, "-o", self.tmp / "alone.jsonl")
                self.assertEqual([w for x in own for w in x["avsync"]["windows"]], lines(self.tmp / "alone.jsonl"))
                self.assertEqual([x["frame"] for x in own if "values" in x["avsync"]], [counted - 1])
            else:
                self.assertEqual([x["avsync"] for x in own], [None] * counted)

    def test_tar_files_and_earlier_results_as_inputs(self):
        clip(self.inputs / "a.mp4", 3)
        ffmpeg("-i", self.inputs / "a.mp4", "-frames:v", "2", self.inputs / "%d.png")
        ffmpeg("-f", "lavfi", "-i", "color=gray:32x32", "-frames:v", "1", self.inputs / "grey.png")
        want = None
        for form, name in ((tarfile.USTAR_FORMAT, "u.tar"), (tarfile.GNU_FORMAT, "g.tar"), (tarfile.PAX_FORMAT, "p.tar")):
            with tarfile.open(self.tmp / name, "w", format=form) as t:
                for f in sorted(self.inputs.iterdir()):
                    t.add(f, f"{'long/' * 25 if name != 'u.tar' else 'a/'}{f.name}")
                    info = tarfile.TarInfo(f"a/{f.stem}.json")
                    info.size = 2
                    t.addfile(info, io.BytesIO(b"{}"))
                evil = tarfile.TarInfo("../../evil.png")
                evil.size = 1
                t.addfile(evil, io.BytesIO(b"x"))
            self.curate(self.tmp / name, "--keep", "width == 320", out=name + ".out", tasks="quality")
            got = [(x["file"].rsplit("/", 1)[1], x["frame"], x["quality"]) for x in self.results(name + ".out")]
            want = want or got
            self.assertEqual(got, want)
            self.assertTrue(self.results(name + ".out")[0]["file"].startswith(str(self.tmp / f"{name}.out/inputs/{name}/")))
        self.assertEqual(len(want), 6)
        self.assertFalse(any(self.tmp.glob("**/evil*")))
        self.assertEqual(json.loads(self.curate(self.tmp / "p.tar", "--keep", "width == 320", "--json", out="p.tar.out", tasks="quality").stdout)["before"], 4)
        self.curate(self.tmp / "p.tar.out", out="again", tasks="quality")  # whose grey frame was not kept
        self.assertEqual([(x["file"].rsplit("/", 1)[1], x["frame"], x["quality"]) for x in self.results("again")], [w for w in want if w[0] != "grey.png"])
        (self.tmp / "cut.tar").write_bytes((self.tmp / "u.tar").read_bytes()[:3000])
        (self.tmp / "no.tar").write_bytes(b"no tar" * 200)
        for name in ("cut.tar", "no.tar"):
            p = self.curate(self.tmp / name, out="x", tasks="quality", check=False)
            self.assertRegex(p.stderr, rf"{name}: is no tar file, or is damaged at byte \d+")

    def test_keys_of_other_programs(self):
        clip(self.inputs / "a.mp4", 3)
        job = self.tmp / "job.yaml"
        job.write_text("version: 1\nnum_workers: 2\ndevice: cpu\nuse_multiprocessing: yes\npin_memory: true\nmixed_precision: false\nsam2_batch: 7\n"
                       "curate: {tasks: [detect]}\ndetect: {batch_size: 3, use_fp16: no}\n"
                       "faces: {arcface_batch: 64, face_detection_batch: 8, num_workers: 2}\npose: {mediapipe_batch: 16}\n")
        said = run("config", "-c", job).stdout
        for line in ("batch_size: 3", "sam2_batch: 7", "num_workers: 2", "fp16: no", "precision: fp32", "device: cpu"):
            self.assertIn(line, said)
        run("curate", job, "-q", self.inputs, "-o", self.tmp / "out")
        first = self.results()
        run("curate", job, "-q", self.inputs, "-o", self.tmp / "out", "--batch", "2")  # changes no result, so it is taken
        self.curate(self.inputs, "--batch", "1", out="one")
        self.assertEqual(first, self.results("one"))
        job.write_text("version: 1\nclip_batch: 4\nclip_batches: 4\n")
        self.assertIn("clip_batches is not known", run("config", "-c", job, check=False).stderr)

    def test_conditions_and_filter(self):
        clip(self.inputs / "face.mp4", 6)
        ffmpeg("-f", "lavfi", "-i", "color=gray:320x240:d=0.2", self.inputs / "grey.mp4")
        job = self.tmp / "job.yaml"
        job.write_text("version: 1\ncurate:\n  tasks: [pose, detect]\n  keep: detect.score > 0.5 and width == 320\n"
                       "pose:\n  when: detect >= 1\n")
        run("curate", job, "-q", self.inputs, "-o", self.tmp / "out")
        got = self.results()
        self.assertEqual({x["file"][-8:]: x["pose"] is None for x in got}, {"face.mp4": False, "grey.mp4": True})
        for x in got:
            best = max((r["score"] for r in x["detect"]["regions"]), default=0)
            self.assertEqual(x["keep"], best > 0.5)
        self.assertEqual([f["kept"] for f in lines(self.tmp / "out" / "files.jsonl")], [6, 0])

    def test_inputs_and_choice_of_frames(self):
        (self.inputs / "deep" / "er").mkdir(parents=True)
        for i, at in enumerate((0, 0.5, 1, 1.5)):
            clip(self.inputs / "deep" / "er" / f"{i}.mp4", 7, at=at)
        (self.tmp / "list.txt").write_text(f"# two\n{self.inputs}/deep/er/3.mp4\n\n{self.inputs}/deep/er/[12].mp4\n")
        self.curate(self.tmp / "list.txt", "--every-nth", 3, "--max-frames", 2)
        self.assertEqual([(x["file"][-5], x["time"] > 0) for x in self.results()],
                         [(n, later) for n in "312" for later in (False, True)])
        self.curate(self.inputs, "--sample", 2, out="sample")
        self.assertEqual([f["file"][-5] for f in lines(self.tmp / "sample" / "files.jsonl")], ["0", "2"])
        self.curate(f"{self.inputs}/deep/er/0.*", "--fast-mode", out="fast")
        self.assertEqual(len(self.results("fast")), 3)

    def free_network(self, name, fixed=False):
        """Classes of a picture of any size, or of one that says so and is wrong."""
        rng = np.random.default_rng(5)
        values = {"k": rng.normal(0, 0.5, (48, 3, 5, 5)), "w": rng.normal(0, 1, (48, 4))}
        values["k"] -= values["k"].mean((2, 3), keepdims=True)  # edges, of which small pictures have more
        nodes = [helper.make_node("Conv", ["x", "k"], ["c"]), helper.make_node("Relu", ["c"], ["r"]),
                 helper.make_node("Reshape", ["x", "shape"], ["p"]) if fixed else helper.make_node("GlobalAveragePool", ["r"], ["p"]),
                 helper.make_node("Slice", ["p", "zero", "most", "one"], ["s"]) if fixed else helper.make_node("Identity", ["p"], ["s"]),
                 helper.make_node("Flatten", ["s"], ["f"]), helper.make_node("MatMul", ["f", "w"], ["y"])]
        ints = {"shape": [-1, 3 * 64 * 64], "zero": [0], "most": [48], "one": [1]}
        graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, "h", "w"])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
                                  [numpy_helper.from_array(v.astype(np.float32), k) for k, v in values.items()] +
                                  [numpy_helper.from_array(np.array(v), k) for k, v in ints.items() if fixed])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(self.tmp / f"{name}.onnx"))
        (self.tmp / f"{name}.json").write_text(json.dumps({
            "name": name, "task": "classify", "file": f"{name}.onnx", "input": {"width": 64, "height": 64, "layout": "nchw", "scale": 1 / 255},
            "outputs": [{"meaning": "classes", "activation": "softmax", "top": 4, "labels": list("abcd")}]}))
        return self.tmp / f"{name}.onnx"

    def test_fast_mode_gives_networks_smaller_pictures(self):
        """Those that take them, as ONNX Runtime's package says of such pictures; said once, though the inputs differ in size."""
        for i, size in enumerate((256, 128, 64)):
            tiles = np.random.default_rng(i).integers(0, 256, (8, 8, 3), np.uint8)
            cv2.imwrite(str(self.inputs / f"{i}.png"), np.kron(tiles, np.ones((size // 8, size // 8, 1), np.uint8)))
        free, fixed = self.free_network("free"), self.free_network("fixed", fixed=True)
        session = onnxruntime.InferenceSession(str(free), providers=["CPUExecutionProvider"])

        def want(size):
            y = [session.run(None, {"x": cv2.resize(cv2.imread(str(f)), (size, size), interpolation=cv2.INTER_AREA)[None, :, :, ::-1].transpose(0, 3, 1, 2)
                                    .astype(np.float32) / 255})[0][0] for f in sorted(self.inputs.iterdir())]
            return np.exp(y) / np.exp(y).sum(1, keepdims=True)

        def got(model, out, *args):
            p = run("curate", "--tasks", "classify,detect", "--classify.model", model, "-o", self.tmp / out, self.inputs, *args)
            values = [x["classify"]["regions"][0]["values"] for x in self.results(out)]
            return np.array([[v[k] for k in "abcd"] for v in values]), p.stderr
        whole, said = got(free, "whole")
        self.assertNotIn("fast-mode", said)
        np.testing.assert_allclose(whole, want(64), atol=0.005)
        fast, said = got(free, "fast", "--fast-mode")
        np.testing.assert_allclose(fast, want(32), atol=0.005)
        self.assertGreater(np.abs(want(32) - want(64)).max(), 0.02)
        self.assertEqual(said.count("--fast-mode: model free sees pictures of 32x32, not of 64x64"), 1)
        self.assertEqual(said.count("--fast-mode: model face takes pictures of 128x128 only"), 1)
        found, again = got(free, "auto", "--fast-mode", "--batch", "auto")
        np.testing.assert_allclose(found, fast, atol=1e-5)
        for line in said.splitlines():
            if "--fast-mode" in line:
                self.assertEqual(again.count(line), 1, line)
        whole, _ = got(fixed, "fixed")
        fast, said = got(fixed, "fixed-fast", "--fast-mode")
        np.testing.assert_array_equal(fast, whole)
        self.assertIn("--fast-mode: model fixed takes pictures of 64x64 only", said)

    def test_a_failing_input_is_listed(self):
        clip(self.inputs / "a.mp4", 4)
        clip(self.inputs / "z.mp4", 4, at=1)
        (self.inputs / "cut.mp4").write_bytes((self.inputs / "a.mp4").read_bytes()[:700])
        (self.inputs / "empty.png").touch()
        shutil.copy(self.inputs / "a.mp4", self.inputs / "b.mp4")
        p = self.curate(self.inputs, check=False)
        self.assertEqual(p.returncode, 75)
        failed = lines(self.tmp / "out" / "failed.jsonl")
        self.assertEqual([f["file"].rsplit("/")[-1] for f in failed], ["cut.mp4", "empty.png"])
        self.assertIn("empty", failed[1]["why"])
        files = lines(self.tmp / "out" / "files.jsonl")
        self.assertEqual([f.get("same_as", "")[-5:] for f in files], ["", "a.mp4", ""])
        clip(self.inputs / "cut.mp4", 3, at=2)  # mended; only that is read again
        (self.inputs / "empty.png").unlink()
        p = self.curate(self.inputs, "--json")
        self.assertEqual({k: json.loads(p.stdout)[k] for k in ("done", "before", "failed", "decoded")},
                         {"done": 1, "before": 3, "failed": 0, "decoded": 3})
        self.assertFalse((self.tmp / "out" / "failed.jsonl").exists())

    def test_killed_at_any_time_it_goes_on(self):
        for i in range(10):
            clip(self.inputs / f"{i}.mp4", 12 + i, at=i / 8)
        shutil.copy(self.inputs / "3.mp4", self.inputs / "copy.mp4")
        self.curate(self.inputs, out="whole", timeout=600)
        kills, rng = 0, random.Random(3)
        for _ in range(20):  # a quick machine ends before there were many: once more from the beginning
            kills += self.killed(rng, 20 - kills)
            for name in ("results.jsonl", "files.jsonl", "job.json"):
                self.assertEqual((self.tmp / "out" / name).read_bytes(), (self.tmp / "whole" / name).read_bytes(), name)
            if kills >= 20:
                break
            shutil.rmtree(self.tmp / "out")
        self.assertGreaterEqual(kills, 20)

    def all_inputs_job(self):
        """Inputs with two people, and a job with all files about all inputs together."""
        for name, at in (("a.mp4", 0), ("c.mp4", 1)):
            clip(self.inputs / name, 3, at=at, size="640x480")
        picture = cv2.imread(str(DEPS / "media" / "astronaut.png"))[:, ::-1, ::-1]  # the clip's face, which counts as another one now
        for name, p in (("b.png", picture), ("d.png", (picture * 0.9 + 9).astype(np.uint8))):
            cv2.imwrite(str(self.inputs / name), p)
        ffmpeg("-f", "lavfi", "-i", "color=gray:320x240", "-frames:v", "2", self.inputs / "e.mkv")
        face_network(self.tmp)
        clip_networks.make(self.tmp, self.tmp / "words.txt", link=False)  # no text is read
        self.job = self.tmp / "job.yaml"
        self.job.write_text("version: 1\ncurate: {tasks: [faces, categorize, quality, pose]}\n"
                            f"faces: {{embed: {self.tmp}/embed.onnx, blur: 1, people: people, names: names.csv}}\n"
                            f"categorize: {{model: {self.tmp}/clip.onnx, embeddings: all.npy}}\n"
                            "quality: {report: report.json}\npose: {bvh: bvh}\n")

    def all_inputs(self, where, *args, **kw):
        """Runs the job in a folder; returns the files there that are about all inputs."""
        (self.tmp / where).mkdir(exist_ok=True)
        run("curate", self.job, "-q", *args, cwd=self.tmp / where, **kw)
        return {n: b for n, b in files_of(self.tmp / where).items() if n.split("/")[0] in ("people", "names.csv", "all.npy", "all.jsonl", "report.json", "bvh")}

    def test_files_about_all_inputs(self):
        """They are those of the tasks alone."""
        self.all_inputs_job()
        inputs, alone = sorted(self.inputs.iterdir()), self.tmp / "alone"
        alone.mkdir()
        for task, args in (("faces", ("--embed", self.tmp / "embed.onnx", "--face-blur", 1, "--people", "people", "--names-file", "names.csv")),
                           ("categorize", ("--model", self.tmp / "clip.onnx", "--embeddings", "all.npy")),
                           ("quality", ("--quality-report", "report.json")), ("pose", ("--bvh", "bvh"))):
            run(task, "-q", *inputs, "-o", f"{self.tmp}/lines/", "-f", "json", *args, cwd=alone)
        want = files_of(alone)
        self.assertTrue({"people/person001/montage.png", "people/person002/b.png", "names.csv", "all.npy", "all.jsonl", "report.json"} <= set(want), want.keys())
        self.assertTrue(any(n.startswith("bvh/") for n in want))
        got = self.all_inputs("whole", self.inputs, "-o", "found", "--to", "csv,page,folders")
        self.assertEqual(got.keys(), want.keys())
        self.assertEqual(got, want)
        # Rows of forms have the people as labels.
        person = {(r["input"], r["frame"], r["track"]): r["person"] for r in csv.DictReader((self.tmp / "whole/people/faces.csv").read_text().splitlines())}
        rows = [r for r in csv.DictReader((self.tmp / "whole/found/regions.csv").read_text().splitlines()) if r["task"] == "faces"]
        self.assertEqual({(r["file"], r["frame"], r["track"]): r["label"] for r in rows}, person)
        self.assertIn("faces: person002", (self.tmp / "whole/found/page.html").read_text())
        self.assertTrue((self.tmp / "whole/found/folders/faces/person002").is_dir())
        # The vectors serve searches.
        hits = json.loads(run("categorize", "--model", self.tmp / "clip.onnx", "--embeddings", "all.npy", "--like", self.inputs / "b.png", "--hits", 1,
                              "--json", cwd=self.tmp / "whole").stdout)
        self.assertIn(str(self.inputs / "b.png"), json.dumps(hits))

    def test_files_about_all_inputs_of_several_runs(self):
        """Shards, kills and inputs that come later change none."""
        self.all_inputs_job()
        inputs, want = sorted(self.inputs.iterdir()), self.all_inputs("whole", self.inputs, "-o", "found")
        # In shards, and from the merged folder.
        for k in (1, 2):
            self.assertEqual(self.all_inputs("shards", self.inputs, "--shard", f"{k}/2", "-o", f"part{k}"), {})
        run("curate", "merge", "-q", "part2", "part1", "-o", "found", cwd=self.tmp / "shards")
        self.same_results("shards", "whole")
        self.assertEqual(self.all_inputs("shards", self.inputs, "-o", "found"), want)
        # Killed between inputs and at the end; then as if before the file of names was written.
        for done in (1, 3, 99):
            self.killed_job(done)
        self.assertEqual(self.all_inputs("killed", self.inputs, "-o", "found"), want)
        self.same_results("killed", "whole")
        (self.tmp / "killed" / "names.csv").unlink()
        self.assertEqual(self.all_inputs("killed", self.inputs, "-o", "found"), want)
        notes = self.tmp / "killed" / "found" / "notes.bin"
        notes.write_bytes(notes.read_bytes()[:-9] + b"x" * 9)
        p = run("curate", self.job, "-q", self.inputs, "-o", "found", cwd=self.tmp / "killed", check=False)
        self.assertIn("notes.bin: is damaged", p.stderr)
        # With inputs that come later; names that were edited stay.
        self.all_inputs("grown", *inputs[:3], "-o", "found")
        grown = self.all_inputs("grown", self.inputs, "-o", "found")
        rows = lambda text: sorted(r[0] + "," + r[1] for r in csv.reader(text.decode().splitlines()))
        self.assertEqual(rows(grown["names.csv"]), rows(want["names.csv"]))
        self.assertEqual({n: b for n, b in grown.items() if n != "names.csv"}, {n: b for n, b in want.items() if n != "names.csv"})
        names = self.tmp / "grown" / "names.csv"
        names.write_text(names.read_text().replace("person001", "Ada"))
        grown = self.all_inputs("grown", self.inputs, "-o", "found")
        self.assertEqual({n.split("/")[1] for n in grown if n.startswith("people/")}, {"faces.csv", "Ada", "person002"})
        # Again, nothing is learnt twice; with another setting of the clusters nothing is decoded.
        self.assertEqual(self.all_inputs("whole", self.inputs, "-o", "found"), want)
        again = self.all_inputs("whole", self.inputs, "-o", "found", "--faces.cluster_size", "3")
        self.assertEqual(again["names.csv"], want["names.csv"])
        # What is there and of no earlier run of the folder is not touched, nor are notes of another run.
        (self.tmp / "mine" / "people").mkdir(parents=True)
        (self.tmp / "mine" / "people" / "faces.csv").write_text("mine")
        p = run("curate", self.job, "-q", self.inputs, "-o", "found", cwd=self.tmp / "mine", check=False)
        self.assertIn("people/faces.csv already exists", p.stderr)
        self.job.write_text(self.job.read_text().replace("report: report.json", ""))
        p = run("curate", self.job, "-q", self.inputs, "-o", "found", cwd=self.tmp / "whole", check=False)
        rows = re.search(r"was begun with other tasks that write files about all inputs \((.*?)\);", p.stderr)
        self.assertEqual(sorted(rows[1].split(", ")), ["categorize.embeddings", "faces.names", "faces.people", "pose.bvh", "quality.report"])

    def same_results(self, a, b):
        for name in ("results.jsonl", "files.jsonl", "notes.bin", "job.json"):
            self.assertEqual((self.tmp / a / "found" / name).read_bytes(), (self.tmp / b / "found" / name).read_bytes(), name)

    def killed_job(self, done):
        """Kills the job once so many inputs are done, or once it writes what is about all of them."""
        (self.tmp / "killed").mkdir(exist_ok=True)
        p = subprocess.Popen([TACHY, "curate", self.job, "-q", self.inputs, "-o", "found"], cwd=self.tmp / "killed")
        files, written = (self.tmp / "killed" / "found" / n for n in ("files.jsonl", "written.json"))
        while p.poll() is None and not written.exists() and not (files.exists() and files.read_bytes().count(b"\n") >= done):
            time.sleep(0.002)
        p.kill()
        p.wait()

    def killed(self, rng, most):
        """Runs until one comes to its end, each killed at some moment, up to `most` of them; returns how many were."""
        kills, ended = 0, False
        while not ended:  # each run does a little more, or at least begins
            p = subprocess.Popen([TACHY, "curate", "--tasks", "detect", "-q", "-o", self.tmp / "out", self.inputs])
            files = self.tmp / "out" / "files.jsonl"
            done = files.read_bytes().count(b"\n") if files.exists() else 0
            more = rng.choice((0, 0, 1)) if kills < most else 99
            while p.poll() is None and (not files.exists() or files.read_bytes().count(b"\n") < done + more):
                time.sleep(0.002)
            time.sleep(rng.random() * 0.05 if more < 99 else 0)
            p.kill() if more < 99 else p.wait()
            ended = p.wait() == 0
            kills += p.returncode == -signal.SIGKILL
        return kills

    def test_further_forms(self):
        clip(self.inputs / "a, b.mp4", 4)
        ffmpeg("-i", self.inputs / "a, b.mp4", "-frames:v", "1", self.inputs / "c.png")
        ffmpeg("-f", "lavfi", "-i", "color=gray:320x240:d=0.08", self.inputs / "grey.mp4")
        out = self.tmp / "out"
        self.curate(self.inputs, "--keep", "detect", "--to", "csv,coco,yolo,folders,captions", "--detect.model", "face",
                    tasks="detect,pose,quality")
        kept = [x for x in self.results() if x["keep"]]
        self.assertEqual(len(kept), 5)
        for x in kept:  # the picture is the frame
            picture = cv2.imread(str(out / x["picture"]))
            self.assertEqual(picture.shape[:2], (x["height"], x["width"]))
        self.assertEqual((out / kept[4]["picture"]).read_bytes(), (self.inputs / "c.png").read_bytes())
        frame = cv2.VideoCapture(str(self.inputs / "a, b.mp4")).read()[1]
        self.assertLess(np.abs(cv2.imread(str(out / kept[0]["picture"])).astype(int) - frame).mean(), 4)

        frames = list(csv.DictReader((out / "frames.csv").read_text().splitlines()))
        self.assertEqual([(r["file"], r["frame"], r["detect.count"]) for r in frames],
                         [(x["file"], str(x["frame"]), str(len(x["detect"]["regions"]))) for x in kept])
        self.assertEqual([float(r["quality.blur"]) for r in frames], [x["quality"]["values"]["blur"] for x in kept])
        flat = [(x, task, r) for x in kept for task in ("detect", "pose") for r in x[task]["regions"]]
        regions = list(csv.DictReader((out / "regions.csv").read_text().splitlines()))
        self.assertEqual([(r["file"], r["task"], float(r["score"]), [float(r[k]) for k in "xywh"], json.loads(r["points"]))
                          for r in regions],
                         [(x["file"], task, r["score"], r["box"], r["points"]) for x, task, r in flat])

        with contextlib.redirect_stdout(io.StringIO()):
            coco = COCO(str(out / "coco.json"))
        self.assertEqual((len(coco.imgs), len(coco.anns)), (5, len(flat)))
        for (x, task, r), a in zip(flat, coco.loadAnns(sorted(coco.anns))):
            self.assertEqual(coco.imgs[a["image_id"]]["file_name"], x["picture"].split("/")[1])
            self.assertEqual(coco.cats[a["category_id"]]["name"], r.get("label", task))
            if not r.get("angle"):
                cx, cy, w, h = r["box"]
                np.testing.assert_allclose(a["bbox"], [cx - w / 2, cy - h / 2, w, h], atol=1e-3)

        names = [line.split(": ")[1].strip('"') for line in (out / "data.yaml").read_text().splitlines() if line[:2] == "  "]
        for x in kept:
            label = out / "labels" / (x["picture"][7:].rsplit(".", 1)[0] + ".txt")
            rows = [line.split() for line in label.read_text().splitlines()]
            want = [r.get("label", task) for y, task, r in flat if y is x]
            self.assertEqual([names[int(row[0])] for row in rows], want)
            self.assertTrue(all(0 <= float(v) <= 1 for row in rows for v in row[1:]))
            self.assertIn("face", (out / x["picture"]).with_suffix(".txt").read_text())
            self.assertTrue((out / "folders" / "detect" / "face" / x["picture"][7:]).samefile(out / x["picture"]))

    def test_webdataset(self):
        clip(self.inputs / "a.mp4", 3)
        self.curate(self.inputs, "--to", "webdataset")
        with tarfile.open(self.tmp / "out" / "webdataset" / "000000.tar") as tar:
            names = tar.getnames()
            self.assertEqual([n.rsplit(".", 1)[1] for n in names], ["jpg", "json"] * 3)
            for x, jpg, text in zip(self.results(), names[::2], names[1::2]):
                self.assertEqual(jpg.rsplit(".", 1)[0], text.rsplit(".", 1)[0])
                self.assertEqual(tar.extractfile(jpg).read(), (self.tmp / "out" / x["picture"]).read_bytes())
                self.assertEqual(json.load(tar.extractfile(text)), x)

    def test_shards_are_merged_to_the_whole(self):
        for i in range(7):
            clip(self.inputs / f"{i}.mp4", 2 + i, at=i / 8, size="160x120")
        shutil.copy(self.inputs / "3.mp4", self.inputs / "copy.mp4")
        self.curate(self.inputs, "--to", "captions", out="whole")
        seen = 0
        for k in (1, 2, 3):
            p = self.curate(self.inputs, "--to", "captions", "--shard", f"{k}/3", "--json", out=f"part{k}")
            summary = json.loads(p.stdout)
            self.assertEqual(summary["done"] + summary["same"] + summary["other"], 8)
            seen += summary["done"] + summary["same"]
        self.assertEqual(seen, 8)
        parts = [self.tmp / f"part{k}" for k in (3, 1, 2)]
        run("curate", "merge", *parts, "-o", self.tmp / "out")
        for name in ("results.jsonl", "files.jsonl", "job.json"):
            self.assertEqual((self.tmp / "out" / name).read_bytes(), (self.tmp / "whole" / name).read_bytes(), name)
        p = self.curate(self.inputs, "--to", "csv,captions", "--json")  # nothing is decoded again
        self.assertEqual(json.loads(p.stdout)["decoded"], 0)
        self.assertEqual(sorted(f.name for f in (self.tmp / "out" / "images").iterdir()),
                         sorted(f.name for f in (self.tmp / "whole" / "images").iterdir()))
        short = next(p for p in parts if b'"number":7' in (p / "files.jsonl").read_bytes())  # with the last input
        p, before = run("curate", "merge", short, "-o", self.tmp / "some"), (short / "files.jsonl").read_bytes().count(b"\n")
        self.assertIn(f"{8 - before} of the first 8 inputs are in none of these folders", p.stderr)
        p = self.curate(self.inputs, "--to", "captions", "--json", out="some")
        self.assertEqual(json.loads(p.stdout)["before"], before)
        self.assertEqual(sorted(lines(self.tmp / "some" / "results.jsonl"), key=str), sorted(lines(self.tmp / "whole" / "results.jsonl"), key=str))
        for args, said in (((*parts, "-o", self.tmp / "out"), "exist"), ((parts[0], parts[0], "-o", self.tmp / "o2"), "same input"),
                           ((self.tmp, "-o", self.tmp / "o3"), "is no folder of results"), ((self.tmp / "none", "-o", self.tmp / "o4"), "is no folder of results"), ((parts[0],), "-o DIR")):
            p = run("curate", "merge", *args, check=False)
            self.assertNotEqual(p.returncode, 0)
            self.assertIn(said, p.stderr)

    def test_sqlite(self):
        clip(self.inputs / "a.mp4", 3)
        p = self.curate(self.inputs, "--to", "sqlite", tasks="detect,quality", check=False)
        if p.returncode == 2 and "--to sqlite: is not known" in p.stderr:
            self.skipTest("this build has no SQLite")
        self.assertEqual(p.returncode, 0, p.stderr)
        db, got = sqlite3.connect(self.tmp / "out" / "results.sqlite"), self.results()
        rows = db.execute('select frame, time, "detect.count", "quality.noise" from frames order by rowid').fetchall()
        self.assertEqual(rows, [(x["frame"], x["time"], len(x["detect"]["regions"]), x["quality"]["values"]["noise"]) for x in got])
        rows = db.execute("select frame, label, score, w from regions order by rowid").fetchall()
        self.assertEqual(rows, [(x["frame"], r["label"], r["score"], r["box"][2]) for x in got for r in x["detect"]["regions"]])
        self.assertTrue(rows)

    def test_parquet(self):
        clip(self.inputs / "a, \u00e9.mp4", 5)
        ffmpeg("-f", "lavfi", "-i", "testsrc2=320x240:d=0.12", self.inputs / "b.mp4")
        self.curate(self.inputs, "--to", "parquet", tasks="detect,pose,quality")
        got, out = self.results(), self.tmp / "out"
        frames = pyarrow.parquet.read_table(out / "frames.parquet")
        regions = pyarrow.parquet.read_table(out / "regions.parquet").to_pylist()
        for row, x in zip(frames.to_pylist(), got, strict=True):
            self.assertEqual([row[k] for k in ("file", "frame", "time", "width", "picture", "detect.count", "quality.noise")],
                             [x["file"], x["frame"], x["time"], x["width"], None, len(x["detect"]["regions"]),
                              x["quality"]["values"]["noise"]])
        flat = [(x, task, r) for x in got for task in ("detect", "pose") for r in x[task]["regions"]]
        self.assertEqual([(r["file"], r["task"], r["label"], r["score"], r["track"], json.loads(r["points"])) for r in regions],
                         [(x["file"], task, r.get("label"), r["score"], r.get("track"), r["points"]) for x, task, r in flat])
        self.assertTrue({None, "face"} <= {r["label"] for r in regions})
        meta = pyarrow.parquet.ParquetFile(out / "regions.parquet").metadata.row_group(0)
        dictionary = {meta.column(i).path_in_schema for i in range(16) if "RLE_DICTIONARY" in meta.column(i).encodings}
        self.assertTrue({"file", "task"} <= dictionary and not {"score", "points"} & dictionary, dictionary)
        db = duckdb.sql(f"select file, count(*), sum(\"quality.blur\") from '{out}/frames.parquet' group by file order by file")
        self.assertEqual([row[:2] for row in db.fetchall()], [(str(self.inputs / "a, \u00e9.mp4"), 5), (str(self.inputs / "b.mp4"), 3)])
        db = duckdb.sql(f"select task, label, score from '{out}/regions.parquet'")
        self.assertEqual(db.fetchall(), [(task, r.get("label"), r["score"]) for _, task, r in flat])

    def test_parquet_of_many_rows(self):
        """Row groups that are full, from results that were written by hand; and none at all."""
        clip(self.inputs / "a.mp4", 1)
        self.curate(self.inputs, tasks="quality")
        out = self.tmp / "out"
        one, files = self.results()[0], lines(out / "files.jsonl")
        for n in (70000, 0):
            text = "".join(json.dumps(one | {"frame": i, "width": i * i, "quality": None if i % 3 else {"values": {"v": i / 7}}}) + "\n"
                           for i in range(n))
            (out / "results.jsonl").write_text(text)
            (out / "files.jsonl").write_text(json.dumps(files[0] | {"frames": n, "kept": n, "end": len(text)}) + "\n")
            self.curate(self.inputs, "--to", "parquet", tasks="quality")
            table = pyarrow.parquet.read_table(out / "frames.parquet")
            self.assertEqual(table["frame"].to_pylist(), list(range(n)))
            self.assertEqual(table["width"].to_pylist(), [i * i for i in range(n)])
            self.assertEqual(duckdb.sql(f"select count(*) from '{out}/regions.parquet'").fetchall(), [(0,)])
            if n:
                np.testing.assert_allclose(table["quality.v"].drop_null().to_numpy(), np.arange(0, n, 3) / 7, rtol=1e-8)
                self.assertEqual(pyarrow.parquet.ParquetFile(out / "frames.parquet").num_row_groups, 2)

    @unittest.skipUnless(shutil.which("chromium"), "Chromium is not installed")
    def test_page(self):
        name = "<script>alert(1)<!-- é.mp4"
        clip(self.inputs / "a.mp4", 10)
        ffmpeg("-f", "lavfi", "-i", "testsrc2=320x240:d=0.12", self.inputs / "b.mp4")
        (self.inputs / "b.mp4").rename(self.inputs / name)
        self.curate(self.inputs, "--to", "page", tasks="detect,quality")
        got, page = self.results(), self.tmp / "out" / "page.html"
        text = page.read_text()
        self.assertNotIn("<script>alert", text)
        self.assertNotRegex(text, r"https?:|@import|url\(")
        probe = """<script>addEventListener('load', () => { const out = {}, q = s => [...document.querySelectorAll(s)];
            const files = () => q('#frames span').map(e => e.textContent);
            out.all = files().length; out.images = q('#frames img').filter(i => i.complete && i.naturalWidth).length;
            out.sections = q('#categories h3, #measures h3').map(e => e.firstChild.textContent.trim());
            const f = document.forms[0].elements, set = (k, v) => { f[k].value = v; f[k].dispatchEvent(new Event('input', {bubbles: true})); };
            set('file', 'ALERT'); out.file = files(); set('file', '');
            document.querySelector('#categories button').click(); out.face = files().length; set('category', '');
            const m = [...f.measure.options].find(o => o.text === 'quality.blur').value;
            set('measure', m); set('order', -1); out.blur = q('#frames a').map(a => a.title.split('frame ')[1].split('\\n')[0]);
            out.lowest = q('#measures .sheet')[0].querySelector('a').getAttribute('href');
            set('to', LIMIT); out.limit = files().length;
            out.loads = performance.getEntriesByType('resource').map(e => e.name).filter(n => !n.startsWith('file:'));
            document.body.dataset.out = JSON.stringify(out); });
            addEventListener('error', e => document.body.dataset.error = e.message || e.target.src, true);</script>"""
        blur = [x["quality"]["values"]["blur"] for x in got]
        limit = sorted(blur)[6]
        page.write_text(text.replace("<body>", "<body>" + probe.replace("LIMIT", str(limit + 1e-6)), 1))
        p = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom",
                            f"--user-data-dir={self.tmp}/user", page.as_uri()], capture_output=True, text=True, timeout=300)
        self.assertNotIn("CONSOLE", p.stderr)
        self.assertNotIn("data-error", p.stdout)
        out = json.loads(html.unescape(re.search(r'data-out="([^"]*)"', p.stdout)[1]))
        self.assertEqual((out["all"], out["images"], out["loads"]), (len(got), len(got), []))
        self.assertEqual(out["sections"][0], "detect: face")
        self.assertTrue({"quality.blur", "quality.noise", "detect.score"} <= set(out["sections"]), out["sections"])
        self.assertEqual(out["file"], [f"{name} \u00b7 {i}" for i in range(3)])
        self.assertEqual(out["face"], sum(bool(x["detect"]["regions"]) for x in got))
        order = sorted(range(len(got)), key=lambda i: -blur[i])
        self.assertEqual(out["blur"], [str(got[i]["frame"]) for i in order])
        self.assertEqual(out["lowest"], got[order[-1]]["picture"])
        self.assertEqual(out["limit"], sum(b <= limit + 1e-6 for b in blur))

    def test_a_task_has_its_own_settings(self):
        two = self.inputs / "two.png"
        ffmpeg(*("-i", DEPS / "media" / "astronaut.png") * 2, "-filter_complex", "hstack", two)
        job = self.tmp / "job.yaml"
        job.write_text("version: 1\npose: {max_people: 2}\n")
        self.curate(job, two, tasks="pose")
        self.curate(two, tasks="pose", out="one")
        self.assertEqual([len(self.results(out)[0]["pose"]["regions"]) for out in ("out", "one")], [2, 1])

    def test_scenes(self):
        """Pieces of known lengths, most with motion, joined."""
        parts = (("-f", "lavfi", "-i", "testsrc2=320x240:r=25"), ("-f", "lavfi", "-i", "mandelbrot=320x240:r=25"),
                 ("-i", DEPS / "media" / "sample.mp4"), ("-f", "lavfi", "-i", "smptehdbars=320x240:r=25"),
                 ("-ss", "1", "-i", DEPS / "media" / "sample.mp4"))
        starts, at = [], 0
        for i, (part, n) in enumerate(zip(parts, (13, 20, 15, 9, 12))):
            ffmpeg(*part, "-frames:v", n, "-an", "-vf", "scale=320:240,setsar=1,format=yuv420p,setpts=N/25/TB", "-r", "25", "-c:v", "ffv1",
                   self.tmp / f"{i}.mkv")
            starts.append(at)
            at += n
        (self.tmp / "list").write_text("".join(f"file '{self.tmp}/{i}.mkv'\n" for i in range(5)))
        ffmpeg("-f", "concat", "-safe", "0", "-i", self.tmp / "list", "-c", "copy", self.inputs / "joined.mkv")
        ffmpeg("-i", DEPS / "media" / "sample.mp4", "-frames:v", 30, "-an", self.inputs / "one.mp4")
        self.curate(self.inputs, "--keep", "cut", "--quality.when", "scene >= 2", tasks="quality")
        joined = [x for x in self.results() if x["file"].endswith("joined.mkv")]
        self.assertEqual([x["frame"] for x in joined if x["cut"]], starts)
        self.assertEqual([x["scene"] for x in joined], [sum(x["frame"] >= s for s in starts) - 1 for x in joined])
        self.assertEqual([x["frame"] for x in joined if x["quality"]], list(range(starts[2], at)))
        self.assertEqual([x["cut"] for x in self.results() if x["file"].endswith("one.mp4")], [True] + 29 * [False])
        self.assertEqual([f["kept"] for f in lines(self.tmp / "out" / "files.jsonl")], [5, 1])

    def test_duplicates(self):
        picture = cv2.imread(str(DEPS / "media" / "astronaut.png"))
        height, width = picture.shape[:2]
        pictures = {"a.png": picture, "b.jpg": cv2.resize(picture, (width // 2, height // 2), interpolation=cv2.INTER_AREA),
                    "c.png": picture[:, ::-1], "d.png": picture, "e.jpg": picture[:, ::-1],
                    "f.png": picture[: height // 2, : width // 2]}
        for name, p in pictures.items():
            quality = [cv2.IMWRITE_PNG_COMPRESSION, 1 if name == "d.png" else 6] if name[2:] == "png" else [cv2.IMWRITE_JPEG_QUALITY, 60]
            cv2.imwrite(str(self.inputs / name), p, quality)
        self.assertNotEqual((self.inputs / "a.png").read_bytes(), (self.inputs / "d.png").read_bytes())
        p = self.curate(self.inputs, "--keep", "not duplicate", "--json", tasks="quality")
        got = self.results()
        self.assertEqual([x["duplicate"] for x in got], [0, 1, 0, 2, 1, 0])
        self.assertEqual([x["keep"] for x in got], [not x["duplicate"] for x in got])
        of = {"b.jpg": "a.png", "d.png": "a.png", "e.jpg": "c.png"}  # each names the frame that it duplicates
        named = lambda out: {x["file"].split("/")[-1]: (x["duplicate_of"]["file"].split("/")[-1], x["duplicate_of"]["frame"])
                             for x in self.results(out) if "duplicate_of" in x}
        self.assertEqual(named("out"), {k: (v, 0) for k, v in of.items()})
        report = lines(self.tmp / "out" / "duplicates.jsonl")
        self.assertEqual([(r["file"], r["frame"], r["duplicate"], r["of"]) for r in report],
                         [(x["file"], x["frame"], x["duplicate"], x["duplicate_of"]) for x in got if x["duplicate"]])
        self.assertEqual({k: json.loads(p.stdout)[k] for k in ("kept", "duplicates", "near_duplicates")},
                         {"kept": 3, "duplicates": 1, "near_duplicates": 2})
        # The hash of the low cosine coefficients, by OpenCV: areas and the transform are the same up to rounding.
        for x in got:
            grey = cv2.cvtColor(pictures[x["file"].split("/")[-1]], cv2.COLOR_BGR2GRAY)
            low = cv2.dct(cv2.resize(grey, (32, 32), interpolation=cv2.INTER_AREA).astype(np.float32))[:8, :8].ravel()
            own = np.array([int(b) for b in f"{int(x['hash'], 16):064b}"])
            want = low > np.median(low)
            self.assertLessEqual(min((own != want).sum(), (own[::-1] != want).sum()), 6)
        # In two runs as in one; an input that failed is no frame's duplicate when it is tried again.
        first = [self.inputs / n for n in ("a.png", "b.jpg", "c.png")]
        (self.inputs / "cut.mkv").touch()
        ffmpeg("-i", self.inputs / "f.png", "-c:v", "ffv1", self.tmp / "whole.mkv")
        self.curate(*first, "--keep", "not duplicate", out="two", tasks="quality")
        p = self.curate(self.inputs, "--keep", "not duplicate", out="two", tasks="quality", check=False)
        self.assertEqual(p.returncode, 75)
        self.assertEqual([x["duplicate"] for x in self.results("two")], [0, 1, 0, 2, 1, 0])
        self.assertEqual(named("two"), named("out"))
        p = self.curate(self.inputs, "--keep", "not duplicate", "--shard", "1/2", out="part", check=False)
        self.assertEqual((p.returncode, "leave out --shard" in p.stderr), (2, True), p.stderr)
        shutil.copy(self.tmp / "whole.mkv", self.inputs / "cut.mkv")
        self.curate(self.inputs, "--keep", "not duplicate", out="two", tasks="quality")
        again = self.results("two")
        self.assertEqual([x["duplicate"] > 0 for x in again], [False, True, False, True, True, False, True])
        bits = [bin(int(x["hash"], 16) ^ int(got[0]["hash"], 16)).count("1") for x in got]
        for near, want in ((bits[2], 1), (bits[2] - 1, 0)):  # c.png next to a.png
            self.curate(self.inputs / "a.png", self.inputs / "c.png", "--near", near, out=f"near{near}", tasks="quality")
            self.assertEqual([x["duplicate"] for x in self.results(f"near{near}")], [0, want])

    def test_profiles_change_no_result(self):
        clip(self.inputs / "a.mp4", 8)
        self.curate(self.inputs, tasks="detect,pose")
        for name in ("high-throughput", "memory-constrained", "cpu-only"):
            self.curate(self.inputs, "--profile", name, out=name, tasks="detect,pose")
            for x, y in zip(self.results(name), self.results(), strict=True):
                self.assertEqual([len(x[t]["regions"]) for t in ("detect", "pose")], [len(y[t]["regions"]) for t in ("detect", "pose")])
                for t in ("detect", "pose"):
                    for r, s in zip(x[t]["regions"], y[t]["regions"]):
                        np.testing.assert_allclose(r["box"], s["box"], atol=0.05)

    def test_what_is_wrong_is_said(self):
        clip(self.inputs / "a.mp4", 2)
        for args, said, status in (
                (("--keep", "blur < and"), 'keep: column 8: a name, number or text is expected, not "and"', 2),
                (("--keep", "pose.score > 1"), "curate.tasks has no task pose", 2),
                (("--tasks", "detect"), "detect is there twice", 2),
                (("--tasks", "animate"), "animate makes pictures", 1),
                (("--pose.max_people", "0"), "1 to 32", 2),
                (("--max-people", "2"), "takes --max-faces as --tracking.max_num_faces", 2),
                (("--tasks", "avsync", "--avsync.fix", "x/"), "run tachy avsync with it", 2),
                (("--tasks", "categorize", "--categorize.like", "n.png"), "run tachy categorize with it", 2),
                (("--detect.when", "detect > 1"), "is not known yet", 2),
                (("--to", "xml"), "--to xml: is not known; there are: csv, parquet", 2),
                (("--shard", "4/3"), "is no K/N", 2),
                (("-c:v", "libx264"), "does not belong to tachy curate", 2)):
            p = self.curate(self.inputs, *args, check=False)
            self.assertEqual((p.returncode, said in p.stderr), (status, True), p.stderr)
        (self.tmp / "own").mkdir()
        (self.tmp / "own" / "results.jsonl").write_text("mine")
        p = self.curate(self.inputs, out="own", check=False)
        self.assertIn("own/results.jsonl already exists", p.stderr)
        self.assertEqual((p.returncode, (self.tmp / "own" / "results.jsonl").read_text()), (1, "mine"))
        self.curate(self.inputs)
        p = self.curate(self.inputs, "--keep", "detect", check=False)
        self.assertIn("holds results of other settings (curate.keep)", p.stderr)
        p = self.curate(self.inputs, "--to", "coco", check=False)
        self.assertIn("has no pictures", p.stderr)
        p = self.curate(self.inputs, "--keep", "blurr < 1", "-y", check=False)
        p = run("curate", "--tasks", "detect", "--keep", "blurr < 1", "-y", "-o", self.tmp / "out", self.inputs)
        self.assertIn("blurr, which a condition or keep names, had no value", p.stderr)


if __name__ == "__main__":
    common.main("Curate.test_conditions_and_filter", "Curate.test_files_about_all_inputs", "Curate.test_further_forms")
