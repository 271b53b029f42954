"""One call of a run fails: an allocation that our own code makes, or a system call that writes.

    test_faults.py SHIM alloc|write [--every N] [--job NAME]...

For each of a dozen typical jobs the calls are counted first. Then the job is run once for each, with that one
failing. Of allocations, those that are reached by the same way through the same functions are one: the first and the
last of them fail, and none that an earlier job reached in this way. With --every N it is an Nth of all these, the same
ones each time. What must hold: no signal, no hang, a sentence where the status is not 0; the output is as without the
fault, as it was before, or a playable part; nothing else is left; memory is freed as in a sound run, whichever library
asked for it."""
import argparse
import contextlib
import ctypes
import errno
import os
import pathlib
import random
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

import common

STACK, NAME, SITES, CALLS = 12, 96, 256, 1 << 20
NEVER = 2**64 - 1
KINDS = {"alloc": 1, "write": 2}
# A call that is interrupted or takes less than it was given is no failure; it may be tried again.
ERRORS = {"alloc": ["ENOMEM"], "write": ["ENOSPC", "EIO", "EINTR", "short"]}
HANGS_S = 60


class Site(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * NAME), ("live", ctypes.c_uint64)]


class Report(ctypes.Structure):  # shim.h
    _fields_ = [("kind", ctypes.c_uint32), ("error", ctypes.c_uint32), ("at", ctypes.c_uint64),
                ("calls", ctypes.c_uint64), ("fired", ctypes.c_uint32), ("nb_sites", ctypes.c_uint32),
                ("stack", (ctypes.c_char * NAME) * STACK), ("crash", (ctypes.c_char * NAME) * STACK),
                ("sites", Site * SITES), ("path", ctypes.c_uint64 * CALLS)]


# The model is opened and run in one job; to do so in all takes most of the time and tries nothing else.
MODEL = ["segment", "--focus", "off", "-q", "--workers", "1", "--encode-threads", "1", "--decode-threads", "1"]
SEGMENT = [*MODEL, "--provider", "null"]


class Job:
    """A command line, the files that are there before, and what it reads from standard input.

    stdout: that is compared too. resumes: after a failure the same command goes on. script: the status is that
    of the last command, so an earlier one's failure is told by its sentence alone."""

    def __init__(self, *args, before=(), stdin="", stdout=False, resumes=False, script=False):
        self.args, self.before, self.stdin, self.stdout = args, before, stdin, stdout
        self.resumes, self.script = resumes, script


JOBS = {
    "config": Job("config", "-crf", "20", "-c", "conf.yaml", stdout=True),
    "probe": Job("probe", "clip.mkv", "--json", stdout=True),
    "mask": Job(*SEGMENT, "--mode", "mask", "--smooth", "--refine", "-y", "clip.mkv", "-o", "out.mp4", before=["out.mp4"]),
    "cutout": Job(*SEGMENT, "clip.mkv", "-o", "out.mkv", "--json=sum.json"),
    "pictures": Job(*SEGMENT, "--mode", "alpha", "clip.mkv", "-o", "p%02d.png"),
    "resume": Job(*SEGMENT, "-c", "conf.yaml", "--resume", "--smooth", "clip.mkv", "-o", "out.mkv", resumes=True),
    "live": Job(*SEGMENT, "--live", "--mode", "blur", "null:64x48@30,frames=5", "-f", "null", "-"),
    "replace": Job(*SEGMENT, "--mode", "replace", "--background", "back.png", "clip.mkv", "-o", "out.mov"),
    "parallel": Job(*SEGMENT, "--parallel", "2", "--mode", "mask", "clip.mkv", "second.mkv", "-o", "many/"),
    "profile": Job("profile", *SEGMENT, "--mode", "mask", "clip.mkv", "-f", "null", "-", "--trace", "trace.json"),
    "replay": Job("replay", "saved", "--stage", "preprocess", "--loop", "2", "--golden"),
    "model": Job(*MODEL, "--mode", "json", "clip.mkv", "-o", "out.jsonl"),
    "shell": Job("shell", stdin="set crf 30\nsegment --provider null --mode mask clip.mkv -o out.mkv\nwait\nstats\njobs\nconfig x\n", script=True),
}


def make_inputs(folder):
    for name, rate in (("clip.mkv", 25), ("second.mkv", 10)):
        common.ffmpeg("-f", "lavfi", "-i", f"testsrc=size=64x48:rate={rate}:duration=0.2", "-f", "lavfi", "-i",
                      "sine=duration=0.2", "-c:v", "libx264", "-preset", "ultrafast", "-bf", "1", "-c:a", "aac",
                      "-metadata", "title=a", folder / name)
    common.ffmpeg("-f", "lavfi", "-i", "testsrc=size=64x48", "-frames:v", "1", folder / "back.png")
    (folder / "conf.yaml").write_text("version: 1\noutput: {crf: 25}\nprocessing: {chunk_size: 2}\n")
    common.run(*SEGMENT, "--mode", "mask", "--save-stage", folder / "saved", "2", folder / "clip.mkv", "-f", "null", "-",
               cwd=folder)


class Server:
    """The command, loaded and waiting in front of main(): see shim.c."""

    def __init__(self, shim, job, folder):
        self.job, self.folder, self.stdin = job, folder, tempfile.TemporaryFile()
        self.stdin.write(job.stdin.encode())
        size = ctypes.sizeof(Report)
        self.map = tempfile.TemporaryFile()
        self.map.truncate(size)
        import mmap
        self.memory = mmap.mmap(self.map.fileno(), size)
        self.report = Report.from_buffer(self.memory)
        order, self.order = os.pipe()
        self.answer, answer = os.pipe()
        fds = [self.map.fileno(), order, answer]
        env = {**os.environ, "LD_PRELOAD": str(shim), "TACHY_FAULTS": " ".join(map(str, fds)),
               "XDG_STATE_HOME": str(folder.parent / "state")}
        self.p = subprocess.Popen([common.TACHY, *job.args], cwd=folder, env=env, pass_fds=fds, stdin=self.stdin,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(order)
        os.close(answer)

    def run(self, kind, error=0, at=NEVER):
        """The status as of waitpid(); None: it hung. self.report says the rest."""
        r = self.report
        ctypes.memset(ctypes.addressof(r), 0, Report.path.offset)
        r.kind, r.error, r.at = KINDS[kind], error, at
        self.stdin.seek(0)
        os.write(self.order, b"!")
        pid = struct.unpack("i", os.read(self.answer, 4))[0]
        hung = not select.select([self.answer], [], [], HANGS_S)[0]
        if hung:
            os.kill(pid, signal.SIGKILL)
        status = struct.unpack("i", os.read(self.answer, 4))[0]
        return None if hung else status

    def sites(self):
        """Allocations that are left, by who asked; without the dynamic loader's, which keeps its tables."""
        sites = {s.name.decode(): s.live for s in self.report.sites[:self.report.nb_sites]}
        return {name: live for name, live in sites.items() if not name.startswith("ld-")}

    def stack(self, which="stack"):
        return [s.value.decode() for s in getattr(self.report, which) if s.value]

    def close(self):
        os.close(self.order)
        self.p.wait(60)
        os.close(self.answer)


def lines_of(stack):
    """The functions and lines of "libtachy.so.0.1.0+0x1234"."""
    build = pathlib.Path(common.TACHY).parent
    for place in stack:
        name, _, at = place.partition("+")
        binary = next((b for b in sorted(build.glob(f"**/{name}")) if b.is_file()), None)
        if binary and at:
            p = subprocess.run(["addr2line", "-Cfpe", binary, hex(int(at, 16) - 1)], capture_output=True, text=True)
            place = f"{name}: {p.stdout.strip()}"
        yield place


def is_playable(path, whole):
    """What a run leaves that ends early, with what there was (docs/design.md): less of the same."""
    if path.suffix == ".jsonl":
        return path.read_bytes() and path.read_bytes().endswith(b"\n") and whole.startswith(path.read_bytes())
    p = subprocess.run(["ffmpeg", "-v", "error", "-xerror", "-i", path, "-f", "null", "-"], capture_output=True)
    return p.returncode == 0 and not p.stderr


class Faults:
    def __init__(self, shim, kind, name, root, known):
        self.kind, self.name, self.job, self.root, self.known = kind, name, JOBS[name], root, known
        self.folder = root / "work"
        self.failures, self.ended_well = [], 0
        self.tidy()
        self.server = Server(shim, self.job, self.folder)

    def tidy(self):
        """The folder as before a run."""
        self.folder.mkdir(exist_ok=True)
        for p in self.folder.iterdir():
            if not (self.root / "inputs" / p.name).exists():
                shutil.rmtree(p) if p.is_dir() else p.unlink()
        for p in (self.root / "inputs").iterdir():
            with contextlib.suppress(FileExistsError):
                (self.folder / p.name).symlink_to(p)
        for name in self.job.before:
            (self.folder / name).write_text("precious")

    def left(self):
        """Bytes of each file that is no input."""
        return {str(p.relative_to(self.folder)): p.read_bytes() for p in self.folder.rglob("*")
                if p.is_file() and not p.is_symlink() and p.name not in ("stdout", "stderr")}

    def said(self, name="stderr"):
        return (self.folder / name).read_text(errors="replace")

    def sound_run(self):
        """Twice: the first fills caches. Outputs must be the same each time, else nothing can be compared."""
        for _ in range(2):
            self.tidy()
            status = self.server.run(self.kind)
            if status and os.WIFEXITED(status) and os.WEXITSTATUS(status) == 99:
                print(f"skipped: this system allows no seccomp filter: {self.said()}")
                sys.exit(77)
            if status:
                raise AssertionError(f"{self.name}: status {status} without a fault: {self.said()}")
        self.whole, self.text = self.left(), self.said("stdout")
        self.live = self.server.sites()
        calls = self.server.report.calls
        paths = self.server.report.path[:min(calls, CALLS)]
        self.tidy()
        self.server.run(self.kind)
        other = self.left()
        self.varies = {n for n in self.whole if other.get(n) != self.whole[n]}  # they have times in them
        first, last = {}, {}
        for i, path in enumerate(paths):
            first.setdefault(path, i)
            last[path] = i
        if self.kind == "write":  # they are few, and what is lost differs
            return calls, list(range(calls))
        chosen = sorted({calls[path] for calls in (first, last) for path in calls if path not in self.known})
        self.known.update(first)
        return calls, chosen

    def problem(self, status, error):
        """What is wrong after a run with a fault; None: nothing."""
        if status is None:
            return f"hangs ({HANGS_S} s)"
        if os.WIFSIGNALED(status):
            crash = "\n      ".join(lines_of(self.server.stack("crash")))
            return f"killed by signal {os.WTERMSIG(status)} in\n      {crash}\n      {self.said()[-3000:]}"
        code = os.WEXITSTATUS(status)
        err = self.said()
        if code not in (0, 1, 2, 75):
            return f"exit status {code}: {err}"
        sentence = any(line.startswith("tachy: ") for line in err.splitlines())
        if code and not sentence:
            return f"exit status {code} without a sentence: {err!r}"
        if error == "ENOSPC" and code not in (0, 75):
            return f"exit status {code}, not 75, for a full disk: {err}"
        if not code and sentence and self.job.script:
            code = 1
        self.ended_well += code == 0
        return self.wrong_files(code) or self.leak()

    def wrong_files(self, code):
        left = self.left()
        if code == 0 and self.job.stdout and self.said("stdout") != self.text:
            return "status 0, but other text on standard output"
        for name, whole in self.whole.items():
            got = left.pop(name, None)
            old = b"precious" if name in self.job.before else None
            if code == 0 and got is None:
                return f"status 0, but there is no {name}"
            if name not in self.varies and got not in (whole, old) and not (code and is_playable(self.folder / name, whole)):
                return f"status {code}, but {name} has other {len(got or b'')} bytes: {self.said()}"
            if code == 0 and name not in self.varies and got != whole:
                return f"status 0, but {name} is as it was before"
        rest = [n for n in left if not (self.job.resumes and ".tachy/" in n)]
        return f"status {code}, and these are left: {rest}: {self.said()}" if rest else None

    def leak(self):
        if self.kind != "alloc":
            return None
        more = [f"{live - self.live.get(site, 0)} x {next(lines_of([site]))}" for site, live in self.server.sites().items()
                if live > self.live.get(site, 0)]
        return f"status and files are right, but memory is not freed: {more}" if more else None

    def try_call(self, at, error):
        self.tidy()
        number = getattr(errno, error, 0)
        status = self.server.run(self.kind, number, at)
        fired = self.server.report.fired
        stack = self.server.stack()
        what = self.problem(status, error)
        if not what and self.job.resumes and status:
            again = self.server.run(self.kind)
            if again or self.left() != self.whole:
                what = f"does not go on afterwards: status {again}, {self.said()}"
        if what:
            where = "\n    ".join(lines_of(stack))
            self.failures.append(where)
            print(f"FAILED: {self.name}, call {at} fails with {error}: {what}\n    {where}", flush=True)
        return fired

    def run(self, every):
        calls, chosen = self.sound_run()
        tried = fired = 0
        turns = [(at, error) for at in chosen for error in ERRORS[self.kind]]
        random.Random(1).shuffle(turns)
        for at, error in turns[:-(-len(turns) // every)]:
            fired += bool(self.try_call(at, error))
            tried += 1
        self.server.close()
        print(f"{self.name}: {calls} calls, {len(chosen)} of them to be tried; {tried} runs, {fired} with a fault, "
              f"{self.ended_well} did their work all the same, {len(self.failures)} failed", flush=True)
        return tried, fired, len(self.failures)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("shim", type=os.path.abspath)
    p.add_argument("kind", choices=KINDS)
    p.add_argument("--every", type=int, default=1)
    p.add_argument("--job", action="append", choices=JOBS)
    o = p.parse_args()
    common.models("selfie")
    with tempfile.TemporaryDirectory(prefix="tachy-faults-") as root:
        root = pathlib.Path(root)
        os.environ["XDG_CACHE_HOME"] = str(root / "cache")
        (root / "inputs").mkdir()
        make_inputs(root / "inputs")
        known = set()
        sums = [Faults(o.shim, o.kind, name, root, known).run(o.every) for name in o.job or JOBS]
    tried, fired, failed = map(sum, zip(*sums))
    print(f"{tried} runs, {fired} with a fault, {failed} failed")
    sys.exit(1 if failed or not fired else 0)


if __name__ == "__main__":
    main()
