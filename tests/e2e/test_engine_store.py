"""Choice of kernels and engine store through PyPI's onnxruntime: timed once and read afterwards, by
several processes, from files that are damaged or cannot be written; the bits are the same throughout."""
import hashlib
import os
import pathlib
import re
import stat
import subprocess
import sys
import tempfile
import unittest

import common

LIBRARY = os.environ.get("TACHY_EP", str(common.ROOT / "build/src/provider/libtachy_ep.so"))
MODEL = common.DEPS / "models/selfie.onnx"
# More networks, if they are installed.
NETWORKS = ["face/blazeface_back_256.onnx", "embed/mobilefacenet_diandianti.onnx",
            "segment/mediapipe_selfie.onnx"]
# A session in a separate process; prints the result's digest.
PROGRAM = """
import sys, json
sys.path.insert(0, {folder!r})
import test_engine_store as t
t.setUpModule()
for model in {models!r}:
    print(t.Session(json.loads({own!r}), model).digest)
"""
ort = np = onnx = None


def setUpModule():
    global ort, np, onnx
    if common.SANITIZER:
        raise unittest.SkipTest("Python itself is not built with the sanitizer's runtime")
    try:
        import numpy
        import onnx as package
        import onnxruntime
    except ImportError as e:
        raise unittest.SkipTest(f"a Python package is missing: {e}")
    ort, np, onnx = onnxruntime, numpy, package
    if tuple(map(int, ort.__version__.split(".")[:2])) < (1, 23):
        raise unittest.SkipTest(f"onnxruntime {ort.__version__} has no plugins")
    if not MODEL.exists():
        raise unittest.SkipTest("the model selfie is not here")
    ort.register_execution_provider_library("tachy", LIBRARY)


def small_network(path):
    """A few convolutions, quick to time."""
    h, rng = onnx.helper, np.random.default_rng(0)
    nodes, weights, before = [], [], "x"
    for i, (cin, cout, k, groups) in enumerate(((16, 32, 3, 1), (32, 64, 1, 1), (64, 64, 3, 64), (64, 32, 1, 1), (32, 32, 3, 1))):
        w = rng.standard_normal((cout, cin // groups, k, k)).astype(np.float32) / (cin // groups * k * k) ** 0.5
        weights.append(onnx.numpy_helper.from_array(w, f"w{i}"))
        nodes.append(h.make_node("Conv", [before, f"w{i}"], [f"y{i}"], f"conv{i}", group=groups, pads=[k // 2] * 4))
        before = f"y{i}"
    graph = h.make_graph(nodes, "small", [h.make_tensor_value_info("x", 1, (1, 16, 96, 96))],
                         [h.make_tensor_value_info(before, 1, (1, 32, 96, 96))], weights)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=9), str(path))
    return path


class Session:
    """A session with provider options: what it computes, and what the provider says meanwhile."""

    def __init__(self, own, model=MODEL):
        o = ort.SessionOptions()
        o.intra_op_num_threads = o.inter_op_num_threads = 1
        o.log_severity_level = 1
        o.add_free_dimension_override_by_name("batch", 1)
        o.add_provider_for_devices([d for d in ort.get_ep_devices() if d.ep_name == "tachy"][:1], own)
        with tempfile.TemporaryFile() as f:
            saved = os.dup(2)
            os.dup2(f.fileno(), 2)
            try:
                session = ort.InferenceSession(str(model), o, enable_fallback=0)
            finally:
                os.dup2(saved, 2)
                os.close(saved)
            f.seek(0)
            self.said = f.read().decode(errors="replace")
        feed = {i.name: np.random.default_rng(1).random([d if isinstance(d, int) else 1 for d in i.shape], np.float32)
                for i in session.get_inputs()}
        self.digest = hashlib.sha256(b"".join(y.tobytes() for y in session.run(None, feed))).hexdigest()
        self.timed = "kernels timed for" in self.said
        self.read = "as the engine store says" in self.said
        self.ms = float(re.search(r"steps in ([0-9.]+) ms", self.said).group(1))


class Store(common.Case):
    def setUp(self):
        super().setUp()
        self.store = self.tmp / "engines"
        self.small = small_network(self.tmp / "small.onnx")

    def session(self, effort=1, model=None):
        return Session({"build_effort": str(effort), "store": str(self.store)}, model or self.small)

    def entries(self):
        return sorted(self.store.glob("*")) if self.store.exists() else []

    def test_timed_once(self):
        first = self.session(model=MODEL)
        self.assertTrue(first.timed and not first.read)
        (entry,) = self.entries()
        self.assertRegex(entry.name, "^[0-9a-f]{32}[.]plan$")
        text = entry.read_text()
        self.assertIn("selfie.onnx 1x", text)
        self.assertIn("\neffort 1\n", text)
        again = [self.session(model=MODEL) for _ in range(5)]
        self.assertTrue(all(s.read and not s.timed for s in again))
        self.assertEqual({s.digest for s in again}, {first.digest})
        self.assertEqual(entry.read_text(), text)
        self.assertLess(min(s.ms for s in again), 20)  # the whole plan; the least, for busy machines
        more = self.session(2, MODEL)  # is not satisfied by less
        self.assertTrue(more.timed)
        self.assertIn("\neffort 2\n", entry.read_text())
        self.assertEqual(more.digest, first.digest)
        self.assertTrue(self.session(1, MODEL).read and self.session(0, MODEL).read)  # but by more

    def test_no_effort(self):
        plain = [self.session(0, MODEL) for _ in range(3)]
        self.assertFalse(any(s.timed or s.read for s in plain))
        self.assertEqual(self.entries(), [])
        self.assertLess(min(s.ms for s in plain), 300)
        unkept = Session({"build_effort": "1", "store": "0"})
        self.assertTrue(unkept.timed)
        self.assertEqual(unkept.digest, plain[0].digest)

    def test_damaged(self):
        first = self.session()
        (entry,) = self.entries()
        good = entry.read_bytes()
        flipped = bytearray(good)
        flipped[len(good) // 2] ^= 4
        for bad in (bytes(flipped), good[:-3], os.urandom(2 << 20)):
            entry.write_bytes(bad)
            s = self.session()
            self.assertTrue(s.timed)
            self.assertIn("it is made again", s.said)
            self.assertEqual(s.digest, first.digest)
            self.assertTrue(self.session().read)

    def test_not_writable(self):
        self.store.write_text("a file where the folder should be")
        s = self.session()
        self.assertTrue(s.timed)
        self.assertIn("nothing is kept in the engine store", s.said)
        self.store.unlink()
        self.session()
        (entry,) = self.entries()
        self.store.chmod(stat.S_IRUSR | stat.S_IXUSR)
        try:
            self.assertTrue(self.session().read)
            self.assertEqual(self.session(2).digest, s.digest)  # kept or not (root writes anyway)
        finally:
            self.store.chmod(0o700)

    def start(self, models=(), **env):
        own = '{"build_effort": "1", "store": "%s"}' % self.store
        folder = str(pathlib.Path(__file__).resolve().parent)
        program = PROGRAM.format(folder=folder, own=own, models=[str(m) for m in models or [self.small]])
        return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
                                env={**os.environ, **env})

    def test_processes(self):
        """Three at once with nothing stored; and another instruction set has entries of its own."""
        several = [self.start() for _ in range(3)]
        digests = {p.communicate(timeout=120)[0] for p in several}
        self.assertEqual([p.returncode for p in several], [0, 0, 0])
        self.assertEqual(len(digests), 1)
        self.assertEqual(len(self.entries()), 1)
        here = self.session()
        self.assertTrue(here.read)
        self.assertEqual({here.digest + "\n"}, digests)
        if "avx512" in self.entries()[0].read_text():
            p = self.start(TACHY_CPU="avx2")
            self.assertEqual({p.communicate(timeout=120)[0]}, digests)
            self.assertEqual(len(self.entries()), 2)

    def test_bits_of_networks(self):
        """Defaults, chosen kernels, and those of AVX2 where the machine has more: the same bits."""
        models = [p for p in (common.SHARED / "models" / n for n in NETWORKS) if p.exists()]
        if not models:
            self.skipTest("no network of the shared test material is here")
        def fixed(path):
            return all(isinstance(d, int) for i in ort.InferenceSession(str(path)).get_inputs() for d in i.shape)
        models = [p for p in models if fixed(p)]
        plain = [Session({"build_effort": "0", "store": "0"}, p).digest for p in models]
        self.assertEqual([Session({"build_effort": "1", "store": "0"}, p).digest for p in models], plain)
        if "avx512dq" in pathlib.Path("/proc/cpuinfo").read_text():
            p = self.start(models, TACHY_CPU="avx2")
            self.assertEqual(p.communicate(timeout=120)[0].split(), plain)

    def test_command(self):
        """segment: kernels are timed, once, where an effort is given; engine bench and it share what is found."""
        cache, env = self.tmp / "cache", {**os.environ, "XDG_CACHE_HOME": str(self.tmp / "cache")}
        def segment(name, *args):
            common.run("segment", common.DEPS / "media/sample.mp4", "--mode", "mask", "--max-frames", 3, "-f", "framemd5",
                       "-o", self.tmp / name, "--provider", "tachy", *args, env=env)
            return (self.tmp / name).read_text()
        def entries():
            return [(p.name, p.read_bytes()) for p in sorted(cache.glob("tachy/engines/*"))]
        plain = segment("plain")
        self.assertEqual(entries(), [])
        self.assertEqual(segment("timed", "--build-effort", 1), plain)
        self.assertEqual(len(entries()), 1)
        kept = entries()
        self.assertEqual(segment("again", "--build-effort", 1, "--workers", 2), plain)
        self.assertEqual(entries(), kept)
        common.run("engine", "bench", "selfie", "--provider", "tachy", "--rounds", 1, "--build-effort", 1,
                   "--no-reference", env=env)
        self.assertEqual(entries(), kept)

    def test_options(self):
        for own, said in (({"build_effort": "4"}, "`build_effort` is a whole number from 0 to 3"),
                          ({"store": ""}, "`store` is a folder, or 0 for none")):
            with self.assertRaisesRegex(Exception, said):
                Session(own)


if __name__ == "__main__":
    common.main()
