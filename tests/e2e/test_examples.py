"""The example programs do what their first comment says, on real video."""
import json
import os
import pathlib
import re
import subprocess

import common

EXAMPLES = pathlib.Path(os.environ.get("EXAMPLES", common.ROOT / "build" / "examples"))


def example(name, *args, **kw):
    return subprocess.run([EXAMPLES / name, *map(str, args)], capture_output=True, timeout=120, **kw)


class Examples(common.Case):
    @classmethod
    def setUpClass(cls):
        common.run("model", "pull", "selfie")

    def setUp(self):
        super().setUp()
        self.clip = self.tmp / "clip.mp4"
        self.portrait = common.DEPS / "media" / "astronaut.png"
        if not self.portrait.exists():
            self.skipTest("no sample portrait: run ./tools/setup")
        common.ffmpeg("-loop", 1, "-framerate", 25, "-i", self.portrait, "-f", "lavfi", "-i", "sine=440",
                      "-vf", "scale=320:320,crop=320:180:0:0,format=yuv420p", "-frames:v", 20,
                      "-t", "0.8", self.clip)

    def test_segment_file(self):
        out = self.tmp / "out.mp4"
        p = example("segment_file", self.clip, out)
        self.assertEqual(p.returncode, 0, p.stderr)
        kinds = [s["codec_type"] for s in common.ffprobe(out)["streams"]]
        self.assertEqual(sorted(kinds), ["audio", "video"])
        video = next(s for s in common.ffprobe(out)["streams"] if s["codec_type"] == "video")
        self.assertEqual(video["nb_frames"], "20")

    def test_segment_file_takes_every_option_of_a_job(self):
        good, poor, summary = self.tmp / "good.mp4", self.tmp / "poor.mp4", self.tmp / "s.json"
        self.assertEqual(example("segment_file", self.clip, good, "output.crf=10").returncode, 0)
        p = example("segment_file", self.clip, poor, "output.crf=50", "output.no_audio=yes", f"run.json={summary}")
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertLess(poor.stat().st_size * 3, good.stat().st_size)
        self.assertEqual([s["codec_type"] for s in common.ffprobe(poor)["streams"]], ["video"])
        self.assertEqual(json.loads(summary.read_text())["frames"], 20)

    def test_segment_file_refuses_what_nobody_reads(self):
        for option, name in (("replay.loop=3", b"--loop"), ("run.keys=no", b"--keys"), ("engine.rounds=2", b"--rounds")):
            p = example("segment_file", self.clip, self.tmp / "out.mp4", option)
            self.assertEqual(p.returncode, 1)
            self.assertIn(name, p.stderr)
            self.assertFalse((self.tmp / "out.mp4").exists())

    def test_segment_file_refuses(self):
        p = example("segment_file", self.tmp / "absent.mp4", self.tmp / "out.mp4")
        self.assertEqual(p.returncode, 1)
        self.assertIn(b"absent.mp4", p.stderr)
        p = example("segment_file", self.clip, self.tmp / "out.mp4", "no.such.option=1")
        self.assertEqual(p.returncode, 1)
        self.assertFalse((self.tmp / "out.mp4").exists())

    def moving(self):
        """A clip with motion in a part of it, and what FFmpeg finds: the share of pixels that differ by 24 and more."""
        clip = self.tmp / "moving.mkv"
        common.ffmpeg("-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25", "-frames:v", 30, "-pix_fmt", "yuv420p", "-g", 10,
                      clip)
        p = subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-i", clip, "-vf",
                            "tblend=all_mode=difference,lutyuv=y='if(gte(val,24),255,0)',signalstats,"
                            "metadata=print:key=lavfi.signalstats.YAVG:file=-", "-f", "null", "-"],
                           check=True, capture_output=True, text=True)
        return clip, [float(v) / 255 for v in re.findall(r"YAVG=([\d.]+)", p.stdout)]

    def check_motion(self, got, want):
        self.assertEqual((len(got), len(want)), (30, 29))
        self.assertEqual(got[0], 0)  # nothing came before
        self.assertGreater(max(want), 0.01)
        for a, b in zip(got[1:], want):
            self.assertAlmostEqual(a, b, delta=2e-5)

    def test_my_stage(self):
        """A stage of a program's own, in the program and in the command, against FFmpeg's measure of the same."""
        clip, want = self.moving()
        p = example("my_stage", clip)
        self.assertEqual(p.returncode, 0, p.stderr)
        rows = [line.split() for line in p.stdout.decode().splitlines()]
        self.assertEqual([(int(r[0]), r[1]) for r in rows], [(i, "motion") for i in range(30)])
        self.check_motion([float(r[2]) for r in rows], want)
        library = EXAMPLES / "my_stage_library.so"
        texts = []
        for more in (("--decoders", 2), ("--resume",)):
            out = self.tmp / f"{len(texts)}.jsonl"
            common.run("segment", clip, "--mode", "json", "--stage", library, "-o", out, *more)
            texts.append(out.read_text())
        self.assertEqual(texts[0], texts[1])
        self.check_motion([json.loads(line)["values"]["motion"] for line in texts[0].splitlines()], want)

    def test_stage_is_named_on_the_command_line_only(self):
        """Not in a configuration file, and not in a sandbox; what is no stage is said."""
        library = EXAMPLES / "my_stage_library.so"
        config = self.tmp / "stage.yaml"
        config.write_text(f"version: 1\ntask:\n  stages: [{library}]\n")
        for args, code, said in ((("-c", config), 2, "task"), (("--stage", library, "--sandbox"), 2, "--sandbox loads no plugins"),
                                 (("--stage", "motion"), 1, "stage motion: there is none of this name"),
                                 (("--stage", "/nowhere/x.so"), 1, "stage /nowhere/x.so: cannot be loaded"),
                                 (("--stage", self.clip), 1, "cannot be loaded"),
                                 (("--stage", library, "--device", "cuda"), None, "")):
            p = common.run("segment", self.clip, "--mode", "mask", "-o", self.tmp / "out.mkv", *args, check=False)
            with self.subTest(args=args):
                self.assertIn(p.returncode, (1, 2) if code is None else (code,), p.stderr)
                self.assertIn(said, p.stderr)
                self.assertFalse((self.tmp / "out.mkv").exists())

    def test_push_pull(self):
        raw = subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-i", self.clip, "-f", "rawvideo",
                              "-pix_fmt", "rgb24", "-"], check=True, capture_output=True).stdout
        self.assertEqual(len(raw), 20 * 320 * 180 * 3)
        out = self.tmp / "out.rgb"
        p = example("push_pull", "320x180", out, input=raw)
        self.assertEqual(p.returncode, 0, p.stderr)
        rows = [line.split() for line in p.stdout.decode().splitlines()]
        self.assertEqual([int(r[0]) for r in rows], list(range(20)))  # none lost, none out of order
        for row in rows:
            self.assertTrue(0.15 < float(row[1]) < 0.6, row)  # the portrait's head and shoulders
        self.assertEqual(out.stat().st_size, len(raw))

    def test_person_share(self):
        p = example("person_share", self.portrait)
        self.assertEqual(p.returncode, 0, p.stderr)
        share = float(re.search(rb"person: ([\d.]+) %", p.stdout).group(1))
        self.assertTrue(25 < share < 65, share)
        empty = self.tmp / "grey.png"
        common.ffmpeg("-f", "lavfi", "-i", "color=gray:s=320x180", "-frames:v", 1, empty)
        p = example("person_share", empty)
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertLess(float(re.search(rb"person: ([\d.]+) %", p.stdout).group(1)), 1)


if __name__ == "__main__":
    common.main()
