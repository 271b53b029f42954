"""What people type wrong: each line of mistakes.txt ends in one sentence that names the thing and what to type."""
import concurrent.futures
import os
import pathlib
import shlex
import subprocess

from common import TACHY, Case, ffmpeg, main, models, whole_frames

LIST = pathlib.Path(__file__).with_name("mistakes.txt")
MOST = 160 # characters of an answer
FILES = {"empty.mp4": "", "text.txt": "hello\n", "text.onnx": "hello\n",
         "bad.yaml": "version: 1\nsegment: {thresold: 0.4}\n",
         "type.yaml": "version: 1\nsegment: {threshold: soft}\n",
         "broken.yaml": "version: 1\nsegment: [\n"}


def rows():
    for line in LIST.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            status, words, command = (part.strip() for part in line.split("|", 2))
            yield int(status), [w.strip() for w in words.split(";") if w.strip()], command


class Mistakes(Case):
    def prepare(self):
        ffmpeg("-f", "lavfi", "-i", "testsrc=s=64x48:r=10:d=0.3", self.tmp / "in.mp4")
        ffmpeg("-f", "lavfi", "-i", "sine=d=0.2", self.tmp / "sound.wav")
        (self.tmp / "old.mp4").write_bytes((self.tmp / "in.mp4").read_bytes())
        for name, text in FILES.items():
            (self.tmp / name).write_text(text)

    def wrong(self, row):
        """What is wrong with the answer to a command; None: nothing."""
        status, words, command = row
        args = [TACHY, *whole_frames(shlex.split(command.replace("#", "\\#"))[1:])]
        env = dict(os.environ, CUDA_VISIBLE_DEVICES="")
        p = subprocess.run(args, cwd=self.tmp, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        lacks = [w for w in words if w not in p.stderr]
        one = p.stderr.startswith("tachy: ") and p.stderr.count("\n") == 1 and len(p.stderr) <= MOST + 1
        if p.returncode == status and one and not lacks:
            return None
        return f"{command}\n  status {p.returncode}, not {status}; lacks {lacks}; {len(p.stderr)} characters: {p.stderr}"

    def test_each_answer_is_one_sentence(self):
        models("selfie")
        self.prepare()
        all_rows = list(rows())
        self.assertGreaterEqual(len(all_rows), 75)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            bad = [b for b in pool.map(self.wrong, all_rows) if b]
        self.assertFalse(bad, "\n" + "\n".join(bad))
        self.assertEqual({p.name for p in self.tmp.iterdir()}, {"in.mp4", "old.mp4", "sound.wav", *FILES})


if __name__ == "__main__":
    main()
