"""tachy faces: clusters as scikit-learn's, vectors as ONNX Runtime's, people of labelled photos, folders and names that stay."""
import csv
import itertools
import json
import os
import subprocess

import cv2
import numpy as np
import onnxruntime
import sklearn.cluster._hdbscan.hdbscan as reference
from sklearn.cluster import HDBSCAN

import common
from common import models, run, shared

# Mutual reachability has many equal distances, and NumPy's default sort orders them differently on each processor.
reference._process_mst = lambda mst: reference.make_single_linkage(mst[np.argsort(mst["distance"], kind="stable")])
CARD = {"name": "mobilefacenet", "task": "embed", "file": "net.onnx", "outputs": [{"meaning": "embedding"}],
        "input": {"width": 112, "height": 112, "layout": "nchw", "scale": 0.0078125, "mean": 0.99609375}}
TEMPLATE = np.array([[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]])


def same_clusters(a, b):
    """The same groups and the same points in none, whatever the numbers."""
    pairs = set(zip(map(int, a), map(int, b)))
    return len(pairs) == len({x for x, _ in pairs}) == len({y for _, y in pairs}) and all((x < 0) == (y < 0) for x, y in pairs)


class Clusters(common.Case):
    def cluster(self, x, least, samples, select="eom", threads=2, **env):
        np.save(self.tmp / "x.npy", np.ascontiguousarray(x, np.float32))
        out = subprocess.run([os.environ["CLUSTER_TOOL"], str(self.tmp / "x.npy"), str(least), str(samples), select, str(threads)],
                             check=True, capture_output=True, text=True, env=os.environ | env).stdout
        return list(map(int, out.split()))

    def test_labels_are_those_of_scikit_learn(self):
        found = 0
        for seed in range(50):
            rng = np.random.default_rng(seed)
            k, d, n = int(rng.integers(1, 9)), int(rng.choice([2, 8, 128])), int(rng.integers(30, 500))
            x = rng.normal(0, 4, (k, d))[rng.integers(0, k, n)] + rng.normal(0, rng.uniform(0.2, 2.5), (n, d))
            x = x.astype(np.float32)
            for select in ("eom", "leaf"):
                least, samples = int(rng.integers(2, 15)), int(rng.integers(1, 12))
                want = HDBSCAN(min_cluster_size=least, min_samples=samples, cluster_selection_method=select, copy=True).fit(x.astype(float))
                got = self.cluster(x, least, samples, select, 1 + seed % 3)
                found += max(got) + 1
                self.assertTrue(same_clusters(want.labels_, got), f"seed {seed} {select} {least} {samples}")
        self.assertGreater(found, 200)

    def test_equal_distances(self):
        """Whole numbers: most distances occur many times, and the order in which they are taken makes the clusters."""
        found = 0
        for seed in range(20):
            rng = np.random.default_rng(seed)
            k, d, n = int(rng.integers(1, 7)), int(rng.choice([1, 2, 3, 8])), int(rng.integers(40, 600))
            x = rng.integers(-30, 30, (k, d))[rng.integers(0, k, n)] + rng.integers(-3, 4, (n, d))
            select, least, samples = ("eom", "leaf")[seed % 2], int(rng.integers(2, 15)), int(rng.choice([1, 2, 5, 12, 40]))
            want = HDBSCAN(min_cluster_size=least, min_samples=samples, cluster_selection_method=select, copy=True).fit(x.astype(float))
            got = self.cluster(x, least, samples, select)
            found += max(got) + 1
            self.assertTrue(same_clusters(want.labels_, got), f"seed {seed} {select} {least} {samples}")
        self.assertGreater(found, 80)

    def test_many_points_far_from_zero(self):
        """More points than a list of neighbours reaches, whose products cancel; the same labels from every instruction set."""
        rng = np.random.default_rng(4)
        x = (rng.normal(0, 4, (20, 37))[rng.integers(0, 20, 2000)] + rng.normal(0, 1, (2000, 37)) + 3000).astype(np.float32)
        for samples in (1, 6):
            want = HDBSCAN(min_cluster_size=5, min_samples=samples, copy=True).fit(x.astype(float))
            got = self.cluster(x, 5, samples)
            self.assertTrue(same_clusters(want.labels_, got))
            self.assertEqual(max(got), 19)
            for isa in ("c", "avx2"):
                self.assertTrue(got == self.cluster(x, 5, samples, threads=3, TACHY_CPU=isa), isa)
            for scale in (2.0**100, 2.0**-30):
                self.assertTrue(got == self.cluster(x * np.float32(scale), 5, samples), scale)

    def test_few_and_equal_points(self):
        self.assertEqual(self.cluster(np.zeros((1, 4)), 2, 1), [-1])
        self.assertEqual(self.cluster(np.zeros((0, 4)), 2, 1), [])
        self.assertEqual(len(self.cluster(np.zeros((40, 3)), 5, 5)), 40)
        two = np.repeat([[0.0, 0], [9, 9]], 20, axis=0)
        self.assertEqual(self.cluster(two, 5, 5), [0] * 20 + [1] * 20)

    def test_points_that_are_no_numbers_are_in_no_cluster(self):
        x = np.random.default_rng(3).normal(size=(90, 16))
        x[:30] += 9
        bad = np.insert(x, [0, 5, 50, 90], np.zeros(16), axis=0)
        at = [0, 6, 52, 93]
        bad[at, [3, 0, 7, 15]] = [np.nan, np.inf, -np.inf, np.nan]
        self.assertEqual(len(self.cluster(np.eye(40) * 3e38, 5, 1)), 40)  # squares that overflow
        for samples in (1, 3):
            got = self.cluster(bad, 5, samples)
            self.assertEqual([got[i] for i in at], [-1] * 4)
            self.assertTrue(same_clusters(np.delete(got, at), self.cluster(x, 5, samples)))


class Faces(common.Case):
    @classmethod
    def setUpClass(cls):
        models("face", "face-mesh")

    def setUp(self):
        super().setUp()
        self.net = self.tmp / "net.onnx"
        self.net.symlink_to(shared("models/embed/mobilefacenet_diandianti.onnx").resolve())
        (self.tmp / "net.json").write_text(json.dumps(CARD))
        self.photos = shared("labels/faces")
        self.truth = self.identities()

    def identities(self):
        rows, of = list(csv.DictReader((self.photos / "master.csv").read_text().splitlines())), {}

        def find(x):
            while of.setdefault(x, x) != x:
                x = of[x]
            return x
        for r in rows:
            a, b = find(r["file_x"]), find(r["file_y"])
            if r["Decision"] == "Yes":
                of[a] = b
        return {f: find(f) for f in of}

    def faces(self, *args, inputs=None):
        """Lines by the stem of the input."""
        inputs = [self.photos / f for f in sorted(self.truth)] if inputs is None else inputs
        run("faces", "--embed", self.net, *inputs, "-o", f"{self.tmp}/out/", "-y", *args)
        return {p.stem: [json.loads(line) for line in (self.tmp / "out" / f"{p.stem}.faces.jsonl").read_text().splitlines()] for p in inputs}

    def people(self, folder="people"):
        """Person by the name of the input, of each face."""
        rows = csv.DictReader((self.tmp / folder / "faces.csv").read_text().splitlines())
        return [(r["input"].rsplit("/", 1)[1], r["person"]) for r in rows]

    def test_photos(self):
        lines = self.faces("--people", self.tmp / "people")
        session = onnxruntime.InferenceSession(str(self.net.resolve()), providers=["CPUExecutionProvider"])
        vectors = []
        for name in sorted(self.truth):
            region, = lines[name.rsplit(".", 1)[0]][0]["regions"]
            p = np.array(region["points"])[:, :2]
            five = np.array([(p[33] + p[133]) / 2, (p[362] + p[263]) / 2, p[4], p[61], p[291]]) - 0.5
            picture = cv2.imread(str(self.photos / name))
            x, y = five - five.mean(0), TEMPLATE - TEMPLATE.mean(0)
            c = ((x * y).sum() + 1j * (x[:, 0] * y[:, 1] - x[:, 1] * y[:, 0]).sum()) / (x * x).sum()
            m = np.array([[c.real, -c.imag], [c.imag, c.real]])
            m = np.hstack([m, (TEMPLATE.mean(0) - m @ five.mean(0))[:, None]])
            small = max(1, int(1 / abs(c)))  # area averages first, because shrinking by a warp alone would alias
            picture = cv2.resize(picture, None, fx=1 / small, fy=1 / small, interpolation=cv2.INTER_AREA)
            shift = (small - 1) / 2
            m = np.hstack([m[:, :2] * small, (m[:, :2] @ [shift, shift] + m[:, 2])[:, None]])
            crop = cv2.warpAffine(picture, m, (112, 112), borderMode=cv2.BORDER_REPLICATE)
            v = session.run(None, {session.get_inputs()[0].name: (crop[None, :, :, ::-1].transpose(0, 3, 1, 2).astype(np.float32) - 127.5) / 128})[0][0]
            self.assertGreater(v @ region["embedding"] / np.linalg.norm(v), 0.95, name)
            vectors.append(region["embedding"])
        person = dict(self.people())
        got = [person[f] for f in sorted(self.truth)]
        want = HDBSCAN(min_cluster_size=2, min_samples=1, copy=True).fit(np.array(vectors)).labels_
        numbers = {name: i for i, name in enumerate(sorted(set(got) - {""}))}
        self.assertTrue(same_clusters(want, [numbers.get(p, -1) for p in got]))
        truth = [self.truth[f] for f in sorted(self.truth)]
        pairs = [(truth[i] == truth[j], got[i] == got[j] != "") for i, j in itertools.combinations(range(len(got)), 2)]
        hit = sum(a and b for a, b in pairs)
        self.assertGreaterEqual(2 * hit / (sum(a for a, _ in pairs) + sum(b for _, b in pairs)), 0.95)
        for name, who in person.items():  # a folder for each, with links and a montage of all its faces
            self.assertTrue((self.tmp / "people" / who / name).samefile(self.photos / name) or
                            (self.tmp / "people" / who / name).read_bytes() == (self.photos / name).read_bytes())
        n = got.count(got[0])
        side = int(np.ceil(np.sqrt(n)))
        montage = cv2.imread(str(self.tmp / "people" / got[0] / "montage.png"))
        self.assertEqual(montage.shape[:2], (112 * -(-n // side), 112 * side))

    def test_clusters_of_one_person_are_joined(self):
        """The smallest clusters split people; those whose means are near are one person again, and nobody else's."""
        count = {}
        for join in ("1", "0.6"):
            self.faces("--people", self.tmp / join, "--cluster-select", "leaf", "--join", join)
            of = {}
            for name, who in self.people(join):
                if who:
                    of.setdefault(who, set()).add(self.truth[name])
            self.assertTrue(all(len(v) == 1 for v in of.values()))
            count[join] = len(of)
        self.assertLess(count["0.6"], count["1"])

    def test_names_stay_and_new_photos_find_them(self):
        groups = {}
        for f, who in sorted(self.truth.items()):
            groups.setdefault(who, []).append(f)
        a, b = sorted(groups.values(), key=len)[-2:]
        first = [self.photos / f for f in a[:-1] + b[:-1]]
        names = self.tmp / "names.csv"
        self.faces("--people", self.tmp / "people", "--names-file", names, inputs=first)
        person = dict(self.people())
        self.assertEqual(len(set(person.values())), 2)
        names.write_text(names.read_text().replace(person[a[0]], "Ada").replace(person[b[0]], "Ben"))
        self.faces("--people", self.tmp / "later", "--names-file", names, "--put", "copies", inputs=[self.photos / f for f in (a[-1], b[-1])])
        self.assertEqual(dict(self.people("later")), {a[-1]: "Ada", b[-1]: "Ben"})
        self.assertEqual((self.tmp / "later" / "Ada" / a[-1]).stat().st_nlink, 1)
        self.assertEqual([r["name"] for r in csv.DictReader(names.read_text().splitlines())].count("Ada"), 1)

    def test_a_track_is_one_person_and_filters_leave_faces_out(self):
        a, b = [next(f for f, w in sorted(self.truth.items()) if w == who) for who in sorted(set(self.truth.values()))[:2]]
        frames = []
        for t in range(12):
            frame = np.full((512, 1024, 3), 90, np.uint8)
            for i, f in enumerate((a, b)):
                photo = cv2.imread(str(self.photos / f))
                photo = cv2.resize(photo, (400, int(400 * photo.shape[0] / photo.shape[1])))[:480]
                frame[10:10 + len(photo), 30 + 520 * i + 4 * t:430 + 520 * i + 4 * t] = photo
            frames.append(frame)
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "bgr24", "-s", "1024x512", "-r", "25", "-i", "-", "-c:v",
                        "ffv1", str(self.tmp / "clip.mkv")], input=b"".join(f.tobytes() for f in frames), check=True)
        self.faces("--people", self.tmp / "people", "--cluster-size", "2", "--detect-every", "1", inputs=[self.tmp / "clip.mkv", self.photos / a])
        rows = list(csv.DictReader((self.tmp / "people" / "faces.csv").read_text().splitlines()))
        of = {}
        for r in rows:
            of.setdefault((r["input"], r["track"]), set()).add(r["person"])
        self.assertEqual({len(v) for v in of.values()}, {1})
        clip = {r["track"]: r["x"] for r in rows if r["input"].endswith("clip.mkv")}
        self.assertEqual(len(clip), 2)
        odd = self.tmp / 'a "b", c\\d.jpg'  # a name that CSV quotes
        odd.symlink_to(self.photos / a)
        self.faces("--people", self.tmp / "odd", inputs=[odd])
        rows = list(csv.DictReader((self.tmp / "odd" / "faces.csv").read_text().splitlines()))
        self.assertEqual({r["input"] for r in rows}, {str(odd)})
        lines = self.faces("--face-size", "4000", inputs=[self.photos / a])
        region = lines[a.rsplit(".", 1)[0]][0]["regions"][0]
        self.assertEqual((region["values"]["face_kept"], "embedding" in region), (0, False))

    def test_mistakes(self):
        for args, says in (((), "--embed FILE"), (("--embed", self.net, "--people", "p", "--parallel", "2"), "leave --parallel out"),
                           (("--embed", "face"), 'its card says task "detect"')):
            p = run("faces", "null:64x64@25,frames=1", "-o", self.tmp / "x.jsonl", *args, check=False)
            self.assertIn(says, p.stderr)
        (self.tmp / "bad.csv").write_text("name,faces,embedding\nAda,3,0.5\n")
        p = run("faces", "--embed", self.net, self.photos / sorted(self.truth)[0], "-o", self.tmp / "y.jsonl", "--names-file",
                self.tmp / "bad.csv", check=False)
        self.assertIn("bad.csv:2: 128 numbers are needed", p.stderr)
        self.assertEqual(p.returncode, 1)
        (self.tmp / "notes.txt").write_text("a list of mine\n")
        p = run("faces", "--embed", self.net, self.photos / sorted(self.truth)[0], "-o", self.tmp / "y2.jsonl", "--names-file",
                self.tmp / "notes.txt", check=False)
        self.assertIn("first line is not", p.stderr)
        self.assertEqual((self.tmp / "notes.txt").read_text(), "a list of mine\n")
        none = ("faces", "--embed", self.net, "null:64x64@25,frames=2", "-f", "null", "--people", self.tmp / "none", "-")
        run(*none)
        self.assertEqual(run(*none, check=False).returncode, 0)  # nobody was seen, so there is no list yet
        (self.tmp / "none").mkdir(exist_ok=True)
        (self.tmp / "none" / "faces.csv").write_text("mine")
        self.assertIn("already exists", run(*none, check=False).stderr)


if __name__ == "__main__":
    common.main()
