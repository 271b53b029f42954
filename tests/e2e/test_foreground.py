"""Networks that give the person's own colours beside alpha (`output.foreground` of a card): composites against NumPy and ONNX
Runtime's Python package, with regions and without, of recurrent networks, in the frame's size and in a smaller one."""
import json
import subprocess
import unittest

import common
import cv2
import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, save

W, H = 64, 48
BEHIND = (200, 40, 120)  # r, g, b
SHIFT = np.array([60, -50, 30], np.float32)  # of the person's colours from the picture's
FLAT = np.array([200, 60, 120], np.float32)


def network(path, flat, size=(W, H), bgr=False, nhwc=False, disc=False, state=False):
    """alpha: half of the mean of the three channels and 0.2, or a disc with a soft edge. fgr: FLAT, or the picture and SHIFT; with
    a state, SHIFT times 0.3 in the first frame, 0.6 in the second and so on."""
    w, h = size
    node, value, order = helper.make_node, helper.make_tensor_value_info, slice(None, None, -1 if bgr else 1)
    shape = (lambda c: [1, h, w, c]) if nhwc else (lambda c: [1, c, h, w])
    r = np.hypot(*np.meshgrid((np.arange(w) + 0.5) / w * 2 - 1, (np.arange(h) + 0.5) / h * 2 - 1))
    base = np.clip(3.2 - 5 * r, 0, 1).astype(np.float32).reshape(shape(1)) if disc else np.array(0.2, np.float32)
    init = {"half": np.array(0 if disc else 1 / 2, np.float32), "base": base,
            "zero": np.array(0, np.float32), "one": np.array(1, np.float32), "step": np.array(0.3, np.float32),
            "shift": (SHIFT[order] / 255).reshape((1, 1, 1, 3) if nhwc else (1, 3, 1, 1)),
            "flat": (FLAT[order] / 255).reshape((1, 1, 1, 3) if nhwc else (1, 3, 1, 1))}
    axis = 3 if nhwc else 1
    nodes = [node("ReduceMean", ["x"], ["mean"], axes=[axis], keepdims=1), node("Mul", ["mean", "half"], ["m"]),
             node("Add", ["m", "base"], ["pha"])]
    ins, outs, states = [value("x", TensorProto.FLOAT, shape(3))], [value("pha", TensorProto.FLOAT, shape(1))], []
    grown = "shift"
    if state:
        ins.append(value("n_in", TensorProto.FLOAT, [1, 1, 1, 1]))
        nodes += [node("Add", ["n_in", "step"], ["n_out"]), node("Mul", ["shift", "n_out"], ["grown"])]
        outs.append(value("n_out", TensorProto.FLOAT, [1, 1, 1, 1]))
        states, grown = [{"input": "n_in", "output": "n_out"}], "grown"
    if flat:
        nodes += [node("Mul", ["x", "zero"], ["none"]), node("Add", ["none", "flat"], ["fgr"])]
    else:
        nodes += [node("Add", ["x", grown], ["moved"]), node("Clip", ["moved", "zero", "one"], ["fgr"])]
    outs.append(value("fgr", TensorProto.FLOAT, shape(3)))
    graph = helper.make_graph(nodes, "given", ins, outs, [numpy_helper.from_array(v.astype(v.dtype), k) for k, v in init.items()])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    card = {"name": "given", "task": "segment", "file": path.name,
            "input": {"name": "x", "width": w, "height": h, "layout": "nhwc" if nhwc else "nchw", "scale": 1 / 255,
                      "channels": "bgr" if bgr else "rgb"},
            "output": {"name": "pha", "meaning": "alpha", "foreground": "fgr"}, "state": states}
    path.with_suffix(".json").write_text(json.dumps(card))
    return card


def raw(path, pix_fmt="rgb24", channels=3):
    info = common.ffprobe(path)["streams"][0]
    data = subprocess.run(["ffmpeg", "-v", "error", "-i", str(path), "-f", "rawvideo", "-pix_fmt", pix_fmt, "-"], check=True,
                          capture_output=True).stdout
    return np.frombuffer(data, np.uint8).reshape(-1, info["height"], info["width"], channels)


def over(fore, alpha, back=BEHIND):
    return fore * alpha[..., None] + np.float32(back) * (1 - alpha[..., None])


def alpha_of(frames):
    return np.round((0.2 + frames.astype(np.float32).mean(axis=-1) / 255 / 2) * 255) / 255


class Foreground(common.Case):
    def setUp(self):
        super().setUp()
        self.model = self.tmp / "given.onnx"

    def clip(self, frames=3, size=(W, H), pix_fmt="gbrp"):
        out = self.tmp / "in.mkv"
        common.ffmpeg("-f", "lavfi", "-i", f"testsrc2=size={size[0]}x{size[1]}:rate=25:duration={frames / 25}",
                      "-vf", "gblur=2", "-pix_fmt", pix_fmt, "-c:v", "ffv1", out)
        return out

    def cut(self, clip, *args, out="out.mkv", codec=("-c:v", "ffv1"), check=True):
        out = self.tmp / out
        p = common.run("segment", clip, "--model", self.model, "--card", self.model.with_suffix(".json"),
                       "--background", "#%02x%02x%02x" % BEHIND, *codec, "-y", *args, "-o", out, check=check)
        return out if check else p

    def test_colours_of_the_networks_size(self):
        """In both orders of colours and of extents. A sample is rounded once."""
        clip = self.clip()
        frames = raw(clip).astype(np.float32)
        for bgr, nhwc in ((False, False), (True, True)):
            network(self.model, True, bgr=bgr, nhwc=nhwc)
            want = over(FLAT, alpha_of(frames))
            self.assertLessEqual(np.abs(raw(self.cut(clip)) - want).max(), 1.5)
            own = over(frames, alpha_of(frames))
            self.assertLessEqual(np.abs(raw(self.cut(clip, "--no-foreground")) - own).max(), 1.5)
            self.assertGreater(np.abs(want - own).mean(), 20)

    def test_every_kind_of_output(self):
        """With transparency, blurred and beside the picture; the estimate (--foreground) does not take the network's place."""
        network(self.model, True)
        clip = self.clip(frames=1)
        rgba = raw(self.cut(clip, "--mode", "alpha", out="out.png", codec=()), "rgba", 4).astype(np.float32)
        self.assertLessEqual(np.abs(rgba[..., :3] - FLAT).max(), 1)
        self.assertLessEqual(np.abs(rgba[..., 3] / 255 - alpha_of(raw(clip))).max(), 1.5 / 255)
        both = raw(self.cut(clip, "--mode", "side-by-side"))
        self.assertTrue((both[:, :, W:] == raw(self.cut(clip))).all() and (both[:, :, W:] == raw(self.cut(clip, "--foreground"))).all())
        self.assertTrue((both[:, :, :W] == raw(clip)).all())
        self.assertGreater(np.abs(raw(self.cut(clip, "--mode", "blur")).astype(float) -
                                  raw(self.cut(clip, "--mode", "blur", "--no-foreground"))).mean(), 20)

    def test_subsampled_and_deep_pictures(self):
        """Luma and both chroma from one shift, within what rounding and chroma of 2 x 2 pixels leave."""
        network(self.model, True)
        for pix_fmt in ("yuv420p", "yuv444p10le"):
            clip = self.clip(frames=1, pix_fmt=pix_fmt)
            self.assertLess(np.abs(raw(self.cut(clip)) - over(FLAT, alpha_of(raw(clip)))).mean(), 2.5, pix_fmt)

    def test_a_larger_frame_keeps_its_detail(self):
        """What the network's colours add to the picture that it saw is stretched, and added to the frame's pixels."""
        network(self.model, True)
        clip = self.clip(frames=1, size=(4 * W, 4 * H))
        frame = raw(clip)[0].astype(np.float32)
        small = cv2.resize(frame, (W, H), interpolation=cv2.INTER_AREA)
        alpha = cv2.resize(0.2 + small.mean(axis=-1) / 255 / 2, (4 * W, 4 * H))
        fore = np.clip(frame + cv2.resize(FLAT - small, (4 * W, 4 * H)), 0, 255)
        error = np.abs(raw(self.cut(clip))[0] - over(fore, alpha))
        self.assertLess(error.mean(), 1)
        self.assertLess(error.max(), 5)

    def test_recurrent_networks(self):
        network(self.model, False, state=True)
        clip = self.clip(frames=4)
        frames = raw(clip).astype(np.float32)
        want = np.stack([over(np.clip(f + SHIFT * 0.3 * (i + 1), 0, 255), alpha_of(f)) for i, f in enumerate(frames)])
        self.assertLessEqual(np.abs(raw(self.cut(clip, "--workers", 3)) - want).max(), 1.5)
        # A frame that takes over an earlier one's result takes its colours as well.
        still = self.tmp / "still.mkv"
        common.ffmpeg("-loop", 1, "-i", self.cut(clip, "--mode", "side-by-side", out="one.png", codec=("-t", "0.04")),
                      "-vf", f"crop={W}:{H}:0:0", "-t", "0.2", "-pix_fmt", "gbrp", "-c:v", "ffv1", still)
        taken = raw(self.cut(still, "--frame-skip", "0.05"))
        self.assertTrue((taken == taken[0]).all())
        self.assertGreater(np.abs(taken[0].astype(float) - raw(self.cut(still, "--no-foreground"))[0]).mean(), 2)

    def test_regions(self):
        """With a second look the regions' colours are joined as their masks are. The shift is the same everywhere, so it is the
        frame's pixels and SHIFT wherever the mask is soft."""
        common.models("person")
        network(self.model, False, size=(128, 128), disc=True)
        clip = self.tmp / "in.mkv"
        common.ffmpeg("-i", common.DEPS / "media" / "sample.mp4", "-frames:v", 2, "-an", "-vf", "scale=640:360", "-pix_fmt", "gbrp",
                      "-c:v", "ffv1", clip)
        frames = raw(clip).astype(np.float32)
        rgba = raw(self.cut(clip, "--focus", "auto", "--mode", "alpha", out="out.mov", codec=("-c:v", "png")), "rgba", 4).astype(float)
        fore = frames + SHIFT
        soft = (rgba[..., 3] > 60) & (rgba[..., 3] < 250) & ((fore > 10) & (fore < 245)).all(axis=-1)  # not clipped
        self.assertGreater(soft.sum(), 1000)
        self.assertLess(np.quantile(np.abs(rgba[..., :3] - fore)[soft], 0.9), 2.5)
        self.assertGreater(np.abs(rgba[..., :3] - frames)[soft].mean(), 30)

    def test_cards_that_do_not_fit(self):
        card = network(self.model, True)
        clip = self.clip(frames=1)
        for change, says in (({"foreground": "fgr2"}, "names the output `fgr2` in `output.foreground`"),
                             ({"foreground": "pha"}, "is the same output as"),
                             ({"name": "fgr", "foreground": "pha", "meaning": "softmax", "channel": 1}, "a foreground is float32")):
            changed = {**card, "output": {**card["output"], **change}}
            self.model.with_suffix(".json").write_text(json.dumps(changed))
            p = self.cut(clip, check=False)
            self.assertNotEqual(p.returncode, 0)
            self.assertIn(says, p.stderr)

    def test_robust_video_matting(self):
        """Its fgr and pha by ONNX Runtime's Python package over the same colour; and its pha alone, for longer."""
        rvm = common.shared("models/segment/rvm_mobilenetv3_288x512_w8.onnx")
        session = onnxruntime.InferenceSession(str(rvm), providers=["CPUExecutionProvider"])
        names = [o.name for o in session.get_outputs()]
        if "fgr" not in names:
            raise unittest.SkipTest("this export has no foreground")
        self.model.symlink_to(rvm)
        self.model.with_suffix(".json").write_text(json.dumps({
            "name": "rvm", "task": "segment", "file": "given.onnx",
            "state": [{"input": f"r{i}i", "output": f"r{i}o"} for i in (1, 2, 3, 4)],
            "input": {"name": "src", "width": 512, "height": 288, "layout": "nhwc", "scale": 1 / 255},
            "output": {"name": "pha", "meaning": "alpha", "foreground": "fgr"}}))
        clip = self.tmp / "in.mkv"
        common.ffmpeg("-i", common.DEPS / "media" / "sample.mp4", "-frames:v", 8, "-an", "-vf", "scale=512:288", "-pix_fmt", "gbrp",
                      "-c:v", "ffv1", clip)
        got = raw(self.cut(clip))
        masks = raw(self.cut(clip, "--mode", "mask", out="mask.mkv"), "gray", 1)[..., 0] / np.float32(255)
        feed = {i.name: np.zeros(i.shape, np.float32) for i in session.get_inputs()}
        ours, theirs, off = [], [], []
        for i, f in enumerate(raw(clip)):
            feed["src"] = f[None].astype(np.float32) / np.float32(255)
            out = dict(zip(names, session.run(None, feed)))
            feed.update({f"r{k}i": out[f"r{k}o"] for k in (1, 2, 3, 4)})
            alpha = out["pha"][0, :, :, 0]
            off.append(np.abs(masks[i] - alpha).mean())
            soft = (np.round(alpha * 255) > 0) & (np.round(alpha * 255) < 255)
            want = over(out["fgr"][0] * 255, alpha)
            ours.append(np.abs(got[i] - want)[soft])
            theirs.append(np.abs(over(f, alpha) - want)[soft])
        ours, theirs = np.concatenate(ours), np.concatenate(theirs)
        print(f"colour error at soft edges, of 255: {ours.mean():.2f}, without the network's colours {theirs.mean():.2f}")
        print(f"mean absolute difference of alpha {np.mean(off):.6f}, worst frame {max(off):.6f}")
        self.assertLess(max(off), 1e-3)
        self.assertLess(ours.mean(), 1)
        self.assertGreater(theirs.mean(), 2 * ours.mean())


if __name__ == "__main__":
    common.main()
