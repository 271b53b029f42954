"""--sandbox: the same bytes, no way out for hostile code inside, and never silently off."""
import os
import pathlib
import re
import subprocess
import unittest

from common import ROOT, TACHY, Case, ffmpeg, main, models, run

PORTRAIT = ROOT / ".deps" / "media" / "astronaut.png"
ESCAPE = os.environ.get("TACHY_TEST_ESCAPE")


def refusal():
    """What this machine's kernel has against a sandbox; empty: nothing. Other failures are for the tests to find."""
    text = run("probe", "--sandbox", PORTRAIT, check=False).stderr
    return text.strip() if "Landlock" in text or "seccomp" in text else ""


REFUSAL = refusal()


class Sandbox(Case):
    def setUp(self):
        super().setUp()
        self.clip = self.tmp / "in" / "a.mp4"
        self.clip.parent.mkdir()
        ffmpeg("-loop", 1, "-framerate", 25, "-i", PORTRAIT, "-f", "lavfi", "-i", "sine", "-t", 1, "-vf", "scale=320:320",
               "-c:v", "libx264", "-preset", "ultrafast", "-g", 5, "-c:a", "aac", self.clip)
        self.out = self.tmp / "out"
        self.out.mkdir()


@unittest.skipIf(REFUSAL, REFUSAL)
class Inside(Sandbox):
    def same(self, *args, name="o.mp4", **kw):
        """The files that the command leaves with and without a sandbox."""
        left = []
        for option in ((), ("--sandbox",)):
            folder = self.tmp / f"out{len(option)}"
            folder.mkdir()
            run(*[str(a).format(folder=folder) for a in args], *option, *(("-o", folder / name) if name else ()), **kw)
            left.append({str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()})
            subprocess.run(["rm", "-r", folder], check=True)
        self.assertTrue(left[0])
        self.assertEqual(left[0].keys(), left[1].keys())
        for f in left[0]:
            self.assertTrue(left[0][f] == left[1][f], f"{f} differs")

    def test_the_same_bytes(self):
        fast = ("-preset", "ultrafast")
        segment = ("segment", "-q", self.clip)
        # Not Matroska, whose streams get random numbers.
        for args, name in (((*segment, *fast), "o.mp4"), ((*segment, *fast, "--mode", "mask", "--decoders", 2), "o.mov"),
                           ((*segment, "-c:v", "libx265", *fast, "--max-frames", 5), "o.mp4"),
                           ((*segment, *fast, "--refine", "--smooth", "--mode", "blur"), "o.mov"),
                           ((*segment, "--mode", "json"), "o.jsonl"), ((*segment, "--max-frames", 3), "%02d.png"),
                           ((*segment, "--mode", "replace", "--background", PORTRAIT, *fast), "o.mp4"),
                           ((*segment, "--mode", "replace", "--background", self.clip, *fast), "o.mp4"),
                           ((*segment, "--resume", *fast, "--processing.chunk_size", 10), "o.mp4"),
                           ((*segment, "--mode", "alpha", "--max-frames", 2), "o.mov"),
                           ((*segment, "--build-effort", 1, *fast), "o.mp4"),
                           ((*segment, "--provider", "cpu", *fast), "o.mp4")):
            with self.subTest(args[3:]):
                self.same(*args, name=name)

    def test_pictures_pipes_and_several(self):
        ffmpeg("-i", self.clip, "-frames:v", 4, self.tmp / "in" / "shot_%03d.png")
        self.same("segment", "-q", self.tmp / "in" / "shot_%03d.png", "-preset", "ultrafast")
        with open(self.clip.with_suffix(".ts"), "wb") as ts:
            subprocess.run(["ffmpeg", "-v", "error", "-i", self.clip, "-c", "copy", "-f", "mpegts", "-"], stdout=ts, check=True)
        for sandbox in ((), ("--sandbox",)):
            with open(self.clip.with_suffix(".ts"), "rb") as ts:
                run("segment", *sandbox, "-q", "-", "--mode", "json", "-o", self.out / f"{len(sandbox)}.jsonl", stdin=ts)
        self.assertEqual((self.out / "0.jsonl").read_bytes(), (self.out / "1.jsonl").read_bytes())
        other = self.tmp / "in" / "b.mp4"
        other.write_bytes(self.clip.read_bytes())
        self.same("segment", "-q", self.clip, other, "--parallel", 2, "--mode", "json", "-o", "{folder}/", name=None)

    def test_other_files_of_a_run(self):
        p = run("segment", "--sandbox", self.clip, "-f", "null", f"--json={self.out}/s.json", "--save-stage",
                self.out / "stages", "-")
        self.assertNotIn("denied", p.stderr)
        self.assertIn(b"frames", (self.out / "s.json").read_bytes())
        self.assertTrue(list((self.out / "stages").rglob("*.npy")))
        run("probe", "--sandbox", self.clip, f"--json={self.out}/p.json")
        self.assertIn("h264", (self.out / "p.json").read_text())
        self.assertEqual(run("probe", self.clip).stdout, run("probe", "--sandbox", self.clip).stdout)

    def test_it_is_on_before_the_input_is_read(self):
        fifo = self.tmp / "fifo"
        os.mkfifo(fifo)
        p = subprocess.Popen([TACHY, "segment", "--focus", "off", "--sandbox", "-q", fifo, "-f", "null", "-"])
        with open(fifo, "wb") as f:  # opens when the other side has opened it
            status = pathlib.Path(f"/proc/{p.pid}/status").read_text()
            subprocess.run(["ffmpeg", "-v", "error", "-i", self.clip, "-c:v", "copy", "-an", "-f", "mpegts", "-"], stdout=f, check=True)
        self.assertEqual(p.wait(60), 0)
        self.assertRegex(status, r"Seccomp:\s*2")
        self.assertRegex(status, r"NoNewPrivs:\s*1")

    @unittest.skipUnless(ESCAPE, "TACHY_TEST_ESCAPE names no library: meson test does")
    def test_hostile_code_stays_inside(self):
        away = self.tmp / "away"
        away.mkdir()
        (away / "secret").write_text("secret")
        (self.out / "own").write_text("own")
        (self.out / "link").symlink_to(away / "secret")
        env = {**os.environ, "TACHY_ESCAPE_AWAY": str(away), "TACHY_ESCAPE_OUT": str(self.out), "TACHY_ESCAPE_IN": str(self.clip)}
        p = run("segment", "--sandbox", self.clip, "--ort-library", ESCAPE, "--provider", "cpu", "-o", self.out / "o.mp4",
                check=False, env=env)
        self.assertEqual(p.returncode, 1, p.stderr)
        self.assertIn("not ONNX Runtime", p.stderr)  # the library was loaded
        self.assertGreater(len(re.findall(r"(?m)^held: ", p.stderr)), 40, p.stderr)
        self.assertNotIn("it worked", p.stdout + p.stderr)
        self.assertEqual((away / "secret").read_text(), "secret")
        self.assertEqual([f.name for f in away.iterdir()], ["secret"])

    def test_a_list_of_files_opens_what_is_beside_it(self):
        away = self.tmp / "away.ts"
        subprocess.run(["ffmpeg", "-v", "error", "-i", self.clip, "-c", "copy", away], check=True)
        (self.tmp / "in" / "a.ts").write_bytes(away.read_bytes())
        good = self.tmp / "in" / "good.m3u8"
        good.write_text("#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\na.ts\n#EXT-X-ENDLIST\n")
        self.same("segment", "-q", good, "--mode", "json", name="o.jsonl")
        evil = self.tmp / "in" / "evil.m3u8"
        evil.write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{away}\n#EXT-X-ENDLIST\n")
        p = run("segment", "--sandbox", evil, "--mode", "json", "-o", self.out / "o.jsonl", check=False)
        self.assertNotEqual(p.returncode, 0, p.stderr)
        self.assertEqual(list(self.out.iterdir()), [])


class Refused(Sandbox):
    """Not a frame is worked on outside where a sandbox was asked for."""

    def refused(self, *args, words, code=2, env=None):
        p = run(*args, check=False, env={**os.environ, **(env or {})})
        self.assertEqual(p.returncode, code, p.stderr)
        for w in words:
            self.assertIn(w, p.stderr)
        self.assertEqual(list(self.out.iterdir()), [])

    def test_what_is_not_local_or_not_the_cpus(self):
        o = self.out / "o.mp4"
        for args, words in (((self.clip, "--device", "cuda"), ["--device cuda", "CPU"]),
                            ((self.clip, "--decode", "nvdec"), ["nvdec"]), ((self.clip, "--encoder", "nvenc"), ["nvenc"]),
                            ((self.clip, "--provider", "tensorrt"), ["plugins", "tensorrt"]),
                            ((self.clip, "--provider-option", f"library={ESCAPE}"), ["plugins"]),
                            ((self.clip, "--enable-metrics", "0"), ["sockets"]), ((self.clip, "--interactive"), ["prompt"]),
                            ((self.clip, "--card", self.tmp / "x.json"), ["--model"])):
            with self.subTest(args[1:]):
                self.refused("segment", "--sandbox", *args, "-o", o, words=["--sandbox", *words])

    @unittest.skipIf(REFUSAL, "the kernel's refusal comes first")
    def test_addresses_devices_and_the_home_folder(self):
        o = self.out / "o.mp4"
        for args, words in ((("http://127.0.0.1:1/a.mp4",), ["local", "http://127.0.0.1:1/a.mp4"]), (("/dev/zero",), ["/dev/zero"]),
                            ((self.clip, "--mode", "replace", "--background", "http://127.0.0.1:1/b"), ["http://127.0.0.1:1/b"])):
            with self.subTest(args):
                self.refused("segment", "--sandbox", *args, "-o", o, words=["--sandbox", *words])
        self.refused("probe", "--sandbox", "http://127.0.0.1:1/a.mp4", words=["local"])
        self.refused("segment", "--sandbox", self.clip, "-o", o, words=["home"], env={"HOME": str(self.out)})

    def test_profile_and_shell(self):
        self.refused("profile", "segment", "--sandbox", self.clip, "-o", self.out / "o.mp4", words=["profile"])
        p = run("shell", input=f"probe --sandbox {self.clip}\n", check=False)
        self.assertIn("outside of the shell", p.stderr)


models("selfie")
main()
