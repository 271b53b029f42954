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
        self.table = provider.Table.in_dll(ctypes.CDLL(provider.LIBRARY), "tachy_ep_table")
        self.table.want_reference()
        try:
            self.session = provider.ort.InferenceSession(model, provider.options(True, fixed))
        finally:
            self.plan = self.table.take()
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
    """The model with what stands in front of a final Sigmoid or Softmax as its outputs, or None where
    no output is made by one."""
    onnx = provider.onnx
    made = {o: n for n in model.graph.node for o in n.output}
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    del changed.graph.output[:]
    found = False
    for output in model.graph.output:
        at, name = made.get(output.name), output.name
        while at is not None and at.op_type in ("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze"):
            at = made.get(at.input[0])
        if at is not None and at.op_type in ("Sigmoid", "Softmax", "LogSoftmax"):
            name, found = at.input[0], True
        if name not in [o.name for o in changed.graph.output]:
            changed.graph.output.append(onnx.helper.make_tensor_value_info(name, output.type.tensor_type.elem_type, None))
    return changed if found else None


def of_onnxruntime(model, plan, fixed, inputs, want):
    """The relative error of ONNX Runtime's own kernels on the same inputs."""
    session = provider.ort.InferenceSession(model, provider.options(False, fixed))
    got = session.run(plan.output_names, dict(zip(plan.input_names, inputs)))
    return max(relative(g, w) for g, w in zip(got, want))


def measure(model, inputs_of, fixed=()):
    """Largest error of a layer (with its name), of the network before a final sigmoid or softmax
    (relative; `theirs`: ONNX Runtime's), and after it (absolute; None without one). `inputs_of(shape)`
    gives an input."""
    np = provider.np
    plan = Plan(model.SerializeToString(), fixed)
    inputs = [inputs_of(s) for s in plan.inputs]
    layers = plan.layers(inputs)
    want, got = plan.reference(inputs), plan.run(inputs)
    result = {"layer": max((e for _, _, e in layers), default=0),
              "at": max(layers, key=lambda l: l[2], default=("", "", 0))[:2],
              "network": max(relative(g, w) for g, w in zip(got, want)), "after": None}
    open_end = before_end(model)
    if open_end:
        result["after"] = max(float(np.abs(g - w).max()) for g, w in zip(got, want))
        model, plan = open_end, Plan(open_end.SerializeToString(), fixed)
        want, got = plan.reference(inputs), plan.run(inputs)
        result["network"] = max(relative(g, w) for g, w in zip(got, want))
    result["theirs"] = of_onnxruntime(model.SerializeToString(), plan, fixed, inputs, want)
    return result
