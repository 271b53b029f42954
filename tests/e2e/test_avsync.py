"""tachy avsync: offsets and correlations against NumPy's, known shifts, another's sound, a corrected file, inputs without sound or face."""
import csv
import json

import numpy as np

import common
from common import ffmpeg, ffprobe, run

RATE, LAGS = 100, 100


def middle(v, width):
    """Means under a Hann window, which is cut at the ends."""
    half = width // 2
    w = 1 + np.cos(np.pi * np.arange(-half, half + 1) / (half + 1))
    return np.convolve(v, w, "same") / np.convolve(np.ones(len(v)), w, "same")


def band(v, fast, slow):
    v = middle(v, fast)
    return v - middle(v, slow)


class Avsync(common.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.d6 = common.shared("media/liveportrait_d6.mp4")

    def clip(self, ms=0, seconds=12):
        """The beginning of d6 with its sound so much later."""
        out = self.tmp / f"d6{ms:+d}.mkv"
        late = ["-af", f"adelay={ms}:all=1"] if ms >= 0 else ["-af", f"atrim=start={-ms / 1000},asetpts=PTS-STARTPTS"]
        ffmpeg("-i", self.d6, "-t", seconds, *late, "-c:v", "copy", "-c:a", "pcm_s16le", out)
        return out

    def lines(self, clip, *args, **kw):
        p = run("avsync", clip, "-o", self.tmp / "out.jsonl", "-y", *args, **kw)
        return [json.loads(line) for line in (self.tmp / "out.jsonl").read_text().splitlines()], p

    def test_numpy_finds_the_same(self):
        """The mouth as `tachy track` tells it, the sound as FFmpeg decodes it: the plain envelope's correlation peaks at the same place."""
        clip = self.clip(seconds=10)
        run("track", "--max-faces", "4", clip, "--no-smoothing", "-o", self.tmp / "track.jsonl")
        frames = [json.loads(line) for line in (self.tmp / "track.jsonl").read_text().splitlines()]
        p = np.array([f["regions"][0]["points"] for f in frames])[:, :, :3]
        gap = sum(np.linalg.norm(p[:, a] - p[:, b], axis=1) for a, b in ((13, 14), (82, 87), (312, 317))) / 3
        opening = gap / np.linalg.norm(p[:, 33] - p[:, 263], axis=1)
        ffmpeg("-i", clip, "-ac", "1", "-ar", "16000", "-f", "f32le", self.tmp / "sound")
        sound = np.fromfile(self.tmp / "sound", "<f4")
        envelope = np.sqrt(np.sqrt((sound[:len(sound) // 160 * 160].reshape(-1, 160) ** 2).mean(1)))
        n = round(frames[-1]["time"] * RATE)
        mouth = band(np.interp((np.arange(n) + 0.5) / RATE, [f["time"] + 1 / 60 for f in frames], opening), 7, 201)
        heard = band(envelope, 15, 201)
        curve = []
        for lag in range(-LAGS, LAGS + 1):
            a, b = max(-lag, 0), min(n, len(heard) - lag)
            curve.append(np.corrcoef(mouth[a:b], heard[a + lag:b + lag])[0, 1])
        window = self.lines(clip)[0][0]
        self.assertEqual(window["kind"], "window")
        self.assertLess(abs(window["offset_ms"] - (int(np.argmax(curve)) - LAGS) * 10), 15)
        self.assertLess(abs(window["correlation"] - max(curve)), 0.06)  # it has the voice besides

    def test_known_shifts(self):
        own = self.lines(self.clip())[0][-1]
        self.assertEqual((own["kind"], own["speaks"], own["face"]), ("summary", True, 0))
        self.assertLess(abs(own["offset_ms"]), 40)
        later = self.lines(self.clip(240, 20), "-ss", "7.5")[0][-1]
        self.assertLess(abs(later["offset_ms"] - 240), 40)
        for ms in (-400, 240):
            lines, p = self.lines(self.clip(ms))
            self.assertEqual([line["kind"] for line in lines], ["window"] * 3 + ["summary"])
            self.assertEqual([line["from"] for line in lines[:3]], [0, 1, 2])
            self.assertLess(abs(lines[-1]["offset_ms"] - ms), 40)
            self.assertIn("early" if ms < 0 else "late", p.stderr)

    def test_who_speaks(self):
        """Two people side by side, with the sound of one and then of the other."""
        d10, both, found = common.shared("media/liveportrait_d10.mp4"), self.tmp / "both.mkv", []
        ffmpeg("-i", self.d6, "-i", d10, "-t", "12", "-filter_complex", "[0:v]fps=15,scale=320:320[a];[1:v]fps=15,scale=320:320[b];[a][b]hstack[v]",
               "-map", "[v]", "-map", "0:a", "-map", "1:a", "-c:v", "libx264", "-preset", "ultrafast", "-c:a", "copy", both)
        run("track", "--max-faces", "4", both, "--max-frames", "1", "-o", self.tmp / "track.jsonl")
        side = {r["track"]: r["box"][0] > 320 for r in json.loads((self.tmp / "track.jsonl").read_text())["regions"]}
        self.assertEqual(len(side), 2)
        for i in (0, 1):
            ffmpeg("-i", both, "-map", "0:v", "-map", f"0:a:{i}", "-c", "copy", self.tmp / "one.mkv")
            found.append(side[self.lines(self.tmp / "one.mkv")[0][-1]["face"]])
        self.assertEqual(found, [False, True])

    def test_another_sound(self):
        own = self.lines(self.clip())[0][-1]
        other = self.tmp / "other.mkv"
        ffmpeg("-i", self.d6, "-i", common.shared("media/dhlive_audio0.wav"), "-t", "12", "-map", "0:v", "-map", "1:a", "-c:v", "copy", other)
        lines, p = self.lines(other, "--fix", self.tmp / "fixed.mkv")
        self.assertLess(lines[-1]["confidence"], own["confidence"])
        self.assertFalse(lines[-1]["speaks"])
        self.assertIn("no mouth moves as the sound says", p.stderr)
        self.assertFalse((self.tmp / "fixed.mkv").exists())

    def test_fix(self):
        """The pictures are copied as they are; the sound is in time then."""
        clip = self.clip(320)
        for name in ("fixed.mkv", "fixed.mov"):
            fixed = self.tmp / name
            self.lines(clip, "--fix", fixed)
            self.assertEqual(packets(clip), packets(fixed))
            self.assertEqual({s["codec_type"] for s in ffprobe(fixed)["streams"]}, {"video", "audio"})
            self.assertLess(abs(self.lines(fixed)[0][-1]["offset_ms"]), 20)
        p = self.lines(clip, "--fix", clip, check=False)[1]
        self.assertEqual(p.returncode, 1)
        self.assertIn("is the input itself", p.stderr)

    def test_csv(self):
        run("avsync", self.clip(), "-o", self.tmp / "out.csv")
        rows = list(csv.DictReader((self.tmp / "out.csv").read_text().splitlines()))
        self.assertEqual([r["kind"] for r in rows], ["window"] * 3 + ["summary"])
        self.assertLess(abs(float(rows[-1]["offset_ms"])), 40)

    def test_nothing_to_compare(self):
        ffmpeg("-i", self.d6, "-t", "1", "-an", "-c:v", "copy", self.tmp / "silent.mp4")
        p = self.lines_of_failure(self.tmp / "silent.mp4")
        self.assertIn("holds no sound", p.stderr)
        ffmpeg("-f", "lavfi", "-i", "testsrc=s=64x64:d=2", "-f", "lavfi", "-i", "sine=d=2", "-shortest", self.tmp / "nobody.mkv")
        lines, p = self.lines(self.tmp / "nobody.mkv")
        self.assertNotIn("offset_ms", lines[-1])
        self.assertFalse(lines[-1]["speaks"])
        self.assertIn("no mouth", p.stderr)

    def lines_of_failure(self, clip):
        p = run("avsync", clip, "-o", self.tmp / "x.jsonl", check=False)
        self.assertEqual(p.returncode, 1)
        self.assertFalse((self.tmp / "x.jsonl").exists())
        return p


def packets(clip):
    """Hashes of the pictures' packets."""
    out = ffprobe(clip, "-select_streams", "v", "-show_packets", "-show_data_hash", "md5")
    return [p["data_hash"] for p in out["packets"]]


if __name__ == "__main__":
    common.main()
