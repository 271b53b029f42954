"""Several outputs of one run, judged by ffprobe and ffmpeg."""
import atexit
import json
import pathlib
import signal
import socket
import subprocess
import threading
import time

import common
from common import ffmpeg, ffprobe


def count_frames(path):
    out = subprocess.run(["ffprobe", "-v", "error", "-count_frames", "-select_streams", "v:0", "-show_entries",
                          "stream=nb_read_frames", "-of", "csv=p=0", str(path)], check=True, capture_output=True, text=True)
    return int(out.stdout.strip().strip(","))


class Watched:
    """The command, and what it says while it runs."""

    def __init__(self, *args, stdout=subprocess.DEVNULL):
        self.p = subprocess.Popen([common.TACHY, *map(str, args)], stdout=stdout, stderr=subprocess.PIPE, text=True)
        self.said, self.news = "", threading.Condition()
        self.thread = threading.Thread(target=self.listen, daemon=True) # a test that fails does not wait for it
        atexit.register(self.p.kill)
        self.thread.start()

    def listen(self):
        for line in self.p.stderr:
            with self.news:
                self.said += line
                self.news.notify_all()
        with self.news:
            self.p.wait()
            self.news.notify_all()

    def wait_for(self, text, seconds=120):
        with self.news:
            self.news.wait_for(lambda: text in self.said or self.p.returncode is not None, seconds)
            assert text in self.said, f"no {text!r} in\n{self.said}"

    def end(self):
        """Ctrl-C; the exit status."""
        self.p.send_signal(signal.SIGINT)
        self.thread.join(120)
        for pipe in (self.p.stdout, self.p.stderr):
            if pipe:
                pipe.close()
        return self.p.returncode


class Outputs(common.Case):
    def setUp(self):
        super().setUp()
        self.clip = self.tmp / "in.mp4"
        ffmpeg("-f", "lavfi", "-i", "testsrc2=s=160x90:r=25:d=1", "-f", "lavfi", "-i", "sine=440:d=1", "-c:v", "libx264",
               "-preset", "ultrafast", self.clip)

    def test_pictures_text_and_pipe(self):
        """Video with sound twice, lines, rows, and Y4M that ffmpeg reads from standard output."""
        config = self.tmp / "c.yaml"
        config.write_text("output:\n  overwrite: yes\n  file:\n" + "".join(f"    - '{name}'\n" for name in (
            self.tmp / "a.mkv", f"[crf=40:f=mp4]{self.tmp / 'b.bin'}", self.tmp / "a.jsonl", self.tmp / "a.csv",
            "[f=yuv4mpegpipe]-")))
        tachy = subprocess.Popen([common.TACHY, "detect", "-c", config, self.clip, f"--json={self.tmp / 's.json'}"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        got = subprocess.run(["ffmpeg", "-v", "error", "-f", "yuv4mpegpipe", "-i", "-", "-f", "framemd5", "-"],
                             stdin=tachy.stdout, capture_output=True, text=True, check=True).stdout
        self.assertEqual(tachy.wait(60), 0, tachy.stderr.read())
        tachy.stderr.close()
        tachy.stdout.close()
        alone = common.run("detect", self.clip, "-f", "framemd5", "-o", "-").stdout
        sums = [[line.split(",")[-1].strip() for line in text.splitlines() if not line.startswith("#")] for text in (got, alone)]
        self.assertEqual(len(sums[0]), 25)
        self.assertEqual(*sums)
        for name in ("a.mkv", "b.bin"):
            info = ffprobe(self.tmp / name, "-count_packets")
            kinds = {s["codec_type"]: int(s["nb_read_packets"]) for s in info["streams"]}
            self.assertEqual(kinds["video"], 25)
            self.assertEqual(kinds["audio"], int(ffprobe(self.clip, "-count_packets")["streams"][1]["nb_read_packets"]))
        self.assertLess((self.tmp / "b.bin").stat().st_size, (self.tmp / "a.mkv").stat().st_size)
        self.assertEqual([json.loads(line)["frame"] for line in (self.tmp / "a.jsonl").read_text().splitlines()], list(range(25)))
        self.assertTrue((self.tmp / "a.csv").read_text().startswith("frame,"))
        outputs = json.loads((self.tmp / "s.json").read_text())["outputs"]
        self.assertEqual([o["frames"] for o in outputs], 5 * [25])
        self.assertEqual({o["error"] for o in outputs}, {None})

    def test_segment_in_both_forms(self):
        """Pictures and lines of one run are those of two."""
        names = ["a.mkv", "a.jsonl", "[f=framemd5]a.md5"]
        common.run("segment", self.clip, "--mode", "side-by-side", *(x for name in names for x in ("-o", name)), cwd=self.tmp)
        lines = common.run("segment", "--mode", "json", self.clip, "-o", "-").stdout
        sums = common.run("segment", "--mode", "side-by-side", self.clip, "-f", "framemd5", "-o", "-").stdout
        self.assertEqual((self.tmp / "a.jsonl").read_text(), lines)
        self.assertEqual((self.tmp / "a.md5").read_text(), sums)
        self.assertEqual(count_frames(self.tmp / "a.mkv"), 25)

    def test_reader_goes(self):
        """The pipe's reader leaves after the first bytes: the file is whole, the exit status says that something failed."""
        out = self.tmp / "kept.mkv"
        p = subprocess.Popen([common.TACHY, "detect", self.clip, "-o", "[f=yuv4mpegpipe]-", "-o", out, "-an"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        p.stdout.close()
        err = p.stderr.read()
        self.assertEqual(p.wait(60), 1, err)
        p.stderr.close()
        self.assertIn("its reader has gone", err)
        self.assertIn("1 of 2 outputs failed", err)
        self.assertEqual(count_frames(out), 25)

    def test_stop_keeps_the_others(self):
        """Ctrl-C while a pipe takes nothing: it is given up, the other output is whole."""
        out = self.tmp / "kept.mkv"
        p = Watched("detect", "--live", "null:320x180@50,frames=100000", "-o", f"[preset=ultrafast]{out}", "-o", "[f=rawvideo]-",
                    stdout=subprocess.PIPE)
        p.wait_for("takes no frames")
        self.assertNotEqual(p.end(), 0)
        self.assertIn("its reader takes nothing", p.said)
        self.assertGreater(count_frames(out), 10)

    def test_refused(self):
        for args, part in ((["-o", "a.mp4", "-o", "a.mp4"], "twice"), (["-o", "a.mp4", "-o", "d/"], "one input"),
                           (["-o", "-", "-o", "a.mp4"], "give it with -f"), (["-o", "[q=1:f=mp4]a", "-o", "[f=mp4:q=1]b"], "no option"),
                           (["-o", "a.mkv", "-o", "b.mkv", "--resume"], "--resume takes one output")):
            p = common.run("detect", self.clip, *args, check=False, cwd=self.tmp)
            self.assertEqual(p.returncode, 2, p.stderr)
            self.assertIn(part, p.stderr)
        p = common.run("model", "import", "x.tflite", "-o", "a", "-o", "b", check=False)
        self.assertEqual(p.returncode, 2)
        self.assertIn("give -o once", p.stderr)


def until(condition, what):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


class Push(common.Case):
    """To a second ffmpeg, which listens."""

    def receive(self, port, path):
        p = subprocess.Popen(["ffmpeg", "-v", "error", "-nostdin", "-y", "-analyzeduration", "100000", "-listen", "1", "-i", f"rtmp://127.0.0.1:{port}/live/x",
                              "-c", "copy", "-flush_packets", "1", path], stderr=subprocess.DEVNULL)
        self.addCleanup(p.kill)
        def is_there():
            """It listens, or is connected already: a sender that tries again may be quick, and then ffmpeg listens no more."""
            sockets = (line.split()[1:4] for line in pathlib.Path("/proc/net/tcp").read_text().splitlines())
            return any(own == f"0100007F:{port:04X}" and state in ("0A", "01") for own, _, state in sockets)

        until(is_there, "ffmpeg does not listen")
        return p

    def test_connects_again(self):
        """The receiver is killed and another one comes: it gets pictures, the file beside it has them all."""
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        files = [self.tmp / name for name in ("1.flv", "2.flv")]
        first = self.receive(port, files[0])
        p = Watched("detect", "--live", "null:320x180@50,frames=100000", "-o", f"[preset=ultrafast]{self.tmp / 'all.mkv'}", "-o",
                    f"rtmp://127.0.0.1:{port}/live/x", f"--json={self.tmp / 's.json'}")
        until(lambda: files[0].exists() and files[0].stat().st_size > 3000, "nothing is received")
        first.kill()
        first.wait()
        p.wait_for("the connection was lost")
        second = self.receive(port, files[1])
        p.wait_for("connected again")
        until(lambda: files[1].exists() and files[1].stat().st_size > 3000, "nothing is received again")
        p.end()
        second.wait(60)
        for path in files:
            self.assertGreater(count_frames(path), 2)
        kept, sent = json.loads((self.tmp / "s.json").read_text())["outputs"]
        self.assertEqual(count_frames(self.tmp / "all.mkv"), kept["frames"])
        self.assertGreater(sent["shed"], 0)
        self.assertEqual(sent["frames"] + sent["shed"], kept["frames"] + kept["shed"])

    def test_nobody_listens(self):
        with socket.socket() as s: # bound, but it does not listen
            s.bind(("127.0.0.1", 0))
            p = common.run("detect", "null:64x48@25,frames=5", "-o", f"tcp://127.0.0.1:{s.getsockname()[1]}", check=False)
        self.assertEqual(p.returncode, 75, p.stderr)
        self.assertIn("cannot be connected to: Connection refused", p.stderr)


if __name__ == "__main__":
    common.main()
