"""tachy masks --propagate: things followed by memory, against a loop in NumPy over ONNX Runtime's results of generated networks."""
import json
import os
import signal
import pathlib
import shutil
import subprocess
import time

import cv2
import numpy as np
import onnxruntime
from pycocotools import mask as coco

import common
import sam_networks
import sam_video_networks
from common import TACHY, ffmpeg, run
from test_masks import upsample

SIZE, W, H = 128, 192, 128  # of the encoder's picture; of the clip
RED, BLUE = (30, 22, 34, 34), (122, 64, 50, 50)  # boxes in the first frame


def frame(t):
    """A red thing that leaves to the right, a blue one that is hidden for a while, and nothing at all in the end."""
    rng = np.random.default_rng(3)
    f = np.full((H, W, 3), (90, 100, 80), np.uint8) + rng.integers(0, 30, (H, W, 3)).astype(np.uint8)
    if t < 20:
        cv2.circle(f, (int(47 + t * 9), 39), 20, (220, 40, 30), -1)
    if not 8 <= t < 13 and t < 24:
        cv2.circle(f, (int(147 - t * 2.5), 89), 26, (30, 60, 230), -1)
    return f


def write(path, frames, *args):
    h, w = frames[0].shape[:2]
    p = subprocess.Popen(["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{w}x{h}", "-r", "25", "-i", "-", "-c:v", "ffv1",
                          "-pix_fmt", "bgr0", *args, str(path)], stdin=subprocess.PIPE)
    p.communicate(b"".join(np.ascontiguousarray(f).tobytes() for f in frames))
    assert p.returncode == 0


class Loop:
    """What the authors' video predictor does, for prompts in one frame: a memory of that frame and of the latest six, pointers of that
    frame and of the latest fifteen."""

    def __init__(self, folder):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.net = {n: onnxruntime.InferenceSession(str(folder / f"{n}.onnx"), options, providers=["CPUExecutionProvider"])
                    for n in ("image_encoder", "memory_attention", "mask_decoder", "memory_encoder")}

    def call(self, net, **inputs):
        s = self.net[net]
        return dict(zip([o.name for o in s.get_outputs()], s.run(None, inputs), strict=True))

    def see(self, picture):
        x = cv2.resize(picture.astype(np.float32), (SIZE, SIZE), interpolation=cv2.INTER_AREA if W > SIZE else cv2.INTER_LINEAR)
        return self.call("image_encoder", image=((x / 255 - sam_networks.MEAN) / sam_networks.STD).transpose(2, 0, 1)[None].astype(np.float32))

    def remembered(self, t, began):
        """The inputs of memory attention in frame t."""
        first, latest = self.made[began], [self.made[k] for k in range(max(began + 1, t - 6), t)]
        many = len(first["obj_ptr"])
        code = first["temporal_code"].reshape(-1, 1, 64)
        at = [first["maskmem_pos_enc"] + code[6]] + [m["maskmem_pos_enc"] + code[len(latest) - 1 - i] for i, m in enumerate(latest)]
        pointers = [first["obj_ptr"]] + [self.made[t - k]["obj_ptr"] for k in range(1, min(16, t - began))]
        at.append(np.zeros((many, 4 * len(pointers), 64), np.float32))
        return {"memory_0": np.stack(pointers, 1), "memory_1": np.stack([m["maskmem_features"] for m in (first, *latest)], 1),
                "memory_pos_embed": np.concatenate(at, 1), "cond_frame_id_diff": np.array(t - began, np.float32)}

    def follow(self, frames, points, labels, began=0):
        """For each frame what is there of each thing."""
        points, labels = np.float32(points) * np.float32([SIZE / W, SIZE / H]), np.float32(labels)
        many, told = len(points), []
        self.made = {}
        for t, picture in enumerate(frames):
            if t < began:
                told.append({})
                continue
            f = self.see(picture)
            embed, at, label = np.repeat(f["vision_feats"], many, 0), points, labels
            if t > began:
                embed = self.call("memory_attention", current_vision_feat=f["vision_feats"], current_vision_pos_embed=f["vision_pos_embed"],
                                  **self.remembered(t, began))["image_embed"]
                at, label = np.zeros((many, 1, 2), np.float32), -np.ones((many, 1), np.float32)
            d = self.call("mask_decoder", point_coords=at, point_labels=label, image_embed=embed, high_res_feats_0=f["high_res_feat0"],
                          high_res_feats_1=f["high_res_feat1"])
            self.made[t] = d | self.call("memory_encoder", mask_for_mem=d["mask_for_mem"], pix_feat=f["pix_feat"], occ_logit=d["occ_logit"])
            masks = upsample(d["pred_mask"][:, 0], W, H)
            told.append({i: {"mask": masks[i] > 0, "score": d["iou"][i, 0], "presence": 1 / (1 + np.exp(-d["occ_logit"][i, 0])),
                             "stability": (masks[i] > 1).sum() / (masks[i] > -1).sum()}
                         for i in range(many) if d["occ_logit"][i, 0] > 0 and (masks[i] > 0).any()})
        return told


def corners(*boxes):
    return [[[x, y], [x + w, y + h]] for x, y, w, h in boxes]


class Propagate(common.Case):
    frames = [frame(t) for t in range(28)]

    def setUp(self):
        super().setUp()
        sam_video_networks.make(self.tmp, SIZE)
        self.card = json.loads((self.tmp / "image_encoder.json").read_text())
        self.net = ("--model", self.tmp / "image_encoder.onnx", "--propagate")
        self.clip = self.tmp / "clip.mkv"
        write(self.clip, self.frames)

    def told(self, *args, clip=None):
        out = self.tmp / "out.jsonl"
        run("masks", *self.net, clip or self.clip, "-o", out, "-y", *args)
        return [json.loads(line) for line in out.read_text().splitlines()]

    def hold(self, told, want):
        self.assertEqual(len(told), len(want))
        for t, (f, w) in enumerate(zip(told, want, strict=True)):
            self.assertEqual([r["track"] for r in f["regions"]], sorted(w), t)
            for r in f["regions"]:
                m, is_ = coco.decode(r["segmentation"]).astype(bool), w[r["track"]]
                self.assertGreaterEqual((m & is_["mask"]).sum() / (m | is_["mask"]).sum(), 0.99, (t, r["track"]))
                self.assertAlmostEqual(r["score"], is_["score"], delta=5e-3)
                self.assertAlmostEqual(r["values"]["presence"], is_["presence"], delta=5e-3)
                self.assertAlmostEqual(r["values"]["stability"], is_["stability"], delta=1e-2)
                self.assertEqual(r["values"]["area"], m.sum())

    def test_the_same_graphs_in_pytorch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is not installed")
        loop, o, w = Loop(self.tmp), sam_video_networks.Torch(), sam_video_networks.weights()
        loop.follow(self.frames[:6], corners(RED, BLUE), [[2, 3]] * 2)

        def same(net, make, **inputs):
            with torch.no_grad():
                made = make(*[torch.from_numpy(np.asarray(v)) for v in inputs.values()])
            for name, want in loop.call(net, **inputs).items():
                off = np.abs(made[name].numpy() - want).max()
                self.assertLess(off, 1e-4 * max(1, np.abs(want).max()), (net, name))
        picture = ((cv2.resize(self.frames[6], (SIZE, SIZE)) / 255 - sam_networks.MEAN) / sam_networks.STD).transpose(2, 0, 1)[None].astype(np.float32)
        same("image_encoder", lambda x: sam_video_networks.encoder(o, x, w, SIZE), image=picture)
        f = loop.call("image_encoder", image=picture)
        inputs = {"current_vision_feat": f["vision_feats"], "current_vision_pos_embed": f["vision_pos_embed"], **loop.remembered(6, 0)}
        same("memory_attention", lambda *x: {"image_embed": sam_video_networks.attention(o, w, SIZE, *x)}, **inputs)
        embed = loop.call("memory_attention", **inputs)["image_embed"]
        for at, label in (([[[30.0, 40.0]], [[80.0, 60.0]]], [[1.0], [1.0]]), (np.zeros((2, 1, 2)), -np.ones((2, 1)))):
            same("mask_decoder", lambda *x: sam_video_networks.decoder(o, w, SIZE, *x), point_coords=np.float32(at), point_labels=np.float32(label),
                 image_embed=embed, high_res_feats_0=f["high_res_feat0"], high_res_feats_1=f["high_res_feat1"])
        d = loop.made[5]
        same("memory_encoder", lambda *x: sam_video_networks.memory_encoder(o, w, SIZE, *x), mask_for_mem=d["mask_for_mem"], pix_feat=f["pix_feat"],
             occ_logit=d["occ_logit"])

    def test_two_things(self):
        want = Loop(self.tmp).follow(self.frames, corners(RED, BLUE), [[2, 3]] * 2)
        there = [sorted(w) for w in want]
        self.assertEqual((there[0], there[7], there[10], there[15], there[23], there[27]), ([0, 1], [0, 1], [0], [0, 1], [1], []))
        for t in (0, 7, 15):  # what the networks follow is the thing
            red = cv2.inRange(self.frames[t], (200, 0, 0), (255, 80, 80)) > 0
            self.assertGreater((want[t][0]["mask"] & red).sum() / (want[t][0]["mask"] | red).sum(), 0.5)
        boxes = [a for b in (RED, BLUE) for a in ("--box", ",".join(map(str, b)))]
        one = self.told(*boxes, "--workers", 1)
        self.hold(one, want)
        self.assertEqual(one, self.told(*boxes, "--workers", 3))
        self.hold(self.told(*boxes, "--sam2-batch", 1), want)

    def test_points_from_a_later_frame(self):
        want = Loop(self.tmp).follow(self.frames, [[[134, 89], [128, 30]]], [[1, 0]], 5)
        self.assertEqual([sorted(w) for w in want[4:6]], [[], [0]])
        told = self.told("--point", "134,89", "--point", "128,30,0", "--prompt-frame", 5)
        self.hold(told, want)
        self.assertEqual([len(r["points"]) if "points" in r else 0 for f in told[5:7] for r in f["regions"]], [2, 0])
        p = run("masks", *self.net, self.clip, "--point", "9,9", "--prompt-frame", 28, "-o", self.tmp / "x.jsonl")
        self.assertIn("there is no frame 28", p.stderr)

    def test_what_a_detector_finds_first(self):
        photos = sorted((common.SHARED / "media").glob("portrait_*.jpg"))
        if not photos:
            self.skipTest("the shared portraits are not here")
        common.models("face")
        photo = cv2.imread(str(photos[0]))
        side = min(photo.shape[:2])
        face = np.zeros((H, W, 3), np.uint8)
        face[:, 32:160] = cv2.resize(photo[:side, :side], (128, 128), interpolation=cv2.INTER_AREA)[:, :, ::-1]
        clip = self.tmp / "face.mkv"
        write(clip, [np.zeros_like(face)] * 2 + [face] * 3)
        told = self.told("--find", "face", clip=clip)
        self.assertEqual([len(f["regions"]) for f in told[:2]], [0, 0])
        run("detect", "--model", "face", clip, "-o", self.tmp / "faces.jsonl")
        found = json.loads((self.tmp / "faces.jsonl").read_text().splitlines()[2])["regions"]
        self.assertEqual(len(told[2]["regions"]), len(found))
        for f in told[2:]:
            self.assertEqual([(r["track"], r.get("label"), r.get("class")) for r in f["regions"]],
                             [(i, r.get("label"), r.get("class")) for i, r in enumerate(found)])
        p = run("masks", *self.net, "null:64x64@25,frames=3", "--find", "face", "-o", self.tmp / "x.jsonl")
        self.assertIn("found nothing to follow", p.stderr)

    def test_turned_pictures(self):
        want = self.told("--box", "122,64,50,50")
        clip = self.tmp / "turned.mov"
        write(self.tmp / "plain.mov", [np.rot90(f, -1) for f in self.frames], "-c:v", "png", "-pix_fmt", "rgb24")
        ffmpeg("-i", self.tmp / "plain.mov", "-c", "copy", "-metadata:s:v", "rotate=90", clip)
        for f, g in zip(want, self.told("--box", "122,64,50,50", clip=clip), strict=True):
            self.assertEqual(len(f["regions"]), len(g["regions"]))
            for r, s in zip(f["regions"], g["regions"], strict=True):
                a, b = coco.decode(r["segmentation"]).astype(bool), np.rot90(coco.decode(s["segmentation"])).astype(bool)
                self.assertGreater((a & b).sum() / (a | b).sum(), 0.98)

    def test_killed_and_resumed(self):
        clip = self.tmp / "long.mkv"
        ffmpeg("-stream_loop", 7, "-i", self.clip, "-c", "copy", clip)
        out = self.tmp / "resumed.jsonl"
        common.models("person")
        net, zoo = self.tmp / "person.onnx", self.tmp / "zoo"  # two files of one name
        zoo.mkdir()
        shutil.copy(pathlib.Path(os.environ["TACHY_MODELS"]) / net.name, zoo)
        (self.tmp / "memory_encoder.onnx").rename(net)
        card = self.tmp / "image_encoder.json"
        card.write_text(card.read_text().replace("memory_encoder.onnx", net.name))
        args = ["masks", *self.net, clip, "--find", "person", "--model-dir", zoo, "--box", "30,22,34,34", "--box", "122,64,50,50", "-q", "--resume", "--processing.chunk_size=13", "-o"]
        run(*args, self.tmp / "whole.jsonl")

        def kept():
            try:
                return json.loads((self.tmp / "resumed.jsonl.tachy" / "job.json").read_text()).get("frames", 0)
            except FileNotFoundError:
                return 0
        for _ in range(5):
            p = subprocess.Popen([str(a) for a in (TACHY, *args, out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while p.poll() is None and kept() < 26:
                time.sleep(0.002)
            p.kill()
            if p.wait() == -signal.SIGKILL:
                break
            out.unlink()
        self.assertEqual(p.returncode, -signal.SIGKILL)
        for file in (net, zoo / net.name):
            whole, times = file.read_bytes(), (file.stat().st_atime_ns, file.stat().st_mtime_ns)
            file.write_bytes(whole)  # another one in its place
            p = run(*args, out, check=False)
            self.assertRegex(p.stderr, "the file of person.onnx(, number 2)? has changed since the unfinished run")
            os.utime(file, ns=times)
        run(*args, out)
        self.assertEqual(out.read_text(), (self.tmp / "whole.jsonl").read_text())
        self.assertGreater(sum(len(json.loads(line)["regions"]) for line in out.read_text().splitlines()), 100)

    def test_odd_sizes(self):
        for size in ("1x1", "3x70"):
            self.assertEqual(len(self.told("--point", "0,0", clip=f"null:{size}@25,frames=9")), 9)
        parts = []
        for i, size in enumerate(("192x128", "96x80")):
            parts.append(self.tmp / f"{i}.h264")
            ffmpeg("-i", self.clip, "-frames:v", 6, "-vf", f"scale={size.replace('x', ':')},format=yuv420p", "-c:v", "libx264", "-bf", 0, parts[-1])
        both = self.tmp / "both.h264"
        both.write_bytes(b"".join(p.read_bytes() for p in parts))
        told = self.told("--box", "122,64,50,50", clip=both)
        self.assertEqual([[r["track"] for r in f["regions"]] for f in told], [[0]] * 12)
        run("masks", *self.net, self.clip, "--box", "122,64,50,50", "-o", self.tmp / "seen.mkv")

    def test_inside_curate(self):
        want = self.told("--box", "122,64,50,50")
        run("curate", "--tasks", "masks,quality", "--masks.model", self.tmp / "image_encoder.onnx", "--masks.propagate", "--masks.box",
            "122,64,50,50", "--keep", "masks > 0", self.clip, "-o", self.tmp / "found")
        lines = [json.loads(line) for line in (self.tmp / "found" / "results.jsonl").read_text().splitlines()]
        self.assertEqual([[r["segmentation"] for r in f["masks"]["regions"]] for f in lines if f["keep"]],
                         [[r["segmentation"] for r in f["regions"]] for f in want if f["regions"]])

    def test_the_published_size(self):
        folder = self.tmp / "full"
        folder.mkdir()
        sam_video_networks.make(folder)
        write(self.tmp / "short.mkv", self.frames[:2])
        run("masks", "--model", folder / "image_encoder.onnx", "--propagate", self.tmp / "short.mkv", "--point", "147,89", "-o", self.tmp / "full.jsonl")
        self.assertEqual([len(json.loads(line)["regions"]) for line in (self.tmp / "full.jsonl").read_text().splitlines()], [1, 1])

    def test_mistakes(self):
        def said(*args, net=self.net):
            p = run("masks", *net, self.clip, *args, "-o", self.tmp / "x.jsonl", "-y", check=False)
            self.assertNotEqual(p.returncode, 0, args)
            return p.stderr
        self.assertIn("needs to know what to follow", said())
        self.assertIn("is outside of the picture, which has 192x128", said("--point", "192.5,3"))
        self.assertIn("is outside of the picture", said("--box", "0,100%,5,5"))
        self.assertIn("without --propagate", said("--point", "1,1", "--prompt-frame", 3, net=self.net[:2]))
        self.assertIn("--propagate", said("--point", "1,1", net=self.net[:2]))
        self.assertIn("leave out --strict", said("--point", "1,1", "--strict"))

        def with_card(change, says):
            c = json.loads(json.dumps(self.card))
            change(c["memory"], c)
            (self.tmp / "image_encoder.json").write_text(json.dumps(c))
            self.assertIn(says, said("--point", "1,1"))
        with_card(lambda m, c: m.pop("decoder"), "`memory.decoder` is missing")
        with_card(lambda m, c: m["encoder"].pop("file"), "`memory.encoder.file` is missing")
        with_card(lambda m, c: m["attention"].update(points="x"), "`memory.attention.points` is not a key of model cards")
        with_card(lambda m, c: m.update(prompts={}), "`memory.prompts` is not a key of model cards")
        with_card(lambda m, c: m.update(attention=5), "`memory.attention` must be an object")
        with_card(lambda m, c: m["encoder"].update(file="none.onnx"), "none.onnx")
        with_card(lambda m, c: m["encoder"].update(file="mask_decoder.onnx"), "named mask_for_mem")
        with_card(lambda m, c: m["decoder"].update(sha256="0" * 64), "mask_decoder.onnx")
        with_card(lambda m, c: c["input"].update(fit="crop"), "stretch")
        half = self.tmp / "half"
        half.mkdir()
        sam_video_networks.make(half, SIZE // 2)
        (self.tmp / "other.onnx").write_bytes((half / "mask_decoder.onnx").read_bytes())
        with_card(lambda m, c: m["decoder"].update(file="other.onnx"), "another size than the networks around it")
        with_card(lambda m, c: c.pop("memory"), "has no `memory`")
        (self.tmp / "image_encoder.json").write_text(json.dumps(self.card))
        (self.tmp / "memory_attention.onnx").write_bytes((self.tmp / "memory_attention.onnx").read_bytes()[:2000])
        self.assertIn("memory_attention.onnx", said("--point", "1,1"))


if __name__ == "__main__":
    common.main("Propagate.test_two_things", "Propagate.test_odd_sizes", "Propagate.test_mistakes")
