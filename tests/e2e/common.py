"""What the end-to-end tests share. They drive the built command as a user would and judge its
files with programs that we did not write (ffprobe, ffmpeg, ONNX Runtime, OpenCV)."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TACHY = os.environ.get("TACHY", str(ROOT / "build" / "tachy"))
# Larger test clips, labels and public models; a test that needs one skips without it.
SHARED = pathlib.Path(os.environ.get("TACHY_SHARED", ROOT.parent / "shared"))
DEPS = ROOT / ".deps"
# "address" or "thread" where .ci/run tests such a build: figures of time and memory mean nothing then.
SANITIZER = os.environ.get("TACHY_SANITIZER")
# The tests' models lie with the other dependencies, not in the user's folders.
os.environ.setdefault("TACHY_MODELS", str(DEPS / "models"))
# Meson adds the folders of what a test depends on. A test names the fake libraries of NVIDIA's names itself.
FAKES = os.environ.get("TACHY_TEST_FAKES", "")
os.environ["LD_LIBRARY_PATH"] = ":".join(f for f in os.environ.get("LD_LIBRARY_PATH", "").split(":") if f and
                                         pathlib.Path(f).resolve() != pathlib.Path(FAKES).resolve())
os.environ["XDG_CACHE_HOME"] = os.environ.get("TACHY_TEST_CACHE", str(DEPS / "cache"))


def whole_frames(args):
    """Arguments of the command. Unless a test says what --focus is, segment sees whole frames, so that masks are those of
    one known network and no test looks for people who are not there."""
    args = list(map(str, args))
    if args and args[0] in ("segment", "profile") and "segment" in args and "--focus" not in args:
        at = args.index("segment") + 1
        args[at:at] = ["--focus", "off"]
    return args


def run(*args, check=True, timeout=300, **kw):
    """Runs the tachy command; returns CompletedProcess with text output."""
    args = whole_frames(args)
    p = subprocess.run([TACHY, *args], capture_output=True, text=True, timeout=timeout, **kw)
    if check and p.returncode != 0:
        raise AssertionError(f"tachy {' '.join(map(str, args))}: status {p.returncode}\n{p.stdout}{p.stderr}")
    return p


def models(*names):
    """Gets models of the zoo where they are not there yet; several tests may do so at once."""
    for name in names:
        run("model", "pull", name)


def ffmpeg(*args):
    subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-y", *map(str, args)], check=True)


def ffprobe(path, *args):
    """ffprobe's JSON of streams, format and chapters."""
    out = subprocess.run(["ffprobe", "-v", "error", "-of", "json", "-show_streams", "-show_format",
                          "-show_chapters", *args, str(path)], check=True, capture_output=True, text=True).stdout
    return json.loads(out)


def shared(name):
    """A file of the shared test material, or skips the test."""
    p = SHARED / name
    if not p.exists():
        raise unittest.SkipTest(f"{name} of the shared test material is not here")
    return p


class Case(unittest.TestCase):
    """Gives each test an empty folder self.tmp."""

    def setUp(self):
        self.tmp = pathlib.Path(tempfile.mkdtemp(prefix="tachy-test-"))
        self.addCleanup(shutil.rmtree, self.tmp, True)


def main(*short):
    """unittest.main with exit status 77 where every test was skipped. Under a sanitizer only the tests in `short` run, if there are any."""
    result = unittest.main(exit=False, verbosity=2, defaultTest=SANITIZER and short or None).result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.testsRun and len(result.skipped) == result.testsRun else 0)
