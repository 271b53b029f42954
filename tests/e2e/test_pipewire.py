"""-o pipewire: a daemon of its own, and GStreamer as the program that looks."""
import os
import pathlib
import shutil
import signal
import subprocess
import time
import unittest

import common
from common import ffmpeg

WIDTH, HEIGHT = 320, 240


class PipeWire(common.Case):
    @classmethod
    def setUpClass(cls):
        for tool in ("pipewire", "wireplumber", "dbus-run-session", "gst-launch-1.0", "gst-inspect-1.0"):
            if not shutil.which(tool):
                raise unittest.SkipTest(f"there is no {tool}")
        if subprocess.run(["gst-inspect-1.0", "pipewiresrc"], capture_output=True).returncode:
            raise unittest.SkipTest("GStreamer has no pipewiresrc")

    def setUp(self):
        super().setUp()
        folder = self.tmp / "run"
        folder.mkdir(mode=0o700)
        self.env = {**os.environ, "XDG_RUNTIME_DIR": str(folder), "XDG_STATE_HOME": str(self.tmp / "state")}
        self.clip = self.tmp / "in.mkv"  # red and blue, for ten minutes
        ffmpeg("-f", "lavfi", "-i", f"color=red:s={WIDTH // 2}x{HEIGHT}:r=20:d=600[a];color=blue:s={WIDTH // 2}x{HEIGHT}:r=20:d=600[b];"
               "[a][b]hstack", "-c:v", "mpeg4", "-q:v", 2, self.clip)

    def start(self, *args):
        p = subprocess.Popen(list(map(str, args)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.env,
                             start_new_session=True)
        self.addCleanup(p.stdout.close)
        self.addCleanup(self.stop, p)
        return p

    def stop(self, p):
        """The process with what it started."""
        try:
            os.killpg(p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        p.wait()

    def daemon(self):
        daemon = self.start("pipewire")
        until = time.monotonic() + 60
        while not (pathlib.Path(self.env["XDG_RUNTIME_DIR"]) / "pipewire-0").exists():
            self.assertLess(time.monotonic(), until)
            time.sleep(0.02)
        self.manager = self.start("dbus-run-session", "--", "wireplumber")  # joins who looks and what is shown
        return daemon

    def run_to(self, *args):
        p = self.start(common.TACHY, "detect", "-re", self.clip, *args)
        while "node" not in (line := p.stdout.readline()):
            self.assertTrue(line, "no node")
        return p

    def look(self, name, caps):
        """The last of five pictures, as RGB rows."""
        out = self.tmp / "seen.rgb"
        p = None
        for _ in range(20):  # the session manager may not be ready
            p = self.start("gst-launch-1.0", "-q", "pipewiresrc", f"target-object={name}", "num-buffers=5", "!", caps, "!", "videoconvert", "!",
                           "video/x-raw,format=RGB", "!", "filesink", f"location={out}")
            while p.poll() is None:
                if self.manager.poll() is not None:  # it wants systemd-logind, which a container may lack
                    self.skipTest(f"wireplumber does not run here: {self.manager.stdout.read()[-300:]}")
                time.sleep(0.05)
            if p.returncode == 0 and out.stat().st_size == 5 * WIDTH * HEIGHT * 3:
                return out.read_bytes()[-WIDTH * HEIGHT * 3:]
            time.sleep(0.2)
        self.fail(p.stdout.read())

    def test_seen_by_gstreamer(self):
        daemon = self.daemon()
        kept = self.tmp / "kept.mkv"
        p = self.run_to("-o", "pipewire:booth", "-o", kept)
        for caps in ("video/x-raw,format=I420", "video/x-raw,format=YUY2", "video/x-raw,format=BGRx"):
            picture = self.look("booth", caps)
            for y in (5, 120, 235):
                for x, colour in ((20, (255, 0, 0)), (150, (255, 0, 0)), (170, (0, 0, 255)), (310, (0, 0, 255))):
                    at = 3 * (y * WIDTH + x)
                    self.assertEqual(tuple(255 * (c > 127) for c in picture[at:at + 3]), colour, (caps, x, y))
        self.stop(daemon)  # the other output goes on
        while "booth" not in (line := p.stdout.readline()):
            self.assertTrue(line, "the run says nothing of the node that is gone")
        self.assertIn("PipeWire is gone", line)
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=120)
        self.assertGreater(int(common.ffprobe(kept, "-count_packets")["streams"][0]["nb_read_packets"]), 0)

    def test_without_a_daemon(self):
        p = self.start(common.TACHY, "detect", "-re", self.clip, "-o", "pipewire")
        text = p.communicate(timeout=120)[0]
        self.assertNotEqual(p.returncode, 0)
        self.assertIn("is its daemon running?", text)


if __name__ == "__main__":
    common.main()
