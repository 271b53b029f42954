"""What the provider computes against double precision, through the function table of libtachy_ep.so
(src/base/ep_table.h): shared by test_accuracy.py and bench/engine_accuracy."""
import ctypes

import test_provider as provider


class Layer(ctypes.Structure):
    _fields_ = [("op", ctypes.c_char_p), ("name", ctypes.c_char_p), ("elements", ctypes.c_int64),
                ("error", ctypes.c_double)]


EACH = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Layer))


def pointers(arrays):
    return (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])


class Plan:
    """A model's plan together with its evaluator in double precision. `model`: path or bytes; it must
    be claimed whole."""

    def __init__(self, model, fixed=()):
        self.plan = None
        context = provider.Context(provider.Context.REFERENCE)
        self.table = context.table
        self.session = provider.ort.InferenceSession(model, provider.options(True, fixed, context.own))
        self.plan = context.take()
        if not self.plan:
            raise ValueError("the model is not one plan")
        info = provider.PlanInfo()
        self.table.info(self.plan, ctypes.byref(info))
        outputs = [self.tensor(self.table.output, i) for i in range(info.nb_out)]
        inputs = [self.tensor(self.table.input, i) for i in range(info.nb_in)]
        self.output_names, self.shapes = [n for n, _ in outputs], [s for _, s in outputs]
        self.input_names, self.inputs = [n for n, _ in inputs], [s for _, s in inputs]

    def tensor(self, which, i):
        t = provider.Tensor()
        which(self.plan, i, ctypes.byref(t))
        return t.name.decode(), list(t.shape[:t.rank])

    def run(self, inputs):
        out = [provider.np.empty(s, provider.np.float32) for s in self.shapes]
        assert self.table.run(self.plan, pointers(inputs), pointers(out)) == 0
        return out

    def reference(self, inputs):
        out = [provider.np.empty(s, provider.np.float64) for s in self.shapes]
        code = self.table.reference(self.plan, pointers(inputs), pointers(out))
        if code:
            raise ValueError(f"no float64 reference (code {code})")
        return out

    def layers(self, inputs):
        """(operator, name, relative error) of each step that computes."""
        seen = []
        each = EACH(lambda _, layer: seen.append((layer[0].op.decode(), layer[0].name.decode(), layer[0].error)))
        code = self.table.layers(self.plan, pointers(inputs), ctypes.cast(each, ctypes.c_void_p), None)
        if code:
            raise ValueError(f"no float64 layers (code {code})")
        return seen

    def __del__(self):
        if self.plan:
            self.table.release(self.plan)


def relative(got, want):
    np = provider.np
    norm = float(np.linalg.norm(want))
    return float(np.linalg.norm(got.astype(np.float64) - want)) / norm if norm else float(np.abs(got).max(initial=0))


def before_end(model):
    """The model with what stands in front of a final Sigmoid or Softmax as its outputs, and the names of
    those outputs that end in one; (None, []) where none does."""
    onnx = provider.onnx
    made = {o: n for n in model.graph.node for o in n.output}
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    del changed.graph.output[:]
    found = []
    for output in model.graph.output:
        at, name = made.get(output.name), output.name
        while at is not None and at.op_type in ("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze"):
            at = made.get(at.input[0])
        if at is not None and at.op_type in ("Sigmoid", "Softmax", "LogSoftmax"):
            name = at.input[0]
            found.append(output.name)
        if name not in [o.name for o in changed.graph.output]:
            changed.graph.output.append(onnx.helper.make_tensor_value_info(name, output.type.tensor_type.elem_type, None))
    return (changed, found) if found else (None, [])


def measure(model, sets_of, fixed=()):
    """Largest error of a layer given the first inputs (with its name), of the network before a final
    sigmoid or softmax (relative; `theirs`: ONNX Runtime's), and after it (absolute; None without one): of
    the network lists, one for each set of inputs. `sets_of(shapes)` gives them."""
    np = provider.np
    plan = Plan(model.SerializeToString(), fixed)
    sets = sets_of(plan.inputs)
    layers = plan.layers(sets[0])
    result = {"layer": max((e for _, _, e in layers), default=0),
              "at": max(layers, key=lambda l: l[2], default=("", "", 0))[:2], "after": None, "network": [], "theirs": []}
    open_end, ends = before_end(model)
    if open_end:
        both = [(plan.run(x), plan.reference(x)) for x in sets]
        result["after"] = [max(float(np.abs(g - w).max()) for n, g, w in zip(plan.output_names, got, want) if n in ends)
                           for got, want in both]
        model, plan = open_end, Plan(open_end.SerializeToString(), fixed)
    session = provider.ort.InferenceSession(model.SerializeToString(), provider.options(False, fixed))
    for x in sets:
        want = plan.reference(x)
        theirs = session.run(plan.output_names, dict(zip(plan.input_names, x)))
        result["network"].append(max(relative(g, w) for g, w in zip(plan.run(x), want)))
        result["theirs"].append(max(relative(g, w) for g, w in zip(theirs, want)))
    return result
