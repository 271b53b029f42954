"""Networks of very many nodes: making a session takes time in proportion to them, and not much more than
ONNX Runtime's own. Processor time of this process is compared, which other programs hardly change."""
import gc
import json
import resource
import time
import unittest

import common
import test_provider as provider

np = onnx = ort = None
SHAPE = (1, 3, 8, 8)


def setUpModule():
    global np, onnx, ort
    provider.setUpModule()
    np, onnx, ort = provider.np, provider.onnx, provider.ort


tearDownModule = provider.tearDownModule


def chain(op, n, second=None):
    """`n` nodes, each of which reads the one before it; `second`: what every other node is."""
    constants = []
    nodes = []
    for i in range(n):
        kind, inputs, more = second if second and i % 2 else op, [f"v{i - 1}" if i else "x"], {}
        if kind == "Conv":
            inputs.append(f"w{i}")
            constants.append((f"w{i}", np.full((3, 3, 1, 1), 0.3, np.float32)))
        if kind == "Concat":
            inputs, more = [inputs[0], "none"], {"axis": 1}
        if kind == "MaxPool":
            more = {"kernel_shape": [3, 3], "pads": [1] * 4}
        nodes.append(onnx.helper.make_node(kind, inputs, [f"v{i}"], **more))
    constants += [("none", np.zeros((1, 0, 8, 8), np.float32))] * ("Concat" in (op, second))
    nodes[-1].output[0] = "y"
    return provider.net(nodes, {"x": SHAPE}, "y", constants)


def seconds_of_command(*args):
    """Processor time of a command, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    told = common.run(*args).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, told


def seconds(model, ours, turns=2):
    """The least of so many, and the session."""
    best = None
    for _ in range(turns):
        gc.collect()
        o = provider.options(ours)
        kind = {} if ours else {"providers": ["CPUExecutionProvider"]}
        start = time.process_time()
        session = ort.InferenceSession(model, o, **kind)
        took = time.process_time() - start
        best = min(best or took, took)
    return best, session


class LargeGraphs(common.Case):
    def test_time_of_a_session(self):
        # One plan of them all; the last is a thousand parts of a network between nodes that are not ours.
        for op, n, second in (("Relu", 4000, None), ("MaxPool", 4000, None), ("Concat", 4000, None), ("Conv", 2000, "Hardmax")):
            with self.subTest(op=op, second=second):
                model = chain(op, n, second)
                own, ours = seconds(model, True)
                limit, theirs = seconds(model, False)
                print(f"{n} nodes, {op} {second or ''}: {own:.3f} s, ONNX Runtime {limit:.3f} s")
                self.assertLess(own, 3 * limit + 0.2)
                x = {"x": np.linspace(-1, 1, 192, dtype=np.float32).reshape(SHAPE)}
                want, got = theirs.run(None, x)[0], ours.run(None, x)[0]
                np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-6)

    def test_time_of_an_explanation(self):
        """`tachy engine why` makes a session, asks for each node, and prints them all."""
        n = 30001
        model = chain("Relu", n)
        path = self.tmp / "chain.onnx"
        path.write_bytes(model)
        own, told = seconds_of_command("engine", "why", path, "--json")
        limit, _ = seconds(model, False, turns=1)
        print(f"engine why of {n} nodes: {own:.3f} s, ONNX Runtime's session {limit:.3f} s")
        nodes = json.loads(told)["nodes"]
        self.assertEqual((len(nodes), {node["by"] for node in nodes}), (n, {"tachy"}))
        self.assertLess(own, 3 * limit + 0.2)


if __name__ == "__main__":
    common.main()
