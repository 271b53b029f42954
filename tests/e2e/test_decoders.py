"""One file over several decoders: the same output, byte for byte, whatever the number of decoders."""
import json
import os
import signal
import subprocess
import time

from common import Case, ROOT, SANITIZER, TACHY, ffmpeg, ffprobe, main, models, run

SAMPLE = ROOT / ".deps" / "media" / "sample.mp4"


class Decoders(Case):
    def clip(self, name, *args, seconds=5):
        path = self.tmp / name
        ffmpeg("-stream_loop", 1, "-i", SAMPLE, "-t", seconds, "-vf", "scale=320:-2", "-c:a", "copy", *args, path)
        return path

    def output(self, clip, decoders, *args):
        p = run("segment", clip, "-o", "-", "--decoders", decoders, "-v", "verbose", *args)
        several = "decoders side by side" in p.stderr
        self.assertEqual(several, decoders > 1, p.stderr)
        return p.stdout

    def same(self, clip, *args, decoders=(3,)):
        one = self.output(clip, 1, *args)
        self.assertGreater(one.count("\n"), 70)
        for n in decoders:
            self.assertEqual(self.output(clip, n, *args), one, f"{clip.name} {args} {n}")
        return one

    def test_results_are_the_same(self):
        x264 = ("-c:v", "libx264", "-preset", "veryfast", "-g", 30, "-bf", 3)
        open_gop = self.clip("open.mkv", *x264, "-x264-params", "open-gop=1")
        self.same(open_gop, "--mode", "mask", "-f", "framemd5")
        self.same(open_gop, "--mode", "mask", "--smooth", 0.7, "-f", "framemd5", decoders=(2, 3))
        self.same(open_gop, "--mode", "cutout", "-f", "framemd5")
        self.same(open_gop, "--mode", "mask", "-ss", 0.7, "-t", 3.4, "-f", "framemd5", decoders=(2,))
        hevc = self.clip("hevc.mp4", "-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=0:keyint=40")
        lines = self.same(hevc, "--mode", "json", "-f", "json").splitlines()
        ids = [r["frame"] for r in map(json.loads, lines) if "frame" in r]
        self.assertEqual(ids, list(range(len(ids))))
        self.assertEqual(len(ids), int(ffprobe(hevc, "-count_packets")["streams"][0]["nb_read_packets"]))

    def test_pictures_are_shared_out(self):
        for ending in ("jpg", "png"):
            pattern = self.tmp / f"p%03d.{ending}"
            ffmpeg("-stream_loop", 1, "-i", SAMPLE, "-vf", "scale=160:120", "-frames:v", 90, "-start_number", 0, "-q:v", 4, pattern)
            self.same(pattern, "--mode", "cutout", "-f", "framemd5")
        # From one size to another there is one decoder, and nothing else changes.
        ffmpeg("-i", SAMPLE, "-vf", "scale=200:120", "-frames:v", 40, "-start_number", 60, "-q:v", 4, self.tmp / "p%03d.jpg")
        self.same(self.tmp / "p%03d.jpg", "--mode", "json", "-f", "json")

    def test_sound_is_kept(self):
        clip = self.clip("sound.mp4", "-c:v", "libx264", "-preset", "veryfast", "-g", 30)
        sums = set()
        for n in (1, 2):
            out = self.tmp / f"out{n}.mkv"
            run("segment", clip, "--mode", "mask", "--decoders", n, "-preset", "ultrafast", "-o", out)
            sums.add(subprocess.run(["ffmpeg", "-v", "error", "-i", out, "-map", "0:a", "-c", "copy", "-f", "framemd5", "-"],
                                    check=True, capture_output=True, text=True).stdout)
        self.assertEqual(len(sums), 1)
        self.assertGreater(next(iter(sums)).count("\n"), 180)

    def test_threads_are_shared(self):
        """--decode-threads is no reason for one decoder only."""
        clip = self.clip("a.mp4", "-c:v", "libx264", "-preset", "ultrafast", "-g", 30, seconds=2)
        for threads, several in ((8, os.cpu_count() > 1), (1, False)):
            p = run("segment", clip, "--mode", "mask", "--provider", "null", "-f", "null", "-", "--decode-threads", threads,
                    "-v", "verbose")
            self.assertEqual("decoders side by side" in p.stderr, several, p.stderr)

    def test_falls_back_and_says_why(self):
        clip = self.clip("a.mp4", "-c:v", "libx264", "-preset", "ultrafast", "-g", 30)
        for args, why in ((("-r", 30), "-r"), (("--every-nth", 2), "--every-nth"), (("--max-frames", 90), "--max-frames")):
            p = run("segment", clip, "--mode", "mask", "-f", "null", "-o", "-", "--decoders", 2, "-v", "verbose", *args)
            said = [l for l in p.stderr.splitlines() if "decoded by one decoder" in l]
            self.assertEqual(len(said), 1, p.stderr)
            self.assertIn(why, said[0])

    def test_damage_at_the_end_of_a_segment(self):
        clip = self.clip("d.mp4", "-c:v", "libx264", "-preset", "veryfast", "-g", 30, "-sc_threshold", 0, "-bf", 0)
        packets = ffprobe(clip, "-select_streams", "v", "-show_packets")["packets"]
        keys = [i for i, p in enumerate(packets) if p["flags"].startswith("K")]
        whole = self.output(clip, 1, "--mode", "mask", "--smooth", 0.7, "-f", "framemd5")
        data = bytearray(clip.read_bytes())
        for i, step in (keys[1] - 1, 1), (keys[2] - 1, 40), (keys[3] + 5, 1):  # lost, concealed, lost
            for at in range(int(packets[i]["pos"]) + step - 1, int(packets[i]["pos"]) + int(packets[i]["size"]), step):
                data[at] ^= 0x5a
        clip.write_bytes(data)
        damaged = self.same(clip, "--mode", "mask", "--smooth", 0.7, "-f", "framemd5", decoders=(2, 3))
        self.assertLess(damaged.count("\n"), whole.count("\n"))

    def test_stopped_output_has_no_gaps(self):
        if SANITIZER:
            self.skipTest("depends on how fast it is")
        clip = self.clip("long.mp4", "-c:v", "libx264", "-preset", "ultrafast", "-g", 50, seconds=8)
        whole = run("segment", clip, "--mode", "mask", "-f", "framemd5", "-o", "-", "--decoders", 1).stdout.splitlines()
        for wait in (0.4, 0.7):
            p = subprocess.Popen([TACHY, "segment", "--focus", "off", clip, "--mode", "mask", "-f", "framemd5", "-o", "-", "--decoders", "2"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            time.sleep(wait)
            p.send_signal(signal.SIGINT)
            lines = p.communicate(timeout=60)[0].splitlines()
            self.assertEqual(lines, whole[:len(lines)])


models("selfie")
main()
