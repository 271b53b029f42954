"""tachy check: what fails is named with what mends it, and the exit status says so."""
import json
import os
import subprocess

from common import DEPS, TACHY, Case, main, models, run

CLIP = DEPS / "media" / "sample.mp4"


class Check(Case):
    @classmethod
    def setUpClass(cls):
        models("selfie")

    def check(self, text, *args, status, env=None):
        """Lines by their name."""
        config = self.tmp / "c.yaml"
        config.write_text(text)
        p = subprocess.run([TACHY, "check", "--json", "--seconds", "1", *map(str, args[:-1]), config, *map(str, args[-1:])],
                           capture_output=True, text=True, env={**os.environ, **(env or {})}, timeout=300)
        self.assertEqual(p.returncode, status, p.stdout + p.stderr)
        r = json.loads(p.stdout)
        self.assertEqual((r["kind"], r["ok"]), ("check", status == 0))
        return {line["what"]: line for line in r["checks"]}

    def test_ready(self):
        lines = self.check("model:\n  name: selfie\noutput:\n  file: out.mkv\n  codec: ffv1\ngpu:\n  device: cpu\n", CLIP, status=0)
        self.assertEqual(list(lines), ["configuration", "model", "device", "trial", "memory", "rate"])
        self.assertTrue(all(line["ok"] and not line["command"] for line in lines.values()))
        self.assertIn("selfie.onnx", lines["model"]["text"])
        self.assertFalse((self.tmp / "out.mkv").exists())

    def test_own_input_and_targets(self):
        """A file's own input and targets; the command line's targets win."""
        text = f"input:\n  files: [{CLIP}]\nsegment:\n  mode: mask\nperformance:\n  target_fps: 1000\n"
        config = self.tmp / "own.yaml"
        config.write_text(text.replace("1000", "0.5"))
        p = run("check", "--seconds", "1", config)
        self.assertRegex(p.stdout, r"(?m)^ok    rate +[0-9.]+ frames per second, target 0.5$")
        config.write_text(text)
        p = run("check", "--seconds", "1", "--min-fps", "90000", "--max-latency-ms", "0.001", "--max-memory", "1", config, check=False)
        self.assertEqual(p.returncode, 1)
        self.assertRegex(p.stdout, r"(?m)^FAIL  rate +.*, target 90000.0\n +to mend it: +\S")
        self.assertRegex(p.stdout, r"(?m)^FAIL  latency +p99 .* target 0.0 ms\n +to mend it: +\S")
        self.assertRegex(p.stdout, r"(?m)^FAIL  memory +.* 1 MiB allowed\n +to mend it: +\S")

    def test_what_is_wrong_is_named(self):
        lines = self.check("model:\n  wrkers: 3\n", CLIP, status=1)
        self.assertEqual(list(lines), ["configuration"])
        self.assertIn("wrkers", lines["configuration"]["text"])
        lines = self.check("model:\n  name: selfie\n", CLIP, status=1, env={"TACHY_MODELS": str(self.tmp / "none")})
        self.assertFalse(lines["model"]["ok"])
        self.assertEqual(lines["model"]["command"], "tachy model pull selfie")
        self.assertNotIn("trial", lines)
        lines = self.check("model:\n  provider: nonsense\n", CLIP, status=1)
        self.assertFalse(lines["trial"]["ok"])
        self.assertIn("nonsense", lines["trial"]["text"])
        lines = self.check("segment:\n  mode: mask\n", self.tmp / "gone.mp4", status=1)
        self.assertIn("gone.mp4", lines["trial"]["text"])
        lines = self.check("gpu:\n  device: cuda\n", CLIP, status=1, env={"CUDA_VISIBLE_DEVICES": ""})
        self.assertFalse(lines["device"]["ok"])

    def test_usage(self):
        (self.tmp / "a.yaml").write_text("segment:\n  mode: mask\n")
        for args, words in ((("check",), "CONFIG"), (("check", self.tmp / "a.yaml"), "names no input"),
                            (("check", "--task", "nonsense", self.tmp / "a.yaml", CLIP), "no such task")):
            p = run(*args, check=False)
            self.assertEqual(p.returncode, 2, p.stderr)
            self.assertIn(words, p.stderr)


if __name__ == "__main__":
    main()
