"""The GPU's side of the command, over fake libraries of NVIDIA's names (tests/unit/fakes), and
without any."""
import collections
import json
import os

import lama_networks
import sam_networks
from common import DEPS, FAKES, Case, ffmpeg, main, models, run
from terminal import Terminal

FRAMES = 30
SAMPLE = DEPS / "media/sample.mp4"
SPEC = f"null:320x180@30,frames={FRAMES}"
SEGMENT = ["segment", SPEC, "--device", "cpu", "--mode", "cutout", "-f", "null", "-"]

WITHOUT = dict(os.environ)
WITHOUT.pop("NVTX_INJECTION64_PATH", None)


def with_fakes(**more):
    return {**WITHOUT, "LD_LIBRARY_PATH": FAKES + ":" + WITHOUT["LD_LIBRARY_PATH"], **more}


class Gpu(Case):
    @classmethod
    def setUpClass(cls):
        models("selfie")

    def test_doctor_names_device_and_libraries(self):
        text = run("doctor", env=with_fakes(), check=False).stdout
        self.assertRegex(text, r"GPU +Fake GPU, driver .*CUDA 13.0, 16384 MiB")
        self.assertRegex(text, r"cupti +\S*libcupti\.so\.13")

    def test_a_gpu_that_is_asked_for_and_is_not_there_ends_the_run(self):
        for args in (["--device", "cuda"], ["--decode", "nvdec"]):
            p = run("segment", SAMPLE, "--provider", "null", *args, "-f", "null", "-", env=WITHOUT, check=False)
            self.assertEqual(p.returncode, 1, p.stderr)
            self.assertIn("the CUDA driver (libcuda.so.1) was not found", p.stderr)

    def test_the_report_of_key_r_has_the_sensors(self):
        endless = ("segment", "null:320x180@30,frames=10000000", "--focus", "off", "--mode", "mask", "--device", "cpu", "-f", "null", "-")
        for env, says in ((with_fakes(), r"GPU 0 Fake GPU.*: utilisation \d+ %, memory \d+ MiB, power \d+ W"), (WITHOUT, None)):
            t = Terminal(*endless, env=env, columns=160)
            t.expect(" fps")
            t.type("r")
            t.expect("memory now")
            if says:
                t.expect(says)
            t.type("q")
            t.expect("finishing the file")
            t.wait()
            self.assertEqual("GPU 0" in t.shown, says is not None)

    def test_gpus_are_numbers_that_the_driver_counts(self):
        for args, word in ((["--gpus", "0,1"], "there is no GPU 1: the driver counts 1"),
                           (["--gpus", "0,0"], "GPU 0 is named twice"), (["--gpus", "one"], "takes numbers of GPUs"),
                           (["--gpus", "0", "--gpu-id", "0"], "give one of them")):
            p = run("segment", SAMPLE, "--provider", "null", "--device", "cuda", *args, "-f", "null", "-",
                    env=with_fakes(), check=False)
            self.assertEqual(p.returncode, 2, p.stderr)
            self.assertIn(word, p.stderr)
        p = run("segment", SAMPLE, "--provider", "null", "--gpus", "all", "--device", "cuda", "-f", "null", "-", env=WITHOUT,
                check=False)
        self.assertEqual(p.returncode, 1, p.stderr)
        self.assertIn("the CUDA driver (libcuda.so.1) was not found", p.stderr)

    def test_where_the_model_runs_is_said(self):
        # This build's kernels need a real device, which is opened after the model.
        args = ["segment", SAMPLE, "--device", "cuda", "-f", "null", "-"]
        self.assertIn("the model stays on the CPU, because", run(*args, env=with_fakes(), check=False).stderr)
        p = run(*args, "--provider", "cpu", env=with_fakes(), check=False)
        self.assertNotIn("stays on the CPU", p.stderr)
        p = run(*args, "--provider", "cuda-ort", env=with_fakes(), check=False)
        self.assertEqual(p.returncode, 1, p.stderr)
        self.assertIn("`pip download onnxruntime-gpu` has it", p.stderr)
        self.assertNotIn("CUDA", run("segment", SPEC, "--device", "cpu", "--provider", "cpu", "-f", "null", "-", env=with_fakes()).stderr)

    def test_tune_tries_the_cpu_and_fp16_where_there_is_a_gpu(self):
        out = self.tmp / "tune.json"
        args = ["tune", "--trial-seconds", 0.02, "-q", f"--json={out}", "segment", SAMPLE, "--max-frames", 4, "--mode", "mask", "--workers", 1,
                "--engine-threads", 1, "--batch", 1, "--decoders", 1, "--model", "selfie", "--performance.frame_skip_enabled=no",
                "--provider", "cpu", "-f", "null", "-"]
        self.assertIn("nothing is left to tune", run(*args, env=WITHOUT, check=False).stderr)
        self.assertIn("nothing is left to tune", run(*args, "--device", "cpu", env=with_fakes(), check=False).stderr)
        kernels = "this build has no CUDA kernels" not in run("doctor", env=with_fakes(), check=False).stdout
        p = run(*args, env=with_fakes(XDG_CACHE_HOME=str(self.tmp)), check=kernels)
        if not kernels:
            self.assertIn("nothing is left to tune", p.stderr)
            return
        tried = {(t["key"], t["value"]): t["why"] for t in json.loads(out.read_text())["tried"]}
        self.assertEqual(set(tried), {("gpu.device", "cpu"), ("gpu.precision", "fp16")})
        self.assertIn("precision fp16 needs the model on a GPU", tried["gpu.precision", "fp16"])

    def test_tune_limits_the_memory_of_gpus(self):
        """A trial with two pictures in a batch takes 900 MiB of CUDA's first GPU, which is NVML's second; others take the other one's."""
        args = ["tune", "--trial-seconds", 0.1, "--again", "--only", "model.batch_size=2", "--json", "segment", self.tmp / "small.mp4", "--device",
                "cpu", "--provider", "null", "--provider-option", "sleep_us=3000", "--workers", 1, "--mode", "mask", "-f", "null", "-"]
        ffmpeg("-i", SAMPLE, "-vf", "scale=160:90", "-c:v", "libx264", "-preset", "ultrafast", self.tmp / "small.mp4")
        env = with_fakes(FAKE_NVML_HUNGRY="--model.batch_size=2", FAKE_NVML_OTHERS="yes", FAKE_CUDA_GPUS="1,0", XDG_CACHE_HOME=str(self.tmp))
        r = json.loads(run(*args, "--max-vram", 901, env=env).stdout)
        self.assertEqual([(f["settings"].get("model.batch_size"), f["vram_mib"]) for f in r["finals"]], [(None, 0), ("2", 900)])
        self.assertEqual(r["class"]["max_vram_mib"], 901)
        r = json.loads(run(*args, "--max-vram", 899, env=env).stdout)
        self.assertEqual(([f["settings"] for f in r["finals"]], r["best"]), ([{}], 0))
        self.assertEqual(r["tried"][0]["why"], "exceeds the limits")
        args[args.index("--only") + 1] = "gpu.id=1"  # a trial is judged by its own GPUs, not by the command's
        r = json.loads(run(*args, "--max-vram", 100, env=env).stdout)
        self.assertEqual(([f["settings"] for f in r["finals"]], r["tried"][0]["why"]), ([{}], "exceeds the limits"))
        p = run(*args, "--max-vram", 899, env={**WITHOUT, "XDG_CACHE_HOME": str(self.tmp)}, check=False)
        self.assertEqual(p.returncode, 1, p.stdout)
        self.assertIn("--max-vram: NVML (libnvidia-ml.so.1) does not say", p.stderr)

    def test_networks_of_tasks_with_frames_on_the_host(self):
        # They alone are for the GPU, which this build's kernels take for no real one: then they stay on the CPU, with the same result.
        sam_networks.make(self.tmp, 128)
        fill, clip = lama_networks.make(self.tmp, 64), "null:128x96@30,frames=1"  # one frame: no flow, which would need the GPU
        for args in (["masks", "--model", self.tmp / "sam.onnx", "--point", "40,30"], ["inpaint", "--fill", fill, "--hole", "40,30,20,10"]):
            args += ["-f", "hash" if args[0] == "inpaint" else "json"]
            out = [self.tmp / f"{args[0]}-{n}" for n in ("host", "gpu")]
            run(*args, clip, "-o", out[0], "--device", "cpu")
            said = run(*args, clip, "-o", out[1], "--device", "cuda", env=with_fakes()).stderr
            self.assertIn("the model stays on the CPU, because", said)
            self.assertEqual(out[0].read_text(), out[1].read_text())
            p = run(*args, clip, "-f", "null", "-", "--device", "cuda", "--precision", "fp16", env=with_fakes(), check=False)
            self.assertEqual(p.returncode, 1, p.stderr)
            p = run(*args, clip, "-f", "null", "-", "--device", "cuda", env=WITHOUT, check=False)
            self.assertIn("the CUDA driver (libcuda.so.1) was not found", p.stderr)
        p = run("quality", clip, "-f", "null", "-", "--device", "cuda", env=with_fakes(), check=False)
        self.assertIn("leave --device cuda out", p.stderr)

    def test_device_auto(self):
        args = ["segment", SPEC, "--focus", "off", "--provider", "null", "-f", "null", "-v", "verbose", "-"]
        self.assertIn("--device auto: the CPU, because: there is no NVIDIA GPU", run(*args, env=WITHOUT).stderr)
        said = run(*args, env=with_fakes(), check=False).stderr
        self.assertRegex(said, "--device auto: (the CPU, because: this build has no CUDA kernels|the GPU, because the kernels run on Fake)")
        args[args.index("off")] = "auto"
        said = run(*args, env=with_fakes(), check=False).stderr
        self.assertRegex(said, "--device auto: the CPU, because: (this build has no CUDA kernels|--focus runs on the CPU only)")
        self.assertIn("--sandbox works there", run(*args, "--sandbox", env=WITHOUT, check=False).stderr)
        self.assertNotIn("--device", run(*args, "--device", "cpu", env=with_fakes()).stderr)
        p = run("segment", SAMPLE, "--max-frames", "1", "--fp16", "-f", "null", "-", env=WITHOUT, check=False)
        self.assertEqual(p.returncode, 1, p.stderr)
        self.assertIn("precision fp16 needs the model on a GPU", p.stderr)
        (self.tmp / "file.yaml").write_text("gpu: {precision: fp16}\n")  # which serves machines with a GPU, too
        p = run("segment", SAMPLE, "-c", self.tmp / "file.yaml", "--max-frames", "1", "-f", "null", "-", env=WITHOUT)
        self.assertIn("file.yaml:1) has no effect: the model runs on the CPU", p.stderr)
        p = run("segment", SAMPLE, "--fp16", "--precision", "mixed", "-f", "null", "-", env=WITHOUT, check=False)
        self.assertIn("contradict each other", p.stderr)

    def test_sensors_are_in_all_files(self):
        trace, figures = self.tmp / "t.json", self.tmp / "p.json"
        p = run("profile", "--gpu-interval", "5", "--gpu-activity", "--trace", trace, "--profile-json", figures,
                *SEGMENT, env=with_fakes(FAKE_CUDA_GPUS="1,0"))
        self.assertIn("GPU 1: Fake GPU 0, sampled for", p.stdout)
        self.assertIn("no kernel and no copy ran on a GPU", p.stdout)
        counters = collections.Counter(e["name"] for e in json.loads(trace.read_text())["traceEvents"]
                                       if e["ph"] == "C")
        self.assertGreater(counters["GPU 0 utilisation"], 3)
        gpu = json.loads(figures.read_text())["gpu"]
        self.assertEqual([(d["gpu"], d["name"]) for d in gpu["devices"]], [(0, "Fake GPU 1"), (1, "Fake GPU 0")])
        self.assertEqual(gpu["activity"]["by_time"], [])
        self.assertIsNone(gpu["work"])

    def test_sensors_can_be_left_alone(self):
        figures = self.tmp / "p.json"
        run("profile", "--gpu-interval", "0", "--profile-json", figures, *SEGMENT, env=with_fakes())
        self.assertIsNone(json.loads(figures.read_text())["gpu"])

    def test_ranges_of_every_step_reach_a_tool(self):
        heard = self.tmp / "ranges"
        # No profile is needed: the tool itself is one.
        run(*SEGMENT, "--smooth",
            env=with_fakes(NVTX_INJECTION64_PATH=f"{FAKES}/fake_nvtx.so", FAKE_NVTX_FILE=str(heard)))
        counts = collections.Counter(heard.read_text().split())
        # Reading also finds the end, writing ends with a flush, smoothing is the ordered part of postprocess.
        self.assertEqual(counts, {"decode": FRAMES + 1, "preprocess": FRAMES, "model": FRAMES,
                                  "postprocess": 2 * FRAMES, "composite": FRAMES, "encode": FRAMES + 1})

    def test_a_tool_that_is_none_is_named(self):
        p = run(*SEGMENT, env=with_fakes(NVTX_INJECTION64_PATH=f"{FAKES}/libcuda.so.1"))
        self.assertIn("NVTX_INJECTION64_PATH names", p.stderr)
        self.assertEqual(p.stderr.count("NVTX_INJECTION64_PATH"), 1)

    def test_what_is_asked_for_and_missing_ends_the_run(self):
        for option, part in [("--gpu-activity", "libcuda.so.1"), ("--nvtx", "NVTX_INJECTION64_PATH")]:
            if option == "--gpu-activity" and "none found" not in run("doctor", env=WITHOUT, check=False).stdout:
                continue  # a machine with a driver
            p = run("profile", option, *SEGMENT, env=WITHOUT, check=False)
            self.assertEqual(p.returncode, 1)
            self.assertIn(part, p.stderr)
            self.assertEqual(list(self.tmp.iterdir()), [])


if __name__ == "__main__":
    main()
