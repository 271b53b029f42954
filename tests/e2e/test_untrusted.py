"""Files that somebody sent: they do not have other files opened, and are refused with a sentence."""
import functools
import http.server
import os
import struct
import threading
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper

from common import Case, ffmpeg, ffprobe, main, run

LISTS = {
    "hls": "#EXTM3U\n#EXT-X-TARGETDURATION:2\n" + "#EXTINF:1.0,\n{}\n" + "#EXT-X-ENDLIST\n",
    "dash": '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" '
            'mediaPresentationDuration="PT1S" profiles="urn:mpeg:dash:profile:full:2011"><Period duration="PT1S">'
            '<AdaptationSet contentType="video"><Representation id="0" mimeType="video/mp4" bandwidth="9">'
            "<BaseURL>{}</BaseURL></Representation></AdaptationSet></Period></MPD>",
    "concat": "ffconcat version 1.0\nfile {}\n",
    "sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\n"
           "a=rtpmap:96 H264/90000\n",
}
ENDINGS = {"hls": "m3u8", "concat": "ffconcat"}


class Untrusted(Case):
    def setUp(self):
        super().setUp()
        self.inside = self.tmp / "inside"
        self.inside.mkdir()
        ffmpeg("-f", "lavfi", "-i", "testsrc2=size=64x48:rate=10:duration=1", "-pix_fmt", "yuv420p", "-g", 5,
               self.tmp / "secret.ts")
        (self.inside / "own.ts").write_bytes((self.tmp / "secret.ts").read_bytes())
        (self.inside / "link.ts").symlink_to(self.tmp / "secret.ts")

    def put(self, name, text):
        path = self.inside / name
        path.write_text(text)
        return path

    def refused(self, *args, words=(), **kw):
        p = run(*args, check=False, **kw)
        self.assertEqual(p.returncode, 1, p.stdout + p.stderr)
        errors = [l for l in p.stderr.splitlines() if l.startswith("tachy:")]
        self.assertEqual(len(errors), 1, p.stderr)
        for w in words:
            self.assertIn(w, errors[0])

    def test_a_list_is_taken_by_its_name_only(self):
        for kind, text in LISTS.items():
            evil = self.put("evil.mp4", text.format("own.ts"))
            with self.subTest(kind):
                self.refused("probe", evil, words=["evil.mp4", kind])
                self.refused("segment", evil, "--provider", "null", "-f", "null", "-", words=["evil.mp4", kind])
        with self.subTest("standard input"), open(evil) as f:
            self.refused("probe", "-", stdin=f)
        with self.subTest("what lies behind people"):
            evil = self.put("evil.mp4", LISTS["hls"].format("own.ts"))
            self.refused("segment", self.inside / "own.ts", "--mode", "replace", "--background", evil, "--provider", "null",
                         "-f", "null", "-", words=["evil.mp4", "hls"])
        for kind, ending in ENDINGS.items():
            with self.subTest(kind, named=True):
                named = self.put(f"good.{ending}", LISTS[kind].format("own.ts"))
                self.assertIn(kind, run("probe", named).stdout)
                odd = self.put("odd.txt", LISTS[kind].format("own.ts"))
                self.assertIn(kind, run("probe", f"{kind}+file:{odd}").stdout)

    def test_a_list_names_files_below_its_folder_only(self):
        for name in ("../secret.ts", self.tmp / "secret.ts", f"file:{self.tmp / 'secret.ts'}", "link.ts",
                     "sub/../../secret.ts", "subfile,,start,0,end,0,,:own.ts", "http://127.0.0.1:9/a.ts"):
            (self.inside / "sub").mkdir(exist_ok=True)
            with self.subTest(name=str(name)):
                text = LISTS["hls"].format(name)
                self.refused("probe", self.put("evil.m3u8", text), words=["evil.m3u8"])
                self.refused("probe", f"hls+file:{self.put('evil.txt', text)}", words=["evil.txt"])
                if name != "link.ts": # FFmpeg's own rule for this list knows no links
                    self.refused("probe", self.put("evil.ffconcat", LISTS["concat"].format(name)), words=["evil.ffconcat"])
        with self.subTest("later"): # the run does not go on without it
            later = LISTS["hls"].replace("{}", "own.ts\n#EXTINF:1.0,\n../secret.ts")
            self.refused("segment", self.put("later.m3u8", later), "--provider", "null", "-f", "null", "-", words=["secret.ts"])
        with self.subTest("a list in a list"):
            self.put("inner.m3u8", LISTS["hls"].format("../secret.ts"))
            self.refused("probe", self.put("outer.m3u8", "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=9\ninner.m3u8\n"))
            self.put("inner.mp4", LISTS["hls"].format("own.ts"))
            self.refused("probe", self.put("outer.ffconcat", LISTS["concat"].format("inner.mp4")))

    def test_a_list_on_a_network(self):
        class Quiet(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *args):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(self.inside)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        at = f"http://127.0.0.1:{server.server_port}"
        self.put("good.m3u8", LISTS["hls"].format("own.ts"))
        self.assertIn("hls", run("probe", f"{at}/good.m3u8?token=1").stdout)
        self.put("evil.mp4", LISTS["hls"].format("own.ts"))
        self.refused("probe", f"{at}/evil.mp4?x.m3u8", words=["hls"])
        self.put("evil.m3u8", LISTS["hls"].format(f"file:{self.tmp / 'secret.ts'}"))
        self.refused("probe", f"{at}/evil.m3u8", words=["evil.m3u8"])

    def test_times_that_no_file_has(self):
        """IVF has 64 bits for a time; what is computed from it overflows nowhere."""
        whole = self.tmp / "whole.ivf"
        ffmpeg("-f", "lavfi", "-i", "testsrc2=size=64x48:rate=10:duration=1", "-pix_fmt", "yuv420p", "-c:v", "libvpx", whole)
        data = whole.read_bytes()
        at, times = 32, []
        while at < len(data):
            size, = struct.unpack_from("<I", data, at)
            times.append(at + 4)
            at += 12 + size
        self.assertEqual(len(times), 10)
        most, least = 2**63 - 1, -2**63
        for name, edit in {"one": {4: most}, "first": {0: most - 3}, "all": {i: most - 10 + i for i in range(10)},
                           "none": {3: least}, "back": {5: least + 1}, "steps": {i: most // (10 - i) for i in range(10)},
                           "turns": {i: (most - i, 2**61, 5)[i % 3] for i in range(10)}}.items():
            with self.subTest(name):
                bad = bytearray(data)
                for i, t in edit.items():
                    struct.pack_into("<q", bad, times[i], t)
                path = self.tmp / f"{name}.ivf"
                path.write_bytes(bad)
                if name == "steps":
                    run("probe", path)
                out = self.tmp / f"{name}.mkv"
                p = run("segment", path, "--mode", "mask", "--provider", "null", "-c:v", "ffv1", "-y", "-o", out)
                self.assertNotIn("runtime error", p.stderr) # the sanitizer's
                shown = [float(f["pts_time"]) for f in ffprobe(out, "-show_frames")["frames"]]
                self.assertEqual(shown, sorted(set(shown)))
                self.assertGreaterEqual(len(shown), 8)
                self.assertLess(shown[-1], 4e9)

    def test_a_named_pipe_is_not_waited_for(self):
        pipe = self.tmp / "pipe"
        os.mkfifo(pipe)
        for args in (["config", "-c", pipe], ["config", "--config", pipe], ["model", "verify", "--card", pipe, pipe],
                     ["model", "import", pipe, "-o", self.tmp / "o.onnx"]):
            with self.subTest(args=args[:2]):
                p = run(*args, check=False, timeout=60)
                self.assertNotEqual(p.returncode, 0)
                self.assertIn("regular file", p.stderr)

    def test_sound_that_no_decoder_can_read(self):
        whole, bad, out = (self.tmp / n for n in ("whole.mkv", "bad.mkv", "out.mkv"))
        ffmpeg("-i", self.tmp / "secret.ts", "-f", "lavfi", "-i", "sine=duration=1", "-c:v", "copy", "-c:a", "libvorbis", whole)
        data = bytearray(whole.read_bytes())
        at = data.index(b"\x05vorbis") + 7 # the codebooks
        data[at:at + 64] = bytes(64)
        bad.write_bytes(data)
        segment = ["--mode", "mask", "--provider", "null", "-c:v", "ffv1", "-y", "-o", out]
        kinds = lambda: [s["codec_type"] for s in ffprobe(out)["streams"]]
        run("segment", whole, *segment)
        self.assertEqual(kinds(), ["video", "audio"])
        p = run("segment", bad, *segment)
        self.assertIn("vorbis", p.stderr)
        self.assertIn("its header is damaged", p.stderr)
        self.assertEqual(kinds(), ["video"])

    def test_wide_and_low(self):
        path, out = self.tmp / "wide.mkv", self.tmp / "o.mp4"
        ffmpeg("-f", "lavfi", "-i", "color=size=8192x16:rate=5:duration=0.4", "-c:v", "ffv1", "-pix_fmt", "yuv420p", path)
        run("segment", path, "--mode", "mask", "--provider", "null", "-o", out) # x265 refuses it
        self.assertEqual(ffprobe(out)["streams"][0]["codec_name"], "h264")

    def model(self, location, inside_node=False):
        """A model whose weights are in another file."""
        w = np.full((3, 3, 1, 1), 0.5, np.float32)
        for folder in (self.tmp, self.inside):
            (folder / "w.bin").write_bytes(w.tobytes())
        t = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=w.shape, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", location), ("offset", "0"), ("length", str(w.nbytes))):
            t.external_data.add(key=key, value=value)
        nodes = [helper.make_node("Conv", ["x", "w"], ["y"])]
        if inside_node:
            nodes.insert(0, helper.make_node("Constant", [], ["w"], value=t))
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, [1, 3, 8, 8])],
                                  [helper.make_tensor_value_info("y", 1, [1, 3, 8, 8])], [] if inside_node else [t])
        path = self.inside / "m.onnx"
        path.write_bytes(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
        return path

    def test_weights_lie_below_the_model_only(self):
        (self.inside / "link.bin").symlink_to(self.tmp / "w.bin")
        why = functools.partial(run, "engine", "why")
        self.assertIn("Conv", why(self.model("w.bin")).stdout)
        for location in ("../w.bin", str(self.tmp / "w.bin"), "link.bin", "*/_ORT_MEM_ADDR_/*"):
            with self.subTest(location):
                self.refused("engine", "why", self.model(location), words=["m.onnx", "weights", location])
        self.refused("engine", "why", self.model("../w.bin", inside_node=True), words=["weights"])
        cache = self.tmp / "cache" # a download cache: the names are links to one folder of files
        cache.mkdir()
        model = self.model("w.bin")
        (cache / "m.onnx").symlink_to(model)
        (cache / "w.bin").symlink_to(self.inside / "w.bin")
        self.assertIn("Conv", why(cache / "m.onnx").stdout)
        with self.subTest("a field that this reader does not know hides nothing"):
            data = self.model("../w.bin").read_bytes()
            (self.inside / "m.onnx").write_bytes(b"\xf3\x07\xf4\x07" + data) # an empty group, number 126
            self.refused("engine", "why", self.inside / "m.onnx")


if __name__ == "__main__":
    main()
