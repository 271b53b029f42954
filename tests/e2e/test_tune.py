"""tachy tune: the guard refuses planted settings that are fast and wrong, takes frame skipping where nothing moves, and
keeps what it found; failures, limits and Ctrl-C."""
import json
import os
import pathlib
import signal
import subprocess
import threading
import unittest

import numpy as np
import onnx

from common import DEPS, SANITIZER, TACHY, Case, ffmpeg, main, models, run

SKIP = "performance.frame_skip_distance"
# One core, with little work besides the model, so that a cheaper model is much faster.
TASK = ("segment", "--workers", "1", "--engine-threads", "1", "--mode", "mask")
# Its model takes as long on a busy machine, so that a run without it is much faster there too.
SLEEPS = (*TASK, "--provider", "null", "--provider-option", "sleep_us=20000")


def read_words(path):
    """A process's command; "": it has ended, or is another user's."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


@unittest.skipIf(SANITIZER, "what is faster is another thing under sanitizers")
class Tune(Case):
    @classmethod
    def setUpClass(cls):
        models("selfie", "selfie-landscape")

    def setUp(self):
        super().setUp()
        self.env = {**os.environ, "XDG_CACHE_HOME": str(self.tmp / "cache")}

    def clip(self, name, filters, frames=64):
        out = self.tmp / name
        ffmpeg("-stream_loop", frames // 64, "-i", DEPS / "media" / "sample.mp4", "-vf", filters + ",scale=320:180", "-frames:v", frames, "-an", "-c:v",
               "libx264", "-preset", "ultrafast", "-qp", 0, out)
        return out

    def moving(self, frames=64):
        return self.clip("moving.mp4", "setpts=PTS/2", frames)

    def still(self):
        return self.clip("still.mp4", "loop=100:1:0")

    def tune(self, *options, clip, task=TASK, check=True, env=None):
        """The result as JSON, with the finals that were not refused under 'left'."""
        focus = ("--focus", "off") if task[0] == "segment" else ()
        p = run("tune", "--trial-seconds", "0.2", "--json", *options, *task, *focus, clip, "-f", "null", "-",
                env=env or self.env, check=check)
        r = json.loads(p.stdout)
        r["left"] = [f for f in r["finals"] if not f["why"]]
        return r

    def test_fast_and_wrong_is_refused(self):
        r = self.tune("--only", f"{SKIP}=0.5|1,model.name", clip=self.moving())
        gains = {(t["key"], t["value"]): t for t in r["tried"]}
        for value in ("0.5", "1"):
            # On a busy machine one short trial may look slow; then nothing is left to refuse.
            self.assertRegex(gains[SKIP, value]["why"], "^(refused: mean IoU 0|loses)")
        for f in r["left"]:
            self.assertEqual(f["settings"], {})
        self.assertEqual(r["best"], 0)

    def runs_of_the_model(self, clip, *words):
        """The model's runs and the frames."""
        s = json.loads(run(*TASK, "--focus", "off", *words, clip, "-f", "null", "-", "--json").stdout)
        return s["models"][0]["runs"], s["frames"]

    def test_planted_setting_is_twice_as_fast(self):
        """What the guard refused above would have won without it: the model runs once."""
        clip = self.moving(128)
        r = self.tune("--quality", "0", "--only", f"{SKIP}=1", clip=clip, task=SLEEPS)
        self.assertEqual(r["finals"][r["best"]]["settings"], {SKIP: "1"})
        for f in self.tune("--quality", "0", "--only", f"{SKIP}=1", clip=clip)["finals"]: # by a model that looks
            self.assertTrue(not f["settings"] or f["quality"] < 0.99, f)
        few = "--max-frames", "64"
        self.assertEqual((self.runs_of_the_model(clip, *few), self.runs_of_the_model(clip, *few, f"--{SKIP}=1")), ((64, 64), (1, 64)))

    def test_frame_skip_on_a_still_clip_and_the_file_of_it(self):
        clip, config = self.still(), self.tmp / "fast.yaml"
        args = ("--only", "performance.frame_skip_enabled", "--save-config", config)
        for f in self.tune(*args[:2], clip=clip)["finals"]:
            self.assertGreaterEqual(f["quality"], 0.99)
        r = self.tune(*args, clip=clip, task=SLEEPS)
        self.assertEqual(r["finals"][r["best"]]["settings"], {"performance.frame_skip_enabled": "yes"})
        runs, frames = self.runs_of_the_model(clip, "-c", config)
        self.assertLess(runs, frames / 4)

        # The second time nothing is measured: the result is the same in each figure.
        again = self.tune(*args, "-y", clip=clip, task=SLEEPS)
        self.assertEqual(again, r)
        other = self.tune(*args, "-y", "--quality", "0.5", clip=clip, task=SLEEPS)
        self.assertNotEqual(other["class"], r["class"])

        # In a file a distance does not turn it on; the tuner's file does.
        self.tune("--only", f"{SKIP}=0.02", "--save-config", config, "-y", clip=clip, task=SLEEPS)
        runs, frames = self.runs_of_the_model(clip, "-c", config)
        self.assertLess(runs, frames / 4)

        # Another machine gets it.
        env = {**self.env, "XDG_CACHE_HOME": str(self.tmp / "other")}
        stored = self.tmp / "stored.json"
        run("tune", "--export", stored, env=self.env)
        self.assertEqual(run("tune", "--list", env=env).stdout, "")
        run("tune", "--import", stored, env=env)
        self.assertEqual(run("tune", "--list", env=env).stdout, run("tune", "--list", env=self.env).stdout)
        self.assertEqual(self.tune(*args, "-y", clip=clip, task=SLEEPS, env=env), r)

    def counter(self, value):
        """The CPU's energy counter that tachy reads, set to `value` microjoules at once."""
        zone = self.tmp / "root/sys/class/powercap/intel-rapl:0"
        if not zone.exists():
            zone.mkdir(parents=True)
            (zone / "name").write_text("package-0\n")
            (zone / "max_energy_range_uj").write_text("262143328850\n")
        (zone / "new").write_text(f"{value}\n")
        (zone / "new").replace(zone / "energy_uj")
        return {**self.env, "TACHY_SYSROOT": str(self.tmp / "root")}

    def test_energy_of_a_run_by_a_counter_that_goes_round(self):
        env, summary = self.counter(262143000000), self.tmp / "summary.json"
        with subprocess.Popen([TACHY, "segment", "null:64x64@30,frames=3000", "--provider", "null", "--mode", "json", "-f", "json", "-o", "-",
                               f"--json={summary}"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
            p.stdout.readline()  # it has begun, and waits until somebody reads on
            self.counter(71150)
            self.assertEqual(len(p.stdout.readlines()), 2999)
            self.assertIn("Energy: 0.000133 J per frame", p.stderr.read().decode())
        s = json.loads(summary.read_text())
        self.assertEqual(s["energy"], {"joules": 0.4, "joules_per_frame": 0.000133, "cpu": True, "gpus": False})
        self.assertIn("| energy per frame | 0.00013", run("report", "--format", "md", summary).stdout)
        self.assertRegex(run("compare", summary, summary, check=False).stdout, r"energy per frame \(J\) +0.000133")

    def test_least_energy_is_not_the_fastest(self):
        """Frame skipping is faster here, and by this counter takes a hundred times the energy in each run."""
        env, key, clip = self.counter(0), "performance.frame_skip_enabled", self.still()
        zone = self.tmp / "root/sys/class/powercap/intel-rapl:0"
        ended = threading.Event()

        def next_pipe():
            os.mkfifo(zone / "new")
            (zone / "new").replace(zone / "energy_uj")

        def count():
            """A pipe for each reading: its reader is alive until it has an answer."""
            uj = 0
            while True:
                with (zone / "energy_uj").open("w") as f:
                    if ended.is_set():
                        return
                    next_pipe()
                    hungry = any(f"{key}=yes" in read_words(p) for p in pathlib.Path("/proc").glob("[0-9]*/cmdline"))
                    uj += 100000000 if hungry else 1000000
                    f.write(f"{uj}\n")

        next_pipe()
        thread = threading.Thread(target=count)
        thread.start()
        try:
            r = self.tune("--objective", "energy", "--only", key, clip=clip, task=SLEEPS, env=env)
        finally:
            ended.set()
            (zone / "energy_uj").read_text()
            thread.join()
        self.assertEqual(r["finals"][r["best"]]["settings"], {}, r)
        self.assertRegex(r["tried"][0]["why"], "^loses")
        self.assertGreater(r["finals"][0]["joules_per_frame"], 0)
        (self.tmp / "root/sys/class/powercap/intel-rapl:0/energy_uj").unlink()
        p = run("tune", "--objective", "energy", "--trial-seconds", "0.1", "--again", "--only", key, *TASK, clip, "-f", "null", "-", env=env, check=False)
        self.assertEqual(p.returncode, 1)
        self.assertIn("--objective energy: no energy counter can be read", p.stderr)

    def test_cores_that_others_have_are_not_tried(self):
        one = {min(os.sched_getaffinity(0))}
        p = run("tune", "--trial-seconds", "0.1", "--only", "model.num_workers", "--json", "segment", "--engine-threads", "1", "--mode", "mask",
                self.still(), "-f", "null", "-", env=self.env, preexec_fn=lambda: os.sched_setaffinity(0, one))
        self.assertEqual([t["value"] for t in json.loads(p.stdout)["tried"]], ["1", "2"])

    def test_failed_setting_is_a_result(self):
        r = self.tune("--only", "model.provider=nonsense", clip=self.still())
        tried = r["tried"][0]
        self.assertEqual(tried["gain"], 0)
        self.assertIn("nonsense", tried["why"])
        self.assertEqual(r["best"], 0)

    def test_limits(self):
        clip = self.still()
        for limit in (("--min-fps", "900000"), ("--max-memory", "1"), ("--max-latency-ms", "0.0001")):
            with self.subTest(limit=limit):
                p = run("tune", "--trial-seconds", "0.1", "--only", "model.batch_size=2", *limit, *TASK, clip, "-f", "null", "-",
                        env=self.env, check=False)
                self.assertEqual(p.returncode, 1, p.stderr)
                self.assertIn("no setting meets the limits", p.stderr)

    def test_fixed_settings_hold_and_are_saved(self):
        """--max-memory behind the task is the tuner's; what is fixed holds in each trial, also in the reference."""
        clip, config = self.still(), self.tmp / "fixed.yaml"
        r = self.tune("--fix", "performance.frame_skip_enabled=yes", "--only", "model.batch_size=2", "--save-config", config, clip=clip,
                      task=(*TASK, "--max-memory", "100000"))
        self.assertEqual(r["class"]["max_memory_mib"], 100000)
        self.assertEqual([t["key"] for t in r["tried"]], ["model.batch_size"])
        self.assertIn("frame_skip_enabled: yes", config.read_text())
        r = self.tune("--only", "model.batch_size", clip=clip, task=(*TASK, "--batch", "2-8"))
        self.assertEqual([t["value"] for t in r["tried"]], ["2", "4"])
        p = run("tune", "--fix", "model.provider=nonsense", "--only", "model.batch_size=2", *TASK, clip, "-f", "null", "-",
                env=self.env, check=False)
        self.assertEqual(p.returncode, 1)
        self.assertIn("the command as given fails", p.stderr)

    def refused(self, measure, task, clip, skip="0.5"):
        """Frame skipping on what moves is much faster, and refused: alone, or, if one short trial looked slow, with the last settings."""
        for _ in range(4):
            r = self.tune("--again", "--only", f"{SKIP}={skip}", clip=clip, task=(*task, "--workers", "1"))
            self.assertEqual([f["settings"] for f in r["left"]], [{}], r)
            reasons = [o["why"] for o in (*r["tried"], *r["finals"]) if o["why"].startswith("refused")]
            if reasons:
                break
        self.assertTrue(reasons, r)
        self.assertRegex(reasons[0], rf"^refused: {measure} 0\.\d+, wanted 0\.99$")
        self.assertGreater(float(reasons[0].split(measure)[1].split(",")[0]), 0.2, "far from a result that is missing")

    def test_guard_of_boxes(self):
        models("person")
        self.refused("box IoU", ("detect", "--model", "person"), self.moving(32))
        r = self.tune("--only", "performance.frame_skip_enabled", clip=self.still(), task=("detect", "--model", "person", "--workers", "1"))
        best = r["finals"][r["best"]]
        self.assertEqual(best["settings"], {"performance.frame_skip_enabled": "yes"})
        self.assertGreaterEqual(best["quality"], 0.99)

    def test_guard_of_points(self):
        models("face", "face-mesh")
        self.refused("1 - landmark error", ("track",), self.moving())

    def test_guard_of_pictures(self):
        models("face", "face-mesh")
        self.refused("1 - RMS error", ("animate", "--image", DEPS / "media" / "astronaut.png"), self.moving(32))

    def test_guard_of_labels(self):
        """A network whose labels are the strongest of red, green and blue, on a clip that goes through them."""
        w = np.zeros((64, 3, 9, 9), np.float32)
        for o in range(64):
            w[o, o % 3] = 1 / 81
        h = onnx.helper
        top = np.zeros((64, 3), np.float32)
        top[:3] = np.eye(3)
        g = h.make_graph([h.make_node("Conv", ["x", "w"], ["c"]), h.make_node("GlobalAveragePool", ["c"], ["a"]), h.make_node("Flatten", ["a"], ["f"]),
                          h.make_node("MatMul", ["f", "t"], ["y"])], "g", [h.make_tensor_value_info("x", 1, [1, 3, 128, 128])],
                         [h.make_tensor_value_info("y", 1, [1, 3])], [onnx.numpy_helper.from_array(w, "w"), onnx.numpy_helper.from_array(top, "t")])
        onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=10), self.tmp / "net.onnx")
        (self.tmp / "net.json").write_text(json.dumps({
            "name": "rgb", "task": "classify", "file": "net.onnx", "license": "none",
            "input": {"width": 128, "height": 128, "layout": "nchw", "fit": "stretch", "scale": 1 / 255},
            "outputs": [{"meaning": "classes", "activation": "softmax", "top": 3, "labels": ["red", "green", "blue"]}]}))
        clip = self.tmp / "rgb.mp4"
        colours = [x for c in ("red", "lime", "blue") for x in ("-f", "lavfi", "-i", f"color={c}:s=64x64:r=25:d=0.4")]
        ffmpeg(*colours, "-filter_complex", "concat=n=3", "-c:v", "libx264", "-g", "1", clip)
        self.refused("label agreement", ("classify", "--model", self.tmp / "net.onnx", "--card", self.tmp / "net.json"), clip, skip="1")

    def test_other_tasks_keep_their_results(self):
        p = run("tune", "--only", "model.batch_size", "motion", "in.mp4", env=self.env, check=False)
        self.assertEqual(p.returncode, 2, p.stderr)
        self.assertIn("cannot be judged", p.stderr)

    def test_mistakes(self):
        clip = self.still()
        for args, words in (((), "no command to tune"), (("probe", clip), "only a run"), (("segment",), "one input"),
                            (("--only", "model.wrkers", "segment", clip), "no such setting"),
                            (("--only", "output.crf", "segment", clip), "give the values"),
                            (("--only", "model.batch_size", "segment", "--batch", 2, clip), "already"),
                            (("--fix", "model.batch_size", "segment", clip), "KEY=VALUE")):
            with self.subTest(args=args):
                p = run("tune", *args, env=self.env, check=False)
                self.assertEqual(p.returncode, 2, p.stderr)
                self.assertIn(words, p.stderr)

    def test_bottlenecks_are_named_and_their_remedies_measured(self):
        """The model sleeps, so more workers help whatever else the machine does."""
        task = "segment", "--workers", "1", "--provider", "null", "--provider-option", "sleep_us=100000", "-f", "null", "-o", "-"
        p = run("tune", "--detect-bottlenecks", "--trial-seconds", "0.3", "--json", *task, "null:64x64@30,frames=16", env=self.env)
        r = json.loads(p.stdout)
        self.assertEqual(r["kind"], "bottlenecks")
        first = r["steps"][0]
        self.assertEqual(first["limit"], "engine")
        self.assertIn("--workers", first["options"])
        self.assertTrue(first["taken"], first)
        self.assertGreater(first["predicted_gain"], 1.3)
        self.assertGreater(first["measured_gain"], 1.3)
        last = {}
        for words in (s["options"].split() for s in r["steps"] if s["taken"]):
            last.pop(words[0], None)
            last[words[0]] = words[1]
        self.assertEqual(r["options"].split(), [w for pair in last.items() for w in pair])
        # A later step runs what was taken: its verdict asks for more than that.
        workers = [int(w[1]) for w in (s["options"].split() for s in r["steps"]) if w[:1] == ["--workers"]]
        self.assertEqual(workers, sorted(set(workers)))
        # Frames come no faster than two workers take them, so the search ends there.
        text = run("tune", "--detect-bottlenecks", "--trial-seconds", "1.5", *task, "null:64x64@14,frames=20,pace=1", env=self.env).stdout
        self.assertIn("Add to the command: --workers", text)
        self.assertIn("times as fast", text)

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one core has one worker")
    def test_a_run_takes_more_workers(self):
        """In-run search: the model sleeps, so a second worker doubles the rate. All frames come, and they are the same."""
        args = ("segment", "--provider", "null", "--mode", "mask", "null:64x64@30,frames=400", "-f", "framemd5")
        one = run(*args, self.tmp / "one.md5", "--workers", "1", "--json=one.json", cwd=self.tmp)
        p = run(*args, self.tmp / "auto.md5", "--workers", "1", "--auto-tune", "--json=auto.json", "--provider-option", "sleep_us=20000", cwd=self.tmp)
        a, b = (json.loads((self.tmp / f"{name}.json").read_text()) for name in ("one", "auto"))
        self.assertEqual((a["workers"], a["frames"], b["frames"]), (1, 400, 400))
        self.assertGreater(b["workers"], 1)
        self.assertRegex(p.stderr, r"auto-tune: \d+ workers, [0-9.]+ frames per second")
        self.assertNotIn("auto-tune", one.stderr)
        self.assertEqual((self.tmp / "one.md5").read_text(), (self.tmp / "auto.md5").read_text())

    def test_a_run_takes_more_decoders(self):
        """The search lets decoders begin and rest. All frames come, and they are the same."""
        clip = self.tmp / "long.mp4"
        ffmpeg("-f", "lavfi", "-i", "testsrc2=s=128x96:r=25:d=24", "-c:v", "libx264", "-preset", "ultrafast", "-g", 25, clip)
        args = ("segment", "--provider", "null", "--mode", "mask", "-f", "framemd5", "--workers", "1", "--decoders", "1", clip)
        one = run(*args, "-o", self.tmp / "one.md5", "--json=one.json", cwd=self.tmp)
        p = run(*args, "-o", self.tmp / "auto.md5", "--auto-tune", "--log-level", "verbose", "--json=auto.json", "--provider-option", "sleep_us=6000",
                cwd=self.tmp)
        a, b = (json.loads((self.tmp / f"{name}.json").read_text()) for name in ("one", "auto"))
        self.assertEqual((a["decoders"], a["frames"], b["frames"]), (1, 600, 600), one.stderr)
        self.assertRegex(p.stderr, r"auto-tune: 2 workers, 2 decoders instead of 1 worker, 1 decoder")
        self.assertEqual((self.tmp / "one.md5").read_text(), (self.tmp / "auto.md5").read_text())

    def test_a_time_limit_ends_a_run_as_the_input_would(self):
        """What is written is the beginning of the whole, without gaps, however many decoders."""
        args = ("segment", "--provider", "null", "--provider-option", "sleep_us=10000", "--mode", "mask", "-f", "framemd5", "-y")
        clip = self.tmp / "long.mp4"
        ffmpeg("-f", "lavfi", "-i", "testsrc2=s=128x96:r=25:d=40", "-c:v", "libx264", "-preset", "ultrafast", "-g", 25, clip)
        run(*args, "-o", self.tmp / "whole.md5", "--workers", "8", clip)
        whole = (self.tmp / "whole.md5").read_text().splitlines()
        for decoders in (1, 3):
            with self.subTest(decoders=decoders):
                run(*args, "-o", self.tmp / "part.md5", "--workers", "1", "--time-limit", "0.4", "--decoders", decoders, "--json=s.json", clip,
                    cwd=self.tmp)
                s, part = json.loads((self.tmp / "s.json").read_text()), (self.tmp / "part.md5").read_text().splitlines()
                self.assertFalse(s["interrupted"])
                self.assertLess(s["frames"], 1000)
                self.assertGreater(s["frames"], 1)
                self.assertEqual(part, whole[:len(part)])
                self.assertGreater(s["steady_fps"], 0)

    def test_interrupt_keeps_the_best(self):
        """A stop in a later row keeps what the first row gained."""
        only = "performance.frame_skip_enabled,model.batch_size=2|3|4|5|6|7|8|9|10|11"
        p = subprocess.Popen([TACHY, "tune", "--trial-seconds", "0.5", "--only", only, *SLEEPS, "--focus", "off", str(self.still()),
                              "-f", "null", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env)
        self.assertIn("frame_skip_enabled yes: gains", p.stderr.readline())
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=120)
        self.assertEqual(p.returncode, 130, err)
        self.assertIn("Best for throughput: performance.frame_skip_enabled yes;", out)
        self.assertIn("interrupted", out)
        self.assertEqual(run("tune", "--list", env=self.env).stdout, "")


if __name__ == "__main__":
    main()
