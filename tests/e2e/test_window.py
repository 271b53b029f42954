"""-o window on a screen in memory (Xvfb), seen by ffmpeg's screen grabber, with keys as the X server sends them."""
import ctypes
import ctypes.util
import os
import shutil
import signal
import subprocess
import time
import unittest

import common
from common import ffmpeg

WIDTH, HEIGHT = 640, 480
RED, BLUE, BLACK = (255, 0, 0), (0, 0, 255), (0, 0, 0)


def library(name):
    path = ctypes.util.find_library(name)
    return ctypes.CDLL(path) if path else None


class Screen:
    manager = None

    def __init__(self):
        ready, told = os.pipe()
        self.x = subprocess.Popen(["Xvfb", "-noreset", "-displayfd", str(told), "-screen", "0", f"{WIDTH}x{HEIGHT}x24", "-nolisten", "tcp"],
                                  pass_fds=[told], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(told)
        with os.fdopen(ready) as f:
            self.name = ":" + f.readline().strip()
        self.x11, self.test = library("X11"), library("Xtst")
        if self.test:
            self.x11.XOpenDisplay.restype = ctypes.c_void_p
            self.display = ctypes.c_void_p(self.x11.XOpenDisplay(self.name.encode()))

    def manage(self):
        """Starts a window manager, which full screen needs."""
        self.manager = subprocess.Popen(["openbox"], env={**os.environ, "DISPLAY": self.name}, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        while not self.managed():
            assert self.manager.poll() is None, "openbox ended"
            time.sleep(0.05)

    def managed(self):
        """Whether the root window says that there is a manager; a window that asks for full screen before is not heard."""
        x11 = ctypes.CDLL(ctypes.util.find_library("X11"))
        x11.XOpenDisplay.restype = x11.XDefaultRootWindow.restype = x11.XInternAtom.restype = ctypes.c_ulong
        display = ctypes.c_void_p(x11.XOpenDisplay(self.name.encode()))
        atom = x11.XInternAtom(display, b"_NET_SUPPORTING_WM_CHECK", 0)
        out = [ctypes.c_ulong() for _ in range(5)]
        x11.XGetWindowProperty(display, ctypes.c_ulong(x11.XDefaultRootWindow(display)), ctypes.c_ulong(atom), ctypes.c_long(0),
                               ctypes.c_long(1), 0, ctypes.c_ulong(0), *map(ctypes.byref, out))
        x11.XCloseDisplay(display)
        return out[2].value > 0

    def close(self):
        if self.manager:
            self.manager.terminate()
            self.manager.wait()
        self.x.terminate()
        self.x.wait()

    def press(self, key):
        """A key, with the pointer in the middle."""
        self.test.XTestFakeMotionEvent(self.display, -1, WIDTH // 2, HEIGHT // 2, ctypes.c_ulong(0))
        code = self.x11.XKeysymToKeycode(self.display, ctypes.c_ulong(ord(key) if len(key) == 1 else 0xff1b))
        for down in (1, 0):
            self.test.XTestFakeKeyEvent(self.display, code, down, ctypes.c_ulong(0))
        self.x11.XSync(self.display, 0)

    def look(self, *places):
        """Colours of points, each channel 0 or 255 as it is nearer."""
        raw = subprocess.run(["ffmpeg", "-v", "error", "-f", "x11grab", "-draw_mouse", "0", "-video_size", f"{WIDTH}x{HEIGHT}", "-i",
                              self.name, "-frames:v", "1", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"],
                             capture_output=True, check=True).stdout
        return [tuple(255 * (c > 127) for c in raw[3 * (y * WIDTH + x):][:3]) for x, y in places]


class Window(common.Case):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("Xvfb") or "x11grab" not in subprocess.run(["ffmpeg", "-hide_banner", "-devices"], capture_output=True,
                                                                       text=True).stdout:
            raise unittest.SkipTest("there is no Xvfb, or no x11grab in ffmpeg")
        if not ctypes.util.find_library("SDL2-2.0"):
            raise unittest.SkipTest("there is no SDL 2")
        cls.screen = Screen()
        cls.addClassCleanup(cls.screen.close)

    def setUp(self):
        super().setUp()
        self.clip = self.tmp / "in.mkv"  # red and blue, 320x240, for ten minutes
        ffmpeg("-f", "lavfi", "-i", "color=red:s=160x240:r=5:d=600[a];color=blue:s=160x240:r=5:d=600[b];[a][b]hstack",
               "-c:v", "mpeg4", "-q:v", 2, self.clip)

    def start(self, *args, clip=None):
        p = subprocess.Popen([common.TACHY, "detect", "-re", clip or self.clip, *map(str, args)], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, env={**os.environ, "DISPLAY": self.screen.name})
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.kill)
        return p

    def wait_for(self, p, wanted):
        """Until the screen looks so: {(x, y): colour}."""
        until = time.monotonic() + 120
        while (seen := self.screen.look(*wanted)) != list(wanted.values()):
            self.assertIsNone(p.poll(), p.poll() is not None and p.stdout.read())
            self.assertLess(time.monotonic(), until, seen)
            time.sleep(0.05)

    def test_shown_in_the_middle_and_stopped(self):
        p = self.start("-o", "window", "-o", self.tmp / "kept.mkv")
        self.wait_for(p, {(240, 240): RED, (400, 240): BLUE, (20, 20): BLACK})
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(60), 130, p.stdout.read())
        self.assertGreater(int(common.ffprobe(self.tmp / "kept.mkv", "-count_packets")["streams"][0]["nb_read_packets"]), 0)

    def test_mirrored_and_full(self):
        if not shutil.which("openbox"):
            self.skipTest("there is no window manager (openbox)")
        self.screen = Screen()
        self.addCleanup(self.screen.close)
        self.screen.manage()
        full, small = {(20, 20): BLUE, (620, 460): RED}, {(20, 20): BLACK, (240, 240): BLUE, (400, 240): RED}
        p = self.start("-o", "window:full,mirror")
        self.wait_for(p, full)
        if self.screen.test:
            for key, wanted in [("Escape", small), ("f", full), ("f", small)]:
                self.screen.press(key)
                self.wait_for(p, wanted)
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(60), 130)

    def test_keys(self):
        if not self.screen.test:
            self.skipTest("there is no libXtst")
        p = self.start("-o", "window")
        self.wait_for(p, {(240, 240): RED})
        self.screen.press("m")
        self.wait_for(p, {(240, 240): BLUE, (400, 240): RED})
        self.screen.press("p")
        self.wait_for_line(p, "paused")
        self.screen.press("m")  # it lives on
        self.wait_for(p, {(240, 240): RED, (400, 240): BLUE})
        self.screen.press("p")
        self.wait_for_line(p, "goes on")
        self.screen.press("r")
        self.wait_for_line(p, "decode")
        self.screen.press("q")
        self.assertEqual(p.wait(60), 130)

    def test_screen_as_input(self):
        p, out = self.start("-o", "window"), self.tmp / "seen.mkv"
        self.wait_for(p, {(240, 240): RED, (400, 240): BLUE, (20, 20): BLACK})
        common.run("segment", "--mode", "mask", "--focus", "off", "--provider", "null", "-i", "screen:" + self.screen.name, "--max-frames", 2,
                   "--camera-rate", 10, "-o", self.tmp / "mask.mkv")
        self.assertEqual(common.ffprobe(self.tmp / "mask.mkv")["streams"][0]["width"], WIDTH)
        env = {**os.environ, "DISPLAY": self.screen.name}
        common.run("detect", "-i", f"screen:{self.screen.name}+160,120", "--camera-size", "320x240", "--max-frames", 3, "-o", out, env=env)
        raw = subprocess.run(["ffmpeg", "-v", "error", "-i", str(out), "-frames:v", "1", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"],
                             capture_output=True, check=True).stdout
        self.assertEqual(len(raw), 320 * 240 * 3)
        for x, colour in ((40, RED), (150, RED), (170, BLUE), (300, BLUE)):
            at = 3 * (120 * 320 + x)
            self.assertEqual(tuple(255 * (c > 127) for c in raw[at:at + 3]), colour)
        lost = common.run("detect", "-i", "screen::4711", "-o", out, "-y", check=False)
        self.assertEqual(lost.returncode, 1, lost.stderr)
        self.assertIn("screen::4711", lost.stderr)

    def wait_for_line(self, p, text):
        while text not in (line := p.stdout.readline()):
            self.assertTrue(line)

    def test_a_still_stays_until_it_is_closed(self):
        picture = self.tmp / "in.png"
        ffmpeg("-i", self.clip, "-frames:v", 1, picture)
        p = self.start("-o", "window", clip=picture)
        self.wait_for(p, {(240, 240): RED, (400, 240): BLUE})
        if self.screen.test:
            self.screen.press("q")
            self.assertEqual(p.wait(60), 0, p.stdout.read())
        else:
            p.send_signal(signal.SIGINT)
            p.wait(60)

    def test_a_turned_video(self):
        turned = self.tmp / "turned.mp4"
        ffmpeg("-i", self.clip, "-t", 60, "-c:v", "libx264", "-preset", "ultrafast", self.tmp / "t.mp4")
        ffmpeg("-i", self.tmp / "t.mp4", "-c", "copy", "-metadata:s:v", "rotate=90", turned)
        p = self.start("-o", "window", clip=turned)
        self.wait_for(p, {(320, 160): BLUE, (320, 320): RED})  # 240x320, as ffmpeg turns it
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(60), 130)

    def test_what_is_refused(self):
        env = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
        p = common.run("detect", self.clip, "-o", "window", check=False, env=env)
        self.assertEqual(p.returncode, 1, p.stderr)
        self.assertRegex(p.stderr, "no display|libsdl2")
        self.assertEqual(common.run("detect", self.clip, "-o", "window:wide", check=False).returncode, 2)
        self.assertEqual(common.run("detect", self.clip, "-o", "window", "--sandbox", check=False).returncode, 2)


if __name__ == "__main__":
    common.main()
