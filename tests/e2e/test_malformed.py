"""Broken and odd models through ONNX Runtime with our provider: what ONNX Runtime takes must give what
its CPU provider gives, whoever runs it, and nothing may crash. Mutations of real models' graphs by a
fixed seed; TACHY_MUTATIONS=N does more of them. Each batch runs in a process of its own, which names
the mutation it is at."""
import os
import random
import subprocess
import sys
import unittest

import common
import test_provider as provider

MUTATIONS = int(os.environ.get("TACHY_MUTATIONS", 150))
ODD = [0, -1, 1, 2, 3, 7, 65535, 2**31 - 1, -2**31, 2**31, 2**40, 2**63 - 1, -2**63]
onnx = np = None


def base(kind, rng):
    """A small network with many operators in the forms of exporters."""
    make, c = onnx.helper.make_node, {}

    def weights(name, *shape):
        c[name] = rng.standard_normal(shape).astype(np.float32)
        return name
    three, six = "three", "six"
    c[three], c[six], c["zero"] = np.float32(3), np.float32(6), np.float32(0)
    nodes = [make("Conv", ["x", weights("w0", 8, 3, 3, 3), weights("b0", 8)], ["a"], pads=[1] * 4, strides=[2, 2])]
    if kind % 3 == 0:
        nodes += [make("Add", ["a", three], ["p"]), make("Clip", ["p", "zero", six], ["q"]), make("Mul", ["a", "q"], ["m"]),
                  make("Div", ["m", six], ["h"]), make("GlobalAveragePool", ["h"], ["g"]),
                  make("Conv", ["g", weights("w1", 8, 8, 1, 1)], ["g1"]), make("Sigmoid", ["g1"], ["s"]),
                  make("Mul", ["h", "s"], ["e"]), make("Conv", ["e", weights("w2", 8, 8, 1, 1)], ["f"]),
                  make("Add", ["f", "a"], ["y"])]
    elif kind % 3 == 1:
        c["pads"], c["scales"] = np.array([0, 0, 1, 1, 0, 0, 1, 1]), np.array([1, 1, 2, 2], np.float32)
        nodes += [make("Pad", ["a", "pads"], ["p"]), make("Conv", ["p", weights("w1", 8, 1, 3, 3)], ["d"], group=8),
                  make("PRelu", ["d", weights("k", 8, 1, 1)], ["r"]), make("MaxPool", ["r"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
                  make("Resize", ["m", "", "scales"], ["u"], mode="linear"), make("Concat", ["u", "r"], ["t"], axis=1),
                  make("Split", ["t"], ["t0", "t1"], axis=1), make("Sub", ["t0", "t1"], ["v"]),
                  make("ConvTranspose", ["v", weights("w2", 8, 4, 2, 2)], ["y"], strides=[2, 2])]
    else:
        c["shape"] = np.array([1, 8, -1])
        nodes += [make("Reshape", ["a", "shape"], ["p"]), make("Transpose", ["p"], ["q"], perm=[0, 2, 1]),
                  make("LayerNormalization", ["q", weights("g", 8), weights("o", 8)], ["n"], axis=-1),
                  make("MatMul", ["n", weights("w1", 8, 12)], ["m"]), make("Softmax", ["m"], ["s"], axis=-1),
                  make("MatMul", ["s", weights("w2", 12, 8)], ["t"]), make("Add", ["t", "q"], ["u"]),
                  make("ReduceMean", ["u"], ["r"], axes=[1], keepdims=1), make("Mul", ["u", "r"], ["y"])]
    return onnx.load_from_string(provider.net(nodes, {"x": (1, 3, 12, 10)}, "y", c.items()))


def mutate_attribute(model, rng):
    attributes = [a for n in model.graph.node for a in n.attribute]
    a = rng.choice(attributes)
    if a.type == onnx.AttributeProto.INTS and a.ints:
        what = rng.randrange(3)
        if what == 0:
            a.ints[rng.randrange(len(a.ints))] = rng.choice(ODD)
        elif what == 1:
            a.ints.pop()
        else:
            a.ints.append(rng.choice(ODD))
    elif a.type == onnx.AttributeProto.INT:
        a.i = rng.choice(ODD)
    elif a.type == onnx.AttributeProto.STRING:
        a.s = rng.choice([b"", b"nearest", b"cubic", b"SAME_LOWER", b"x" * 300, b"\xff"])
    else:
        a.type, a.i = onnx.AttributeProto.INT, 1


def mutate_initializer(model, rng):
    t = rng.choice(model.graph.initializer)
    what = rng.randrange(5)
    if what == 0 and t.dims:
        t.dims[rng.randrange(len(t.dims))] = rng.choice(ODD)
    elif what == 1:
        a = onnx.numpy_helper.to_array(t)
        t.CopyFrom(onnx.numpy_helper.from_array(a.reshape(-1)[:rng.randrange(4)], t.name))
    elif what == 2:
        a = onnx.numpy_helper.to_array(t).astype(rng.choice([np.float64, np.int64, np.float16, np.int8]))
        t.CopyFrom(onnx.numpy_helper.from_array(a, t.name))
    elif what == 3:
        model.graph.initializer.remove(t)
    else:
        t.raw_data = t.raw_data[:-1 - rng.randrange(4)]


def mutate_edge(model, rng):
    names = [o for n in model.graph.node for o in n.output] + [t.name for t in model.graph.initializer] + ["", "x", "none"]
    n = rng.choice(model.graph.node)
    what = rng.randrange(4)
    if what == 0:
        n.input[rng.randrange(len(n.input))] = rng.choice(names)
    elif what == 1:
        n.input.append(rng.choice(names))
    elif what == 2:
        del n.input[-1]
    else:
        n.op_type = rng.choice([m.op_type for m in model.graph.node] + ["Neg", "Gemm", "Flatten", "Where", "Gather"])


def mutate_shape(model, rng):
    v = rng.choice([*model.graph.input, *model.graph.output, *model.graph.value_info])
    dims = v.type.tensor_type.shape.dim
    what = rng.randrange(3)
    if dims and what == 0:
        dims[rng.randrange(len(dims))].dim_value = rng.choice([0, 1, 2, 5, 11, 64])
    elif dims and what == 1:
        dims[rng.randrange(len(dims))].dim_param = "n"
    else:
        v.type.tensor_type.elem_type = rng.choice([1, 7, 10, 11])


def mutated(seed):
    rng = random.Random(seed)
    model = base(seed, np.random.default_rng(seed))
    for _ in range(1 + rng.randrange(2)):
        rng.choice([mutate_attribute, mutate_initializer, mutate_edge, mutate_shape])(model, rng)
    return model


def feeds_of(session, seed):
    rng, feed = np.random.default_rng(seed), {}
    types = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64, "tensor(float16)": np.float16}
    for i in session.get_inputs():
        shape = [d if isinstance(d, int) else 2 for d in i.shape]
        if np.prod([float(d) for d in shape]) > 1e6:
            return None
        feed[i.name] = rng.standard_normal(shape).astype(types[i.type])
    return feed


def outcome(model, ours, seed):
    """Outputs, or a sentence where the model or the run is refused."""
    ort = provider.ort
    try:
        session = ort.InferenceSession(model, provider.options(ours), providers=None if ours else ["CPUExecutionProvider"])
        feed = feeds_of(session, seed)
        return session.run(None, feed) if feed is not None else "large inputs"
    except Exception as e:
        return str(e)


def close(got, want):
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    if not np.isfinite(want.astype(np.float64)).all():
        return True  # overflow and division by zero: in which order is nobody's promise
    return np.allclose(got, want, rtol=1e-3, atol=1e-3 * max(1, float(np.abs(want).max(initial=0))))


def batch(first, last):
    """Runs mutations first..last-1; prints `ran` where ONNX Runtime's CPU provider gave a result."""
    provider.ort.set_default_logger_severity(4)
    for seed in range(first, last):
        print("at", seed, flush=True)
        model = mutated(seed).SerializeToString()
        want, got = outcome(model, False, seed), outcome(model, True, seed)
        if isinstance(want, str):  # there is nothing to compare with
            continue
        if isinstance(got, str) and "another shape than the model says" in got:
            continue  # shapes in the model that are not true; ONNX Runtime goes on with a warning
        print("ran", flush=True)
        if isinstance(got, str) or not all(close(g, w) for g, w in zip(got, want)):
            print("DIFFERENT", seed, got if isinstance(got, str) else "", flush=True)


class Malformed(common.Case):
    def test_mutations(self):
        ran, step = 0, 1000
        for first in range(0, MUTATIONS, step):
            p = subprocess.run([sys.executable, __file__, "batch", str(first), str(min(first + step, MUTATIONS))], capture_output=True,
                               text=True, timeout=600)
            lines = p.stdout.splitlines()
            at = [line for line in lines if line.startswith("at")][-1:]
            self.assertEqual(p.returncode, 0, f"{at}: {p.stderr[-800:]}")
            self.assertEqual([line for line in lines if line.startswith("DIFFERENT")], [])
            ran += lines.count("ran")
        print(f"{MUTATIONS} mutations, {ran} of which ONNX Runtime runs")
        self.assertGreater(ran, MUTATIONS // 15)


def setUpModule():
    global onnx, np
    provider.setUpModule()
    onnx, np = provider.onnx, provider.np


def tearDownModule():
    provider.tearDownModule()


if __name__ == "__main__":
    if sys.argv[1:2] == ["batch"]:
        setUpModule()
        batch(int(sys.argv[2]), int(sys.argv[3]))
    else:
        common.main()
