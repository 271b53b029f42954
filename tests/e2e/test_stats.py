"""tachy compare. Its statistics are held to SciPy; false alarms and what is found are counted on 200 real runs
(null_runs.json); then the command itself: files, folders, pairs, environments, exit status."""
import importlib.util
import itertools
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import unittest

import cv2
import jsonschema
import numpy as np
from scipy import stats

from common import DEPS, ROOT, Case, main, models, run

TOOL = os.environ.get("STATS_TOOL", str(pathlib.Path(__file__).resolve().parents[2] / "build/tests/unit/stats_tool"))
RUNS = json.loads((pathlib.Path(__file__).parent / "null_runs.json").read_text())


def ask(requests):
    p = subprocess.run([TOOL], input=json.dumps(requests), capture_output=True, text=True, check=True)
    return json.loads(p.stdout)


def samples():
    """Random samples: plain, of few values (ties), with zeros, of one value, tiny."""
    rng = np.random.default_rng(1)
    for n in (1, 2, 3, 5, 6, 8, 10):
        yield rng.normal(0.3, 1, n)
        yield rng.integers(-3, 5, n).astype(float)
        yield np.zeros(n)
    yield np.array([0, 0, 0, 1.0, 1, -1, 2])
    yield np.array([5.0] * 7)


def all_signs(d):
    """Wilcoxon's exact two-sided p by trying every choice of signs: what SciPy has no exact form of, ties and zeros."""
    d = d[d != 0]
    if not len(d):
        return 1.0
    ranks = stats.rankdata(abs(d))
    got = ranks[d > 0].sum()
    sums = np.array([ranks[np.array(s, bool)].sum() for s in itertools.product((0, 1), repeat=len(d))])
    return min(1, 2 * min((sums <= got + 1e-9).mean(), (sums >= got - 1e-9).mean()))


class Statistics(unittest.TestCase):
    def test_wilcoxon_small(self):
        all_d = list(samples())
        for d, got in zip(all_d, ask([{"fn": "wilcoxon", "d": list(d)} for d in all_d])):
            self.assertTrue(got["exact"])
            self.assertAlmostEqual(got["p"], all_signs(d), 12, d)
            if len(set(abs(d))) == len(d) and 0 not in d:
                self.assertAlmostEqual(got["p"], stats.wilcoxon(d, method="exact").pvalue, 12)
                ranks = stats.rankdata(abs(d))
                self.assertAlmostEqual(got["statistic"], ranks[d > 0].sum())

    def test_wilcoxon_large(self):
        rng = np.random.default_rng(2)
        exact, ties = rng.normal(0.1, 1, 60), np.round(rng.normal(0.1, 1, 300), 1)
        a, b = ask([{"fn": "wilcoxon", "d": list(exact)}, {"fn": "wilcoxon", "d": list(ties)}])
        self.assertAlmostEqual(a["p"], stats.wilcoxon(exact, method="exact").pvalue, 10)
        self.assertFalse(b["exact"])
        self.assertAlmostEqual(b["p"], stats.wilcoxon(ties, method="asymptotic", correction=False).pvalue, 10)

    def test_mann_whitney(self):
        rng = np.random.default_rng(3)
        cases = [(rng.normal(0, 1, m), rng.normal(0.5, 1, n)) for m, n in ((1, 1), (2, 3), (5, 5), (4, 9), (30, 30), (80, 70))]
        tied = [(rng.integers(0, 4, m).astype(float), rng.integers(1, 5, n).astype(float)) for m, n in ((3, 3), (4, 5), (6, 4))]
        large = [(np.full(100, 2.0), np.ones(1)), (rng.integers(0, 40, 6).astype(float), rng.integers(1, 60, 90).astype(float)), (rng.integers(0, 9, 90).astype(float), rng.integers(1, 9, 80).astype(float)), (np.ones(4), np.ones(5))]
        got = ask([{"fn": "mann_whitney", "a": list(a), "b": list(b)} for a, b in cases + tied + large])
        for (a, b), g in zip(cases + tied + large, got):
            if min(len(a), len(b)) <= 8 and len(a) + len(b) > 60:
                self.assertTrue(g["exact"])
                draws = stats.PermutationMethod(n_resamples=20000, random_state=1)
                p = 2 / 101 if len(b) == 1 else stats.mannwhitneyu(a, b, method=draws).pvalue
                self.assertAlmostEqual(g["p"], p, delta=0.01)
                continue
            if len(a) + len(b) > 60:
                want = stats.mannwhitneyu(a, b, method="asymptotic")
            elif len(set([*a, *b])) == len(a) + len(b):
                want = stats.mannwhitneyu(a, b, method="exact")
            else:
                want = stats.mannwhitneyu(a, b, method=stats.PermutationMethod(n_resamples=np.inf))
            self.assertEqual(g["exact"], len(a) + len(b) <= 60)
            self.assertAlmostEqual(g["statistic"], want.statistic)
            self.assertAlmostEqual(g["p"], want.pvalue, 10, (a, b))
            self.assertAlmostEqual(g["effect"], 2 * want.statistic / len(a) / len(b) - 1)

    def test_holm(self):
        got = ask([{"fn": "holm", "p": p} for p in ([0.01, 0.04, 0.03, 0.005], [0.5], [], [1, 1, 0.02])])
        for have, want in zip(got, ([0.03, 0.06, 0.06, 0.02], [0.5], [], [1, 1, 0.06])):
            np.testing.assert_allclose(have, want)

    def test_shifts_cover(self):
        """The estimate is the median of all Walsh averages or differences; the 95 % interval covers the truth in 95 %."""
        rng = np.random.default_rng(4)
        d = [rng.standard_t(3, 12) + 0.5 for _ in range(400)]
        a = [(rng.standard_t(3, 9) + 0.5, rng.standard_t(3, 11)) for _ in range(400)]
        paired = ask([{"fn": "paired", "d": list(v), "level": 0.95} for v in d])
        unpaired = ask([{"fn": "unpaired", "a": list(x), "b": list(y), "level": 0.95} for x, y in a])
        for v, g in zip(d, paired):
            self.assertAlmostEqual(g["shift"], np.median([(v[i] + v[k]) / 2 for i in range(12) for k in range(i, 12)]))
        for (x, y), g in zip(a, unpaired):
            self.assertAlmostEqual(g["shift"], np.median(np.subtract.outer(x, y)))
        for got in paired, unpaired:
            self.assertGreater(sum(g["low"] <= 0.5 <= g["high"] for g in got), 0.93 * 400)
            self.assertTrue(all(g["reached"] for g in got))
        # An interval at 1 - p touches 0: interval and test are of one kind.
        v = d[0]
        p = stats.wilcoxon(v, method="exact").pvalue
        inside, outside = ask([{"fn": "paired", "d": list(v), "level": min(0.999, 1 - p * f)} for f in (0.99, 1.01)])
        self.assertLessEqual(inside["low"] * inside["high"], 0)
        self.assertGreaterEqual(outside["low"] * outside["high"], 0)
        self.assertFalse(ask([{"fn": "paired", "d": [1, 2, 3], "level": 0.95}])[0]["reached"])

    def test_medians(self):
        v = list(np.random.default_rng(5).normal(10, 1, 31))
        median, mad, quantile, boot, same = ask([{"fn": "median", "v": v}, {"fn": "mad", "v": v}, {"fn": "quantile", "v": v, "q": 0.9}]
                                                + 2 * [{"fn": "bootstrap", "v": v, "level": 0.95, "draws": 4000, "seed": 1}])
        self.assertAlmostEqual(median, np.median(v))
        self.assertAlmostEqual(mad, stats.median_abs_deviation(v))
        self.assertAlmostEqual(quantile, np.quantile(v, 0.9))
        want = stats.bootstrap((v,), np.median, method="percentile", n_resamples=4000, random_state=1).confidence_interval
        self.assertAlmostEqual(boot["low"], want.low, delta=0.1)
        self.assertAlmostEqual(boot["high"], want.high, delta=0.1)
        self.assertEqual(boot, same)


def summary(row, slow=1.0, **more):
    """A run of null_runs.json; `slow` > 1: all that takes time takes so much more."""
    r = dict(zip(RUNS["columns"], row))
    return {"kind": "summary", "version": 1, "frames": RUNS["frames"], "fps": r["fps"] / slow, "seconds": r["seconds"] * slow,
            "cores": r["cores"], "utilisation": r["utilisation"], "peak_memory_mib": r["peak_memory_mib"],
            "latency_ms": {"p50": r["p50"] * slow, "p99": r["p99"] * slow}, **more}


def pairs(rng, n, slow):
    """n of the runs that were made one right after the other; which of the two is the base is drawn."""
    base, changed = [], []
    for i in (rng.randrange(len(RUNS["runs"]) // 2) for _ in range(n)):
        a, b = rng.sample(RUNS["runs"][2 * i:2 * i + 2], 2)
        base.append(summary(a))
        changed.append(summary(b, slow))
    return {"fn": "compare", "margin": 0.03, "base": base, "changed": changed, "paired": True}


def unpaired(rng, n, slow):
    rows = [rng.choice(RUNS["runs"]) for _ in range(2 * n)]
    return {"fn": "compare", "margin": 0.03, "base": [summary(r) for r in rows[:n]], "changed": [summary(r, slow) for r in rows[n:]],
            "paired": False}


class RealRuns(unittest.TestCase):
    def test_same_program(self):
        """At most 5 % false alarms in 1000 comparisons of the program with itself, paired and not."""
        for draw in pairs, unpaired:
            rng = random.Random(11)
            got = ask([draw(rng, 20, 1.0) for _ in range(1000)])
            alarms = sum(g["verdict"] in ("better", "worse") for g in got)
            print(f"{draw.__name__}: {alarms} false alarms of 1000, {sum(g['failed'] for g in got)} failed")
            self.assertLessEqual(alarms, 50)
            self.assertTrue(all(len(g["figures"]) == 5 for g in got))

    def test_slow_down_is_found(self):
        """5 % more time is found by 20 pairs, on runs of a quiet machine."""
        rng = random.Random(12)
        found = sum(g["verdict"] == "worse" for g in ask([pairs(rng, 20, 1.05) for _ in range(300)]))
        print(f"5 % slower, 20 pairs: found in {found} of 300")
        self.assertGreaterEqual(found, 285)


SCHEMA = json.loads((ROOT / "docs/result.schema.json").read_text())


def valid(result, kind):
    """Holds a result to the published schema."""
    jsonschema.validate(result, SCHEMA, cls=jsonschema.Draft202012Validator)
    assert result["kind"] == kind, result["kind"]
    return result


class Schema(Case):
    def test_every_kind(self):
        clip = "null:64x36@30,frames=4"
        profile, bench, mattes = self.tmp / "p.json", self.tmp / "b.json", self.tmp / "m.json"
        runs = [valid(json.loads(run("segment", clip, "-f", "null", "--provider", "null", "--json", "-q").stdout), "summary") for _ in "ab"]
        run("profile", f"--profile-json={profile}", "segment", clip, "-f", "null", "-q")
        valid(json.loads(profile.read_text()), "profile")
        run("engine", "bench", "selfie", "--rounds", 1, "--no-reference", "--provider", "cpu", f"--json={bench}", "-q")
        valid(json.loads(bench.read_text()), "engine bench")
        run("compare-mattes", clip, clip, f"--json={mattes}", "-q")
        valid(json.loads(mattes.read_text()), "matte comparison")
        (self.tmp / "runs.json").write_text(json.dumps(runs))
        valid(json.loads(run("compare", self.tmp / "runs.json", self.tmp / "runs.json", "--json").stdout), "comparison")

    def test_bench(self):
        """Cases in turn, sums that SciPy confirms; one that was ended goes on; without a case that runs there is no result."""
        out, history, env = self.tmp / "r" / "bench.json", self.tmp / "h.jsonl", {**os.environ, "XDG_CACHE_HOME": str(self.tmp)}
        clip = "null:64x36@30,frames=40"
        args = ("bench", "--quick", "--rounds", 2, "--seconds", 0.05, "--history", history, "-o", f"{self.tmp}/r/", clip)
        p = run(*args, env=env)
        r = valid(json.loads(out.read_text()), "bench")
        self.assertEqual([c["name"] for c in r["cases"]], ["batch 1", "batch 4"])
        for c in r["cases"]:
            fps = [x["fps"] for x in c["runs"]]
            self.assertEqual(len(fps), 2)
            self.assertAlmostEqual(c["fps"]["median"], np.median(fps), 3)
            self.assertTrue(min(fps) - 1e-3 <= c["fps"]["low"] <= c["fps"]["high"] <= max(fps) + 1e-3)
        self.assertRegex(p.stdout, r"MiB +J/frame\n")
        joules = f"{r['cases'][1]['joules']['median']:.3g}" if "joules" in r["cases"][1] else "-"
        self.assertRegex(p.stdout, rf"\n +batch 4 .* {re.escape(joules)}\n")
        self.assertRegex(p.stderr, r"batch 4, round 2: [\d.]+ fps, \d+:\d\d left")
        self.assertEqual(json.loads(history.read_text())["suite"], "batch")
        self.assertIn("already exists", run(*args, env=env, check=False).stderr)
        r["complete"] = False
        kept = r["cases"][0]["runs"][0]["fps"]
        for c in r["cases"]:
            del c["runs"][1:]
        out.write_text(json.dumps(r))
        self.assertIn("continues the interrupted bench", run(*args, env=env).stderr)
        again = json.loads(out.read_text())
        self.assertEqual(([len(c["runs"]) for c in again["cases"]], again["cases"][0]["runs"][0]["fps"]), ([2, 2], kept))
        p = run("bench", "--precision-only", "--rounds", 1, "-q", "-o", self.tmp / "bad.json", self.tmp / "absent.mp4", env=env, check=False)
        self.assertEqual((p.returncode, (self.tmp / "bad.json").exists()), (1, False), p.stderr)
        self.assertIn("no case runs: " + str(self.tmp / "absent.mp4"), p.stderr)

    def test_peers(self):
        """Loops in Python that have their packages are measured, the others say what they lack."""
        models("selfie")
        env = {**os.environ, "XDG_CACHE_HOME": str(self.tmp), "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
        p = run("bench", "--peers", "--rounds", 1, "--seconds", 0.05, "--json", "-q", DEPS / "media" / "sample.mp4", env=env)
        ours, *peers = valid(json.loads(p.stdout), "bench")["cases"]
        self.assertGreater(ours["fps"]["median"], 0)
        for case, package in zip(peers, ("onnxruntime", "onnx2torch", "mediapipe"), strict=True):
            if importlib.util.find_spec(package):
                self.assertGreater(case["fps"]["median"], 0, case)
            else:
                self.assertRegex(case["error"], f"^No module named .*: pip install opencv-python-headless .*{package}")

    def test_bench_clip(self):
        """The generated clip moves, and both eyes of a stereo clip differ."""
        env = {**os.environ, "XDG_CACHE_HOME": str(self.tmp)}
        p = run("bench", "--precision-only", "--quick", "--rounds", 1, "--seconds", 0.05, "--model", "selfie-landscape", "--json", "-q", env=env)
        r = valid(json.loads(p.stdout), "bench")
        self.assertEqual((r["model"], r["cases"][0]["name"]), ("selfie-landscape", "the model as it is"))
        clip, = (self.tmp / "tachy/bench").glob("*.mp4")
        v = cv2.VideoCapture(str(clip))
        a, b = v.read()[1].astype(int), v.read()[1].astype(int)
        self.assertEqual(a.shape, (1080, 1920, 3))
        self.assertGreater(abs(a - b).mean(), 2)
        self.assertGreater(a.std(), 15)

    def test_schema_refuses(self):
        jsonschema.Draft202012Validator.check_schema(SCHEMA)
        good = json.loads(run("segment", "null:64x36@30,frames=4", "-f", "null", "--provider", "null", "--json", "-q").stdout)
        for change in ({"kind": "other"}, {"version": 2}, {"fps": -1}, {"steps": [{}]}, {"environment": {}}, {"latency_ms": None}):
            with self.assertRaises(jsonschema.ValidationError, msg=change):
                valid({**good, **change}, "summary")


class Command(Case):
    def write(self, name, runs):
        path = self.tmp / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(json.dumps(r) for r in runs) + "\n")
        return path

    def runs(self, n=20, slow=1.0, **more):
        return [summary([2000 + i % 3, 0.5, 0.6, 0.5, 2, 0.3 + 0.0001 * (i % 5), 80], slow, **more) for i in range(n)]

    def compare(self, *args, status=0):
        p = run("compare", *args, check=False)
        self.assertEqual(p.returncode, status, p.stdout + p.stderr)
        return p.stdout + p.stderr

    def test_verdicts(self):
        base, slow = self.write("base.json", self.runs()), self.write("slow.json", self.runs(slow=1.08))
        self.assertIn("The same within 3 %", self.compare(base, base))
        self.assertIn("Worse by more than 3 %", self.compare(base, slow, status=1))
        self.assertIn("Better", self.compare(slow, base))
        self.compare("--fail-above", "10%", base, slow)
        self.compare("--paired", "--fail-above", "0.05", base, slow, status=1)
        r = json.loads(self.compare("--json", "--paired", base, slow, status=1))
        figure = {f["name"]: f for f in r["figures"]}["throughput"]
        self.assertAlmostEqual(figure["change"], 1 / 1.08 - 1, 6)
        self.assertAlmostEqual(figure["p"], 2 * 0.5 ** 20)
        self.assertEqual((figure["verdict"], figure["effect"], figure["n_base"]), ("worse", -1, 20))
        table = self.compare("--markdown", base, slow, status=1)
        self.compare("--markdown", "-o", self.tmp / "c.md", base, slow, status=1)
        self.assertEqual((self.tmp / "c.md").read_text().strip(), table.strip())
        for args, says in ((("plot", base, "--kind", "thr", "-o", "x.gif"), "a plot is .svg or .png"), (("report", base, "-o", "x.gif"), "or give --format")):
            p = run(*args, check=False)
            self.assertEqual((p.returncode, says in p.stderr), (2, True), p.stderr)
        self.assertIn("c.md already exists; use -y", self.compare("-o", self.tmp / "c.md", base, slow, status=1))
        self.assertRegex(table, r"\| throughput \(fps\) \| 2001 \| 185\d\.?\d* \| -7\.4 % \| .* \| worse \|")

    def test_too_few_runs(self):
        two, other = self.write("two.json", self.runs(2)), self.write("other.json", self.runs(2, slow=1.2))
        text = self.compare(two, other)
        self.assertRegex(text, r"cannot tell: \d+ more repeats? needed")
        more = json.loads(self.compare("--json", two, other))["figures"][0]["more_repeats"]
        enough = [self.write(f"{k}.json", self.runs(2 + more, slow=s)) for k, s in (("a", 1.0), ("b", 1.2))]
        self.compare(*enough, status=1)

    def test_several_files_and_environments(self):
        for k in range(6):
            self.write(f"old/{k}.json", self.runs(1, environment={"cpu": {"name": "A", "cores": 2}, "load": k}))
            self.write(f"new/{k}.json", self.runs(1, environment={"cpu": {"name": "B", "cores": 2}, "load": 9}))
        text = self.compare(self.tmp / "old", self.tmp / "new")
        self.assertTrue(text.startswith("The environments differ:\n  cpu.name: A -> B\n"), text)
        self.assertNotIn("load", text)
        options = [w for k in range(6) for w in ("--base", self.tmp / f"old/{k}.json")]
        r = json.loads(self.compare("--json", *options, *(self.tmp / f"new/{k}.json" for k in range(6))))
        self.assertEqual([(f["n_base"], f["n_new"]) for f in r["figures"]], 5 * [(6, 6)])

    def test_real_summaries(self):
        made = [self.tmp / "a.json", self.tmp / "b.json"]
        for path in made:
            run("segment", "null:64x36@30,frames=4", "-f", "null", "--provider", "null", f"--json={path}", "-q")
        text = self.compare("--steps", *made)
        for name in ("throughput (fps)", "latency p99 (ms)", "peak memory (MiB)", "model per call (ms)"):
            self.assertIn(name, text)

    def test_bad_files(self):
        good, none = self.write("good.json", self.runs(3)), self.tmp / "empty.json"
        none.write_text("")
        (self.tmp / "cut.json").write_text(json.dumps(self.runs(1)[0])[:-9])
        (self.tmp / "else.json").write_text("[{\"a\": 1}]")
        (self.tmp / "later.json").write_text('{"kind": "summary", "version": 2}')
        (self.tmp / "folder").mkdir()
        for name, words in (("empty.json", "the file is empty"), ("cut.json", "no whole JSON"), ("else.json", "no result of tachy"),
                            ("later.json", "version 2"), ("folder", "no file in it ends in .json"), ("absent.json", "absent.json")):
            self.assertIn(words, self.compare(good, self.tmp / name, status=1))
        self.assertIn("as many runs on either side", self.compare("--paired", good, self.write("four.json", self.runs(4)), status=1))
        self.assertIn("have no figure in common",
                      self.compare(good, self.write("tune.json", [{"kind": "tune", "version": 1, "finals": [{"fps": 1}], "best": 0}]), status=1))
        self.assertIn("--fail-above", self.compare("--fail-above", "x", good, good, status=2))
        self.compare(good, status=2)


if __name__ == "__main__":
    main()
