"""The contestants of bench/engine_cpu: one class a runtime, each opened with a network's files (of
engine_networks.get), its inputs and a number of threads. run() is one inference by the cheapest call of
the runtime, inputs and outputs staying where they are; outputs() gives numpy arrays in the order of the
ONNX model. Cannot raised by a constructor: this runtime does not take the network, and why."""
import os
import pathlib
import subprocess

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
EFFORT = os.environ.get("TACHY_BUILD_EFFORT", "2")  # of `tachy segment`; what is found is in the engine store
EP = os.environ.get("TACHY_EP", str(ROOT / "build" / "src" / "provider" / "libtachy_ep.so"))


class Cannot(Exception):
    pass


class OnnxRuntime:
    """ONNX Runtime's own CPU kernels; threads that do not spin."""
    key = "onnx"

    def options(self, threads):
        import onnxruntime as ort
        o = ort.SessionOptions()
        o.intra_op_num_threads, o.inter_op_num_threads = threads, 1
        o.add_free_dimension_override_by_name("batch", 1)
        o.add_session_config_entry("session.intra_op.allow_spinning", "0")
        o.log_severity_level = 3
        return o

    def session(self, path, threads):
        import onnxruntime as ort
        return ort.InferenceSession(str(path), self.options(threads), providers=["CPUExecutionProvider"])

    def __init__(self, files, feeds, threads):
        self.s = self.session(files[self.key], threads)
        self.binding = self.s.io_binding()
        for i, x in zip(self.s.get_inputs(), feeds):
            self.binding.bind_cpu_input(i.name, x)
        first = self.s.run(None, {i.name: x for i, x in zip(self.s.get_inputs(), feeds)})
        self.out = [np.ascontiguousarray(y) for y in first]
        for o, y in zip(self.s.get_outputs(), self.out):
            self.binding.bind_output(o.name, "cpu", 0, y.dtype, y.shape, y.ctypes.data)

    def run(self):
        self.s.run_with_iobinding(self.binding)

    def outputs(self):
        self.run()
        return self.out


class Public(OnnxRuntime):
    """ONNX Runtime on the public conversion of the network."""
    key = "public"


class Tachy(OnnxRuntime):
    """Our provider as a plugin of ONNX Runtime."""
    registered = False
    own = {}  # provider options

    def session(self, path, threads):
        import onnxruntime as ort
        if not Tachy.registered:
            ort.register_execution_provider_library("tachy", EP)
            Tachy.registered = True
        o = self.options(1)
        o.add_provider_for_devices([d for d in ort.get_ep_devices() if d.ep_name == "tachy"][:1],
                                   {"threads": str(threads), "build_effort": EFFORT, **self.own})
        return ort.InferenceSession(str(path), o)


class TachyDirect(Tachy):
    """The same without Winograd's tiles."""
    own = {"direct": "1"}


class TachyApart(Tachy):
    """The same with each convolution as a step of its own."""
    own = {"apart": "1"}


class OpenVino:
    def __init__(self, files, feeds, threads):
        import openvino as ov
        import openvino.properties as p
        import openvino.properties.hint as hint
        core = ov.Core()
        model = core.read_model(files["onnx"])
        model.reshape({i: x.shape for i, x in zip(model.inputs, feeds)})
        self.request = core.compile_model(model, "CPU", {
            hint.performance_mode(): hint.PerformanceMode.LATENCY, hint.inference_precision(): ov.Type.f32,
            hint.enable_cpu_pinning(): False, p.inference_num_threads(): threads, "NUM_STREAMS": "1",
        }).create_infer_request()
        self.n = len(model.outputs)
        for i, x in enumerate(feeds):
            self.request.set_input_tensor(i, ov.Tensor(np.ascontiguousarray(x), shared_memory=True))

    def run(self):
        self.request.infer()

    def outputs(self):
        self.run()
        return [np.array(self.request.get_output_tensor(i).data) for i in range(self.n)]


class LiteRT:
    """With its default delegate, XNNPACK."""

    def __init__(self, files, feeds, threads):
        from ai_edge_litert.interpreter import Interpreter
        if not files["tflite"]:
            raise Cannot("there is no TFLite file of this network")
        self.it = Interpreter(model_path=str(files["tflite"]), num_threads=threads)
        self.it.allocate_tensors()
        for d, x in zip(self.it.get_input_details(), feeds):
            self.it.set_tensor(d["index"], x)

    def run(self):
        self.it.invoke()

    def outputs(self):
        self.run()
        return [self.it.get_tensor(d["index"]) for d in self.it.get_output_details()]


def ncnn_files(onnx, feeds, folder):
    """Converted by pnnx, which works beside its input: in a folder of the network's own."""
    import pnnx
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / "net.onnx"
    if not link.exists():
        link.symlink_to(pathlib.Path(onnx).resolve())
    shapes = ",".join(f"[{','.join(map(str, x.shape))}]{'u8' if x.dtype == np.uint8 else 'f32'}" for x in feeds)
    program = pathlib.Path(pnnx.__file__).parent / "pnnx"
    p = subprocess.run([str(program), "net.onnx", f"inputshape={shapes}", "fp16=0"], cwd=folder, capture_output=True,
                       text=True, timeout=300)
    param = folder / "net.ncnn.param"
    if p.returncode or not param.exists():
        raise Cannot(f"pnnx fails (status {p.returncode}): {(p.stderr or p.stdout).strip()[-200:]}")
    unknown = sorted({l.split()[0] for l in param.read_text().splitlines()[2:] if "." in l.split()[0] or "::" in l})
    if unknown:
        raise Cannot(f"pnnx leaves operators that ncnn does not have: {', '.join(unknown)}")
    return param, folder / "net.ncnn.bin"


class Ncnn:
    """float32 throughout, as all others; its Winograd and packing stay on, which are its defaults."""

    def __init__(self, files, feeds, threads):
        import ncnn
        param, weights = ncnn_files(files["onnx"], feeds, files["folder"] / "ncnn")
        self.net = ncnn.Net()
        o = self.net.opt
        o.num_threads = threads
        o.use_vulkan_compute = False
        o.use_fp16_packed = o.use_fp16_storage = o.use_fp16_arithmetic = o.use_bf16_storage = False
        if self.net.load_param(str(param)) or self.net.load_model(str(weights)):
            raise Cannot("ncnn does not load what pnnx wrote")
        self.feeds = [ncnn.Mat(np.ascontiguousarray(x[0], np.float32)).clone() for x in feeds]
        self.names = sorted(self.net.output_names(), key=lambda n: int(n.removeprefix("out")))

    def run(self):
        ex = self.net.create_extractor()
        for i, x in enumerate(self.feeds):
            ex.input(f"in{i}", x)
        got = []
        for n in self.names:
            status, y = ex.extract(n)
            if status:
                raise Cannot(f"ncnn's run fails with status {status}")
            got.append(y)
        return got

    def outputs(self):
        return [np.array(y) for y in self.run()]


ASKED = ("tachy-direct", "tachy-apart")  # only by name
ALL = {"tachy": Tachy, "tachy-direct": TachyDirect, "tachy-apart": TachyApart, "onnxruntime": OnnxRuntime, "ort-public": Public, "openvino": OpenVino, "litert": LiteRT,
       "ncnn": Ncnn}


def versions():
    from importlib.metadata import PackageNotFoundError, version
    found = {}
    for name in ("onnxruntime", "openvino", "ai-edge-litert", "ncnn", "pnnx", "torch", "torchvision", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found
