"""Bad input and bad luck: handled or refused with one clear sentence, never a crash."""
import fcntl
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import time
import unittest

from common import Case, SANITIZER, TACHY, ROOT, ffmpeg, ffprobe, main, models, run

PORTRAIT = ROOT / ".deps" / "media" / "astronaut.png"


class Robust(Case):
    def clip(self, name, *args, size="320x180", seconds=1, rate=30):
        path = self.tmp / name
        ffmpeg("-loop", 1, "-framerate", rate, "-i", PORTRAIT, "-t", seconds, "-vf", f"scale={size.replace('x', ':')},format=yuv420p", *args, path)
        return path

    def refused(self, *args, code=1, words=()):
        p = run(*args, check=False)
        self.assertEqual(p.returncode, code, p.stderr)
        errors = [l for l in p.stderr.splitlines() if l.startswith("tachy:")]
        self.assertEqual(len(errors), 1, p.stderr)
        for w in words:
            self.assertIn(w, errors[0])

    def sound(self, p):
        """A clean end: success or one refusal, never a signal."""
        self.assertIn(p.returncode, (0, 1), p.stderr)

    def test_refused_with_a_sentence(self):
        empty = self.tmp / "empty.mp4"
        empty.touch()
        noise = self.tmp / "noise.mp4"
        noise.write_bytes(random.Random(1).randbytes(20000))
        audio = self.tmp / "audio.m4a"
        ffmpeg("-f", "lavfi", "-i", "sine", "-t", 1, audio)
        folder = self.tmp / "folder"
        folder.mkdir()
        for path in (empty, noise, audio, self.tmp / "missing.mp4", folder):
            with self.subTest(path.name):
                self.refused("segment", path, "-o", self.tmp / "o.mp4", words=[path.name])
                self.assertFalse((self.tmp / "o.mp4").exists())

    def test_truncated_and_flipped(self):
        whole = self.clip("a.mkv", "-c:v", "libx264", "-g", "12", seconds=1).read_bytes()
        rng = random.Random(2)
        for i in range(4 if SANITIZER else 12):
            data = bytearray(whole if i % 2 else whole[:rng.randrange(600, len(whole))])
            for _ in range(rng.randrange(0, 40) if i > 1 else 0):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            bad = self.tmp / f"bad{i}.mkv"
            bad.write_bytes(data)
            out = self.tmp / f"out{i}.mp4"
            p = run("segment", bad, "-preset", "ultrafast", "-o", out, check=False)
            self.sound(p)
            self.assertEqual(out.exists(), p.returncode == 0)

    def test_sizes(self):
        sizes, modes = ("1x1", "3x517", "2x2", "853x481", "2000x16"), ("cutout", "json", "blur", "mask", "side-by-side")
        few = 2 if SANITIZER else None  # each command takes many times as long there
        for size in sizes[:few]:
            with self.subTest(size):
                path = self.clip(f"s{size}.mkv", "-c:v", "ffv1", size=size, seconds=0.2)
                for mode in modes[:few]:
                    run("segment", path, "--mode", mode, "--refine", "--smooth", "-y", "-f", "null", "-")
                out = self.tmp / f"o{size}.mp4"
                run("segment", path, "-preset", "ultrafast", "-o", out)
                v = ffprobe(out)["streams"][0]
                self.assertEqual(f'{v["width"]}x{v["height"]}', size)

    @unittest.skipIf(SANITIZER, "many times as slow; sizes have their own test")
    def test_8k(self):
        path = self.clip("8k.mp4", "-c:v", "libx264", "-preset", "ultrafast", size="7680x4320", seconds=0.1)
        run("segment", path, "--mode", "mask", "-f", "null", "-")

    def test_size_change_in_the_stream(self):
        a = self.clip("a.h264", "-c:v", "libx264", seconds=0.5)
        b = self.clip("b.h264", "-c:v", "libx264", size="160x120", seconds=0.5)
        both = self.tmp / "both.h264"
        both.write_bytes(a.read_bytes() + b.read_bytes())
        out = self.tmp / "o.mp4"
        run("segment", both, "-preset", "ultrafast", "-o", out)
        v = ffprobe(out, "-count_frames")["streams"][0]
        self.assertEqual((v["width"], v["height"], int(v["nb_read_frames"])), (320, 180, 30))

    def test_never_overwrites(self):
        path = self.clip("a.mp4", seconds=0.2)
        out = self.tmp / "o.mp4"
        out.write_text("precious")
        self.refused("segment", path, "-o", out, words=["o.mp4", "-y"])
        self.assertEqual(out.read_text(), "precious")
        run("segment", path, "-o", out, "-y", "-preset", "ultrafast")
        self.assertEqual(ffprobe(out)["streams"][0]["codec_name"], "h264")
        self.refused("segment", path, "-o", path, "-y", words=["a.mp4"])

    def test_nothing_is_written_over_under_another_name(self):
        path = self.clip("a.mp4", seconds=0.2)
        whole = path.read_bytes()
        (self.tmp / "link.mp4").symlink_to("a.mp4")
        (self.tmp / "nowhere.mp4").symlink_to("missing.mp4")
        for args, words in (((path, "-y", "-o", f"file:{path}"), ["a.mp4"]),
                            ((f"file:{path}", "-y", "-o", self.tmp / "link.mp4"), ["link.mp4"]),
                            ((path, "-y", f"--json={path}", "-f", "null", "-"), ["--json"]),
                            ((path, "-y", f"--json={self.tmp}/o.mp4", "-o", self.tmp / "o.mp4"), ["--json"]),
                            ((path, "-o", self.tmp / "nowhere.mp4"), ["nowhere.mp4", "link"]),
                            ((path, f"--json={self.tmp}/no/x.json", "-o", self.tmp / "o.mp4"), ["x.json"])):
            with self.subTest(args[-1]):
                self.refused("segment", *args, words=words)
                self.assertEqual(path.read_bytes(), whole)
                self.assertFalse((self.tmp / "o.mp4").exists())
        out = self.tmp / "s.json"
        run("segment", path, f"--json={out}", "-f", "null", "-")
        self.refused("segment", path, f"--json={out}", "-f", "null", "-", words=["-y"])
        run("segment", path, path, "-y", f"--json={out}", "-f", "null", "-")
        self.assertEqual(len(out.read_text().splitlines()), 2)

    def test_closed_standard_streams(self):
        path = self.clip("a.mp4", seconds=0.2)
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            with self.subTest(closed):
                out = self.tmp / "o.mkv"
                subprocess.run(["sh", "-c", f'exec "$0" segment --focus off "$1" -y -o "$2" {closed}', TACHY, path, out], capture_output=True)
                self.assertEqual(ffprobe(out, "-count_frames")["streams"][0]["nb_read_frames"], "6")
                self.assertNotIn(b"Bottleneck", out.read_bytes())

    def test_a_reader_that_has_gone(self):
        path = self.clip("a.mp4", seconds=1)
        for args in (("-f", "matroska", "-"), ("--mode", "json", "-o", "-")):
            p = subprocess.Popen([TACHY, "segment", "--focus", "off", "-q", str(path), *args], bufsize=0, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
            fcntl.fcntl(p.stdout, fcntl.F_SETPIPE_SZ, 4096)  # more than that comes: nobody ends before the reader
            p.stdout.read(1)
            p.stdout.close()
            err = p.stderr.read().decode()
            p.stderr.close()
            self.assertEqual(p.wait(60), 1, err)
            self.assertEqual(len(err.splitlines()), 1, err)

    def test_a_stop_ends_waiting(self):
        fifo = self.tmp / "fifo"
        os.mkfifo(fifo)
        pipe = os.pipe()
        path = self.clip("a.ts", "-c:v", "libx264", "-preset", "ultrafast", seconds=2)
        os.write(pipe[1], path.read_bytes()[:60000])
        for args, sig in (((fifo, "-f", "null", "-"), signal.SIGINT), (("-", "-o", self.tmp / "o.mp4"), signal.SIGHUP)):
            # Under nohup, or with a shell's &, the signal would be inherited as ignored and stay so.
            p = subprocess.Popen([TACHY, "segment", "--focus", "off", *map(str, args)], stdin=pipe[0], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                 text=True, preexec_fn=lambda sig=sig: signal.signal(sig, signal.SIG_DFL))
            time.sleep(2)
            p.send_signal(sig)
            err = p.communicate(timeout=30)[1]
            self.assertEqual(p.returncode, 130, err)
            self.assertIn("interrupted", err)
        os.close(pipe[0])
        os.close(pipe[1])

    def test_lengths(self):
        path = self.clip("a.mp4", "-c:v", "libx264", seconds=1, rate=10)
        self.refused("segment", path, "-t", 0, "-f", "null", "-", code=2, words=["-t"])
        for n, frames in ((3, 4), (1000, 1)):
            out = self.tmp / f"n{n}.mp4"
            run("segment", path, "--every-nth", n, "-o", out)
            v = ffprobe(out, "-count_frames")["streams"][0]
            self.assertEqual(int(v["nb_read_frames"]), frames)
            self.assertAlmostEqual(float(v["duration"]), 1, places=3)

    def test_interrupt_leaves_a_playable_file_or_none(self):
        path = self.tmp / "long.mp4"
        ffmpeg("-stream_loop", 59, "-i", self.clip("a.mp4", "-preset", "ultrafast"), "-c", "copy", path)
        for wait in (0.05, 1.5):
            out = self.tmp / f"int{wait}.mp4"
            p = subprocess.Popen([TACHY, "segment", "--focus", "off", str(path), "--mode", "mask", "-o", str(out)], stderr=subprocess.PIPE, text=True)
            time.sleep(wait)
            p.send_signal(signal.SIGINT)
            err = p.communicate(timeout=60)[1]
            self.assertIn(p.returncode, (130, -signal.SIGINT), err)
            if out.exists():
                frames = int(ffprobe(out, "-count_frames")["streams"][0]["nb_read_frames"])
                self.assertTrue(0 < frames < 1800, frames)
                self.assertIn(out.name, err)
            self.assertFalse([x for x in self.tmp.iterdir() if "part" in x.name])

    def test_full_disk_is_named(self):
        path = self.clip("a.mp4", "-preset", "ultrafast", seconds=3)
        out = self.tmp / "full" / "o.mp4"
        out.parent.mkdir()
        mounted = os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", out.parent],
                                                       capture_output=True).returncode == 0
        if not mounted:
            self.skipTest("no small file system can be mounted here")
        self.addCleanup(subprocess.run, ["umount", out.parent])
        p = run("segment", path, "-crf", 0, "-o", out, check=False)
        self.assertEqual(p.returncode, 75, p.stderr)
        self.assertIn("space", p.stderr)
        self.assertEqual(list(out.parent.iterdir()), [])
        (out.parent / "fill").write_bytes(bytes(60000))
        run("quality", path, "-f", "null", f"--json={self.tmp}/s.json", "-")
        p = run("report", self.tmp / "s.json", "-o", out.parent / "x.html", check=False)
        self.assertEqual((p.returncode, (out.parent / "x.html").exists()), (75, False), p.stderr)

    def test_a_limit_on_file_size_is_named(self):
        path = self.clip("a.mp4", "-preset", "ultrafast")
        folder = self.tmp / "limited"
        folder.mkdir()
        video = ("-preset", "ultrafast", "-crf", 0)
        for name, kept, args in (("o.mp4", [], video), ("r.mp4", ["r.mp4.tachy"], (*video, "--resume")),
                                 ("o.png", [], ("--max-frames", 1)), ("o.jsonl", [], ("--mode", "json")),
                                 ("t.json", [], ("--json={out}", "-f", "null", "-")),
                                 ("t.csv", [], ("--profile.csv={out}", "-f", "null", "-"))):
            with self.subTest(name):
                out = folder / name
                named = any("{out}" in str(a) for a in args)
                limit = 1024 if named or name.endswith(".jsonl") else 20000
                verb = ["profile", "segment"] if name == "t.csv" else ["segment"]
                p = run(*verb, path, *(str(a).format(out=out) for a in args), *([] if named else ["-o", out]), check=False,
                        preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
                self.assertEqual(p.returncode, 75, p.stderr)
                self.assertIn(name, p.stderr)
                left = {f.name for f in folder.iterdir()} - {name if name == "t.json" else ""}
                self.assertEqual(sorted(left), kept)
                shutil.rmtree(folder)
                folder.mkdir()

    @unittest.skipIf(SANITIZER, "a sanitizer holds freed memory back")
    def test_memory_is_flat(self):
        clip = self.clip("a.mp4", "-preset", "ultrafast", size="640x360", seconds=5)
        loop = self.tmp / "loop.mp4"

        def peak(frames, *args):
            ffmpeg("-stream_loop", frames // 150 - 1, "-i", clip, "-c", "copy", loop)
            code = ("import resource,subprocess,sys; subprocess.run(sys.argv[1:],check=True);"
                    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
            out = subprocess.run(["python3", "-c", code, TACHY, "segment", "--focus", "off", str(loop), "--mode", "mask", "--quiet", *args,
                                  "-f", "null", "-"], check=True, capture_output=True, text=True).stdout
            return int(out) / 1024
        # The largest distance between several decoders is random: their peak varies by a tenth.
        for decoders, part, more in (1, 0.05, 4), (2, 0.15, 8):
            short, long = (peak(n, "--decoders", str(decoders)) for n in (300, 1500))
            print(f"{decoders} decoders, peak memory: {short:.0f} MiB for 300 frames, {long:.0f} MiB for 1500")
            self.assertLess(long, 300)
            self.assertLess(long, short * (1 + part) + more)


models("selfie")
main()
