"""Several outputs of one run, judged by ffprobe and ffmpeg."""
import json
import signal
import subprocess
import threading

import common
from common import ffmpeg, ffprobe


def count_frames(path):
    out = subprocess.run(["ffprobe", "-v", "error", "-count_frames", "-select_streams", "v:0", "-show_entries",
                          "stream=nb_read_frames", "-of", "csv=p=0", str(path)], check=True, capture_output=True, text=True)
    return int(out.stdout.strip().strip(","))


class Outputs(common.Case):
    def setUp(self):
        super().setUp()
        self.clip = self.tmp / "in.mp4"
        ffmpeg("-f", "lavfi", "-i", "testsrc2=s=160x90:r=25:d=1", "-f", "lavfi", "-i", "sine=440:d=1", "-c:v", "libx264",
               "-preset", "ultrafast", self.clip)

    def test_pictures_text_and_pipe(self):
        """Video with sound twice, lines, rows, and Y4M that ffmpeg reads from standard output."""
        config = self.tmp / "c.yaml"
        config.write_text("output:\n  overwrite: yes\n  file:\n" + "".join(f"    - '{name}'\n" for name in (
            self.tmp / "a.mkv", f"[crf=40:f=mp4]{self.tmp / 'b.bin'}", self.tmp / "a.jsonl", self.tmp / "a.csv",
            "[f=yuv4mpegpipe]-")))
        tachy = subprocess.Popen([common.TACHY, "detect", "-c", config, self.clip, f"--json={self.tmp / 's.json'}"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        got = subprocess.run(["ffmpeg", "-v", "error", "-f", "yuv4mpegpipe", "-i", "-", "-f", "framemd5", "-"],
                             stdin=tachy.stdout, capture_output=True, text=True, check=True).stdout
        self.assertEqual(tachy.wait(60), 0, tachy.stderr.read())
        tachy.stderr.close()
        tachy.stdout.close()
        alone = common.run("detect", self.clip, "-f", "framemd5", "-o", "-").stdout
        sums = [[line.split(",")[-1].strip() for line in text.splitlines() if not line.startswith("#")] for text in (got, alone)]
        self.assertEqual(len(sums[0]), 25)
        self.assertEqual(*sums)
        for name in ("a.mkv", "b.bin"):
            info = ffprobe(self.tmp / name, "-count_packets")
            kinds = {s["codec_type"]: int(s["nb_read_packets"]) for s in info["streams"]}
            self.assertEqual(kinds["video"], 25)
            self.assertEqual(kinds["audio"], int(ffprobe(self.clip, "-count_packets")["streams"][1]["nb_read_packets"]))
        self.assertLess((self.tmp / "b.bin").stat().st_size, (self.tmp / "a.mkv").stat().st_size)
        self.assertEqual([json.loads(line)["frame"] for line in (self.tmp / "a.jsonl").read_text().splitlines()], list(range(25)))
        self.assertTrue((self.tmp / "a.csv").read_text().startswith("frame,"))
        outputs = json.loads((self.tmp / "s.json").read_text())["outputs"]
        self.assertEqual([o["frames"] for o in outputs], 5 * [25])
        self.assertEqual({o["error"] for o in outputs}, {None})

    def test_reader_goes(self):
        """The pipe's reader leaves after the first bytes: the file is whole, the exit status says that something failed."""
        out = self.tmp / "kept.mkv"
        p = subprocess.Popen([common.TACHY, "detect", self.clip, "-o", "[f=yuv4mpegpipe]-", "-o", out, "-an"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        p.stdout.close()
        err = p.stderr.read()
        self.assertEqual(p.wait(60), 1, err)
        p.stderr.close()
        self.assertIn("its reader has gone", err)
        self.assertIn("1 of 2 outputs failed", err)
        self.assertEqual(count_frames(out), 25)

    def test_stop_keeps_the_others(self):
        """Ctrl-C while a pipe takes nothing: it is given up, the other output is whole."""
        out = self.tmp / "kept.mkv"
        p = subprocess.Popen([common.TACHY, "detect", "--live", "null:320x180@50,frames=100000", "-o", f"[preset=ultrafast]{out}",
                              "-o", "[f=rawvideo]-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = []
        stuck = threading.Event()

        def listen():
            for line in p.stderr:
                said.append(line)
                if "takes no frames" in line:
                    stuck.set()
            stuck.set()
        listener = threading.Thread(target=listen)
        listener.start()
        self.assertTrue(stuck.wait(120))
        p.send_signal(signal.SIGINT)
        status = p.wait(120)
        listener.join()
        p.stdout.close()
        p.stderr.close()
        self.assertNotEqual(status, 0)
        self.assertIn("its reader takes nothing", "".join(said))
        self.assertGreater(count_frames(out), 10)

    def test_refused(self):
        for args, part in ((["-o", "a.mp4", "-o", "a.mp4"], "twice"), (["-o", "a.mp4", "-o", "d/"], "one input"),
                           (["-o", "-", "-o", "a.mp4"], "give it with -f"), (["-o", "[q=1:f=mp4]a", "-o", "[f=mp4:q=1]b"], "no option"),
                           (["-o", "a.mkv", "-o", "b.mkv", "--resume"], "--resume takes one output")):
            p = common.run("detect", self.clip, *args, check=False, cwd=self.tmp)
            self.assertEqual(p.returncode, 2, p.stderr)
            self.assertIn(part, p.stderr)
        p = common.run("model", "import", "x.tflite", "-o", "a", "-o", "b", check=False)
        self.assertEqual(p.returncode, 2)
        self.assertIn("give -o once", p.stderr)


if __name__ == "__main__":
    common.main()
