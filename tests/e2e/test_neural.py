"""tachy animate --backend neural: networks with generated weights (portrait_networks.py), held against the same graphs in ONNX Runtime and
the geometry between them in NumPy."""
import json
import subprocess

import cv2
import numpy as np
import onnxruntime

import common
import portrait_networks
from common import DEPS, models, run
from terminal import Terminal

FACE = DEPS / "media" / "astronaut.png"
GROW, UP = {"portrait": 2.3, "driver": 2.2}, {"portrait": 0.125, "driver": 0.1}


def head():
    return cv2.resize(cv2.imread(str(FACE))[20:200, 135:315], (300, 300), interpolation=cv2.INTER_AREA)


def crop_of(points, grow, up):
    """Corner, and the vectors along its upper and left edges, of the square around an upright face."""
    p = points[:468]
    right = p[263] - p[33]
    right /= np.hypot(*right)
    down = np.array([-right[1], right[0]])
    along = np.stack([p @ right, p @ down])
    low, high = along.min(1), along.max(1)
    side = grow * (high - low).max()
    middle = (low + high) / 2 - [0, up * side]
    corner = middle[0] * right + middle[1] * down - (right + down) * side / 2
    return corner, right * side, down * side


def cells(picture, size, axis):
    """Means of the picture over cells of this size along the axis."""
    n = picture.shape[axis]
    until = np.concatenate([[0], np.arange(1, n + 1)])
    sums = np.concatenate([np.zeros_like(picture.take([0], axis)), picture.cumsum(axis)], axis)
    edges = np.minimum(np.arange(int(np.ceil(n / size)) + 1) * size, n)
    low = np.minimum(edges.astype(int), n - 1)
    share = (edges - until[low]).reshape([-1 if i == axis else 1 for i in range(3)])
    at = sums.take(low, axis) * (1 - share) + sums.take(low + 1, axis) * share
    return np.diff(at, axis=axis) / np.diff(edges).reshape(share[:-1].shape if axis == 0 else share[:, :-1].shape)


def look(picture, crop, n):
    """n x n pixels of the crop as docs/preprocess.md defines them: 1 x 3 x n x n, RGB from 0 to 1."""
    sizes = [max(1, np.hypot(crop[1][k], crop[2][k]) / n) for k in (0, 1)]
    grid = cells(cells(picture[..., ::-1].astype(float), sizes[1], 0), sizes[0], 1).astype(np.float32)
    at = (np.arange(n) + 0.5) / n
    u, v = np.meshgrid(at, at)
    places = (crop[0] + u[..., None] * crop[1] + v[..., None] * crop[2]) / sizes - 0.5
    x0, y0 = np.floor(places[..., 0]).astype(int), np.floor(places[..., 1]).astype(int)
    fx, fy = (places[..., 0] - x0)[..., None], (places[..., 1] - y0)[..., None]

    def cell(y, x):
        return grid[np.clip(y, 0, grid.shape[0] - 1), np.clip(x, 0, grid.shape[1] - 1)]

    seen = (cell(y0, x0) * (1 - fx) + cell(y0, x0 + 1) * fx) * (1 - fy) + (cell(y0 + 1, x0) * (1 - fx) + cell(y0 + 1, x0 + 1) * fx) * fy
    return (seen / 255).transpose(2, 0, 1)[None].astype(np.float32)


def angle(bins):
    share = np.exp(bins[0] - bins.max())
    return np.radians((share / share.sum()) @ np.arange(66) * 3 - 97.5)


def rotation(pitch, yaw, roll):
    c, s = np.cos, np.sin
    x = np.array([[1, 0, 0], [0, c(pitch), -s(pitch)], [0, s(pitch), c(pitch)]])
    y = np.array([[c(yaw), 0, s(yaw)], [0, 1, 0], [-s(yaw), 0, c(yaw)]])
    z = np.array([[c(roll), -s(roll), 0], [s(roll), c(roll), 0], [0, 0, 1]])
    return (z @ y @ x).T


class Reference:
    """The five networks in ONNX Runtime."""

    def __init__(self, folder):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.net = {n: onnxruntime.InferenceSession(str(folder / f"{n}.onnx"), options)
                    for n in ("appearance", "motion", "stitching", "warping", "generator")}

    def run(self, name, **inputs):
        s = self.net[name]
        return dict(zip([o.name for o in s.get_outputs()], s.run(None, {k: np.asarray(v, np.float32) for k, v in inputs.items()})))

    def keys(self, img):
        m = self.run("motion", img=img)
        return {"turn": rotation(*(angle(m[k]) for k in ("pitch", "yaw", "roll"))), "t": m["t"][0] * [1, 1, 0], "scale": m["scale"][0, 0],
                "exp": m["exp"].reshape(21, 3), "kp": m["kp"].reshape(21, 3)}

    def place(self, k):
        return k["scale"] * (k["kp"] @ k["turn"] + k["exp"]) + k["t"]

    def portrait(self, img):
        return self.run("appearance", img=img)["feature_3d"], self.keys(img)

    def make(self, features, own, rest, now):
        moved = dict(own, turn=now["turn"] @ rest["turn"].T @ own["turn"], exp=own["exp"] + now["exp"] - rest["exp"],
                     scale=own["scale"] * now["scale"] / rest["scale"], t=own["t"] + now["t"] - rest["t"])
        source, driving = self.place(own), self.place(moved)
        delta = self.run("stitching", input=np.concatenate([source.ravel(), driving.ravel()])[None])["output"][0]
        driving = driving + delta[:63].reshape(21, 3) + np.append(delta[63:], 0)
        warped = self.run("warping", feature_3d=features, kp_source=source[None], kp_driving=driving[None])["out"]
        return self.run("generator", feature=warped)["out"][0]


def paste(picture, made, crop, feather=0.1):
    """BGR of 8 bits."""
    n = made.shape[1]
    y, x = np.mgrid[:picture.shape[0], :picture.shape[1]] + 0.5
    uv = np.linalg.solve(np.stack([crop[1], crop[2]], 1), (np.stack([x, y], -1) - crop[0]).reshape(-1, 2).T).reshape(2, *x.shape)
    edge = np.minimum(np.minimum(uv[0], 1 - uv[0]), np.minimum(uv[1], 1 - uv[1])) / feather
    share = np.clip(edge, 0, 1)
    share = (share * share * (3 - 2 * share))[..., None]
    seen = cv2.remap(made.transpose(1, 2, 0), (uv[0] * n - 0.5).astype(np.float32), (uv[1] * n - 0.5).astype(np.float32), cv2.INTER_LINEAR,
                     borderMode=cv2.BORDER_REPLICATE)
    return picture * (1 - share) + share * 255 * np.clip(seen, 0, 1)[..., ::-1], share[..., 0]


class Neural(common.Case):
    @classmethod
    def setUpClass(cls):
        models("face", "face-mesh")

    def clip(self, name, frames):
        path = self.tmp / name
        h, w = frames[0].shape[:2]
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "bgr24", "-s", f"{w}x{h}", "-r", "25", "-i", "-",
                        "-vf", "scale=out_color_matrix=bt601,format=yuv420p", "-colorspace", "smpte170m", "-color_primaries", "smpte170m", "-color_trc",
                        "smpte170m", "-c:v", "ffv1", str(path)], input=b"".join(f.tobytes() for f in frames), check=True)
        return path

    def driver(self, angles):
        frames = []
        for a in angles:
            frame = np.full((360, 480, 3), 90, np.uint8)
            turn = cv2.getRotationMatrix2D((150, 150), -a, 1)
            frame[30:330, 90:390] = cv2.warpAffine(head(), turn, (300, 300), borderMode=cv2.BORDER_REPLICATE)
            frames.append(frame)
        return frames

    def portrait(self):
        picture = np.full((480, 640, 3), 60, np.uint8)
        picture[100:400, 150:450] = head()
        self.still(picture)
        return picture

    def still(self, picture):
        """The portrait, as often as the command looks at it; no conversion lies between its points and those that the command finds."""
        return self.clip("portrait.mkv", [picture] * 4)

    def points(self, clip):
        run("track", "--no-smoothing", "--no-refine-landmarks", clip, "-o", self.tmp / "p.jsonl", "-y")
        lines = (self.tmp / "p.jsonl").read_text().splitlines()
        return [np.array(json.loads(line)["regions"][0]["points"])[:, :2] for line in lines]

    def frames(self, path):
        video, found = cv2.VideoCapture(str(path)), []
        while (frame := video.read())[0]:
            found.append(frame[1].astype(float))
        return found

    def animate(self, card, driver, *args):
        out = self.tmp / "out.mkv"
        run("animate", "--backend", "neural", "--neural-card", card, "--image", self.tmp / "portrait.mkv", "--no-smoothing",
            "--no-refine-landmarks", driver, "-o", out, "-c:v", "ffv1", "-y", *args)
        return self.frames(out)

    def test_as_in_onnx_runtime(self):
        """Networks that leave the number of pictures free, which our provider runs whole."""
        card = portrait_networks.write(self.tmp / "nets", n="batch")
        self.portrait()
        driver = self.clip("driver.mkv", self.driver([0, 6, 12]))
        picture, frames = self.frames(self.tmp / "portrait.mkv")[0], self.frames(driver)
        made = self.animate(card, driver, "--provider", "tachy", "--strict")
        own = crop_of(self.points(self.tmp / "portrait.mkv")[-1], GROW["portrait"], UP["portrait"])
        ref, n = Reference(self.tmp / "nets"), portrait_networks.SMALL["crop"]
        features, keys = ref.portrait(look(picture, own, n))
        moves = [ref.keys(look(f, crop_of(p, GROW["driver"], UP["driver"]), n)) for f, p in zip(frames, self.points(driver))]
        self.assertEqual(len(made), len(frames))
        gray = np.array([0.114, 0.587, 0.299])  # colours in 4:2:0 differ at edges, brightness does not
        wanted, share = zip(*(paste(picture, ref.make(features, keys, moves[0], move), own) for move in moves))
        inside, around = share[0] > 0, cv2.dilate((share[0] > 0).astype(np.uint8), np.ones((5, 5))) == 0
        for got, w in zip(made, wanted):
            luma = abs((got - w) @ gray)[inside]
            self.assertLess(luma.mean(), 2)  # such networks change by 2 codes if their input is moved by a tenth of a pixel
            self.assertLess(abs(got - picture)[around].max(), 3)
        for k in (1, 2):
            by, wrong = ((wanted[k] - wanted[0]) @ gray)[inside], ((made[k] - made[0] - wanted[k] + wanted[0]) @ gray)[inside]
            error = np.linalg.norm(wrong) / np.linalg.norm(by)
            print("moved by", round(abs(by).mean(), 2), "codes, relative L2 error of that", round(error, 3))
            self.assertLess(error, 0.3)  # most of it is the rounding of two pictures

    def test_what_is_pasted_lies_where_it_was(self):
        self.still(cv2.GaussianBlur(self.portrait(), (0, 0), 3))
        picture = self.frames(self.tmp / "portrait.mkv")[0]
        made = self.animate(portrait_networks.through(self.tmp / "nets", 512), self.clip("driver.mkv", self.driver([0, 5])))
        still = self.animate(portrait_networks.through(self.tmp / "nets", 512), self.clip("driver.mkv", self.driver([0])), "--mirror")
        for got in made:
            luma = abs((got - picture) @ [0.114, 0.587, 0.299])
            self.assertLess(luma.mean(), 0.5)
            self.assertLessEqual(np.quantile(luma, 0.999), 2)
        self.assertLess(abs(still[0][:, ::-1] - made[0]).mean(), 0.5)

    def test_what_the_networks_see(self):
        self.portrait()
        picture = self.frames(self.tmp / "portrait.mkv")[0]
        made = self.animate(portrait_networks.through(self.tmp / "nets", 64), self.clip("driver.mkv", self.driver([0])))[0]
        own = crop_of(self.points(self.tmp / "portrait.mkv")[-1], GROW["portrait"], UP["portrait"])
        wanted, share = paste(picture, look(picture, own, 64)[0], own)
        luma = abs((made - wanted) @ [0.114, 0.587, 0.299])[share > 0.99]
        print("crop and paste differ by", round(luma.mean(), 2), "codes, p99", round(np.quantile(luma, 0.99), 2))
        self.assertLess(luma.mean(), 0.5)  # rounding
        self.assertLess(np.quantile(luma, 0.99), 2)

    def test_backend_changes_during_a_run(self):
        self.portrait()
        card, out = portrait_networks.write(self.tmp / "nets"), self.tmp / "out.mkv"
        driver = self.clip("driver.mkv", self.driver([0] * 4))
        mesh = self.animate(card, driver, "--backend", "mesh")[-1]
        networks = self.animate(card, driver)[-1]
        self.assertGreater(abs(mesh - networks).mean(), 2)
        t = Terminal("animate", "--neural-card", card, "--image", self.tmp / "portrait.mkv", "--no-smoothing", "--no-refine-landmarks", "-re",
                     "--loop", driver, "-o", out, "-c:v", "ffv1", "-y")

        def later():
            now = int(t.expect(r"(\d+) frames").group(1))
            while int(t.expect(r"(\d+) frames").group(1)) < now + 10:
                pass

        later()
        for answer in ("networks move the portrait", "the mesh moves the portrait"):
            t.type("b")
            t.expect(answer)
            later()
        t.type("q")
        t.wait()
        made = self.frames(out)
        by = ["mesh" if abs(f - mesh).mean() < abs(f - networks).mean() else "networks" for f in made]
        turns = [name for k, name in enumerate(by) if not k or by[k - 1] != name]
        self.assertEqual(turns, ["mesh", "networks", "mesh"])

    def test_cards_that_cannot_be_used(self):
        self.portrait()
        good, driver, out = portrait_networks.write(self.tmp / "nets"), self.clip("driver.mkv", self.driver([0])), self.tmp / "out.mkv"
        said = json.loads(good.read_text())

        def refused(change, text, status=1):
            card = json.loads(good.read_text())
            change(card)
            (self.tmp / "nets/bad.json").write_text(json.dumps(card))
            p = run("animate", "--backend", "neural", "--neural-card", self.tmp / "nets/bad.json", "--image", self.tmp / "portrait.mkv", driver,
                    "-o", out, check=False)
            self.assertEqual(p.returncode, status, p.stderr)
            self.assertIn(text, p.stderr)
            self.assertFalse(out.exists())

        refused(lambda c: c["networks"].update(motion="none.onnx"), "none.onnx: cannot be read")
        refused(lambda c: c["networks"].pop("motion"), "`networks.motion` is missing")
        refused(lambda c: c["networks"].update(warpin="x.onnx"), "did you mean `warping`?")
        refused(lambda c: c.update(task="segment"), "must be one of animate")
        refused(lambda c: c["networks"].update(motion="appearance.onnx"), "as `motion` it needs an input or output called pitch")
        refused(lambda c: c["networks"].update(generator="stitching.onnx"), "as `generator`")
        refused(lambda c: c.update(feather=3), "`feather` must be a number from 0 to 0.5")
        p = run("animate", "--backend", "neural", "--image", self.tmp / "portrait.mkv", driver, "-o", out, check=False)
        self.assertEqual(p.returncode, 2)
        self.assertIn("--neural-card", p.stderr)
        p = run("animate", "--backend", "neural", "--neural-card", good, "--device", "cuda", "--neural-device", "cpu", "--image",
                self.tmp / "portrait.mkv", driver, "-o", out, check=False)
        self.assertNotEqual(p.returncode, 0)
        self.assertIn("networks run where the frames are", p.stderr)
        self.assertTrue(said)


if __name__ == "__main__":
    common.main("Neural.test_as_in_onnx_runtime", "Neural.test_cards_that_cannot_be_used")
