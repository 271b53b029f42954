"""Random ONNX graphs for tests/fuzz/graphs: nodes are added one by one and evaluated by ONNX's reference
implementation as they come, so every graph is one that the reference can run."""
import warnings

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

F32, I64, BOOL = np.dtype(np.float32), np.dtype(np.int64), np.dtype(bool)
# No numbers near the end of float32's range: whether their sums are infinite depends on the order.
ODD = np.array([np.nan, np.inf, -np.inf, -0.0, 1e4, 1e-40], np.float32)
LARGEST = 1 << 15 # elements of a value


def evaluate(op, inputs, attributes, outputs, opset, domain=""):
    """What the reference makes of one node; `inputs`: arrays, None for those that are absent."""
    names = [f"i{k}" if v is not None else "" for k, v in enumerate(inputs)]
    out = [f"o{k}" for k in range(outputs)]
    node = helper.make_node(op, names, out, domain=domain, **attributes)
    types = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
             for n, v in zip(names, inputs) if n]
    results = [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in out]
    model = helper.make_model(helper.make_graph([node], "g", types, results),
                              opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        got = ReferenceEvaluator(model).run(None, {n: v for n, v in zip(names, inputs) if n})
    return [np.asarray(v) for v in got]


class Net:
    """A graph as it grows. Names of values go to arrays; constants and inputs are among them."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.opset = int(self.rng.integers(11, 22))
        self.odd = self.chance(0.15) # NaN, infinities and very large or small numbers among the inputs
        self.nodes, self.values, self.constants, self.inputs = [], {}, {}, {}
        for _ in range(self.pick([1, 1, 1, 2])):
            self.add_input(self.floats(self.shape()))

    # Numbers

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, what):
        return what[int(self.rng.integers(len(what)))]

    def int(self, low, high):
        """low..high"""
        return int(self.rng.integers(low, high + 1))

    def extent(self):
        if self.chance(0.012):
            return 0
        return self.pick([1, 1, 2, 3, 4, 5, 7, 8, 9, 13])

    def shape(self, rank=None):
        if rank is None:
            rank = self.pick([0, 1, 2, 3, 3, 4, 4, 4, 4, 4, 4, 5, 6])
        s = [self.extent() for _ in range(rank)]
        if rank in (3, 4):
            s[0], s[1] = self.pick([1, 1, 1, 2]), self.pick([1, 2, 3, 4, 6, 8, 12, 16, 17, 24, 33])
        return tuple(s)

    def floats(self, shape, scale=None, odd=True):
        x = self.rng.standard_normal(shape).astype(np.float32) * np.float32(scale or self.pick([0.3, 1, 1, 4]))
        if self.chance(0.2):
            x = np.round(x) # halves, zeros and equal numbers
        if self.odd and odd and x.size and self.chance(0.5):
            at = self.rng.integers(0, x.size, self.int(1, 3))
            x.reshape(-1)[at] = ODD[self.rng.integers(0, len(ODD), len(at))]
        return np.asarray(x, np.float32)

    # Values

    def add_input(self, array):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.values[name] = array
        return name

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants[name] = self.values[name] = np.asarray(array)
        return name

    def ints(self, *numbers):
        return self.constant(np.array(numbers, np.int64).reshape(-1))

    def find(self, test):
        """A computed value or an input, the later ones more often; None: there is none."""
        names = [n for n in self.values if n not in self.constants and test(self.values[n])]
        return names[max(self.int(0, len(names) - 1), self.int(0, len(names) - 1))] if names else None

    def float_value(self, least=0, most=8):
        return self.find(lambda v: v.dtype == F32 and least <= v.ndim <= most)

    def operand(self, x, dtype=None):
        """Something that stretches to the shape of `x`, or that it stretches to."""
        v = self.values[x]
        dtype = dtype or v.dtype
        other = self.find(lambda o: o.dtype == dtype and o.shape == v.shape)
        if other and self.chance(0.5):
            return other
        shape = [d if self.chance(0.6) else 1 for d in v.shape][self.int(0, v.ndim) if self.chance(0.4) else 0:]
        if self.chance(0.1):
            shape = [self.int(2, 3) if d == 1 and self.chance(0.5) else d for d in shape]
        if dtype == BOOL:
            a = self.rng.random(shape) < 0.5
        elif dtype == F32:
            a = self.floats(shape)
        else:
            a = self.rng.integers(0 if dtype.kind == "u" else -9, 10, shape).astype(dtype)
        return self.add_input(a) if self.chance(0.2) and len(self.inputs) < 4 else self.constant(a)

    def weights(self, shape, scale=None):
        """Constants as a rule, an input now and then. All finite: padding is not multiplied (docs/provider.md)."""
        a = self.floats(shape, scale or 0.5, odd=False)
        return self.add_input(a) if self.chance(0.08) and len(self.inputs) < 4 else self.constant(a)

    def add(self, op, inputs, outputs=1, **attributes):
        """The node's outputs; False: the reference refuses it, or it makes too much."""
        arrays = [self.values[n] if n else None for n in inputs]
        try:
            got = evaluate(op, arrays, attributes, outputs, self.opset)
        except Exception: # whatever the reference says: it is not our reference then
            return False
        if any(v.size > LARGEST or v.dtype.kind not in "fiub" or v.dtype == np.float64 or v.ndim > 8 for v in got):
            return False
        names = [f"v{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name=f"n{len(self.nodes)}", **attributes))
        self.values.update(zip(names, got))
        return names

    def grow(self, count):
        for _ in range(20 * count):
            if len(self.nodes) >= count:
                break
            kind = self.pick(KINDS)
            nodes, before = len(self.nodes), (set(self.values), set(self.constants), set(self.inputs))
            if not kind(self): # what it prepared is dropped
                del self.nodes[nodes:]
                for d, kept in zip((self.values, self.constants, self.inputs), before):
                    for n in [n for n in d if n not in kept]:
                        del d[n]

    def model(self, symbolic=()):
        """The model's bytes; `symbolic`: (input, axis) pairs that are named and not numbered."""
        used = {i for n in self.nodes for i in n.input}
        leaves = [o for n in self.nodes for o in n.output if o not in used]
        more = [o for n in self.nodes for o in n.output if o in used and self.rng.random() < 0.1]
        outs = [o for n in self.nodes for o in n.output if o in leaves or o in more][-8:]
        # Nothing that no output needs.
        need, nodes = set(outs), []
        for n in reversed(self.nodes):
            if any(o in need for o in n.output):
                need.update(n.input)
                nodes.insert(0, n)
        def info(name, shape):
            return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(self.values[name].dtype), shape)
        inputs = [info(n, [f"n{a}" if (n, a) in symbolic else d for a, d in enumerate(v.shape)])
                  for n, v in self.inputs.items() if n in need]
        constants = [onnx.numpy_helper.from_array(v, n) for n, v in self.constants.items() if n in need]
        graph = helper.make_graph(nodes, "g", inputs, [info(n, None) for n in outs], constants)
        self.outputs = outs
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


# Kinds of nodes: each adds one to a net, or returns something false.

def unary(t):
    x = t.float_value()
    ops = ["Relu", "Relu", "Sigmoid", "Tanh", "Exp", "Abs", "Neg", "Erf", "Floor", "Ceil", "Round", "Reciprocal", "Softplus",
           "Softsign", "Sin", "Cos", "Tan", "Atan", "Asinh", "Sinh", "Cosh", "Sqrt", "Log", "Sign", "Identity", "IsNaN",
           "IsInf", "Selu"] + ["HardSwish"] * 3 * (t.opset >= 14) + ["Mish"] * (t.opset >= 18) + ["Gelu"] * 2 * (t.opset >= 20)
    return x and t.add(t.pick(ops), [x])


def with_numbers(t):
    x = t.float_value()
    op, names = t.pick([("LeakyRelu", ["alpha"]), ("Elu", ["alpha"]), ("ThresholdedRelu", ["alpha"]), ("HardSigmoid", ["alpha", "beta"]),
                        ("Shrink", ["lambd", "bias"]), ("Celu", ["alpha"]), ("Selu", ["alpha", "gamma"])])
    numbers = {n: float(np.float32(t.pick([0.01, 0.2, 0.5, 1, 1.7, 3]))) for n in names if t.chance(0.8)}
    return x and t.add(op, [x], **numbers)


def clip(t):
    x = t.float_value()
    ends = sorted(t.rng.standard_normal(2) * 2)
    if t.chance(0.3):
        ends = t.pick([[0, 6], [6, 0], [-1, 1], [-np.inf, 0], [0, 0]])
    names = [t.constant(np.float32(e)) if t.chance(0.8) else "" for e in ends]
    return x and t.add("Clip", [x] + names)


def binary(t):
    x = t.float_value()
    if not x:
        return None
    op = t.pick(["Add", "Add", "Add", "Sub", "Mul", "Mul", "Mul", "Div", "Pow", "PRelu", "Mod", "Less", "Greater", "Equal",
                 "LessOrEqual", "GreaterOrEqual"])
    ends = [x, t.operand(x)]
    if t.chance(0.4) and op != "PRelu":
        ends.reverse()
    return t.add(op, ends, **({"fmod": 1} if op == "Mod" else {}))


def several(t):
    x = t.float_value()
    return x and t.add(t.pick(["Min", "Max", "Sum", "Mean"]), [x] + [t.operand(x) for _ in range(t.int(0, 3))])


def whole(t):
    x = t.find(lambda v: v.dtype != F32 and v.dtype != BOOL)
    op = t.pick(["Add", "Sub", "Mul", "Div", "Mod", "Equal", "Less", "Greater", "Min", "Max"])
    return x and t.add(op, [x, t.operand(x)])


def truth(t):
    x = t.find(lambda v: v.dtype == BOOL)
    if not x or t.chance(0.3):
        return x and t.add("Not", [x])
    return t.add(t.pick(["And", "Or", "Xor"]), [x, t.operand(x)])


def where(t):
    c = t.find(lambda v: v.dtype == BOOL)
    x = c and (t.find(lambda v: v.dtype == F32 and v.shape == t.values[c].shape) or t.operand(c, F32))
    return c and t.add("Where", [c, x, t.operand(x)])


def cast(t):
    x = t.find(lambda v: v.size)
    to = t.pick([TensorProto.FLOAT] * 3 + [TensorProto.BOOL, TensorProto.INT64, TensorProto.INT32, TensorProto.UINT8, TensorProto.INT8])
    if not x:
        return None
    v = t.values[x]
    if to not in (TensorProto.FLOAT, TensorProto.BOOL): # beyond the type nothing is defined
        info = np.iinfo(helper.tensor_dtype_to_np_dtype(to))
        if not np.all(np.isfinite(v)) or v.min() <= info.min or v.max() >= info.max:
            return None
    return t.add("Cast", [x], to=to)


def window(t, sizes):
    """Attributes of a window over pixels."""
    dims = len(sizes)
    kernel = [t.pick([1, 1, 2, 3, 3, 3, 5]) for _ in range(dims)]
    a = {"strides": [t.pick([1, 1, 1, 2, 3]) for _ in range(dims)]} if t.chance(0.5) else {}
    if t.chance(0.25):
        a["auto_pad"] = t.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
    elif t.chance(0.6):
        a["pads"] = [t.int(0, max(k - 1, 0)) for k in kernel * 2]
    return kernel, a


def picture(t):
    """Not one without pixels: ONNX Runtime itself divides by zero then."""
    x = t.float_value(3, 4)
    return x if x and t.values[x].size else None


def some(t, names):
    """What a node made, if there is any of it: ONNX Runtime itself divides by zero in windows that do not fit."""
    return names and t.values[names[0]].size and names


def finite(t, x):
    return bool(x) and bool(np.all(np.isfinite(t.values[x])))


def conv(t):
    x = picture(t)
    if not x:
        return None
    n, c, *sizes = t.values[x].shape
    if not c:
        return None
    kernel, a = window(t, sizes)
    group = t.pick([1, 1, c] + [g for g in (2, 3, 4) if c % g == 0])
    out = group * t.pick([1, 1, 2, 3, 4, 5, 8, 16, 17]) if group < c or c == 1 else c * t.pick([1, 1, 2])
    if out > 64:
        return None
    if t.chance(0.2):
        a["dilations"] = [t.int(1, 3) for _ in sizes]
    inputs = [x, t.weights((out, c // group, *kernel))] + ([t.weights((out,))] if t.chance(0.5) else [])
    if t.chance(0.7):
        a["kernel_shape"] = kernel
    return some(t, t.add("Conv", inputs, group=group, **a))


def deconv(t):
    x = picture(t)
    if not x:
        return None
    n, c, *sizes = t.values[x].shape
    if not c:
        return None
    kernel, a = window(t, sizes)
    group = t.pick([1, 1, c] + [g for g in (2, 3) if c % g == 0])
    each = t.pick([1, 2, 3, 4, 5, 8])
    if t.chance(0.2) and finite(t, x): # there are zeros between the weights (docs/provider.md)
        a["dilations"] = [t.int(1, 2) for _ in sizes]
    strides = a.get("strides", [1] * len(sizes))
    if t.chance(0.3):
        a["output_padding"] = [t.int(0, max(s - 1, 0)) for s in strides]
    inputs = [x, t.constant(t.floats((c, each, *kernel), 0.5, odd=False))] + ([t.weights((each * group,))] if t.chance(0.5) else [])
    return some(t, t.add("ConvTranspose", inputs, group=group, **a))


def pool(t):
    x = picture(t)
    if not x:
        return None
    kernel, a = window(t, t.values[x].shape[2:])
    op, pads = t.pick(["MaxPool", "MaxPool", "AveragePool"]), a.get("pads", [0] * 2 * len(kernel))
    if any(k > s + p + q for k, s, p, q in zip(kernel, t.values[x].shape[2:], pads, pads[len(kernel):])):
        return None # ONNX Runtime divides by zero
    if op == "MaxPool" and not finite(t, x): # NaN stays NaN here, and neither of the others keeps it everywhere
        return None
    if t.chance(0.3):
        a["ceil_mode"] = 1
    if op == "AveragePool" and t.chance(0.5):
        a["count_include_pad"] = 1
    return some(t, t.add(op, [x], kernel_shape=kernel, **a))


def global_pool(t):
    x = picture(t)
    kinds = ["GlobalAveragePool"] * 2 + ["GlobalMaxPool"] * (bool(x) and t.values[x].ndim == 4) # the reference needs 4
    return x and t.add(t.pick(kinds), [x])


def squeeze_excite(t):
    """Two nodes: a mean of a picture, and the picture scaled by what is made of it."""
    x = t.float_value(4, 4)
    mean = x and t.add("GlobalAveragePool", [x])
    gate = mean and t.add(t.pick(["Sigmoid", "HardSigmoid", "Relu"]), mean)
    return gate and t.add("Mul", [x, gate[0]])


def norm(t):
    x = t.float_value(2, 5)
    if not x or not t.values[x].size:
        return None
    s = t.values[x].shape
    c = s[1]
    kind = t.pick(["BatchNormalization"] * 3 + ["InstanceNormalization", "LayerNormalization", "LpNormalization", "GroupNormalization"])
    if kind == "BatchNormalization":
        return t.add(kind, [x] + [t.constant(t.floats((c,))) for _ in range(3)] + [t.constant(np.abs(t.floats((c,))) + np.float32(0.1))])
    if kind == "InstanceNormalization":
        return len(s) > 2 and t.add(kind, [x, t.constant(t.floats((c,))), t.constant(t.floats((c,)))])
    if kind == "LayerNormalization":
        axis = t.int(-len(s), -1)
        return t.opset >= 17 and t.add(kind, [x] + [t.constant(t.floats(s[axis:])) for _ in range(t.int(1, 2))], axis=axis)
    if kind == "GroupNormalization":
        g = t.pick([g for g in (1, 2, 3, c) if c % g == 0])
        return t.opset >= 21 and len(s) > 2 and t.add(kind, [x, t.constant(t.floats((c,))), t.constant(t.floats((c,)))], num_groups=g)
    return t.add(kind, [x], axis=t.int(-1, len(s) - 1), p=t.int(1, 2))


def matmul(t):
    x = t.float_value(1, 5)
    if not x:
        return None
    v = t.values[x]
    other = t.find(lambda o: o.dtype == F32 and o.ndim >= 2 and o.shape[-2] == v.shape[-1])
    if other and t.chance(0.3):
        return t.add("MatMul", [x, other])
    shape = (v.shape[-1], t.pick([1, 2, 3, 8, 16, 17, 33]))
    if v.ndim > 2 and t.chance(0.2):
        shape = v.shape[:-2] + shape
    return t.add("MatMul", [x, t.weights(shape)])


def gemm(t):
    x = t.float_value(2, 2)
    if not x:
        return None
    ta, tb = t.int(0, 1), t.int(0, 1)
    k, n = t.values[x].shape[0 if ta else 1], t.pick([1, 3, 8, 17])
    rows = t.values[x].shape[1 if ta else 0]
    c = [t.weights(t.pick([(n,), (1, n), (rows, n), (rows, 1), (1,), ()]))] if t.chance(0.6) else []
    a = {"alpha": t.pick([0.5, 1.0, -2.0]), "beta": t.pick([0.0, 0.5, 1.0])} if t.chance(0.4) else {}
    return t.add("Gemm", [x, t.weights((n, k) if tb else (k, n))] + c, transA=ta, transB=tb, **a)


def axes_of(t, x, op_since):
    """Axes as an attribute or, from `op_since` on, as an input: (inputs, attributes)."""
    rank = t.values[x].ndim
    if not rank or t.chance(0.15):
        return [], {}
    axes = sorted(t.rng.choice(rank, t.int(1, rank), replace=False).tolist())
    if rank == 4 and t.chance(0.3):
        axes = [2, 3]
    axes = [a - rank if t.chance(0.3) else a for a in axes]
    return ([t.ints(*axes)], {}) if t.opset >= op_since else ([], {"axes": axes})


def reduce(t):
    x = t.float_value()
    if not x:
        return None
    how = t.pick(["Mean", "Mean", "Sum", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"])
    inputs, a = axes_of(t, x, 13 if how == "Sum" else 18)
    if t.chance(0.8):
        a["keepdims"] = t.int(0, 1)
    if t.chance(0.1) and t.opset >= (13 if how == "Sum" else 18):
        a["noop_with_empty_axes"] = t.int(0, 1)
    return t.add("Reduce" + how, [x] + inputs, **a)


def softmax(t):
    x = t.float_value(1)
    return x and t.add(t.pick(["Softmax", "Softmax", "LogSoftmax"]), [x], **({"axis": t.int(-t.values[x].ndim, t.values[x].ndim - 1)}
                                                                             if t.chance(0.8) else {}))


def arg(t):
    x = t.float_value(1)
    if not x:
        return None
    a = {"keepdims": t.int(0, 1)}
    if t.opset >= 12 and t.chance(0.3):
        a["select_last_index"] = 1
    return t.add(t.pick(["ArgMax", "ArgMin"]), [x], axis=t.int(-1, t.values[x].ndim - 1), **a)


def any_value(t, least=0):
    return t.find(lambda v: v.ndim >= least)


def concat(t):
    x = any_value(t, 1)
    if not x:
        return None
    v = t.values[x]
    axis, parts = t.int(0, v.ndim - 1), [x]
    for _ in range(t.int(0, 3)):
        other = t.find(lambda o: o.dtype == v.dtype and o.ndim == v.ndim and o.shape[:axis] == v.shape[:axis] and
                       o.shape[axis + 1:] == v.shape[axis + 1:])
        parts.insert(t.int(0, len(parts)), other if other and t.chance(0.7) else t.constant(
            (t.floats if v.dtype == F32 else lambda s: np.zeros(s, v.dtype))(v.shape[:axis] + (t.int(0, 3),) + v.shape[axis + 1:])))
    return t.add("Concat", parts, axis=axis - v.ndim if t.chance(0.3) else axis)


def split(t):
    x = any_value(t, 1)
    if not x:
        return None
    v = t.values[x]
    axis = t.int(0, v.ndim - 1)
    n = t.int(1, min(3, max(v.shape[axis], 1)))
    if v.shape[axis] % n == 0 and t.opset < 18 and t.chance(0.5):
        return t.add("Split", [x], n, axis=axis)
    cut = np.sort(t.rng.integers(0, v.shape[axis] + 1, n - 1))
    sizes = np.diff(np.concatenate([[0], cut, [v.shape[axis]]])).tolist()
    return t.add("Split", [x, t.ints(*sizes)], n, axis=axis) if t.opset >= 13 else t.add("Split", [x], n, axis=axis, split=sizes)


def slice_(t):
    x = any_value(t, 1)
    if not x:
        return None
    v = t.values[x]
    axes = sorted(t.rng.choice(v.ndim, t.int(1, v.ndim), replace=False).tolist())
    starts, ends, steps = [], [], []
    for a in axes:
        d = v.shape[a]
        step = t.pick([1, 1, 1, 1, 2, 3, -1, -2])
        starts.append(t.int(-d - 1, d + 1))
        ends.append(t.pick([t.int(-d - 1, d + 1), 2 ** 31 - 1, 2 ** 63 - 1, -2 ** 31 + 1]))
        steps.append(step)
    inputs = [x, t.ints(*starts), t.ints(*ends), t.ints(*axes)] + ([t.ints(*steps)] if t.chance(0.7) else [])
    return t.add("Slice", inputs)


def focus(t):
    """Every second row and column."""
    x = t.float_value(4, 4)
    parts = []
    for k in range(4 if x else 0):
        got = t.add("Slice", [x, t.ints(k % 2, k // 2), t.ints(2 ** 31 - 1, 2 ** 31 - 1), t.ints(2, 3), t.ints(2, 2)])
        if not got or t.values[got[0]].shape != t.values[parts[0] if parts else got[0]].shape:
            return None
        parts += got
    return parts and t.add("Concat", parts, axis=1)


def pad(t):
    x = t.float_value(1)
    if not x:
        return None
    v = t.values[x]
    mode = t.pick(["constant"] * 4 + ["edge", "reflect"] + ["wrap"] * (t.opset >= 19))
    pads = [0 if t.chance(0.5) else t.int(-1 if mode == "constant" else 0, 2) for _ in range(2 * v.ndim)]
    inputs = [x, t.ints(*pads)]
    if mode == "constant" and t.chance(0.5):
        inputs.append(t.constant(np.float32(t.pick([0, 0, 1.5, -np.inf]))))
    return t.add("Pad", inputs, mode=mode)


def transpose(t):
    x = any_value(t)
    if not x:
        return None
    rank = t.values[x].ndim
    perm = t.rng.permutation(rank).tolist()
    if rank == 4 and t.chance(0.5):
        perm = t.pick([[0, 2, 3, 1], [0, 3, 1, 2], [0, 1, 3, 2]])
    return t.add("Transpose", [x], **({"perm": perm} if t.chance(0.9) else {}))


def factors(t, n, most=4):
    out = []
    for _ in range(t.int(0, most - 1)):
        f = t.pick([f for f in (1, 2, 3, 4, 5, 7) if n % f == 0]) if n else t.int(0, 3)
        out.append(f)
        n = n // f if f else n
    out.insert(t.int(0, len(out)), n)
    return out


def reshape(t):
    x = any_value(t)
    if not x:
        return None
    v = t.values[x]
    to = factors(t, v.size)
    if v.size and t.chance(0.4):
        to[t.int(0, len(to) - 1)] = -1
    if v.ndim and v.shape[0] == to[0] and t.chance(0.5):
        to[0] = 0
    return t.add("Reshape", [x, t.ints(*to)])


def renamed(t):
    x = any_value(t)
    if not x:
        return None
    v = t.values[x]
    what = t.int(0, 2)
    if what == 0:
        return t.add("Flatten", [x], axis=t.int(-v.ndim if t.opset >= 11 else 0, v.ndim))
    op = "Squeeze" if what == 1 else "Unsqueeze"
    ones = [a for a, d in enumerate(v.shape) if d == 1]
    if op == "Squeeze" and not ones:
        return None
    axes = [t.pick(ones)] if what == 1 else [t.int(-v.ndim - 1, v.ndim)]
    return t.add(op, [x, t.ints(*axes)]) if t.opset >= 13 else t.add(op, [x], axes=axes)


def expand(t):
    x = any_value(t)
    if not x:
        return None
    v = t.values[x]
    if t.chance(0.3) and v.ndim:
        return t.add("Tile", [x, t.ints(*[t.int(1, 2) for _ in v.shape])])
    to = [t.int(1, 3) if d == 1 else t.pick([d, 1]) for d in v.shape]
    to = [t.int(1, 2)] * (t.chance(0.3)) + to[t.int(0, len(to)) if t.chance(0.2) else 0:]
    return t.add("Expand", [x, t.ints(*to)])


def gather(t):
    x = any_value(t, 1)
    if not x:
        return None
    v = t.values[x]
    op, axis = t.pick(["Gather", "Gather", "GatherElements", "GatherND"]), t.int(0, v.ndim - 1)
    d = v.shape[axis]
    if not v.size:
        return None
    kind = t.pick([np.int64, np.int64, np.int32])
    keep = (lambda a: t.add_input(a)) if t.chance(0.2) and len(t.inputs) < 4 else t.constant
    if op == "Gather":
        i = keep(t.rng.integers(-d, d, t.pick([(), (), (1,), (3,), (2, 2), (0,)])).astype(kind))
        return t.add(op, [x, i], axis=axis - v.ndim if t.chance(0.3) else axis)
    if op == "GatherElements":
        shape = [t.int(1, 3) if a == axis else t.int(1, n) for a, n in enumerate(v.shape)]
        return t.add(op, [x, keep(t.rng.integers(-d, d, shape).astype(kind))], axis=axis)
    deep = t.int(1, v.ndim)
    i = np.stack([t.rng.integers(-n, n, (3,)) for n in v.shape[:deep]], -1)
    return t.add(op, [x, keep(i.astype(np.int64))])


def resize(t):
    x = picture(t)
    if not finite(t, x): # between infinite numbers it is a matter of the formula (docs/provider.md)
        return None
    v = t.values[x]
    none = t.constant(np.zeros(0, np.float32))
    a = {"mode": t.pick(["nearest", "nearest", "linear", "linear", "cubic"]),
         "coordinate_transformation_mode": t.pick(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])}
    if a["mode"] == "nearest":
        a["nearest_mode"] = t.pick(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    if a["mode"] == "cubic" and t.chance(0.3):
        a["exclude_outside"] = 1
    scales = [1.0, 1.0] + [t.pick([0.5, 0.6, 1.0, 1.7, 2.0, 2.0, 3.0]) for _ in v.shape[2:]]
    if t.chance(0.5):
        return t.add("Resize", [x, none if t.chance(0.5) else "", t.constant(np.array(scales, np.float32))], **a)
    sizes = [d if k < 2 else t.int(1, 2 * d + 1) for k, d in enumerate(v.shape)]
    return t.add("Resize", [x, none, none, t.ints(*sizes)] if t.opset < 13 else [x, "", "", t.ints(*sizes)], **a)


def grid_sample(t):
    x = t.float_value(4, 4)
    if not finite(t, x) or not t.values[x].size or t.opset < 16:
        return None
    names = ["linear", "nearest", "cubic"] if t.opset >= 20 else ["bilinear", "nearest", "bicubic"]
    grid = t.floats((t.values[x].shape[0], t.int(1, 5), t.int(1, 5), 2), 0.7)
    if not np.all(np.isfinite(grid)): # the result for a NaN coordinate is undefined
        return None
    return t.add("GridSample", [x, t.add_input(grid) if len(t.inputs) < 4 else t.constant(grid)], mode=t.pick(names),
                 padding_mode=t.pick(["zeros", "border", "reflection"]), align_corners=t.int(0, 1))


def blocks(t):
    x = t.float_value(4, 4)
    b = t.int(1, 3)
    if x and t.chance(0.5):
        return t.add("SpaceToDepth", [x], blocksize=b)
    return x and t.add("DepthToSpace", [x], blocksize=b, mode=t.pick(["DCR", "CRD"]))


def quantise(t):
    x = t.find(lambda v: v.dtype in (np.uint8, np.int8)) if t.chance(0.5) else None
    if x:
        return t.add("DequantizeLinear", [x, t.constant(np.float32(0.1)), t.constant(t.values[x].dtype.type(3))])
    x = t.float_value()
    if not x or not np.all(np.isfinite(t.values[x])):
        return None
    return t.add("QuantizeLinear", [x, t.constant(np.float32(t.pick([0.25, 0.1, 1]))), t.constant(t.pick([np.uint8, np.int8])(t.int(0, 9)))])


def foreign(t):
    """What we leave, so that a network falls into parts."""
    x = t.float_value(1)
    return x and t.add("Hardmax", [x], axis=-1)


def other_form(t):
    """What becomes other operators of ours."""
    x = t.float_value(1)
    if not x:
        return None
    v, op = t.values[x], t.pick(["CumSum", "Einsum", "OneHot", "Trilu"])
    if op == "CumSum":
        return t.add(op, [x, t.constant(np.int64(t.int(-v.ndim, v.ndim - 1)))], reverse=t.int(0, 1), exclusive=t.int(0, 1))
    if op == "OneHot":
        shape = [t.int(1, 4) for _ in range(t.int(0, 3))]
        i = t.rng.integers(-6, 7, shape)
        keep = t.add_input if t.chance(0.5) and len(t.inputs) < 4 else t.constant
        return t.add(op, [keep(np.asarray(i)), t.constant(np.int64(t.int(1, 5))), t.constant(np.array([0, 1], np.float32))],
                     axis=t.int(-len(shape) - 1, len(shape)))
    if op == "Trilu":
        k = [] if t.chance(0.3) else [t.constant(np.int64(t.int(-4, 4)))]
        return v.ndim > 1 and t.opset >= 14 and t.add(op, [x, *k], upper=t.int(0, 1)) or None
    letters = "abcdefg"[:v.ndim]
    if v.ndim > 6 or not v.size: # ONNX Runtime's Einsum divides by an empty tensor's size
        return None
    if t.chance(0.3):  # turned and added up
        return t.add(op, [x], equation=f"{letters}->{''.join(c for c in t.rng.permutation(list(letters)) if t.chance(0.8))}")
    other = [c for c in letters if t.chance(0.6)] + ["z"] * t.chance(0.7)
    other = "".join(t.rng.permutation(other)) if other else "z"
    size = dict(zip(letters, v.shape), z=t.int(1, 5))
    y = t.constant(t.floats([size[c] for c in other]))
    out = [c for c in dict.fromkeys(letters + other) if t.chance(0.7)]
    return t.add(op, [x, y], equation=f"{letters},{other}->{''.join(t.rng.permutation(out)) if out else ''}")


def shape_of(t):
    x = any_value(t, 1)
    return x and t.add(t.pick(["Shape", "Size"]), [x])


KINDS = ([conv] * 9 + [binary] * 7 + [unary] * 6 + [matmul] * 3 + [clip, with_numbers, several, reduce, concat, pad, reshape,
         transpose, slice_] * 2 + [deconv, pool, resize] * 3 + [whole, truth, where, cast, global_pool, squeeze_excite, norm, gemm,
         softmax, arg, split, focus, renamed, expand, gather, grid_sample, blocks, quantise, foreign, other_form, other_form, shape_of])
