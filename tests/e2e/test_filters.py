"""-vf, --vf-in, -af, -c:a and -b:v: what FFmpeg makes of the same graph and options is what the output has to be."""
import re
import subprocess

from common import ROOT, Case, ffmpeg, ffprobe, main, run

SAMPLE = ROOT / ".deps" / "media" / "sample.mp4"


def frames(path, *args):
    """Hashes of the pictures, with their times."""
    out = subprocess.run(["ffmpeg", "-v", "error", "-i", str(path), "-an", *args, "-f", "framemd5", "-"], check=True,
                         capture_output=True, text=True).stdout
    return [line for line in out.splitlines() if not line.startswith("#")]


class Filters(Case):
    def setUp(self):
        super().setUp()
        self.clip = self.tmp / "in.mkv"
        ffmpeg("-i", SAMPLE, "-t", 0.5, "-vf", "scale=160:-2", "-c:v", "ffv1", "-c:a", "aac", self.clip)

    def segment(self, name, *args, provider="null", **kw):
        """Masks without a network, unless a test is about what the network sees."""
        return run("segment", self.clip, "-o", self.tmp / name, "--provider", provider, *args, **kw)

    def refused(self, *args, name="x.mkv", status=2):
        p = self.segment(name, *args, check=False)
        self.assertEqual((p.returncode, len(p.stderr.splitlines())), (status, 1), p.stderr)
        self.assertFalse((self.tmp / name).exists())
        return p.stderr

    def test_pictures_after_compositing(self):
        self.segment("plain.mkv", "-c:v", "ffv1")
        for graph in ("hflip", "scale=80:44:flags=neighbor,fps=10", "tile=2x2", "crop=iw/2:ih,setpts=2*PTS"):
            self.segment("out.mkv", "-y", "-c:v", "ffv1", "-vf", graph)
            strip = [re.sub(r"^.*?, +", "", f) for f in frames(self.tmp / "out.mkv")]
            want = [re.sub(r"^.*?, +", "", f) for f in frames(self.tmp / "plain.mkv", "-vf", graph)]
            self.assertEqual([f.split(",")[-1] for f in strip], [f.split(",")[-1] for f in want], graph)
            self.assertGreater(len(want), 1)
        self.segment("half.mp4", "-vf", "scale=80:-2,fps=10")
        video = ffprobe(self.tmp / "half.mp4")["streams"][0]
        self.assertEqual((video["width"], video["nb_frames"], video["avg_frame_rate"]), (80, "5", "10/1"))

    def test_pictures_before_the_model(self):
        ffmpeg("-i", self.clip, "-vf", "hflip,fps=10", "-c:v", "ffv1", "-an", self.tmp / "flipped.mkv")
        run("segment", self.tmp / "flipped.mkv", "-o", self.tmp / "want.mkv", "--mode", "mask", "-c:v", "ffv1",
            "--provider", "cpu")
        self.segment("out.mkv", "--mode", "mask", "-c:v", "ffv1", "--vf-in", "hflip,fps=10", provider="cpu")
        self.assertEqual([f.split(",")[-1] for f in frames(self.tmp / "out.mkv")],
                         [f.split(",")[-1] for f in frames(self.tmp / "want.mkv")])
        p = self.segment("few.mkv", "--vf-in", "fps=10", "--max-frames", 2, "-c:v", "ffv1")
        self.assertEqual(len(frames(self.tmp / "few.mkv")), 2, p.stderr)

    def test_interlaced_pictures(self):
        """What the warning recommends gives the pictures that FFmpeg makes."""
        ffmpeg("-f", "lavfi", "-i", "testsrc2=s=160x96:r=50:d=0.4", "-vf", "tinterlace=interleave_top,setfield=tff", "-c:v", "libx264",
               "-flags", "+ilme+ildct", self.tmp / "combs.mkv")
        ffmpeg("-i", self.tmp / "combs.mkv", "-vf", "yadif", "-c:v", "ffv1", self.tmp / "whole.mkv")
        made, said = {}, {}
        for name, args in (("combs", ()), ("yadif", ("--vf-in", "yadif")), ("whole", ())):
            self.clip = self.tmp / ("whole.mkv" if name == "whole" else "combs.mkv")
            said[name] = self.segment(f"{name}-out.mkv", "--mode", "side-by-side", "-c:v", "ffv1", *args).stderr
            made[name] = frames(self.tmp / f"{name}-out.mkv")
        self.assertIn("--vf-in yadif", said["combs"])
        self.assertNotIn("interlaced", said["yadif"] + said["whole"])
        self.assertEqual(made["yadif"], made["whole"])
        self.assertNotEqual(made["combs"], made["whole"])

    def test_sound(self):
        def codec(name):
            return next(s for s in ffprobe(self.tmp / name)["streams"] if s["codec_type"] == "audio")["codec_name"]

        self.segment("kept.mkv", "-c:a", "copy")
        self.segment("flac.mkv", "-c:a", "flac")
        self.segment("silent.mkv", "-af", "volume=0", "-c:a", "pcm_s16le")
        self.assertEqual([codec(n) for n in ("kept.mkv", "flac.mkv", "silent.mkv")], ["aac", "flac", "pcm_s16le"])
        said = subprocess.run(["ffmpeg", "-i", str(self.tmp / "silent.mkv"), "-af", "volumedetect", "-f", "null", "-"],
                              capture_output=True, text=True).stderr
        self.assertIn("max_volume: -91.0 dB", said)
        self.assertIn("did you mean flac?", self.refused("-c:a", "flaac"))
        self.assertIn("mp4 does not hold vorbis", self.refused("-c:a", "libvorbis", name="x.mp4", status=1))
        self.assertIn("-af volum=0: FFmpeg cannot make these filters", self.refused("-af", "volum=0"))

    def test_bits(self):
        self.segment("rate.mp4", "-b:v", "200k", "-c:v", "libx264")
        text = subprocess.run(["strings", self.tmp / "rate.mp4"], capture_output=True, text=True).stdout
        self.assertIn("rc=abr", text)
        self.assertIn("bitrate=200", text)
        self.assertIn("-b:v and -crf contradict", self.refused("-b:v", "1M", "-crf", 20))
        for bad in ("fast", "0", "-5", "2X", "12"):
            self.assertIn(f"-b:v {bad}: must be bits per second", self.refused(f"-b:v={bad}"))

    def test_what_does_not_go_together(self):
        self.assertIn("-vf hflp: FFmpeg cannot make these filters", self.refused("-vf", "hflp"))
        self.assertIn("--vf-in scale=a: FFmpeg cannot", self.refused("--vf-in", "scale=a", status=1))
        self.assertIn("-vf: filters keep no state", self.refused("-vf", "hflip", "--resume"))
        self.assertIn("-vf: this output holds no pictures", self.refused("-vf", "hflip", "--mode", "json", name="x.jsonl"))


if __name__ == "__main__":
    main()
