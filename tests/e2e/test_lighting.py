"""tachy lighting: rendered faces and spheres under known lights, a chart under known temperatures, colours, changes."""
import json

import cv2
import numpy as np

import common
from common import DEPS, models, run

# Linear sRGB reflectances of a colour chart's 24 patches, about: six rows of four, the last row grey from white to black.
CHART = np.array([
    (115, 82, 68), (194, 150, 130), (98, 122, 157), (87, 108, 67), (133, 128, 177), (103, 189, 170),
    (214, 126, 44), (80, 91, 166), (193, 90, 99), (94, 60, 108), (157, 188, 64), (224, 163, 46),
    (56, 61, 150), (70, 148, 73), (175, 54, 60), (231, 199, 31), (187, 86, 149), (8, 133, 161),
    (243, 243, 242), (200, 200, 200), (160, 160, 160), (122, 122, 121), (85, 85, 85), (52, 52, 52)], float)


def to_linear(v):
    v = np.asarray(v, float) / 255
    return np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)


def to_codes(v):
    v = np.clip(v, 0, 1)
    return np.round(255 * np.where(v <= 0.0031308, 12.92 * v, 1.055 * v ** (1 / 2.4) - 0.055)).astype(np.uint8)


def black_body(kelvin):
    """Linear sRGB of a black body: Planck's law over the CIE 1931 observer (fits of Wyman et al. 2013)."""
    nm = np.arange(380, 781, 1.0)

    def lobe(mean, below, above):
        return np.exp(-0.5 * ((nm - mean) * np.where(nm < mean, below, above)) ** 2)
    x = 0.362 * lobe(442.0, 0.0624, 0.0374) + 1.056 * lobe(599.8, 0.0264, 0.0323) - 0.065 * lobe(501.1, 0.0490, 0.0382)
    y = 0.821 * lobe(568.8, 0.0213, 0.0247) + 0.286 * lobe(530.9, 0.0613, 0.0322)
    z = 1.217 * lobe(437.0, 0.0845, 0.0278) + 0.681 * lobe(459.0, 0.0385, 0.0725)
    power = nm ** -5 / np.expm1(1.438776877e7 / (nm * kelvin))
    xyz = np.array([(power * f).sum() for f in (x, y, z)])
    rgb = np.array([[3.2404542, -1.5371385, -0.4985314], [-0.9692660, 1.8760108, 0.0415560], [0.0556434, -0.2040259, 1.0572252]]) @ xyz
    return rgb / rgb.max()


def directions(n, seed):
    """Lights in front of the picture, 25 to 65 degrees off its axis: x right, y down, z to the camera."""
    rng = np.random.default_rng(seed)
    off, around = np.radians(rng.uniform(25, 65, n)), np.radians(np.arange(n) * 360 / n)
    return np.stack([np.sin(off) * np.cos(around), np.sin(off) * np.sin(around), np.cos(off)], 1)


def angle(a, b):
    return np.degrees(np.arccos(np.clip(np.dot(a, b) / np.linalg.norm(a) / np.linalg.norm(b), -1, 1)))


class Lighting(common.Case):
    @classmethod
    def setUpClass(cls):
        models("face", "face-mesh")

    def light(self, *pictures):
        """The values of each picture, one run for all."""
        files = []
        for i, p in enumerate(pictures):
            files.append(self.tmp / f"p{i:02}.png")
            cv2.imwrite(str(files[-1]), p)
        run("lighting", *files, "-o", f"{self.tmp}/out/", "-y")
        lines = [json.loads((self.tmp / "out" / f"{f.stem}.lighting.jsonl").read_text()) for f in files]
        return [line["values"] for line in lines]

    @staticmethod
    def to(values):
        return np.array([values["light_x"], values["light_y"], values["light_z"]])

    def test_faces_under_known_light(self):
        """The astronaut's face without her own light, lit anew by normals over a triangulation that is OpenCV's."""
        picture = cv2.resize(cv2.imread(str(DEPS / "media" / "astronaut.png"))[0:260, 90:350], (780, 780), interpolation=cv2.INTER_CUBIC)
        cv2.imwrite(str(self.tmp / "face.png"), picture)
        run("track", self.tmp / "face.png", "-o", self.tmp / "face.jsonl")
        points = np.array(json.loads((self.tmp / "face.jsonl").read_text())["regions"][0]["points"])[:, :3]
        plane = cv2.Subdiv2D((0, 0, 780, 780))
        index = {}
        for i, p in enumerate(points):
            plane.insert((float(p[0]), float(p[1])))
            index[(round(float(np.float32(p[0])), 2), round(float(np.float32(p[1])), 2))] = i
        normal = np.zeros((780, 780, 3), np.float32)
        for t in plane.getTriangleList().reshape(-1, 3, 2):
            of = [index.get((round(float(x), 2), round(float(y), 2))) for x, y in t]
            if None in of:
                continue
            n = np.cross(points[of[1]] - points[of[0]], points[of[2]] - points[of[0]])
            n = -n if n[2] > 0 else n  # towards the camera, where z is below 0
            n = n / np.linalg.norm(n) * [1, 1, -1]
            cv2.fillConvexPoly(normal, np.round(t).astype(np.int32), [float(v) for v in n])
        skin = np.abs(normal).sum(2) > 0
        normal = cv2.GaussianBlur(normal, (0, 0), 5)
        normal /= np.linalg.norm(normal, axis=2, keepdims=True) + 1e-6
        grey = to_linear(cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY))
        skin = cv2.erode(skin.astype(np.float32), np.ones((9, 9)))
        low = cv2.GaussianBlur(grey * skin, (0, 0), 12) / (cv2.GaussianBlur(skin, (0, 0), 12) + 1e-6)
        features = np.where(skin > 0, np.clip(grey / (low + 1e-6), 0.5, 1.3), 1)
        skin = cv2.dilate(skin, np.ones((9, 9))) > 0
        errors, soft = [], {0.1: [], 0.5: []}
        lights = directions(12, 1)
        for ambient in soft:
            lit = []
            for to in lights:
                shade = np.where(skin, ambient + np.maximum(normal @ to, 0), 0.5) * 0.4
                lit.append(np.repeat(to_codes(features * shade)[:, :, None], 3, axis=2))
            for to, got in zip(lights, self.light(*lit)):
                if not got["light_from_face"]:
                    continue
                soft[ambient].append(got["light_softness"])
                errors.append(angle(self.to(got), to))
        self.assertGreater(len(errors), 18)  # of 24; in some the detector sees no face
        self.assertLess(np.median(errors), 15, sorted(errors))
        self.assertLess(np.median(soft[0.1]) + 0.1, np.median(soft[0.5]))

    def test_spheres_without_a_face(self):
        """Matt spheres and cylinders: the direction in the plane of the picture, marked as of gradients."""
        y, x = np.mgrid[-1.2:1.2:300j, -1.2:1.2:300j]
        z = np.sqrt(np.maximum(1 - x * x - y * y, 0))
        lights, pictures = directions(12, 2), []
        for to in lights:
            shade = np.where(z > 0, np.maximum(x * to[0] + y * to[1] + z * to[2], 0), 0.02)
            pictures.append(np.repeat(to_codes(0.05 + 0.7 * shade)[:, :, None], 3, axis=2))
        got = self.light(*pictures)
        self.assertEqual({v["light_from_face"] for v in got}, {0})
        self.assertEqual({v["light_z"] for v in got}, {0})
        self.assertLess(np.median([angle(self.to(v)[:2], to[:2]) for v, to in zip(got, lights)]), 15)

    def test_temperature_of_a_chart(self):
        kelvin = [2700, 3200, 4000, 5000, 5600, 6500, 7500]
        pictures = []
        for k in kelvin:
            patches = to_codes(to_linear(CHART) * black_body(k) * 0.9).reshape(4, 6, 3)
            chart = np.full((260, 380, 3), to_codes(0.1 * black_body(k)), np.uint8)
            chart[10:250, 10:370] = np.repeat(np.repeat(patches, 60, axis=0), 60, axis=1)
            pictures.append(chart[:, :, ::-1])
        for k, got in zip(kelvin, self.light(*pictures)):
            self.assertAlmostEqual(got["temperature"], k, delta=300)
            self.assertLess(abs(got["tint"]), 0.005)
        green, magenta = self.light(np.full((64, 64, 3), (150, 190, 150), np.uint8), np.full((64, 64, 3), (190, 150, 190), np.uint8))
        self.assertGreater(green["tint"], 0.01)
        self.assertLess(magenta["tint"], -0.01)

    def test_dominant_colours(self):
        flag = np.zeros((100, 100, 3), np.uint8)
        parts = (((0, 50), (200, 30, 40)), ((50, 80), (240, 240, 240)), ((80, 100), (20, 40, 160)))
        for (a, b), rgb in parts:
            flag[a:b] = rgb[::-1]
        got = self.light(flag)[0]
        self.assertEqual(got["colors"], 3)
        for i, ((a, b), rgb) in enumerate(parts, 1):
            color = int(got[f"color{i}"])
            np.testing.assert_allclose([color >> 16, color >> 8 & 255, color & 255], rgb, atol=3)
            self.assertAlmostEqual(got[f"color{i}_share"], (b - a) / 100, delta=0.02)
        self.assertEqual(got["color4_share"], 0)

    def test_night_clipping_and_changes(self):
        day = cv2.imread(str(DEPS / "media" / "astronaut.png"))
        night = day // 10
        night[20:40, 20:40] = 255
        a, b = self.light(day, night)
        self.assertGreater(a["day"], 0.8)
        self.assertLess(b["day"], 0.3)
        self.assertGreater(b["highlights"], 0.0005)
        warm = np.clip(day.astype(float) * [0.5, 0.85, 1], 0, 255).astype(np.uint8)
        for i, p in enumerate([day, day, warm, day // 2]):
            cv2.imwrite(str(self.tmp / f"s{i}.png"), p)
        run("lighting", self.tmp / "s%d.png", "-o", self.tmp / "s.jsonl")
        frames = [json.loads(line)["values"] for line in (self.tmp / "s.jsonl").read_text().splitlines()]
        self.assertEqual([frames[0]["exposure_change"], frames[1]["exposure_change"], frames[1]["temperature_change"]], [0, 0, 0])
        self.assertLess(frames[2]["temperature_change"], -500)
        self.assertAlmostEqual(frames[3]["exposure_change"], frames[3]["exposure"] - frames[2]["exposure"], places=4)
        self.assertLess(frames[3]["exposure_change"], -1)


if __name__ == "__main__":
    common.main()
