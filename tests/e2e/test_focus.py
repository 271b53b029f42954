"""--focus auto, the default: people who are small in the frame are found and cut out as well as large ones, by labels that are
not ours; no wall stays beside a large one; the result depends neither on workers nor on batches, and --focus off is what a
run without the detector does."""
import importlib.machinery
import importlib.util
import json
import shutil
import unittest

import cv2
import numpy as np

from common import Case, DEPS, ROOT, ffmpeg, main, models, run, shared

SIZE = (1280, 720)


def material(i, share, x, wall):
    """Labelled person i at this share of the height, over a photo without people: frame and truth. x: from the left, 0..1."""
    path = sorted(shared("labels/people/images").iterdir())[i]
    label = cv2.imread(str(next(shared("labels/people/masks").glob(path.stem + ".*"))), cv2.IMREAD_GRAYSCALE)
    picture = cv2.imread(str(path))
    h = int(SIZE[1] * share)
    w = min(picture.shape[1] * h // picture.shape[0], SIZE[0])
    alpha = cv2.resize(label, (w, h)).astype(np.float32)[..., None] / 255
    frame = cv2.resize(wall, SIZE).astype(np.float32)
    truth = np.zeros((SIZE[1], SIZE[0]), bool)
    at = (slice(SIZE[1] - h, None), slice(int((SIZE[0] - w) * x), int((SIZE[0] - w) * x) + w))
    frame[at] = cv2.resize(picture, (w, h)) * alpha + frame[at] * (1 - alpha)
    truth[at] = alpha[..., 0] > 0.5
    return frame.astype(np.uint8), truth


def wall(i=0):
    return cv2.imread(str(sorted(shared("media").glob("sam2_*.jpg"))[i]))


CLIP = DEPS / "media" / "sample.mp4"


def outlines():
    """Of the sample clip's frames: the outline of the person drawn by hand, 12 pixels wider, as bench/matting makes it."""
    truths = []

    class Clip:
        def __init__(self, folder):
            pass

        def add(self, frame, alpha):
            truths.append(alpha > 0)

    loader = importlib.machinery.SourceFileLoader("matting", str(ROOT / "bench" / "matting"))
    matting = importlib.util.module_from_spec(importlib.util.spec_from_loader("matting", loader))
    loader.exec_module(matting)
    matting.Clip = Clip
    matting.make_demo(None, DEPS)
    return truths


class Focus(Case):
    def write(self, name, frames):
        (self.tmp / name).mkdir()
        for i, f in enumerate(frames):
            cv2.imwrite(str(self.tmp / name / f"{i:04d}.png"), f, [cv2.IMWRITE_PNG_COMPRESSION, 1])
        return self.tmp / name / "%04d.png"

    def masks(self, source, *options):
        out = self.tmp / "masks"
        shutil.rmtree(out, True)
        run("segment", source, "--mode", "mask", "--stereo", "mono", "-q", *options, "-o", f"{out}/", timeout=600)
        return [cv2.imread(str(p), cv2.IMREAD_GRAYSCALE) > 127 for p in sorted(out.iterdir())]

    def iou(self, masks, truths):
        self.assertEqual(len(masks), len(truths))
        return [(m & t).sum() / (m | t).sum() for m, t in zip(masks, truths)]

    def test_who_sways_fast_stays_whole(self):
        """A region that is looked at rarely, since somebody stood still, follows when the swaying begins."""
        back = wall()
        sway = [material(7, 0.8, 0.5 + 0.22 * np.sin(max(0, i - 12) * 0.35), back) for i in range(32)]
        masks = self.masks(self.write("sway", [f for f, _ in sway]), "--focus", "auto")
        self.assertGreater(min(self.iou(masks, [t for _, t in sway])), 0.94)

    def test_small_people_who_walk_and_a_cut(self):
        back = wall()
        walk = [material(20, 0.25, 0.1 + 0.006 * i, back) for i in range(18)]
        walk += [material(48, 0.25, 0.9, wall(1)) for i in range(4)]  # another scene
        walk += [(cv2.resize(wall(1), SIZE), np.zeros(SIZE[::-1], bool))] * 7 + [material(20, 0.3, 0.1, wall(1))] * 12
        source = self.write("walk", [f for f, _ in walk])
        truth = [t for _, t in walk]
        seen = [i for i, t in enumerate(truth) if t.any() and not 29 <= i < 40]  # a small person who enters is found within 11 frames
        masks = self.masks(source, "--focus", "auto")
        self.assertEqual(len(masks), len(truth))
        got = self.iou([masks[i] for i in seen], [truth[i] for i in seen])
        self.assertEqual(max(m.mean() for m in masks[26:29]), 0)
        whole = self.iou(self.masks(source, "--focus", "off")[:22], truth[:22])
        print(f"mean IoU at 1/4 of the height: {np.mean(got):.3f}, lowest {min(got):.3f}; --focus off {np.mean(whole):.3f}")
        self.assertGreater(np.mean(got), 0.85)
        self.assertGreater(min(got), 0.7)
        self.assertLess(np.mean(whole), 0.5)
        hashes = {run("segment", source, "--mode", "mask", "--focus", "auto", "-q", "-f", "framemd5", "-o", "-", *o).stdout
                  for o in (["--workers", "1"], ["--workers", "3", "--batch", "4"])}
        self.assertEqual(len(hashes), 1)

    def test_nobody(self):
        masks = self.masks(self.write("empty", [cv2.resize(wall(i), SIZE) for i in (0, 1)]), "--focus", "auto")
        self.assertEqual(max(m.mean() for m in masks), 0)

    def test_who_enters_an_empty_picture(self):
        """No network sees empty frames. A person of 1/2 of the height is found within 6 frames, a smaller one within 11."""
        for share, delay in ((0.5, 6), (0.25, 11)):
            rng, half = np.random.default_rng(1), (SIZE[0] // 2, SIZE[1] // 2)
            one, truth = (cv2.resize(p.astype(np.uint8), half, interpolation=cv2.INTER_AREA) for p in material(48, share, 0.3, wall()))
            noise = rng.normal(0, 2, one.shape)
            back = cv2.resize(wall(), half)
            frames = [np.clip(f + np.roll(noise, i), 0, 255).astype(np.uint8)
                      for i, f in enumerate([back] * 13 + [one] * (delay + 2))]
            source, out = self.write(f"enters{delay}", frames), self.tmp / f"masks{delay}"
            p = run("segment", source, "--mode", "mask", "--focus", "auto", "--json", "-o", f"{out}/")
            masks = [cv2.imread(str(m), cv2.IMREAD_GRAYSCALE) > 127 for m in sorted(out.iterdir())]
            self.assertEqual(max(m.mean() for m in masks[:13]), 0)
            self.assertGreater(min(self.iou(masks[13 + delay:], [truth > 0] * 2)), 0.8)
            found = next(i for i, m in enumerate(masks) if m.any())
            self.assertEqual(sum(m["runs"] for m in json.loads(p.stdout)["models"]), len(frames) - found)

    def test_no_wall_beside_the_person_of_the_demo(self):
        """The default: in every frame, alpha > 0.1 outside the outline in at most 0.1 % of the pixels."""
        truth, out = outlines(), self.tmp / "mask.mkv"
        p = run("segment", CLIP, "--mode", "mask", "--focus", "auto", "-v", "verbose", "-c:v", "ffv1", "-o",
                out)
        self.assertIn("selfie-landscape sees what has the shape of its input", p.stderr)
        video = cv2.VideoCapture(str(out))
        masks = [video.read()[1][..., 0] for _ in truth]
        self.assertFalse(video.read()[0])
        outside = [((m > 25) & ~t).mean() for m, t in zip(masks, truth)]
        print(f"outside of the outline: {max(outside):.5f} of the pixels at most")
        self.assertLess(max(outside), 0.001)
        self.assertGreater(min((m > 127).sum() / t.sum() for m, t in zip(masks, truth)), 0.85)

    def test_wide_parts_are_those_of_the_other_network_in_any_order(self):
        args = ["segment", CLIP, "-t", "1", "--mode", "mask", "-q", "-f", "framemd5", "-o", "-"]
        hashes = {run(*args, "--focus", "auto", *o).stdout for o in (["--workers", "1"], ["--workers", "3", "--batch", "4"])}
        self.assertEqual(len(hashes), 1)
        self.assertNotIn(run(*args, "--focus", "auto", "--model", "selfie").stdout, hashes)  # which is only that one

    def test_without_the_detector(self):
        """The same as --focus off, with a line that says how to get it."""
        shutil.copy(DEPS / "models" / "selfie.onnx", self.tmp)
        args = ["segment", CLIP, "-t", "0.5", "--mode", "mask", "--model-dir", self.tmp, "-f", "framemd5", "-o", "-"]
        off, auto = run(*args, "-q", "--focus", "off"), run(*args, "--focus", "auto")
        self.assertEqual(off.stdout, auto.stdout)
        self.assertEqual(auto.stderr.count("`tachy model pull person` gets it"), 1, auto.stderr)

    def chosen(self, source, *options):
        """The summary's models with their pictures, most first, and the run's log."""
        p = run("segment", source, "--mode", "mask", "-f", "null", "--json", "--model", "auto", "-v", "info", *options, "-o", "-")
        found = json.loads(p.stdout)
        if found["models"]:
            self.assertEqual(found["model"], found["models"][0]["name"])
        return {m["name"]: m["runs"] for m in found["models"]}, p.stderr

    def test_auto_takes_the_network_by_the_shape_of_what_it_sees(self):
        portrait = self.tmp / "portrait.mkv"
        ffmpeg("-i", CLIP, "-t", "0.4", "-vf", "crop=400:720", "-c:v", "ffv1", portrait)
        small = self.write("small", [material(20, 0.3, 0.4, wall())[0]] * 3)
        both = "selfie-landscape sees what has the shape of its input, selfie the rest"
        for source, options, most in ((portrait, ("--focus", "auto"), "selfie"), (portrait, ("--focus", "off"), "selfie"),
                                      (CLIP, ("-t", "0.4", "--focus", "auto"), "selfie-landscape"),
                                      (CLIP, ("-t", "0.4", "--focus", "off"), "selfie-landscape"),
                                      (small, ("--focus", "auto"), "selfie"), (small, ("--focus", "off"), "selfie-landscape")):
            with self.subTest(source=source, options=options):
                models, log = self.chosen(source, *options)
                self.assertEqual(next(iter(models)), most, models)
                self.assertEqual(log.count(both), 1, log)
        args = ["segment", CLIP, "-t", "0.4", "--mode", "mask", "--focus", "off", "-q", "-f", "framemd5", "-o", "-", "--model"]
        self.assertEqual(run(*args, "auto").stdout, run(*args, "selfie-landscape").stdout)

    def test_auto_takes_what_is_installed(self):
        def folder(*names):
            to = self.tmp / "-".join(("models", *names))
            to.mkdir()
            for name in names:
                shutil.copy(DEPS / "models" / f"{name}.onnx", to)
            return ("-t", "0.2", "--model-dir", to, "--focus", "auto")
        models, log = self.chosen(CLIP, *folder("selfie-landscape"))
        self.assertEqual(list(models), ["selfie-landscape"])
        self.assertEqual(log.count("the model is selfie-landscape, the only one for this that is installed"), 1, log)
        models, log = self.chosen(CLIP, *folder("selfie"))
        self.assertEqual(list(models), ["selfie"])
        self.assertEqual(log.count("selfie is the only one; `tachy model pull selfie-landscape` gets it"), 1, log)
        p = run("segment", CLIP, *folder(), "--model", "auto", "-f", "null", "-o", "-", check=False)
        self.assertEqual(p.returncode, 1)
        self.assertIn("selfie.onnx is missing; `tachy model pull selfie` gets it", p.stderr)

    def test_a_device_refuses(self):
        p = run("segment", "x.mp4", "--device", "cuda", "--focus", "auto", "-o", self.tmp / "y.mp4", check=False)
        self.assertNotEqual(p.returncode, 0)
        self.assertIn("--focus runs on the CPU only", p.stderr)


models("selfie", "selfie-landscape", "person")
main()
