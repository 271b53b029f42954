"""tachy avsync: offsets and correlations against NumPy's, known shifts, another's sound, a corrected file, inputs without sound or face."""
import csv
import importlib.util
import json
import os
import subprocess

import cv2
import numpy as np
import onnxruntime
import scipy.fft
import sync_networks

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
        common.models("face", "face-mesh")

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

    def test_chunks_of_sound(self):
        clip, config = self.clip(240, seconds=3), self.tmp / "chunk.yaml"
        want = self.lines(clip)[0]
        for samples in (16000, 2 ** 31 - 1):
            config.write_text(f"audio_chunk_size: {samples}\nface_detection_batch: 4\n")
            self.assertEqual(self.lines(clip, "-c", config)[0], want)

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


def mfcc(x):
    """As python_speech_features computes it by default, of codes of 16 bits at 16 kHz."""
    x = np.append(x[0], x[1:] - 0.97 * x[:-1])
    n = 1 + max(0, int(np.ceil((len(x) - 400) / 160)))
    x = np.append(x, np.zeros(400 + 160 * n))
    power = np.abs(np.fft.rfft(np.stack([x[160 * i:160 * i + 400] for i in range(n)]), 512)) ** 2 / 512
    mel = np.linspace(0, 2595 * np.log10(1 + 8000 / 700), 28)
    edge = np.floor(513 * 700 * (10 ** (mel / 2595) - 1) / 16000).astype(int)
    bank = np.zeros((26, 257))
    for j, (a, b, c) in enumerate(zip(edge, edge[1:], edge[2:], strict=False)):
        bank[j, a:b] = (np.arange(a, b) - a) / (b - a)
        bank[j, b:c] = (c - np.arange(b, c)) / (c - b)
    eps = np.finfo(float).eps
    out = scipy.fft.dct(np.log(np.maximum(power @ bank.T, eps)), type=2, axis=1, norm="ortho")[:, :13]
    out *= 1 + 11 * np.sin(np.pi * np.arange(13) / 22)
    out[:, 0] = np.log(np.maximum(power.sum(1), eps))
    return out


class Networks(common.Case):
    """Two generated networks of SyncNet's signature, beside a loop over ONNX Runtime's own package as syncnet_python's."""

    SIDE, LAGS = 224, 15

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        common.models("face", "face-mesh")

    def setUp(self):
        super().setUp()
        self.card = sync_networks.make(self.tmp, self.SIDE)

    def write(self, name, sound, n=280):
        """A face that moves and flickers."""
        wall, frames = cv2.imread(str(common.DEPS / "media" / "astronaut.png")), []
        for i in range(n):
            x, y = 60 + 30 * np.sin(i / 7), 10 + 10 * np.cos(i / 5)
            f = wall[int(y):int(y) + 320, int(x):int(x) + 320] * (0.75 + 0.25 * np.sin(i / 3) * np.cos(i / 11))
            frames.append(np.uint8(f))
        clip = self.tmp / name
        sound.astype("<i2").tofile(self.tmp / "sound")
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "bgr24", "-s", "320x320", "-r", "25", "-i", "-", "-f", "s16le",
                        "-ar", "16000", "-ac", "1", "-i", str(self.tmp / "sound"), "-c:v", "ffv1", "-pix_fmt", "bgr0", "-c:a", "pcm_s16le", str(clip)],
                       input=b"".join(f.tobytes() for f in frames), check=True)
        return clip, frames

    @staticmethod
    def sound(n=280):
        """Noise as loud as the face is bright."""
        i = np.arange(640 * n) / 640 - 0.5
        return np.random.default_rng(5).normal(size=len(i)) * 800 * np.exp(1.2 * np.sin(i / 3) * np.cos(i / 11))

    def crop(self, frame, points):
        """What run_pipeline.py cuts out: 0.4 of half the box further to each side, twice that down; linear, and the edge goes on."""
        lo, hi = points[:, :2].min(0), points[:, :2].max(0)
        half, middle = (hi - lo).max() / 2, (lo + hi) / 2
        step = 2 * half * 1.4 / self.SIDE
        self.assertLess(step, 1)
        at = [(np.arange(self.SIDE) + 0.5) * step + begin - 0.5 for begin in (middle[1] - half, middle[0] - half * 1.4)]
        for axis, v in enumerate(at):
            v = np.clip(v, 0, frame.shape[axis] - 1)
            i = np.minimum(v.astype(int), frame.shape[axis] - 2)
            share = (v - i).reshape((-1, 1, 1) if axis == 0 else (1, -1, 1))
            frame = np.take(frame, i, axis) * (1 - share) + np.take(frame, i + 1, axis) * share
        return frame

    def distances(self, clip, frames, sound):
        """Row by row, of the sound 15 pictures earlier to that 15 later."""
        run("track", "--max-faces", "4", clip, "--no-smoothing", "-o", self.tmp / "track.jsonl", "-y")
        faces = [json.loads(line)["regions"][0]["points"] for line in (self.tmp / "track.jsonl").read_text().splitlines()]
        crops = np.float32([self.crop(f.astype(float), np.array(p)) for f, p in zip(frames, faces, strict=True)]).transpose(3, 0, 1, 2)
        lips, voice = (onnxruntime.InferenceSession(str(self.tmp / f"sync-{n}.onnx")) for n in ("lips", "sound"))
        cepstra = mfcc(np.trunc(sound)).T
        n = min(len(frames), len(sound) // 640) - 5
        a = [lips.run(None, {"lips": crops[None, :, i:i + 5]})[0][0] for i in range(n)]
        b = [voice.run(None, {"sound": np.float32(cepstra[None, None, :, 4 * i:4 * i + 20])})[0][0] for i in range(n)]
        b = [np.zeros(1024)] * self.LAGS + b + [np.zeros(1024)] * self.LAGS
        return np.array([[np.linalg.norm(a[i] - b[i + k] + 1e-6) for k in range(2 * self.LAGS + 1)] for i in range(n)])

    def lines(self, clip, *args):
        run("avsync", "--sync-network", self.card, clip, "-o", self.tmp / "out.jsonl", "-y", *args)
        return [json.loads(line) for line in (self.tmp / "out.jsonl").read_text().splitlines()]

    def same(self, line, rows):
        mean = rows.mean(0)
        self.assertEqual(line["offset_ms"], 40 * (int(np.argmin(mean)) - self.LAGS))
        self.assertLess(abs(line["distance"] / mean.min() - 1), 1e-3)
        want = np.median(mean) - mean.min()
        self.assertLess(abs(line["confidence"] - want), 1e-3 * want + 5e-4)

    def test_as_python_does(self):
        sound = self.sound()
        for n, late, windows in ((280, 0, (0, 25)), (75, 3200, (0,))):
            heard = np.concatenate([np.zeros(late), sound])[:640 * n]
            clip, frames = self.write("a.mkv", heard, n)
            rows, got = self.distances(clip, frames, heard), self.lines(clip)
            self.assertEqual([x["kind"] for x in got], ["window"] * len(windows) + ["summary"])
            for at, line in zip(windows, got, strict=False):
                self.same(line, rows[at:at + 246])
            self.same(got[-1], rows)
            self.assertEqual(got[-1]["offset_ms"], late / 16)
            self.assertGreater(got[-1]["confidence"], 1)

    def test_other_rates(self):
        """Twice as many frames, each shown for half as long, are the same pictures."""
        clip, _ = self.write("a.mkv", self.sound(75), 75)
        ffmpeg("-i", clip, "-vf", "fps=50", "-c:v", "ffv1", "-c:a", "copy", self.tmp / "fast.mkv")
        a, b = self.lines(clip), self.lines(self.tmp / "fast.mkv")
        self.assertEqual(a[-1]["offset_ms"], b[-1]["offset_ms"])
        self.assertLess(abs(a[-1]["distance"] - b[-1]["distance"]), 0.02 * a[-1]["distance"])
        on_gpu = {**os.environ, "LD_LIBRARY_PATH": f"{common.FAKES}:{os.environ['LD_LIBRARY_PATH']}"}
        said = run("avsync", "--sync-network", self.card, clip, "-o", self.tmp / "gpu.jsonl", "--device", "cuda", env=on_gpu).stderr
        self.assertIn("the model stays on the CPU, because", said)  # for this build's kernels it is no real GPU
        self.assertEqual([json.loads(line) for line in (self.tmp / "gpu.jsonl").read_text().splitlines()], a)
        run("avsync", "--sync-network", self.card, clip, "-o", self.tmp / "out.csv", "--sync-frames", "4")
        rows = list(csv.DictReader((self.tmp / "out.csv").read_text().splitlines()))
        self.assertLessEqual(abs(float(rows[-1]["offset_ms"])), 160)
        self.assertGreater(float(rows[-1]["distance"]), 0)

    def test_the_same_graphs_in_pytorch(self):
        if not importlib.util.find_spec("torch"):
            self.skipTest("PyTorch is not installed")
        for name, far in sync_networks.differences(self.tmp, self.SIDE).items():
            self.assertLess(far, 1e-5, name)

    def test_curate(self):
        """The networks see the frames that curate decodes for all tasks."""
        clip, _ = self.write("a.mkv", self.sound(75), 75)
        want = self.lines(clip)[-1]
        run("curate", clip, "--tasks", "avsync", "--avsync.network", self.card, "-o", f"{self.tmp}/curated/")
        frames = [json.loads(line) for line in (self.tmp / "curated" / "results.jsonl").read_text().splitlines()]
        self.assertAlmostEqual(frames[-1]["avsync"]["values"]["confidence"], want["confidence"], 2)

    def test_refused(self):
        clip, _ = self.write("a.mkv", self.sound(30), 30)
        card = json.loads(self.card.read_text())

        def fails(words, **change):
            self.card.write_text(json.dumps({**card, **change}))
            p = run("avsync", "--sync-network", self.card, clip, "-o", self.tmp / "x.jsonl", "-y", check=False)
            self.assertNotEqual(p.returncode, 0)
            self.assertIn(words, p.stderr)
        fails("networks.sound", networks={"lips": "sync-lips.onnx"})
        fails("nothere.onnx", networks={**card["networks"], "sound": "nothere.onnx"})
        fails("should have 260 numbers", networks={"lips": "sync-lips.onnx", "sound": "sync-lips.onnx"})
        fails("1 x 3 x 5 x N x N", networks={"lips": "sync-sound.onnx", "sound": "sync-sound.onnx"})
        fails("task", task="animate")
        fails("white", white=0)


def packets(clip):
    """Hashes of the pictures' packets."""
    out = ffprobe(clip, "-select_streams", "v", "-show_packets", "-show_data_hash", "md5")
    return [p["data_hash"] for p in out["packets"]]


if __name__ == "__main__":
    common.main("Networks.test_curate")
