"""--enable-metrics, scraped during runs and read by Prometheus' own parser."""
import os
import pathlib
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

from common import ROOT, TACHY, Case, main, run, whole_frames
from crowd import REQUEST, Crowd, files_allowed

try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError:
    print("prometheus_client is not installed (tools/setup --tests)")
    sys.exit(77)

ENDLESS = "null:320x180@30,frames=10000000"
TOKEN = "0123456789abcdef0123456789abcdef"


class Serving:
    """A run with metrics on a free port; `with` ends it."""

    def __init__(self, *args, address="0", env=None, verb=("segment", "--mode", "mask", ENDLESS, "-f", "null", "-")):
        self.p = subprocess.Popen([TACHY, *whole_frames(verb), "--enable-metrics", address, *map(str, args)], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env={**os.environ, **(env or {})})

    def __enter__(self):
        self.before = ""
        for line in self.p.stderr:
            self.before += line
            m = re.search(r"http://(\S+)/metrics", line)
            if m:
                self.host = m.group(1)
                return self
        self.p.wait()
        raise AssertionError(f"it does not say where: {self.before}")

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.p.poll() is None:
            self.p.send_signal(signal.SIGINT)
        self.out, self.err = self.p.communicate(timeout=60)
        return self.p.returncode

    def get(self, path="/metrics", method="GET", token=None, data=None):
        headers = {"Authorization": token} if token else {}
        r = urllib.request.Request(f"http://{self.host}{path}", method=method, headers=headers, data=data)
        # no proxy of the environment
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(r, timeout=30) as answer:
            return answer.status, answer.headers, answer.read().decode()

    def status(self, *args, **kw):
        try:
            return self.get(*args, **kw)[0]
        except urllib.error.HTTPError as e:
            e.close()
            return e.code

    def samples(self, **kw):
        return parse(self.get(**kw)[2])


def parse(text):
    """{(name, labels): value}"""
    return {(s.name, tuple(sorted(s.labels.items()))): s.value
            for family in text_string_to_metric_families(text) for s in family.samples}


def value(samples, name, **labels):
    return samples[(name, tuple(sorted(labels.items())))]


class Metrics(Case):
    @classmethod
    def setUpClass(cls):
        run("model", "pull", "selfie")

    def scrape_until(self, s, frames):
        for _ in range(600):
            samples = s.samples()
            if value(samples, "tachy_frames_written_total") >= frames:
                return samples
            time.sleep(0.05)
        self.fail("no frames")

    def test_scraped_during_a_run(self):
        with Serving() as s:
            self.assertTrue(s.host.startswith("127.0.0.1:"))
            first = self.scrape_until(s, 20)
            status, headers, text = s.get()
            self.assertEqual((status, headers["Content-Type"]), (200, "text/plain; version=0.0.4; charset=utf-8"))
            second = self.scrape_until(s, value(first, "tachy_frames_written_total") + 20)
            self.assertEqual(value(second, "tachy_run_state", state="running"), 1)
            self.assertEqual(value(second, "tachy_runs_started_total"), 1)
            self.assertEqual(value(second, "tachy_run_frames_expected"), 10000000)
            self.assertGreater(value(second, "process_resident_memory_bytes"), 1e6)
            self.assertGreaterEqual(value(second, "tachy_frames_decoded_total"),
                                    value(second, "tachy_frames_written_total"))
            self.check_process(s.p.pid, second)
            self.assertGreaterEqual(value(second, "tachy_stream_frames", stream="0", input=ENDLESS), 40)
            self.assertEqual(value(second, "tachy_stream_frames_expected", stream="0", input=ENDLESS), 10000000)
            self.check_histograms(second)
            for (name, labels), v in first.items():  # counters only rise
                if name.endswith(("_total", "_count", "_sum", "_bucket")):
                    self.assertGreaterEqual(second[(name, labels)], v, (name, labels))
            self.assertEqual(s.stop(), 130)

    def check_process(self, pid, samples):
        proc = pathlib.Path(f"/proc/{pid}")
        age = time.time() - value(samples, "process_start_time_seconds")
        self.assertTrue(-1 < age < 600, age)
        self.assertEqual(value(samples, "process_max_fds"), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self.assertAlmostEqual(value(samples, "process_open_fds"), len(list((proc / "fd").iterdir())), delta=20)
        self.assertGreater(value(samples, "process_threads"), 2)
        self.assertGreater(value(samples, "process_cpu_seconds_total"), 0)
        self.assertLessEqual(value(samples, "process_resident_memory_bytes"), value(samples, "process_virtual_memory_bytes"))

    def test_inputs_at_once_have_labels(self):
        with Serving(verb=("segment", "--mode", "mask", "--parallel", "2", ENDLESS, ENDLESS + ',format=nv12', "-f", "null", "-")) as s:
            for _ in range(600):
                samples = s.samples()
                seen = {labels for name, labels in samples if name == "tachy_stream_frames"}
                if len(seen) == 2:
                    break
                time.sleep(0.05)
            self.assertEqual({dict(labels)["stream"] for labels in seen}, {"0", "1"})

    def test_figures_outlive_a_short_run(self):
        short = ("segment", "--mode", "mask", "null:320x180@30,frames=3", "-f", "null", "-")
        page = self.tmp / "tachy.prom"
        with Serving("--metrics-linger", "600", "--metrics-file", page, verb=short) as s:
            for line in s.p.stderr:
                if "the figures stay" in line:
                    break
            samples = s.samples()
            self.assertEqual(s.p.wait(60), 0)
        self.assertEqual(value(samples, "tachy_frames_written_total"), 3)
        self.assertEqual(value(parse(page.read_text()), "tachy_frames_written_total"), 3)
        self.assertEqual([p.name for p in self.tmp.iterdir()], ["tachy.prom"])

    def check_histograms(self, samples):
        for step in ["decode", "preprocess", "model", "postprocess", "composite", "encode", None]:
            base = "tachy_step_seconds" if step else "tachy_frame_latency_seconds"
            labels = {"step": step} if step else {}
            buckets = sorted((float(dict(l)["le"]), v) for (n, l), v in samples.items()
                             if n == base + "_bucket" and dict(l).get("step") == step)
            self.assertEqual(len(buckets), 18)
            counts = [v for _, v in buckets]
            self.assertEqual(counts, sorted(counts))
            self.assertEqual(counts[-1], value(samples, base + "_count", **labels))
            total = value(samples, base + "_sum", **labels)
            if step:
                self.assertAlmostEqual(total, value(samples, "tachy_step_busy_seconds_total", step=step), places=9)
            # the sum lies between what the buckets allow, within the 3.2 % of their width
            least = sum((v - (counts[i - 1] if i else 0)) * (buckets[i - 1][0] if i else 0) for i, (_, v) in
                        enumerate(buckets))
            self.assertGreaterEqual(total * 1.04 + 1e-9, least)

    def test_figures_are_those_of_the_summary(self):
        # Two inputs: the counters go on over both. The shell serves between runs as well.
        with Serving(verb=("shell",)) as s:
            line = "segment --mode mask null:320x180@30,frames=50 null:320x180@30,frames=30 -f null --json=sum.json\n"
            s.p.stdin.write(f"{line.replace('sum.json', str(self.tmp / 'sum.json'))}")
            s.p.stdin.flush()
            for _ in range(600):
                samples = s.samples()
                if value(samples, "tachy_runs_total", result="done") == 2:
                    break
                time.sleep(0.05)
            self.assertEqual(value(samples, "tachy_frames_written_total"), 80)
            self.assertEqual(value(samples, "tachy_run_frames"), 30)
            self.assertEqual(value(samples, "tachy_step_seconds_count", step="model"), 80)
            self.assertEqual(value(samples, "tachy_frame_latency_seconds_count"), 80)
            self.assertEqual(value(samples, "tachy_run_state", state="idle"), 1)
            self.assertEqual(value(samples, "tachy_queue_depth", stage="infer"), 0)
            s.p.stdin.close()
            s.p.stdin = None
            s.p.wait(60)
        import json
        runs = [json.loads(line) for line in (self.tmp / "sum.json").read_text().splitlines()]
        busy = sum(step["busy_s"] for r in runs for step in r["steps"] if step["name"] == "model")
        self.assertAlmostEqual(value(samples, "tachy_step_busy_seconds_total", step="model"), busy, places=4)
        self.assertAlmostEqual(value(samples, "tachy_run_seconds_total"), sum(r["seconds"] for r in runs), delta=0.05)

    def test_only_reading_one_page(self):
        with Serving() as s:
            self.assertEqual(s.status("/"), 404)
            self.assertEqual(s.status("/metrics/x"), 404)
            self.assertEqual(s.get("/healthz")[2], "ok\n")
            for method, data in [("POST", b"x" * 100000), ("DELETE", None), ("PUT", b"x")]:
                self.assertEqual(s.status(method=method, data=data), 405, method)
            self.assertEqual(s.status(method="HEAD"), 200)
            self.assertEqual(s.status(), 200)

    def test_token(self):
        path = self.tmp / "token"
        path.write_text(TOKEN + "\n")
        path.chmod(0o600)
        with Serving("--metrics-token-file", path, address="0.0.0.0:0") as s:
            s.host = "127.0.0.1:" + s.host.split(":")[1]
            for token in [None, TOKEN, "Bearer", "Bearer ", "Bearer " + TOKEN[:-1], "Bearer " + TOKEN + "0",
                          "Bearer " + "x" * len(TOKEN), "Basic " + TOKEN]:
                self.assertEqual(s.status(token=token), 401, token)
            self.assertEqual((s.status("/other"), s.status("/healthz")), (401, 200))
            self.assertEqual(s.status(token="Bearer " + TOKEN), 200)
            self.assertEqual(s.status(token="bearer " + TOKEN), 200)
        with Serving(env={"TACHY_METRICS_TOKEN": TOKEN}) as s:  # on the loopback too if there is one
            self.assertEqual((s.status(), s.status(token="Bearer " + TOKEN)), (401, 200))
        path.chmod(0o644)
        with Serving("--metrics-token-file", path) as s:
            self.assertIn("chmod 600", s.before)

    def refused(self, *args, env=None, status=2):
        p = subprocess.run([TACHY, "segment", "--focus", "off", "null:320x180@30,frames=1", "-f", "null", "-", *map(str, args)],
                           capture_output=True, text=True, env={**os.environ, **(env or {})}, timeout=60)
        self.assertEqual(p.returncode, status, p.stderr)
        self.assertEqual(p.stdout, "")  # before any work
        return p.stderr

    def test_what_is_refused(self):
        for address in ["0.0.0.0:0", "[::]:0"]:
            self.assertIn("a token is needed", self.refused("--enable-metrics", address))
        for address in ["", "x", "99999", "host:", ":1", "a:b:1", "1.2.3.4:", "[::1]", "-1"]:
            self.assertIn("--enable-metrics", self.refused(f"--enable-metrics={address}"))
        (self.tmp / "short").write_text("secret\n")
        p = self.refused("--enable-metrics", "0", "--metrics-token-file", self.tmp / "short")
        self.assertIn(f"--metrics-token-file {self.tmp}/short: a token has 16 to 1024 printable characters without a blank, and this has 6;", p)
        self.assertIn("$TACHY_METRICS_TOKEN: a token has", self.refused("--enable-metrics", "0", env={"TACHY_METRICS_TOKEN": "secret"}))
        self.assertIn("cannot be read: Is a directory", self.refused("--enable-metrics", "0", "--metrics-token-file", self.tmp, status=1))
        (self.tmp / "empty").touch()
        self.assertIn("empty", self.refused("--enable-metrics", "0", "--metrics-token-file", self.tmp / "empty"))
        self.assertIn("cannot be read: No such file", self.refused("--enable-metrics", "0", "--metrics-token-file",
                                                     self.tmp / "none", status=1))
        with Serving() as s:
            self.assertIn("is the port taken", self.refused("--enable-metrics", s.host, status=1))

    def connect(self, s, data=b""):
        host, port = s.host.rsplit(":", 1)
        c = socket.create_connection((host, int(port)), timeout=60)
        self.addCleanup(c.close)
        c.sendall(data)
        return c

    def test_a_crowd_does_not_keep_scrapes_out(self):
        if not files_allowed(2000):
            self.skipTest("2000 files at once are not allowed here")
        # Within 100 ms and 500 ms on a quiet machine, as bench/metrics_load measures. If slots are held until their
        # timeout, each takes more than 10 s.
        with Serving(verb=("shell",)) as s, Crowd(s.host, idle=1000, half_open=1000) as crowd:
            for _ in range(5):
                crowd.keep(0)
                began = time.monotonic()
                self.assertEqual(s.status(), 200)
                self.assertLess(time.monotonic() - began, 5)
            crowd.keep(0)
            began = time.monotonic()
            s.p.send_signal(signal.SIGTERM)
            s.p.wait(60)
            self.assertLess(time.monotonic() - began, 5)

    def test_a_request_has_a_second(self):
        with Serving(verb=("shell",)) as s:
            c, began = self.connect(s, REQUEST[:-2]), time.monotonic()
            while not select.select([c], [], [], 0.1)[0]:
                c.sendall(b"A: b\r\n")  # each byte is a sign of life
                self.assertLess(time.monotonic() - began, 30)
            self.assertGreater(time.monotonic() - began, 0.9)
            self.assertEqual(s.status(), 200)

    def test_an_answered_connection_is_closed(self):
        with Serving(verb=("shell",)) as s:
            c, answer = self.connect(s, REQUEST), b""
            while data := c.recv(65536):  # to the end
                answer += data
            self.assertIn(b"Connection: close", answer)
            self.assertIn(b"tachy_build_info", answer)

    def test_the_oldest_incomplete_request_goes(self):
        with Serving(verb=("shell",)) as s:
            for _ in range(50):  # until none of this took the second after which all are closed
                began = time.monotonic()
                callers = [self.connect(s, REQUEST[:9 * (i % 2)]) for i in range(129)]
                poll = select.poll()
                for c in callers:
                    poll.register(c, select.POLLIN)
                gone = [i for i, c in enumerate(callers) if c.fileno() in dict(poll.poll(10000))]
                if time.monotonic() - began < 0.9:
                    break
            self.assertEqual(gone, [0])

    def test_ipv6(self):
        try:
            with Serving(address="[::1]:0") as s:
                self.assertTrue(s.host.startswith("[::1]:"))
                self.assertEqual(s.status(), 200)
        except AssertionError as e:
            if "cannot be listened on" in str(e):
                self.skipTest("this machine has no IPv6")
            raise

    def test_documentation_names_every_figure(self):
        page = (ROOT / "docs" / "metrics.md").read_text()
        with Serving() as s:
            text = s.get()[2]
        for name in re.findall(r"(?m)^# TYPE (\S+)", text):
            self.assertIn(f"`{name}", page)


if __name__ == "__main__":
    if "built without libmicrohttpd" in subprocess.run([TACHY, "shell", "--enable-metrics", "0"], text=True,
                                                       stdin=subprocess.DEVNULL, capture_output=True).stderr:
        print("built without libmicrohttpd")
        sys.exit(77)
    main()
