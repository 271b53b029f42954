"""-o http://HOST:PORT/: pictures for browsers, read by ffmpeg, by Chromium where there is one, and by viewers who stall."""
import base64
import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import common
from common import ffmpeg
from crowd import Crowd, files_allowed
from test_outputs import Watched

ENDLESS = ("segment", "--focus", "off", "--mode", "mask", "-re", "null:320x180@30,frames=10000000")
TOKEN = "0123456789abcdef0123456789abcdef"


class Showing(Watched):
    """A run with viewers on a free port; `with` ends it."""

    def __init__(self, *args, verb=ENDLESS, output="http://127.0.0.1:0/"):
        super().__init__(*verb, "-o", output, *args)
        try:
            self.wait_for("the pictures are at")
        except AssertionError:
            self.end()
            raise
        self.host = re.search(r"http://(\S+)/", self.said[self.said.index("the pictures are at"):]).group(1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.status = self.end() if self.p.poll() is None else self.p.returncode
        self.thread.join()
        self.p.stderr.close()

    def open(self, path, method="GET", **headers):
        r = urllib.request.Request(f"http://{self.host}{path}", method=method, headers=headers)
        return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(r, timeout=30)

    def get(self, path, **headers):
        with self.open(path, **headers) as answer:
            return answer.read()

    def code(self, path, method="GET", **headers):
        try:
            with self.open(path, method, **headers) as answer:
                return answer.status
        except urllib.error.HTTPError as e:
            e.close()
            return e.code

    def picture(self):
        """/snapshot.jpg, once there is one."""
        while True:
            try:
                return self.get("/snapshot.jpg")
            except urllib.error.HTTPError as e:
                e.close()
                assert e.code == 503 and self.p.poll() is None
                time.sleep(0.02)


class Viewer:
    """Reads the stream as its format says."""

    def __init__(self, show):
        self.answer = show.open("/stream.mjpg")
        kind, _, boundary = self.answer.headers["Content-Type"].partition("; boundary=")
        assert kind == "multipart/x-mixed-replace"
        self.boundary = b"--" + boundary.encode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.answer.close()

    def read(self):
        """(seconds, JPEG) of the next picture; None: the end."""
        line = self.answer.readline().strip()
        assert line in (self.boundary, b""), line
        headers = {}
        while line := self.answer.readline().strip():
            name, _, value = line.decode().partition(": ")
            headers[name] = value
        if not headers:
            return None
        data = self.answer.read(int(headers["Content-Length"]))
        assert data[:2] == b"\xff\xd8" and data[-2:] == b"\xff\xd9"
        assert self.answer.readline() == b"\r\n"
        return float(headers["X-Timestamp"]), data


class Http(common.Case):
    @classmethod
    def setUpClass(cls):
        common.models("selfie")

    def test_page_stream_and_picture(self):
        with Showing() as s, Viewer(s) as v:
            with s.open("/") as page:
                self.assertEqual(page.headers["Content-Type"], "text/html; charset=utf-8")
                self.assertIn(b"stream.mjpg", page.read())
            times = [v.read()[0] for _ in range(20)]
            self.assertEqual(times, sorted(set(times)))
            (self.tmp / "one.jpg").write_bytes(s.picture())
            info = common.ffprobe(self.tmp / "one.jpg")["streams"][0]
            self.assertEqual((info["codec_name"], info["width"], info["height"]), ("mjpeg", 320, 180))
            self.assertEqual([s.code("/other"), s.code("/", "POST"), s.code("/", "HEAD"), s.code("/stream.mjpg", "HEAD")],
                             [404, 405, 200, 200])
            self.assertEqual(s.code("/", Host="camera.example"), 403)  # a page of another site, by a name that it chose
            self.assertEqual(s.code("/", Host="localhost:1"), 200)
        self.assertEqual(s.status, 130)

    def test_ffmpeg_reads_it(self):
        with Showing() as s:
            out = subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-i", f"http://{s.host}/stream.mjpg", "-frames:v", "15",
                                  "-f", "framemd5", "-"], capture_output=True, text=True, check=True, timeout=120).stdout
            self.assertEqual(sum(not line.startswith("#") for line in out.splitlines()), 15)

    def test_beside_a_file_to_the_last_picture(self):
        clip, kept, summary = self.tmp / "in.mp4", self.tmp / "kept.mkv", self.tmp / "s.json"
        ffmpeg("-f", "lavfi", "-i", "testsrc2=s=160x90:r=10:d=3", "-c:v", "libx264", "-preset", "ultrafast", clip)
        with Showing("-o", kept, f"--json={summary}", verb=("segment", "--focus", "off", "-re", clip),
                     output="[crf=2:filter=scale=320\\:-2]http://127.0.0.1:0/") as s, Viewer(s) as v:
            seen = []
            while got := v.read():
                seen.append(got)
            s.thread.join()
        self.assertEqual((s.status, seen[-1][0]), (0, 2.9))
        self.assertGreater(len(seen), 5)
        (self.tmp / "last.jpg").write_bytes(seen[-1][1])
        # Apart from what two encoders lose, the last picture of the file.
        psnr = subprocess.run(["ffmpeg", "-v", "info", "-nostdin", "-i", self.tmp / "last.jpg", "-ss", "2.9", "-i", kept, "-lavfi",
                               "[1]scale=320:-2[a];[0]format=yuv420p[b];[a][b]psnr", "-f", "null", "-"],
                              capture_output=True, text=True, check=True).stderr
        self.assertGreater(float(re.search(r"average:([\d.]+|inf)", psnr).group(1)), 30, psnr)
        outputs = json.loads(summary.read_text())["outputs"]
        self.assertEqual([(o["frames"], o["error"]) for o in outputs], [(30, None), (30, None)])
        self.assertGreater(outputs[0]["bytes"], sum(len(data) for _, data in seen) - 1)

    def test_colours(self):
        """Those of BT.709 and BT.601, of either range, as ffmpeg's own conversion gives them; a large picture has BT.709 unsaid."""
        for size, tags in [("1280x720", []), ("320x180", []), ("320x180", ["bt709", "tv"]), ("321x181", ["bt709", "pc"]),
                           ("320x180", ["smpte170m", "pc"])]:
            clip, wanted, seen = self.tmp / "c.mkv", [], []
            matrix = tags[0] if tags else "bt709" if size == "1280x720" else "smpte170m"
            scale = f"scale=out_color_matrix={matrix.replace('smpte170m', 'bt601')}:out_range={tags[1] if tags else 'tv'}"
            ffmpeg("-f", "lavfi", "-i", f"smptehdbars=s={size}:r=5:d=30,format=gbrp", "-vf", f"{scale},format=yuv420p", "-c:v", "ffv1",
                   *(["-colorspace", tags[0], "-color_range", tags[1]] if tags else []), clip)
            with Showing("-crf", "2", verb=("detect", "-re", clip)) as s:
                (self.tmp / "seen.jpg").write_bytes(s.picture())
            source = f"in_color_matrix={matrix.replace('smpte170m', 'bt601')}:in_range={tags[1] if tags else 'tv'}"
            for path, extra in [(clip, source), (self.tmp / "seen.jpg", "in_color_matrix=bt601:in_range=pc")]:
                (wanted if path == clip else seen).extend(subprocess.run(
                    ["ffmpeg", "-v", "error", "-i", path, "-frames:v", "1", "-vf", f"scale={extra},format=rgb24,scale=16:4:flags=area", "-f",
                     "rawvideo", "-"], capture_output=True, check=True).stdout)
            self.assertEqual(len(seen), 16 * 4 * 3)
            self.assertLess(sum(abs(a - b) for a, b in zip(wanted, seen)) / len(seen), 2, (size, tags))
            self.assertLess(max(abs(a - b) for a, b in zip(wanted, seen)), 12, (size, tags))

    def test_who_stalls_holds_up_nobody(self):
        """A viewer that takes nothing, while another sees each picture; then it gets the newest one."""
        verb = ("segment", "--focus", "off", "--mode", "replace", "--background", "#208040", "-re",
                "null:1280x720@30,frames=10000000")
        with Showing("-crf", "2", verb=verb) as s:
            stalled = socket.socket()
            stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stalled.connect((s.host.split(":")[0], int(s.host.split(":")[1])))
            self.addCleanup(stalled.close)
            stalled.sendall(b"GET /stream.mjpg HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with Viewer(s) as v:
                times = [v.read()[0] for _ in range(60)]
            gaps = sorted(b - a for a, b in zip(times, times[1:]))
            self.assertLess(gaps[len(gaps) // 2], 0.1)
            late = times[-1]
            data = b""
            stamps = []
            while not stamps or stamps[-1] < late:  # what it missed is left out, except what the system held
                data += stalled.recv(1 << 16)
                stamps = [float(t) for t in re.findall(rb"X-Timestamp: ([\d.]+)\r", data)]
            self.assertGreater(max(b - a for a, b in zip(stamps, stamps[1:])), 0.5, stamps)
            began = time.monotonic()
        self.assertLess(time.monotonic() - began, 10)
        self.assertEqual(s.status, 130)

    def test_a_crowd(self):
        if not files_allowed(2000):
            self.skipTest("2000 files at once are not allowed here")
        with Showing() as s, Viewer(s) as v, Crowd(s.host, idle=1000, half_open=1000) as crowd:
            for _ in range(5):
                crowd.keep(0)
                began = time.monotonic()
                s.picture()
                self.assertIsNotNone(v.read())
                self.assertLess(time.monotonic() - began, 5)
            began = time.monotonic()
            self.assertEqual(s.end(), 130)
            self.assertLess(time.monotonic() - began, 10)

    def test_no_more_viewers_than_there_is_room(self):
        with Showing() as s:
            viewers = [Viewer(s) for _ in range(64)]
            self.assertEqual(s.code("/stream.mjpg"), 503)
            self.assertEqual(s.code("/"), 200)
            viewers.pop().answer.close()
            while s.code("/stream.mjpg", "HEAD") == 503:  # it is seen to be gone with the next picture
                self.assertIsNone(s.p.poll())
            for v in viewers:
                self.assertIsNotNone(v.read())
                v.answer.close()

    def test_token(self):
        path = self.tmp / "token"
        path.write_text(TOKEN + "\n")
        path.chmod(0o600)
        basic = base64.b64encode(f"me:{TOKEN}".encode()).decode()
        with Showing("--output-token-file", path, output="http://0.0.0.0:0/") as s:
            s.host = "127.0.0.1:" + s.host.split(":")[1]
            for token in [None, TOKEN, "Bearer x", "Basic " + TOKEN, "Basic " + base64.b64encode(b"me:x").decode()]:
                self.assertEqual(s.code("/stream.mjpg", **({"Authorization": token} if token else {})), 401, token)
            for token in ["Bearer " + TOKEN, "Basic " + basic]:
                self.assertEqual(s.code("/", Authorization=token, Host="camera.example"), 200)
            self.assertEqual(s.code("/healthz"), 200)

    def refused(self, *args, status=2):
        p = common.run("segment", "null:320x180@30,frames=1", *args, check=False)
        self.assertEqual(p.returncode, status, p.stderr)
        return p.stderr

    def test_what_is_refused(self):
        self.assertIn("a token is needed", self.refused("-o", "http://0.0.0.0:0/"))
        for name in ["http://127.0.0.1/", "http://8090/", "http://:/", "http://127.0.0.1:0/live", "http://:99999/", "http://"]:
            self.refused("-o", name)
        self.assertIn("[codec=libx264]", self.refused("-o", "http://:0/", "-c:v", "libx264"))
        self.assertIn("[f=mp4]", self.refused("-o", "http://:0/", "-f", "mp4"))
        self.assertIn("--resume", self.refused("-o", "http://:0/", "--resume", status=1))
        self.assertIn("protocol", self.refused("-o", "https://127.0.0.1:0/", status=1))
        with Showing() as s:
            self.assertIn("is the port taken", self.refused("-o", f"http://{s.host}/", status=1))

    def test_chromium_shows_it(self):
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        if not chromium:
            self.skipTest("there is no Chromium")
        shot = self.tmp / "shot.png"
        ffmpeg("-f", "lavfi", "-i", "color=c=#c02040:s=320x180:r=30:d=120", "-c:v", "libx264", "-preset", "ultrafast", self.tmp / "in.mp4")
        verb = ("detect", "-re", self.tmp / "in.mp4")
        with Showing(verb=verb) as s:
            s.picture()
            subprocess.run([chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-proxy-server", "--window-size=640,480",
                            "--timeout=3000", f"--user-data-dir={self.tmp / 'chromium'}", f"--screenshot={shot}",
                            f"http://{s.host}/"], check=True, capture_output=True, timeout=120)
        raw = subprocess.run(["ffmpeg", "-v", "error", "-i", shot, "-vf", "crop=8:8:300:180,scale=1:1", "-f", "rawvideo", "-pix_fmt",
                              "rgb24", "-"], capture_output=True, check=True).stdout
        for got, wanted in zip(raw, (0xc0, 0x20, 0x40)):
            self.assertAlmostEqual(got, wanted, delta=16)


if __name__ == "__main__":
    if "built without libmicrohttpd" in common.run("segment", "null:320x180@30,frames=1", "-o", "http://:0/", check=False).stderr:
        print("built without libmicrohttpd")
        sys.exit(77)
    common.main()
