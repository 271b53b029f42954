"""--save-stage and tachy replay: the saved arrays against ffmpeg and ONNX Runtime's Python package
(read with numpy), and replays of right, changed and damaged folders."""
import json
import math
import shutil
import subprocess
import unittest

import numpy as np

import common
from common import DEPS, run

SAMPLE = DEPS / "media" / "sample.mp4"
MODEL = DEPS / "models" / "selfie.onnx"


def save(folder, n, *args, source=SAMPLE):
    run("segment", "--save-stage", folder, n, "-f", "null", *args, source, "-")
    return json.loads((folder / "index.json").read_text())


class Replay(common.Case):
    @classmethod
    def setUpClass(cls):
        common.models("selfie")

    def replay(self, *args, check=True):
        p = run("replay", self.tmp / "s", "--json", "--loop", 10, *args, check=check)
        return json.loads(p.stdout) if p.stdout else p

    def failed(self, folder, *args):
        p = run("replay", folder, "--loop", 2, *args, check=False)
        self.assertEqual(p.returncode, 1, p.stdout + p.stderr)
        self.assertEqual(len(p.stderr.strip().splitlines()), 1, p.stderr)
        return p.stderr

    def test_arrays_are_what_others_compute(self):
        import onnxruntime as ort
        index = save(self.tmp / "s", 5, "--mode", "mask")
        self.assertEqual([(i["frame"], i["eye"]) for i in index["items"]], [(k, 0) for k in range(5)])
        raw = subprocess.run(["ffmpeg", "-v", "error", "-i", str(SAMPLE), "-frames:v", "5", "-f", "rawvideo",
                              "-pix_fmt", "yuv420p", "-"], check=True, capture_output=True).stdout
        w, h = index["input"]["width"], index["input"]["height"]
        frames = np.frombuffer(raw, np.uint8).reshape(5, -1)
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        model = ort.InferenceSession(str(MODEL), options, providers=["CPUExecutionProvider"])
        for item, frame in zip(index["items"], frames):
            planes = [np.load(self.tmp / "s" / name) for name in item["planes"]]
            self.assertEqual([p.shape for p in planes], [(h, w), (h // 2, w // 2), (h // 2, w // 2)])
            self.assertTrue(np.array_equal(np.concatenate([p.ravel() for p in planes]), frame))
            tensor = np.load(self.tmp / "s" / item["inputs"][0])
            self.assertEqual(tensor.dtype, np.float32)
            outputs = model.run(None, {model.get_inputs()[0].name: tensor})
            for name, ours in zip(item["outputs"], outputs):
                saved = np.load(self.tmp / "s" / name)
                self.assertEqual(saved.shape, ours.shape)
                # Sums in other orders than ONNX Runtime's, in front of a sigmoid.
                self.assertLess(np.abs(saved - ours).max(), 5e-4)
            mask = np.load(self.tmp / "s" / item["mask"][0])
            self.assertEqual(mask.dtype, np.uint8)
            # The card: the output is the probability of a person; 8 bits of it are the mask.
            self.assertLessEqual(np.abs(mask - np.load(self.tmp / "s" / item["outputs"][0]).reshape(mask.shape) * 255)
                                 .max(), 1.01)

    def test_every_stage_is_the_same_again(self):
        save(self.tmp / "s", 4, "--mode", "mask", "--refine", "--smooth")
        for stage in ("preprocess", "engine", "postprocess"):
            r = self.replay("--stage", stage, "--golden")
            self.assertEqual((r["stage"], r["items"], r["runs"]), (stage, 4, 10))
            self.assertTrue(r["golden"]["same"])
            self.assertEqual(r["golden"]["identical"], 4)
            self.assertGreater(r["median_ms"], 0)
            self.assertLessEqual(r["median_ms"], r["p99_ms"])
            self.assertLessEqual(r["p99_ms"], r["max_ms"])
        self.assertIsNone(self.replay("--stage", "engine")["golden"])

    def test_stereo_and_ten_bits(self):
        for fmt in ("yuv420p10le", "nv12", "p010le", "bgra"):
            folder = self.tmp / fmt
            index = save(folder, 2, "--mode", "mask", "--stereo", "sbs",
                         source=f"null:322x180,frames=5,format={fmt},pattern=noise")
            self.assertEqual([(i["frame"], i["eye"]) for i in index["items"]], [(0, 0), (0, 1), (1, 0), (1, 1)])
            first = np.load(folder / index["items"][0]["planes"][0])
            self.assertEqual(first.dtype, np.uint16 if "10" in fmt else np.uint8)
            self.assertEqual(first.shape, (180, 322, 4) if fmt == "bgra" else (180, 322))
            for stage in ("preprocess", "postprocess"):
                p = run("replay", folder, "--stage", stage, "--golden", "--loop", 5)
                self.assertIn("all 4 results have the same bits", p.stdout)

    def test_a_difference_is_found_and_measured(self):
        index = save(self.tmp / "s", 3, "--mode", "mask")
        path = self.tmp / "s" / index["items"][1]["outputs"][0]
        saved = np.load(path)
        changed = saved.copy()
        changed.flat[::7] += np.float32(0.01)
        changed.flat[5] += np.float32(0.25)
        np.save(path, changed)
        p = run("replay", self.tmp / "s", "--golden", "--loop", 2, "--json", check=False)
        self.assertEqual(p.returncode, 1)
        g = json.loads(p.stdout)["golden"]
        diff = changed.astype(np.float64) - saved
        psnr = 10 * math.log10((changed.astype(np.float64).max() - changed.min()) ** 2 / (diff ** 2).mean())
        self.assertEqual((g["same"], g["identical"], g["differ"], g["worst_frame"]), (False, 2, 1, 1))
        self.assertAlmostEqual(g["max_difference"], np.abs(diff).max(), places=5)
        self.assertAlmostEqual(g["min_psnr_db"], psnr, places=2)
        self.assertTrue(self.replay("--golden", "--tolerance", 0.3)["golden"]["same"])
        self.assertTrue(self.replay("--golden", "--min-psnr", psnr - 1)["golden"]["same"])
        p = run("replay", self.tmp / "s", "--golden", "--loop", 2, "--tolerance", 0.2, "--min-psnr", psnr + 1,
                check=False)
        self.assertEqual(p.returncode, 1)
        self.assertIn("frame 1, eye 0", p.stdout)
        changed.flat[3] = np.nan
        np.save(path, changed)
        p = run("replay", self.tmp / "s", "--golden", "--loop", 2, "--tolerance", 1e9, check=False)
        self.assertEqual(p.returncode, 1)
        # Without --golden nothing is compared.
        self.assertIsNone(self.replay()["golden"])

    def test_another_engine_on_the_same_input(self):
        save(self.tmp / "s", 2, "--mode", "mask")
        r = self.replay("--golden", "--engine-threads", 2, "--tolerance", 1e-4)
        self.assertTrue(r["golden"]["same"])
        self.assertNotEqual(r["saved"], r["now"])
        p = run("replay", self.tmp / "s", "--golden", "--provider", "null", "--loop", 2, check=False)
        self.assertEqual(p.returncode, 1, p.stdout + p.stderr)  # it writes zeros
        self.assertIn("differs", p.stdout)

    def test_saving_changes_nothing(self):
        one = run("segment", "--mode", "mask", "-f", "framemd5", SAMPLE, "-").stdout
        two = run("segment", "--mode", "mask", f"--save-stage={self.tmp / 's'}", "--workers", 3, "-f", "framemd5",
                  SAMPLE, "-").stdout
        self.assertEqual(one, two)
        self.assertEqual(len(json.loads((self.tmp / "s" / "index.json").read_text())["items"]), 8)
        p = run("segment", "--save-stage", self.tmp / "s", "-f", "null", SAMPLE, "-", check=False)
        self.assertNotEqual(p.returncode, 0)
        self.assertIn("already", p.stderr)

    def test_bad_folders(self):
        good = self.tmp / "good"
        index = save(good, 2, "--mode", "mask")
        self.assertIn("is no folder of saved stages: --save-stage DIR writes index.json", self.failed(self.tmp / "none"))
        self.assertIn("is no folder of saved stages", self.failed(self.tmp))
        item = index["items"][0]

        def broken(change):
            bad = self.tmp / "bad"
            shutil.rmtree(bad, ignore_errors=True)
            shutil.copytree(good, bad)
            change(bad)
            return bad

        def rewrite(**keys):
            return lambda bad: (bad / "index.json").write_text(json.dumps({**index, **keys}))

        for text in ("", "[]", "{", '{"version": 1}'):
            self.assertIn("index.json", self.failed(broken(lambda b: (b / "index.json").write_text(text))))
        self.assertIn("version", self.failed(broken(rewrite(version=99))))
        self.assertIn("items", self.failed(broken(rewrite(items=[]))))
        self.assertIn("task", self.failed(broken(rewrite(task="dance"))))
        self.assertIn("video", self.failed(broken(rewrite(input={**index["input"], "width": 0}))))
        for name in ("../good/" + item["inputs"][0], "", 7):
            self.assertIn("name", self.failed(broken(rewrite(items=[{**item, "inputs": [name]}]))))
        self.assertIn("not there", self.failed(broken(rewrite(items=[{**item, "inputs": []}]))))
        self.assertIn("array", self.failed(broken(rewrite(items=[{**item, "inputs": item["inputs"] * 40}]))))
        self.assertIn("eye", self.failed(broken(rewrite(items=[{**item, "eye": 1}]))))

        tensor = np.load(good / item["inputs"][0])
        for array, word in ((tensor[:, ::2], "shape"), (tensor.astype(np.float64), "type"),
                            (np.asfortranarray(tensor.transpose(3, 1, 2, 0)), "C order"),
                            (tensor.astype(">f4"), "little-endian")):
            self.assertIn(word, self.failed(broken(lambda b: np.save(b / item["inputs"][0], array))))
        data = (good / item["inputs"][0]).read_bytes()
        for cut in (0, 5, 11, 40, 127, 128, len(data) - 1):
            self.assertIn(item["inputs"][0],
                          self.failed(broken(lambda b: (b / item["inputs"][0]).write_bytes(data[:cut]))))
        plane = np.load(good / item["planes"][0])
        self.assertIn("plane", self.failed(broken(lambda b: np.save(b / item["planes"][0], plane[1:])),
                                           "--stage", "preprocess"))

    def test_wrong_usage(self):
        for args in ((), ("a", "b"), ("a", "--stage", "decode"), ("a", "--loop", "0"), ("a", "--mode", "mask")):
            self.assertEqual(run("replay", *args, check=False).returncode, 2, args)
        p = run("segment", "--save-stage", self.tmp / "x", 0, "-f", "null", SAMPLE, "-", check=False)
        self.assertEqual(p.returncode, 2)


if __name__ == "__main__":
    common.main()
