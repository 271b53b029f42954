"""The command line itself: help, options, configuration files, exit statuses, manual page and
completion. What it does to video is tested elsewhere."""
import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios

from common import ROOT, TACHY, Case, ffmpeg, ffprobe, main, run
from terminal import Terminal


def fails(status, *args, **kw):
    """Runs a command that must end with `status`; returns its one line on standard error."""
    p = run(*args, check=False, **kw)
    if p.returncode != status:
        raise AssertionError(f"tachy {args}: status {p.returncode}, not {status}\n{p.stdout}{p.stderr}")
    lines = p.stderr.splitlines()
    if len(lines) != 1 or not lines[0].startswith("tachy: "):
        raise AssertionError(f"tachy {args}: not one sentence:\n{p.stderr}")
    return lines[0]


class Help(Case):
    def test_overview_names_every_command_and_status(self):
        out = run("help").stdout
        for word in ["segment", "probe", "doctor", "model", "config", "man", "completion", "130", "75"]:
            self.assertIn(word, out)
        self.assertEqual(run("--help").stdout, out)

    def test_each_command_has_help(self):
        for verb in ["segment", "probe", "doctor", "model", "config", "help", "man", "completion"]:
            by_verb = run("help", verb).stdout
            self.assertTrue(by_verb.startswith(f"Usage: tachy {verb}"), by_verb)
            if verb != "help":
                self.assertEqual(run(verb, "--help").stdout, by_verb)
            self.assertLessEqual(max(map(len, by_verb.splitlines())), 100)

    def test_segment_help_has_groups_defaults_and_examples(self):
        out = run("help", "segment").stdout
        for group in ["Input:", "Output:", "Segment:", "Model:", "Run:", "General:", "Examples:"]:
            self.assertIn("\n" + group, out)
        self.assertRegex(out, r"--threshold NUMBER +[^[]*\[0\.5\]")
        for name in ["-ss TIME", "-c:v NAME", "-crf NUMBER", "-pix_fmt NAME", "--smooth[=NUMBER]"]:
            self.assertIn(name, out)

    def test_nothing_at_all(self):
        p = run(check=False)
        self.assertEqual(p.returncode, 2)
        self.assertIn("Usage: tachy", p.stderr)

    def test_closed_pipe(self):
        p = subprocess.run(f"'{TACHY}' help segment | head -1", shell=True, capture_output=True, text=True)
        self.assertEqual(p.stderr, "")

    def test_full_disk(self):
        with open("/dev/full", "w") as full:
            p = subprocess.run([TACHY, "help"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(p.returncode, 75)
        self.assertIn("standard output", p.stderr)

    def test_version_names_the_libraries(self):
        out = run("--version").stdout
        self.assertRegex(out, r"^tachy \d+\.\d+\.\d+\n")
        self.assertRegex(out, r"libavcodec \d+")
        self.assertIn("ONNX Runtime", out)


class Usage(Case):
    def test_unknown_option_names_the_nearest(self):
        self.assertIn("did you mean --threshold?", fails(2, "segment", "--treshold", "1", "in.mp4"))
        self.assertIn("did you mean -pix_fmt?", fails(2, "segment", "-pix_fnt", "x", "in.mp4"))

    def test_messages(self):
        cases = [
            (["segmnt", "in"], "unknown command 'segmnt'; did you mean segment?"),
            (["segment", "-ss", "5", "-to", "3", "a.mp4"], "-to 3 is not after -ss 5"),
            (["segment", "-c", "libx264", "a.mp4"], "did you mean -c:v libx264?"),
            (["-i", "in.mp4"], "tachy segment"),
            (["segment"], "no input is given"),
            (["segment", "-crf"], "-crf needs a value"),
            (["segment", "-o", "-y", "in.mp4"], "write -o=-y"),
            (["segment", "--batch", "0", "a.mp4"], "from 1 to 256"),
            (["segment", "--mode", "cut", "a.mp4"], "mask, cutout, blur"),
            (["probe", "-crf", "3", "a.mp4"], "does not belong to tachy probe"),
            (["segment", "a.mp4", "b.mp4", "-o", "c.mp4"], "one output for 2 inputs"),
            (["segment", "a.mp4", "-o", "-"], "give it with -f"),
            (["segment", "a.mp4", "-f", "framemd5", "-", "--json"], "--json=FILE"),
            (["segment", "a.mp4", "--mode", "json", "-f", "mp4"], "lines of text"),
            (["segment", "a.mp4", "-f", "json", "-"], "--mode json"),
            (["segment", "a.mp4", "-y", "-n"], "contradict"),
            (["segment", "a.mp4", "--background", "blak"], "is not a colour"),
            (["segment", "-"], "give one with -o"),
            (["model", "fetch"], "list, pull, info, card, verify or import"),
            (["model", "pull"], "needs a name"),
            (["completion", "tcsh"], "bash, zsh or fish"),
            (["help", "me"], "unknown command 'me'"),
            (["segment", "-c", "none.yaml", "a.mp4"], "none.yaml"),
        ]
        for args, part in cases:
            with self.subTest(args=args):
                self.assertIn(part, fails(2, *args, cwd=self.tmp))

    def test_escape_sequences_do_not_reach_the_terminal(self):
        self.assertNotIn("\x1b", fails(2, "segment", "--\x1b[31mred"))

    def test_missing_input(self):
        self.assertIn("none.mp4", fails(1, "segment", "none.mp4", cwd=self.tmp))

    def test_output_without_its_option(self):
        """Of two arguments the second is the output if no file has that name; so is whatever follows -i INPUT."""
        clip = "null:64x36@25,frames=3"
        for args in ([clip, "a.mkv"], ["-i", clip, "b.mkv"]):
            run("segment", "--provider", "null", *args, cwd=self.tmp)
            self.assertTrue((self.tmp / args[-1]).exists(), args)
        for name in ("in.mp4", "on.mp4"):
            (self.tmp / name).write_bytes(b"mine")
        for name, answer in (("rtsp://127.0.0.1:1/live", "cannot be connected to"), ("/dev/video99", "/dev/video99"),
                             ("http://127.0.0.1:1/x/", "http://127.0.0.1:1/x/")):
            p = run("segment", "--provider", "null", clip, name, check=False, cwd=self.tmp)
            self.assertNotEqual(p.returncode, 0)
            self.assertIn(answer, p.stderr)
            self.assertNotIn("there is no such file", p.stderr)
            self.assertFalse(list(self.tmp.glob("*.cutout.*")), name)  # the clip's own, if the name were an input
        run("segment", "--provider", "null", clip, "/dev/null", "-f", "rawvideo", "-y", cwd=self.tmp)
        self.assertIn("/dev/video98: ", fails(1, "segment", "/dev/video98", "/dev/video99", "-y", cwd=self.tmp))
        self.assertIn("named with -o out.mp4", fails(1, "segment", "in.mp4", "on.mp4", "out.mp4", cwd=self.tmp))
        self.assertEqual((self.tmp / "in.mp4").read_bytes(), b"mine")

    def test_a_file_without_a_command_is_segmented(self):
        p = run("in.mp4", check=False, cwd=self.tmp)
        self.assertEqual(p.returncode, 1)
        self.assertRegex(p.stderr, "this is `tachy segment`\n.*in.mp4: cannot be opened")
        self.assertEqual(run("--interactive", cwd=self.tmp, input="quit\n").returncode, 0)
        p = run("profile", "null:64x36@25,frames=9", "--provider", "null", "-f", "null", "-", cwd=self.tmp)
        self.assertIn("Latency: p50", p.stdout)  # still the profile

    def test_folder(self):
        """The videos of a folder; those whose output exists are skipped."""
        (self.tmp / "d").mkdir()
        for name in ("b.mkv", "a.mkv"):
            run("segment", "--provider", "null", "null:64x36@25,frames=3", "-o", f"d/{name}", cwd=self.tmp)
        (self.tmp / "d" / "notes.txt").write_text("no video")
        out = ["segment", "--provider", "null", "d", "-o", "out/"]
        run(*out, cwd=self.tmp)
        made = sorted((self.tmp / "out").iterdir())
        self.assertEqual([p.name for p in made], ["a.cutout.mkv", "b.cutout.mkv"])
        made[0].write_bytes(b"kept")
        made[1].unlink()
        self.assertIn("a.mkv is skipped", run(*out, cwd=self.tmp).stderr)
        self.assertTrue(made[1].exists())
        self.assertIn("already exists", fails(1, *out, cwd=self.tmp))
        for more in ([], ["--parallel", "2"]):
            run(*out, "--skip-existing", *more, cwd=self.tmp)
        self.assertEqual(made[0].read_bytes(), b"kept")
        (self.tmp / "empty").mkdir()
        self.assertIn("no video or picture", fails(1, "segment", "empty", cwd=self.tmp))

    def test_existing_output_is_refused_before_any_work(self):
        (self.tmp / "out.mp4").write_bytes(b"mine")
        (self.tmp / "in.cutout.mp4").write_bytes(b"mine")
        self.assertIn("use -y", fails(1, "segment", "none.mp4", "-o", "out.mp4", cwd=self.tmp))
        self.assertIn("use -y", fails(1, "segment", "in.mp4", cwd=self.tmp))
        config = self.tmp / "y.yaml"
        config.write_text("output: {overwrite: yes}\n")
        self.assertIn("use -y", fails(1, "segment", "-c", config, "-n", "none.mp4", "-o", "out.mp4", cwd=self.tmp))
        self.assertIn("none.mp4", fails(1, "segment", "-y", "none.mp4", "-o", "out.mp4", cwd=self.tmp))
        self.assertEqual((self.tmp / "out.mp4").read_bytes(), b"mine")

    def test_input_as_output(self):
        (self.tmp / "in.mp4").write_bytes(b"mine")
        self.assertIn("is the input", fails(1, "segment", "-y", "in.mp4", "-o", "./in.mp4", cwd=self.tmp))
        self.assertEqual((self.tmp / "in.mp4").read_bytes(), b"mine")

    def test_two_inputs_of_one_name(self):
        for d in "ab":
            (self.tmp / d).mkdir()
            (self.tmp / d / "in.mp4").touch()
        text = fails(1, "segment", "a/in.mp4", "b/in.mp4", "-o", "out/", cwd=self.tmp)
        self.assertIn("out/in.cutout.mp4", text)


class Probe(Case):
    def test_for_people_and_for_programs(self):
        clip = self.tmp / "in.mp4"
        ffmpeg("-f", "lavfi", "-i", "testsrc2=size=320x180:rate=30000/1001:duration=1", "-f", "lavfi", "-i",
               "sine=duration=1", "-metadata:s:v:0", "language=deu", "-c:v", "libx264", "-colorspace", "bt709", clip)
        text = run("probe", clip).stdout
        for part in ["h264", "320x180", "29.97 fps", "aac", "matrix bt709", "deu"]:
            self.assertIn(part, text)
        one = json.loads(run("probe", "--json", clip).stdout)
        self.assertEqual(one["streams"][0]["fps"], "30000/1001")
        two = json.loads(run("probe", "--json", clip, "-i", clip).stdout)
        self.assertEqual([o["url"] for o in two], [str(clip)] * 2)
        run("probe", "--json=p.json", clip, cwd=self.tmp)
        self.assertEqual(json.loads((self.tmp / "p.json").read_text()), one)
        self.assertIn("p.json already exists; use -y", fails(1, "probe", "--json=p.json", clip, cwd=self.tmp))
        run("probe", "-y", "--json=p.json", clip, cwd=self.tmp)

    def test_what_is_no_video(self):
        (self.tmp / "no.mp4").write_bytes(b"text" * 100)
        self.assertIn("no.mp4", fails(1, "probe", "no.mp4", cwd=self.tmp))
        self.assertIn("none.mp4", fails(1, "probe", "none.mp4", cwd=self.tmp))
        self.assertIn("no input", fails(2, "probe"))


class Models(Case):
    def test_list_info_verify(self):
        self.assertRegex(run("model").stdout, r"(?m)^selfie +segment +Apache-2\.0")
        zoo = json.loads(run("model", "list", "--json").stdout)
        self.assertIn("selfie", [m["name"] for m in zoo])
        self.assertIn("Apache-2.0", run("model", "info", "selfie").stdout)
        self.assertEqual(json.loads(run("model", "info", "selfie", "--json").stdout)["name"], "selfie")
        self.assertIn("selfie", fails(1, "model", "info", "selfei"))
        self.assertIn("--neural-card FILE", fails(1, "model", "pull", "liveportrait"))
        run("model", "pull", "selfie")
        self.assertIn("digest is right", run("model", "verify", "selfie").stdout)

    def test_damaged_model(self):
        path = pathlib.Path(run("model", "pull", "selfie").stdout.split(": ", 1)[1].strip())
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        (self.tmp / path.name).write_bytes(data)
        self.assertIn("SHA-256", fails(1, "model", "verify", "selfie", "--model-dir", self.tmp))

    def test_import_never_replaces(self):
        (self.tmp / "face.onnx").write_bytes(b"mine")
        (self.tmp / "face.tflite").write_bytes(b"no model")
        self.assertIn("use -y", fails(1, "model", "import", "face.tflite", cwd=self.tmp))
        self.assertIn("face.tflite", fails(1, "model", "import", "-y", "face.tflite", cwd=self.tmp))
        self.assertEqual((self.tmp / "face.onnx").read_bytes(), b"mine")


class Options(Case):
    """What reaches the settings, as `tachy config --json` sees it."""

    def settings(self, *args):
        return json.loads(run("config", "--json", *args, cwd=self.tmp).stdout)

    def test_both_styles(self):
        s = self.settings("-ss", "3", "-c:v", "libx264", "--crf=20", "-pix_fmt", "yuv420p", "--preset", "fast", "-an",
                          "--mode", "mask", "--mode=blur", "--refine", "--no-refine", "-t", "1:30", "--smooth",
                          "-max-frames", "7", "-r", "30000/1001", "-i", "a.mp4", "b.mp4", "--", "-c.mp4")
        want = {"input.start": 3, "output.codec": "libx264", "output.crf": 20, "output.pix_fmt": "yuv420p",
                "output.preset": "fast", "output.no_audio": True, "segment.mode": "blur", "segment.refine": False,
                "input.duration": 90, "segment.smooth": 0.7, "input.max_frames": 7, "input.rate": "30000/1001",
                "input.files": ["a.mp4", "b.mp4", "-c.mp4"]}
        for path, value in want.items():
            self.assertEqual(s[path], {"value": value, "origin": "command line"}, path)
        self.assertEqual(s["segment.threshold"], {"value": 0.5, "origin": "default"})
        self.assertEqual(s["output.file"], {"value": None, "origin": "not set"})

    def test_values_behind_optional_ones(self):
        self.assertEqual(self.settings("--smooth", "0.5")["segment.smooth"]["value"], 0.5)
        self.assertEqual(self.settings("--smooth=0.5")["segment.smooth"]["value"], 0.5)
        s = self.settings("--smooth", "a.mp4")
        self.assertEqual((s["segment.smooth"]["value"], s["input.files"]["value"]), (0.7, ["a.mp4"]))
        self.assertEqual(self.settings("-vcodec", "libx265")["output.codec"]["value"], "libx265")
        self.assertEqual(self.settings("-ss", "-0")["input.start"]["value"], 0)

    def test_file_and_command_line(self):
        (self.tmp / "a.yaml").write_text("version: 1\noutput:\n  crf: 30\n  preset: slow\n")
        (self.tmp / "b.yaml").write_text("output:\n  crf: 25\n")
        for args in (["-preset", "fast", "-c", "a.yaml", "-c", "b.yaml"],
                     ["-c", "a.yaml", "-c", "b.yaml", "-preset", "fast"]):
            s = self.settings(*args)
            self.assertEqual(s["output.crf"], {"value": 25, "origin": "b.yaml:2"})
            self.assertEqual(s["output.preset"], {"value": "fast", "origin": "command line"})

    def test_printed_settings_are_a_configuration_file(self):
        args = ["-crf", "20", "-i", "a b.mp4", "-i", "c\\\"d'#.mp4", "--tint", "#01020304", "--background", "no",
                "--preset", "null", "-f", "~", "-ss", "1:30", "--provider-option", "a=b: c", "-o", "ü\t.mp4"]
        first = self.settings(*args)
        (self.tmp / "all.yaml").write_text(run("config", *args).stdout)
        again = self.settings("-c", "all.yaml")
        for path, entry in first.items():
            if path != "run.json":
                self.assertEqual(again[path]["value"], entry["value"], path)

    def test_bad_files(self):
        for text, part in [("output:\n  crff: 1\n", "bad.yaml:2: the key output.crff is not known; did you mean"),
                           ("output:\n  crf: 1\n  crf: 2\n", "bad.yaml:3: output.crf is there twice"),
                           ("segment: {mode: cut}\n", "bad.yaml:1: segment.mode: \"cut\" is not mask,")]:
            (self.tmp / "bad.yaml").write_text(text)
            self.assertIn(part, fails(2, "config", "-c", "bad.yaml", cwd=self.tmp))

    def test_documentation_is_up_to_date(self):
        page = (ROOT / "docs" / "config.md").read_text()
        table = re.search(r"<!-- tachy config --markdown -->\n(.*)<!-- end -->", page, re.S).group(1)
        self.assertEqual(table, run("config", "--markdown").stdout,
                         "put the output of `tachy config --markdown` into docs/config.md")


class Pages(Case):
    def test_manual_page_renders_without_warnings(self):
        page = self.tmp / "tachy.1"
        page.write_text(run("man").stdout)
        if shutil.which("groff"):
            p = subprocess.run(["groff", "-man", "-ww", "-Tutf8", page], capture_output=True, text=True)
        elif shutil.which("man"):
            p = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", page], capture_output=True, text=True,
                               env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"})
        else:
            self.skipTest("neither groff nor man is installed")
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        self.assertIn("EXIT STATUS", re.sub(r"\x1b\[[\d;]*m|.\x08", "", p.stdout))

    def test_completion_scripts_parse(self):
        for shell in ["bash", "zsh", "fish"]:
            script = self.tmp / shell
            script.write_text(run("completion", shell).stdout)
            self.assertIn("completion words", script.read_text())
            if shutil.which(shell):
                p = subprocess.run([shell, "-n", script], capture_output=True, text=True)
                self.assertEqual((p.returncode, p.stderr), (0, ""), shell)

    def complete(self, *words):
        """What bash offers for the last word."""
        code = f'''source <("{TACHY}" completion bash)
            compopt() {{ echo "compopt $*"; }}
            COMP_WORDS=({" ".join(f"'{w}'" for w in words)}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
            _tachy "{TACHY}"; printf '%s\\n' "${{COMPREPLY[@]}}"'''
        return subprocess.run(["bash", "-c", code], check=True, capture_output=True, text=True).stdout.split()

    def test_bash_completes(self):
        self.assertEqual(self.complete("tachy", "seg"), ["segment"])
        self.assertEqual(self.complete("tachy", "segment", "--thr"), ["--threshold"])
        self.assertEqual(self.complete("tachy", "segment", "--mode", "ma"), ["mask"])
        self.assertEqual(self.complete("tachy", "segment", "--mode", "=", "ma"), ["mask"])
        self.assertEqual(self.complete("tachy", "model", "im"), ["import"])
        self.assertEqual(self.complete("tachy", "probe", "--thr"), [])
        self.assertEqual(self.complete("tachy", "segment", "-ss", ""), [])
        for words in (["segment", "-o", ""], ["probe", ""], ["model", "import", "fa"]):
            self.assertEqual(self.complete("tachy", *words), ["compopt", "-o", "default"], words)  # a file

    def test_completion_words(self):
        """What the scripts of all shells ask for: a word and its meaning a line."""
        def words(*of):
            return [line.split("\t")[0] for line in run("completion", "words", "--", *of).stdout.splitlines()]
        self.assertIn("probe\tshow what is in a file\n", run("completion", "words", "--", "").stdout)
        self.assertEqual(words("segment", "--mode=ma"), ["--mode=mask"])
        self.assertEqual(words("segment", "--no-ref"), ["--no-refine"])
        self.assertEqual(words("profile", "segment", "--thr"), ["--threshold"])
        self.assertEqual(words("profile", "--csv", "out.csv", "seg"), ["segment"])
        self.assertEqual(words("model", "import", ""), [":files"])
        self.assertIn("selfie", words("model", "info", "sel"))
        self.assertIn("selfie", words("segment", "--model", "sel"))
        self.assertEqual(words("segment", "-preset", "ultra"), ["ultrafast"])
        self.assertEqual(words("help", "dete"), ["detect"])


def on_terminal(*args, columns=80, stop_after=None, cwd=None):
    """Runs the command with standard error on a terminal of that width; (status, what it showed,
    standard output). SIGINT is sent once the text `stop_after` was shown."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        out = os.open("stdout.txt", os.O_WRONLY | os.O_CREAT)
        os.dup2(out, 1)
        fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.environ["TERM"] = "xterm"
        os.execv(TACHY, [TACHY, *args])
    shown = b""
    while True:
        try:
            data = os.read(fd, 4096)
        except OSError:  # the other side is closed
            break
        if not data:
            break
        shown += data
        if stop_after and stop_after in shown:
            os.kill(pid, signal.SIGINT)
            stop_after = None
    os.close(fd)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status, shown.decode(), (pathlib.Path(cwd) / "stdout.txt").read_text()


class Run(Case):
    """Runs on made-up frames: progress, summaries, interruption, several inputs."""
    CLIP = "null:320x180@30,frames=60"
    ENDLESS = "null:320x180@30,frames=1000000"

    @classmethod
    def setUpClass(cls):
        run("model", "pull", "selfie")

    def test_summary_goes_where_the_output_does_not(self):
        p = run("segment", "--mode", "mask", self.CLIP, "-f", "null", "-")
        self.assertIn("60 frames in", p.stdout)
        p = run("segment", "--mode", "mask", self.CLIP, "-f", "framemd5", "-")
        self.assertNotIn("peak memory", p.stdout)
        self.assertIn("peak memory", p.stderr)
        self.assertEqual(len([l for l in p.stdout.splitlines() if not l.startswith("#")]), 60)
        p = run("segment", "--quiet", "--mode", "mask", self.CLIP, "-f", "null", "-")
        self.assertEqual((p.stdout, p.stderr), ("", ""))

    def test_json_summary(self):
        p = run("segment", "--mode", "mask", self.CLIP, "-f", "null", "-", "--json")
        o = json.loads(p.stdout)
        self.assertEqual((o["frames"], o["mode"], o["input"], o["output"]), (60, "mask", self.CLIP, None))
        self.assertEqual([s["name"] for s in o["steps"]],
                         ["decode", "preprocess", "model", "postprocess", "composite", "encode"])
        run("segment", "--mode", "json", self.CLIP, "-o", "-", "--json=sum.json", cwd=self.tmp)
        self.assertEqual(json.loads((self.tmp / "sum.json").read_text())["frames"], 60)
        p = run("segment", "--mode", "mask", self.CLIP, self.CLIP, "-f", "null", "--json")
        self.assertEqual([json.loads(l)["frames"] for l in p.stdout.splitlines()], [60, 60])

    def test_names_are_derived_and_kept(self):
        run("segment", self.CLIP, "--max-frames", "3", "-o", "out/", "--mode", "json", cwd=self.tmp)
        self.assertEqual(len((self.tmp / "out" / "null.jsonl").read_text().splitlines()), 3)
        self.assertIn("use -y", fails(1, "segment", self.CLIP, "-o", "out/", "--mode", "json", cwd=self.tmp))
        run("segment", self.CLIP, "--max-frames", "2", "-y", "-o", "out", "--mode", "json", cwd=self.tmp)
        self.assertEqual(len((self.tmp / "out" / "null.jsonl").read_text().splitlines()), 2)

    def test_progress_on_a_terminal(self):
        for columns in (40, 80, 120):
            for frames in (200, 1000, 5000):  # a run may end before a loaded machine shows anything
                status, shown, out = on_terminal("segment", "--focus", "off", "--mode", "mask",
                                                 f"null:320x180@30,frames={frames}", "-f", "null", "-", columns=columns,
                                                 cwd=self.tmp)
                self.assertEqual(status, 0, shown)
                lines = [l for l in re.split(r"\r\x1b\[K|\r\n", shown) if l]
                if lines:
                    break
            self.assertTrue(any(f"/{frames} frames" in l for l in lines), shown)
            self.assertLess(max(map(len, lines)), columns)
            self.assertRegex(out, "Bottleneck: |Keeping up: ")

    def test_plain_lines_elsewhere(self):
        p = run("segment", "--mode", "mask", self.CLIP, "-f", "null", "-")
        self.assertNotIn("\r", p.stderr)
        self.assertNotIn("\x1b", p.stderr)

    def test_interrupted(self):
        status, shown, out = on_terminal("segment", "--focus", "off", "--mode", "mask", self.ENDLESS, "-o", "cut.mkv", "-preset",
                                         "ultrafast", stop_after=b" fps", cwd=self.tmp)
        self.assertEqual(status, 130, shown)
        frames = int(re.search(r"interrupted; cut.mkv holds the first (\d+) frames", shown).group(1))
        self.assertGreater(frames, 0)
        got = ffprobe(self.tmp / "cut.mkv", "-count_frames")["streams"][0]["nb_read_frames"]
        self.assertEqual(int(got), frames)
        self.assertEqual(sorted(p.name for p in self.tmp.iterdir()), ["cut.mkv", "stdout.txt"])

    def test_inputs_at_once_share_a_line(self):
        clip = "null:320x180@30,frames=10000000"
        status, shown, _ = on_terminal("segment", "--focus", "off", "--mode", "mask", clip, clip, "--parallel", "2", "-f", "null",
                                       "-", columns=60, stop_after=b"/20000000 frames", cwd=self.tmp)
        self.assertEqual(status, 130)
        self.assertRegex(shown, r"0/2 inputs +\d+ % +\d+/20000000 frames")
        self.assertRegex(shown, r"interrupted after \d+ frames")
        self.assertNotIn("file", shown)

    def test_too_little_memory_keeps_its_figure(self):
        said = fails(1, "segment", "null:7680x4320@30,frames=20", "-f", "null", "-", "-q", "--max-memory", 4)
        self.assertRegex(said, r"\d+\.\d MiB more host memory for frames would exceed the 4\.0 MiB .* a larger --max-memory")

    def test_numbers_are_short(self):
        text = run("segment", "--mode", "mask", self.CLIP, "-f", "null", "-", "--json", "-q").stdout
        numbers = re.findall(r": (\d+\.\d+)(?=[,\n])", text)
        self.assertGreater(len(numbers), 20)
        self.assertEqual([n for n in numbers if len(n) > len(repr(float(n)))], [])

    def test_summary_fits_the_terminal(self):
        t = Terminal("segment", "--focus", "off", "--mode", "mask", self.CLIP, "-f", "null", "-", columns=40)
        self.assertEqual(t.wait(), 0)
        said = t.shown[t.shown.index("60 frames in"):].replace("\r", "")
        for line in said.splitlines():
            self.assertTrue(len(line) <= 40 or line.startswith("  "), line)

    def test_parallel(self):
        """Several inputs of different formats at once: each output as if it had run alone, in its order."""
        clips = {"a": ("320x180", 60), "b": ("320x180", 45), "c": ("400x300", 30)}
        for name, (size, frames) in clips.items():
            ffmpeg("-f", "lavfi", "-i", f"testsrc2=s={size}:r=30", "-frames:v", frames, "-preset", "ultrafast",
                   self.tmp / f"{name}.mp4")
        (self.tmp / "bad.mp4").write_bytes(b"no video" * 500)
        names = [f"{n}.mp4" for n in clips]
        common = ("segment", "--quiet", "--mode", "mask", "--smooth", "-f", "framemd5")
        run(*common, *names, "-o", "alone/", cwd=self.tmp)
        p = run(*common, "bad.mp4", *names, "-o", "together/", "--parallel", 3, "--json=sum.json", cwd=self.tmp,
                check=False)
        self.assertEqual(p.returncode, 1, p.stderr)  # one failed ...
        self.assertIn("bad.mp4", p.stderr)
        for n, (_, frames) in clips.items():         # ... and ended none of the others
            got = (self.tmp / "together" / f"{n}.mask.framemd5").read_text()
            self.assertEqual(got, (self.tmp / "alone" / f"{n}.mask.framemd5").read_text())
            self.assertEqual(len([l for l in got.splitlines() if not l.startswith("#")]), frames)
        sums = {o["input"]: o for o in map(json.loads, (self.tmp / "sum.json").read_text().splitlines())}
        self.assertEqual({n: o["frames"] for n, o in sums.items()}, {f"{n}.mp4": f for n, (_, f) in clips.items()})
        for o in sums.values():  # the steps of each run are its own
            calls = {s["name"]: s["calls"] for s in o["steps"]}
            self.assertEqual((calls["preprocess"], calls["model"], calls["composite"]), (o["frames"],) * 3)
        for n in "ac":
            (self.tmp / "together" / f"{n}.mask.framemd5").unlink()
        run(*common, "b.mp4", "a.mp4", "c.mp4", "-o", "together/", "--parallel", 2, "--batch", 4, "-y", cwd=self.tmp)  # b ends first
        for n in clips:
            self.assertEqual((self.tmp / "together" / f"{n}.mask.framemd5").read_text(),
                             (self.tmp / "alone" / f"{n}.mask.framemd5").read_text())
        self.assertIn("--calibrate", fails(2, "segment", "--parallel", 2, "--calibrate", "a.mp4", "-f", "null",
                                           cwd=self.tmp))

    def test_full_disk_is_temporary(self):
        with open("/dev/full", "w") as full:
            p = subprocess.run([TACHY, "segment", "--focus", "off", "--quiet", "--mode", "mask", self.CLIP, "-f", "framemd5", "-"],
                               stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(p.returncode, 75, p.stderr)


if __name__ == "__main__":
    main()
