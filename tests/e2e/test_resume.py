"""Runs with --resume: killed at random moments they end in the file that an uninterrupted run writes,
byte for byte; what has changed is refused with a sentence. Times, sound and subtitles are judged by
ffprobe. RESUME_KILLS: how many kills (3)."""
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import unittest.mock

import common
from common import TACHY, ffmpeg, ffprobe, run, whole_frames

if common.SANITIZER:  # its allocator, which begins with other bytes, begins with zeros too
    os.environ["ASAN_OPTIONS"] = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "max_malloc_fill_size=1000000000",
                                                        "malloc_fill_byte=0"]))
KILLS = int(os.environ.get("RESUME_KILLS", "3"))
PART = 13  # frames


def sha(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def packets(path, kind, *entries):
    out = subprocess.run(["ffprobe", "-v", "error", "-select_streams", kind, "-show_entries", "packet=" + ",".join(entries),
                          "-of", "csv=p=0", str(path)], check=True, capture_output=True, text=True).stdout
    return out.split()


def times(path):
    """When each picture is shown, in order."""
    return sorted(float(x.strip(",")) for x in packets(path, "v", "pts_time"))


class Resume(common.Case):
    verb = "segment"

    @classmethod
    def setUpClass(cls):
        common.models("selfie")
        folder = tempfile.TemporaryDirectory(prefix="tachy-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.small = pathlib.Path(folder.name) / "small.mp4"  # the pictures as they are, so that no test scales them again
        ffmpeg("-t", 3, "-i", common.DEPS / "media/sample.mp4", "-vf", "scale=192:-2", "-c:v", "libx264", "-preset", "ultrafast", "-qp", 0,
               "-c:a", "copy", cls.small)

    def clip(self, name, *args, seconds=3):
        path = self.tmp / name
        ffmpeg("-t", seconds, "-i", self.small, "-pix_fmt", "yuv420p", *args, path)
        return path

    def vfr_clip(self):
        """Distances of one and two frames, B pictures, sound, a subtitle, chapters."""
        (self.tmp / "s.srt").write_text("1\n00:00:00,500 --> 00:00:02,000\nhello\n\n2\n00:00:03,000 --> 00:00:03,900\nworld\n")
        (self.tmp / "m.txt").write_text(";FFMETADATA1\ntitle=T\n" + "".join(
            f"[CHAPTER]\nTIMEBASE=1/1000\nSTART={a}\nEND={a + 2000}\ntitle=c{a}\n" for a in (0, 2000)))
        path = self.tmp / "vfr.mp4"
        ffmpeg("-t", 5, "-i", common.DEPS / "media/sample.mp4", "-i", self.tmp / "s.srt", "-i", self.tmp / "m.txt",
               "-map", "0:v", "-map", "0:a", "-map", "1", "-map_metadata", 2, "-vf",
               r"select='not(mod(n\,7)*gt(mod(n\,3)\,1))',scale=320:-2", "-fps_mode", "vfr",
               "-c:v", "libx264", "-bf", 3, "-g", 30, "-c:a", "aac", "-c:s", "mov_text", path)
        return path

    def start(self, *args, **kw):
        # A separate pipe for each process: a killed one leaves nothing behind.
        command = whole_frames([self.verb, "-q", "--resume", f"--processing.chunk_size={PART}", *args])
        return subprocess.Popen([TACHY, *command],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **kw)

    def whole(self, *args):
        p = self.start(*args)
        err = p.communicate(timeout=300)[1]
        self.assertEqual(p.returncode, 0, err)

    def job(self, out):
        try:
            return json.loads((out.parent / (out.name + ".tachy") / "job.json").read_text())
        except FileNotFoundError:
            return {}

    def frames(self, out):
        return self.job(out).get("frames", 0)

    def kill_at(self, out, frames, *args):
        """Kills a run once so many frames are kept; False where each of a few came to its end first."""
        for _ in range(5):
            p = self.start("-o", out, *args)
            until = time.monotonic() + 120
            while p.poll() is None and self.frames(out) < frames and time.monotonic() < until:
                time.sleep(0.002)
            p.kill()
            p.communicate()
            if p.returncode == -signal.SIGKILL:
                return True
            for path in self.tmp.glob(out.name.replace("%04d", "*")):
                path.unlink()
        return False

    def left_nothing(self, out):
        self.assertFalse((out.parent / (out.name + ".tachy")).exists())
        self.assertEqual([p.name for p in self.tmp.iterdir() if p.name.endswith(".part")], [])

    def killed_at_random(self, clip, ref, out, *args, kills):
        """As many kills as asked for, over as many jobs as that takes; the same bytes each time."""
        began = time.monotonic()
        self.whole(clip, "-o", ref, *args)
        length = time.monotonic() - began
        rnd, done = random.Random(11), 0
        while done < kills:
            p = self.start(clip, "-o", out, *args)
            try:
                err = p.communicate(timeout=rnd.uniform(0.05, length))[1]
                self.assertEqual(p.returncode, 0, err)
            except subprocess.TimeoutExpired:
                p.kill()
                p.communicate()
                done += 1
                job = out.with_name(out.name + ".tachy")
                ended = out.exists() and not (job / "job.json").exists() # just before the kill
                if ended and job.exists():
                    shutil.rmtree(job) # the last that it would have done
                if not ended and done < kills and self.frames(out) < self.frames_of(clip) / 2:
                    continue
                if not ended:
                    self.whole(clip, "-o", out, *args)
            self.assertEqual(sha(out), sha(ref))
            self.left_nothing(out)
            out.unlink()

    def frames_of(self, clip):
        return len(times(clip))

    def test_killed_at_random_moments(self):
        clip = self.vfr_clip()
        ref, out, plain = self.tmp / "ref.mp4", self.tmp / "out.mp4", self.tmp / "plain.mp4"
        self.killed_at_random(clip, ref, out, "--smooth", kills=KILLS)
        # The parts are joined without a trace in times, sound, subtitles and what the file says.
        run("segment", "-q", clip, "-o", plain, "--smooth")
        self.assertEqual(times(ref), times(clip))
        for kind, entries in ("a", ("pts", "size")), ("s", ("pts", "duration", "size")):
            self.assertEqual(packets(ref, kind, *entries), packets(plain, kind, *entries))
        a, b = ffprobe(ref), ffprobe(plain)
        self.assertEqual(a["chapters"], b["chapters"])
        for x, y in zip(a["streams"], b["streams"], strict=True):
            for key in "codec_name", "start_pts", "duration_ts", "nb_frames", "time_base", "has_b_frames", "disposition":
                self.assertEqual(x.get(key), y.get(key), key)
        keys = [i for i, line in enumerate(packets(ref, "v", "flags")) if line.startswith("K")]
        self.assertEqual(keys, list(range(0, self.frames_of(clip), PART)))
        ffmpeg("-xerror", "-i", ref, "-f", "null", "-")

    def test_other_files(self):
        """Matroska numbers its streams at random elsewhere; WebM has no reordering; JSON lines."""
        clip = self.clip("a.mp4", "-c:v", "libx264", "-c:a", "aac", seconds=2)
        for name, args in (("o.mkv", ("--smooth",)), ("o.webm", ()), ("o.jsonl", ("--mode", "json", "--smooth")),
                           ("o.mov", ("--mode", "alpha", "--batch", 4))):
            with self.subTest(name):
                ref, out = self.tmp / ("ref." + name.split(".")[1]), self.tmp / name
                self.killed_at_random(clip, ref, out, *args, kills=2 if name == "o.mkv" else 1)
                if name.endswith("jsonl"):
                    lines = [json.loads(line)["frame"] for line in out.with_name(ref.name).read_text().splitlines()]
                    self.assertEqual(lines, list(range(50)))

    def test_numbered_pictures(self):
        clip = self.clip("a.mp4", "-c:v", "libx264", seconds=2)
        ref, out = self.tmp / "r_%04d.png", self.tmp / "o_%04d.png"
        self.whole(clip, "-o", ref, "--smooth")
        self.assertTrue(self.kill_at(out, 2 * PART, clip, "--smooth"))
        self.assertEqual(list(self.tmp.glob("o_*.png")), [])
        self.whole(clip, "-o", out, "--smooth")
        for i in range(1, 51):
            self.assertEqual(sha(self.tmp / f"r_{i:04d}.png"), sha(self.tmp / f"o_{i:04d}.png"))
        self.assertEqual(len(list(self.tmp.glob("o_*.png"))), 50)
        self.left_nothing(out)

    def test_goes_on_in_every_kind_of_input(self):
        """The frames behind the cut are the same ones: seeked in, or read up to where that cannot be."""
        kinds = (("a.ts", ("-c:v", "libx264", "-g", 20), ()), ("a.avi", ("-c:v", "mpeg4", "-bf", 2), ()),
                 ("a.h264", ("-c:v", "libx264"), ()),
                 ("a.mkv", ("-c:v", "libx264", "-x264-params", "open-gop=1:keyint=15"), ()),
                 ("b.mkv", ("-c:v", "libx264"), ("-r", "30000/1001", "-ss", "0.5")),
                 ("c.mkv", ("-c:v", "libx264", "-c:a", "aac"), ("--every-nth", 2, "-ss", "0.1", "--max-frames", 36)),
                 ("d.mp4", ("-c:v", "libx264", "-c:a", "aac"), ("-ss", "0.3", "-t", "2")))
        for name, enc, args in kinds[2:5] if common.SANITIZER else kinds:  # the same code, many times as slow
            with self.subTest(name):
                clip = self.clip(name, *enc)
                ref, out = self.tmp / "ref.mkv", self.tmp / "out.mkv"
                self.whole(clip, "-y", "-o", ref, "--mode", "mask", "--smooth", *args)
                self.assertTrue(self.kill_at(out, 2 * PART, clip, "--mode", "mask", "--smooth", *args))
                err = run("segment", clip, "--resume", f"--processing.chunk_size={PART}", "-y", "-o", out, "--mode", "mask",
                          "--smooth", *args).stderr
                self.assertEqual(sha(out), sha(ref))
                self.assertRegex(err, "goes on at frame [1-9]")
                self.assertEqual("is read up to there" in err, name in ("a.h264", "b.mkv"), err)
                out.unlink()

    def test_frames_that_take_over_results(self):
        clip = self.clip("a.mp4", "-c:v", "libx264")
        args = ("--mode", "mask", "--frame-skip=0.15", "--smooth", "--workers", 2)
        ref, out = self.tmp / "ref.mp4", self.tmp / "out.mp4"
        self.whole(clip, "-o", ref, *args)
        reused = run("segment", clip, "-f", "null", "-", *args, "--json").stdout
        self.assertGreater(json.loads(reused)["reused"]["similar"], PART)
        for cut in (1, 3):
            self.assertTrue(self.kill_at(out, cut * PART, clip, *args))
            self.whole(clip, "-o", out, *args)
            self.assertEqual(sha(out), sha(ref))
            out.unlink()

    def test_where_people_are_looked_for(self):
        """What is known of an empty picture, and where somebody is."""
        common.models("person")
        clip = self.clip("a.mp4", "-vf", "drawbox=enable='lt(n,29)+between(n,50,60)':c=gray:t=fill:x=16", "-c:v", "libx264")
        args = ("--mode", "mask", "--focus", "auto", "--workers", 2)
        ref, out = self.tmp / "ref.mp4", self.tmp / "out.mp4"
        self.whole(clip, "-o", ref, *args)
        summary = json.loads(run("segment", clip, "-f", "null", "-", *args, "--json").stdout)
        self.assertIn(sum(m["runs"] for m in summary["models"]), range(10, summary["frames"] - 29))
        for cut in (1, 3):
            self.assertTrue(self.kill_at(out, cut * PART, clip, *args))
            self.whole(clip, "-o", out, *args)
            self.assertEqual(sha(out), sha(ref))
            out.unlink()

    def test_regions_that_are_taken_over(self):
        common.models("face", "face-mesh")
        clip = self.clip("a.mp4", "-c:v", "libx264", seconds=2)
        for self.verb in ("detect", "track"):
            ref, out = self.tmp / f"{self.verb}.mp4", self.tmp / "out.mp4"
            args = ("--frame-skip=0.15", "--workers", 2)
            self.whole(clip, "-o", ref, *args)
            reused = json.loads(run(self.verb, clip, "-f", "null", "-", *args, "--json").stdout)["reused"]["similar"]
            self.assertGreater(reused, PART)
            self.assertTrue(self.kill_at(out, 2 * PART, clip, *args))
            self.whole(clip, "-o", out, *args)
            self.assertEqual(sha(out), sha(ref))
            out.unlink()

    def test_a_background_video_and_two_eyes(self):
        clip, back = self.clip("a_sbs.mp4", "-c:v", "libx264", seconds=2), self.clip("b.mp4", "-c:v", "libx264", seconds=1)
        args = ("--mode", "replace", "--background", back, "--smooth", "--stereo", "sbs")
        ref, out = self.tmp / "ref.mp4", self.tmp / "out.mp4"
        self.whole(clip, "-o", ref, *args)
        # An encoder must not depend on the initial content of allocated memory.
        with unittest.mock.patch.dict(os.environ, MALLOC_PERTURB_="85"):
            self.assertTrue(self.kill_at(out, 3 * PART, clip, *args))
            self.whole(clip, "-o", out, *args)
        self.assertEqual(sha(out), sha(ref))

    def test_settings_that_are_lists(self):
        clip, ref, out, grey = self.clip("a.mp4", "-c:v", "libx264", seconds=2), self.tmp / "r.mp4", self.tmp / "o.mp4", self.tmp / "g.png"
        ffmpeg("-f", "lavfi", "-i", "color=0xc0c0c0:s=16x16", "-frames:v", 1, grey)
        # --person and --key auto have a state, which goes on as well.
        args = (clip, "--garbage-matte", "0,0,90%,90%", "--garbage-matte", grey, "--person", "largest", "--key", "auto", "--model", "selfie")
        self.whole("-o", ref, *args)
        self.assertTrue(self.kill_at(out, PART, *args))
        self.refused(out, *args[:3], *args[5:], words=["segment.garbage_matte", "as it was begun"])
        before = grey.read_bytes()
        ffmpeg("-f", "lavfi", "-i", "color=0x808080:s=16x16", "-frames:v", 1, self.tmp / "other.png")
        stat = grey.stat()
        grey.write_bytes((self.tmp / "other.png").read_bytes())
        self.refused(out, *args, words=["the file of segment.garbage_matte, number 2 has changed"])
        grey.write_bytes(before)
        os.utime(grey, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        self.whole("-o", out, *args)
        self.assertEqual(sha(out), sha(ref))

    def refused(self, out, *args, words, status=1):
        p = self.start("-o", out, *args)
        err = p.communicate(timeout=60)[1]
        self.assertEqual(p.returncode, status, err)
        self.assertEqual(len(err.splitlines()), 1, err)
        for word in words:
            self.assertIn(word, err)

    def test_what_has_changed_is_refused(self):
        clip, out = self.clip("a.mp4", "-c:v", "libx264"), self.tmp / "out.mp4"
        self.assertTrue(self.kill_at(out, PART, clip, "--smooth"))
        before = self.frames(out)
        for args, words in ((("--smooth=0.5",), ("segment.smooth", '"0.7"', '"0.5"', "start over")),
                            (("--smooth", "-crf", "30"), ("output.crf", '"30"', "start over")),
                            (("--smooth", "--engine-threads", "2"), ("model.threads", '"1"', '"2"', "start over")),
                            (("--smooth", "--max-frames", "20"), ("input.max_frames", '"20"')),
                            (("--smooth", "--processing.chunk_size=20"), ("processing.chunk_size", "13", "20"))):
            self.refused(out, clip, *args, words=words)
        path = self.tmp / "out.mp4.tachy/job.json"
        text = path.read_text()
        self.assertIn('"program": "tachy ', text)
        path.write_text(text.replace('"program": "tachy ', '"program": "tachy 0.0.0 of old '))
        self.refused(out, clip, "--smooth", words=("program", "of old", "start over"))
        path.write_text(text)
        self.assertEqual(self.frames(out), before)
        stat = clip.stat()
        with open(clip, "r+b") as f:
            f.seek(-1, 2)
            f.write(b"!")
        self.refused(out, clip, "--smooth", words=("a.mp4 has changed", "start over"))
        os.utime(clip, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # as if it were the old one
        self.refused(out, clip, "--smooth", words=("a.mp4 has changed", "start over"))

    def test_what_makes_no_difference_is_not_refused(self):
        clip, ref, out = self.clip("a.mp4", "-c:v", "libx264"), self.tmp / "ref.mp4", self.tmp / "out.mp4"
        self.whole(clip, "-o", ref, "--smooth", "--workers", 1)
        self.assertTrue(self.kill_at(out, 3 * PART, clip, "--smooth", "--workers", 1))
        env = dict(os.environ)
        p = self.start(os.path.relpath(clip, self.tmp), "-o", "out.mp4", "--smooth", "--workers", 3, "--decode-threads", 2,
                       "--max-memory", 30, cwd=self.tmp, env=env)
        self.assertEqual(p.communicate()[1], "")
        self.assertEqual(sha(out), sha(ref))

    def test_damage_is_told(self):
        clip, out = self.clip("a.mp4", "-c:v", "libx264"), self.tmp / "out.mp4"
        self.assertTrue(self.kill_at(out, 2 * PART, clip, "--smooth"))
        job = self.tmp / "out.mp4.tachy"
        keep = self.tmp / "keep"
        shutil.copytree(job, keep)

        def damaged(name, change, *words):
            shutil.rmtree(job, True)
            shutil.copytree(keep, job)
            change(job / name)
            self.refused(out, clip, "--smooth", words=words + ("start over",))

        def flip(path):
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)

        def other_pixels(path):
            d = json.loads(path.read_text())
            d["last_frames"][0]["pixels"] = "0" * 16
            path.write_text(json.dumps(d))

        state = next(p.name for p in keep.iterdir() if p.name.startswith("state-"))
        damaged("part-000000", flip, "part-000000", "is damaged")
        damaged("part-000000", lambda p: p.unlink(), "part-000000")
        damaged("part-000001", lambda p: p.write_bytes(p.read_bytes()[:-1]), "part-000001")
        damaged(state, flip, state)
        damaged("job.json", lambda p: p.write_text("{"), "job.json", "is damaged")
        damaged("job.json", other_pixels, "other pictures before frame")
        for key, value in (("part_frames", 0), ("part_frames", -1), ("frames", -13), ("frames", 1 << 62), ("parts", "x"), ("parts", [1])):
            damaged("job.json", lambda p: p.write_text(json.dumps({**json.loads(p.read_text()), key: value})), "start over")

    def test_one_process_at_a_time(self):
        clip, out = self.clip("a.mp4", "-c:v", "libx264"), self.tmp / "out.mp4"
        p = self.start(clip, "-o", out)
        while p.poll() is None and not (self.tmp / "out.mp4.tachy/job.json").exists():
            time.sleep(0.002)
        p.send_signal(signal.SIGSTOP)
        self.refused(out, clip, words=("another process", str(p.pid)), status=75)
        p.send_signal(signal.SIGCONT)
        self.assertEqual(p.communicate(timeout=120)[1], "")
        self.assertEqual(p.returncode, 0)

    def test_ctrl_c_says_how_to_go_on(self):
        clip, ref, out = self.clip("a.mp4", "-c:v", "libx264"), self.tmp / "ref.mp4", self.tmp / "out.mp4"
        self.whole(clip, "-o", ref)
        p = self.start(clip, "-o", out, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        while p.poll() is None and self.frames(out) < PART:
            time.sleep(0.002)
        p.send_signal(signal.SIGINT)
        err = p.communicate(timeout=60)[1]
        self.assertEqual(p.returncode, 130, err)
        self.assertRegex(err, r"the same command goes on at frame \d+ \(what there is lies in .*out\.mp4\.tachy\)")
        self.assertFalse(out.exists())
        self.whole(clip, "-o", out)
        self.assertEqual(sha(out), sha(ref))

    def test_a_full_disk_loses_nothing(self):
        clip, ref, folder = self.clip("a.mp4", "-c:v", "libx264"), self.tmp / "ref.mp4", self.tmp / "full"
        folder.mkdir()
        args = ("--mode", "blur", "-crf", "10", "-preset", "ultrafast")
        self.whole(clip, "-o", ref, *args)
        kib = ref.stat().st_size // 1024 // 2
        mounted = os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", folder],
                                                       capture_output=True).returncode == 0
        if not mounted:
            self.skipTest("a small file system cannot be mounted here")
        try:
            out = folder / "out.mp4"
            p = self.start(clip, "-o", out, *args)
            err = p.communicate(timeout=120)[1]
            self.assertEqual(p.returncode, 75, err)
            self.assertIn("no space", err)
            self.assertIn("the same command goes on", err)
            self.assertGreater(self.frames(out), 0)
            subprocess.run(["mount", "-o", f"remount,size={kib * 20}k", folder], check=True)
            self.whole(clip, "-o", out, *args)
            self.assertEqual(sha(out), sha(ref))
        finally:
            subprocess.run(["umount", folder], check=True)

    def test_ended_while_joining(self):
        clip, ref, out = self.clip("a.mp4", "-c:v", "libx264", "-c:a", "aac"), self.tmp / "ref.mp4", self.tmp / "out.mp4"
        self.whole(clip, "-o", ref)
        p = self.start(clip, "-o", out)
        while p.poll() is None and self.frames(out) < PART:
            time.sleep(0.002)
        out.write_text("somebody's")
        err = p.communicate(timeout=120)[1]
        self.assertEqual(p.returncode, 1)
        self.assertIn("came into being meanwhile and was left alone", err)
        self.assertEqual(out.read_text(), "somebody's")
        self.assertIn("all_in", self.job(out))
        out.unlink()
        keep = self.tmp / "keep"
        shutil.copytree(self.tmp / "out.mp4.tachy", keep)
        self.whole(clip, "-o", out)
        self.assertEqual(sha(out), sha(ref))
        # Killed after the renaming: the folder records which file has the name.
        shutil.copytree(keep, self.tmp / "out.mp4.tachy")
        path = self.tmp / "out.mp4.tachy/job.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "inode": out.stat().st_ino}))
        (path.parent / "part-000000").unlink()  # and even while the folder was being removed
        self.whole(clip, "-o", out)
        self.assertEqual(sha(out), sha(ref))
        self.left_nothing(out)

    def test_several_inputs(self):
        a, b = self.clip("a.mp4", "-c:v", "libx264", seconds=1), self.clip("b.mp4", "-c:v", "libx264")
        p = self.start(a, b)
        out = self.tmp / "b.cutout.mp4"
        while p.poll() is None and self.frames(out) < PART:
            time.sleep(0.002)
        p.kill()
        p.communicate()
        first = (self.tmp / "a.cutout.mp4").stat().st_mtime_ns
        self.whole(a, b)
        self.assertEqual((self.tmp / "a.cutout.mp4").stat().st_mtime_ns, first)
        self.assertEqual(times(out), times(b))

    def test_what_cannot_be_resumed(self):
        clip = self.clip("a.mp4", "-c:v", "libx264", seconds=1)
        for args in ((clip, "-f", "null", "-"), (clip, "-f", "framemd5", "-"), (clip, "-f", "matroska", "-"),
                     (clip, "-o", "/dev/null", "-f", "mp4"), (clip, "-o", self.tmp / "o.md5", "-f", "framemd5")):
            p = self.start(*args)
            err = p.communicate(timeout=60)[1]
            self.assertEqual(p.returncode, 1, err)
            self.assertIn("cannot be resumed", err)
        clip.unlink()
        clip = self.clip("a.mkv", "-c:v", "libx264", seconds=1)
        with open(clip, "rb") as f:
            p = self.start("-", "-o", self.tmp / "o.mp4", stdin=f)
            self.assertIn("can be resumed only where its input is one file", p.communicate()[1])
        self.assertEqual([p.name for p in self.tmp.iterdir()], ["a.mkv"])


if __name__ == "__main__":
    common.main()
