"""Cameras, by a stand-in for the kernel's that is preloaded into the command (tests/unit/fake_camera.c)."""
import http.server
import json
import os
import signal
import subprocess
import threading
import time

import common
from common import ffmpeg, ffprobe

FAKE = os.environ.get("TACHY_TEST_CAMERA", str(common.ROOT / "build/tests/unit/fake_camera.so"))


def has_devices():
    return "v4l2" in subprocess.run(["ffmpeg", "-hide_banner", "-devices"], capture_output=True, text=True).stdout


class Camera(common.Case):
    def setUp(self):
        super().setUp()
        if common.SANITIZER:
            self.skipTest("the stand-in is preloaded, which sanitizers want to be first in")
        ffmpeg("-f", "lavfi", "-i", "testsrc2=s=1280x720:r=10:d=1", "-start_number", 0, "-q:v", 5, self.tmp / "%d.jpg")

    def tachy(self, *args, wait=True, **env):
        env = {**os.environ, "LD_PRELOAD": FAKE, "TACHY_FAKE_CAMERA": str(self.tmp), **env}
        p = subprocess.Popen([common.TACHY, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        if not wait:
            return p
        p.out, p.err = p.communicate(timeout=120)
        return p

    def test_list(self):
        p = self.tachy("probe", "--cameras", "--json")
        cameras = json.loads(p.out)["cameras"]
        self.assertEqual([(c["path"], c["name"], c["driver"], c["bus"]) for c in cameras],
                         [("/dev/video0", "Test camera", "fake", "usb-1")])
        formats = {f["fourcc"]: f for f in cameras[0]["formats"]}
        self.assertEqual([(f["format"], f["compressed"]) for f in formats.values()],
                         [("yuyv422", False), ("mjpeg", True), (None, False)])
        self.assertEqual(formats["MJPG"]["sizes"][0], {"width": 640, "height": 480, "rates": ["60/1", "30/1"]})
        text = self.tachy("probe", "--cameras").out
        self.assertIn("/dev/video0: Test camera (fake, usb-1)\n  yuyv422           320x240 at 30, 15 fps\n", text)
        self.assertIn("BA81, not read", text)
        self.assertEqual(self.tachy("probe", "--cameras", "x.mp4").returncode, 2)

    def test_none(self):
        self.assertEqual(json.loads(common.run("probe", "--cameras", "--json").stdout)["cameras"], [])
        p = common.run("detect", "/dev/video63", "-f", "null", check=False)
        self.assertEqual(p.returncode, 1)
        self.assertIn("no such camera", p.stderr)

    def test_no_screen(self):
        if not has_devices():
            self.skipTest("this FFmpeg has no screens")
        p = self.tachy("segment", "-i", "screen", "-f", "null", DISPLAY="")
        self.assertEqual(p.returncode, 1)
        self.assertIn("screen: no X display can be opened; is DISPLAY set", p.err)

    def detect(self, *args, **env):
        """What a run of ten frames says and writes."""
        if not has_devices():
            self.skipTest("this FFmpeg has no cameras")
        out = self.tmp / "out.mkv"
        p = self.tachy("detect", "/dev/video0", "--max-frames", 10, "-y", "-o", out, *args, **env)
        self.assertEqual(p.returncode, 0, p.err)
        return p.err, ffprobe(out, "-show_frames", "-select_streams", "v:0")

    def test_the_largest_up_to_720(self):
        said, info = self.detect()
        self.assertIn("/dev/video0 is Test camera: 1280x720, 30 fps, mjpeg", said)
        self.assertEqual((info["streams"][0]["width"], info["streams"][0]["height"]), (1280, 720))
        times = [float(f["pts_time"]) for f in info["frames"]]
        self.assertEqual((len(times), times[0]), (10, 0))
        for a, b in zip(times, times[1:]):
            self.assertAlmostEqual((b - a) * 30, round((b - a) * 30), delta=0.1)

    def test_size_rate_and_format(self):
        for args, says in [(["--camera-size", "640x480"], "640x480, 60 fps, mjpeg"),
                           (["--camera-size", "640x480", "--camera-rate", "25"], "640x480, 30 fps, mjpeg"),
                           (["--camera-size", "1920x1080"], "1920x1080, 30 fps, mjpeg"),
                           (["--camera-rate", "60"], "640x480, 60 fps, mjpeg"),
                           (["--camera-format", "yuyv422", "--camera-rate", "10"], "320x240, 15 fps, yuyv422")]:
            p = self.tachy("detect", "/dev/video0", "--max-frames", 2, "-f", "null", *args)
            self.assertIn(says, p.err, args)
        for args in [["--camera-size", "999x333"], ["--camera-rate", "120"], ["--camera-format", "h264"]]:
            p = self.tachy("detect", "/dev/video0", "-f", "null", *args)
            self.assertEqual(p.returncode, 1)
            self.assertIn("probe --cameras", p.err)

    def test_raw_pictures_are_those_of_the_camera(self):
        if not has_devices():
            self.skipTest("this FFmpeg has no cameras")
        p = self.tachy("detect", "/dev/video0", "--camera-size", "320x240", "--max-frames", 8, "-c:v", "ffv1", "-o",
                       self.tmp / "out.mkv")
        self.assertEqual(p.returncode, 0, p.err)
        raw = subprocess.run(["ffmpeg", "-v", "error", "-i", self.tmp / "out.mkv", "-vf", "extractplanes=y,scale=1:1", "-f", "rawvideo",
                              "-pix_fmt", "gray", "-fps_mode", "passthrough", "-"], capture_output=True, check=True).stdout
        self.assertEqual(len(raw), 8)
        self.assertEqual(sorted(set(raw)), list(raw))  # each has its own number, in order

    def test_exposure(self):
        if not has_devices():
            self.skipTest("this FFmpeg has no cameras")
        for given, chroma in [(5.5, 128 + 55), (0, 128)]:
            out = self.tmp / "out.mkv"
            p = self.tachy("detect", "/dev/video0", "--camera-size", "320x240", "--exposure", given, "--max-frames", 2, "-c:v", "ffv1",
                           "-y", "-o", out)
            self.assertEqual(p.returncode, 0, p.err)
            raw = subprocess.run(["ffmpeg", "-v", "error", "-i", out, "-vf", "extractplanes=u,scale=1:1", "-f", "rawvideo", "-pix_fmt",
                                  "gray", "-"], capture_output=True, check=True).stdout
            self.assertEqual(set(raw), {chroma})
        p = self.tachy("detect", "/dev/video0", "--exposure", 20, "-f", "null", "-")
        self.assertEqual(p.returncode, 1)
        self.assertIn("--exposure 20: /dev/video0 takes 1 to 10 milliseconds", p.err)

    def test_one_that_is_not_there_stops_no_other(self):
        if not has_devices():
            self.skipTest("this FFmpeg has no cameras")
        cameras = ("/dev/video63", "/dev/video0")
        p = self.tachy("detect", "--live", "--parallel", 2, *cameras, "--max-frames", 10, "--json=-", "-o", f"{self.tmp}/out/")
        self.assertEqual(p.returncode, 1)
        self.assertIn("/dev/video63: there is no such camera", p.err)
        self.assertIn("the other inputs go on", p.err)
        o = json.loads(p.out)
        self.assertEqual((o["input"], o["frames"] + o["shed_frames"]), ("/dev/video0", 10))

    def test_one_camera_makes_no_batches(self):
        said, _ = self.detect("--batch", "4")
        self.assertEqual(said.count("batches of 4 are taken as 1"), 1)
        (self.tmp / "live.yaml").write_text("version: 1\nmodel: {batch_size: 4}\n")
        said, _ = self.detect("-c", self.tmp / "live.yaml")
        self.assertIn("live.yaml:2: batches of 4 are taken as 1", said)
        self.assertNotIn("taken as 1", self.detect()[0])

    def test_a_camera_that_moves_a_portrait_makes_no_batches(self):
        portrait = common.DEPS / "media/astronaut.png"
        if not has_devices() or not portrait.exists():
            self.skipTest("this FFmpeg has no cameras, or the test media are not here (tools/setup --tests)")
        common.models("face", "face-mesh")
        (self.tmp / "live.yaml").write_text("version: 1\nanimation: {batch_size: 4}\n")
        p = self.tachy("animate", "--image", portrait, "/dev/video0", "--max-frames", 3, "-c", self.tmp / "live.yaml", "-f", "null", "-")
        self.assertEqual(p.returncode, 0, p.err)
        self.assertEqual(p.err.count("batches of"), 1, p.err)
        self.assertIn("live.yaml:2: batches of 4 are taken as 1: waiting for a camera's next pictures costs more", p.err)

    def shown(self, clip, takes, size, pix_fmt, mode="side-by-side"):
        """What an output device is given, and FFmpeg's of the same pictures."""
        device, file = self.tmp / "device.raw", self.tmp / "same.mp4"
        p = self.tachy("segment", clip, "--mode", mode, "--provider", "null", "-o", "/dev/video1", "-o", file, "-crf", 0,
                       "-y", TACHY_FAKE_OUTPUT=str(device), TACHY_FAKE_OUTPUT_TAKES=takes)
        self.assertEqual(p.returncode, 0, p.err)
        self.assertIn(f"/dev/video1: takes {size}, {pix_fmt}", p.err)
        filters = ["-vf", "scale=64:48:flags=bicubic"] if size == "64x48" else []
        return device.read_bytes(), subprocess.run(["ffmpeg", "-v", "error", "-i", file, *filters, "-f", "rawvideo", "-pix_fmt", pix_fmt,
                                                    "-"], capture_output=True, check=True).stdout

    def test_output_device(self):
        clip = self.tmp / "clip.mkv"
        ffmpeg("-f", "lavfi", "-i", "testsrc2=s=160x90:r=10:d=0.5", "-pix_fmt", "yuv420p", "-c:v", "ffv1", clip)
        got, same = self.shown(clip, "YU12", "320x90", "yuv420p")
        self.assertEqual(len(got), 5 * 320 * 90 * 3 // 2)
        self.assertEqual(got, same)
        got, same = self.shown(clip, "YUYV 64x48 160", "64x48", "yuyv422")  # rows of 160 bytes hold 128
        self.assertEqual(len(got), 5 * 48 * 160)
        rows = [got[i:i + 128] for i in range(0, len(got), 160)]
        mean = sum(abs(a - b) for a, b in zip(b"".join(rows), same)) / len(same)
        self.assertEqual(len(same), 5 * 48 * 128)
        self.assertLess(mean, 2)
        turned = self.tmp / "turned.mp4"
        ffmpeg("-i", clip, "-c:v", "libx264", "-qp", 0, self.tmp / "flat.mp4")
        ffmpeg("-i", self.tmp / "flat.mp4", "-c", "copy", "-metadata:s:v", "rotate=90", turned)
        got, same = self.shown(turned, "YU12", "90x160", "yuv420p", "mask")
        self.assertEqual(len(got), 5 * 90 * 160 * 3 // 2)
        self.assertEqual(got, same)

    def test_what_is_no_output_device(self):
        clip = self.tmp / "0.jpg"
        p = self.tachy("segment", clip, "-o", "/dev/video0")  # a camera
        self.assertEqual(p.returncode, 1)
        self.assertIn("/dev/video0: takes no pictures; name an output device", p.err)
        p = self.tachy("segment", clip, "-o", "/dev/video63")
        self.assertEqual(p.returncode, 1)
        self.assertIn("/dev/video63: cannot be opened: No such file", p.err)
        p = self.tachy("segment", clip, "--provider", "null", "-o", "/dev/video1", TACHY_FAKE_OUTPUT=str(self.tmp / "device.raw"),
                       TACHY_FAKE_OUTPUT_TAKES="RGB3")
        self.assertEqual(p.returncode, 1)
        self.assertIn("/dev/video1: takes neither yuv420p nor yuyv422", p.err)
        p = self.tachy("segment", clip, "--provider", "null", "-o", "/dev/video1", TACHY_FAKE_OUTPUT="/dev/full")
        self.assertEqual(p.returncode, 1)
        self.assertIn("/dev/video1: a picture cannot be written: No space", p.err)

    def test_who_falls_silent_is_given_up(self):
        if not has_devices():
            self.skipTest("this FFmpeg has no cameras")
        p = self.tachy("detect", "/dev/video0", "--timeout", "0.5", "--reconnect", "0", "-o", self.tmp / "out.mkv", TACHY_FAKE_CAMERA_STOP="12")
        self.assertEqual(p.returncode, 75, p.err)
        self.assertIn("sent nothing for 0.5 s", p.err)
        self.assertGreater(len(ffprobe(self.tmp / "out.mkv", "-show_packets")["packets"]), 3)

    def test_who_is_unplugged_comes_back(self):
        """The camera falls silent after 12 pictures, is opened again and gives as many more; in between its last one stays."""
        if not has_devices():
            self.skipTest("this FFmpeg has no cameras")
        out = self.tmp / "out.mkv"
        p = self.tachy("detect", "/dev/video0", "--timeout", "0.5", "--max-frames", 20, "--camera-size", "320x240", "-c:v", "ffv1",
                       "-y", "-o", out, TACHY_FAKE_CAMERA_STOP="12")
        self.assertEqual(p.returncode, 0, p.err)
        self.assertRegex(p.err, "/dev/video0: was lost .*its last picture stays")
        self.assertIn("/dev/video0: is back after", p.err)
        times = [float(f["pts_time"]) for f in ffprobe(out, "-show_frames", "-select_streams", "v:0")["frames"]]
        self.assertEqual(len(times), 20)
        self.assertEqual(times, sorted(set(times)))
        raw = subprocess.run(["ffmpeg", "-v", "error", "-i", out, "-vf", "extractplanes=y,scale=1:1", "-f", "rawvideo", "-pix_fmt", "gray",
                              "-fps_mode", "passthrough", "-"], capture_output=True, check=True).stdout
        again = next(i for i in range(1, 20) if raw[i] < raw[i - 1])  # the camera counts from its first picture again
        self.assertEqual(raw[again], raw[0])
        self.assertEqual(list(raw[:again]), sorted(raw[:again]))
        self.assertEqual(raw[again - 1], raw[again - 2])  # a still
        p = self.tachy("detect", "/dev/video0", "--timeout", "0.3", "--reconnect", "0.1", "-f", "null", TACHY_FAKE_CAMERA_STOP="3")
        self.assertEqual(p.returncode, 75, p.err)
        self.assertIn("did not come back within 0.1 s", p.err)

    def test_ctrl_c_while_it_is_silent(self):
        if not has_devices():
            self.skipTest("this FFmpeg has no cameras")
        p = self.tachy("detect", "/dev/video0", "--timeout", "0", "-f", "json", "-o", "-", wait=False, TACHY_FAKE_CAMERA_STOP="12")
        for _ in range(12):
            self.assertTrue(p.stdout.readline())
        began = time.monotonic()
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=60)
        self.assertEqual(p.returncode, 130)
        self.assertLess(time.monotonic() - began, 10)


class Address(common.Case):
    """A stream over HTTP whose server closes the connection after ten pictures, each time."""

    def setUp(self):
        super().setUp()
        ffmpeg("-f", "lavfi", "-i", "testsrc2=s=160x120:r=10:d=1", "-c:v", "mpeg2video", "-bf", 0, "-f", "mpegts", self.tmp / "live.ts")
        data, self.asked = (self.tmp / "live.ts").read_bytes(), []

        class Stream(http.server.BaseHTTPRequestHandler):
            def do_GET(handler):
                self.asked.append(time.monotonic())
                handler.send_response(200)
                handler.send_header("Content-Type", "video/mp2t")
                handler.end_headers()
                handler.wfile.write(data)

            def log_message(self, *args):
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Stream)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()
        super().tearDown()

    def test_comes_back(self):
        url = f"http://127.0.0.1:{self.server.server_port}/live.ts"
        p = common.run("detect", url, "--reconnect", "20", "--max-frames", "25", "-y", "-o", self.tmp / "out.mkv")
        self.assertIn("is back after", p.stderr)
        self.assertGreaterEqual(len(self.asked), 2)
        self.assertGreaterEqual(self.asked[1] - self.asked[0], 0.5)
        times = [float(f["pts_time"]) for f in ffprobe(self.tmp / "out.mkv", "-show_frames", "-select_streams", "v:0")["frames"]]
        self.assertEqual((len(times), times), (25, sorted(set(times))))
        asked = len(self.asked)
        common.run("detect", url, "-f", "null", check=False)  # without it the run ends with the connection
        self.assertEqual(len(self.asked), asked + 1)


if __name__ == "__main__":
    common.main()
