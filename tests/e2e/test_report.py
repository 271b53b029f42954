"""tachy report and plot: every format says the same; the page opens in Chromium without an error or a request; SVG and PNG are
sound for other programs."""
import csv
import html.parser
import io
import json
import os
import shutil
import subprocess
import unittest
import xml.etree.ElementTree as ET

from PIL import Image

from common import ROOT, TACHY, Case, main, run
from test_stats import SCHEMA, RUNS, summary
import jsonschema

NAME = 'a "b" <script>alert(1)</script> & c'


def env(t):
    return {"tachy": "0.1.0", "cpu": {"name": "CPU", "cores": 2, "isa": "c"}, "ffmpeg": {}, "time": t, "load": 0}


def results():
    step = [{"name": "decode", "calls": 600, "busy_s": 0.6}, {"name": "model", "calls": 600, "busy_s": 1.2}]
    runs = [summary(RUNS["runs"][i], environment=env(3600 * (i + 1)), input=NAME, workers=2, steps=step, limited_text="Bottleneck: the model.") for i in (0, 1)]
    bench = {"kind": "bench", "version": 1, "environment": env(9), "suite": "batch", "input": "in.mp4", "cases": [
        {"name": f"batch {n}", "suite": "batch", **{k: {"median": v * n, "low": v * n * 0.9, "high": v * n * 1.1} for k, v in
         (("fps", 50.0), ("p50_ms", 8.0), ("p95_ms", 19.0), ("p99_ms", 30.0))}, "runs": []} for n in (1, 2)]}
    tune = {"kind": "tune", "version": 1, "best": 1, "class": {"task": "segment"}, "finals": [
        {"words": "as given", "settings": {}, "rounds": 3, "fps": 10, "p99_ms": 9, "gain": 1, "pareto": True},
        {"words": "model.batch_size 4", "settings": {"model.batch_size": "4"}, "rounds": 3, "fps": 20, "p99_ms": 30, "gain": 2, "pareto": True}]}
    engine = {"kind": "engine bench", "version": 1, "peak_multiply_adds_per_s": 2e10, "rows": [
        {"provider": "cpu", "device": "cpu", "batch": 1, "threads": 2, "images_per_s": 99.5, "median_ms": 10, "multiply_adds": 1e8, "moved_bytes": 4e6,
         "gflops": 20.0, "bytes_per_s": 1e10}]}
    operators = [{"name": "Conv_0", "type": "Conv", "calls": 2, "total_ms": 4.5, "multiply_adds": 9e6, "moved_bytes": 3e6, "output_bytes": 2048},
                 {"name": "Add_1", "type": "Add", "calls": 2, "total_ms": 1.5, "multiply_adds": None, "moved_bytes": 3e6, "output_bytes": 4096}]
    spans = [{"lane": lane, "step": step, "frame": f, "start_ms": 10 * f + at, "end_ms": 10 * f + at + 3}
             for f in range(4) for lane, step, at in (("source", "decode", 0), ("worker 0", "model", 4))]
    profile = {**runs[0], "kind": "profile", "latency_curve_ms": [i / 2 for i in range(21)], "timeline": spans,
               "memory": [{"seconds": i / 10, "resident_mib": 50 + i, "in_flight_mib": 8, "frames": 3} for i in range(20)],
               "verdict": {"limit": "engine", "words": "", "remedy": "more workers (--workers 4)", "expected_gain": 1.5},
               "operators": {"by_time": operators, "by_memory": operators[::-1]}}
    profile["environment"] = {**profile["environment"], "settings": {"model.threads": "2"}, "command": ["segment", "my film.mp4"],
                              "core": {"multiply_adds_per_s": 5e10, "cache_bytes_per_s": 5e10, "memory_bytes_per_s": 5e9}}
    return [*runs, bench, tune, engine, profile]


class Page(html.parser.HTMLParser):
    """Elements, text and what is loaded."""
    def __init__(self, text):
        super().__init__()
        self.count, self.loads, self.words = {}, [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.count[tag] = self.count.get(tag, 0) + 1
        self.loads += [v for k, v in attrs if k in ("src", "href") and not v.startswith("data:")]

    def handle_data(self, data):
        self.words.append(data)


class Report(Case):
    def setUp(self):
        super().setUp()
        self.file = self.tmp / "all.json"
        self.file.write_text(json.dumps(results()))

    def report(self, *args):
        return run("report", self.file, *args).stdout

    def test_html(self):
        out = self.tmp / "r.html"
        self.report("-o", out)
        text = out.read_text()
        page = Page(text)
        self.assertLess(len(text), 1.5e6)
        self.assertEqual(page.loads, [])
        self.assertNotIn("<script>alert", text)
        self.assertIn(NAME, "".join(page.words))
        self.assertEqual(page.count["svg"], page.count["details"])  # each plot has its table
        self.assertEqual(page.count["svg"], 13)                     # all but changes
        self.assertIn("tachy segment --model.batch_size=4", "".join(page.words))
        self.assertIn("tachy segment 'my film.mp4' --workers 4", "".join(page.words))
        self.assertIn("Remedy: more workers (--workers 4). Without this limit up to 1.50 times as fast.", "".join(page.words))
        self.assertIn("already exists", run("report", self.file, "-o", out, check=False).stderr)

    @unittest.skipUnless(shutil.which("chromium"), "Chromium is not installed")
    def test_chromium(self):
        out, shot = self.tmp / "r.html", self.tmp / "r.png"
        self.report("-o", out)
        probe = out.read_text().replace("<body>", """<body><script>window.onerror = m => document.title = 'error ' + m;
            new PerformanceObserver(l => document.title = 'request ' + l.getEntries()[0].name).observe({type: 'resource', buffered: true});
            addEventListener('load', () => { const e = document.querySelector('[data-v]');
              e.dispatchEvent(new MouseEvent('mousemove', {clientX: 50, clientY: 50}));
              document.body.dataset.tip = document.getElementById('tip').textContent; });</script>""", 1)
        out.write_text(probe)
        p = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom",
                            f"--user-data-dir={self.tmp}/user", out.as_uri()], capture_output=True, text=True, timeout=300)
        self.assertIn("<title>tachy report</title>", p.stdout, "an error or a request")
        self.assertNotIn(":CONSOLE", p.stderr)
        self.assertRegex(p.stdout, r'data-tip="[^"]*: [\d.]+')
        subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.tmp}/user", "--window-size=900,2000",
                        f"--screenshot={shot}", out.as_uri()], capture_output=True, timeout=300, check=True)
        self.assertGreater(len(Image.open(shot).convert("RGB").getcolors(1 << 24)), 50)

    def test_formats_agree(self):
        r = json.loads(self.report("--format", "json"))
        jsonschema.validate(r, SCHEMA)
        points = [(p["id"], o["label"], o["x"]) for p in r["plots"] for o in p["points"]]
        rows = list(csv.DictReader(io.StringIO(self.report("--format", "csv"))))
        self.assertEqual([(o["plot"], o["label"]) for o in rows], [p[:2] for p in points])
        for row, p in zip(rows, points):
            self.assertAlmostEqual(float(row["x"]) / max(p[2], 1e-9), 1 if p[2] else 0, 4)
        md, text = self.report("--format", "md"), self.report("--format", "text")
        self.assertIn("| latency p99 |", md)
        self.assertIn("| batch 1: latency p95 | 19 ms | < 20 ms | pass |", md)
        self.assertIn("| batch 2: latency p99 | 60 ms | < 25 ms | miss |", md)
        self.assertIn("| batch 2: throughput | 100 fps | > 60 fps | pass |", md)
        self.assertIn("| model | summary 1 | 0.6 | 66.6667 |", md)  # the stage table: ms and share
        self.assertIn("| Add_1 | profile 6 | 4 |", md)            # by memory
        self.assertNotIn("## Memory over time", md)
        self.assertIn("| workers | 2 |", md)
        self.assertRegex(text, r"batch 2 +bench 3 +#{40} 100\n")
        self.assertIn("Bottleneck: the model.", text)

    def test_plots(self):
        for kind in ("throughput", "throughput-batch", "latency", "stages", "timeline", "memory", "operators", "memory-operators", "roofline-6",
                     "roofline-5", "engines", "pareto", "history"):
            svg = run("plot", self.file, "--kind", kind).stdout
            tree = ET.fromstring(svg)
            marks = [e for e in tree.iter() if "data-v" in e.attrib]
            plot = next(p for p in json.loads(self.report("--format", "json"))["plots"] if p["id"].startswith(kind))
            self.assertEqual(len(marks), len(plot["points"]), kind)
        # Bars are as long as their values are large, from the same edge.
        bars = [float(e.attrib["width"]) for e in ET.fromstring(run("plot", self.file, "--kind", "throughput-batch").stdout).iter()
                if "data-v" in e.attrib]
        self.assertAlmostEqual(bars[1] / bars[0], 2, 2)
        # A span is as long as its time, at its time.
        spans = [e.attrib for e in ET.fromstring(run("plot", self.file, "--kind", "timeline").stdout).iter() if "data-v" in e.attrib]
        self.assertAlmostEqual((float(spans[1]["x"]) - float(spans[0]["x"])) / float(spans[0]["width"]), 10 / 3, 2)
        # A core of two: 18 million operations in 2.25 ms are 4 GFLOP/s each; sums and the like have no place over operations.
        plots = {p["id"]: p for p in json.loads(self.report("--format", "json"))["plots"]}
        points = [(o["series"], o["label"], o["x"], o["y"]) for o in plots["roofline-6"]["points"]]
        self.assertEqual(points, [("Conv", "Conv_0", 6, 4), ("roof", "cache: 50 GB/s", 2, 100), ("roof", "memory: 5 GB/s", 20, 100)])
        points = [(o["series"], o["x"], o["y"]) for o in plots["roofline-5"]["points"]]
        self.assertEqual(points, [("cpu", 50, 10), ("roof", 4, 40)])
        curve = [(o["x"], o["y"]) for o in plots["latency"]["points"] if o["series"] == "profile 6"]
        self.assertEqual(len(curve), 21)  # every twentieth, and p99
        self.assertEqual(curve[10], (5, 0.5))
        self.assertIn("no data for the plot changes; they have throughput", run("plot", self.file, "--kind", "changes", check=False).stderr)

    def test_many_runs(self):
        self.file.write_text(json.dumps([*results()[:2], results()[-1]] * 66))
        text = self.report("--format", "html")
        self.assertLess(len(text), 1.5e6)
        self.assertEqual(text.count("<h2>Some frames ("), 2)  # of the first eight runs, 3 and 6 are profiles

    def test_many_nights(self):
        """Older benches of a suite are points of the history only."""
        nights = [{**results()[2], "environment": env(1 + 86400 * i), "label": f"c{i}"} for i in range(8)]
        self.file.write_text(json.dumps(nights))
        r = json.loads(self.report("--format", "json"))
        plots = {p["id"]: p for p in r["plots"]}
        self.assertEqual(len(r["results"]), 4)
        self.assertEqual({o["series"] for o in plots["throughput-batch"]["points"]}, {f"bench {i}" for i in range(5, 9)})
        self.assertEqual([(o["label"], o["x"]) for o in plots["history"]["points"] if o["series"] == "batch 1"], [(f"c{i}", i) for i in range(8)])
        self.assertEqual(plots["history"]["x"], "days since the first result")

    @unittest.skipUnless(shutil.which("rsvg-convert"), "rsvg-convert is not installed")
    def test_png(self):
        out = self.tmp / "x.png"
        run("plot", self.file, "--kind", "latency", "-o", out)
        self.assertEqual(Image.open(out).size[0], 1520)

    def test_nightly(self):
        """The second night is compared with the first, and a slow one fails."""
        def night(*more, status=0):
            p = subprocess.run([ROOT / "tools/nightly", self.tmp / "n", "--precision-only", "--rounds", "1", "--seconds", "0.05",
                                "null:64x36@30,frames=30", *more], capture_output=True, text=True,
                               env={**os.environ, "TACHY": TACHY, "XDG_CACHE_HOME": str(self.tmp)})
            self.assertEqual(p.returncode, status, p.stdout + p.stderr)
            return p.stdout
        night()
        first, = (self.tmp / "n/runs").glob("*.json")
        o = json.loads(first.read_text())
        for case in o["cases"]:
            case["runs"] = [{**case["runs"][0], "fps": 1e6 + i, "p50_ms": 1e-6, "p99_ms": 1e-6, "cpu_ms": 1e-6} for i in range(100)]
        first.write_text(json.dumps(o))
        self.assertIn("cannot tell", night())  # one run of the new build is too few
        self.assertTrue((self.tmp / "n/report.html").exists())

    def test_history_entries(self):
        base, new, page = self.tmp / "base.json", self.tmp / "new.json", self.tmp / "results.md"
        for path, slow in ((base, 1.2), (new, 1.0)):
            path.write_text("\n".join(json.dumps(summary([2000 + i, 1, 1.2, 0.5, 2, 0.3, 80 + i % 3], slow)) for i in range(10)))
        self.report("-o", page)
        for words in ("enabled fp16", "larger batch"):
            run("report", "--log", words, base, new, "-o", page)
        text = page.read_text()
        self.assertEqual(text.count("## Optimisation history\n"), 1)
        self.assertRegex(text, r"### \d{4}-\d\d-\d\d: enabled fp16\n\n- Gains: throughput \+20\.0 %")
        self.assertLess(text.index("enabled fp16"), text.index("larger batch"))
        self.assertEqual(run("report", "--log", "x", base, check=False).returncode, 2)


if __name__ == "__main__":
    main()
