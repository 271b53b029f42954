"""-o ndi, received by NDI's own library, if it is installed or PyPI's cyndilib has brought it."""
import ctypes
import ctypes.util
import importlib.util
import os
import pathlib
import signal
import subprocess
import time
import unittest

import common
from common import ffmpeg

WIDTH, HEIGHT = 320, 240


class Source(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("url", ctypes.c_char_p)]


class Find(ctypes.Structure):
    _fields_ = [("local", ctypes.c_bool), ("groups", ctypes.c_char_p), ("extra_ips", ctypes.c_char_p)]


class Receive(ctypes.Structure):
    _fields_ = [("source", Source), ("colour", ctypes.c_int), ("bandwidth", ctypes.c_int), ("fields", ctypes.c_bool), ("name", ctypes.c_char_p)]


class Video(ctypes.Structure):
    _fields_ = [("width", ctypes.c_int), ("height", ctypes.c_int), ("fourcc", ctypes.c_char * 4), ("rate", ctypes.c_int * 2),
                ("aspect", ctypes.c_float), ("progressive", ctypes.c_int), ("time", ctypes.c_int64), ("data", ctypes.POINTER(ctypes.c_uint8)),
                ("stride", ctypes.c_int), ("metadata", ctypes.c_char_p), ("sent", ctypes.c_int64)]


def library():
    spec = importlib.util.find_spec("cyndilib")
    for folder in spec.submodule_search_locations if spec else []:
        for path in (pathlib.Path(folder) / "wrapper/bin").glob(f"{os.uname().machine}-linux-gnu/libndi.so"):
            return path
    return ctypes.util.find_library("ndi")


class Ndi(common.Case):
    @classmethod
    def setUpClass(cls):
        path = library()
        if not path:
            raise unittest.SkipTest("NDI's library is not here, nor cyndilib, which brings it")
        cls.ndi = ctypes.CDLL(str(path))
        if not cls.ndi.NDIlib_initialize():
            raise unittest.SkipTest("NDI's library does not run on this processor")
        cls.env = dict(os.environ)
        if os.sep in str(path):
            cls.env["LD_LIBRARY_PATH"] = f"{pathlib.Path(path).parent}:{os.environ['LD_LIBRARY_PATH']}"
        for name in ("NDIlib_find_create_v2", "NDIlib_recv_create_v3"):
            getattr(cls.ndi, name).restype = ctypes.c_void_p
        cls.ndi.NDIlib_find_get_current_sources.restype = ctypes.POINTER(Source)

    def find(self, finder, name):
        n, until = ctypes.c_uint32(), time.monotonic() + 120
        while time.monotonic() < until:
            found = self.ndi.NDIlib_find_get_current_sources(ctypes.c_void_p(finder), ctypes.byref(n))
            for i in range(n.value):
                if f"({name})".encode() in found[i].name:
                    return found[i]
            self.ndi.NDIlib_find_wait_for_sources(ctypes.c_void_p(finder), 500)
        self.fail("NDI does not find the source")

    def test_received(self):
        clip = self.tmp / "in.mkv"
        ffmpeg("-f", "lavfi", "-i", f"color=red:s={WIDTH // 2}x{HEIGHT}:r=20:d=600[a];color=blue:s={WIDTH // 2}x{HEIGHT}:r=20:d=600[b];"
               "[a][b]hstack", "-c:v", "mpeg4", "-q:v", 2, clip)
        p = subprocess.Popen([common.TACHY, "detect", "-re", clip, "-o", "ndi:booth"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, env=self.env)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.kill)
        finder = self.ndi.NDIlib_find_create_v2(ctypes.byref(Find(True, None, b"127.0.0.1")))
        self.assertTrue(finder)
        source = self.find(finder, "booth")
        fastest, highest = 100, 100
        receiver = self.ndi.NDIlib_recv_create_v3(ctypes.byref(Receive(source, fastest, highest, True, b"test")))
        self.assertTrue(receiver)
        video, until = Video(), time.monotonic() + 120
        while self.ndi.NDIlib_recv_capture_v2(ctypes.c_void_p(receiver), ctypes.byref(video), None, None, 1000) != 1:
            self.assertLess(time.monotonic(), until)
            self.assertIsNone(p.poll())
        self.assertEqual((video.width, video.height, video.fourcc), (WIDTH, HEIGHT, b"UYVY"))
        self.assertEqual(video.rate[0] / video.rate[1], 20)
        for x, (cb, cr) in ((40, (102, 240)), (280, (240, 118))):  # red and blue of BT.709 or BT.601, about
            at = 120 * video.stride + 2 * x
            self.assertLess(abs(video.data[at] - cb), 25)
            self.assertLess(abs(video.data[at + 2] - cr), 25)
        self.ndi.NDIlib_recv_free_video_v2(ctypes.c_void_p(receiver), ctypes.byref(video))
        self.ndi.NDIlib_recv_destroy(ctypes.c_void_p(receiver))
        self.ndi.NDIlib_find_destroy(ctypes.c_void_p(finder))
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(120), 130)


class NoNdi(common.Case):
    def test_without_the_library(self):
        if ctypes.util.find_library("ndi"):
            self.skipTest("NDI's library is here")
        p = common.run("detect", "null:64x64@5,frames=2", "-o", "ndi", check=False)
        self.assertEqual(p.returncode, 1)
        self.assertIn("needs NDI's library", p.stderr)


if __name__ == "__main__":
    common.main()
