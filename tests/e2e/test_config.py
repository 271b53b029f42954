"""Configuration files and presets as a user meets them: keys of the whole schema, what has no
effect yet, several names for one option, --profile."""
import json
import os
import re
import shutil
import subprocess

from common import ROOT, Case, ffprobe, main, models, run

PRESETS = ["fast", "balanced", "quality"]
CURATE_PRESETS = ["high-throughput", "memory-constrained", "cpu-only"]


class Files(Case):
    def config(self, text, *args, name="studio.yaml"):
        """(settings, standard error) with this file given by -c."""
        (self.tmp / name).write_text(text)
        p = run("config", "--json", "-c", name, *args, cwd=self.tmp)
        return json.loads(p.stdout), p.stderr

    def fails(self, text):
        (self.tmp / "bad.yaml").write_text(text)
        p = run("config", "-c", "bad.yaml", check=False, cwd=self.tmp)
        self.assertEqual((p.returncode, p.stdout, len(p.stderr.splitlines())), (2, "", 1), p.stderr)
        return p.stderr

    def test_animation_stands_in_when_animating(self):
        s, said = self.config("version: 1\nanimation:\n  gpu_id: 1\n  enable_tensorrt: yes\nmodel: {batch_size: 2}\n")
        self.assertEqual(said, "")
        self.assertEqual((s["animation.gpu_id"]["value"], s["animation.gpu_id"]["origin"]), (1, "studio.yaml:3"))
        self.assertEqual(s["animation.provider"]["value"], "tensorrt")

    def test_defaults_printed_and_read_back_are_silent(self):
        (self.tmp / "all.yaml").write_text(run("config").stdout)
        p = run("config", "-c", "all.yaml", cwd=self.tmp)
        self.assertEqual(p.stderr, "")

    def test_segment_takes_them(self):
        """A run that begins with one worker takes more if these help, and writes the same."""
        models("selfie")
        (self.tmp / "g.yaml").write_text("processing: {num_threads: 1}\nperformance: {auto_tune: yes}\n")
        p = run("segment", "-c", "g.yaml", "--mode", "mask", "null:64x64@30,frames=5", "-f", "null", "-",
                "--json=s.json", cwd=self.tmp)
        self.assertEqual(p.stderr, "")
        self.assertEqual(json.loads((self.tmp / "s.json").read_text())["workers"], 1) # too short to tell

    def test_several_names_for_one_option(self):
        s, _ = self.config("processing:\n  num_threads: 3\n")
        self.assertEqual(s["model.num_workers"], {"value": 3, "origin": "studio.yaml:2"})
        s, _ = self.config("model: {num_workers: 2}\nprocessing: {num_threads: 3}\n")
        self.assertEqual(s["model.num_workers"]["value"], 2)  # the more special section
        s, _ = self.config("model: {num_workers: 2}\n", "--processing.num_threads", "5")
        self.assertEqual(s["model.num_workers"], {"value": 5, "origin": "command line"})
        self.assertEqual(json.loads(run("config", "--json", "--animation.use_half_precision=yes").stdout)
                         ["animation.inference_precision"]["value"], "fp16")

    def test_conflict_names_both_lines(self):
        said = self.fails("animation:\n  inference_precision: fp32\n\n  use_half_precision: yes\n")
        self.assertIn("bad.yaml:4: animation.use_half_precision contradicts animation.inference_precision in line 2", said)

    def test_nearest_names(self):
        self.assertIn("did you mean performance.max_latency_ms?", self.fails("performance: {max_latency: 60}\n"))
        p = run("config", "--gpu.precison", "fp16", check=False)
        self.assertIn("did you mean --gpu.precision?", p.stderr)

    def test_help_stays_short(self):
        help_ = run("help", "segment").stdout
        page = run("man").stdout
        completion = run("completion", "bash").stdout
        for text in (help_, page, completion):
            self.assertNotIn("use_async_capture", text)
            self.assertNotIn("cudnn", text)
        self.assertIn("--profile PRESET", help_)
        self.assertIn("`performance.use_async_capture`", (ROOT / "docs" / "config.md").read_text())


class Presets(Case):
    def settings(self, *args):
        return json.loads(run("config", "--json", *args, cwd=self.tmp).stdout)

    def test_origin_names_file_and_line(self):
        for name in PRESETS + CURATE_PRESETS:
            lines = (ROOT / "configs" / f"{name}.yaml").read_text().splitlines()
            seen = 0
            for path, row in self.settings("--profile", name).items():
                m = re.fullmatch(rf"preset {name} \(configs/{name}\.yaml:(\d+)\)", row["origin"])
                if m:
                    seen += 1
                    self.assertTrue(lines[int(m[1]) - 1].strip().startswith(path.rsplit(".", 1)[1] + ":"), path)
                else:
                    self.assertIn(row["origin"], ["default", "not set", "command line"], path)
            self.assertGreaterEqual(seen, 2)

    def test_files_and_command_line_win(self):
        (self.tmp / "mine.yaml").write_text("segment: {smooth: 0.2}\n")
        for args in (["--profile", "quality", "-c", "mine.yaml", "-preset", "veryslow"],
                     ["-preset", "veryslow", "-c", "mine.yaml", "--profile", "quality"]):
            s = self.settings(*args)
            self.assertEqual(s["segment.smooth"], {"value": 0.2, "origin": "mine.yaml:1"})
            self.assertEqual(s["output.preset"], {"value": "veryslow", "origin": "command line"})
            self.assertEqual(s["segment.refine"]["origin"].split(" (")[0], "preset quality")

    def test_a_file_may_name_one(self):
        (self.tmp / "mine.yaml").write_text("run: {profile: quality}\n")
        self.assertTrue(self.settings("-c", "mine.yaml")["segment.refine"]["value"])
        self.assertFalse(self.settings("-c", "mine.yaml", "--profile", "fast")["segment.refine"]["value"])

    def test_copies_are_configuration_files(self):
        for name in PRESETS:
            shutil.copy(ROOT / "configs" / f"{name}.yaml", self.tmp / "mine.yaml")
            by_name, by_file = self.settings("--profile", name), self.settings("-c", "mine.yaml")
            for path, row in by_name.items():
                if path != "run.profile":
                    self.assertEqual(by_file[path]["value"], row["value"], path)

    def test_unknown(self):
        p = run("segment", "--profile", "fats", "in.mp4", check=False)
        self.assertEqual(p.returncode, 2)
        self.assertIn('"fats" is not fast, balanced, quality, high-throughput', p.stderr)

    def test_library_without_its_presets(self):
        p = run("config", "--profile", "fast", check=False, env={**os.environ, "TACHY_CONFIGS": str(self.tmp)})
        self.assertEqual(p.returncode, 2)
        self.assertIn(f"{self.tmp}/fast.yaml", p.stderr)

    def test_whole_runs(self):
        """Also where the encoder has no presets, whose default then stays."""
        models("selfie")
        clip = "null:64x64@30,frames=5"
        for name in PRESETS:
            run("segment", "-q", "--profile", name, clip, "-o", f"{name}.mp4", cwd=self.tmp)
            self.assertEqual(ffprobe(self.tmp / f"{name}.mp4")["streams"][0]["nb_frames"], "5")
            run("segment", "-q", "--profile", name, clip, "-o", f"{name}.mkv", "-c:v", "ffv1", cwd=self.tmp)
        options = [subprocess.run(["strings", self.tmp / f"{n}.mp4"], capture_output=True, text=True).stdout
                   for n in PRESETS] if shutil.which("strings") else None
        if options:  # x264 writes its settings into the stream
            self.assertEqual([re.search(r"subme=(\d+)", o)[1] for o in options], ["0", "7", "8"])
        p = run("segment", "--profile", "fast", "-preset", "ultrafast", clip, "-o", "x.mkv", "-c:v", "ffv1",
                check=False, cwd=self.tmp)
        self.assertEqual(p.returncode, 2)  # asked for by name
        self.assertIn("ffv1 has no presets", p.stderr)


if __name__ == "__main__":
    main()
