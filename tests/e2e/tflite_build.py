"""Makes small TFLite files for tests, with the schema that LiteRT's package carries."""
import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as S

TYPES = {"float32": S.TensorType.FLOAT32, "float16": S.TensorType.FLOAT16, "int32": S.TensorType.INT32,
         "int64": S.TensorType.INT64, "uint8": S.TensorType.UINT8, "int8": S.TensorType.INT8,
         "bool": S.TensorType.BOOL}


class Net:
    """Tensors and operators in the order of the calls; `x` = tensor(...) gives numbers."""

    def __init__(self):
        self.model = S.ModelT()
        self.model.version = 3
        self.model.buffers = [S.BufferT()]
        self.model.operatorCodes = []
        self.graph = S.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []
        self.graph.inputs, self.graph.outputs = [], []
        self.model.subgraphs = [self.graph]

    def tensor(self, shape, dtype="float32", data=None, scale=None, zero=None, axis=0):
        t = S.TensorT()
        t.shape, t.type, t.buffer = list(shape), TYPES[dtype], 0
        t.name = f"t{len(self.graph.tensors)}"
        if data is not None:
            b = S.BufferT()
            b.data = np.frombuffer(np.ascontiguousarray(data, dtype).tobytes(), np.uint8)
            t.buffer = len(self.model.buffers)
            self.model.buffers.append(b)
        if scale is not None:
            q = S.QuantizationParametersT()
            q.scale = np.atleast_1d(scale).astype(np.float32)
            q.zeroPoint = np.atleast_1d(0 if zero is None else zero).astype(np.int64)
            q.quantizedDimension = axis
            t.quantization = q
        self.graph.tensors.append(t)
        return len(self.graph.tensors) - 1

    def const(self, a, dtype=None, **kw):
        a = np.asarray(a)
        return self.tensor(a.shape, dtype or str(a.dtype), a, **kw)

    def input(self, shape, dtype="float32", **kw):
        t = self.tensor(shape, dtype, **kw)
        self.graph.inputs.append(t)
        return t

    def output(self, *ts):
        self.graph.outputs.extend(ts)

    def op(self, name, ins, shape, dtype="float32", options=None, custom=None, n_out=1, **kw):
        """Adds an operator; returns its output, or the list of outputs for n_out > 1. `custom`: name and options (bytes) of a CUSTOM."""
        code = S.OperatorCodeT()
        number = getattr(S.BuiltinOperator, name)
        code.builtinCode, code.deprecatedBuiltinCode, code.version = number, min(number, 127), 1
        self.model.operatorCodes.append(code)
        outs = [self.tensor(shape, dtype, **kw) for _ in range(n_out)]
        o = S.OperatorT()
        o.opcodeIndex = len(self.model.operatorCodes) - 1
        o.inputs, o.outputs = list(ins), outs
        if custom:
            code.customCode, o.customOptions = custom[0], list(custom[1])
        if options:
            kind, values = options
            o.builtinOptions = getattr(S, kind + "T")()
            o.builtinOptionsType = getattr(S.BuiltinOptions, kind)
            for k, v in values.items():
                assert hasattr(o.builtinOptions, k), k
                setattr(o.builtinOptions, k, v)
        self.graph.operators.append(o)
        return outs[0] if n_out == 1 else outs

    def reshape(self, x, shape):
        return self.op("RESHAPE", [x, self.const(np.int32(shape))], shape)

    def conv(self, x, shape, out, rng, k=1, stride=1, padding=0, act=0, dilation=1):
        """CONV_2D from shape [1, h, w, c]; returns (tensor, shape)."""
        h, w = [-(-n // stride) if padding == 0 else (n - (k - 1) * dilation - 1) // stride + 1 for n in shape[1:3]]
        weights = self.const((rng.standard_normal((out, k, k, shape[3])) / (k * shape[3] ** 0.5)).astype(np.float32))
        b = self.const(rng.standard_normal(out).astype(np.float32))
        s = [shape[0], h, w, out]
        return self.op("CONV_2D", [x, weights, b], s, options=("Conv2DOptions", dict(
            padding=padding, strideW=stride, strideH=stride, fusedActivationFunction=act,
            dilationWFactor=dilation, dilationHFactor=dilation))), s

    def bytes(self):
        b = flatbuffers.Builder(1024)
        b.Finish(self.model.Pack(b), b"TFL3")
        return bytes(b.Output())
