"""Servers that fall silent: given up with a sentence after --timeout, while opening and while reading."""
import concurrent.futures
import os
import socket
import subprocess
import threading
import time

from common import TACHY, Case, ffmpeg, ffprobe, main, models, run

SDP = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nt=0 0\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:1\r\n"


class Server:
    """Answers each connection in a thread of its own by `serve(connection)`, then keeps it open and says nothing."""

    def __init__(self, serve):
        self.serve, self.open = serve, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection = self.socket.accept()[0]
            except OSError:
                return  # closed
            self.open.append(connection)
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection):
        try:
            self.serve(connection)
        except OSError:
            pass  # the other side has gone, as it should

    def close(self):
        for s in (self.socket, *self.open):
            s.close()


def request(connection):
    """One request's text, without a body."""
    text = b""
    while b"\r\n\r\n" not in text:
        data = connection.recv(4096)
        if not data:
            raise OSError("gone")
        text += data
    return text.decode()


def nothing(connection):
    pass


def rtsp(last):
    """Answers up to the method `last`, which it leaves without an answer."""
    def serve(connection):
        while True:
            lines = request(connection).split("\r\n")
            method = lines[0].split()[0]
            if method == last:
                return
            number = next(l for l in lines if l.startswith("CSeq"))
            extra = {"DESCRIBE": f"Content-Type: application/sdp\r\nContent-Length: {len(SDP)}\r\n",
                     "SETUP": "Session: 1\r\nTransport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n"}.get(method, "")
            body = SDP if method == "DESCRIBE" else ""
            connection.sendall(f"RTSP/1.0 200 OK\r\n{number}\r\n{extra}\r\n{body}".encode())
    return serve


def stream(data, length, pieces=1, pause=0.0):
    """`data` over HTTP, in pieces, of a file of `length` bytes; then silence."""
    def serve(connection):
        request(connection)
        connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Type: video/mp2t\r\nContent-Length: {length}\r\n\r\n".encode())
        step = -(-len(data) // pieces)
        for at in range(0, len(data), step):
            connection.sendall(data[at:at + step])
            time.sleep(pause)
    return serve


class Timeout(Case):
    def server(self, serve):
        s = Server(serve)
        self.addCleanup(s.close)
        return s.address

    def clip(self, seconds=4):
        path = self.tmp / "a.ts"
        ffmpeg("-f", "lavfi", "-i", f"testsrc2=s=320x180:r=25:d={seconds}", "-c:v", "libx264", "-g", 25, "-preset",
               "ultrafast", path)
        return path.read_bytes()

    def given_up(self, p, url, seconds):
        self.assertEqual(p.returncode, 75, p.stderr)
        for word in (url, f"sent nothing for {seconds} s", "--timeout"):
            self.assertIn(word, p.stderr.splitlines()[-1])
        self.assertEqual(p.stderr.count("sent nothing"), 1, p.stderr)

    def test_silence_while_opening(self):
        half = self.clip()[:2000]  # too little to know the stream by
        urls = (f"http://{self.server(nothing)}/a.mp4", f"http://{self.server(stream(half, 10 ** 6))}/a.ts",
                f"rtsp://{self.server(nothing)}/a", f"rtsp://{self.server(rtsp('SETUP'))}/a",
                f"rtsp://{self.server(rtsp('PLAY'))}/a", f"tcp://{self.server(nothing)}")
        runs = [(verb, url, *rest) for url in urls for verb, *rest in (("probe",), ("segment", "-f", "null", "-"))]
        with concurrent.futures.ThreadPoolExecutor(len(runs)) as pool:  # they only wait
            ends = list(pool.map(lambda r: run(*r, "--timeout", 0.5, check=False), runs))
        for r, p in zip(runs, ends):
            with self.subTest(r):
                self.given_up(p, r[1], 0.5)

    def test_ten_seconds_by_default(self):
        url = f"http://{self.server(nothing)}/a.mp4"
        start = time.monotonic()
        self.given_up(run("probe", url, check=False), url, 10)
        self.assertGreater(time.monotonic() - start, 9.9)

    def test_silence_while_reading(self):
        data = self.clip()
        url = f"http://{self.server(stream(data[:len(data) // 2], len(data)))}/a.ts"
        out = self.tmp / "o.mkv"
        self.given_up(run("segment", url, "--timeout", 0.5, "-preset", "ultrafast", "-o", out, check=False), url, 0.5)
        frames = int(ffprobe(out, "-count_frames")["streams"][0]["nb_read_frames"])
        self.assertTrue(25 <= frames < 100, frames)

    def test_slow_is_not_silent(self):
        data = self.clip()
        url = f"http://{self.server(stream(data, len(data), pieces=30, pause=0.2))}/a.ts"
        out = self.tmp / "o.mkv"
        start = time.monotonic()
        run("segment", url, "--timeout", 4, "-preset", "ultrafast", "-o", out)
        self.assertGreater(time.monotonic() - start, 5)  # the whole took longer than the silence that is allowed
        self.assertEqual(ffprobe(out, "-count_frames")["streams"][0]["nb_read_frames"], "100")

    def test_pipes_only_where_asked_for(self):
        with subprocess.Popen([TACHY, "probe", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
            with self.assertRaises(subprocess.TimeoutExpired):
                p.wait(1)
            p.stdin.write(self.clip(1))
            p.stdin.close()
            self.assertIn(b"h264", p.stdout.read())
        read, write = os.pipe()  # nothing comes, and no end
        self.addCleanup(os.close, write)
        with os.fdopen(read) as silent:
            p = run("probe", "-", "--timeout", 0.5, stdin=silent, check=False)
        self.given_up(p, "pipe:0", 0.5)


models("selfie")
main()
