"""Mode live, --frame-skip, -re, and that state starts anew where a stream does not go on."""
import json
import signal
import subprocess
import threading
import time
import unittest

from common import Case, ROOT, SANITIZER, TACHY, ffmpeg, ffprobe, main, models, run

PORTRAIT = ROOT / ".deps" / "media" / "astronaut.png"
RUN = ["segment", "--focus", "off", "--mode", "mask"]


def hashes(*args):
    """One hash a frame, in order."""
    out = run(*RUN, *args, "-f", "framemd5", "-").stdout
    return [line.split(",")[-1].strip() for line in out.splitlines() if line and line[0] != "#"]


class Live(Case):
    @classmethod
    def setUpClass(cls):
        models("selfie")

    def clip(self, name, *args, frames=12, vf="", size="320:320"):
        """The portrait, shaking and noisy, so that each mask differs and smoothing has an effect."""
        path = self.tmp / name
        ffmpeg("-loop", 1, "-framerate", 25, "-i", PORTRAIT, "-frames:v", frames, "-vf",
               f"scale=360:360,{vf or 'crop=320:320:20+20*sin(n):20+20*cos(n),noise=alls=20:allf=t'},"
               f"scale={size},format=yuv420p", *args, path)
        return path

    def summary(self, *args, **kw):
        where = self.tmp / "summary.json"
        p = run(*RUN, *args, "-f", "null", f"--json={where}", "-y", **kw)
        return json.loads(where.read_text()), p.stdout + p.stderr

    def steps(self, s):
        return {step["name"]: step["calls"] for step in s["steps"]}

    def counted(self, s):
        self.assertEqual(s["decoded"], s["frames"] + s["shed_frames"])
        self.assertEqual(s["shed_frames"], sum(n for stage in s["shed"].values() for n in stage.values()))

    def test_target_fps(self):
        """Of a paced source so many frames a second are worked on, however long the run takes."""
        s, _ = self.summary("--live", "--performance.target_fps=25", "--provider", "null", "null:64x64@100,frames=150")
        self.counted(s)
        self.assertLessEqual(s["frames"], 25 * s["seconds"] + 3)
        self.assertGreater(s["shed"]["infer"]["target-fps"], 0)

    # ---- State ----

    def smoothed(self, path, *args):
        return hashes(path, "--smooth", "--feather", "1", *args)

    def test_joined_recordings_start_anew(self):
        a = self.clip("a.ts", "-c:v", "mpeg2video", "-q:v", 2)
        b = self.clip("b.ts", "-c:v", "mpeg2video", "-q:v", 2, "-output_ts_offset", 100, frames=15)
        joined = self.tmp / "joined.ts"
        joined.write_bytes(a.read_bytes() + b.read_bytes())
        whole, alone = self.smoothed(joined), self.smoothed(b)
        self.assertEqual(len(whole), 12 + len(alone))
        self.assertEqual(whole[12:], alone)
        self.assertNotEqual(alone[1:], hashes(b, "--feather", "1")[1:])  # smoothing does something

    def test_both_eyes_start_anew(self):
        sbs = "split[l][r];[l]crop=320:320:20+20*sin(n):20[x];[r]crop=320:320:20:20+20*cos(n)[y];[x][y]hstack,noise=alls=20:allf=t"
        a = self.clip("a_sbs.ts", "-c:v", "mpeg2video", "-q:v", 2, vf=sbs, size="640:320")
        b = self.clip("b_sbs.ts", "-c:v", "mpeg2video", "-q:v", 2, "-output_ts_offset", 100, vf=sbs, size="640:320")
        joined = self.tmp / "joined_sbs.ts"
        joined.write_bytes(a.read_bytes() + b.read_bytes())
        whole = self.smoothed(joined, "--stereo", "sbs")
        self.assertEqual(whole[12:], self.smoothed(b, "--stereo", "sbs"))

    def test_damage_starts_anew(self):
        path = self.clip("a.avi", "-c:v", "mjpeg", "-q:v", 3, frames=20)
        data = bytearray(path.read_bytes())
        first = data.index(b"movi")
        at = [i for i in range(first, len(data) - 4) if data[i:i + 4] == b"00dc"][9]  # frame 9
        size = int.from_bytes(data[at + 4:at + 8], "little")
        data[at + 8:at + 8 + size] = bytes(size)
        bad = self.tmp / "bad.avi"
        bad.write_bytes(data)
        s, _ = self.summary(bad)
        self.assertGreaterEqual(s["damaged"], 1)
        after = self.smoothed(path, "-ss", "0.4")  # frame 10
        self.assertEqual(len(after), 10)
        self.assertEqual(self.smoothed(bad)[-10:], after)
        self.assertNotEqual(self.smoothed(path)[-10:], after)

    def test_another_size_starts_anew(self):
        a = self.clip("a.h264", "-c:v", "libx264", "-qp", 10)
        mirrored = self.clip("mirrored.h264", "-c:v", "libx264", "-qp", 10, vf="hflip,crop=320:320")
        b = self.clip("b.h264", "-c:v", "libx264", "-qp", 10, size="240:240")
        joined, got = self.tmp / "joined.h264", []
        for first in (a, mirrored):
            joined.write_bytes(first.read_bytes() + b.read_bytes())
            got.append(self.smoothed(joined))
        self.assertEqual(got[0][:12], self.smoothed(a))
        self.assertNotEqual(got[0][11], got[1][11])
        self.assertEqual(got[0][12:], got[1][12:])

    def test_seeking_starts_anew(self):
        path = self.clip("a.avi", "-c:v", "mjpeg", "-q:v", 3, frames=20)
        cut = self.tmp / "cut.avi"
        ffmpeg("-ss", "0.4", "-i", path, "-c", "copy", cut)
        self.assertEqual(self.smoothed(path, "-ss", "0.4"), self.smoothed(cut))

    # ---- frame_skip ----

    def still(self, name, *args, **kw):
        """Three scenes that stand still, 10 frames each."""
        return self.clip(name, "-c:v", "ffv1", *args, frames=30, vf="crop=320:320:20*floor(n/10):0", **kw)

    def test_still_scenes_are_inferred_once(self):
        path = self.still("still.mkv")
        plain = hashes(path)
        for workers in (1, 3):
            self.assertEqual(hashes(path, "--frame-skip", "--workers", workers), plain)
        s, _ = self.summary(path, "--frame-skip")
        self.assertEqual(self.steps(s)["model"], 3)
        self.assertEqual(s["reused"], {"similar": 27, "alternate": 0})
        self.assertEqual(s["run_mode"], "all")
        self.counted(s)
        s, _ = self.summary(path)
        self.assertEqual(self.steps(s)["model"], 30)

    def test_modes_with_state_of_their_own(self):
        path = self.still("still.mkv")
        for args in (["--smooth"], ["--refine"], ["--refine", "--smooth", "--mode", "cutout"], ["--mode", "json"]):
            if "json" in args:
                get = lambda *a: run("segment", path, *a, "-f", "json", "-o", "-").stdout
            else:
                get = lambda *a: hashes(path, *a)
            self.assertEqual(get(*args, "--frame-skip=0"), get(*args), args)

    def test_each_eye_for_itself(self):
        path = self.clip("eyes_sbs.mkv", "-c:v", "ffv1", size="640:320",
                         vf="split[l][r];[l]crop=320:320:0:0[x];[r]crop=320:320:20+20*sin(n):20[y];[x][y]hstack")
        plain = hashes(path, "--stereo", "sbs")
        self.assertEqual(hashes(path, "--stereo", "sbs", "--frame-skip=0.001"), plain)
        s, _ = self.summary(path, "--stereo", "sbs", "--frame-skip=0.001")
        self.assertEqual(self.steps(s)["model"], 1 + 12)  # the left one once

    def test_regions_are_taken_over(self):
        models("face", "face-mesh")
        path = self.still("still.mkv")
        eyes = self.clip("still_sbs.mkv", "-c:v", "ffv1", frames=30, size="640:320",
                         vf="crop=320:320:20*floor(n/10):0,split[l][r];[l][r]hstack")
        for task, clip, *args in (("detect", path), ("track", path, "--no-smoothing"), ("detect", eyes, "--stereo", "sbs")):
            out, where = self.tmp / "out.jsonl", self.tmp / "summary.json"
            found = {}
            for skip in ("--frame-skip=0", "--frame-skip"):
                run(task, clip, *args, skip, "-o", out, "-y", "--workers", 3, f"--json={where}")
                found[skip] = [json.loads(line)["regions"] for line in out.read_text().splitlines()]
            s, nb = json.loads(where.read_text()), 2 if args and "sbs" in args else 1
            self.assertEqual(s["reused"], {"similar": 27 * nb, "alternate": 0})
            self.assertEqual([len(r) for r in found["--frame-skip"]], [nb] * 30, task)
            for first in (0, 10, 20):  # a scene's frames have what was found in its first one
                self.assertEqual(found["--frame-skip"][first:first + 10], [found["--frame-skip"][first]] * 10)
            if task == "detect":
                self.assertEqual(found["--frame-skip"], found["--frame-skip=0"])

    def test_keys_of_files(self):
        path = self.still("still.mkv")
        config = self.tmp / "c.yaml"
        config.write_text("performance: {frame_skip_enabled: yes, frame_skip_distance: 1, max_latency_ms: 60}\n")
        s, text = self.summary(path, "-c", config)
        self.assertEqual(self.steps(s)["model"], 1)
        self.assertEqual(text.count("effect"), 1)
        self.assertIn("max_latency_ms has no effect without --live", text)
        s, _ = self.summary(path, "-c", config, "--performance.frame_skip_enabled=no")
        self.assertEqual(self.steps(s)["model"], 30)
        for alone in ("frame_skip_distance: 1", "frame_skip_threshold: 0"):  # not "on"
            config.write_text(f"performance: {{{alone}}}\n")
            s, _ = self.summary(path, "-c", config)
            self.assertEqual(self.steps(s)["model"], 30)
        moving = self.clip("moving.mkv", "-c:v", "ffv1")
        for similarity, distance in ((0.92, 0.02), (1, 0), (0, 0.25)):  # frame_skip_threshold is a similarity
            config.write_text(f"performance: {{frame_skip_enabled: yes, frame_skip_threshold: {similarity}}}\n")
            s, _ = self.summary(moving, "-c", config)
            d, _ = self.summary(moving, f"--frame-skip={distance}")
            self.assertEqual(self.steps(s)["model"], self.steps(d)["model"], similarity)

    # ---- Live ----

    def test_counts(self):
        for rate, extra in ((60, []), (60, ["--max-latency", 60]), (1000, ["--max-latency", 30]),
                            (500, ["--max-latency", 60, "--no-adapt"]), (300, ["--max-latency", 1]), (2000, [])):
            n = max(60, rate // 3)
            s, text = self.summary("--live", *extra, f"null:640x360@{rate},frames={n}")
            self.assertEqual(s["run_mode"], "live")
            self.assertEqual(s["decoded"], n)
            self.counted(s)
            if "--no-adapt" in extra:
                self.assertEqual(s["steps_down"], [])

    def test_stops_without_what_waits(self):
        """Frames that nobody has begun when a run is stopped are not waited for, whose network takes its time."""
        p = subprocess.Popen([TACHY, "segment", "--focus", "off", "--mode", "json", "--provider", "null", "--provider-option", "sleep_ns=800",
                              "--workers", "1", "null:64x64@30,frames=400", "-q", "-o", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        p.stdout.readline()
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=240)
        self.assertEqual(p.returncode, 130, err)
        self.assertLess(len(out.splitlines()), 50)

    def test_cameras_share_batches(self):
        """A batch is full when it has a picture of each live input that is still there, so none waits the whole minute; each
        output has the pictures that it would have alone."""
        models("face")
        for name, frames in (("a", 20), ("b", 12), ("dead", 12)):
            self.clip(f"{name}.avi", "-c:v", "mjpeg", "-q:v", 3, frames=frames)
        (self.tmp / "dead.avi").write_bytes((self.tmp / "dead.avi").read_bytes()[:200])
        inputs = [self.tmp / f"{name}.avi" for name in ("dead", "a", "b")]
        for task, kind, *args in (("segment", "framemd5", "--mode", "mask", "-f", "framemd5"), ("detect", "jsonl", "-f", "json")):
            where, lines = self.tmp / "summary.json", {}
            run(task, *args, *inputs[1:], "-o", f"{self.tmp}/alone/")
            p = run(task, *args, "--live", "-re", "--parallel", 3, "--batch", 4, "--batching.dynamic.timeout_ms=60000", *inputs,
                    "-o", f"{self.tmp}/together/", f"--json={where}", "-y", check=False)
            self.assertIn("the other inputs go on", p.stderr)
            for folder in ("alone", "together"):
                files = {path.name: path for path in (self.tmp / folder).glob(f"*.{kind}")}
                self.assertEqual(len(files), 2, files)
                lines[folder] = {name: {self.picture(line) for line in path.read_text().splitlines() if line[0] != "#"}
                                 for name, path in files.items()}
            for name, shown in lines["together"].items():
                self.assertLessEqual(shown, lines["alone"][name])
                self.assertTrue(shown)
            sums = [json.loads(line) for line in where.read_text().splitlines()]
            seen = sum(step["calls"] for s in sums for step in s["steps"] if step["name"] == "model")
            self.assertEqual(max(s["batches"]["pictures"] for s in sums), seen)
            for s in sums:
                self.counted(s)

    def picture(self, line):
        """What a line says of a frame, by its time: numbers count what was written."""
        if line[0] != "{":
            return tuple(part.strip() for part in line.split(","))[2:]
        return json.dumps({k: v for k, v in json.loads(line).items() if k != "frame"})

    @unittest.skipIf(SANITIZER, "figures of time mean nothing")
    def test_a_file_in_a_loop(self):
        """Each pass has the masks of the first, smoothing included, and times go on."""
        clip = self.clip("clip.mkv", "-c:v", "ffv1")
        once = hashes(clip)
        self.assertEqual(hashes(clip, "--loop", "--max-frames", 30), (3 * once)[:30])
        self.assertEqual(hashes(clip, "--loop", "-ss", "0.2", "--max-frames", 10)[7:], hashes(clip, "-ss", "0.2")[:3])
        sound, out = self.tmp / "sound.mkv", self.tmp / "out.mkv"
        ffmpeg("-i", clip, "-f", "lavfi", "-i", "sine", "-t", 0.48, "-c:v", "copy", "-c:a", "pcm_s16le", sound)
        run(*RUN, sound, "--loop", "--max-frames", 30, "-o", out, "-c:v", "ffv1")
        info = ffprobe(out, "-show_packets")
        times = sorted(float(p["pts_time"]) for p in info["packets"] if p["codec_type"] == "video")
        self.assertEqual(len(times), 30)
        for a, b in zip(times, times[1:]):
            self.assertAlmostEqual(b - a, 0.04, delta=0.0011)
        last = max(float(p["pts_time"]) for p in info["packets"] if p["codec_type"] == "audio")
        self.assertLess(last, 0.5)
        p = run(*RUN, "-i", "-", "--loop", "-f", "null", check=False, input="")
        self.assertIn("standard input and pipes end once", p.stderr)
        self.assertNotEqual(p.returncode, 0)

    def test_the_source_has_its_own_clock(self):
        start = time.monotonic()
        s, _ = self.summary("--live", "null:64x64@50,frames=100")
        self.assertGreater(s["seconds"], 1.95)
        self.assertLess(s["seconds"], 6)
        path = self.clip("a.avi", "-c:v", "mjpeg", frames=50)
        s, text = self.summary("-re", path)  # also where every frame is worked on
        self.assertGreater(s["seconds"], 1.9)
        self.assertEqual((s["frames"], s["run_mode"]), (50, "all"))
        s, text = self.summary("--live", path)
        self.assertIn("add -re", text)
        self.assertLess(time.monotonic() - start, 60)

    @unittest.skipIf(SANITIZER, "figures of time mean nothing")
    def test_the_deadline_holds(self):
        # 1 ms is too short for the model, so nothing much comes out; what does is in time.
        s, _ = self.summary("--live", "--max-latency", 1, "null:640x360@100,frames=200")
        self.assertGreater(s["shed_frames"], 150)
        self.assertLessEqual(s["late"], s["frames"])
        self.counted(s)

    def test_regions_under_load(self):
        models("face", "face-mesh")
        for task in ("detect", "track"):  # more than any machine does: results are taken over, not only shed
            where = self.tmp / "s.json"
            p = run(task, "--live", "--max-latency", 30, "null:1280x720@20000,frames=25000,pattern=noise",
                    "-f", "null", "-", f"--json={where}", "-y")
            s = json.loads(where.read_text())
            self.counted(s)
            self.assertIn("similar", [x["name"] for x in s["steps_down"]], p.stderr)
            self.assertGreater(s["reused"]["similar"], 0)

    def test_a_file_of_a_live_run_plays(self):
        out = self.tmp / "out.mkv"
        where = self.tmp / "s.json"
        run("segment", "--live", "--max-latency", 100, "null:320x240@200,frames=200", "-c:v", "ffv1", "-o", out, f"--json={where}")
        s = json.loads(where.read_text())
        self.assertEqual(len(hashes_of(out)), s["frames"])
        self.counted(s)

    def stepping(self, *args, until):
        """Runs live until each of these words was logged, in order, then interrupts the run; returns the summary."""
        where = self.tmp / "summary.json"
        p = subprocess.Popen([TACHY, *RUN, *map(str, args), "-f", "null", "-", f"--json={where}", "-y"], text=True,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        late = threading.Timer(240, p.kill)
        late.start()
        waiting, text = list(until), []
        for line in p.stderr:
            text.append(line)
            if waiting and waiting[0] in line:
                waiting.pop(0)
                if not waiting:
                    p.send_signal(signal.SIGINT)
        p.wait()
        p.stderr.close()
        late.cancel()
        self.assertEqual(waiting, [], "".join(text))
        return json.loads(where.read_text())

    @unittest.skipIf(SANITIZER, "figures of time mean nothing")
    def test_a_smaller_input_holds_the_deadline(self):
        """A frame takes 126 ms of 100 at full size, 71 ms at the smaller one. A bar in each eye moves on, so that none
        takes over another's result, even if those between them were shed. After 30 s frames are 500 ms apart, so that a
        busy machine has time for them, too."""
        models("selfie-landscape")
        path = self.tmp / "bar.mkv"
        ffmpeg("-f", "lavfi", "-i", "color=black:s=64x36:r=10",
               "-vf", "geq=lum='16+219*eq(mod(trunc(X/4),8),mod(N,8))':cb=128:cr=128,setpts='N+4*max(N-300,0)'",
               "-fps_mode", "passthrough", "-frames:v", 600, "-c:v", "mjpeg", path)
        args = ("--live", "--max-latency", "300", "--workers", "1", "--provider", "null", "--provider-option", "sleep_ns=320",
                "--smooth", "--stereo", "sbs", "-v", "verbose")
        s = self.stepping(*args, "-re", path, until=(
            "selfie-landscape 256x144 is held ready beside selfie 256x256", "the model sees a smaller picture",
            "the model sees the whole size again"))  # after 3 s without a miss
        self.counted(s)
        step = {x["name"]: x for x in s["steps_down"]}["small-input"]
        self.assertGreaterEqual(step["times"], 1)
        self.assertGreater(step["seconds"], 1.5)
        # The other way round there is nothing to step down to.
        _, text = self.summary(*args, "--model", "selfie-landscape", "null:64x64@100,frames=5")
        self.assertNotIn("held ready", text)

    def test_says_it_in_words(self):
        p = run(*RUN, "--live", "--max-latency", 500, "null:320x240@500,frames=100", "-f", "null")
        text = p.stdout + p.stderr
        self.assertRegex(text, r"Mode: live, at most 500 ms; latency p50 [\d.]+, p95 [\d.]+, p99 ")
        self.assertIn("\nShed: ", text)
        p = run(*RUN, "null:320x240@500,frames=100", "-f", "null")
        self.assertNotIn("Shed", p.stdout + p.stderr)

    def test_settings_show_in_the_report(self):
        config = self.tmp / "c.yaml"
        config.write_text("performance: {live: yes, max_latency_ms: 15, target_fps: 65, frame_skip_enabled: yes, frame_skip_threshold: 0.92,\n"
                          "              use_async_capture: yes, use_async_output: yes, clear_cache_interval: 10, prefetch_frames: 7}\n")
        s, text = self.summary("-c", config, self.still("still.mkv"), "-re", "-v", "verbose")
        self.assertEqual((s["run_mode"], s["max_latency_ms"], s["target_fps"], s["frame_skip_distance"]), ("live", 15, 65, 0.02))
        self.assertEqual(s["memory_returned"]["times"], s["frames"] // 10)
        self.assertEqual(s["prefetch_frames"], 7)
        self.counted(s)
        for words in ("use_async_capture", "use_async_output"):
            self.assertIn(words, text)
        p = run(*RUN, "-c", config, "null:320x240@500,frames=100", "-f", "null")
        self.assertIn("Mode: live, at most 15 ms, at most 65 frames/s; latency p50", p.stdout + p.stderr)
        self.assertIn("count as similar up to a distance of 0.02", p.stdout + p.stderr)
        self.assertIn("Read ahead: at most 7 frames", p.stdout + p.stderr)

    def test_says_what_has_no_effect(self):
        _, text = self.summary("--max-latency", 60, "null:64x64,frames=3")
        self.assertIn("--max-latency has no effect without --live", text)


def hashes_of(path):
    import subprocess
    out = subprocess.run(["ffmpeg", "-v", "error", "-i", str(path), "-f", "framemd5", "-fps_mode", "passthrough", "-"], check=True,
                         capture_output=True, text=True).stdout
    return [line for line in out.splitlines() if line and line[0] != "#"]


main()
