"""Sinks, driven by tests/unit/copy (a source copied into a sink) and judged by ffprobe and
ffmpeg: what goes in besides the pictures comes out, times are kept, nothing half written stays."""
import json
import os
import pathlib
import re
import resource
import subprocess
import unittest

import common
from common import ffmpeg, ffprobe

COPY = os.environ.get("TACHY_COPY", str(pathlib.Path(common.TACHY).parent / "tests" / "unit" / "copy"))

# Read by builds with the address sanitizer only.
os.environ.setdefault("LSAN_OPTIONS", f"suppressions={common.ROOT / 'tests' / 'lsan.supp'}:print_suppressions=0")

INVAL, NOT_FOUND, EXISTS, NO_SPACE, UNSUPPORTED, LIMIT = 2, 3, 4, 6, 8, 17

W, H = 160, 90
VIDEO = ["-f", "lavfi", "-i", f"testsrc2=s={W}x{H}:r=25:d=1"]
SHORT = [*VIDEO, "-frames:v", 5]  # where nothing depends on the length
FAST = ["-c:v", "libx264", "-preset", "ultrafast"]
SRT = "1\n00:00:00,100 --> 00:00:00,500\nfirst line\n\n2\n00:00:00,500 --> 00:00:00,900\n<i>second</i>\n"


def probe_frames(path, entries="pts_time"):
    out = subprocess.run(["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries",
                          f"frame={entries}", "-of", "json", str(path)],
                         check=True, capture_output=True, text=True).stdout
    return json.loads(out)["frames"]


def times(path):
    """Presentation times of the video's packets in seconds, sorted."""
    out = subprocess.run(["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries",
                          "packet=pts_time", "-of", "csv=p=0", str(path)],
                         check=True, capture_output=True, text=True).stdout
    return sorted(float(t.strip(",")) for t in out.split())


def raw(path, pix_fmt, *filters):
    args = ["-vf", ",".join(filters)] if filters else []
    return subprocess.run(["ffmpeg", "-v", "error", "-i", str(path), *args, "-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt",
                           pix_fmt, "-"], check=True, capture_output=True).stdout


def streams(info, kind):
    return [s for s in info["streams"] if s["codec_type"] == kind]


class SinkCase(common.Case):
    def copy(self, *args, status=0, **kw):
        p = subprocess.run([COPY, *map(str, args)], capture_output=True, timeout=300, **kw)
        p.err = p.stderr.decode(errors="replace")
        self.assertEqual(p.returncode, status, f"copy {' '.join(map(str, args))}\n{p.err}")
        return p

    def clip(self, name, *args):
        path = self.tmp / name
        ffmpeg(*args, path)
        return path

    def plain(self, name="in.mp4"):
        return self.clip(name, *VIDEO, *FAST)

    def rich(self, name, *codecs):
        """Video, two languages of sound, subtitles, chapters, tags."""
        srt = self.tmp / "s.srt"
        srt.write_text(SRT)
        meta = self.tmp / "meta.txt"
        meta.write_text(";FFMETADATA1\ntitle=A title\nartist=Somebody\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\n"
                        "END=400\ntitle=One\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=400\nEND=1000\ntitle=Two\n")
        return self.clip(name, *VIDEO, "-f", "lavfi", "-i", "sine=440:d=1", "-f", "lavfi", "-i",
                         "sine=880:d=1:sample_rate=32000", "-i", srt, "-i", meta, "-map", 0, "-map", 1, "-map", 2,
                         "-map", 3, "-map_metadata", 4, "-map_chapters", 4, *FAST, *codecs,
                         "-metadata:s:a:0", "language=deu", "-metadata:s:a:1", "language=fra",
                         "-metadata:s:s:0", "language=eng", "-disposition:a:0", "0", "-disposition:a:1", "default")

    def left(self):
        return sorted(p.name for p in self.tmp.iterdir() if "tachy-" in p.name)


class Streams(SinkCase):
    def check_rich(self, src, out, audio, subtitle):
        info = ffprobe(out)
        self.assertEqual([s["codec_name"] for s in streams(info, "audio")], [audio] * 2)
        self.assertEqual([s["tags"]["language"] for s in streams(info, "audio")],
                         ["ger" if out.suffix == ".mov" else "deu", "fra"])
        self.assertEqual([s["disposition"]["default"] for s in streams(info, "audio")], [0, 1])
        self.assertEqual([s["codec_name"] for s in streams(info, "subtitle")], [subtitle])
        self.assertEqual(streams(info, "subtitle")[0]["tags"]["language"], "eng")
        self.assertEqual([c["tags"]["title"] for c in info["chapters"]], ["One", "Two"])
        self.assertAlmostEqual(float(info["chapters"][1]["start_time"]), 0.4, 3)
        tags = {k.lower(): v for k, v in info["format"]["tags"].items()}
        self.assertEqual((tags["title"], tags["artist"]), ("A title", "Somebody"))
        self.assertAlmostEqual(float(info["format"]["duration"]), 1.0, delta=0.045)
        for (a, alength, atext), (b, blength, btext) in zip(self.lines(src), self.lines(out), strict=True):
            self.assertAlmostEqual(a, b, delta=0.0015)
            self.assertAlmostEqual(alength, blength, delta=0.0015)
            self.assertEqual(re.sub("<.*?>", "", atext), re.sub("<.*?>", "", btext))
        self.assertEqual(len(times(out)), 25)
        # the sound itself: silence would be 0
        level = subprocess.run(["ffmpeg", "-i", str(out), "-map", "0:a:1", "-af", "volumedetect", "-f", "null", "-"],
                               capture_output=True, text=True).stderr
        self.assertGreater(float(re.search(r"mean_volume: (\S+)", level).group(1)), -30)

    def lines(self, path):
        """Start, length and text of the subtitles, in the file's own times."""
        out = subprocess.run(["ffmpeg", "-v", "error", "-copyts", "-i", str(path), "-map", "0:s:0", "-f", "srt", "-"],
                             check=True, capture_output=True, text=True).stdout
        seconds = lambda t: sum(float(x) * k for x, k in zip(t.replace(",", ".").split(":"), (3600, 60, 1)))
        found = re.findall(r"(\S+) --> (\S+)\n(.*)\n", out)
        self.assertEqual(len(found), 2, out)
        return [(seconds(a), seconds(b) - seconds(a), text) for a, b, text in found]

    def packets(self, path, stream):
        return subprocess.run(["ffmpeg", "-v", "error", "-i", str(path), "-map", stream, "-c", "copy", "-f", "md5",
                               "-"], check=True, capture_output=True).stdout

    def test_mp4_copied(self):
        src = self.rich("in.mp4", "-c:a", "aac", "-c:s", "mov_text")
        self.copy(src, self.tmp / "out.mp4")
        self.check_rich(src, self.tmp / "out.mp4", "aac", "mov_text")
        for s in "0:a:0", "0:a:1":
            self.assertEqual(self.packets(src, s), self.packets(self.tmp / "out.mp4", s))
        video = streams(ffprobe(self.tmp / "out.mp4"), "video")[0]
        self.assertEqual(video["codec_name"], "h264")
        self.assertIn("tachy", video["tags"]["encoder"])

    def test_mkv_copied(self):
        src = self.rich("in.mkv", "-c:a", "flac", "-c:s", "srt")
        self.copy(src, self.tmp / "out.mkv")
        self.check_rich(src, self.tmp / "out.mkv", "flac", "subrip")
        for s in "0:a:0", "0:a:1", "0:s:0":
            self.assertEqual(self.packets(src, s), self.packets(self.tmp / "out.mkv", s))
        self.assertRegex(ffprobe(self.tmp / "out.mkv")["format"]["tags"]["ENCODER"], "tachy")

    def test_mkv_to_mp4(self):
        src = self.rich("in.mkv", "-c:a", "libvorbis", "-c:s", "srt")
        p = self.copy(src, self.tmp / "out.mp4")
        self.check_rich(src, self.tmp / "out.mp4", "aac", "mov_text")
        self.assertIn("converted to mov_text", p.err)
        self.assertIn("converted to aac", p.err)

    def test_mp4_to_webm(self):
        src = self.rich("in.mp4", "-c:a", "aac", "-c:s", "mov_text")
        self.copy(src, self.tmp / "out.webm")
        self.check_rich(src, self.tmp / "out.webm", "opus", "webvtt")
        self.assertEqual(streams(ffprobe(self.tmp / "out.webm"), "video")[0]["codec_name"], "vp9")

    def test_mp4_to_mkv_and_mov(self):
        src = self.rich("in.mp4", "-c:a", "aac", "-c:s", "mov_text")
        self.copy(src, self.tmp / "out.mkv")
        self.check_rich(src, self.tmp / "out.mkv", "aac", "subrip")
        self.copy(src, self.tmp / "out.mov")
        self.check_rich(src, self.tmp / "out.mov", "aac", "mov_text")

    def test_pcm(self):
        src = self.clip("in.mov", *VIDEO, "-f", "lavfi", "-i", "sine=d=1", *FAST, "-c:a", "pcm_s24le")
        self.copy(src, self.tmp / "out.mov")
        self.assertEqual(streams(ffprobe(self.tmp / "out.mov"), "audio")[0]["codec_name"], "pcm_s24le")
        self.copy(src, self.tmp / "out.mp4")
        audio = streams(ffprobe(self.tmp / "out.mp4"), "audio")[0]
        self.assertEqual(audio["codec_name"], "aac")
        self.assertAlmostEqual(float(audio["duration"]), 1.0, delta=0.03)

    def test_surround_to_webm(self):
        src = self.clip("in.mkv", *VIDEO, "-f", "lavfi", "-i", "anoisesrc=d=1:a=0.1,pan=5.1(side)|FL=c0|FR=c0|FC=c0|"
                        "LFE=c0|SL=c0|SR=c0", *FAST, "-c:a", "ac3")
        self.copy(src, self.tmp / "out.webm")
        audio = streams(ffprobe(self.tmp / "out.webm"), "audio")[0]
        self.assertEqual((audio["codec_name"], audio["channels"]), ("opus", 6))

    def test_left_out(self):
        font = self.tmp / "font.ttf"
        font.write_bytes(b"not much of a font")
        src = self.clip("in.mkv", *VIDEO, "-f", "lavfi", "-i", "sine=d=1", *FAST, "-c:a", "aac", "-attach", font,
                        "-metadata:s:t", "mimetype=application/x-truetype-font")
        p = self.copy(src, self.tmp / "out.mp4")
        self.assertEqual(len(re.findall(r"warning: .*attachment stream #2.*left out", p.err)), 1, p.err)
        self.copy(src, self.tmp / "out.mkv")
        self.assertEqual(len(streams(ffprobe(self.tmp / "out.mkv"), "attachment")), 1)

    def test_no_audio(self):
        src = self.rich("in.mp4", "-c:a", "aac", "-c:s", "mov_text")
        self.copy("-an", "-sn", src, self.tmp / "out.mp4")
        info = ffprobe(self.tmp / "out.mp4")
        self.assertFalse(streams(info, "audio") or streams(info, "subtitle"))

    def test_adts(self):
        src = self.clip("in.ts", *VIDEO, "-f", "lavfi", "-i", "sine=d=1", *FAST, "-c:a", "aac")
        for name in "out.mp4", "out.mkv":
            self.copy(src, self.tmp / name)
            self.assertEqual(streams(ffprobe(self.tmp / name), "audio")[0]["codec_name"], "aac")
            ffmpeg("-xerror", "-i", self.tmp / name, "-f", "null", "-")


class Time(SinkCase):
    def vfr(self, name):
        return self.clip(name, "-f", "lavfi", "-i", "testsrc2=s=64x36:r=50:d=2", "-vf",
                         "select='not(mod(n,3))+eq(mod(n,7),1)'", "-vsync", "vfr", *FAST, "-bf", "2",
                         "-video_track_timescale", "90000")

    def test_vfr(self):
        src = self.vfr("in.mp4")
        shown, length = times(src), float(ffprobe(src)["format"]["duration"])
        steps = {round(b - a, 4) for a, b in zip(shown, shown[1:])}
        self.assertGreater(len(steps), 1, "the clip is not VFR")
        for args in [], ["-c:v", "libx265", "-preset", "ultrafast"], ["-c:v", "mpeg4"]:
            self.copy("-y", *args, src, self.tmp / "out.mp4")
            self.assertEqual(shown, times(self.tmp / "out.mp4"), args)
            self.assertAlmostEqual(length, float(ffprobe(self.tmp / "out.mp4")["format"]["duration"]), delta=0.002)
        for name in "out.mkv", "out.webm":
            self.copy(src, self.tmp / name)
            for a, b in zip(shown, times(self.tmp / name), strict=True):
                self.assertAlmostEqual(a, b, delta=0.0006)  # Matroska counts milliseconds

    def test_length(self):
        def length_and_frames(path):
            info = ffprobe(path, "-count_packets")
            return float(info["format"]["duration"]), streams(info, "video")[0]["nb_read_packets"]

        for rate in "25", "30000/1001", "12":
            src = self.clip("in.mp4", "-f", "lavfi", "-i", f"testsrc2=s=64x36:r={rate}:d=1", *FAST)
            wanted = length_and_frames(src)
            for name in "out.mp4", "out.mov", "out.mkv", "out.webm":
                self.copy("-y", *(["-preset", "ultrafast"] if name != "out.webm" else []), src, self.tmp / name)
                got = length_and_frames(self.tmp / name)
                self.assertAlmostEqual(got[0], wanted[0], delta=0.002)
                self.assertEqual(got[1], wanted[1])

    def test_interleaving(self):
        src = self.clip("in.mp4", "-f", "lavfi", "-i", "testsrc2=s=64x36:r=25:d=6", "-f", "lavfi", "-i", "sine=d=6",
                        *FAST, "-c:a", "aac")
        self.copy(src, self.tmp / "out.mp4")
        out = subprocess.run(["ffprobe", "-v", "error", "-show_entries", "packet=codec_type,dts_time,pos", "-of", "json",
                              str(self.tmp / "out.mp4")], check=True, capture_output=True, text=True).stdout
        packets = sorted(json.loads(out)["packets"], key=lambda p: int(p["pos"]))
        last = {"audio": 0.0, "video": 0.0}
        for p in packets:
            last[p["codec_type"]] = float(p["dts_time"])
            self.assertLess(abs(last["audio"] - last["video"]), 1.5)

    def test_late_first_frame(self):
        src = self.clip("in.mkv", "-itsoffset", "0.32", *VIDEO, "-f", "lavfi", "-i", "sine=d=1", *FAST, "-c:a", "aac",
                        "-map", 0, "-map", 1)
        self.copy(src, self.tmp / "out.mp4")
        self.assertGreater(times(src)[0], 0.3)
        for a, b in zip(times(src), times(self.tmp / "out.mp4"), strict=True):
            self.assertAlmostEqual(a, b, delta=0.0011)

    def test_priming_moves_nothing(self):
        # AAC in MP4 starts before 0. Matroska counts from 0: the sound track stores its delay, and the pictures do not
        # move.
        src = self.clip("in.mp4", *VIDEO, "-f", "lavfi", "-i", "sine=d=1", *FAST, "-bf", 2, "-c:a", "aac")
        wanted = times(src)
        for name in "out.mkv", "out.webm":
            self.copy(src, self.tmp / name)
            self.assertEqual(times(self.tmp / name), wanted)
            audio = streams(ffprobe(self.tmp / name), "audio")[0]
            self.assertLess(abs(float(audio["start_time"])), 0.024)
            self.assertLess(float(audio["start_time"]), 0.001)


    def test_cut(self):
        src = Streams.rich(self, "in.mp4", "-bf", 2, "-c:a", "aac", "-c:s", "mov_text")
        kinds = "a:0", "a:1"
        for args, frames, length, names in ((["-ss", 0.32, "-t", 0.4], 10, 0.4, ("out.mp4", "out.mkv", "out.webm")),
                                            (["-frames:v", 8], 8, 0.32, ("out.mp4", "out.webm")),
                                            (["-t", 0.6], 15, 0.6, ("out.mp4", "out.mkv"))):
            for name in names:
                self.copy("-y", *args, src, self.tmp / name)
                shown = times(self.tmp / name)
                self.assertEqual(len(shown), frames)
                self.assertLess(abs(shown[0]), 0.002, (args, name))
                sound = [self.tmp / f"{kind[-1]}.raw" for kind in kinds]
                ffmpeg("-i", self.tmp / name, *(x for kind, out in zip(kinds, sound) for x in (
                    "-map", "0:" + kind, "-ac", 1, "-ar", 48000, "-f", "s16le", out)))
                for out in sound:
                    self.assertAlmostEqual(out.stat().st_size / 96000, length, delta=0.06)  # two AAC frames

    def test_real_clips(self):
        for name in "sam2_05_default_juggle.mp4", "asl_please.mkv", "liveportrait_d6.mp4":
            src = common.shared("media/" + name)
            self.copy("-y", "-t", 1, "-preset", "ultrafast", src, self.tmp / "out.mp4")
            wanted = [t for t in times(src) if t < 0.9995]
            for a, b in zip(wanted, times(self.tmp / "out.mp4"), strict=True):
                self.assertAlmostEqual(a, b, delta=0.0006)
            ffmpeg("-xerror", "-i", self.tmp / "out.mp4", "-f", "null", "-")


class Description(SinkCase):
    def test_rotation(self):
        ffmpeg(*SHORT, *FAST, self.tmp / "a.mp4")
        for degrees in 90, 180, 270:
            src = self.clip("in.mp4", "-i", self.tmp / "a.mp4", "-c", "copy", "-metadata:s:v", f"rotate={degrees}")
            wanted = [d["rotation"] for d in streams(ffprobe(src), "video")[0]["side_data_list"]]
            for name in "out.mp4", "out.mov":
                self.copy("-y", src, self.tmp / name)
                video = streams(ffprobe(self.tmp / name), "video")[0]
                self.assertEqual([d["rotation"] for d in video["side_data_list"]], wanted)
                self.assertEqual((video["width"], video["height"]), (W, H))

    def test_turned_where_nothing_says_rotation(self):
        # Large enough that what chroma loses at edges is little.
        large = "-f", "lavfi", "-i", "testsrc2=s=320x180:r=25", "-frames:v", 2
        for pix_fmt, turns in ("yuv420p", (90, 180, 270)), ("yuv422p10le", (90,)):
            ffmpeg(*large, "-c:v", "libx264", "-crf", 1, "-pix_fmt", pix_fmt, self.tmp / "a.mp4")
            for degrees in turns:
                src = self.clip("in.mp4", "-i", self.tmp / "a.mp4", "-c", "copy", "-metadata:s:v", f"rotate={degrees}")
                wanted = raw(src, "rgb24")
                for name in "out.avi", "out.nut", "f_%02d.png":
                    self.copy("-y", *(["-crf", 1, "-preset", "ultrafast"] if name[0] == "o" else []), src, self.tmp / name)
                    video = streams(ffprobe(self.tmp / name), "video")[0]
                    self.assertEqual((video["width"], video["height"]), (180, 320) if degrees != 180 else (320, 180))
                    self.assertNotIn("side_data_list", video)
                    got = raw(self.tmp / name, "rgb24")
                    self.assertEqual(len(got), len(wanted))
                    error = sum(abs(x - y) for x, y in zip(got[::97], wanted[::97])) / len(wanted[::97])
                    self.assertLess(error, 4, (pix_fmt, degrees, name))

    def test_orientation_of_photographs(self):
        # The tag of the camera, by hand: SOI, then an APP1 segment with one entry.
        self.clip("p.jpg", "-f", "lavfi", "-i", "testsrc=size=64x48", "-frames:v", 1, "-q:v", 1, "-pix_fmt", "yuvj444p")
        jpeg = (self.tmp / "p.jpg").read_bytes()
        turns = {2: "hflip", 3: "hflip,vflip", 4: "vflip", 5: "transpose=0", 6: "transpose=1", 7: "transpose=3", 8: "transpose=2"}
        for tag, turn in turns.items():
            exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0" + bytes([tag]) + b"\0\0\0\0\0\0"
            src = self.tmp / "e.jpg"
            src.write_bytes(jpeg[:2] + b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif + jpeg[2:])
            self.copy("-y", src, self.tmp / "o.png")
            got, want = raw(self.tmp / "o.png", "rgb24"), raw(self.tmp / "p.jpg", "rgb24", turn)
            self.assertLess(sum(abs(x - y) for x, y in zip(got, want)) / len(want), 1.5, turn)

    def test_cover_picture(self):
        cover = self.clip("c.jpg", "-f", "lavfi", "-i", "testsrc=size=64x48", "-frames:v", 1)
        clip = self.clip("in.mp4", *SHORT, *FAST)
        mp4 = self.clip("a.mp4", "-i", clip, "-i", cover, "-map", 0, "-map", 1, "-c", "copy", "-disposition:v:1", "attached_pic")
        mkv = self.clip("a.mkv", "-i", clip, "-attach", cover, "-metadata:s:t", "mimetype=image/jpeg", "-metadata:s:t",
                        "filename=front.jpg", "-c", "copy")
        for src, name in ((mp4, "o.mp4"), (mp4, "o.mkv"), (mkv, "o.mp4"), (mkv, "o.mkv")):
            self.copy("-y", src, self.tmp / name)
            self.clip("back.jpg", "-i", self.tmp / name, "-map", "0:v", "-map", "-0:V", "-c", "copy", "-f", "image2", "-update", 1)
            self.assertEqual((self.tmp / "back.jpg").read_bytes(), cover.read_bytes(), (src, name))
            (self.tmp / "back.jpg").unlink()
        self.assertIn("left out", self.copy(mp4, self.tmp / "o.mov").err)

    def test_light_of_the_mastering_display(self):
        display = "G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1)"
        src = self.clip("in.mkv", *VIDEO, "-frames:v", 3, "-c:v", "libx265", "-pix_fmt", "yuv420p10le", "-x265-params",
                        f"log-level=none:hdr10=1:repeat-headers=1:master-display={display}:max-cll=1000,400",
                        "-color_primaries", "bt2020", "-color_trc", "smpte2084", "-colorspace", "bt2020nc")
        raw_stream = self.clip("in.hevc", "-i", src, "-c", "copy") # nothing but the stream says it
        for source, name in ((src, "a.mp4"), (src, "a.mkv"), (src, "a.webm"), (raw_stream, "b.mp4")):
            self.copy("-y", source, self.tmp / name)
            video = streams(ffprobe(self.tmp / name), "video")[0]
            found = {d["side_data_type"]: d for d in video["side_data_list"]}
            self.assertEqual(found["Content light level metadata"]["max_content"], 1000, name)
            num, den = (int(x) for x in found["Mastering display metadata"]["max_luminance"].split("/"))
            self.assertEqual(num / den, 1000)
            self.assertEqual((video["color_transfer"], video["pix_fmt"]), ("smpte2084", "yuv420p10le"))

    def test_colour(self):
        keys = "color_range", "color_space", "color_transfer", "color_primaries"
        slow = ("out.webm", [])  # HEVC and VP9 in turn, each in 8 bits and in 10
        for values in (("tv", "bt709", "bt709", "bt709"), ("pc", "smpte170m", "smpte170m", "smpte170m"),
                       ("tv", "bt2020nc", "smpte2084", "bt2020"), ("tv", "bt2020nc", "arib-std-b67", "bt2020")):
            tags = [x for k, v in zip(("-color_range", "-colorspace", "-color_trc", "-color_primaries"), values)
                    for x in (k, v)]
            pix = ["-pix_fmt", "yuv420p10le"] if "bt2020" in values else ["-pix_fmt", "yuv420p"]
            src = self.clip("in.mp4", *SHORT, *FAST, *pix, *tags)
            slow = ("out.webm", []) if slow[0] == "out.mp4" else ("out.mp4", ["-c:v", "libx265", "-preset", "ultrafast"])
            for name, more in (("out.mp4", []), ("out.mov", []), ("out.mkv", []), slow):
                self.copy("-y", *more, src, self.tmp / name)
                video = streams(ffprobe(self.tmp / name), "video")[0]
                self.assertEqual(tuple(video.get(k) for k in keys), values, name)
                self.assertEqual("10" in pix[1], "10" in video["pix_fmt"])

    def test_untagged_stays_untagged(self):
        self.copy(self.plain(), self.tmp / "out.mp4")
        video = streams(ffprobe(self.tmp / "out.mp4"), "video")[0]
        self.assertIn(video.get("color_space", "unknown"), ("unknown", "unspecified"))

    def test_aspect(self):
        src = self.clip("in.mp4", *SHORT, "-vf", "setsar=4/3", *FAST)
        for name in "out.mp4", "out.mkv":
            self.copy(src, self.tmp / name)
            self.assertEqual(streams(ffprobe(self.tmp / name), "video")[0]["sample_aspect_ratio"], "4:3")

    def test_hdr(self):
        mp4 = self.clip("a.mp4", *SHORT, *FAST, "-pix_fmt", "yuv420p10le", "-color_trc", "smpte2084", "-colorspace",
                        "bt2020nc", "-color_primaries", "bt2020")
        display = b"".join(x.to_bytes(2, "big") for x in (13250, 34500, 7500, 3000, 34000, 16000, 15635, 16450))
        display += (10000000).to_bytes(4, "big") + (50).to_bytes(4, "big")
        src = self.boxed(mp4, self.box(b"mdcv", display) +
                         self.box(b"clli", (1000).to_bytes(2, "big") + (400).to_bytes(2, "big")))
        wanted = self.side_data(src)
        self.assertEqual(sorted(wanted), ["Content light level metadata", "Mastering display metadata"])
        for name, args in (("out.mp4", []), ("out.mkv", []), ("out.mp4", ["-c:v", "libx265", "-preset", "ultrafast"]),
                           ("out.webm", [])):
            self.copy("-y", *args, src, self.tmp / name)
            got = self.side_data(self.tmp / name)
            self.assertEqual(got["Content light level metadata"], wanted["Content light level metadata"])
            self.assertEqual(sorted(got), sorted(wanted))
            for key, value in wanted["Mastering display metadata"].items():
                if "/" in str(value):
                    fraction = lambda t: int(t.split("/")[0]) / int(t.split("/")[1])
                    self.assertAlmostEqual(fraction(got["Mastering display metadata"][key]), fraction(value), 3)

    def test_stereo_and_spherical(self):
        src = self.stereo("in.mp4")
        kinds = {d["side_data_type"]: d for d in streams(ffprobe(src), "video")[0]["side_data_list"]}
        self.assertIn("Stereo 3D", kinds)
        for name in "out.mp4", "out.mkv":
            self.copy(src, self.tmp / name)
            got = {d["side_data_type"]: d for d in streams(ffprobe(self.tmp / name), "video")[0]["side_data_list"]}
            self.assertEqual(got["Stereo 3D"]["type"], "side by side", name)
            self.assertEqual(got["Spherical Mapping"]["projection"], "equirectangular", name)
        p = self.copy(src, self.tmp / "out.mov")
        self.assertIn("stereo and spherical", p.err)

    def stereo(self, name):
        """A Matroska clip with a stereo mode, put into an MP4 file with a projection."""
        mkv = self.clip("s.mkv", *SHORT, *FAST, "-metadata:s:v", "stereo_mode=left_right")
        mp4 = self.tmp / name
        ffmpeg("-i", mkv, "-c", "copy", "-strict", "unofficial", mp4)
        box = self.box
        return self.boxed(mp4, box(b"sv3d", box(b"svhd", bytes(4) + b"test\0") +
                                   box(b"proj", box(b"prhd", bytes(16)) + box(b"equi", bytes(20)))))

    def side_data(self, path):
        return {d["side_data_type"]: d for d in streams(ffprobe(path), "video")[0].get("side_data_list", [])}

    @staticmethod
    def box(kind, body):
        return (len(body) + 8).to_bytes(4, "big") + kind + body

    def boxed(self, mp4, box):
        """The MP4 file with a box added to its H.264 sample description, which ffmpeg has no option for."""
        data = bytearray(mp4.read_bytes())
        self.assertGreater(data.find(b"moov"), data.find(b"mdat"), "chunk offsets would have to change")
        at = data.find(b"avcC") - 4
        data[at:at] = box
        i = 0
        for kind in b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd", b"avc1":
            i = data.find(kind, i + 4) - 4
            data[i:i + 4] = (int.from_bytes(data[i:i + 4], "big") + len(box)).to_bytes(4, "big")
        mp4.write_bytes(data)
        return mp4


class Pictures(SinkCase):
    def test_lossless_is_exact(self):
        for pix in "yuv420p", "yuv422p", "yuv444p", "yuv420p10le", "nv12":
            src = self.clip("in.mkv", *SHORT, "-c:v", "rawvideo" if pix == "nv12" else "ffv1", "-pix_fmt", pix)
            wanted = raw(src, pix)
            for args in (["-c:v", "ffv1"], ["-crf", "0", "-preset", "ultrafast"]):
                if "10" in pix and args[0] == "-crf":
                    continue  # x264 is lossless at qp 0 only there
                self.copy("-y", *args, src, self.tmp / "out.mkv")
                self.assertTrue(raw(self.tmp / "out.mkv", pix) == wanted, (pix, args))

    def test_odd_sizes(self):
        formats = "yuv420p", "yuv444p", "gray", "yuv420p10le"
        for n, (w, h) in enumerate(((1, 1), (213, 121), (3, 2), (2, 3), (17, 16))):
            outs = [x for f in formats for x in ("-frames:v", 4, "-c:v", "ffv1", "-pix_fmt", f, self.tmp / f"{f}.mkv")]
            ffmpeg("-f", "lavfi", "-i", f"testsrc2=s=64x64:r=25,scale={w}:{h}", *outs)
            for i, pix in enumerate(formats):
                # Each size goes into VP9 in two of the formats, each format in two sizes or three.
                for name, args in (("out.mp4", ["-preset", "ultrafast"]), ("out.webm", []))[:2 if (n + i) % 2 else 1]:
                    self.copy("-y", *args, self.tmp / f"{pix}.mkv", self.tmp / name)
                    video = streams(ffprobe(self.tmp / name, "-count_frames"), "video")[0]
                    self.assertEqual((video["width"], video["height"], video["nb_read_frames"]), (w, h, "4"), (name, pix))

    def test_gray_mask(self):
        src = self.clip("in.mkv", *VIDEO, "-frames:v", 5, "-c:v", "ffv1", "-pix_fmt", "gray")
        self.copy("-crf", 0, "-preset", "ultrafast", src, self.tmp / "out.mp4")
        video = streams(ffprobe(self.tmp / "out.mp4"), "video")[0]
        self.assertEqual((video["pix_fmt"], video["color_range"]), ("yuvj420p", "pc"))
        planes = raw(self.tmp / "out.mp4", "yuvj420p")
        size, luma = W * H * 3 // 2, W * H
        gray = raw(src, "gray")
        for n in range(5):
            self.assertEqual(planes[n * size:n * size + luma], gray[n * luma:(n + 1) * luma])
            self.assertEqual(set(planes[n * size + luma:(n + 1) * size]), {128})

    def ramp(self, path, bits=8):
        got = raw(path, "gray" if bits == 8 else "gray16le", "alphaextract")
        row = got[:W] if bits == 8 else [int.from_bytes(got[2 * x:2 * x + 2], "little") for x in range(W)]
        return row

    def test_alpha(self):
        src = self.plain()
        self.copy("-as", "yuva444p10le", src, self.tmp / "out.mov")
        video = streams(ffprobe(self.tmp / "out.mov"), "video")[0]
        self.assertEqual((video["codec_name"], video["profile"], video["codec_tag_string"]), ("prores", "4444", "ap4h"))
        self.assertEqual(video["pix_fmt"], "yuva444p12le")
        for x, v in enumerate(self.ramp(self.tmp / "out.mov", 16)):
            self.assertAlmostEqual(v / 65535, x / (W - 1), delta=0.004)

        self.copy("-as", "rgba", src, self.tmp / "out.mkv")
        video = streams(ffprobe(self.tmp / "out.mkv"), "video")[0]
        self.assertEqual((video["codec_name"], video["pix_fmt"]), ("ffv1", "bgra"))
        self.assertEqual(list(self.ramp(self.tmp / "out.mkv")), [x * 255 // (W - 1) for x in range(W)])

        self.copy("-as", "yuva420p", src, self.tmp / "out.webm")
        got = subprocess.run(["ffmpeg", "-v", "error", "-c:v", "libvpx-vp9", "-i", str(self.tmp / "out.webm"), "-vf",
                              "alphaextract", "-f", "rawvideo", "-pix_fmt", "gray", "-"], check=True,
                             capture_output=True).stdout
        for x in range(W):
            self.assertAlmostEqual(got[x], x * 255 / (W - 1), delta=6)

        p = self.copy("-as", "rgba", src, self.tmp / "out.mp4", status=UNSUPPORTED)
        self.assertIn(".mov", p.err)
        p = self.copy("-as", "rgba", "-c:v", "libx264", src, self.tmp / "no.mov", status=UNSUPPORTED)
        self.assertIn("transparency", p.err)
        p = self.copy("-as", "rgba", "-incidental", src, self.tmp / "by_chance.mp4")
        self.assertIn("transparency is left out", p.err)
        self.assertEqual(streams(ffprobe(self.tmp / "by_chance.mp4"), "video")[0]["pix_fmt"], "yuv420p")
        self.assertFalse((self.tmp / "out.mp4").exists() or self.left())

    def test_rgb_colour(self):
        # Red, as RGB, must come back as red through the tagged matrix.
        src = self.clip("in.mkv", "-f", "lavfi", "-i", "color=0xC81E32:s=64x64:r=25:d=0.2,format=rgb24", "-c:v", "png")
        self.copy("-pix_fmt", "yuv444p", "-crf", 0, src, self.tmp / "out.mp4")
        pixel = raw(self.tmp / "out.mp4", "rgb24", "scale=out_color_matrix=bt709")[:3]
        for got, want in zip(pixel, (0xC8, 0x1E, 0x32)):
            self.assertAlmostEqual(got, want, delta=3)

    def test_size_change(self):
        for size in f"{W}x{H}", "120x80":
            ffmpeg("-f", "lavfi", "-i", f"testsrc2=s={size}:r=25:d=0.4", *FAST, "-bsf:v", "h264_mp4toannexb", "-f",
                   "h264", self.tmp / f"{size}.h264")
        src = self.tmp / "in.h264"
        src.write_bytes((self.tmp / f"{W}x{H}.h264").read_bytes() + (self.tmp / "120x80.h264").read_bytes())
        ffmpeg("-fflags", "+genpts", "-i", src, "-c", "copy", self.tmp / "in.ts")
        p = self.copy(self.tmp / "in.ts", self.tmp / "out.mp4")
        self.assertEqual(len(re.findall("scaled to the first frame's size", p.err)), 1, p.err)
        self.assertEqual({(f["width"], f["height"]) for f in probe_frames(self.tmp / "out.mp4", "width,height")},
                         {(W, H)})

    def test_wide_is_hevc(self):
        src = self.clip("in.mkv", "-f", "lavfi", "-i", "testsrc2=s=4352x64:r=25", "-frames:v", 3, "-c:v", "ffv1")
        p = self.copy("-preset", "ultrafast", src, self.tmp / "out.mp4")
        video = streams(ffprobe(self.tmp / "out.mp4"), "video")[0]
        self.assertEqual((video["codec_name"], video["codec_tag_string"]), ("hevc", "hvc1"))
        self.assertNotIn("x265 [", p.err)


class Images(SinkCase):
    def test_sequence(self):
        src = self.clip("in.mkv", *VIDEO, "-frames:v", 12, "-c:v", "png", "-pix_fmt", "rgb24")
        self.copy(src, self.tmp / "f_%03d.png")
        names = sorted(p.name for p in self.tmp.glob("f_*.png"))
        self.assertEqual(names, [f"f_{n:03d}.png" for n in range(1, 13)])
        self.assertEqual(raw(src, "rgb24"), raw(self.tmp / "f_%03d.png", "rgb24"))
        p = self.copy(src, self.tmp / "f_%03d.png", status=EXISTS)
        self.assertIn("-y", p.err)
        self.copy("-y", src, self.tmp / "f_%03d.png")
        self.assertEqual(self.left(), [])

    def test_one(self):
        src = self.clip("in.png", "-f", "lavfi", "-i", "testsrc2=s=320x180", "-frames:v", 1, "-update", 1)
        for name, codec in (("a.png", "png"), ("a.jpg", "mjpeg"), ("a.bmp", "bmp"), ("a.tiff", "tiff"), ("a.webp", "webp")):
            self.copy(src, self.tmp / name)
            self.assertEqual(ffprobe(self.tmp / name)["streams"][0]["codec_name"], codec)
            a, b = raw(src, "rgb24"), raw(self.tmp / name, "rgb24")
            error = sum(abs(x - y) for x, y in zip(a, b)) / len(a)
            self.assertLess(error, {"mjpeg": 3, "webp": 5}.get(codec, 0.001), name)

    def test_jpeg_is_full_range(self):
        src = self.clip("in.mkv", "-f", "lavfi", "-i", "color=white:s=64x64:r=25:d=0.04", "-c:v", "ffv1", "-pix_fmt",
                        "yuv420p")
        self.copy(src, self.tmp / "a.jpg")
        self.assertGreaterEqual(min(raw(self.tmp / "a.jpg", "rgb24")), 253)

    def test_deep(self):
        src = self.clip("in.mkv", *VIDEO, "-frames:v", 1, "-c:v", "ffv1", "-pix_fmt", "yuv444p10le")
        self.copy(src, self.tmp / "a.png")
        self.assertEqual(ffprobe(self.tmp / "a.png")["streams"][0]["pix_fmt"], "rgb48be")

    def test_alpha(self):
        self.copy("-as", "rgba", self.plain(), self.tmp / "f_%02d.png")
        got = raw(self.tmp / "f_%02d.png", "rgba")[3:4 * W:4]
        self.assertEqual(list(got), [x * 255 // (W - 1) for x in range(W)])
        p = self.copy("-as", "rgba", self.plain(), self.tmp / "f_%02d.jpg", status=UNSUPPORTED)
        self.assertIn(".png", p.err)

    def test_too_many(self):
        p = self.copy(self.plain(), self.tmp / "a.png", status=LIMIT)
        self.assertIn("%04d", p.err)
        self.assertFalse((self.tmp / "a.png").exists())
        p = self.copy(self.plain(), self.tmp / "a_%d_%d.png", status=INVAL)
        self.assertIn("%04d", p.err)

    def test_interrupted(self):
        self.copy("-stop", 3, self.plain(), self.tmp / "f_%02d.png")
        self.assertEqual(len(list(self.tmp.glob("f_*.png"))), 3)


class Hash(SinkCase):
    def reference(self, src):
        return subprocess.run(["ffmpeg", "-v", "error", "-i", str(src), "-map", "0:v", "-f", "framemd5", "-"], check=True,
                              capture_output=True, text=True).stdout

    def test_same_as_ffmpeg(self):
        for args in (["-bf", "2"], ["-r", "30000/1001"], ["-pix_fmt", "yuv444p"], ["-vf", "setsar=4/3"]):
            src = self.clip("in.mp4", *VIDEO, *FAST, *args)
            self.assertEqual(self.copy("-f", "framemd5", src, "-").stdout.decode(), self.reference(src), args)
        self.copy("-f", "framemd5", src, self.tmp / "sums")
        self.assertEqual((self.tmp / "sums").read_text(), self.reference(src))

    def test_vfr_sums(self):
        src = Time.vfr(self, "in.mp4")
        sums = lambda text: [line.split(",")[-1] for line in text.splitlines() if line[0] != "#"]
        ours = self.copy("-f", "framemd5", src, "-").stdout.decode()
        theirs = subprocess.run(["ffmpeg", "-v", "error", "-i", str(src), "-vsync", "passthrough", "-f", "framemd5", "-"],
                                check=True, capture_output=True, text=True).stdout
        self.assertEqual(sums(ours), sums(theirs))
        self.assertEqual([int(line.split(",")[2]) for line in ours.splitlines() if line[0] != "#"],
                         [round(t * 90000) for t in times(src)])


class Lines(SinkCase):
    def test_json(self):
        src = self.plain()
        self.copy("-lines", src, self.tmp / "out.json")
        lines = (self.tmp / "out.json").read_text().splitlines()
        self.assertEqual([json.loads(x)["frame"] for x in lines], list(range(25)))
        out = self.copy("-lines", "-f", "json", src, "-").stdout.decode().splitlines()
        self.assertEqual(out, lines)
        p = self.copy(src, self.tmp / "none.json", status=INVAL)
        self.assertIn("--mode json", p.err)
        self.assertFalse((self.tmp / "none.json").exists() or self.left())


class Rules(SinkCase):
    def test_overwrite(self):
        src, out = self.plain(), self.tmp / "out.mp4"
        out.write_text("precious")
        p = self.copy(src, out, status=EXISTS)
        self.assertIn("-y", p.err)
        self.assertEqual(out.read_text(), "precious")
        self.copy("-y", src, out)
        self.assertEqual(len(times(out)), 25)
        self.assertEqual(self.left(), [])

    def test_link_stays_a_link(self):
        src, real, link = self.plain(), self.tmp / "real.mp4", self.tmp / "link.mp4"
        real.write_text("old")
        link.symlink_to(real)
        self.copy("-y", src, link)
        self.assertTrue(link.is_symlink())
        self.assertEqual(len(times(real)), 25)

    def test_refusals(self):
        src = self.plain()
        for args, status, words in (
                (["out"], INVAL, ".mp4"), (["out.xyz"], INVAL, ".xyz"), (["no/such/out.mp4"], NOT_FOUND, "no/such"),
                (["-f", "mp5", "out.mp4"], INVAL, "mp"), (["-c:v", "copy", "out.mp4"], INVAL, "copy"),
                (["-c:v", "libx246", "out.mp4"], INVAL, "libx264"), (["-c:v", "aac", "out.mp4"], INVAL, "video"),
                (["-preset", "ultrafats", "-c:v", "libx264", "out.mp4"], INVAL, "ultrafast"),
                (["-preset", "fsat", "out.mp4"], INVAL, "fast"), (["-preset", "fast", "out.webm"], INVAL, "preset"),
                (["-crf", "99", "out.mp4"], INVAL, "51"), (["-crf", "good", "out.mp4"], INVAL, "number"),
                (["-crf", "5", "-c:v", "prores_ks", "out.mov"], INVAL, "prores_ks"),
                (["-pix_fmt", "yuv420q", "out.mp4"], INVAL, "yuv420p"),
                (["-pix_fmt", "bgra", "out.mp4"], INVAL, "yuv420p"),
                (["-c:v", "prores_ks", "out.mp4"], UNSUPPORTED, "prores"), (["out.gif"], UNSUPPORTED, "GIF"),
                (["out.mp3"], UNSUPPORTED, "video"), (["gopher://example.org/x"], UNSUPPORTED, "protocol"),
                (["."], INVAL, "folder"), (["-threads", "-1", "out.mp4"], INVAL, "threads"),
                (["-c:v", "hevc_nonsense_xyzzy_encoder", "out.mp4"], 9, "encoder"), (["-"], INVAL, "-f")):
            name = args[-1] if args[-1] == "-" or "://" in args[-1] else self.tmp / args[-1]
            p = self.copy(*args[:-1], src, name, status=status)
            errors = [x for x in p.err.splitlines() if x.startswith("error: ")]
            self.assertEqual(len(errors), 1, p.err)
            self.assertIn(words, errors[0])
            self.assertEqual(self.left(), [])

    def test_unwritable_folder(self):
        if os.geteuid() == 0:
            self.skipTest("root may write everywhere")
        folder = self.tmp / "locked"
        folder.mkdir(mode=0o500)
        p = self.copy(self.plain(), folder / "out.mp4", status=5)
        self.assertIn("locked", p.err)

    def test_interrupted(self):
        src = self.rich("in.mp4", "-c:a", "aac", "-c:s", "mov_text")
        for name in "out.mp4", "out.mkv", "out.webm":
            self.copy("-stop", 10, src, self.tmp / name)
            shown = times(self.tmp / name)
            self.assertEqual(len(shown), 10)
            if name == "out.mp4":
                self.assertEqual(shown, times(src)[:10])
            ffmpeg("-xerror", "-i", self.tmp / name, "-f", "null", "-")
            for kind in "audio", "subtitle":
                ends = subprocess.run(["ffprobe", "-v", "error", "-select_streams", kind[0], "-show_entries",
                                       "packet=pts_time", "-of", "csv=p=0", str(self.tmp / name)], check=True,
                                      capture_output=True, text=True).stdout.split()
                self.assertTrue(ends, (name, kind))
                self.assertLess(max(float(t.strip(",")) for t in ends), 0.45, (name, kind))
        self.assertEqual(self.left(), [])
        self.copy("-stop", 0, src, self.tmp / "whole.mp4")

    def test_interrupted_before_the_first_frame(self):
        (self.tmp / "in.mkv").write_bytes(b"not a video")
        p = subprocess.run([COPY, str(self.tmp / "in.mkv"), str(self.tmp / "out.mp4")], capture_output=True)
        self.assertNotEqual(p.returncode, 0)
        self.assertEqual(sorted(os.listdir(self.tmp)), ["in.mkv"])

    def test_pipes(self):
        src = self.rich("in.mp4", "-c:a", "aac", "-c:s", "mov_text")
        for form in "mp4", "mov", "matroska", "mpegts":
            data = self.copy("-f", form, "-sn", src, "-").stdout
            (self.tmp / "piped").write_bytes(data)
            self.assertEqual(len(times(self.tmp / "piped")), 25, form)
            self.assertEqual(len(streams(ffprobe(self.tmp / "piped"), "audio")), 2)
            if form == "mp4":
                self.assertEqual(times(self.tmp / "piped"), times(src))

    def test_reader_gone(self):
        read, write = os.pipe()
        os.close(read)
        p = subprocess.run([COPY, "-f", "matroska", str(self.plain()), "-"], stdout=write, stderr=subprocess.PIPE, text=True)
        os.close(write)
        self.assertEqual(p.returncode, 5)
        self.assertIn("reader has gone", p.stderr)

    def test_full_device(self):
        p = self.copy("-f", "matroska", self.plain(), "/dev/full", status=NO_SPACE)
        self.assertIn("/dev/full", p.err)
        self.assertEqual(p.err.count("error:"), 1)

    def noise(self):
        return self.clip("noise.mkv", "-f", "lavfi", "-i", "nullsrc=s=320x180:r=25:d=2,geq=random(1)*255:128:128", "-c:v",
                         "ffv1")

    def test_size_limit(self):
        src = self.noise()
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        for name in "out.mp4", "out.mkv":
            p = self.copy("-crf", 1, "-preset", "ultrafast", src, self.tmp / name, status=NO_SPACE, preexec_fn=limit)
            self.assertIn("limit", p.err)
            self.assertIn("removed", p.err)
            self.assertEqual(p.err.count("error:"), 1)
            self.assertFalse((self.tmp / name).exists())
        self.assertEqual(self.left(), [])

    def test_full_disk(self):
        src = self.noise()
        disk = self.tmp / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], capture_output=True).returncode:
            self.skipTest("a small file system cannot be mounted here")
        self.addCleanup(subprocess.run, ["umount", str(disk)])
        for name in "out.mp4", "out.mkv", "f_%04d.png", "sums.md5":
            args = ["-f", "framemd5"] if name == "sums.md5" else \
                ["-crf", 1, "-preset", "ultrafast"] if name[-3:] in ("mp4", "mkv") else []
            if name == "sums.md5":
                (disk / "fill").write_bytes(bytes((1 << 20) - 4096))
            p = self.copy(*args, src, disk / name, status=NO_SPACE)
            self.assertIn("no space is left on the device of " + str(disk), p.err)
            self.assertEqual(p.err.count("error:"), 1, p.err)
            self.assertIn("removed", p.err)
            left = [x for x in os.listdir(disk) if x != "fill"]
            if name[-3:] == "png":  # whole pictures are kept
                self.assertGreater(len(left), 2)
                self.assertEqual(sorted(left), [name % (n + 1) for n in range(len(left))])
                ffmpeg("-xerror", "-i", disk / name, "-f", "null", "-")
                for x in left:
                    (disk / x).unlink()
            else:
                self.assertEqual(left, [])


if __name__ == "__main__":
    common.main()
