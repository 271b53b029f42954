"""The float64 evaluator against ONNX's own reference in double precision, operator by operator; then
the plan's steps and whole networks on pictures against the evaluator, within the bounds that
docs/provider.md promises."""
import subprocess
import threading
import unittest

import accuracy
import common
import memory_use
import test_provider as provider

LAYER, NETWORK, AFTER = 2e-6, 1e-5, 1e-4
np = onnx = None


def setUpModule():
    global np, onnx
    provider.setUpModule()
    np, onnx = provider.np, provider.onnx


def tearDownModule():
    provider.tearDownModule()


def widened(model):
    """The same model in double precision; its float attributes stay what they are."""
    double = onnx.ModelProto()
    double.CopyFrom(model)
    h, np_of = onnx.helper, onnx.numpy_helper
    for v in [*double.graph.input, *double.graph.output, *double.graph.value_info]:
        if v.type.tensor_type.elem_type == 1:
            v.type.tensor_type.elem_type = 11
    for i, t in enumerate(double.graph.initializer):
        a = np_of.to_array(t)
        scales = any(t.name in n.input[2:3] for n in double.graph.node if n.op_type == "Resize")
        if a.dtype == np.float32 and not scales:
            double.graph.initializer[i].CopyFrom(np_of.from_array(a.astype(np.float64), t.name))
    return double


class Evaluator(common.Case):
    def setUp(self):
        super().setUp()
        self.rng = np.random.default_rng(5)

    def random(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)

    def op(self, name, *shapes, constants=(), opset=17, positive=False, limit=1e-12, **attributes):
        names = [f"x{i}" for i in range(len(shapes))]
        constants = {f"c{i}": np.asarray(c) for i, c in enumerate(constants)}
        node = onnx.helper.make_node(name, names + list(constants), ["y"], **attributes)
        model = onnx.load_from_string(provider.net([node], dict(zip(names, shapes)), "y", constants.items(),
                                                   opset=opset))
        with self.subTest(op=name, shapes=shapes, **attributes):
            x = [self.random(*s) for s in shapes]
            x = [abs(v) + np.float32(0.1) for v in x] if positive else x
            plan = accuracy.Plan(model.SerializeToString())
            from onnx.reference import ReferenceEvaluator
            feed = {n: v.astype(np.float64) for n, v in zip(names, x)}
            want = np.asarray(ReferenceEvaluator(widened(model)).run(None, feed)[0], np.float64)
            got = plan.reference([np.ascontiguousarray(v) for v in x])[0]
            self.assertEqual(want.shape, got.shape)
            self.assertLess(accuracy.relative(got, want), limit)
            self.assertLess(accuracy.relative(plan.run(x)[0], want), LAYER)

    def test_windows(self):
        w = self.random
        for c, k, groups in ((6, 8, 1), (6, 6, 6), (8, 12, 4)):
            for kernel, stride, dilation, pads in ((1, 1, 1, [0] * 4), (3, 2, 1, [1, 0, 2, 1]), (3, 1, 2, [2] * 4)):
                self.op("Conv", (2, c, 9, 8), constants=[w(k, c // groups, kernel, kernel), w(k)],
                        strides=[stride] * 2, dilations=[dilation] * 2, pads=pads, group=groups)
        self.op("ConvTranspose", (1, 8, 5, 6), constants=[w(8, 4, 2, 2), w(4)], strides=[2, 2])
        self.op("ConvTranspose", (2, 8, 5, 6), constants=[w(8, 2, 3, 4)], strides=[2, 3], pads=[1, 0, 1, 1],
                output_padding=[1, 0])
        for ceil in (0, 1):
            self.op("MaxPool", (2, 3, 7, 8), kernel_shape=[3, 2], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=ceil)
        for count in (0, 1):
            self.op("AveragePool", (2, 3, 7, 8), kernel_shape=[3, 2], strides=[2, 1], pads=[1, 1, 0, 1],
                    count_include_pad=count)
        self.op("GlobalAveragePool", (2, 5, 7, 9))
        self.op("GlobalMaxPool", (2, 5, 7, 9))

    def test_resize(self):
        none = np.array([], np.float32)
        for mode in ("nearest", "linear"):
            for coords in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
                for size in ((14, 18), (5, 4)):
                    for how in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"):
                        if mode == "linear" and how != "floor":
                            continue
                        self.op("Resize", (1, 2, 7, 9), constants=[none, none, np.array([1, 2, *size])], mode=mode,
                                coordinate_transformation_mode=coords, nearest_mode=how)

    def test_elements(self):
        for name in ("Relu", "Sigmoid", "Tanh", "Elu", "Softplus", "Abs", "Neg", "Exp"):
            self.op(name, (2, 3, 5))
        self.op("HardSwish", (2, 3, 5), limit=1e-7)  # 1/6 in float32 there
        for approximate in ("none", "tanh"):
            self.op("Gelu", (3, 10), opset=20, approximate=approximate, limit=1e-6)  # erf in float32 there
        self.op("Sqrt", (3, 10), positive=True)
        self.op("Mish", (3, 10), opset=18)
        self.op("LeakyRelu", (1, 5, 7, 9), alpha=0.3)
        self.op("HardSigmoid", (1, 5, 7, 9), alpha=0.3, beta=0.4, limit=1e-7)
        self.op("PRelu", (1, 5, 7, 9), constants=[self.random(5, 1, 1)])
        self.op("Clip", (1, 5, 7, 9), constants=[np.float32(-0.5), np.float32(0.7)])
        for name in ("Add", "Sub", "Mul", "Div", "Min", "Max"):
            for other in ((1, 5, 7, 9), (1, 5, 1, 1), (9,), (7, 1)):
                self.op(name, (1, 5, 7, 9), other, positive=name == "Div")
        self.op("Pow", (3, 4), (4,), positive=True)

    def test_products(self):
        w = self.random
        self.op("MatMul", (2, 3, 5, 33), constants=[w(33, 17)])
        self.op("Gemm", (3, 20), constants=[w(7, 20), w(7)], transB=1)

    def test_axes_and_moves(self):
        self.op("ReduceMean", (2, 5, 7, 9), axes=[1], keepdims=0)
        self.op("ReduceSum", (2, 5, 7, 9), constants=[np.array([0, 2])])
        self.op("ReduceMax", (2, 5, 7, 9), axes=[2, 3])
        self.op("ReduceMin", (2, 5, 7, 9), axes=[0, 3])
        for axis in (1, 2, -1):
            self.op("Softmax", (2, 5, 7, 9), axis=axis)
        self.op("Concat", (4, 3), (4, 2), (4, 5), axis=-1)
        self.op("Transpose", (2, 3, 4, 5, 6), perm=[4, 2, 0, 1, 3])
        self.op("Slice", (1, 6, 7, 9), constants=[np.array([1, 2]), np.array([5, 100]), np.array([1, 3]),
                                                  np.array([2, 1])])
        self.op("Pad", (1, 3, 4, 5), constants=[np.array([0, 1, 2, 0, 0, 0, 1, 3]), np.float32(1.5)])
        self.op("Expand", (1, 3, 1, 5), constants=[np.array([2, 3, 4, 5])])
        self.op("DepthToSpace", (1, 12, 4, 5), blocksize=2)
        self.op("SpaceToDepth", (1, 3, 4, 6), blocksize=2)

    def test_functions(self):
        for name in ("Sin", "Cos", "Tan", "Sinh", "Cosh", "Atan", "Asinh", "Floor", "Ceil", "Round", "Sign", "Softsign",
                     "ThresholdedRelu", "Shrink", "Reciprocal"):
            self.op(name, (2, 3, 5))
        self.op("Log", (3, 10), positive=True)
        self.op("Mod", (2, 3, 10), (10,), fmod=1)
        for how in ("L1", "L2", "SumSquare", "LogSumExp", "Prod"):
            self.op("Reduce" + how, (2, 5, 7, 9), axes=[1, 3])
        self.op("ReduceLogSum", (2, 5, 7), axes=[1], positive=True)

    def test_computed_products(self):
        self.op("MatMul", (2, 3, 5, 33), (3, 33, 7))
        self.op("Gemm", (9, 6), (5, 9), (6, 5), transA=1, transB=1, alpha=0.5, beta=2.0)
        self.op("Conv", (2, 6, 9, 7), (8, 3, 3, 3), group=2, pads=[1] * 4)

    def test_indices(self):
        i = self.rng.integers
        self.op("Gather", (2, 3, 4, 5), constants=[np.array([[0, 4], [-1, 2]])], axis=3)
        self.op("GatherElements", (4, 3, 5), constants=[i(-2, 2, (2, 3, 5))], axis=0)
        self.op("GatherND", (2, 3, 4, 5), constants=[i(0, 3, (2, 6, 2))], batch_dims=1)
        for mode in ("edge", "reflect", "wrap"):
            self.op("Pad", (1, 3, 4, 5), constants=[np.array([0, 1, 2, 0, 0, 0, 1, 3])], mode=mode, opset=19)

    def test_norms_and_samples(self):
        w, none = self.random, np.array([], np.float32)
        self.op("LayerNormalization", (2, 5, 33), constants=[w(33), w(33)], epsilon=0.5)
        self.op("InstanceNormalization", (2, 6, 5, 7), constants=[w(6), w(6)], epsilon=0.5)
        for coords in ("half_pixel", "asymmetric", "align_corners"):
            self.op("Resize", (1, 2, 7, 9), constants=[none, none, np.array([1, 2, 14, 5])], mode="cubic", limit=1e-6,
                    coordinate_transformation_mode=coords)
        for mode in ("linear", "nearest", "cubic"):
            for outside in ("zeros", "border", "reflection"):
                if (mode, outside) == ("cubic", "border"):
                    continue  # there all four pixels are cut to the border; ONNX Runtime cuts each, as PyTorch does
                for align in (0, 1):  # positions are float32 there
                    self.op("GridSample", (1, 3, 7, 9), (1, 5, 4, 2), mode=mode, padding_mode=outside, opset=20,
                            align_corners=align, limit=1e-6)


class Networks(common.Case):
    def frame(self):
        """A picture out of a film, as decoders give it."""
        clip, png = common.DEPS / "media/sample.mp4", self.tmp / "frame.png"
        if not clip.exists():
            self.skipTest("the sample clip is not here")
        subprocess.run(["ffmpeg", "-v", "error", "-i", clip, "-frames:v", "1", png], check=True)
        return png

    def pictures(self):
        photo = common.DEPS / "media/astronaut.png"
        if not photo.exists():
            self.skipTest("the photo is not here")
        return [photo, self.frame()]

    def test_selfie(self):
        path = common.DEPS / "models/selfie.onnx"
        if not path.exists():
            self.skipTest("the model selfie is not here")
        for picture in self.pictures():
            with self.subTest(picture=picture.name):
                r = accuracy.measure(onnx.load(path), lambda shapes: [[provider.picture(s, picture) for s in shapes]])
                print(f"selfie on {picture.name}: layers to {r['layer']:.1e} ({' '.join(r['at'])}), network "
                      f"{r['network'][0]:.1e}, after its sigmoid {r['after'][0]:.1e} absolute")
                self.assertLess(r["layer"], LAYER)
                self.assertLess(r["network"][0], NETWORK)
                self.assertLess(r["after"][0], AFTER)

    def test_memory(self):
        """Opening and running takes no more than with ONNX Runtime's own kernels (bench/engine_memory)."""
        path = common.DEPS / "models/selfie.onnx"
        if not path.exists():
            self.skipTest("the model selfie is not here")
        ours, theirs = memory_use.of_session(path, "tachy"), memory_use.of_session(path, "cpu")
        print(f"selfie: {ours['peak']:.1f} MiB at the peak, ONNX Runtime {theirs['peak']:.1f}")
        self.assertLess(ours["peak"], theirs["peak"])

    def test_sixteen_sessions(self):
        """Sixteen sessions, opened and run side by side, and one that sixteen threads share: the same bits."""
        path = common.DEPS / "models/selfie.onnx"
        if not path.exists():
            self.skipTest("the model selfie is not here")
        shared = provider.both(str(path))[1]
        feed = provider.feeds(shared)
        want, same = shared.run(None, feed)[0].tobytes(), []

        def work():
            own = provider.ort.InferenceSession(str(path), provider.options(True))
            for session in (own, shared, own):
                same.append(session.run(None, feed)[0].tobytes() == want)
        threads = [threading.Thread(target=work) for _ in range(16)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(same, [True] * 48)

    def test_nothing_without_asking(self):
        """A plan that was not opened for it has no reference and says so."""
        table, context = provider.function_table(), provider.Context()
        node = onnx.helper.make_node("Relu", ["x"], ["y"])
        provider.both(provider.net([node], {"x": (1, 4)}, "y"), own=context.own)
        plan = context.take()
        self.assertTrue(plan)
        self.assertLess(table.reference(plan, None, None), 0)
        self.assertLess(table.layers(plan, None, None, None), 0)
        table.release(plan)


if __name__ == "__main__":
    common.main()
