"""tachy engine: who runs what against the profile that ONNX Runtime itself writes, graphs and their work
against the onnx package's shapes, the measurement's figures against each other, and what goes wrong."""
import json
import os
import pathlib
import unittest

import common
from common import DEPS, run

LIBRARY = os.environ.get("TACHY_EP", str(pathlib.Path(common.TACHY).resolve().parent / "src/provider/libtachy_ep.so"))
try:
    import numpy as np
    import onnx
except ImportError as e:
    raise SystemExit(77) from e


def engine(*args, **kw):
    return run("engine", *args, **kw)


def asked(*args):
    return json.loads(engine(*args, "--json").stdout)


def two_plans():
    """Convolutions around two nodes that are not built, and one by itself at the end."""
    h, rng = onnx.helper, np.random.default_rng(3)
    w = [onnx.numpy_helper.from_array(rng.standard_normal((6, 6, 3, 3)).astype(np.float32), f"w{i}") for i in range(2)]
    pads = {"kernel_shape": [3, 3], "pads": [1] * 4}
    nodes = [h.make_node("Conv", ["x", "w0"], ["a"], "first", **pads), h.make_node("Relu", ["a"], ["b"], "rectify"),
             h.make_node("Det", ["b"], ["d"], "determinant"), h.make_node("Hardmax", ["b"], ["s"], "wave"),
             h.make_node("Conv", ["s", "w1"], ["c"], "second", **pads), h.make_node("Hardmax", ["c"], ["y"], "last")]
    out = [h.make_empty_tensor_value_info(n) for n in ("y", "d")]
    g = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", 1, [1, 6, 8, 8])], out, w)
    m = h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(m)


def work_of(path):
    """Multiply-adds of a model's convolutions, by the onnx package's shape inference."""
    m = onnx.shape_inference.infer_shapes(onnx.load(path))
    shape = {v.name: [d.dim_value or 1 for d in v.type.tensor_type.shape.dim]
             for v in [*m.graph.value_info, *m.graph.input, *m.graph.output]}
    weights = {w.name: list(w.dims) for w in m.graph.initializer}
    over = {"Conv": lambda n: n.output[0], "ConvTranspose": lambda n: n.input[0]}
    return sum(int(np.prod(shape[over[n.op_type](n)])) * int(np.prod(weights[n.input[1]][1:]))
               for n in m.graph.node if n.op_type in over)


class EngineCommand(common.Case):
    registered = False  # our provider with Python's ONNX Runtime

    @classmethod
    def setUpClass(cls):
        common.models("selfie")
        cls.selfie = json.loads(run("model", "info", "selfie", "--json").stdout)["path"]

    def save(self, model, name="net.onnx"):
        path = self.tmp / name
        onnx.save(model, path)
        return path

    def profile(self, path):
        """(number of our kernels, names of the nodes that ONNX Runtime runs) in ONNX Runtime's own profile."""
        if common.SANITIZER:
            self.skipTest("Python itself is not built with the sanitizer's runtime")
        import onnxruntime as ort
        o = ort.SessionOptions()
        o.add_free_dimension_override_by_name("batch", 1)
        o.enable_profiling, o.profile_file_prefix, o.log_severity_level = True, str(self.tmp / "profile"), 3
        if not EngineCommand.registered:
            ort.register_execution_provider_library("tachy", LIBRARY)
            EngineCommand.registered = True
        o.add_provider_for_devices([d for d in ort.get_ep_devices() if d.ep_name == "tachy"][:1], {})
        s = ort.InferenceSession(str(path), o)
        s.run(None, {i.name: np.zeros(i.shape, np.uint8 if "uint8" in i.type else np.float32) for i in s.get_inputs()})
        events = [e for e in json.loads(pathlib.Path(s.end_profiling()).read_text())
                  if e.get("cat") == "Node" and e["name"].endswith("_kernel_time")]
        ours = [e for e in events if e["args"]["provider"] == "tachy"]
        return len(ours), {e["name"].removesuffix("_kernel_time") for e in events if e not in ours}

    def test_why_is_what_onnxruntime_does(self):
        path = self.save(two_plans())
        told = asked("why", path)
        self.assertEqual({n["name"]: n["by"] for n in told["nodes"]},
                         {"first": "tachy", "rectify": "tachy", "determinant": "onnxruntime", "wave": "onnxruntime",
                          "second": "tachy", "last": "onnxruntime"})
        for n in told["nodes"]:
            self.assertEqual(n["why"] is None, n["by"] == "tachy")
            self.assertEqual(n["plan"] is None, n["by"] != "tachy")
        plans, left = self.profile(path)
        self.assertEqual(left, {n["name"] for n in told["nodes"] if n["by"] == "onnxruntime"})
        self.assertEqual(plans, len(told["plans"]))
        self.assertFalse(told["whole"])
        text = engine("why", path).stdout
        self.assertIn("tachy (" + told["provider"] + ") runs 3 of its 6 nodes in 2 plans", text)
        self.assertRegex(text, r"onnxruntime +Hardmax +wave +the operator is not built")

    def test_why_of_a_whole_model(self):
        told = asked("why", "selfie")
        self.assertTrue(told["whole"])
        self.assertEqual((told["left"], len(told["plans"])), (0, 1))
        self.assertEqual(told["plans"][0]["multiply_adds"], work_of(self.selfie))
        self.assertEqual(self.profile(self.selfie), (1, set()))

    def test_why_of_public_models(self):
        for name in ("pose/movenet_lightning_from_int8_w8.onnx", "detect/yolox_nano.onnx"):
            path = common.shared("models/" + name)
            with self.subTest(model=name):
                self.assertEqual(self.profile(path)[0], len(asked("why", path)["plans"]))

    def test_show(self):
        path = self.save(two_plans())
        for i, (plan, names) in enumerate(zip(asked("show", path, "--after", "none")["plans"],
                                              (["first", "rectify"], ["second"]))):
            lines = [l for l in plan["graph"].splitlines() if "=" in l and "= input" not in l]
            self.assertEqual([l.split()[1] for l in lines], names, f"plan {i}")
        read, fused, last = (asked("show", "selfie", *a)["plans"][0]["graph"]
                             for a in (("--after", "none"), ("--after", "fuse"), ()))
        self.assertEqual(len({read, fused, last}), 3)
        nodes = onnx.load(self.selfie).graph.node
        self.assertEqual(read.count(" = Conv("), sum(n.op_type == "Conv" for n in nodes))
        self.assertGreater(len(read.splitlines()), len(fused.splitlines()))
        self.assertIn("nhwc", last)
        self.assertNotIn("nhwc", fused)
        self.assertIn(last, engine("show", "selfie").stdout)

    def check_row(self, r, peak):
        """Figures of one row against each other."""
        self.assertIsNone(r["why"])
        self.assertLessEqual(r["min_ms"], r["median_ms"])
        self.assertAlmostEqual(r["images_per_s"], r["batch"] * 1e3 / r["median_ms"], places=3)
        if not common.SANITIZER:
            self.assertTrue(0 < r["memory_mib"] < 200, r["memory_mib"])
        if r["multiply_adds"]:
            self.assertAlmostEqual(r["gflops"] * r["median_ms"] * 1e6, 2 * r["multiply_adds"], delta=1e3)
            self.assertAlmostEqual(r["share_of_peak"] * r["threads"] * peak * 2e-9, r["gflops"], places=6)
            self.assertGreater(r["share_of_roofline"], r["share_of_peak"] * (1 - 1e-9))  # no layer needs less

    def test_bench(self):
        out = self.tmp / "bench.json"
        p = engine("bench", "selfie", self.save(two_plans()), "--provider", "tachy,cpu,nosuch", "--batch", "1,2",
                   "--rounds", 2, f"--json={out}")
        told = json.loads(out.read_text())
        rows = told["rows"]
        self.assertEqual([(r["provider"], r["batch"]) for r in rows],
                         [(q, b) for b in (1, 2) for q in ("tachy", "cpu", "nosuch")] * 2)
        self.assertGreater(told["peak_multiply_adds_per_s"], 1e8)
        for r in rows:
            with self.subTest(**{k: r[k] for k in ("model", "provider", "batch")}):
                whole = "selfie" in r["model"]
                if r["provider"] == "nosuch" or (r["batch"] == 2 and not whole):  # that one fixes its batch
                    self.assertIsNone(r["median_ms"])
                    self.assertIn("fixes its batch at 1" if r["provider"] != "nosuch" else "nosuch is not known", r["why"])
                    continue
                self.check_row(r, told["peak_multiply_adds_per_s"])
                self.assertEqual(r["multiply_adds"], work_of(self.selfie) * r["batch"] if whole else None)
                self.assertEqual([r[k] is not None for k in ("gflops", "share_of_peak", "share_of_roofline", "error_l2")],
                                 [whole] * 4)
                if whole:  # ours meets the limit of docs/provider.md; ONNX Runtime's need not
                    self.assertTrue(0 < r["error_abs"] < (1e-4 if r["provider"] == "tachy" else 1e-2), r["error_abs"])
        self.assertIn("selfie.onnx\nPROVIDER", p.stdout)
        self.assertEqual(p.stdout.count("--provider nosuch is not known"), 4)

    def test_bench_batches(self):
        """A free batch runs as asked for, and four pictures cost more than one."""
        h = onnx.helper
        w = onnx.numpy_helper.from_array(np.ones((32, 32, 3, 3), np.float32) / 288, "w")
        g = h.make_graph([h.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4)], "g",
                         [h.make_tensor_value_info("x", 1, ["n", 32, 40, 40])],
                         [h.make_tensor_value_info("y", 1, ["n", 32, 40, 40])], [w])
        path = self.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8))
        told = json.loads(engine("bench", path, "--batch", "1,4", "--threads", "1,2", "--rounds", 2, "--json").stdout)
        rows = told["rows"]
        self.assertEqual([(r["provider"], r["batch"], r["threads"]) for r in rows],
                         [(p, b, t) for b in (1, 4) for t in (1, 2) for p in ("tachy", "cpu")])
        for r in rows:
            self.check_row(r, told["peak_multiply_adds_per_s"])
            self.assertEqual(r["multiply_adds"], r["batch"] * 32 * 32 * 9 * 40 * 40)
            self.assertLess(r["error_l2"], 1e-6)
        layers = asked("why", path)["plans"][0]["layers"]
        self.assertEqual(layers, [[32 * 32 * 9 * 40 * 40, 4 * (32 * 32 * 9 + 2 * 32 * 40 * 40)]])
        for one, four in zip(rows[:2], rows[4:6]):
            self.assertGreater(four["min_ms"], one["min_ms"])

    def small(self, side=8):
        h = onnx.helper
        w = onnx.numpy_helper.from_array(np.random.default_rng(1).standard_normal((3, 3, 3, 3)).astype(np.float32) / 9, "w")
        g = h.make_graph([h.make_node("Conv", ["x", "w"], ["a"], pads=[1] * 4), h.make_node("Relu", ["a"], ["y"])], "g",
                         [h.make_tensor_value_info("x", 1, ["n", 3, side, side])],
                         [h.make_tensor_value_info("y", 1, ["n", 3, side, side])], [w])
        return self.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8))

    # Uses a driver without a GPU; the library's kernels are plain loops. Their results are right, their speed is not.
    GPU = {**os.environ, "LD_LIBRARY_PATH": os.environ["TACHY_TEST_FAKES"], "TACHY_EP": os.environ["TACHY_TEST_EP_HOST"]}

    def test_bench_on_a_gpu(self):
        p = engine("bench", self.small(), "--device", "cuda", "--precision", "fp32,fp16,bf16,mixed,int8", "--batch", "2", "--rounds", 1,
                   "--input", DEPS / "media/sample.mp4", "--json", env=self.GPU)
        rows = {r["precision"]: r for r in json.loads(p.stdout)["rows"]}
        self.assertEqual(list(rows), ["fp32", "fp16", "bf16", "mixed", "int8"])
        for name, r in rows.items():
            self.assertEqual((r["device"], r["provider"], r["batch"]), ("cuda", "tachy", 2))
            if name == "int8":
                self.assertIn("precision int8 needs a network with QuantizeLinear", r["why"])
                continue
            self.assertGreater(r["median_ms"], 0)
            self.assertEqual(r["multiply_adds"], 2 * 3 * 3 * 9 * 64)
            for key in ("error_l2", "error_noise", "error_frames"):
                least, most = {"fp32": (-1, 1e-9), "bf16": (2e-4, 2e-2)}.get(name, (1e-6, 1e-2))
                self.assertTrue(least < r[key] < most, (name, key, r[key]))
        self.assertIn("on Fake GPU, fp16", rows["mixed"]["version"])

    def test_why_of_a_precision(self):
        sizes = [json.loads(engine("why", self.small(), "--device", "cuda", "--precision", p, "--json", env=self.GPU).stdout)["plans"][0]["weights"]
                 for p in ("fp32", "fp16")]
        self.assertLess(sizes[1], sizes[0])

    def test_build(self):
        """The network is so large that its choice takes longer than reading a file: a shorter one is not stored."""
        args = ["build", self.small(64), "--device", "cuda", "--provider-option", f"store={self.tmp / 'store'}"]
        rows = json.loads(engine(*args, "--batch", "1,4", "--precision", "fp16,mixed", "--json", env=self.GPU).stdout)
        self.assertEqual([(r["batch"], r["precision"]) for r in rows],
                         [(1, "fp16"), (1, "mixed"), (4, "fp16"), (4, "mixed")])
        self.assertTrue(0 < rows[0]["memory_mib"] < rows[2]["memory_mib"] < 1, rows)
        kept = sorted((f.name, f.stat().st_mtime_ns) for f in (self.tmp / "store").iterdir() if f.suffix != ".used")
        self.assertGreaterEqual(len(kept), 2)
        engine(*args, "--batch", "1,4", "--precision", "fp16,mixed", env=self.GPU)
        self.assertEqual({n for n, _ in kept}, {f.name for f in (self.tmp / "store").iterdir() if f.suffix != ".used"})
        self.assertIn("on Fake GPU, fp16", engine(*args, env=self.GPU).stdout)
        self.assertIn("on Fake GPU, bf16", engine(*args, "--precision", "bf16", env=self.GPU).stdout)
        cpu = json.loads(engine("build", self.small(), "--device", "cpu", "--build-effort", "0", "--json").stdout)
        self.assertEqual([(r["batch"], r["precision"]) for r in cpu], [(1, None)])

    def test_store(self):
        """An entry for what was timed, read by the next process, removed; other files stay."""
        store = self.tmp / "store"
        option = ("--provider-option", f"store={store}")
        self.assertEqual(asked("ls", *option), {"dir": str(store), "bytes": 0, "entries": []})
        engine("bench", "selfie", "--provider", "tachy", "--rounds", 1, "--build-effort", 1, "--no-reference", *option)
        files = sorted(p.name for p in store.iterdir())
        told = asked("ls", *option)
        self.assertEqual([e["key"] + ".plan" for e in told["entries"]], files)
        self.assertEqual(len(files), 1)
        self.assertEqual(told["bytes"], (store / files[0]).stat().st_size)
        self.assertIn("selfie.onnx", told["entries"][0]["title"])
        self.assertEqual(told["entries"][0]["state"], "good")
        self.assertRegex(engine("ls", *option).stdout, rf"{told['entries'][0]['key']} +\d{{4}}-\d\d-\d\d +\d+ good")
        (store / "notes.txt").write_text("mine")
        self.assertEqual(asked("gc", *option)["removed"], 0)
        (store / ("0" * 32 + ".plan")).write_text("damaged")
        self.assertEqual(asked("gc", *option), {"removed": 1, "bytes": 7})
        self.assertEqual(asked("gc", "--all", *option), {"removed": 1, "bytes": told["bytes"]})
        self.assertEqual([p.name for p in store.iterdir()], ["notes.txt"])

    def test_one_sentence_says_what_is_wrong(self):
        bad = self.tmp / "bad.onnx"
        bad.write_bytes(b"not a model")
        for status, args, text in (
                (2, (), "why, show, bench, build, ls or gc"),
                (2, ("nonsense",), "not nonsense"),
                (2, ("why",), "one model"),
                (2, ("why", "a", "b"), "one model"),
                (2, ("ls", "a"), "takes no names"),
                (2, ("why", "selfie", "--after", "fuse"), "--after belongs to tachy engine show"),
                (2, ("why", "selfie", "--crf", 3), "does not belong to tachy engine"),
                (2, ("bench", "selfie", "--batch", "1,x"), "--batch takes up to 16 numbers"),
                (2, ("bench", "selfie", "--threads", "0"), "--threads takes up to 16 numbers"),
                (1, ("show", "selfie", "--after", "nosuch"), "none, levels, turned, common,"),
                (1, ("why", "nosuch"), "nosuch"),
                (1, ("why", bad), "bad.onnx"),
                (1, ("show", self.tmp / "absent.onnx"), "absent.onnx"),
                (1, ("bench", bad, "--rounds", 1), "bad.onnx")):
            with self.subTest(args=args):
                p = engine(*args, check=False)
                self.assertEqual(p.returncode, status, p.stderr)
                self.assertIn(text, p.stderr)
                self.assertEqual(len(p.stderr.strip().splitlines()), 1, p.stderr)


if __name__ == "__main__":
    common.main()
