"""Operators of libtachy_ep.so beside those of test_provider.py: random shapes against ONNX Runtime's
CPU provider, and ONNX's own tests of operators, whose list is in docs/provider.md."""
import re
import unittest
import warnings

import common
import test_provider as provider

np = onnx = ort = None
DOCS = common.ROOT / "docs/provider.md"


def setUpModule():
    global np, onnx, ort
    provider.setUpModule()
    np, onnx, ort = provider.np, provider.onnx, provider.ort


tearDownModule = provider.tearDownModule


def net_of(nodes, x):
    return provider.net(nodes, {"x": x.shape}, "y")


def whole(model, *feed):
    """What we, who take all of it, make of the inputs."""
    ours = provider.both(model, whole=True)[1]
    return ours.run(None, dict(zip((i.name for i in ours.get_inputs()), feed)))[0]


class Operators(provider.OperatorCase):
    def op(self, *args, **kw):
        super().op(*args, whole=True, **kw)

    def truth(self, *shape):
        return self.rng.random(shape) < 0.5

    def test_products(self):
        for a, b in (((5, 33), (33, 17)), ((2, 3, 5, 33), (2, 3, 33, 17)), ((2, 3, 5, 33), (3, 33, 17)),
                     ((3, 1, 4, 8), (5, 8, 6)), ((4, 7, 9), (9, 5)), ((9,), (9, 5)), ((4, 6, 9), (9,)), ((9,), (9,))):
            self.op("MatMul", a, b)
        self.op("MatMul", (2, 3, 5, 12), constants=[self.random(2, 3, 12, 7)])
        for ta in (0, 1):
            for tb in (0, 1):
                a, b = (9, 6) if ta else (6, 9), (5, 9) if tb else (9, 5)
                self.op("Gemm", a, b, (6, 5), transA=ta, transB=tb, alpha=0.5, beta=2.0)
                self.op("Gemm", a, constants=[self.random(*b), self.random(5)], transA=ta, transB=tb, alpha=1.5)
                self.op("FusedMatMul", (2,) + a, (2,) + b, transA=ta, transB=tb, alpha=0.125, out_shape=(2, 6, 5),
                        domain="com.microsoft")

    def test_attention(self):
        """As exporters write it: three products with computed sides, transposes, softmax."""
        make, c = onnx.helper.make_node, 32
        nodes = [make("LayerNormalization", ["x", "g", "b"], ["n"])]
        for i in "qkv":
            nodes += [make("MatMul", ["n", "w" + i], ["m" + i]), make("Reshape", ["m" + i, "heads"], ["h" + i])]
        nodes += [make("Transpose", ["hq"], ["q"], perm=[0, 2, 1, 3]), make("Transpose", ["hk"], ["k"], perm=[0, 2, 3, 1]),
                  make("Transpose", ["hv"], ["v"], perm=[0, 2, 1, 3]), make("MatMul", ["q", "k"], ["s"]),
                  make("Mul", ["s", "scale"], ["t"]), make("Softmax", ["t"], ["p"]), make("MatMul", ["p", "v"], ["o"]),
                  make("Transpose", ["o"], ["r"], perm=[0, 2, 1, 3]), make("Reshape", ["r", "flat"], ["f"]),
                  make("MatMul", ["f", "wo"], ["z"]), make("Gelu", ["z"], ["e"]), make("Add", ["x", "e"], ["y"])]
        constants = [("w" + i, self.random(c, c) / 6) for i in "qkvo"] + [
            ("g", self.random(c)), ("b", self.random(c)), ("scale", np.float32(0.35)),
            ("heads", np.array([0, 0, 4, c // 4])), ("flat", np.array([0, 0, c]))]
        self.check(nodes, {"x": (2, 10, c)}, constants=constants, opset=20, whole=True, limit=5e-6)

    def test_convolutions(self):
        w = self.random
        self.op("Conv", (2, 6, 9, 7), (8, 3, 3, 3), group=2, pads=[1, 1, 1, 1])  # weights as an input
        self.op("Conv", (1, 6, 9, 7), (6, 1, 3, 3), constants=[w(6)], group=6, strides=[2, 2])
        self.op("Conv", (2, 6, 31), constants=[w(8, 3, 5), w(8)], group=2, pads=[2, 1], strides=[2], dilations=[2])
        self.op("Conv", (2, 6, 31), constants=[w(8, 6, 4)], auto_pad="SAME_LOWER", strides=[3])
        self.op("ConvTranspose", (2, 6, 11), constants=[w(6, 4, 3), w(4)], strides=[2], output_padding=[1])
        self.op("ConvTranspose", (1, 6, 7, 5), constants=[w(6, 4, 3, 2)], dilations=[2, 3], pads=[1, 0, 2, 1])
        for pad in ("SAME_UPPER", "SAME_LOWER", "VALID"):
            self.op("ConvTranspose", (1, 6, 7, 5), constants=[w(6, 4, 3, 4)], strides=[2, 3], auto_pad=pad)
        self.op("ConvTranspose", (1, 6, 7, 5), constants=[w(6, 4, 3, 3)], strides=[2, 2], output_shape=[14, 10])
        for size, dilation in ((19, 1), (22, 3)):  # Winograd's, of tiles that hang over the edges
            self.op("Conv", (2, 48, size, 37), constants=[w(40, 48, 3, 3) / 20, w(40)], dilations=[dilation] * 2,
                    pads=[dilation, dilation, 0, dilation])
        self.op("FusedConv", (1, 6, 9, 7), constants=[w(4, 6, 3, 3), w(4)], activation="LeakyRelu",
                activation_params=[0.2], out_shape=(1, 4, 7, 5), domain="com.microsoft")
        self.op("AveragePool", (1, 6, 9, 8), kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1)
        self.op("AveragePool", (1, 6, 9, 8), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1)
        self.op("MaxPool", (2, 6, 31), kernel_shape=[3], strides=[2], pads=[1, 1])
        self.op("AveragePool", (2, 6, 31), kernel_shape=[4], strides=[3], count_include_pad=1, pads=[1, 2])
        self.op("GlobalAveragePool", (2, 6, 31))

    def test_volumes(self):
        """Three dimensions of pixels, in every form that pictures have."""
        w = self.random
        self.op("Conv", (2, 6, 5, 9, 7), constants=[w(8, 6, 3, 3, 3) / 9, w(8)], pads=[1] * 6)
        self.op("Conv", (1, 6, 7, 9, 8), constants=[w(8, 3, 3, 2, 3), w(8)], group=2, pads=[1, 0, 2, 2, 1, 0], strides=[2, 1, 2])
        self.op("Conv", (1, 6, 9, 8, 7), constants=[w(6, 1, 3, 3, 3), w(6)], group=6, dilations=[2, 1, 2])
        self.op("Conv", (1, 4, 6, 5, 7), constants=[w(5, 4, 1, 1, 1)])
        for batch, c in ((2, 1), (1, 3), (1, 6)):  # few channels
            self.op("Conv", (batch, 6, 9, 8, 7), constants=[w(c, 6, 5, 3, 3) / 9, w(c)], pads=[4, 1, 1, 3, 0, 1], dilations=[2, 1, 1], strides=[1, 2, 1])
        self.op("Conv", (1, 4, 6, 5, 7), (5, 4, 2, 3, 1), pads=[0, 1, 0, 1, 1, 0])  # weights as an input
        for pad in ("SAME_UPPER", "SAME_LOWER", "VALID"):
            self.op("Conv", (1, 3, 7, 6, 5), constants=[w(4, 3, 4, 2, 3)], strides=[2, 2, 1], auto_pad=pad)
        self.op("ConvTranspose", (1, 6, 4, 5, 3), constants=[w(6, 4, 3, 3, 3), w(4)], strides=[2, 2, 2], pads=[1] * 6,
                output_padding=[1, 1, 0])
        self.op("ConvTranspose", (2, 4, 3, 5, 4), constants=[w(4, 3, 4, 2, 2), w(6)], group=2, strides=[3, 2, 1], pads=[0, 1, 0, 2, 0, 0])
        self.op("ConvTranspose", (1, 4, 3, 5, 4), constants=[w(4, 3, 2, 3, 3)], dilations=[2, 1, 1])
        for name in ("MaxPool", "AveragePool"):
            self.op(name, (2, 3, 7, 9, 8), kernel_shape=[2, 3, 2], strides=[2, 2, 1])
            self.op(name, (2, 3, 7, 9, 8), kernel_shape=[3, 3, 3], strides=[2, 2, 2], pads=[1] * 6, ceil_mode=1)
            self.op(name, (2, 3, 6, 9, 8), kernel_shape=[1, 3, 3], pads=[0, 1, 1, 0, 1, 1])
        self.op("AveragePool", (2, 3, 7, 9, 8), kernel_shape=[3, 3, 2], pads=[1, 1, 0, 1, 1, 1], count_include_pad=1)
        self.op("AveragePool", (2, 3, 4, 5, 6), kernel_shape=[4, 5, 6])
        none = np.array([], np.float32)
        for coords in ("half_pixel", "asymmetric", "align_corners"):
            for mode in ("linear", "nearest"):
                self.op("Resize", (2, 3, 4, 5, 6), constants=[none, none, np.array([2, 3, 7, 10, 9])], mode=mode,
                        coordinate_transformation_mode=coords, limit=1e-5)
        self.op("Resize", (1, 3, 4, 5, 6), constants=[none, np.array([1, 1, 1, 2, 2], np.float32)], mode="nearest")
        self.left("Resize", (1, 2, 3, 4, 5), constants=[none, np.array([1, 2, 1, 1, 1], np.float32)], mode="nearest")
        make = onnx.helper.make_node  # a volume that is warped by what it shows, as generators of faces do
        nodes = [make("Conv", ["x", "w"], ["a"], pads=[1] * 6), make("Relu", ["a"], ["r"]),
                 make("Conv", ["r", "v"], ["f"], pads=[1] * 6), make("Tanh", ["f"], ["t"]),
                 make("Transpose", ["t"], ["g"], perm=[0, 2, 3, 4, 1]), make("GridSample", ["a", "g"], ["y"])]
        self.check(nodes, {"x": (1, 4, 5, 6, 7)}, opset=20, whole=True, limit=2e-5,
                   constants=[("w", w(6, 4, 3, 3, 3) / 9), ("v", w(3, 6, 3, 3, 3) / 20)])

    def test_shape_that_is_inferred_wrong(self):
        """SAME_* with output_padding: ONNX infers a pixel more than is computed, also for what comes after. Such
        nodes are left, as are those that read what they make; what does not depend on them is taken."""
        w, make = self.random, onnx.helper.make_node
        for how in ("SAME_UPPER", "SAME_LOWER"):
            for kernel, stride, more in ((3, 2, 1), (4, 3, 2), (2, 2, 1), (1, 2, 1), (2, 3, 1), (2, 3, 0)):
                conv = {"strides": [stride] * 2, "auto_pad": how, "output_padding": [more] * 2}
                with self.subTest(how=how, kernel=kernel, stride=stride, more=more):
                    self.check([make("ConvTranspose", ["x", "w"], ["y"], **conv)], {"x": (2, 3, 7, 5)},
                               constants=[("w", w(3, 4, kernel, kernel))])
        nodes = [make("Conv", ["x", "v"], ["a"]), make("ConvTranspose", ["a", "w"], ["b"], auto_pad="SAME_UPPER",
                                                       strides=[2, 2], output_padding=[1, 1]),
                 make("Hardmax", ["b"], ["c"]), make("Conv", ["c", "u"], ["d"]), make("Relu", ["d"], ["y"])]
        context = provider.Context()
        self.check(nodes, {"x": (2, 3, 7, 5)}, own=context.own,
                   constants=[("v", w(3, 3, 1, 1)), ("w", w(3, 4, 3, 3)), ("u", w(5, 4, 3, 3))])
        ran = dict(context.ran())
        self.assertIn("as ONNX infers it", ran["ConvTranspose"])
        self.assertEqual(ran["Relu"], ran["ConvTranspose"])

    def left(self, *args, **kw):
        """The same of what ONNX Runtime keeps."""
        super().op(*args, whole=False, **kw)

    def test_other_forms(self):
        """Operators that become others: whole, and what has no such form is left."""
        i = lambda *v: np.array(v, np.int64)
        for axis in (0, 1, -1):
            for reverse in (0, 1):
                for exclusive in (0, 1):
                    self.op("CumSum", (3, 9, 20), constants=[np.int64(axis)], reverse=reverse, exclusive=exclusive)
        self.op("CumSum", (1, 128), constants=[np.int32(1)])
        self.left("CumSum", (1, 129), constants=[np.int64(1)])
        odd = np.array([[1, -0.0, np.inf, 2, -np.inf, 1], [np.nan, 1, 2, 3, 4, 5]], np.float32)
        model = provider.net([onnx.helper.make_node("Trilu", ["x"], ["y"])], {"x": odd.shape}, "y")
        np.testing.assert_array_equal(whole(model, odd), np.where(np.triu(np.ones(odd.shape, bool)), odd, 0))
        for shape in ((5, 5), (2, 3, 4, 6), (2, 6, 4)):
            for upper in (0, 1):
                for k in (None, -7, -1, 0, 2, 9):
                    self.op("Trilu", shape, constants=[] if k is None else [np.int64(k)], upper=upper)
        for axis in (-1, 0, 1):
            self.op("OneHot", (3, 4), constants=[np.int64(5), np.array([-1.5, 2], np.float32)], axis=axis,
                    feed=[self.rng.integers(-8, 9, (3, 4))])
        self.left("OneHot", (3,), constants=[np.float32(5), np.array([0, 1], np.float32)], feed=[np.array([-6, -5, 4], np.float32)])
        two = [("ij,jk->ik", (3, 4), (4, 5)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("bij,bkj->bik", (2, 3, 4), (2, 5, 4)),
               ("bnqd,bnkd->bnqk", (2, 3, 4, 5), (2, 3, 6, 5)), ("bqnd,bknd->bnqk", (2, 4, 3, 5), (2, 6, 3, 5)),
               ("bnqk,bknd->bqnd", (2, 3, 4, 6), (2, 6, 3, 5)), ("bhwc,hkc->bhwk", (1, 4, 5, 6), (4, 3, 6)),
               ("i,j->ji", (3,), (4,)), ("i,i->", (5,), (5,)), ("ij,ij->ij", (3, 4), (3, 4)), ("abc,cd", (2, 3, 4), (4, 5)),
               ("bchw,bc->bhw", (2, 3, 4, 5), (2, 3)), ("abk,cdk->adbc", (2, 3, 4), (5, 6, 4)), ("ij,kl->il", (2, 3), (4, 5)),
               (" i j , j k -> k i ", (3, 4), (4, 5)), ("nchw,nmhw->ncm", (2, 3, 4, 5), (2, 6, 4, 5))]
        for equation, a, b in two:
            self.op("Einsum", a, b, equation=equation)
            self.op("Einsum", a, constants=[self.random(*b)], equation=equation)
        for opset, axis in ((17, {"axis": 1}), (20, {})):
            for shape in ((2, 12, 1), (3, 10, 2)):
                for length in (None, 7, 16):
                    size = [np.array(length)] if length else []
                    size += [np.array(1)] if opset == 20 and length else []
                    self.op("DFT", shape, constants=size, opset=opset, limit=5e-6, **axis)
                    self.op("DFT", shape, constants=size, opset=opset, inverse=1, limit=5e-6, **axis)
                    if shape[2] == 1:
                        self.op("DFT", shape, constants=size, opset=opset, onesided=1, limit=5e-6, **axis)
        self.op("DFT", (2, 5, 6, 1), limit=5e-6, axis=1, out_shape=(2, 5, 6, 2))
        self.left("DFT", (1, 1025, 1), axis=1, out_shape=(1, 1025, 2))
        for axis, scale in ((-1, 6), (1, (4, 6))):
            self.op("RMSNormalization", (3, 4, 6), constants=[self.random(*np.atleast_1d(scale))], axis=axis, opset=23)
        for equation, a in (("ij->ji", (3, 4)), ("abc->b", (2, 3, 4)), ("ba", (3, 4)), ("ij->", (3, 4))):
            self.op("Einsum", a, equation=equation)
        for equation, shapes in (("...ij,...jk->...ik", [(2, 3, 4), (2, 4, 5)]), ("ii->i", [(4, 4)]),
                                 ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]), ("ij,jk->ik", [(3, 1), (4, 5)])):
            self.left("Einsum", *shapes, equation=equation)

    def test_odd_values(self):
        """A slope that is infinite where it does not count, and a limit that is no number."""
        make, inf, nan = onnx.helper.make_node, np.inf, np.nan
        x = np.array([[1, -2, 0, inf, nan, -0.5]], np.float32)
        slope = np.array([[inf, 0.5, -inf, nan, 1, inf]], np.float32)
        limit = [("k", np.array([[nan]], np.float32))]
        for node, feed, constants, want in (
                (make("PRelu", ["x", "s"], ["y"]), {"x": x, "s": slope}, [], [1, -1, 0, inf, nan, -inf]),
                (make("Max", ["x", "k"], ["y"]), {"x": x}, limit, [nan] * 6),
                (make("Min", ["k", "x"], ["y"]), {"x": x}, limit, [nan] * 6)):
            model = provider.net([node], {n: v.shape for n, v in feed.items()}, "y", constants, opset=17)
            with self.subTest(op=node.op_type):
                got = provider.both(model, whole=True)[1].run(None, feed)[0]
                np.testing.assert_array_equal(got, np.array([want], np.float32))

    def test_place_on_a_border(self):
        """Sizes whose ratio is not exact put an output exactly on a pixel, which rounding up must not leave."""
        none, at = np.array([], np.float32), "coordinate_transformation_mode"
        for coords in ("pytorch_half_pixel", "half_pixel", "asymmetric"):
            for size in range(3, 40):
                self.op("Resize", (1, 2, 3, 15), constants=[none, none, np.array([1, 2, 3, size])], mode="nearest",
                        nearest_mode="ceil" if size == 11 else "round_prefer_floor", **{at: coords})

    def test_windows_that_are_not_there(self):
        """ceil_mode: ONNX infers a window that begins behind the input, which nobody computes. Such nodes are left."""
        make = onnx.helper.make_node
        for shape, pads, more in (((1, 3, 1, 8), [1, 0, 2, 0], {"kernel_shape": [3, 3], "strides": [3, 1]}),
                                  ((1, 3, 4, 4), [1, 1, 1, 1], {"kernel_shape": [2, 2], "strides": [3, 3]})):
            nodes = [make("MaxPool", ["x"], ["p"], ceil_mode=1, pads=pads, **more), make("Conv", ["p", "w"], ["c"]), make("Relu", ["c"], ["y"])]
            with self.subTest(shape=shape, **more):
                self.check(nodes, {"x": shape}, constants=[("w", self.random(4, 3, 1, 1))])

    def test_elements(self):
        for name in ("Sin", "Cos", "Tan", "Sinh", "Cosh", "Atan", "Asinh", "Floor", "Ceil", "Round", "Sign",
                     "Reciprocal", "Softsign", "Selu", "Celu", "ThresholdedRelu", "Shrink", "IsNaN", "IsInf"):
            self.op(name, (2, 3, 4, 5), limit=1e-5)
        for name, x in (("Log", 0.1), ("Asin", 0), ("Acos", 0), ("Atanh", -0.01), ("Acosh", 1.5)):
            self.op(name, (3, 50), feed=[(x + self.rng.random((3, 50)) * 0.9).astype(np.float32)], limit=1e-5)
        self.op("QuickGelu", (2, 3, 40), alpha=1.7, out_shape=(2, 3, 40), domain="com.microsoft")
        for name in ("Min", "Max", "Sum", "Mean"):
            for n in (1, 2, 4):
                self.op(name, *[(2, 3, 4, 5), (3, 1, 1), (5,), (2, 1, 4, 1)][:n])
        for name in ("Add", "Mul", "Sub", "Div"):
            self.op(name, (2, 3, 1, 4, 5), (3, 6, 1, 5))
            self.op(name, (2, 1, 2, 1, 2, 1, 2, 3), (1, 3, 1, 3, 1, 3, 1, 3))
        self.op("Pow", (2, 30), constants=[np.float32(2)])
        self.op("Pow", (2, 30), constants=[np.int64(3)])
        self.op("Mod", (2, 3, 40), (40,), fmod=1)
        self.op("PRelu", (2, 3, 4, 5), (5,))
        self.op("Clip", (2, 3, 4, 5), (), constants=[np.float32(0.5)])

    def reference(self, name, feed, constants=(), opset=18, to=1, **attributes):
        """What ONNX's own evaluator and what we, taken whole, make of one node."""
        h = onnx.helper
        node = h.make_node(name, [*feed, *dict(constants)], ["y"], **attributes)
        types = {n: h.np_dtype_to_tensor_dtype(v.dtype) for n, v in feed.items()}
        model = provider.net([node], {n: v.shape for n, v in feed.items()}, "y", constants, opset=opset, types=types)
        ours = provider.both(model, whole=True)[1].run(None, feed)[0]
        return onnx.reference.ReferenceEvaluator(onnx.load_from_string(model)).run(None, feed)[0], ours

    def test_no_numbers(self):
        """What is no number stays so in extremes, also where ONNX Runtime makes one of it."""
        import onnx.reference  # noqa: F401
        for shape in ((2, 3, 4, 5), (1, 3, 40, 50), (2, 40, 6, 70)):
            x = self.random(*shape)
            odd = self.rng.choice(x.size, 9, replace=False)
            x.flat[odd] = [np.nan, np.inf, -np.inf, np.nan, np.nan, -np.inf, np.inf, np.nan, np.inf]
            cases = [("Reduce" + how, [("a", np.array(axes))], {"keepdims": 0}) for how in ("Max", "Min")
                     for axes in ([3], [1], [2, 3], [0], [0, 1, 2, 3], [1, 2])]
            cases += [("GlobalMaxPool", [], {})]
            cases += [(how, [("z", z)], {}) for how in ("Max", "Min") for z in (np.float32([0]), self.random(*shape[2:]))]
            for name, constants, attributes in cases:
                with self.subTest(op=name, shape=shape, **attributes):
                    np.testing.assert_array_equal(*self.reference(name, {"x": x}, constants, **attributes))
            # A window's, which ONNX's evaluator and ONNX Runtime lose by its place.
            node = onnx.helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 3], strides=[1, 2])
            windows = np.lib.stride_tricks.sliding_window_view(x, (2, 3), (2, 3))[:, :, :, ::2]
            np.testing.assert_array_equal(whole(net_of([node], x), x), windows.max((4, 5)))

    def test_beyond_integers(self):
        """Casts of what an integer does not hold: its limits (docs/provider.md)."""
        x = np.array([np.nan, np.inf, -np.inf, 1e20, -1e20, 3e9, -3e9, 2 ** 31, -2 ** 31, -0.9, 2.5], np.float32)
        make = onnx.helper.make_node
        for to, kind, most in ((6, np.int32, 2147483520), (7, np.int64, 9223371487098961920)):
            info = np.iinfo(kind)
            want = [info.min, most, info.min, *(min(max(int(v), info.min), most) for v in x[3:])]
            there = net_of([make("Cast", ["x"], ["y"], to=to)], x)
            back = net_of([make("Cast", ["x"], ["i"], to=to), make("Cast", ["i"], ["y"], to=1)], x)
            np.testing.assert_array_equal(whole(there, x), np.array(want, kind))
            got = whole(back, x)
            np.testing.assert_array_equal(got, np.array(want, np.float32))
            self.assertFalse(np.signbit(got[x == np.float32(-0.9)]).any())

    def test_beyond_pictures(self):
        """Coordinates of GridSample far outside: beyond that side. What is no number is left of and above all."""
        picture, far = np.arange(1, 13, dtype=np.float32).reshape(1, 1, 3, 4), [1e9, np.inf, 1e30]
        for align in (0, 1):
            for outside, first, last in (("zeros", 0, 0), ("border", 5, 8)):
                for mode in ("linear", "nearest"):
                    grid = np.zeros((1, 1, 8, 2), np.float32)
                    grid[0, 0, :, 0] = [np.nan, -np.nan, *(-v for v in far), *far]
                    node = onnx.helper.make_node("GridSample", ["x", "g"], ["y"], mode=mode, padding_mode=outside,
                                                 align_corners=align)
                    got = whole(provider.net([node], {"x": picture.shape, "g": grid.shape}, "y", opset=20), picture, grid)
                    np.testing.assert_array_equal(got.ravel(), [first] * 5 + [last] * 3)

    def test_truth(self):
        for name in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
            x = np.round(self.random(2, 3, 4, 5))
            self.op(name, (2, 3, 4, 5), (4, 1), feed=[x, np.round(self.random(4, 1))])
        for name in ("And", "Or", "Xor", "Equal"):
            self.op(name, (2, 3, 4), (3, 1), feed=[self.truth(2, 3, 4), self.truth(3, 1)])
        self.op("Not", (2, 3), feed=[self.truth(2, 3)])
        self.op("Where", (3, 1), (2, 3, 4), (4,), feed=[self.truth(3, 1), self.random(2, 3, 4), self.random(4)])
        self.op("Cast", (2, 3), feed=[self.rng.integers(0, 256, (2, 3)).astype(np.uint8)], to=1)
        self.op("Cast", (2, 3), feed=[self.rng.integers(-128, 128, (2, 3)).astype(np.int8)], to=7)
        self.op("Cast", (4, 9), feed=[self.random(4, 9) * 1e6], to=6)
        self.op("Cast", (4, 9), feed=[np.round(self.random(4, 9))], to=9)
        make = onnx.helper.make_node  # a mask that never leaves: a part of the picture by its own values
        nodes = [make("Conv", ["x", "w"], ["a"]), make("Greater", ["a", "half"], ["m"]), make("Not", ["m"], ["n"]),
                 make("Where", ["n", "a", "half"], ["s"]), make("Cast", ["m"], ["f"], to=1), make("Add", ["s", "f"], ["y"])]
        self.check(nodes, {"x": (2, 4, 9, 7)}, constants=[("w", self.random(6, 4, 1, 1)), ("half", np.float32(0.5))],
                   whole=True)

    def test_indices(self):
        i = self.rng.integers
        for axis, index in ((0, [1]), (1, [2, 0, 0]), (-1, [[0, 4], [-1, 2]]), (2, 3)):
            self.op("Gather", (2, 3, 4, 5), constants=[np.array(index)], axis=axis)
        self.op("GatherElements", (4, 3, 5), constants=[i(-2, 2, (2, 3, 5))], axis=0)
        self.op("GatherND", (2, 3, 4, 5), constants=[i(0, 2, (2, 6, 2))])
        self.op("GatherND", (2, 3, 4, 5), constants=[i(0, 3, (2, 6, 1))], batch_dims=1)
        for name in ("ArgMax", "ArgMin"):
            for axis, keep, last in ((0, 1, 0), (1, 0, 0), (3, 1, 1)):
                self.op(name, (2, 3, 4, 5), feed=[np.round(self.random(2, 3, 4, 5))], axis=axis, keepdims=keep,
                        select_last_index=last)
        make = onnx.helper.make_node  # what is found is looked up, as pose networks do
        nodes = [make("Conv", ["x", "w"], ["a"]), make("Reshape", ["a", "flat"], ["f"]),
                 make("ArgMax", ["f"], ["i"], axis=1, keepdims=0), make("Div", ["i", "width"], ["row"]),
                 make("Mul", ["row", "width"], ["start"]), make("Sub", ["i", "start"], ["column"]),
                 make("Concat", ["row", "column"], ["k"], axis=0), make("Cast", ["k"], ["y"], to=1)]
        constants = [("w", self.random(6, 4, 1, 1)), ("flat", np.array([12, 63])), ("width", np.int64(7))]
        self.check(nodes, {"x": (2, 4, 9, 7)}, constants=constants, whole=True)
        self.op("Tile", (2, 3, 4), constants=[np.array([2, 1, 3])])
        self.op("Slice", (2, 6, 7), constants=[np.array([5, -1]), np.array([-9, 1]), np.array([1, 2]), np.array([-1, -2])])
        for mode in ("edge", "reflect", "wrap"):
            self.op("Pad", (1, 3, 4, 5), constants=[np.array([0, 1, 2, 0, 0, 0, 1, 3])], mode=mode, opset=19)
        self.op("Pad", (1, 3, 4, 5), constants=[np.array([0, -1, 2, 0, 0, 0, -1, 3])])

    def test_scattered(self):
        i, w = self.rng.integers, self.random
        places = lambda *shape: self.rng.permuted(np.tile(np.arange(4), (*shape, 1)), axis=-1)[..., :3].swapaxes(1, 2)
        self.op("ScatterElements", (3, 4, 5), constants=[places(3, 5).copy(), w(3, 3, 5)], axis=1)
        self.op("ScatterElements", (3, 4, 5), constants=[places(3, 5) - 4, w(3, 3, 5)], axis=-2)
        for how in ("add", "mul", "max", "min"):
            self.op("ScatterElements", (6, 4, 5), constants=[i(-6, 6, (9, 4, 3)), w(9, 4, 3)], axis=0, reduction=how)
            self.op("ScatterND", (3, 4, 5, 2), constants=[i(-3, 3, (4, 6, 2)), w(4, 6, 5, 2)], reduction=how)
        # Exporters' form of x[:, 1:3, ::2] = y: indices of every element, or of lines; and a tensor of such indices.
        at = np.stack(np.meshgrid(np.arange(2), [1, 2], [0, 2, 4], indexing="ij"), -1)
        self.op("ScatterND", (2, 4, 5), constants=[at, w(2, 2, 3)])
        self.check([onnx.helper.make_node("ScatterND", ["x", "i", "u"], ["y"])], {"x": (2, 4, 5), "u": (1, 4, 5)}, whole=True,
                   constants=[("i", np.array([[1]]))])
        self.op("ScatterND", (2, 4, 5), constants=[np.array([0, 3, 1]), np.float32(7)])
        self.op("GatherND", (2, 4, 5), constants=[at])

    def test_best(self):
        """TopK: what is found and where, of equal numbers the first; as a detector uses it."""
        make, x = onnx.helper.make_node, np.round(self.random(3, 40, 6) * 4)
        for axis, k, largest in ((0, 2, 1), (1, 7, 0), (-1, 6, 1), (1, 1, 1), (1, 40, 1)):
            nodes = [make("TopK", ["x", "k"], ["v", "i"], axis=axis, largest=largest), make("Cast", ["i"], ["f"], to=1),
                     make("Concat", ["v", "f"], ["y"], axis=axis)]
            self.check(nodes, {"x": x.shape}, whole=True, feed={"x": x}, constants=[("k", np.array([k]))])
        nodes = [make("Conv", ["x", "w"], ["a"]), make("Reshape", ["a", "flat"], ["f"]), make("ReduceMax", ["f"], ["s"], axes=[1], keepdims=0),
                 make("TopK", ["s", "k"], ["v", "i"]), make("Unsqueeze", ["i", "one"], ["u"]), make("Expand", ["u", "many"], ["e"]),
                 make("GatherElements", ["f", "e"], ["y"], axis=2)]
        self.check(nodes, {"x": (1, 4, 9, 7)}, whole=True, constants=[
            ("w", self.random(6, 4, 1, 1)), ("flat", np.array([1, 6, 63])), ("k", np.array([10])), ("one", np.array([1])),
            ("many", np.array([1, 6, 10]))])

    def test_long_lines(self):
        """More than the steps work on at a time, along each axis; pictures with their channels last."""
        index = self.rng.integers(-5, 5, 2100)
        for axis in (0, 1, 2):
            shape = [5 if d == axis else 3 for d in range(3)]
            self.op("Gather", shape, constants=[index], axis=axis)
            self.op("Gather", shape, constants=[index[:6].reshape(2, 3)], axis=axis)
            self.op("Pad", [n * 9 for n in shape], constants=[np.array([2, 3, 1, 4, 0, 5])], mode="reflect")
        self.op("Gather", (2, 1100, 7), constants=[np.arange(1100)[::-1].copy()], axis=1)
        for axis in (0, 1, 2):
            for name in ("Softmax", "LogSoftmax"):
                self.op(name, (40, 3, 150), axis=axis, limit=5e-6)
            for how in ("Max", "Min", "Mean"):
                self.op("Reduce" + how, (70, 75, 67), axes=[axis])
        make, w = onnx.helper.make_node, self.random
        nodes = [make("Conv", ["x", "w"], ["a"], pads=[1] * 4), make("Pad", ["a", "p"], ["b"], mode="reflect"),
                 make("Gather", ["b", "i"], ["c"], axis=1), make("Conv", ["c", "v"], ["y"])]
        self.check(nodes, {"x": (2, 3, 20, 9)}, whole=True, constants=[
            ("w", w(6, 3, 3, 3)), ("p", np.array([0, 0, 2, 1, 0, 0, 1, 3])), ("i", np.array([4, -1, 0, 2, 1])), ("v", w(4, 5, 3, 3))])

    def test_norms(self):
        w = self.random
        self.op("LayerNormalization", (2, 5, 33), constants=[w(33), w(33)], limit=5e-6)
        self.op("LayerNormalization", (2, 5, 4, 6), constants=[w(4, 6)], axis=2, epsilon=1e-3, limit=5e-6)
        for shape in ((2, 6, 9), (2, 6, 5, 7), (1, 6, 3, 4, 5)):
            self.op("InstanceNormalization", shape, constants=[w(6), w(6)], limit=5e-6)
        self.op("GroupNormalization", (2, 6, 5, 7), constants=[w(6), w(6)], num_groups=3, opset=21, limit=5e-6,
                out_shape=(2, 6, 5, 7))
        make = onnx.helper.make_node  # in the middle of channels last
        nodes = [make("Conv", ["x", "w"], ["a"]), make("InstanceNormalization", ["a", "s", "b"], ["n"]),
                 make("Relu", ["n"], ["r"]), make("Conv", ["r", "v"], ["y"])]
        self.check(nodes, {"x": (2, 4, 9, 7)}, whole=True, limit=5e-6,
                   constants=[("w", w(6, 4, 3, 3)), ("v", w(3, 6, 1, 1)), ("s", w(6)), ("b", w(6))])
        self.op("BatchNormalization", (4, 6), constants=[w(6), w(6), w(6), w(6) ** 2 + 1])
        self.op("LpNormalization", (4, 6, 3), axis=1, p=1)
        self.op("LogSoftmax", (4, 10, 3), axis=1, limit=5e-6)
        self.op("Softmax", (4, 10, 3), axis=1, opset=11)
        for how in ("L1", "L2", "SumSquare", "LogSumExp", "Prod", "Max", "Mean"):
            self.op("Reduce" + how, (2, 3, 4, 5), axes=[1, 3], keepdims=0)

    def test_samples(self):
        w = self.random
        none = np.array([], np.float32)
        for coords in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
            for size in ((14, 18), (5, 20), (3, 1)):
                self.op("Resize", (1, 5, 7, 9), constants=[none, none, np.array([1, 5, *size])], mode="cubic",
                        coordinate_transformation_mode=coords, limit=1e-5)
        self.op("Resize", (1, 5, 7, 9), constants=[none, np.array([1, 1, 1.7, 0.6], np.float32)], mode="cubic",
                exclude_outside=1, cubic_coeff_a=-0.5, limit=1e-5)
        self.op("Resize", (2, 5, 9), constants=[none, np.array([1, 1, 2], np.float32)], mode="linear", limit=1e-5)
        for outside in ("zeros", "border", "reflection"):
            for align in (0, 1):
                for mode in ("linear", "nearest", "cubic"):
                    self.op("GridSample", (2, 3, 7, 9), (2, 5, 4, 2), mode=mode, padding_mode=outside,
                            align_corners=align, opset=20, limit=2e-5)
                for mode in ("linear", "nearest"):
                    self.op("GridSample", (1, 3, 4, 5, 6), (1, 3, 5, 4, 3), mode=mode, padding_mode=outside,
                            align_corners=align, opset=20, limit=2e-5)

    def test_whole_number_inputs(self):
        """int32 and int64 inputs that are read as float32, as indices, as truth values or compared with constants:
        as a text encoder has them, also where float32 does not hold them. What needs each number exactly is left."""
        make, c, check = onnx.helper.make_node, ("t", self.random(40, 8)), self.check
        for kind in (np.int32, np.int64):
            ids = self.rng.integers(-40, 40, (2, 7)).astype(kind)
            far = np.array([0, 5, 6, 2 ** 24 + 1, -2 ** 24 - 1, 2 ** 31 - 1, -2 ** 31], kind)
            nodes = [make("Unsqueeze", ["i", "a"], ["u"]), make("Gather", ["t", "u"], ["g"]), make("Squeeze", ["g", "a"], ["s"]),
                     make("MatMul", ["s", "w"], ["m"]), make("Greater", ["i", "k"], ["b"]), make("Cast", ["b"], ["f"], to=1),
                     make("Unsqueeze", ["f", "l"], ["v"]), make("Mul", ["m", "v"], ["y"])]
            check(nodes, {"i": (2, 7)}, whole=True, feed={"i": ids},
                  constants=[c, ("a", np.array([1])), ("l", np.array([2])), ("w", self.random(8, 8)), ("k", kind(3))])
            for to in (1, 9):  # float32, truth values
                check([make("Cast", ["i"], ["b"], to=to), make("Cast", ["b"], ["y"], to=1)], {"i": (7,)}, whole=True, feed={"i": far})
            for how in ("Equal", "Less", "Greater"):
                check([make(how, ["i", "k"], ["b"]), make("Cast", ["b"], ["y"], to=1)], {"i": (7,)}, whole=True, feed={"i": far},
                      constants=[("k", kind(5))])
            check([make("Where", ["b", "i", "k"], ["w"]), make("Cast", ["w"], ["y"], to=1)], {"b": (7,), "i": (7,)}, whole=True,
                  feed={"b": far > 4, "i": far}, constants=[("k", kind(9))])
            # Nodes that stay with ONNX Runtime: a sum, two adjacent inputs, an output, numbers for such a node.
            weigh = make("MatMul", ["f", "w"], ["y"])
            for first in ([make("Add", ["i", "k"], ["s"])], [make("Mul", ["i", "i"], ["s"])],
                          [make("Transpose", ["i"], ["r"], perm=[0]), make("CumSum", ["r", "z"], ["s"])]):
                check([*first, make("Cast", ["s"], ["f"], to=1), weigh], {"i": (7,)}, feed={"i": far},
                      constants=[("k", kind(1)), ("z", np.int64(0)), ("w", self.random(7, 3))])

    def test_quantised_weights(self):
        """int8 weights with float arithmetic: constants by the time a plan is made."""
        make, i = onnx.helper.make_node, self.rng.integers
        nodes = [make("DequantizeLinear", ["q", "s", "z"], ["w"], axis=0), make("Conv", ["x", "w"], ["a"], pads=[1] * 4),
                 make("DequantizeLinear", ["p", "t"], ["v"]), make("Conv", ["a", "v"], ["y"])]
        constants = [("q", i(-128, 128, (6, 4, 3, 3)).astype(np.int8)), ("z", i(-3, 3, 6).astype(np.int8)),
                     ("s", self.rng.random(6).astype(np.float32)), ("p", i(-128, 128, (5, 6, 1, 1)).astype(np.int8)),
                     ("t", np.float32(0.01))]
        self.check(nodes, {"x": (2, 4, 9, 7)}, constants=constants, whole=True)
        # Each goes to the plan that uses it; one that two plans use is computed for both.
        nodes[3] = make("Hardmax", ["a"], ["h"])
        nodes += [make("Conv", ["h", "v"], ["b"]), make("Conv", ["b", "u"], ["c"]), make("Conv", ["a", "u"], ["d"]),
                  make("Add", ["c", "d"], ["y"])]
        nodes.insert(0, make("DequantizeLinear", ["r", "t"], ["u"]))
        constants += [("r", i(-128, 128, (6, 6, 1, 1)).astype(np.int8))]
        constants = [c if c[0] != "p" else ("p", i(-128, 128, (6, 6, 1, 1)).astype(np.int8)) for c in constants]
        self.check(nodes, {"x": (2, 4, 9, 7)}, constants=constants)

    def quantised(self, **how):
        """A small network as onnxruntime.quantization makes one, calibrated on noise: its path."""
        from onnxruntime import quantization as q
        make, w, shape = onnx.helper.make_node, self.random, (1, 3, 24, 20)
        nodes = [make("Conv", ["x", "w0", "b0"], ["c0"], pads=[1] * 4), make("Relu", ["c0"], ["r0"]),
                 make("Conv", ["r0", "w1", "b1"], ["c1"], pads=[1] * 4, strides=[2, 2]), make("Sigmoid", ["c1"], ["g"]),
                 make("Mul", ["c1", "g"], ["r1"]), make("Conv", ["r1", "w2"], ["c2"], pads=[1] * 4, group=12),
                 make("Add", ["r1", "c2"], ["s"]), make("MaxPool", ["s"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
                 make("GlobalAveragePool", ["m"], ["p"]), make("Flatten", ["p"], ["f"]),
                 make("Gemm", ["f", "wg", "bg"], ["y"])]
        constants = [("w0", w(8, 3, 3, 3) / 5), ("b0", w(8) / 9), ("w1", w(12, 8, 3, 3) / 9), ("b1", w(12) / 9),
                     ("w2", w(12, 1, 3, 3) / 3), ("wg", w(12, 10) / 4), ("bg", w(10) / 9)]
        for i, n in enumerate(nodes):
            n.name = f"n{i}"
        plain, to = self.tmp / "plain.onnx", self.tmp / "quantised.onnx"
        plain.write_bytes(provider.net(nodes, {"x": shape}, "y", constants))
        pictures = iter([{"x": self.rng.random(shape).astype(np.float32)} for _ in range(4)])

        class Reader(q.CalibrationDataReader):
            def get_next(self):
                return next(pictures, None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            q.quantize_static(plain, to, Reader(), quant_format=q.QuantFormat.QDQ, **how)
        return str(to), shape

    def test_quantised_network(self):
        """QuantizeLinear and DequantizeLinear between all layers, taken whole where that is asked for: as far
        from ONNX Runtime's int8 arithmetic as one rounding to the other side goes, two steps of the last scale.
        Weights of 7 bits: sums of pairs of larger ones saturate there on processors without VNNI."""
        from onnxruntime.quantization import QuantType
        for activations in (QuantType.QUInt8, QuantType.QInt8):
            for per_channel in (False, True):
                path, shape = self.quantised(activation_type=activations, weight_type=QuantType.QInt8,
                                             per_channel=per_channel, reduce_range=True)
                step = [onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer if t.name == "y_scale"]
                theirs, ours = provider.both(path, whole=True, own={"claim_qdq": "1"})
                x = {"x": self.rng.random(shape).astype(np.float32)}
                with self.subTest(activations=activations, per_channel=per_channel):
                    want, got = theirs.run(None, x)[0], ours.run(None, x)[0]
                    self.assertGreater(np.abs(want).max(), 20 * step[0])
                    self.assertLessEqual(np.abs(got - want).max(), 2.001 * step[0])

    def test_whole_numbers(self):
        """precision=int8, whose pass and operations a GPU's plans share, by plain loops: as far from ONNX Runtime's int8
        arithmetic as one step of the last scale."""
        from onnxruntime.quantization import QuantType as q
        for activations in (q.QUInt8, q.QInt8):
            for weights in (q.QInt8, q.QUInt8):
                for symmetric in (False, True):
                    how = {"ActivationSymmetric": symmetric, "WeightSymmetric": weights == q.QInt8 or symmetric}
                    if (activations, weights) == (q.QInt8, q.QUInt8): # the tool has no such networks
                        continue
                    path, shape = self.quantised(activation_type=activations, weight_type=weights, per_channel=not symmetric,
                                                 reduce_range=True, extra_options=how)
                    step = [onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer if t.name == "y_scale"]
                    theirs, ours = provider.both(path, whole=True, own={"claim_qdq": "1", "precision": "int8"})
                    x = {"x": self.rng.random(shape).astype(np.float32)}
                    with self.subTest(activations=activations, weights=weights, symmetric=symmetric):
                        want, got = theirs.run(None, x)[0], ours.run(None, x)[0]
                        self.assertGreater(np.abs(want).max(), 20 * step[0])
                        self.assertLessEqual(np.abs(got - want).max(), 1.001 * step[0])

    def test_nothing_quantised(self):
        """precision=int8 for a network without quantised layers is refused in one sentence."""
        nodes = [onnx.helper.make_node("Relu", ["x"], ["y"])]
        context = provider.Context()
        provider.both(provider.net(nodes, {"x": (1, 4)}, "y", []), own={"claim_qdq": "1", "precision": "int8", **context.own})
        self.assertIn("precision int8 needs QuantizeLinear and DequantizeLinear around the layers", context.ran()[0][1])

    def test_int8_is_left(self):
        """Unasked, layers between quantised numbers stay with what quantises them: ONNX Runtime's int8
        arithmetic, bit for bit. Layers that are not quantised are ours, and the rest is not."""
        def ran(path):
            context = provider.Context()
            sessions = provider.both(path, own=context.own)
            x = {"x": self.rng.random(shape).astype(np.float32)}
            return context.ran(), sessions[0].run(None, x)[0], sessions[1].run(None, x)[0]
        path, shape = self.quantised()
        nodes, want, got = ran(path)
        self.assertTrue(all(isinstance(why, str) for _, why in nodes))
        self.assertEqual({why.split(";")[0] for op, why in nodes if op in ("Conv", "Gemm")},
                         {"ONNX Runtime has int8 arithmetic for it, which is faster"})
        self.assertEqual(want.tobytes(), got.tobytes())
        path, shape = self.quantised(nodes_to_exclude=["n2", "n3", "n4", "n5", "n6"])
        nodes, want, got = ran(path)
        self.assertEqual([why for op, why in nodes if op == "Conv"].count(0), 2)
        self.assertLess(provider.relative(got, want), 0.1)

    def test_quantise(self):
        """Alone: halves, the ends of the types, infinities; one scale a channel; from uint8 and back."""
        make, s = onnx.helper.make_node, np.float32
        x = np.concatenate([np.arange(-300, 300, 0.25), [np.inf, -np.inf, 1e30]]).astype(np.float32)
        for kind, zero in ((np.uint8, 3), (np.int8, -5), (np.uint8, 0)):
            self.op("QuantizeLinear", x.shape, constants=[s(0.5), kind(zero)], feed=[x])
            self.op("QuantizeLinear", (2, 3, 4), constants=[(self.random(3) ** 2 + s(0.01)), np.full(3, zero, kind)], axis=1)
            info = np.iinfo(kind)
            for axis, rank in ((1, 3), (-1, 2), (0, 4)):  # zero points that differ, also on the type's ends
                shape = [3 if d == axis % rank else 5 for d in range(rank)]
                zeros = np.array([info.min, zero, info.max], kind)
                far = self.random(*shape) * 90
                far.flat[:4] = np.inf, -np.inf, 0.5, 1e30
                self.op("QuantizeLinear", shape, constants=[np.array([0.5, 0.3, 1], s), zeros], axis=axis, feed=[far])
                self.op("DequantizeLinear", shape, constants=[np.array([0.5, 0.3, 1], s), zeros], axis=axis,
                        feed=[self.rng.integers(info.min, info.max + 1, shape).astype(kind)])
            q = self.rng.integers(info.min, info.max + 1, (2, 3, 4, 5)).astype(kind)
            self.op("DequantizeLinear", q.shape, constants=[self.random(3), np.array([zero] * 3, kind)], feed=[q], axis=1)
        # Two readers of one scale and one zero point, which need them in different forms.
        nodes = [make("QuantizeLinear", ["x", "s", "z"], ["a"]), make("DequantizeLinear", ["a", "s", "z"], ["b"]),
                 make("Flatten", ["b"], ["c"]), make("QuantizeLinear", ["c", "s", "z"], ["d"]),
                 make("DequantizeLinear", ["d", "s", "z"], ["y"])]
        self.check(nodes, {"x": (1, 4, 6, 5)}, constants=[("s", s(0.02)), ("z", np.uint8(128))], whole=True)
        self.check(nodes[:2] + [make("Identity", ["b"], ["y"])], {"x": (1, 4, 6, 5)}, whole=True, constants=[
            ("s", np.array([0.02, 0.01, 0.5, 0.25], s)), ("z", np.array([0, 3, 128, 255], np.uint8))])


class NodeTests(common.Case):
    """ONNX's own tests of single operators, those that we take whole, against their expected outputs: as
    they are, or with all inputs but the first as constants, as networks have weights and shapes."""

    def test_list_in_the_docs(self):
        import node_cases
        ort.set_default_logger_severity(4)  # refusals are expected
        listed = {m[1]: [int(m[2]), int(m[3])]
                  for m in re.finditer(r"^\| (\w+) \| (\d+) of (\d+) \|", DOCS.read_text(), re.M)}
        cases = node_cases.collect()
        everything = common.os.environ.get("TACHY_LIST")  # prints the table
        if not everything:
            cases = [c for c in cases if c.model.graph.node[0].op_type in listed]
        counts, _, failed = node_cases.count(cases, {})
        ort.set_default_logger_severity(2)
        for name, (passed, of) in sorted(counts.items()):
            if everything and passed:
                print(f"| {name} | {passed} of {of} |")
        print(f"ONNX's tests of operators: {sum(c[0] for c in counts.values())} of {len(cases)} are ours and pass")
        self.assertEqual(failed, [])
        self.assertGreater(len(listed), 80)
        # The figures are of one version.
        if not everything and f"onnx {onnx.__version__}, " in DOCS.read_text():
            self.assertEqual(counts, listed)


if __name__ == "__main__":
    common.main()
