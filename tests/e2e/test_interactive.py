"""A run that a person has a hand on: keys, the prompt of --interactive, the shell. All on real terminals."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time

from common import ROOT, SANITIZER, TACHY, Case, ffprobe, main, run
from terminal import Terminal

ENDLESS = "null:320x180@30,frames=10000000"
RUN = ("segment", "--focus", "off", "--mode", "mask", ENDLESS)
NOWHERE = (*RUN, "-f", "null", "-")


class Interactive(Case):
    @classmethod
    def setUpClass(cls):
        run("model", "pull", "selfie")
        cls.editor = "built without libedit" not in Interactive.first_lines()

    @staticmethod
    def first_lines():
        t = Terminal("shell")
        t.expect("tachy> ")
        t.type("quit\n")
        t.wait()
        return t.shown

    def setUp(self):
        super().setUp()
        self.env = {"XDG_STATE_HOME": str(self.tmp / "state")}


class Keys(Interactive):
    def test_every_key(self):
        t = Terminal(*NOWHERE)
        t.expect(" fps")
        self.assertFalse(t.echoes())
        t.type("?")
        t.expect("r report, p pause")
        t.type("r")
        t.expect(r"running, \d+ of at most \d+ frames in flight.*model +\d+.*(Bottleneck|Keeping up): .*From read to written: p50 [\d.]+, p95 [\d.]+, p99 [\d.]+ ms; memory now \d+ MiB")
        t.type("+")
        t.expect("tachy: model.batch_size cannot change while a run goes on to more than the 1 that it began with")
        t.type("-")
        t.expect("1 to 256 pictures; it stays at 1")
        t.type("x\x1b[A")  # nothing
        t.type("p")
        t.expect("paused; p goes on")
        frames = int(t.expect(r"paused at (\d+) frames").group(1))
        time.sleep(0.6)
        t.read(0)
        last = re.findall(r"paused at (\d+) frames", t.shown)[-1]
        self.assertLess(int(last), frames + 40)  # what was in flight
        t.type("p")
        t.expect("goes on")
        t.expect(r"%  (\d+)/")
        t.type("q")
        t.expect("finishing the file")
        self.assertEqual(t.wait(), 130)
        self.assertIn("interrupted", t.shown)

    def on_shell(self, command, act):
        """Runs a command from a shell on a terminal, so that the terminal outlives it; settings before, after."""
        t = Terminal(argv=["sh", "-c", f"trap : INT QUIT; stty -a > before; {command}; echo status $?; stty -a > after; sleep 0.1"],
                     cwd=self.tmp)
        t.expect(" fps|tachy> ")
        act(t)
        status = int(t.expect(r"status (\d+)").group(1))
        t.wait()
        return status, (self.tmp / "before").read_text(), (self.tmp / "after").read_text(), t.shown

    def test_terminal_is_restored_whatever_ends_the_run(self):
        command = " ".join([TACHY, *NOWHERE])
        kill = lambda sig: lambda t: os.kill(self.child(t), sig)
        cases = {"q": (130, lambda t: t.type("q")), "Ctrl-C": (130, lambda t: t.type("\x03")),
                 "Ctrl-\\": (128 + signal.SIGQUIT, lambda t: t.type("\x1c")),
                 "TERM": (130, kill(signal.SIGTERM)), "HUP": (130, kill(signal.SIGHUP)),
                 "SEGV": (128 + signal.SIGSEGV, kill(signal.SIGSEGV)),
                 "ABRT": (128 + signal.SIGABRT, kill(signal.SIGABRT))}
        if SANITIZER:
            del cases["SEGV"]  # a sanitizer's own
        for name, (want, act) in cases.items():
            with self.subTest(name):
                status, before, after, shown = self.on_shell("ulimit -c 0; " + command, act)
                self.assertEqual(status, want, shown)
                self.assertEqual(before, after)
        status, before, after, _ = self.on_shell(command.replace(ENDLESS, "null:320x180@30,frames=300"),
                                                 lambda t: None)
        self.assertEqual((status, before), (0, after))

    def child(self, t):
        """The command that the shell runs."""
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    text = pathlib.Path("/proc", entry, "stat").read_text()
                except OSError:
                    continue
                if int(text.rsplit(")", 1)[1].split()[1]) == t.pid and "(tachy)" in text:
                    return int(entry)
        self.fail("the command does not run")

    def test_a_paused_run_can_be_interrupted(self):
        def act(t):
            t.type("p")
            t.expect("paused at")
            t.type("\x03")
        status, before, after, shown = self.on_shell(" ".join([TACHY, *NOWHERE]), act)
        self.assertEqual((status, before), (130, after), shown)

    def test_stopped_and_continued(self):
        t = Terminal(argv=["bash", "--norc", "-i"], cwd=self.tmp, env={"PS1": "$ ", "HISTFILE": ""})
        t.expect(r"\$ ")
        t.type("stty -a > before; " + " ".join([TACHY, *NOWHERE]) + "\n")
        t.expect(" fps")
        t.type("\x1a")
        t.expect("Stopped")
        t.type("stty -a > during\n")
        t.expect(r"\$ ")
        t.type("fg\n")
        t.expect(" fps")
        t.type("p")  # keys work again
        t.expect("paused at")
        self.assertFalse(t.echoes())
        t.type("q")
        t.expect("interrupted")
        t.expect(r"\$ ")
        t.type("stty -a > after; exit\n")
        t.wait()
        texts = [(self.tmp / name).read_text() for name in ("before", "during", "after")]
        echo = [re.search(r"-?\becho\b", x).group() for x in texts]
        icanon = [re.search(r"-?\bicanon\b", x).group() for x in texts]
        self.assertEqual((echo[0], icanon[0]), (echo[2], icanon[2]))
        self.assertEqual(echo[0], "echo")

    def test_quit_finishes_the_file(self):
        t = Terminal(*RUN, "-o", "cut.mkv", "-preset", "ultrafast", cwd=self.tmp)
        t.expect(" fps")
        t.type("q")
        self.assertEqual(t.wait(), 130)
        frames = int(re.search(r"cut.mkv holds the first (\d+) frames", t.shown).group(1))
        got = ffprobe(self.tmp / "cut.mkv", "-count_frames")["streams"][0]["nb_read_frames"]
        self.assertEqual(int(got), frames)

    def test_the_list_of_keys(self):
        """docs/interactive.md has the keys that the help has."""
        page = (ROOT / "docs/interactive.md").read_text().split("| key | what | |")[1].split("\n\n")[0]
        rows = [[x.strip() for x in line.split("|")[1:3]] for line in page.splitlines()[2:]]
        for verb, name in (("animate", "animate"), ("segment", None)):
            listed = re.search(r"\nKeys during a run.*?:\n(.*?)\n\n", run("help", verb).stdout, re.S).group(1)
            listed = [re.split(r"  +", line.strip(), 1) for line in listed.splitlines()]
            wanted = rows if name else [r for r, line in zip(rows, page.splitlines()[2:]) if "`animate`" not in line]
            self.assertEqual(listed, wanted)

    def test_keys_can_be_left_out(self):
        t = Terminal(*NOWHERE, "--no-keys")
        t.expect(" fps")
        self.assertTrue(t.echoes())
        t.type("q")
        time.sleep(0.5)
        t.type("\x03")
        self.assertEqual(t.wait(), 130)
        self.assertNotIn("finishing the file", t.shown)


class Prompt(Interactive):
    def test_commands(self):
        t = Terminal(*NOWHERE, "--interactive", env=self.env)
        t.expect("tachy> ")
        t.type("help\n")
        t.expect("set NAME VALUE.*quit.*tachy> ")
        for _ in range(200):
            t.type("stats\n")
            if "begun" not in t.expect("(has not begun|peak memory).*?tachy> ").group(1):
                break
            time.sleep(0.1)
        t.type("pause\n")
        t.expect("paused; resume goes on.*tachy> ")
        t.type("set workers 1\n")
        t.expect("model.num_workers is 1 from now on.*tachy> ")
        t.type("resume\n")
        t.expect("tachy> ")
        for command, answer in [("set batch_size 8", "model.batch_size cannot change"), ("set crf x", "crf"),
                                ("set", "set NAME VALUE"), ("set 'a", "quote is not closed"),
                                ("nonsense", "unknown command 'nonsense'; help lists them"), ("stas", "did you mean stats?"), ("profile x", "profile 10s"),
                                ("config", "mode: mask +# command line"), ("config all", "threshold: 0.5 +# default"),
                                ("hardware", "(?s)CPU.*ONNX Runtime")]:
            t.type(command + "\n")
            t.expect(answer)
            t.expect("tachy> ")
        t.type("profile 0.5s\n")
        t.expect(r"in 0.5 s.*the last \d+.\d s: \d+ frames.*model +\d+.*latency p50.*tachy> ")
        t.type("quit\n")
        self.assertEqual(t.wait(), 130)
        self.assertIn("interrupted", t.shown)

    def test_batches(self):
        t = Terminal(*NOWHERE, "--batch", "4", "--provider", "null", "--interactive", env=self.env)
        t.expect("tachy> ")
        t.type("profile 0.3\n")
        t.expect("latency p50.*tachy> ")
        for n, answer in [(2, "model.batch_size is 2 from now on"), (4, "model.batch_size is 4"),
                          (8, "to more than the 4 that it began with"), (0, "batch"), (1, "model.batch_size is 1")]:
            t.type(f"set batch_size {n}\n")
            t.expect(answer)
            t.expect("tachy> ")
        t.type("quit\n")
        self.assertEqual(t.wait(), 130)
        t = Terminal(*NOWHERE, "--batch", "4", "--provider", "null")
        t.expect(" fps")
        for key, answer in [("+", "to more than the 4"), ("-", "batches of 2"), ("-", "batches of 1"),
                            ("-", "it stays at 1"), ("+", "batches of 2")]:
            t.type(key)
            t.expect(answer)
        t.type("q")
        self.assertEqual(t.wait(), 130)

    def test_drain_ends_as_the_input_would(self):
        t = Terminal(*RUN, "--interactive", "-o", "cut.mkv", "-preset", "ultrafast", cwd=self.tmp, env=self.env)
        t.expect("tachy> ")
        t.type("profile 0.3\n")
        t.expect("latency p50.*tachy> ")
        while not re.search(r"[1-9]\d* frames in", t.shown):
            t.type("stats\n")
            t.expect("tachy> ")
        t.type("drain\n")
        t.expect("reads no more")
        self.assertEqual(t.wait(), 0, t.shown)
        self.assertGreater(int(ffprobe(self.tmp / "cut.mkv", "-count_frames")["streams"][0]["nb_read_frames"]), 0)
        self.assertNotIn("interrupted", t.shown)

    def test_drain_before_the_run_has_begun(self):
        t = Terminal(*NOWHERE, "--interactive", env=self.env)
        t.expect("tachy> ")
        t.type("drain\n")
        t.expect("reads no more")
        self.assertEqual(t.wait(), 0, t.shown)

    def test_interrupt_and_end_of_input(self):
        t = Terminal(*NOWHERE, "--interactive", env=self.env)
        t.expect("tachy> ")
        t.type("profile 0.2\n")
        t.expect("latency p50.*tachy> ")
        t.type("\x03")
        self.assertEqual(t.wait(), 130)
        p = subprocess.run([TACHY, *NOWHERE[:-3], "--max-frames", "200", "--interactive", "-f", "null", "-"],
                           input="stats\nconfig\n", capture_output=True, text=True, timeout=120)
        self.assertEqual(p.returncode, 0, p.stderr)  # the end of the commands is not that of the run
        self.assertIn("200 frames in", p.stdout)
        self.assertIn("max_frames: 200", p.stdout)

    def test_wrong_uses(self):
        p = run("segment", "--interactive", "-", "-o", "x.mp4", check=False, input="")
        self.assertEqual(p.returncode, 2)
        self.assertIn("standard input", p.stderr)


class Shell(Interactive):
    def shell(self, script, **kw):
        p = subprocess.run([TACHY, "shell"], input=script, capture_output=True, text=True, timeout=120, cwd=self.tmp,
                           **kw)
        return p

    def test_script(self):
        p = self.shell('''# a comment
set mode json
segment null:320x180@30,frames=30 -o "a b.jsonl"
segment null:320x180@30,frames=20 -o c.jsonl --mode mask -f framemd5
wait
jobs
stats
''')
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertEqual(len((self.tmp / "a b.jsonl").read_text().splitlines()), 30)
        self.assertIn("[1] ended  status 0", p.stdout)
        self.assertIn("[2] waits for the one before it", p.stdout)
        self.assertIn("[2] done", p.stderr)
        self.assertRegex(p.stdout, r"idle; the last run:\n20 frames in")

    def test_status_is_the_last_ones(self):
        p = self.shell("segment none.mp4 -f null -\n")
        self.assertEqual(p.returncode, 1)
        self.assertIn("none.mp4", p.stderr)
        self.assertIn("[1] failed", p.stderr)
        for line, part in [("segment --treshold 1 a.mp4", "did you mean"), ("shell", "this is the shell already"),
                           ("segment - -o x.mp4", "standard input"), ("segment --interactive a.mp4", "leave"),
                           ("profile --tool perf segment a.mp4", "--tool"), ("stop", "no run goes on"),
                           ("pause", "no run goes on"), ("set foo 1", "foo is not known"),
                           ("set crf x", "crf"), ("probe none.mp4", "none.mp4")]:
            p = self.shell(line + "\nwait\n")
            self.assertIn(part, p.stderr, line)
        self.assertEqual(self.shell("probe none.mp4\nquit\n").returncode, 0)
        p = self.shell("tachy model list\nexit\nno such line\n")
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        self.assertIn("selfie", p.stdout)

    def test_other_commands_run_at_once(self):
        p = self.shell("model list --json\nhelp segment\nhelp\nconfig --crf 20\nhardware\n")
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertIn('"selfie"', p.stdout)
        self.assertIn("--threshold", p.stdout)
        self.assertRegex(p.stdout, r"crf: 20 +# command line")
        self.assertIn("ONNX Runtime", p.stdout)

    def test_profile_of_a_job(self):
        p = self.shell("profile segment --mode mask null:320x180@30,frames=20 -f null -\nwait\n")
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertRegex(p.stdout, r"worker +model +20")
        self.assertIn("traceEvents", json.loads((self.tmp / "tachy.trace.json").read_text()))

    def test_stop_ends_one_job_and_quit_the_rest(self):
        t = Terminal("shell", cwd=self.tmp, env=self.env)
        t.expect("tachy> ")
        t.type(" ".join([*RUN, "-o", "a.mkv", "-preset", "ultrafast"]) + "\n")
        t.expect(r"\[1\].*tachy> ")
        t.type(" ".join([*RUN, "-o", "b.mkv", "-preset", "ultrafast"]) + "\n")
        t.expect(r"\[2\] waits.*tachy> ")
        for _ in range(100):
            t.type("stats\n")
            if t.expect(r"(begun|\d+ frames in).*?tachy> ").group(1) != "begun":
                break
            time.sleep(0.1)
        t.type("config\n")
        t.expect("a.mkv.*tachy> ")
        t.type("stop\n")
        t.expect(r"a.mkv holds the first \d+ frames.*\[1\] stopped")
        for _ in range(100):
            t.type("stats\n")
            if t.expect(r"(last run|running).*?tachy> ").group(1) == "running":
                break
            time.sleep(0.1)
        t.type("quit\n")
        t.expect(r"finishing the file.*b.mkv holds the first \d+ frames")
        t.wait()
        for name in "ab":
            self.assertGreater(int(ffprobe(self.tmp / f"{name}.mkv", "-count_frames")["streams"][0]["nb_read_frames"]), 0)
        self.assertEqual(sorted(p.name for p in self.tmp.iterdir() if p.is_file()), ["a.mkv", "b.mkv"])

    def test_end_by_a_signal(self):
        t = Terminal("shell", cwd=self.tmp, env=self.env)
        t.expect("tachy> ")
        for _ in range(2):
            t.type(" ".join(NOWHERE) + "\n")
            t.expect(r"\[\d\].*tachy> ")
        for _ in range(100): # the signal may come before the first has begun; that is not meant here
            t.type("jobs\n")
            if t.expect(r"\[1\] (runs|waits).*?tachy> ").group(1) == "runs":
                break
            time.sleep(0.1)
        os.kill(t.pid, signal.SIGTERM)
        self.assertEqual(t.wait(), 130)
        self.assertIn("[1] stopped", t.shown)
        self.assertIn("[2] never begun", t.shown)

    def test_ctrl_s_does_not_keep_a_signal_waiting(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            for typed in ("", "help\n"):  # the latter's output waits when the signal comes
                with self.subTest(number=number, typed=typed):
                    t = Terminal("shell", cwd=self.tmp, env=self.env)
                    t.expect("tachy> ")
                    t.stop_output()
                    t.type(typed)
                    os.kill(t.pid, number)
                    self.assertEqual(t.wait(), 130)

    def test_a_second_signal_ends_a_shell_whose_terminal_takes_nothing(self):
        t = Terminal("shell", cwd=self.tmp, env=self.env)
        t.expect("tachy> ")
        t.type("help\n" * 100)  # and nobody reads it
        proc = pathlib.Path(f"/proc/{t.pid}")
        for _ in range(600):  # until it waits in write() to standard output or error
            number, fd = ((proc / "syscall").read_text().split() + [""])[:2]
            if number in ("1", "64") and fd in ("0x1", "0x2"):  # x86-64, aarch64
                break
            time.sleep(0.1)
        for _ in range(2):
            os.kill(t.pid, signal.SIGTERM)
            while int(re.search(r"ShdPnd:\s*(\w+)", (proc / "status").read_text()).group(1), 16):
                time.sleep(0.01)  # two that wait would be one
        for _ in range(600):
            pid, status = os.waitpid(t.pid, os.WNOHANG)
            if pid:
                break
            time.sleep(0.1)
        self.assertEqual((pid, os.waitstatus_to_exitcode(status)), (t.pid, 130))
        os.close(t.fd)


class Editor(Interactive):
    """Completion and history."""

    def setUp(self):
        super().setUp()
        if not self.editor:
            self.skipTest("built without libedit")

    def history(self):
        """Lines of the file that the editor leaves: blanks are \\040 there."""
        text = (self.tmp / "state" / "tachy" / "history").read_text()
        return [re.sub(r"\\(\d{3})", lambda m: chr(int(m.group(1), 8)), line) for line in text.splitlines()]

    def test_completion(self):
        (self.tmp / "holiday.mp4").touch()
        t = Terminal("shell", cwd=self.tmp, env=self.env)
        t.expect("tachy> ")
        cases = [("segm\t", "segment "), ("segment --thre\t", "segment --threshold "),
                 ("segment --mode ma\t", "segment --mode mask "), ("set segment.thr\t", "set segment.threshold "),
                 ("probe holiday.\t", "probe holiday.mp4 "), ("help doc\t", "help doctor "),
                 ("segment -i holiday.m\t", "segment -i holiday.mp4 "), ("model li\t", "model list ")]
        for typed, _ in cases:
            t.type(typed + "\x01# \n")  # made a comment: nothing runs, but it is kept in the history
            t.expect("#.*tachy> ")
        t.type("se\t")
        t.expect("segment +set")  # the available choices
        t.type("\x15quit\n")
        self.assertEqual(t.wait(), 0)
        for typed, line in cases:
            self.assertIn("# " + line, self.history())

    def test_history_is_kept(self):
        for i in range(2):
            t = Terminal("shell", cwd=self.tmp, env=self.env)
            t.expect("tachy> ")
            t.type("jobs\n" if i == 0 else "\x1b[A\x1b[A\n")  # quit, jobs
            t.expect("tachy> ")
            t.type("quit\n")
            self.assertEqual(t.wait(), 0, t.shown)
        path = self.tmp / "state" / "tachy" / "history"
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.history()[1:], ["jobs", "quit", "jobs", "quit"])

    def test_messages_leave_the_line_alone(self):
        t = Terminal("shell", cwd=self.tmp, env=self.env)
        t.expect("tachy> ")
        t.type("segment none.mp4 -f null -\nhelp doc")
        t.expect(r"\[1\] failed.*tachy> help doc")  # drawn again below the message
        t.type("tor\n")
        t.expect("Usage: tachy doctor")
        t.expect("tachy> ")
        t.type("\x04")
        t.wait()


class WithoutTerminal(Case):
    def test_documentation_names_every_command(self):
        page = (ROOT / "docs" / "interactive.md").read_text()
        out = subprocess.run([TACHY, "shell"], input="help\n", capture_output=True, text=True, check=True).stdout
        for name in re.findall(r"(?m)^  (\w+)", out.split("Of this shell:")[1]):
            self.assertIn(f"`{name}", page)


if __name__ == "__main__":
    main()
