"""tachy categorize: tokens as open_clip's, categories and vectors as ONNX Runtime's and PyTorch's of generated networks, searches."""
import hashlib
import html.entities
import importlib.util
import json
import os
import random
import resource
import signal
import subprocess
import sys
import types
import unicodedata
import unittest
import zipfile

import cv2
import numpy as np
import onnxruntime

import clip_networks
import common
from common import run

WHEEL = common.DEPS / "wheels" / "open_clip_torch-3.3.0-py3-none-any.whl"
MERGES = "bpe_simple_vocab_16e6.txt.gz"
WORDS = r"""a photo of red car cat's don't we've I'll they're he'd I'm dog, the Über straße naïve CAFÉ façade İstanbul ΟΔΥΣΣΕΥΣ Σ ΑΣ.
Ελλάδα Москва Привет 東京 写真 こんにちは カタカナ ﾊﾝｶｸ ＦＵＬＬ　ＷＩＤＴＨ 한국어 עברית العربية हिन्दी ไทย தமிழ் 🚗 😀 👩‍👩‍👧‍👦 🇩🇪 ❤️ ½ ² ٣ 2026 3.14159 #tag @you
https://example.org/a?b=c&d=e ﬁne ﬂuﬃeﬆ ĳsland ŉ ǅ “quoted” ‘single’ ʼn … — – é é n̂ Å ſ 'ſ <b>bold</b> <start_of_text> <end_of_text>
&amp; &lt; &eacute; &EACUTE; &NTILDE; &hellip; &#233; &#xe9; &#x1F600; &amp;amp; &ampersand &notit; &copy &nope; &#0; &#150; &#x80; &#xfffe;
&#99999999; &;& & &Jscr; &fjlig; x² km/h $5 €10 100% [tag] {x} _under_score_ C++ a.b.c --- !!! ???! 𝔘𝔫𝔦 Ⅷ ⅷ Ⓐ Ǆ ẞ ﷺ 𐐀""".split()
WORDS += ["\u200bzero\u200dwidth", "\u00a0nbsp", "\u2003em", "\u3000id", "\u2028ls", "\u2029ps", "\x1b[31mred\x1b[0m", "\x07bell", "\ufeffbom",
          "\u206a", "\ufffc", "\u200fRTL"]
RANGES = [(0x21, 0x7e), (0xa1, 0x24f), (0x370, 0x5ff), (0x900, 0xfff), (0x1e00, 0x2fff), (0x3041, 0x30ff), (0x4e00, 0x9fff), (0xac00, 0xd7a3),
          (0x1f300, 0x1faff)]


def unpack(member, to):
    if not WHEEL.exists():
        raise unittest.SkipTest(f"{WHEEL.name} is not here; tools/setup --tests fetches it")
    with zipfile.ZipFile(WHEEL) as z:
        to.write_bytes(z.read(f"open_clip/{member}"))
    return to


def open_clip(folder):
    """open_clip's tokenizer, whose file imports torch only for the tensors that it gives back."""
    torch = types.ModuleType("torch")
    torch.LongTensor = torch.Tensor = object
    before, sys.modules["torch"] = sys.modules.get("torch"), torch
    spec = importlib.util.spec_from_file_location("open_clip_tokenizer", unpack("tokenizer.py", folder / "tokenizer.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if before:
        sys.modules["torch"] = before
    else:
        del sys.modules["torch"]
    return module.SimpleTokenizer()


def assigned(rng):
    """A character that Unicode 14 has, so that every program here knows what it is."""
    while True:
        c = chr(rng.randint(*rng.choice(RANGES)))
        if unicodedata.category(c) != "Cn":
            return c


def strings(n, seed):
    rng, entities, made = random.Random(seed), list(html.entities.html5), []
    for i in range(n):
        words = []
        for _ in range(rng.choice([0, 1, 2, 5, 8, 12, 30, 90]) if i % 10 else 200):
            words.append(rng.choices([rng.choice(WORDS), "&" + rng.choice(entities), "".join(rng.choices("abcdefghijklmnopqrstuvwxyzABCXYZ", k=9)),
                                      "".join(assigned(rng) for _ in range(rng.randint(1, 6))), str(rng.randint(0, 10 ** 9))], [70, 10, 10, 5, 5])[0])
        made.append(rng.choice([" ", " ", "  ", "\n", "", " \t ", "\r\n"]).join(words))
    return made


class Tokens(common.Case):
    def tokens(self, texts, room=77):
        out = subprocess.run([os.environ["TEXT_TOOL"], str(unpack(MERGES, self.tmp / MERGES)), str(room)], check=True, capture_output=True,
                             input="".join(t + "\0" for t in texts).encode()).stdout.decode()
        return [list(map(int, line.split())) for line in out.splitlines()]

    def test_1000_strings_as_open_clip(self):
        reference, texts = open_clip_at(self), strings(1000, 1)
        cut = 0
        for text, got in zip(texts, self.tokens(texts), strict=True):
            want = [reference.sot_token_id, *reference.encode(text), reference.eot_token_id]
            if len(want) > 77:
                want, cut = want[:76] + [reference.eot_token_id], cut + 1
            self.assertEqual(got, want, repr(text))
        self.assertGreater(cut, 100)

    def test_a_vocabulary_that_is_none(self):
        for text, says in (("", "0 pairs"), ("#version\ni n\nnothing here\n", ":3: is no pair")):
            (self.tmp / "bad.txt").write_text(text)
            clip_networks.make(self.tmp, self.tmp / "other" / "bad.txt", link=False)
            p = run("categorize", "null:64x64@25,frames=1", "--model", self.tmp / "clip.onnx", "--categories", self.write("c.txt", "a\nb\n"),
                    "-o", self.tmp / "x.jsonl", check=False)
            self.assertIn(says, p.stderr)
            self.assertEqual(p.returncode, 1)

    def write(self, name, text):
        (self.tmp / name).write_text(text)
        return self.tmp / name


def open_clip_at(case):
    unpack(MERGES, case.tmp / MERGES)
    return open_clip(case.tmp)


class Categorize(common.Case):
    classes = {"templates": ["a photo of a {}.", "the {}, in colour"], "classes": {"car": ["red car", "blue car"], "text": ["page of a book"], "dog": []}}

    def setUp(self):
        super().setUp()
        self.reference = open_clip_at(self)
        self.weights = clip_networks.make(self.tmp, self.tmp / MERGES, link=False)
        self.session = {n: onnxruntime.InferenceSession(str(self.tmp / n), providers=["CPUExecutionProvider"]) for n in ("clip.onnx", "clip-text.onnx")}
        self.pictures = [self.picture(i) for i in range(6)]
        (self.tmp / "classes.json").write_text(json.dumps(self.classes))
        self.net = ("--model", self.tmp / "clip.onnx")

    def picture(self, i):
        rng = np.random.default_rng(i)
        small = rng.integers(0, 256, (2 + 3 * i, 3 + i, 3), np.uint8)
        path = self.tmp / f"picture{i}.png"
        cv2.imwrite(str(path), cv2.resize(small, (224, 224), interpolation=cv2.INTER_NEAREST))
        return path

    def feed(self, path):
        x = cv2.imread(str(path))[:, :, ::-1] / 255
        return ((x - clip_networks.MEAN) / clip_networks.STD).transpose(2, 0, 1)[None].astype(np.float32)

    def tokens(self, text):
        ids = np.zeros((1, 77), np.int64)
        t = [self.reference.sot_token_id, *self.reference.encode(text), self.reference.eot_token_id]
        ids[0, :len(t)] = t
        return ids

    def unit(self, name, feed):
        s = self.session[name]
        v = s.run(None, {s.get_inputs()[0].name: feed})[0][0].astype(np.float64)
        return v / np.linalg.norm(v)

    def class_vectors(self):
        rows = []
        for name, phrases in self.classes["classes"].items():
            v = sum(self.unit("clip-text.onnx", self.tokens(t.replace("{}", p))) for p in phrases or [name] for t in self.classes["templates"])
            rows.append(v / np.linalg.norm(v))
        return np.array(rows)

    def lines(self, *args, inputs=None):
        run("categorize", *self.net, "--categories", self.tmp / "classes.json", *(inputs or self.pictures), "-o", f"{self.tmp}/out/", "-y", *args)
        return [json.loads((self.tmp / "out" / f"{p.stem}.categorize.jsonl").read_text())["regions"][0] for p in inputs or self.pictures]

    def test_scores_and_vectors_as_onnx_runtime(self):
        texts, names = self.class_vectors(), list(self.classes["classes"])
        for path, region in zip(self.pictures, self.lines("--vectors"), strict=True):
            v = self.unit("clip.onnx", self.feed(path))
            self.assertLess(np.abs(v - region["embedding"]).max(), 2e-4)
            p = np.exp(100 * texts @ v)
            p /= p.sum()
            self.assertEqual(region["label"], names[p.argmax()])
            self.assertEqual(sorted(region["values"]), sorted(names))
            for name, want in zip(names, p, strict=True):
                self.assertAlmostEqual(region["values"][name], want, delta=5e-3)
            self.assertAlmostEqual(region["score"], p.max(), delta=5e-3)

    def test_the_same_graph_in_pytorch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is not installed")
        t = clip_networks.Torch(self.weights)
        for path, region in zip(self.pictures, self.lines("--vectors"), strict=True):
            with torch.no_grad():
                v = clip_networks.image(t, torch.from_numpy(self.feed(path))).numpy()[0]
            self.assertLess(np.abs(v / np.linalg.norm(v) - region["embedding"]).max(), 2e-4)
        with torch.no_grad():
            want = clip_networks.text(t, torch.from_numpy(self.tokens("a red car"))).numpy()[0]
        self.assertLess(np.abs(want / np.linalg.norm(want) - self.unit("clip-text.onnx", self.tokens("a red car"))).max(), 1e-5)

    def test_least_score_and_top(self):
        full = self.lines()
        self.assertFalse(any("embedding" in r for r in full))
        for region, one in zip(full, self.lines("--top", "1"), strict=True):
            self.assertEqual(one["values"], {region["label"]: region["values"][region["label"]]})
        least = sorted(r["score"] for r in full)[3]
        for region, cut in zip(full, self.lines("--min-score", str(least)), strict=True):
            self.assertEqual("label" in cut, region["score"] >= least)
            self.assertTrue(all(v >= least for v in cut.get("values", {}).values()))
        run("categorize", *self.net, "--categories", self.tmp / "classes.json", self.pictures[0], "-o", self.tmp / "a.csv")
        self.assertIn(full[0]["label"], (self.tmp / "a.csv").read_text())

    def test_a_model_is_loaded_once_for_all_pictures(self):
        full = self.lines()
        for args in (["--parallel", "2"], ["--batch", "2", "--batching.dynamic.timeout_ms=1"]):
            said = run("categorize", *self.net, "--categories", self.tmp / "classes.json", *self.pictures, "-o", f"{self.tmp}/out/", "-y", "-v", "verbose",
                       "--workers", "2", *args).stderr
            self.assertEqual(said.count("clip.onnx was loaded in"), 2 if "--batch" in args else 1, said)
            self.assertEqual([json.loads((self.tmp / "out" / f"{p.stem}.categorize.jsonl").read_text())["regions"][0] for p in self.pictures], full)

    def test_texts_are_cached(self):
        cache = self.tmp / "cache"
        before, os.environ["XDG_CACHE_HOME"] = os.environ["XDG_CACHE_HOME"], str(cache)
        self.addCleanup(os.environ.__setitem__, "XDG_CACHE_HOME", before)
        first = self.lines()
        file, = (cache / "tachy" / "texts").glob("*.npy")
        vectors = np.load(file)
        self.assertEqual(vectors.shape, (8, 512))
        np.save(file, np.zeros_like(vectors))
        self.assertEqual({round(r["score"], 4) for r in self.lines()}, {0.3333})  # they are read again
        file.write_bytes(b"damaged")
        self.assertEqual(self.lines(), first)

    def test_search(self):
        clip = self.tmp / "clip.mkv"
        frames = b"".join(cv2.imread(str(self.pictures[i])).tobytes() for i in (4, 0, 2, 5, 1))
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "bgr24", "-s", "224x224", "-r", "5", "-i", "-", "-c:v", "ffv1",
                        "-pix_fmt", "bgr0", str(clip)], input=frames, check=True)
        store = self.tmp / "store.npy"
        run("categorize", *self.net, "--embeddings", store, self.pictures[3], clip, "-o", f"{self.tmp}/out/", "-y", "--workers", "4")
        rows = np.load(store).astype(np.float64)
        self.assertEqual((rows.shape, np.load(store).dtype), ((6, 512), np.float16))
        index = [json.loads(line) for line in (self.tmp / "store.jsonl").read_text().splitlines()]
        self.assertEqual([(i["file"].rsplit("/", 1)[1], i["frame"]) for i in index], [("picture3.png", 0)] + [("clip.mkv", k) for k in range(5)])
        for row, i in zip(rows, (3, 4, 0, 2, 5, 1), strict=True):
            self.assertLess(np.abs(row - self.unit("clip.onnx", self.feed(self.pictures[i]))).max(), 1e-3)
        found = json.loads(run("categorize", *self.net, "--embeddings", store, "--search", "a red car", "--like", self.pictures[2], "--hits", "4",
                               "--json").stdout)
        self.assertEqual([q["query"] for q in found], ["a red car", str(self.pictures[2])])
        for q, v in zip(found, (self.unit("clip-text.onnx", self.tokens("a red car")), self.unit("clip.onnx", self.feed(self.pictures[2]))), strict=True):
            want = rows @ v
            self.assertEqual([h["row"] for h in q["hits"]], list(np.argsort(-want)[:4]))
            for h in q["hits"]:
                self.assertAlmostEqual(h["score"], want[h["row"]], delta=1e-3)
                self.assertEqual(h["file"], index[h["row"]]["file"])
        self.assertEqual((found[1]["hits"][0]["row"], found[1]["hits"][0]["time"]), (3, 0.4))
        said = run("categorize", *self.net, "--embeddings", store, "--like", self.pictures[3], "--hits", "1").stdout
        self.assertEqual(said.splitlines()[1].split()[1], str(self.pictures[3]))
        both = run("categorize", *self.net, "--embeddings", self.tmp / "b.npy", self.pictures[1], "-o", self.tmp / "b.jsonl", "--search", "a dog").stdout
        self.assertIn("a dog\n", both)
        (self.tmp / "store.jsonl").write_text("{}\n")
        p = run("categorize", *self.net, "--embeddings", store, "--search", "a", check=False)
        self.assertIn("store.jsonl: ends before row", p.stderr)

    def test_vocabulary_comes_with_the_card(self):
        card, folder = json.loads((self.tmp / "clip.json").read_text()), self.tmp / "zoo"
        folder.mkdir()
        sha = hashlib.sha256((self.tmp / MERGES).read_bytes()).hexdigest()
        card["text"]["vocabulary"] |= {"sha256": sha, "sources": [{"wheel": {
            "package": "open_clip_torch", "version": "3.3.0", "file": WHEEL.name, "sha256": hashlib.sha256(WHEEL.read_bytes()).hexdigest(),
            "member": f"open_clip/{MERGES}", "member_sha256": sha}}]}
        card["sources"] = [{"file": str(self.tmp / "clip.onnx")}]
        card["text"]["sources"] = [{"file": str(self.tmp / "clip-text.onnx")}]
        (folder / "wheels").mkdir()
        (folder / "wheels" / WHEEL.name).symlink_to(WHEEL.resolve())
        (folder / "clip.json").write_text(json.dumps(card))
        self.net = ("--model", "clip-generated", "--model-dir", folder)
        args = ("categorize", *self.net, "--categories", self.tmp / "classes.json", self.pictures[0], "-o", self.tmp / "x.jsonl", "-y")
        self.assertIn("tachy model pull clip-generated", run(*args, check=False).stderr)
        run("model", "pull", "clip-generated", "--model-dir", folder)
        self.assertEqual((folder / MERGES).read_bytes(), (self.tmp / MERGES).read_bytes())
        run(*args)
        run("model", "verify", "clip-generated", "--model-dir", folder)
        (folder / MERGES).write_bytes(b"x")
        (self.tmp / "classes.json").write_text(json.dumps({"classes": {"another": []}}))
        self.assertIn("SHA-256", run(*args, check=False).stderr)
        run("model", "pull", "clip-generated", "--model-dir", folder)
        run(*args)

    def test_inside_curate(self):
        want = [r["label"] for r in self.lines()]
        run("curate", "--tasks", "quality,categorize", "--keep", f'category != "{want[0]}"',
            "--categorize.model", self.tmp / "clip.onnx", "--categorize.classes", self.tmp / "classes.json", *self.pictures, "-o", self.tmp / "found")
        got = [json.loads(line) for line in (self.tmp / "found" / "results.jsonl").read_text().splitlines()]
        self.assertEqual([g["categorize"]["regions"][0]["label"] for g in got], want)
        self.assertEqual([g["keep"] for g in got], [w != want[0] for w in want])

    def test_mistakes(self):
        def said(*args, **kw):
            p = run("categorize", *args, check=False, **kw)
            self.assertNotEqual(p.returncode, 0, args)
            return p.stderr
        one, out = self.pictures[0], ("-o", self.tmp / "x.jsonl")
        self.assertIn("--model FILE", said(one, *out, "--vectors"))
        self.assertIn("--categories FILE", said(one, *out, *self.net))
        self.assertIn("--embeddings FILE.npy", said(one, *out, *self.net, "--vectors", "--search", "x"))
        self.assertIn("must end in .npy", said(one, *out, *self.net, "--embeddings", self.tmp / "x.bin"))
        self.assertIn("leave --parallel out", said(one, self.pictures[1], "-o", f"{self.tmp}/o/", *self.net, "--embeddings", self.tmp / "x.npy", "--parallel", "2"))
        for text, says in (('{"classes": {}}', "`classes` must be an object"), ('{"classes": {"a": "b"}}', "`classes.a` must be a list"),
                           ('{"classes": {"a": []}, "templates": ["x"]}', "has no {}"), ('{"clases": {}}', "`clases` is not known"), ("{", "is not valid JSON"),
                           ("\n# nothing\n", "`classes` must be an object")):
            (self.tmp / "bad").write_text(text)
            self.assertIn(says, said(one, *out, *self.net, "--categories", self.tmp / "bad"))
        def small():  # no file may have more than 4 KiB
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        full = run("categorize", *self.net, *self.pictures, "-f", "null", "-o", f"{self.tmp}/none/", "--embeddings", self.tmp / "full.npy", check=False,
                   preexec_fn=small, restore_signals=False)
        self.assertIn(f"{self.tmp}/full.npy: cannot be written: File too large", full.stderr)
        self.assertNotEqual(full.returncode, 0)
        self.assertEqual(list(self.tmp.glob("full*")), [])
        (self.tmp / "there.npy").write_text("")
        self.assertIn("already exists", said(one, *out, *self.net, "--embeddings", self.tmp / "there.npy"))
        self.assertIn("is empty", said(*self.net, "--embeddings", self.tmp / "there.npy", "--search", "x"))
        np.save(self.tmp / "wide.npy", np.zeros((3, 512), np.float32))
        self.assertIn("float16", said(*self.net, "--embeddings", self.tmp / "wide.npy", "--search", "x"))
        np.save(self.tmp / "other.npy", np.zeros((3, 100), np.float16))
        self.assertIn("must hold 100", said(*self.net, "--embeddings", self.tmp / "other.npy", "--search", "x"))
        self.assertIn("name the network that made the file", said(*self.net, "--embeddings", self.tmp / "other.npy", "--like", one))
        card = json.loads((self.tmp / "clip.json").read_text())
        del card["text"]
        (self.tmp / "clip.json").write_text(json.dumps(card))
        self.assertIn("has no `text`", said(one, *out, *self.net, "--categories", self.tmp / "classes.json"))
        self.assertIn("curate does not take it", run("curate", "--tasks", "categorize", "--categorize.model", self.tmp / "clip.onnx", "--categorize.search",
                                                     "x", one, "-o", self.tmp / "f", check=False).stderr)


if __name__ == "__main__":
    common.main()
