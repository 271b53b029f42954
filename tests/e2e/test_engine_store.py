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
# A session of a process of its own: prints the result's digest.
PROGRAM = """
import sys, json
sys.path.insert(0, {folder!r})
import test_engine_store as t
t.setUpModule()
print(t.Session(json.loads({own!r})).digest)
"""
ort = np = None


def setUpModule():
    global ort, np
    if common.SANITIZER:
        raise unittest.SkipTest("Python itself is not built with the sanitizer's runtime")
    try:
        import numpy
        import onnxruntime
    except ImportError as e:
        raise unittest.SkipTest(f"a Python package is missing: {e}")
    ort, np = onnxruntime, numpy
    if tuple(map(int, ort.__version__.split(".")[:2])) < (1, 23):
        raise unittest.SkipTest(f"onnxruntime {ort.__version__} has no plugins")
    if not MODEL.exists():
        raise unittest.SkipTest("the model selfie is not here")
    ort.register_execution_provider_library("tachy", LIBRARY)


class Session:
    """A session with provider options: what it computes, and what the provider says meanwhile."""

    def __init__(self, own, model=MODEL):
        o = ort.SessionOptions()
        o.intra_op_num_threads = o.inter_op_num_threads = 1
        o.log_severity_level = 1
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

    def session(self, effort=1, **own):
        return Session({"build_effort": str(effort), "store": str(self.store), **own})

    def entries(self):
        return sorted(self.store.glob("*")) if self.store.exists() else []

    def test_timed_once(self):
        first = self.session()
        self.assertTrue(first.timed and not first.read)
        (entry,) = self.entries()
        self.assertRegex(entry.name, "^[0-9a-f]{32}[.]plan$")
        text = entry.read_text()
        self.assertIn("selfie.onnx 1x", text)
        self.assertIn("\neffort 1\n", text)
        again = [self.session() for _ in range(5)]
        self.assertTrue(all(s.read and not s.timed for s in again))
        self.assertEqual({s.digest for s in again}, {first.digest})
        self.assertEqual(entry.read_text(), text)
        self.assertLess(min(s.ms for s in again), 20)  # the whole plan; the least, for busy machines
        more = self.session(effort=2)  # is not satisfied by less
        self.assertTrue(more.timed)
        self.assertIn("\neffort 2\n", entry.read_text())
        self.assertEqual(more.digest, first.digest)
        self.assertTrue(self.session(effort=1).read and self.session(effort=0).read)  # but by more

    def test_no_effort(self):
        plain = [self.session(effort=0) for _ in range(3)]
        self.assertFalse(any(s.timed or s.read for s in plain))
        self.assertEqual(self.entries(), [])
        self.assertLess(min(s.ms for s in plain), 300)
        unkept = Session({"build_effort": "1", "store": "0"})
        self.assertTrue(unkept.timed)
        self.assertEqual(unkept.digest, plain[0].digest)

    def test_users_folder(self):
        old = os.environ["XDG_CACHE_HOME"]
        os.environ["XDG_CACHE_HOME"] = str(self.tmp)
        try:
            Session({"build_effort": "1"})
        finally:
            os.environ["XDG_CACHE_HOME"] = old
        self.assertEqual(len(list((self.tmp / "tachy/engines").glob("*.plan"))), 1)

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
            self.assertEqual(self.session(effort=2).digest, s.digest)  # kept or not (root writes anyway)
        finally:
            self.store.chmod(0o700)

    def test_processes(self):
        """Three at once with nothing stored; and another instruction set has entries of its own."""
        def start(**env):
            own = '{"build_effort": "1", "store": "%s"}' % self.store
            folder = str(pathlib.Path(__file__).resolve().parent)
            return subprocess.Popen([sys.executable, "-c", PROGRAM.format(folder=folder, own=own)],
                                    stdout=subprocess.PIPE, text=True, env={**os.environ, **env})
        several = [start() for _ in range(3)]
        digests = {p.communicate(timeout=120)[0] for p in several}
        self.assertEqual([p.returncode for p in several], [0, 0, 0])
        self.assertEqual(len(digests), 1)
        self.assertEqual(len(self.entries()), 1)
        here = self.session()
        self.assertTrue(here.read)
        self.assertEqual({here.digest + "\n"}, digests)
        if "avx512" in self.entries()[0].read_text():
            p = start(TACHY_CPU="avx2")
            self.assertEqual({p.communicate(timeout=120)[0]}, digests)
            self.assertEqual(len(self.entries()), 2)

    def test_options(self):
        for own, said in (({"build_effort": "4"}, "`build_effort` is a whole number from 0 to 3"),
                          ({"store": ""}, "`store` is a folder, or 0 for none")):
            with self.assertRaisesRegex(Exception, said):
                Session(own)


if __name__ == "__main__":
    common.main()
