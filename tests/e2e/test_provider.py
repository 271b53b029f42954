"""libtachy_ep.so from PyPI's onnxruntime, as anybody's program would use it: whole networks on a
picture and single operators against ONNX Runtime's CPU provider; one session on several threads."""
import ctypes
import os
import statistics
import tempfile
import threading
import time
import unittest
import warnings

import common

LIBRARY = os.environ.get("TACHY_EP", str(common.ROOT / "build/src/provider/libtachy_ep.so"))
# Name, and the largest L2 norm of the difference relative to that of the reference. Both sides round in float32 here,
# and ONNX Runtime's CPU provider sums in other orders.
MODELS = [
    ("selfie", 1e-5),
    ("clip/mobilenetv2_w8.onnx", 1e-5),
    ("segment/selfie_segmentation.onnx", 1e-5),
    ("segment/mediapipe_selfie.onnx", 1e-5),
    ("segment/deeplab_v3_1_default_1.onnx", 2e-5),
    ("face/blazeface_back_256.onnx", 2e-5),
    ("face/face_landmark_barracuda.onnx", 1e-5),
    ("face/iris_64.onnx", 1e-5),
    ("face/face_landmark_barracuda.onnx", 1e-5),
    ("face/openseeface_lm_model0_opt.onnx", 2e-5),
    ("detect/yolox_nano.onnx", 5e-5),
    ("pose/blazepose_lite_256_w16.onnx", 2e-5),
    ("embed/mobileface_identification_v2_mit.onnx", 2e-5),
    ("embed/mobilefacenet_diandianti.onnx", 2e-5),
    ("flow/nanoflownet_112x160.onnx", 2e-5),
]
ort = np = onnx = Image = None


def setUpModule():
    global ort, np, onnx, Image
    if common.SANITIZER:
        raise unittest.SkipTest("Python itself is not built with the sanitizer's runtime")
    try:
        import numpy
        import onnx as package
        import onnxruntime
        from PIL import Image as image
    except ImportError as e:
        raise unittest.SkipTest(f"a Python package is missing: {e}")
    ort, np, onnx, Image = onnxruntime, numpy, package, image
    if tuple(map(int, ort.__version__.split(".")[:2])) < (1, 23):
        raise unittest.SkipTest(f"onnxruntime {ort.__version__} has no plugins")
    ort.register_execution_provider_library("tachy", LIBRARY)


def tearDownModule():
    if ort:
        ort.unregister_execution_provider_library("tachy")


class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("rank", ctypes.c_int), ("shape", ctypes.c_int64 * 8)]


class PlanInfo(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int) for n in ("nb_in", "nb_out", "nodes", "steps")] + \
               [(n, ctypes.c_size_t) for n in ("weights", "arena", "scratch", "shared")] + \
               [("effort", ctypes.c_int)] + \
               [(n, ctypes.c_double) for n in ("choice_seconds", "run_ms", "default_run_ms")] + \
               [("device", ctypes.c_char_p), ("on", ctypes.c_char * 96), ("noise_error", ctypes.c_double),
                ("picture_error", ctypes.c_double)]


class Node(ctypes.Structure):
    _fields_ = [("op", ctypes.c_char_p), ("name", ctypes.c_char_p), ("why", ctypes.c_char_p), ("plan", ctypes.c_int)]


class Step(ctypes.Structure):
    _fields_ = [("op", ctypes.c_char_p), ("name", ctypes.c_char_p), ("bytes", ctypes.c_size_t),
                ("multiply_adds", ctypes.c_int64), ("moved_bytes", ctypes.c_int64)]


class Table(ctypes.Structure):
    """src/base/ep_table.h"""
    _fields_ = [("version", ctypes.c_uint32),
                ("open", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint, ctypes.c_char_p)),
                ("id", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)),
                ("close", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
                ("take", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)),
                ("failed", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)),
                ("nodes", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)),
                ("node", ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)),
                ("graph", ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)),
                ("info", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)),
                ("input", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)),
                ("output", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)),
                ("run", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)),
                ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
                ("about", ctypes.CFUNCTYPE(ctypes.c_char_p)),
                ("reference", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)),
                ("layers", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
                                            ctypes.c_void_p)),
                ("run_timed", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
                                               ctypes.c_void_p)),
                ("step", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p))]


def function_table():
    table = Table.in_dll(ctypes.CDLL(LIBRARY), "tachy_ep_table")
    assert table.version == 10, "the structures above are those of another version"
    return table


class Context:
    """What one session is asked for, as an option of ours, and what it then leaves. `want`: of the constants below."""
    WHOLE, REFERENCE, GRAPHS = 1, 2, 4

    def __init__(self, want=0):
        self.table = function_table()
        self.at = self.table.open(want, None)
        self.own = {"context": self.table.id(self.at).decode()}

    def take(self):
        return self.table.take(self.at)

    def ran(self):
        """(operator, who runs it or why not) of each node."""
        found, n = [], Node()
        for i in range(self.table.nodes(self.at)):
            assert self.table.node(self.at, i, ctypes.byref(n))
            found.append((n.op.decode(), n.plan if n.why is None else n.why.decode()))
        for i in (len(found), -1):
            assert not self.table.node(self.at, i, ctypes.byref(n))
        return found

    def __del__(self):
        self.table.close(self.at)


def options(ours, fixed=(), own=None):
    o = ort.SessionOptions()
    o.intra_op_num_threads = o.inter_op_num_threads = 1
    o.log_severity_level = 3
    for name in {*fixed, "batch"}: # which the zoo's models leave free
        o.add_free_dimension_override_by_name(name, 1)
    if ours:
        o.add_provider_for_devices([d for d in ort.get_ep_devices() if d.ep_name == "tachy"][:1],
                                   {"build_effort": "0", "store": "0", **(own or {})})
    return o


def both(model, fixed=(), whole=False, own=None):
    """The same model as a session of ONNX Runtime's CPU provider and one of ours; `whole`: all of it; `own`:
    options of ours."""
    reference = ort.InferenceSession(model, options(False, fixed), providers=["CPUExecutionProvider"])
    ours = options(True, fixed, own)
    if whole:
        ours.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    return reference, ort.InferenceSession(model, ours)


def picture(shape, path=None):
    """A photo of a person, or what is named, in the shape that a network takes."""
    labelled = sorted((common.SHARED / "labels/people/images").glob("*.jpg"))
    path = path or (labelled[0] if labelled else common.DEPS / "media" / "astronaut.png")
    last = shape[3] in (1, 3)
    h, w, c = (shape[1], shape[2], shape[3]) if last else (shape[2], shape[3], shape[1])
    x = np.asarray(Image.open(path).convert("RGB" if c == 3 else "L").resize((w, h)), np.float32) / 255
    x = x.reshape(h, w, c)
    return np.ascontiguousarray(x if last else x.transpose(2, 0, 1))[None]


def feeds(session):
    return {i.name: picture([d if isinstance(d, int) else 1 for d in i.shape]) for i in session.get_inputs()}


def relative(got, want):
    want = want.astype(np.float64)
    return float(np.linalg.norm(got - want) / max(np.linalg.norm(want), 1e-30))


class Networks(common.Case):
    def path(self, name):
        if name != "selfie":
            return str(common.shared("models/" + name))
        p = common.DEPS / "models/selfie.onnx"
        if not p.exists():
            self.skipTest("the model selfie is not here")
        return str(p)

    def test_same_results(self):
        for name, limit in MODELS:
            with self.subTest(model=name):
                path = self.path(name)
                dims = {d.dim_param for i in onnx.load(path).graph.input
                        for d in i.type.tensor_type.shape.dim if d.dim_param}
                reference, ours = both(path, dims)
                self.assertEqual(ours.get_providers()[0], "tachy")
                feed = feeds(reference)
                for want, got in zip(reference.run(None, feed), ours.run(None, feed)):
                    self.assertEqual(want.shape, got.shape)
                    self.assertGreater(float(np.abs(want).max()), 0)
                    self.assertLess(relative(got, want), limit)

    def test_whole_graph(self):
        """One fused node: nothing of the network is left to ONNX Runtime."""
        options_ = options(True)
        options_.enable_profiling = True
        options_.profile_file_prefix = str(self.tmp / "run")
        session = ort.InferenceSession(self.path("selfie"), options_)
        session.run(None, feeds(session))
        events = common.json.loads(common.pathlib.Path(session.end_profiling()).read_text())
        kernels = [e for e in events if e.get("cat") == "Node" and e["name"].endswith("kernel_time")]
        self.assertEqual({e["args"]["provider"] for e in kernels}, {"tachy"})
        self.assertEqual(len(kernels), 1)

    def test_threads_share_a_session(self):
        _, session = both(self.path("selfie"))
        feed = feeds(session)
        want = session.run(None, feed)[0].tobytes()
        same = []
        def work():
            for _ in range(10):
                same.append(session.run(None, feed)[0].tobytes() == want)
        threads = [threading.Thread(target=work) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(same, [True] * 80)

    def test_threads_in_a_run(self):
        """The same bits; how much faster says a machine with idle cores: the line that is printed."""
        path = self.path("selfie")
        sessions = [ort.InferenceSession(path, options(True, own={"threads": str(n)})) for n in (1, 2, 3)]
        feed, times = feeds(sessions[0]), ([], [], [])
        want = sessions[0].run(None, feed)[0].tobytes()
        for _ in range(20):
            for session, t in zip(sessions, times):
                start = time.perf_counter()
                self.assertEqual(session.run(None, feed)[0].tobytes(), want)
                t.append(time.perf_counter() - start)
        print(f"selfie on two threads: {min(times[0]) / min(times[1]):.2f} times as fast as on one")

    def test_threads_of_the_session(self):
        """Without `threads` those of the session help, if it has any: intra_op_num_threads. The same bits."""
        def session(threads, own):
            o = options(True, own=own)
            o.intra_op_num_threads = threads
            o.add_session_config_entry("session.intra_op.allow_spinning", "0")
            return ort.InferenceSession(self.path("selfie"), o)

        alone = session(1, {"threads": "1"})
        feed = feeds(alone)
        want = alone.run(None, feed)[0].tobytes()

        def is_helped(session, runs):
            """In one of the runs other threads have a fifth of this one's CPU time: on a busy machine few get it."""
            for _ in range(runs):
                before = time.process_time(), time.thread_time()
                self.assertEqual(session.run(None, feed)[0].tobytes(), want)
                own = time.thread_time() - before[1]
                if time.process_time() - before[0] - own > 0.2 * own:
                    return True
            return False

        for threads, own in ((1, {}), (2, {"threads": "1"})):
            self.assertFalse(is_helped(session(threads, own), 30), (threads, own))
        for threads, own in ((2, {}), (3, {"threads": "0"}), (1, {"threads": "2"})):
            self.assertTrue(is_helped(session(threads, own), 10000), (threads, own))

    def test_function_table(self):
        """The plan without ONNX Runtime in between: the same bits, also when the session is gone."""
        table, context = function_table(), Context()
        self.assertFalse(context.take())
        _, session = both(self.path("selfie"), own=context.own)
        plan = context.take()
        self.assertTrue(plan)
        self.assertFalse(context.take())
        info = PlanInfo()
        table.info(plan, ctypes.byref(info))
        self.assertEqual((info.nb_in, info.nb_out), (1, 1))
        self.assertLess(info.steps, info.nodes)
        feed = feeds(session)
        want, x = session.run(None, feed)[0], next(iter(feed.values()))
        shape = Tensor()
        table.output(plan, 0, ctypes.byref(shape))
        self.assertEqual(list(shape.shape[:shape.rank]), list(want.shape))
        self.assertEqual(shape.name.decode(), session.get_outputs()[0].name)
        self.assertEqual({plan for _, plan in context.ran()}, {0})
        self.assertRegex(table.about().decode(), r"^\d+\.\d+\.\d+ (c|avx2|avx512|neon)$")
        del session, context
        got = np.empty_like(want)
        self.assertEqual(table.run(plan, (ctypes.c_void_p * 1)(x.ctypes.data),
                                   (ctypes.c_void_p * 1)(got.ctypes.data)), 0)
        self.assertEqual(got.tobytes(), want.tobytes())
        # The picture is read and the mask written in place: no step copies or transposes them.
        step, end, got = Step(), (ctypes.c_uint64 * info.steps)(), np.empty_like(want)
        kinds = []
        for i in range(info.steps):
            table.step(plan, i, ctypes.byref(step))
            kinds.append(step.op.decode())
        self.assertEqual(kinds[0], "Conv")
        self.assertFalse({"Transpose", "Reshape", "Slice", "Concat"} & set(kinds))
        self.assertEqual(step.bytes, want.nbytes)
        self.assertEqual(table.run_timed(plan, (ctypes.c_void_p * 1)(x.ctypes.data),
                                         (ctypes.c_void_p * 1)(got.ctypes.data), end), 0)
        self.assertEqual(got.tobytes(), want.tobytes())
        self.assertEqual(list(end), sorted(end))
        table.release(plan)

    def test_table_wants_the_whole_model(self):
        make, w = onnx.helper.make_node, np.ones((4, 4, 1, 1), np.float32)
        nodes = [make("Conv", ["x", "w"], ["a"]), make("Hardmax", ["a"], ["y"])]
        context = Context()
        both(net(nodes, {"x": (1, 4, 9, 7)}, "y", [("w", w)]), own=context.own)
        self.assertFalse(context.take())
        (conv, plan), (left, why) = context.ran()
        self.assertEqual((conv, plan, left), ("Conv", 0, "Hardmax"))
        self.assertIn("operator", why)
        context = Context(Context.WHOLE)
        self.assertEqual(context.ran(), [])
        _, ours = both(net(nodes, {"x": (1, 4, 9, 7)}, "y", [("w", w)]), own=context.own)
        self.assertFalse(context.take())
        self.assertEqual(context.ran(), [("Conv", -1), ("Hardmax", why)])
        self.assertEqual(ours.run(None, {"x": np.ones((1, 4, 9, 7), np.float32)})[0].sum(), 4 * 9)
        context = Context(Context.WHOLE)
        both(net(nodes[:1], {"x": (1, 4, 9, 7)}, "a", [("w", w)]), own=context.own)
        plan = context.take()
        self.assertTrue(plan)
        function_table().release(plan)

    def test_contexts_are_apart(self):
        """Sessions are created in any order and on any thread: each leaves its plan with its own context alone."""
        make, w = onnx.helper.make_node, np.ones((4, 4, 1, 1), np.float32)
        models = [net([make("Conv", ["x", "w"], ["a"]), make(op, ["a"], ["y"])], {"x": (1, 4, 9, 7)}, "y", [("w", w)])
                  for op in ("Relu", "Tanh", "Hardmax")]
        contexts, table = [Context() for _ in range(12)], function_table()
        threads = [threading.Thread(target=both, args=(models[i % 3],), kwargs={"own": c.own})
                   for i, c in enumerate(contexts)]
        for thread in threads[::-1]:
            thread.start()
        for thread in threads:
            thread.join()
        for i, context in enumerate(contexts):
            self.assertEqual([op for op, _ in context.ran()], ["Conv", ("Relu", "Tanh", "Hardmax")[i % 3]])
            plan = context.take()
            self.assertEqual(bool(plan), i % 3 < 2)
            table.release(plan)
        # A context may go before its session, and no session finds it then.
        own = contexts.pop().own
        del context
        with self.assertRaisesRegex(Exception, "`context` is the id of an open context"):
            ort.InferenceSession(models[0], options(True, own=own), enable_fallback=0)

    def test_options(self):
        model = net([onnx.helper.make_node("Conv", ["x", "w"], ["y"])], {"x": (1, 4, 9, 7)}, "y",
                    [("w", np.ones((4, 4, 1, 1), np.float32))])
        ort.InferenceSession(model, options(True, own={"threads": "2"}))
        for own, said in (({"threads": "257"}, "`threads` is a whole number from 0 to 256"),
                          ({"threads": "2x"}, "`threads` is a whole number"),
                          ({"thread": "2"}, "no provider option `thread`; there are device, gpu_id, precision, memory_limit, deterministic, threads, build_effort, claim_qdq, direct, apart, guard, store"),
                          ({"device": "gpu"}, "`device` is cpu or cuda"), ({"gpu_id": "-1"}, "`gpu_id` is a whole number from 0"),
                          ({"memory_limit": "64"}, "memory_limit, of a GPU's memory, needs device=cuda"),
                          ({"precision": "fp16"}, "precision=fp16 needs device=cuda")):
            with self.assertRaisesRegex(Exception, said):
                ort.InferenceSession(model, options(True, own=own), enable_fallback=0)

    def test_a_free_dimension_is_named(self):
        """Else a program that does not fix it would run without us and not know why."""
        def warnings_of(shape, fix=False):
            model = net([onnx.helper.make_node("Conv", ["x", "w"], ["y"])], {"x": shape}, "y", [("w", np.ones((4, 4, 1, 1), np.float32))])
            o = options(True)
            o.log_severity_level = 2
            if fix:
                o.add_free_dimension_override_by_name("pictures", 2)
            with tempfile.TemporaryFile() as log:
                before = os.dup(2)
                os.dup2(log.fileno(), 2)
                try:
                    ort.InferenceSession(model, o)
                finally:
                    os.dup2(before, 2)
                    os.close(before)
                log.seek(0)
                return log.read().decode()

        said = warnings_of(("pictures", 4, 9, 7))
        self.assertIn("1 of 1 nodes are left to ONNX Runtime: dimension `pictures` of input `x` is free", said)
        self.assertIn('add_free_dimension_override_by_name("pictures", N)', said)
        self.assertIn("input `x` has a dimension without size and name", warnings_of((None, 4, 9, 7)))
        self.assertNotIn("provider:", warnings_of(("pictures", 4, 9, 7), fix=True))

    def test_gpu_where_there_is_none(self):
        """A session for a GPU that is not there ends with what is missing; the library serves the CPU all the same."""
        if any(str(d.device.type).endswith("GPU") for d in ort.get_ep_devices() if d.ep_name == "tachy"):
            self.skipTest("there is a GPU")
        model = net([onnx.helper.make_node("Conv", ["x", "w"], ["y"])], {"x": (1, 4, 9, 7)}, "y",
                    [("w", np.ones((4, 4, 1, 1), np.float32))])
        with self.assertRaisesRegex(Exception, "libcuda.so.1|no CUDA kernels"):
            ort.InferenceSession(model, options(True, own={"device": "cuda", "precision": "fp16", "store": "0"}))
        ort.InferenceSession(model, options(True, own={"device": "cpu"}))

    def test_direct(self):
        """The option leaves Winograd's tiles out: other bits, the same numbers."""
        rng = np.random.default_rng(1)
        model = net([onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4)], {"x": (1, 64, 28, 28)}, "y",
                    [("w", rng.standard_normal((64, 64, 3, 3)).astype(np.float32))])
        x = {"x": rng.standard_normal((1, 64, 28, 28)).astype(np.float32)}
        tiles, direct, theirs = (ort.InferenceSession(model, o).run(None, x)[0] for o in (
            options(True), options(True, own={"direct": "1"}), options(False)))
        self.assertFalse(np.array_equal(tiles, direct))
        self.assertLess(relative(tiles, direct), 1e-6)
        self.assertLess(relative(direct, theirs), 1e-6)

    def test_table_knows_branches(self):
        """A branch that is one plan is not the model, and its nodes are not listed."""
        h, w = onnx.helper, np.ones((4, 4, 1, 1), np.float32)
        def branch(scale):
            return h.make_graph([h.make_node("Conv", ["x", "w"], ["a"]), h.make_node("Mul", ["a", scale], ["b"])],
                                "branch", [], [h.make_tensor_value_info("b", 1, (1, 4, 9, 7))])
        node = h.make_node("If", ["which"], ["y"], then_branch=branch("one"), else_branch=branch("two"))
        graph = h.make_graph([node], "net", [h.make_tensor_value_info("x", 1, (1, 4, 9, 7)),
                                             h.make_tensor_value_info("which", 9, ())],
                             [h.make_tensor_value_info("y", 1, (1, 4, 9, 7))],
                             [onnx.numpy_helper.from_array(v, n) for n, v in (
                                 ("w", w), ("one", np.full(1, 1, np.float32)), ("two", np.full(1, 2, np.float32)))])
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8).SerializeToString()
        context = Context()
        reference, ours = both(model, own=context.own)
        self.assertFalse(context.take())
        self.assertEqual([op for op, _ in context.ran()], ["If"])
        for which in (False, True):
            feed = {"x": np.random.default_rng(3).standard_normal((1, 4, 9, 7), np.float32), "which": np.array(which)}
            np.testing.assert_allclose(ours.run(None, feed)[0], reference.run(None, feed)[0], rtol=1e-5, atol=1e-6)

    def test_table_is_for_float32(self):
        context, make = Context(), onnx.helper.make_node
        nodes = [make("Conv", ["x", "w"], ["a"]), make("ArgMax", ["a"], ["y"], axis=1)]
        both(net(nodes, {"x": (1, 4, 9, 7)}, "y", [("w", np.ones((4, 4, 1, 1), np.float32))]), whole=True, own=context.own)
        self.assertFalse(context.take())

    def test_time(self):
        reference, ours = both(self.path("selfie"))
        feed, a, b = feeds(reference), [], []
        for _ in range(60):  # in turn, this thread's time alone: other work on the machine hits both
            for session, times in ((reference, a), (ours, b)):
                start = time.thread_time()
                session.run(None, feed)
                times.append((time.thread_time() - start) * 1e3)
        ratio = statistics.median(x / y for x, y in zip(a, b))
        print(f"selfie: ONNX Runtime {statistics.median(a):.2f} ms, tachy {statistics.median(b):.2f} ms, "
              f"{ratio:.2f} times as fast")
        self.assertGreater(ratio, 1.0)


def net(nodes, inputs, output, constants=(), opset=17, types=None, out_shape=None):
    """`types`: of inputs that are not float32; `out_shape`: where ONNX cannot tell."""
    h = onnx.helper
    made = h.make_tensor_value_info(output, 1, out_shape) if out_shape else h.make_empty_tensor_value_info(output)
    graph = h.make_graph(nodes, "net",
                         [h.make_tensor_value_info(n, (types or {}).get(n, 1), s) for n, s in inputs.items()], [made],
                         [onnx.numpy_helper.from_array(v, n) for n, v in dict(constants).items()])
    opsets = [h.make_opsetid("", opset), h.make_opsetid("com.microsoft", 1)]
    model = h.make_model(graph, opset_imports=opsets, ir_version=10)
    return onnx.shape_inference.infer_shapes(model).SerializeToString()


class OperatorCase(common.Case):
    """Builds the smallest network with an operator; what is claimed must be the same."""

    def setUp(self):
        super().setUp()
        self.rng = np.random.default_rng(7)

    def random(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)

    def check(self, nodes, inputs, output="y", constants=(), limit=2e-6, feed=None, whole=False, own=None, **kw):
        """`feed`: what the inputs are, random otherwise; `whole`: nothing may be left to ONNX Runtime; `own`: options
        of ours."""
        feed = feed or {n: self.random(*s) for n, s in inputs.items()}
        types = {n: onnx.helper.np_dtype_to_tensor_dtype(v.dtype) for n, v in feed.items()}
        model = net(nodes, inputs, output, constants, types=types, **kw)
        reference, ours = both(model, whole=whole, own=own)
        want, got = reference.run(None, feed)[0], ours.run(None, feed)[0]
        self.assertEqual((want.shape, want.dtype), (got.shape, got.dtype))
        if want.dtype != np.float32:
            self.assertEqual(want.tobytes(), got.tobytes())
        else:
            self.assertLess(relative(got, want), limit)

    def op(self, name, *shapes, constants=(), limit=2e-6, opset=17, feed=None, whole=False, out_shape=None,
           **attributes):
        names = [f"x{i}" for i in range(len(shapes))]
        constants = [(f"c{i}", c) for i, c in enumerate(constants)]
        node = onnx.helper.make_node(name, names + [n for n, _ in constants], ["y"], **attributes)
        with self.subTest(op=name, shapes=shapes, **attributes):
            self.check([node], dict(zip(names, shapes)), constants=constants, limit=limit, opset=opset,
                       feed=feed and dict(zip(names, feed)), whole=whole, out_shape=out_shape)


class Operators(OperatorCase):
    def test_convolutions(self):
        w = self.random
        for c, k, groups in ((8, 16, 1), (6, 6, 6), (8, 12, 4), (3, 5, 1), (64, 33, 1)):
            for kernel, stride, dilation in ((1, 1, 1), (3, 1, 1), (3, 2, 1), (5, 2, 1), (3, 1, 2)):
                pad = dilation * (kernel // 2)
                self.op("Conv", (2, c, 13, 11), constants=[w(k, c // groups, kernel, kernel), w(k)],
                        strides=[stride] * 2, dilations=[dilation] * 2, pads=[pad] * 4, group=groups)
        self.op("Conv", (1, 3, 16, 15), constants=[w(4, 3, 3, 3)], strides=[2, 2], auto_pad="SAME_UPPER")
        self.op("ConvTranspose", (1, 8, 7, 9), constants=[w(8, 4, 2, 2), w(4)], strides=[2, 2])
        self.op("ConvTranspose", (1, 8, 7, 9), constants=[w(8, 4, 3, 3), w(4)], strides=[2, 2],
                pads=[1, 1, 1, 1], output_padding=[1, 1])
        for kernel, stride in ((2, 2), (4, 2), (3, 1)):
            self.op("ConvTranspose", (1, 8, 7, 9), constants=[w(8, 4, kernel, kernel)], strides=[stride] * 2,
                    auto_pad="SAME_UPPER")

    def test_products(self):
        w = self.random
        self.op("MatMul", (5, 33), constants=[w(33, 17)])
        self.op("MatMul", (2, 3, 5, 33), constants=[w(33, 17)])
        self.op("Gemm", (3, 20), constants=[w(7, 20), w(7)], transB=1)

    def test_elements(self):
        for name in ("Relu", "Sigmoid", "Tanh", "HardSwish", "Elu", "Softplus", "Erf", "Abs", "Neg", "Exp"):
            for shape in ((1, 5, 7, 9), (3, 10), (2, 3, 2, 2, 4)):
                self.op(name, shape)
        self.op("LeakyRelu", (1, 5, 7, 9), alpha=0.3)
        self.op("HardSigmoid", (1, 5, 7, 9), alpha=0.3, beta=0.4)
        self.op("PRelu", (1, 5, 7, 9), constants=[self.random(5, 1, 1)])
        self.op("PRelu", (1, 5, 7, 9), constants=[np.broadcast_to(self.random(1, 5, 1, 1), (1, 5, 7, 9)).copy()])
        self.op("Clip", (1, 5, 7, 9), constants=[np.float32(-0.5), np.float32(0.7)])
        for name in ("Add", "Sub", "Mul", "Div", "Min", "Max"):
            for other in ((1, 5, 7, 9), (1, 5, 1, 1), (5, 1, 1), (9,), (7, 1), (1, 1, 7, 9)):
                self.op(name, (1, 5, 7, 9), other, limit=1e-6)

    def test_moves(self):
        self.op("Concat", (1, 5, 7, 9), (1, 3, 7, 9), axis=1)
        self.op("Concat", (1, 5, 7, 9), (1, 5, 2, 9), axis=2)
        self.op("Concat", (4, 3), (4, 2), (4, 5), axis=-1)
        self.op("Transpose", (2, 3, 4, 5), perm=[0, 2, 3, 1])
        self.op("Transpose", (2, 3, 4, 5), perm=[3, 1, 0, 2])
        self.op("Transpose", (2, 3, 4, 5, 6), perm=[4, 2, 0, 1, 3])
        self.op("Reshape", (2, 3, 4, 5), constants=[np.array([6, 20])])
        self.op("Flatten", (2, 3, 4, 5), axis=1)
        self.op("Slice", (1, 6, 7, 9), constants=[np.array([1, 2]), np.array([5, 100]), np.array([1, 3]),
                                                  np.array([2, 1])])
        self.op("Pad", (1, 3, 4, 5), constants=[np.array([0, 1, 2, 0, 0, 0, 1, 3]), np.float32(1.5)])
        self.op("Expand", (1, 3, 1, 5), constants=[np.array([2, 3, 4, 5])])
        self.op("DepthToSpace", (1, 12, 4, 5), blocksize=2)
        self.op("DepthToSpace", (1, 12, 4, 5), blocksize=2, mode="CRD")
        self.op("SpaceToDepth", (1, 3, 4, 6), blocksize=2)

    def test_pictures(self):
        none = np.array([], np.float32)
        for mode in ("nearest", "linear"):
            for coords in ("half_pixel", "asymmetric", "align_corners"):
                for size in ((14, 18), (5, 20), (3, 4)):
                    if mode == "nearest" and coords == "align_corners":
                        continue  # ONNX Runtime rounds ties differently
                    self.op("Resize", (1, 5, 7, 9), constants=[none, none, np.array([1, 5, *size])], mode=mode,
                            coordinate_transformation_mode=coords, nearest_mode="floor", limit=1e-5)
        self.op("MaxPool", (1, 5, 7, 9), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        self.op("MaxPool", (1, 5, 7, 8), kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
        self.op("AveragePool", (1, 5, 7, 9), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        self.op("AveragePool", (1, 5, 7, 9), kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
        self.op("GlobalAveragePool", (2, 5, 7, 9))
        self.op("ReduceMean", (2, 5, 7, 9), axes=[1], keepdims=0)
        self.op("ReduceMax", (2, 5, 7, 9), axes=[2, 3], keepdims=1)
        self.op("Softmax", (2, 5, 7, 9), axis=1)
        self.op("Softmax", (2, 5, 7, 9), axis=2)
        self.op("Softmax", (4, 10), axis=-1)

    def test_patterns(self):
        """What passes rewrite, in the forms of exporters."""
        make, w = onnx.helper.make_node, self.random
        conv = make("Conv", ["x", "w"], ["a"])
        constants = {"w": w(8, 4, 1, 1), "three": np.float32(3), "six": np.float32(6), "zero": np.float32(0),
                     "sixth": np.float32(1 / 6), "v": w(5, 8, 1, 1), "b": w(1, 8, 1, 1), "a8": w(8, 1, 1, 1)}
        constants["rest8"] = 1 - constants["a8"]
        constants |= {"one": np.float32(1), "half": np.float32(0.5), "root2": np.float32(np.sqrt(2)), "f": w(5, 16, 3, 3),
                      "axes": np.array([2, 3]), "end": np.array([100, 100]), "two": np.array([2, 2])}
        constants |= {f"start{i}": np.array([i % 2, i // 2]) for i in range(4)}
        forms = {
            "hswish": [conv, make("Add", ["a", "three"], ["p"]), make("Clip", ["p", "zero", "six"], ["c"]),
                       make("Mul", ["a", "c"], ["m"]), make("Div", ["m", "six"], ["y"])],
            "hsigmoid": [conv, make("Add", ["a", "three"], ["p"]), make("Clip", ["p", "zero", "six"], ["c"]),
                         make("Mul", ["c", "sixth"], ["h"]), make("Mul", ["a", "h"], ["y"])],
            "swish": [conv, make("Sigmoid", ["a"], ["s"]), make("Mul", ["a", "s"], ["y"])],
            "prelu": [conv, make("Conv", ["a", "a8"], ["l"], group=8), make("Relu", ["a"], ["r"]),
                      make("Conv", ["r", "rest8"], ["m"], group=8), make("Add", ["l", "m"], ["y"])],
            "gelu": [conv, make("Div", ["a", "root2"], ["d"]), make("Erf", ["d"], ["e"]), make("Add", ["e", "one"], ["p"]),
                     make("Mul", ["a", "p"], ["m"]), make("Mul", ["m", "half"], ["y"])],
            "affine": [conv, make("Relu", ["a"], ["r"]), make("Sub", ["r", "b"], ["s"]), make("Mul", ["s", "six"], ["m"]),
                       make("Add", ["m", "three"], ["p"]), make("Conv", ["p", "v"], ["y"])],
            "focus": [make("Slice", ["x", "start%d" % i, "end", "axes", "two"], ["w%d" % i]) for i in range(4)] +
                     [make("Concat", ["w0", "w2", "w1", "w3"], ["k"], axis=1), make("Conv", ["k", "f"], ["y"], pads=[1] * 4)],
            "bias": [conv, make("Add", ["a", "b"], ["p"]), make("Relu", ["p"], ["y"])],
            "residual": [conv, make("Relu", ["a"], ["r"]), make("Conv", ["x", "w"], ["a2"]),
                         make("Add", ["r", "a2"], ["y"])],
            "scale": [conv, make("GlobalAveragePool", ["a"], ["g"]), make("Sigmoid", ["g"], ["s"]),
                      make("Mul", ["a", "s"], ["m"]), make("Conv", ["m", "v"], ["y"])],
            "concat": [conv, make("Relu", ["a"], ["r"]), make("Concat", ["r", "a", "x"], ["k"], axis=1),
                       make("Split", ["k"], ["s0", "s1"], axis=1), make("Mul", ["s0", "s1"], ["y"])],
        }
        for name, nodes in forms.items():
            with self.subTest(form=name):
                used = {i for n in nodes for i in n.input}
                shape = (2, 4, 8, 6) if name == "focus" else (2, 4, 9, 7)
                self.check(nodes, {"x": shape}, constants=[(k, v) for k, v in constants.items() if k in used])

    def test_expectations(self):
        """Boxes as detectors with distributions write them: a sum with weights, and a convolution (as Ultralytics exports it)."""
        make, numbers = onnx.helper.make_node, np.arange(16, dtype=np.float32)
        constants = {"w": self.random(64, 3, 3, 3), "w80": self.random(80, 3, 3, 3), "all": np.array([2, 80, 48]),
                     "parts": np.array([64, 16]), "cut": np.array([2, 4, 16, 48]), "flat": np.array([2, 4, 48]),
                     "by": numbers.reshape(1, 1, 16, 1), "taps": numbers.reshape(1, 16, 1, 1), "two": np.array([2])}
        cut = [make("Conv", ["x", "w80"], ["a"], pads=[1] * 4), make("Reshape", ["a", "all"], ["f"]),
               make("Split", ["f", "parts"], ["b", "kinds"], axis=1), make("Reshape", ["b", "cut"], ["c"])]
        start = [make("Conv", ["x", "w"], ["a"], pads=[1] * 4), make("Reshape", ["a", "cut"], ["c"])]
        conv = [make("Transpose", ["c"], ["t"], perm=[0, 2, 1, 3]), make("Softmax", ["t"], ["s"], axis=1),
                make("Conv", ["s", "taps"], ["k"]), make("Reshape", ["k", "flat"], ["y"])]
        forms = {
            "sum": [make("Softmax", ["c"], ["s"], axis=2), make("Mul", ["s", "by"], ["m"]),
                    make("ReduceSum", ["m", "two"], ["y"], keepdims=0)],
            "conv": conv,
            "cut": conv[:-1] + [make("Reshape", ["k", "flat"], ["z"]), make("Concat", ["z", "kinds"], ["y"], axis=1)],
        }
        for name, nodes in forms.items():
            with self.subTest(form=name):
                nodes = (cut if name == "cut" else start) + nodes
                used = {i for n in nodes for i in n.input}
                self.check(nodes, {"x": (2, 3, 8, 6)}, constants=[(k, v) for k, v in constants.items() if k in used], whole=True)

    def test_left_alone(self):
        """What is not built stays with ONNX Runtime, in the middle of what is."""
        make = onnx.helper.make_node
        nodes = [make("Conv", ["x", "w"], ["a"]), make("Hardmax", ["a"], ["s"]), make("Conv", ["s", "w"], ["b"]),
                 make("Add", ["a", "b"], ["y"])]
        self.check(nodes, {"x": (1, 4, 9, 7)}, constants=[("w", self.random(4, 4, 1, 1))])


if __name__ == "__main__":
    common.main()
