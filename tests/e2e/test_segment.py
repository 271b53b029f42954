"""tachy segment, whole: what comes out, frame by frame, judged by FFmpeg."""
import json
import os
import subprocess
import unittest

from common import Case, ffmpeg, ffprobe, main, models, run, ROOT, SANITIZER

PORTRAIT = ROOT / ".deps" / "media" / "astronaut.png"
# A tint of no strength: every decoded pixel must come out as it was.
UNTOUCHED = ["--mode", "overlay", "--tint", "#ff00ff00"]


def framemd5(path, *args):
    """[(seconds, md5)] of the decoded frames, by FFmpeg."""
    out = subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-noautorotate", *args, "-i", str(path), "-map", "0:v",
                          "-fps_mode", "passthrough", "-f", "framemd5", "-"],
                         check=True, capture_output=True, text=True).stdout
    return parse_md5(out)


def parse_md5(text):
    """[(seconds, md5)] of a framemd5 text."""
    base = next(l for l in text.splitlines() if l.startswith("#tb 0:")).split(":")[1]
    num, den = (int(x) for x in base.split("/"))
    rows = [l.split(",") for l in text.splitlines() if l and not l.startswith("#")]
    return [(int(r[2]) * num / den, r[5].strip()) for r in rows]


def tachy_md5(path, *args):
    return parse_md5(run("segment", path, *args, "--quiet", "-f", "framemd5", "-").stdout)


# Under sanitizers those are left out that run the same code and threads on other pictures.
same_code = unittest.skipIf(SANITIZER, "other tests run the same code and threads")


class Segment(Case):
    def clip(self, name="in.mp4", size="320x180", rate=30, seconds=2, vf=None, codec=("-c:v", "libx264", "-bf", "3", "-g", "24"), extra=()):
        """A moving portrait with a tone."""
        path = self.tmp / name
        w, h = size.split("x")
        graph = f"scale={w}:{h}:force_original_aspect_ratio=increase,crop={w}:{h}:'(iw-ow)/2+(iw-ow)/2*sin(t*3)':0"
        graph += f",format=yuv420p{',' + vf if vf else ''}"
        ffmpeg("-loop", "1", "-framerate", rate, "-i", PORTRAIT, "-f", "lavfi", "-i", "sine=440:sample_rate=48000",
               "-t", seconds, "-vf", graph, *codec, "-c:a", "aac", *extra, path)
        return path

    def test_untouched_pixels_and_order(self):
        cases = {
            "b-frames": dict(),
            "odd size": dict(size="321x181", codec=("-c:v", "ffv1"), name="odd.mkv"),
            "10 bit": dict(vf="format=yuv420p10le", codec=("-c:v", "libx265", "-x265-params", "log-level=none"), name="ten.mp4"),
            "444": dict(vf="format=yuv444p", codec=("-c:v", "libx264"), name="full.mp4"),
            "vfr": dict(vf="select='not(eq(mod(n\\,5)\\,2))'", codec=("-c:v", "libx264", "-bf", "2", "-fps_mode", "vfr"), name="vfr.mp4"),
        }
        for what, kw in cases.items():
            with self.subTest(what):
                path = self.clip(seconds=0.5, **kw)
                want, got = framemd5(path), tachy_md5(path, *UNTOUCHED)
                self.assertEqual([m for _, m in want], [m for _, m in got])
                frames = ffprobe(path, "-select_streams", "v", "-show_entries", "frame=pts_time")["frames"]
                # framemd5 counts in frames of the average rate, so half a frame is its precision.
                for f, (t, _) in zip(frames, got):
                    self.assertAlmostEqual(float(f["pts_time"]), t, delta=0.5 / 30 + 0.002)

    @same_code
    def test_seek_is_exact(self):
        path = self.clip(seconds=2)
        whole = framemd5(path)
        for start in (0.1, 1.0, 1.37, 1.9):
            got = [m for _, m in tachy_md5(path, *UNTOUCHED, "-ss", start)]
            first = next(i for i in range(len(whole)) if i / 30 >= start - 1e-4)
            self.assertEqual([m for _, m in whole][first:], got, f"-ss {start}")
        got = [m for _, m in tachy_md5(path, *UNTOUCHED, "-ss", 0.5, "-t", 0.4)]
        self.assertEqual([m for _, m in whole][15:27], got)

    def test_every_nth_and_max_frames(self):
        path = self.clip(seconds=1)
        whole = [m for _, m in framemd5(path)]
        self.assertEqual(whole[::7], [m for _, m in tachy_md5(path, *UNTOUCHED, "--every-nth", 7)])
        self.assertEqual(whole[:11], [m for _, m in tachy_md5(path, *UNTOUCHED, "--max-frames", 11)])

    def test_workers_give_the_same_bits(self):
        path = self.clip(seconds=0.5)
        one = tachy_md5(path, "--mode", "cutout", "--smooth", "--refine", "--workers", 1)
        for workers in (2, 5):
            self.assertEqual(one, tachy_md5(path, "--mode", "cutout", "--smooth", "--refine", "--workers", workers))

    def test_modes(self):
        path = self.clip(seconds=0.5)
        still = self.tmp / "still.png"
        ffmpeg("-f", "lavfi", "-i", "testsrc2=size=200x100", "-frames:v", 1, still)
        out = {
            "mask": "mask.mp4", "cutout": "cutout.mp4", "blur": "blur.mp4", "replace": "replace.mp4",
            "overlay": "overlay.mkv", "side-by-side": "side.mp4",
        }
        for mode, name in out.items():
            with self.subTest(mode):
                extra = ["--background", still] if mode == "replace" else []
                run("segment", path, "--mode", mode, *extra, "-o", self.tmp / name, "-preset", "ultrafast")
                info = ffprobe(self.tmp / name, "-count_frames")
                video = next(s for s in info["streams"] if s["codec_type"] == "video")
                audio = [s for s in info["streams"] if s["codec_type"] == "audio"]
                self.assertEqual(int(video["nb_read_frames"]), 15)
                self.assertEqual((video["width"], video["height"]), (640 if mode == "side-by-side" else 320, 180))
                self.assertEqual([s["codec_name"] for s in audio], ["aac"])
                self.assertAlmostEqual(float(info["format"]["duration"]), 0.5, delta=0.08)

    @same_code
    def test_cutout_finds_the_person(self):
        mask = self.tmp / "mask.png"
        run("segment", PORTRAIT, "--mode", "mask", "-o", mask)
        raw = subprocess.run(["ffmpeg", "-v", "error", "-i", mask, "-pix_fmt", "gray", "-f", "rawvideo", "-"], check=True, capture_output=True).stdout
        info = ffprobe(mask)["streams"][0]
        w, h = info["width"], info["height"]
        self.assertEqual((w, h), (512, 512))
        self.assertGreater(raw[230 * w + 220], 200)  # the face
        self.assertLess(raw[60 * w + 20], 60)        # the wall on the left
        share = sum(v > 127 for v in raw) / len(raw)
        self.assertTrue(0.25 < share < 0.75, share)

    @same_code
    def test_alpha_containers(self):
        path = self.clip(seconds=0.2)
        for name, codec, fmt in (("a.mov", "prores", None), ("a.webm", "vp9", None), ("a.mkv", "ffv1", None)):
            with self.subTest(name):
                run("segment", path, "--mode", "alpha", "-o", self.tmp / name)
                video = ffprobe(self.tmp / name)["streams"][0]
                self.assertEqual(video["codec_name"], codec)
                decoder = ["-c:v", "libvpx-vp9"] if codec == "vp9" else []
                raw = subprocess.run(["ffmpeg", "-v", "error", *decoder, "-i", str(self.tmp / name), "-vf", "alphaextract,format=gray",
                                      "-frames:v", "1", "-f", "rawvideo", "-"], check=True, capture_output=True).stdout
                self.assertEqual(len(raw), 320 * 180)
                self.assertGreater(max(raw), 230)
                self.assertLess(min(raw), 25)

    def test_json_lines(self):
        path = self.clip(seconds=0.5)
        run("segment", path, "--mode", "json", "-o", self.tmp / "out.jsonl")
        rows = [json.loads(l) for l in (self.tmp / "out.jsonl").read_text().splitlines()]
        self.assertEqual([r["frame"] for r in rows], list(range(15)))
        self.assertEqual(rows[0]["segmentation"]["size"], [180, 320])
        self.assertTrue(all(0.1 < r["coverage"] < 0.9 for r in rows))
        self.assertTrue(rows[3]["polygons"])

    def test_sequence_in_and_out(self):
        src = self.clip(seconds=0.4)
        ffmpeg("-i", src, self.tmp / "in_%03d.png")
        run("segment", self.tmp / "in_%03d.png", "-r", 10, "--mode", "alpha", "-o", self.tmp / "out_%03d.png")
        outs = sorted(self.tmp.glob("out_*.png"))
        self.assertEqual(len(outs), 12)
        self.assertEqual(ffprobe(outs[0])["streams"][0]["pix_fmt"], "rgba")
        run("segment", self.tmp / "in_%03d.png", "-r", 10, "--mode", "cutout", "-o", self.tmp / "seq.mp4")
        self.assertAlmostEqual(float(ffprobe(self.tmp / "seq.mp4")["format"]["duration"]), 1.2, delta=0.05)

    def test_stereo_eyes_do_not_mix(self):
        """A person on the left eye only: the right eye of the mask stays empty, also at the seam."""
        path = self.tmp / "pair_sbs.mkv"
        ffmpeg("-loop", 1, "-framerate", 10, "-i", PORTRAIT, "-f", "lavfi", "-i", "color=gray:size=256x256:rate=10", "-t", 1,
               "-filter_complex", "[0]scale=256:256,format=yuv420p[a];[1]format=yuv420p[b];[a][b]hstack", "-c:v", "ffv1", path)
        out = self.tmp / "mask.mkv"
        run("segment", path, "--mode", "mask", "--stereo", "sbs", "-c:v", "ffv1", "-o", out)
        raw = subprocess.run(["ffmpeg", "-v", "error", "-i", str(out), "-pix_fmt", "gray", "-frames:v", "1", "-f", "rawvideo", "-"],
                             check=True, capture_output=True).stdout
        left = [raw[y * 512 + x] for y in range(0, 256, 4) for x in range(0, 256, 4)]
        right = [raw[y * 512 + x] for y in range(0, 256) for x in range(256, 512)]
        self.assertGreater(sum(v > 127 for v in left) / len(left), 0.25)
        self.assertLess(sum(v > 127 for v in right) / len(right), 0.02)
        # Each eye equals the result for that eye alone.
        eye = self.tmp / "eye.mkv"
        ffmpeg("-i", path, "-vf", "crop=256:256:0:0", "-c:v", "ffv1", eye)
        run("segment", eye, "--mode", "mask", "--stereo", "mono", "-c:v", "ffv1", "-o", self.tmp / "one.mkv")
        one = subprocess.run(["ffmpeg", "-v", "error", "-i", str(self.tmp / "one.mkv"), "-pix_fmt", "gray", "-frames:v", "1", "-f", "rawvideo", "-"],
                             check=True, capture_output=True).stdout
        self.assertEqual(bytes(raw[y * 512 + x] for y in range(256) for x in range(256)), one)

    @same_code
    def test_before_and_after_are_no_stereo(self):
        path = self.clip(name="in.mkv", size="512x256", seconds=0.2, extra=("-metadata:s:v", "stereo_mode=left_right"))
        for name in "o.mp4", "o.mkv":
            for mode, kept in (("cutout", True), ("side-by-side", False)):
                run("segment", path, "--mode", mode, "-y", "-o", self.tmp / name)
                video = ffprobe(self.tmp / name)["streams"][0]
                self.assertEqual(any(d["side_data_type"] == "Stereo 3D" for d in video.get("side_data_list", [])), kept)

    @same_code
    def test_replace_with_a_colour(self):
        path = self.clip(seconds=0.2)
        red = tachy_md5(path, "--mode", "cutout", "--background", "red")
        self.assertEqual(tachy_md5(path, "--mode", "replace", "--background", "red"), red)

    def behind(self, *args):
        """The luma of each output picture where nobody is in the picture."""
        black = self.tmp / "black.mkv"
        if not black.exists():
            ffmpeg("-f", "lavfi", "-i", "color=black:s=64x48:r=25", "-frames:v", 40, "-pix_fmt", "yuv420p", "-c:v", "ffv1",
                   "-colorspace", "bt709", "-color_range", "tv", black)
        out = self.tmp / "behind.mkv"
        run("segment", black, "--mode", "replace", "--background", *args, "-c:v", "ffv1", "-y", "-o", out)
        raw = subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-i", str(out), "-vf", "extractplanes=y,crop=1:1:32:24",
                              "-fps_mode", "passthrough", "-f", "rawvideo", "-"], check=True, capture_output=True).stdout
        return list(raw)

    def greys(self, name, *tags):
        """Seven pictures of a luma each, 30, 60, ... 210, ten a second."""
        path = self.tmp / name
        ffmpeg("-f", "lavfi", "-i", "color=gray:s=64x48:r=10", "-vf", "format=yuv420p,geq=lum=30*(N+1):cb=128:cr=128",
               "-frames:v", 7, "-c:v", "ffv1", *tags, path)
        return path

    @same_code
    def test_replace_with_a_video(self):
        same, full = ["-colorspace", "bt709", "-color_range", "tv"], ["-colorspace", "smpte170m", "-color_range", "pc"]
        shown = [30 * (int(k / 2.5 + 1e-6) % 7 + 1) for k in range(40)]  # by time, and from the start again
        self.assertEqual(shown, self.behind(self.greys("same.mkv", *same)))
        self.assertEqual(shown, self.behind(self.greys("same.mkv", *same), "--workers", 3))
        for v, got in zip(shown, self.behind(self.greys("full.mkv", *full))):
            self.assertAlmostEqual(16 + 219 * v / 255, got, delta=1)

    def test_a_video_behind_that_stalls_does_not_hold_up_the_end(self):
        y4m, pipe = self.tmp / "greys.y4m", self.tmp / "pipe"
        ffmpeg("-i", self.greys("same.mkv"), "-pix_fmt", "yuv420p", y4m)
        os.mkfifo(pipe)
        with subprocess.Popen(["sh", "-c", f"exec >'{pipe}'; cat '{y4m}'; exec sleep 100"]) as writer:
            try:
                self.assertEqual([30] * 3 + [60] * 2, self.behind(pipe, "--max-frames", 5))
            finally:
                writer.kill()

    @same_code
    def test_transparency_by_chance(self):
        path = self.clip(name="in.mov", seconds=0.2, vf="format=yuva444p10le", codec=("-c:v", "prores_ks"))
        p = run("segment", path, "-o", self.tmp / "o.mp4")
        self.assertIn("transparency is left out", p.stderr)
        self.assertEqual(ffprobe(self.tmp / "o.mp4")["streams"][0]["codec_name"], "h264")

    @same_code
    def test_rotated_video_is_seen_upright(self):
        upright = self.clip(seconds=0.4, size="240x320")
        turned = self.tmp / "turned.mp4"
        flat = self.tmp / "flat.mp4"
        ffmpeg("-i", upright, "-vf", "transpose=2", "-c:v", "libx264", "-qp", 0, flat)
        ffmpeg("-i", flat, "-c", "copy", "-metadata:s:v", "rotate=270", turned)
        run("segment", turned, "--mode", "mask", "-o", self.tmp / "m.mp4", "-crf", 0)
        a = ffprobe(self.tmp / "m.mp4")["streams"][0]
        self.assertEqual([abs(d["rotation"]) for d in a["side_data_list"] if "rotation" in d], [90])
        self.assertEqual((a["width"], a["height"]), (320, 240))
        run("segment", upright, "--mode", "mask", "-o", self.tmp / "u.mp4", "-crf", 0)

        def picture(path):
            return subprocess.run(["ffmpeg", "-v", "error", "-i", str(path), "-pix_fmt", "gray", "-frames:v", "1", "-f", "rawvideo", "-"],
                                  check=True, capture_output=True).stdout
        one, two = picture(self.tmp / "m.mp4"), picture(self.tmp / "u.mp4")  # both shown upright
        self.assertEqual(len(one), len(two))
        both = sum((x > 127) and (y > 127) for x, y in zip(one, two))
        any_ = sum((x > 127) or (y > 127) for x, y in zip(one, two))
        self.assertGreater(both / any_, 0.97)
        behind, grey = self.tmp / "behind.png", self.tmp / "grey.mp4"  # nobody is there: all is background, as it is shown
        ffmpeg("-f", "lavfi", "-i", "testsrc=s=320x240", "-frames:v", 1, behind)
        ffmpeg("-f", "lavfi", "-i", "color=gray:s=240x320", "-frames:v", 2, "-c:v", "libx264", self.tmp / "g.mp4")
        ffmpeg("-i", self.tmp / "g.mp4", "-c", "copy", "-metadata:s:v", "rotate=270", grey)
        run("segment", grey, "--mode", "replace", "--background", behind, "-o", self.tmp / "b.mp4", "-crf", 0)
        wrong = sum(abs(x - y) for x, y in zip(picture(self.tmp / "b.mp4"), picture(behind))) / (320 * 240)
        self.assertLess(wrong, 6)

    @same_code
    def test_summary(self):
        path = self.clip(seconds=1)
        s = json.loads(run("segment", path, "--mode", "mask", "--quiet", "--json", "--calibrate", "-f", "null", "-").stdout)
        self.assertEqual((s["frames"], s["decoded"]), (30, 30))
        self.assertEqual([x["name"] for x in s["steps"]], ["decode", "preprocess", "model", "postprocess", "composite", "encode"])
        for key in ("seconds", "fps", "light_ratio", "utilisation", "peak_memory_mib"):
            self.assertTrue(s[key], key)
        self.assertEqual(s["limited_by"] is None, s["verdict"]["limit"] == "none")
        # The default is our own provider if it runs the whole model; the summary names it.
        self.assertRegex(s["engine"], r"^tachy [\d.]+ \w+, ONNX Runtime [\d.]+$")
        other = json.loads(run("segment", path, "--mode", "mask", "--quiet", "--json", "--provider", "cpu", "-f", "null",
                               "-").stdout)
        self.assertRegex(other["engine"], r"^ONNX Runtime [\d.]+$")
        model = s["steps"][2]
        self.assertEqual(model["calls"], 30)
        self.assertTrue(0 < model["p50_ms"] <= model["p95_ms"] <= model["p99_ms"])
        p = run("segment", path, "--json", "-f", "framemd5", "-", check=False)
        self.assertEqual(p.returncode, 2)
        self.assertIn("stdout", p.stderr.replace("standard output", "stdout"))


models("selfie")
main(*(f"Segment.test_{name}" for name in (
    "untouched_pixels_and_order", "workers_give_the_same_bits", "modes", "json_lines", "sequence_in_and_out", "stereo_eyes_do_not_mix",
    "a_video_behind_that_stalls_does_not_hold_up_the_end")))
