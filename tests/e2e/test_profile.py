"""tachy profile: what the files say, against each other and against the run's own figures."""
import collections
import csv
import json
import math
import os
import pathlib
import shutil
import stat
import subprocess
import unittest

import perfetto
from common import SANITIZER, Case, main, models, run

FRAMES = 60
SPEC = f"null:320x180@30,frames={FRAMES}"


class Profile(Case):
    @classmethod
    def setUpClass(cls):
        models("selfie")

    def profile(self, *args, **kw):
        """Profiles a short run with every file; returns (process, files by kind)."""
        files = {k: self.tmp / f"p.{k}" for k in ("trace", "folded", "csv", "json")}
        p = run("profile", "--trace", files["trace"], "--folded", files["folded"], "--csv", files["csv"],
                "--profile-json", files["json"], "segment", SPEC, "--mode", "cutout", "--smooth",
                "-f", "null", "-", *args, **kw)
        return p, files

    def test_what_is_calibrated_is_shown(self):
        args = ["profile", "segment", SPEC, "--mode", "mask", "-f", "null", "-", "-y"]
        text, plain = (run(*args, *more, cwd=self.tmp).stdout for more in (["--calibrate"], []))
        for words in ("isolated ms", "Pipeline efficiency: "):
            self.assertIn(words, text)
            self.assertNotIn(words, plain)

    def check_lanes(self, events):
        """Slices of a lane lie one behind the other or one in the other."""
        lanes = collections.defaultdict(list)
        for e in events:
            if e["ph"] == "X":
                self.assertGreater(e["dur"], 0)
                self.assertGreaterEqual(e["ts"], 0)
                # Nanoseconds: decimals in floating point would make touching slices overlap.
                begin = round(e["ts"] * 1000)
                lanes[e["tid"]].append((begin, begin + round(e["dur"] * 1000), e["cat"]))
        for lane in lanes.values():
            open_ends = []
            for begin, end, cat in sorted(lane, key=lambda s: (s[0], -s[1])):
                while open_ends and open_ends[-1] <= begin:
                    open_ends.pop()
                if open_ends:
                    self.assertLessEqual(end, open_ends[-1] + 1, "a slice leaves the one around it")
                self.assertEqual(cat == "operator", bool(open_ends), "operators are within a step, steps in nothing")
                open_ends.append(end)

    def check_flows(self, events):
        flows = collections.defaultdict(list)
        for e in events:
            if e["ph"] in "stf":
                flows[e["id"]].append(e)
        self.assertEqual(len(flows), FRAMES)
        starts = {(e["tid"], e["ts"]) for e in events if e["ph"] == "X"}
        for flow in flows.values():
            flow.sort(key=lambda e: e["ts"])
            self.assertEqual([e["ph"] for e in flow[:1] + flow[-1:]], ["s", "f"])
            self.assertEqual({e["ph"] for e in flow[1:-1]} - {"t"}, set())
            for e in flow:
                self.assertIn((e["tid"], e["ts"]), starts, "an arrow ends in the air")

    def test_trace(self):
        _, files = self.profile("--workers", 2)
        trace = json.loads(files["trace"].read_text())
        events = trace["traceEvents"]
        self.assertEqual({e["ph"] for e in events}, set("XMCstf"))
        names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
        self.assertEqual(sorted(names.values()), ["order", "sink", "source", "worker 0", "worker 1"])
        steps = [e for e in events if e["ph"] == "X" and e["cat"] == "step"]
        for step in ("decode", "preprocess", "model", "composite"):
            frames = [e["args"]["frame"] for e in steps if e["name"] == step]
            self.assertEqual(sorted(frames), list(range(FRAMES)), step)
        self.assertEqual(sum(e["name"] == "decode" and names[e["tid"]] == "source" for e in steps), FRAMES)
        self.check_lanes(events)
        self.check_flows(events)
        counters = [e for e in events if e["ph"] == "C"]
        self.assertEqual({e["name"] for e in counters}, {"queue depth", "frames in flight", "memory in flight"})
        for e in counters:
            for value in e["args"].values():
                self.assertTrue(0 <= value < 1000)
        self.assertEqual(trace["otherData"]["dropped_spans"], 0)
        self.assertIn("cpu", trace["otherData"]["environment"])

    def test_files_agree(self):
        _, files = self.profile()
        doc = json.loads(files["json"].read_text())
        rows = list(csv.DictReader(files["csv"].read_text().splitlines()))
        calls = collections.Counter((r["lane"].split()[0], r["step"]) for r in rows)
        busy, folded = collections.Counter(), collections.Counter()
        for r in rows:
            busy[r["lane"].split()[0], r["step"]] += float(r["busy_us"])
        for line in files["folded"].read_text().splitlines():
            stack, weight = line.rsplit(" ", 1)
            folded[tuple(stack.split(";")[1:3])] += int(weight)
        self.assertEqual(doc["frames"], FRAMES)
        for s in doc["steps"]:
            key = s["stage"], s["name"]
            self.assertEqual(s["calls"], calls[key], key)
            self.assertAlmostEqual(s["busy_s"] * 1e6, busy[key], delta=0.02 * busy[key] + s["calls"] * 0.01, msg=key)
            self.assertAlmostEqual(s["busy_s"] * 1e6, folded[key], delta=0.02 * folded[key] + 1, msg=key)
            self.assertTrue(s["p50_ms"] <= s["p90_ms"] <= s["p95_ms"] <= s["p99_ms"] <= s["max_ms"], key)
        self.assertAlmostEqual(sum(s["share"] for s in doc["steps"]), 1, places=3)
        latency = doc["latency_ms"]
        self.assertTrue(0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"])
        self.assertLess(latency["max"], doc["seconds"] * 1e3)
        curve = doc["latency_curve_ms"]
        self.assertEqual(curve, sorted(curve))
        self.assertEqual((curve[10], curve[18], curve[20]), (latency["p50"], latency["p90"], latency["max"]))

    def test_moments(self):
        """Some frames and the memory, held to the spans and counters of the other files."""
        _, files = self.profile("--workers", 2)
        doc, trace = json.loads(files["json"].read_text()), json.loads(files["trace"].read_text())["traceEvents"]
        with open(files["csv"]) as f:
            rows = [r for r in csv.DictReader(f) if int(r["frame"]) >= 0]
        frames = sorted({s["frame"] for s in doc["timeline"]})
        self.assertEqual(frames, list(range(frames[0], frames[0] + 8)))
        chosen = [r for r in rows if int(r["frame"]) in frames]
        first = min(float(r["start_us"]) for r in chosen)
        want = sorted((r["lane"], r["step"], int(r["frame"])) for r in chosen)
        self.assertEqual(sorted((s["lane"], s["step"], s["frame"]) for s in doc["timeline"]), want)
        at = {(r["lane"], r["step"], int(r["frame"])): r for r in chosen}
        for s in doc["timeline"]:
            r = at[s["lane"], s["step"], s["frame"]]
            self.assertAlmostEqual(s["start_ms"], (float(r["start_us"]) - first) / 1e3, delta=0.05 + s["start_ms"] / 100)
            self.assertAlmostEqual(s["end_ms"] - s["start_ms"], float(r["busy_us"]) / 1e3, delta=0.05 + s["end_ms"] / 100)
        held = [e["args"]["MiB"] for e in trace if e["ph"] == "C" and e["name"].startswith("memory in flight")]
        self.assertLessEqual(len(doc["memory"]), 200)
        self.assertAlmostEqual(max(m["in_flight_mib"] for m in doc["memory"]), max(held), 2)
        resident = [m["resident_mib"] for m in doc["memory"] if m["resident_mib"]]
        self.assertTrue(resident and 5 < min(resident) <= max(resident) < 4096)

    @unittest.skipIf(SANITIZER, "speed")
    def test_work_of_operators(self):
        """Multiply-adds as ONNX's shapes give them; an operator is not faster than a core's arithmetic."""
        import onnx
        files = self.profile("--engine-threads", 1)[1]
        doc = json.loads(files["json"].read_text())
        path = pathlib.Path(os.environ["TACHY_MODELS"]) / "selfie.onnx"
        graph = onnx.shape_inference.infer_shapes(onnx.load(path)).graph
        shapes = {v.name: [d.dim_value or 1 for d in v.type.tensor_type.shape.dim] for v in [*graph.input, *graph.value_info, *graph.output]}
        shapes |= {t.name: list(t.dims) for t in graph.initializer}
        work = 0
        for n in graph.node:
            if n.op_type == "Conv":
                work += math.prod(shapes[n.output[0]]) * math.prod(shapes[n.input[1]][1:])
            if n.op_type == "ConvTranspose":
                work += math.prod(shapes[n.input[0]]) * math.prod(shapes[n.input[1]][1:])
        ops = doc["operators"]["by_time"]
        self.assertAlmostEqual(sum(o["multiply_adds"] or 0 for o in ops) / work, 1, delta=0.1)  # passes drop some
        core = doc["environment"]["core"]
        for o in ops:
            self.assertLess((o["multiply_adds"] or 0) * o["calls"] / (o["total_ms"] / 1e3), 1.5 * core["multiply_adds_per_s"], o)
            if o["multiply_adds"]:
                self.assertGreaterEqual(o["moved_bytes"], o["output_bytes"], o)
        self.assertGreater(core["cache_bytes_per_s"], core["memory_bytes_per_s"] / 2)

    def test_operators_are_most_of_the_step(self):
        shares = []
        while len(shares) < 10 and max(shares, default=0) <= 0.5:  # a loaded machine may stop the step between two of them
            doc = json.loads(self.profile("-y")[1]["json"].read_text())
            model = next(s for s in doc["steps"] if s["name"] == "model")
            shares.append(doc["operators"]["total_ms"] / 1e3 / model["busy_s"])
        self.assertGreater(max(shares), 0.5, shares)

    def test_operators(self):
        _, files = self.profile()
        doc = json.loads(files["json"].read_text())
        ops = doc["operators"]
        model = next(s for s in doc["steps"] if s["name"] == "model")
        self.assertEqual(ops["model_runs"], FRAMES)
        self.assertGreater(len(ops["by_time"]), 20)
        self.assertIn("Conv", {o["type"] for o in ops["by_time"]})
        self.assertEqual({o["calls"] for o in ops["by_time"]}, {FRAMES})
        times = [o["total_ms"] for o in ops["by_time"]]
        self.assertEqual(times, sorted(times, reverse=True))
        self.assertAlmostEqual(sum(times), ops["total_ms"], places=3)
        # The operators never take longer than the step that runs them.
        self.assertLessEqual(ops["total_ms"] / 1e3, model["busy_s"])
        sizes = [o["output_bytes"] for o in ops["by_memory"]]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        self.assertGreater(sizes[0], 256 * 256 * 4)
        events = json.loads(files["trace"].read_text())["traceEvents"]
        drawn = sum(e.get("cat") == "operator" for e in events)
        # Operators below a microsecond have no length on ONNX Runtime's clock and are not drawn.
        self.assertTrue(0.5 < drawn / (FRAMES * len(ops["by_time"])) <= 1)
        # ONNX Runtime's own kernels, which it measures itself.
        run("profile", "--profile-json", files["json"], "-y", "segment", SPEC, "--mode", "mask", "--provider", "cpu",
            "-f", "null", "-")
        ops = json.loads(files["json"].read_text())["operators"]
        self.assertEqual(ops["model_runs"], FRAMES)
        self.assertGreater(len(ops["by_time"]), 20)
        self.assertIn("Conv", {o["type"] for o in ops["by_time"]})
        p = run("profile", "--no-operators", "--profile-json", files["json"], "-y", "segment", SPEC, "--mode", "mask",
                "-f", "null", "-")
        self.assertNotIn("operators by time", p.stdout)
        self.assertEqual(json.loads(files["json"].read_text())["operators"]["by_time"], [])

    def test_environment(self):
        _, files = self.profile("--threshold", "0.4")
        env = json.loads(files["json"].read_text())["environment"]
        for key in ("tachy", "cpu", "gpu", "driver", "clocks", "ffmpeg", "onnxruntime", "settings", "command"):
            self.assertIn(key, env)
        self.assertEqual(env["settings"]["segment.threshold"], "0.4")
        self.assertEqual(env["command"][0], "segment")
        self.assertGreater(env["clocks"]["span_ticks_mhz"], 1)

    def test_window(self):
        files = {k: self.tmp / f"w.{k}" for k in ("trace", "csv", "json")}
        p = run("profile", "--max-spans", 16, "--trace", files["trace"], "--csv", files["csv"], "--profile-json",
                files["json"], "segment", SPEC, "--mode", "mask", "-f", "null", "-", "--workers", 1)
        self.assertIn("were dropped", p.stderr)
        frames = [int(r["frame"]) for r in csv.DictReader(files["csv"].read_text().splitlines()) if r["step"] == "decode"]
        self.assertEqual(frames, list(range(FRAMES - 15, FRAMES)))
        doc = json.loads(files["json"].read_text())
        self.assertEqual(next(s["calls"] for s in doc["steps"] if s["name"] == "decode"), FRAMES)
        self.assertGreater(doc["spans"]["dropped"], 0)
        self.assertGreater(json.loads(files["trace"].read_text())["otherData"]["dropped_spans"], 0)

    def test_names_and_overwriting(self):
        out = self.tmp / "out.mkv"
        args = ["segment", SPEC, "-o", out, "-preset", "ultrafast"]
        p = run("profile", *args)
        trace = self.tmp / "out.trace.json"
        self.assertIn(str(trace), p.stdout)
        self.assertTrue(trace.exists())
        out.unlink()
        p = run("profile", *args, check=False)
        self.assertEqual(p.returncode, 1)
        self.assertIn("out.trace.json already exists", p.stderr)
        self.assertFalse(out.exists(), "nothing is done before all names are free")
        run("profile", *args, "-y")
        # Nothing in a file: the trace has the input's name and is in the current folder.
        run("profile", "segment", SPEC, "-f", "null", "-", cwd=self.tmp)
        self.assertTrue((self.tmp / "tachy.trace.json").exists())

    def test_asked_for_by_a_file(self):
        (self.tmp / "c.yaml").write_text("version: 1\ndebug:\n  profile_performance: yes\nprofile:\n  csv: rows.csv\n")
        p = run("segment", "-c", "c.yaml", SPEC, "--mode", "mask", "-f", "null", "-", cwd=self.tmp)
        self.assertIn("Latency", p.stdout)
        self.assertEqual(sum(",decode," in line for line in (self.tmp / "rows.csv").read_text().splitlines()), FRAMES)

    def test_output_on_stdout_stays_clean(self):
        p = run("profile", "--csv", self.tmp / "a.csv", "segment", SPEC, "-f", "framemd5", "-")
        self.assertNotIn("Latency", p.stdout)
        self.assertIn("Latency", p.stderr)
        plain = run("segment", SPEC, "-f", "framemd5", "-", "--quiet")
        self.assertEqual(p.stdout, plain.stdout, "a profile changes no pixel")

    def test_several_inputs(self):
        files = {k: self.tmp / f"s.{k}" for k in ("csv", "json", "trace")}
        other = SPEC.replace("30,", "25,")
        run("profile", "--csv", files["csv"], "--profile-json", files["json"], "--trace", files["trace"], "segment",
            SPEC, other, "-f", "null", "--mode", "mask")
        self.assertEqual(json.loads(files["json"].read_text())["runs"], 2)
        decoded = [(r["stream"], r["frame"]) for r in csv.DictReader(files["csv"].read_text().splitlines()) if r["step"] == "decode"]
        self.assertEqual(len(set(decoded)), 2 * FRAMES)
        events = json.loads(files["trace"].read_text())["traceEvents"]
        self.assertEqual(len({e["id"] for e in events if e["ph"] == "s"}), 2 * FRAMES)
        self.check_lanes(events)

    def test_wrong_use(self):
        for args, what in ((["profile"], "no command"), (["profile", "doctor"], "only a run"),
                           (["segment", "--csv", "x", "a.mp4"], "does not belong"),
                           (["profile", "--csv", "-", "segment", SPEC, "-f", "null", "-"], "written to a file"),
                           (["profile", "segment", "--nosuch"], "is not known")):
            p = run(*args, check=False)
            self.assertIn(p.returncode, (1, 2), args)
            self.assertIn(what, p.stderr, args)
        p = run("profile", "segment", self.tmp / "missing.mp4", check=False, cwd=self.tmp)
        self.assertNotEqual(p.returncode, 0)
        self.assertEqual(list(self.tmp.iterdir()), [])

    def test_tool(self):
        tools = self.tmp / "tools"
        tools.mkdir()
        p = run("profile", "--tool", "nsys", "segment", SPEC, check=False, env={**os.environ, "PATH": str(tools)})
        self.assertEqual(p.returncode, 2)
        self.assertIn("not installed", p.stderr)
        # Stands in the tool's place to show what it is called with, and runs the command.
        perf = tools / "perf"
        perf.write_text('#!/bin/sh\necho "perf: $*" >&2\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
        perf.chmod(perf.stat().st_mode | stat.S_IXUSR)
        p = run("profile", "--tool", "perf", "segment", SPEC, "--mode", "mask", "--json", "-f", "null",
                env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}, cwd=self.tmp)
        self.assertRegex(p.stderr, r"perf: record .*-o tachy.perf.data -- \S*tachy segment --focus off null:")
        self.assertEqual(json.loads(p.stdout)["frames"], FRAMES)

    def test_tool_perf_itself(self):
        if not shutil.which("perf") or subprocess.run(["perf", "record", "-o", "/dev/null", "true"],
                                                      capture_output=True).returncode:
            self.skipTest("perf is not installed or may not record here")
        run("profile", "--tool", "perf", "segment", SPEC, "--mode", "mask", "-f", "null", "-", cwd=self.tmp)
        text = subprocess.run(["perf", "report", "-i", self.tmp / "tachy.perf.data", "--stdio"], capture_output=True,
                              text=True).stdout
        self.assertIn("tachy", text)

    def test_perfetto_opens_the_trace(self):
        _, files = self.profile("--workers", 2)
        try:
            viewer = perfetto.Viewer()
        except perfetto.Missing as e:
            self.skipTest(str(e))
        with viewer:
            got = viewer.open(files["trace"])
        events = json.loads(files["trace"].read_text())["traceEvents"]
        self.assertEqual(got["slices"], sum(e["ph"] == "X" for e in events))
        self.assertEqual(got["errors"], [], "what Perfetto could not place")
        self.assertEqual(got["flows"], sum(e["ph"] in "tf" for e in events))
        self.assertEqual(got["threads"], ["order", "sink", "source", "worker 0", "worker 1"])
        self.assertGreater(got["counters"], 0)


if __name__ == "__main__":
    main()
