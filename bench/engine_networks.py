"""The networks of bench/engine_cpu, each as an ONNX file and, where there is one, a TFLite file.

MediaPipe's come out of the wheel that tools/setup fetched, imported by `tachy model import`. Networks of
torchvision are exported with random weights from a fixed seed: for time the architecture counts. The
rest is taken from a folder of public models. Made files are kept in .deps/networks."""
import os
import pathlib
import subprocess
import warnings
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
DEPS = ROOT / ".deps"
MADE = DEPS / "networks"
SHARED = pathlib.Path(os.environ.get("TACHY_SHARED", ROOT.parent / "shared"))
TACHY = os.environ.get("TACHY", str(ROOT / "build" / "tachy"))

# Limits for each group: our speed over the best of the named peers, and who they are.
GROUPS = {
    "wheel": (1.15, ("onnxruntime", "openvino", "litert", "ncnn")),
    "mobile": (1.1, ("onnxruntime", "openvino", "ncnn")),
    "large": (0.97, ("onnxruntime",)),
}
SELFIE = {"onnxruntime": 2.0, "litert": 1.8, "ncnn": 1.5}  # and what selfie must hold against each

WHEEL = {  # name: file in mediapipe/modules
    "selfie-landscape": "selfie_segmentation/selfie_segmentation_landscape",
    "face-mesh": "face_landmark/face_landmark",
    "iris": "iris_landmark/iris_landmark",
    "blazeface-short": "face_detection/face_detection_short_range",
    "blazeface-full": "face_detection/face_detection_full_range_sparse",
    "palm-lite": "palm_detection/palm_detection_lite",
    "palm-full": "palm_detection/palm_detection_full",
    "hand-lite": "hand_landmark/hand_landmark_lite",
    "hand-full": "hand_landmark/hand_landmark_full",
    "pose-detection": "pose_detection/pose_detection",
    "pose-full": "pose_landmark/pose_landmark_full",
}
SELFIE_TFLITE = "selfie_segmentation/selfie_segmentation"
PUBLIC = {  # name: (group, file in models/ of the shared material)
    "movenet": ("mobile", "pose/movenet_lightning_from_int8_w8.onnx"),
    "yolox-nano": ("mobile", "detect/yolox_nano.onnx"),
    "mobilefacenet": ("mobile", "embed/mobilefacenet_diandianti.onnx"),
}
TORCHVISION = {  # name: (group, function of torchvision.models, side of its picture)
    "mobilenet-v2": ("mobile", "mobilenet_v2", 224),
    "mobilenet-v3-large": ("mobile", "mobilenet_v3_large", 224),
    "lraspp": ("mobile", "segmentation.lraspp_mobilenet_v3_large", 256),
    "resnet-50": ("large", "resnet50", 224),
    "deeplabv3-resnet50": ("large", "segmentation.deeplabv3_resnet50", 256),
    "vit-b-32": ("large", "vit_b_32", 224),
}


def names():
    return ["selfie", *WHEEL, *PUBLIC, *TORCHVISION]


def group(name):
    if name == "selfie" or name in WHEEL:
        return "wheel"
    return (PUBLIC.get(name) or TORCHVISION[name])[0]


def _tflite(member):
    path = MADE / (pathlib.Path(member).name + ".tflite")
    if not path.exists():
        wheels = sorted((DEPS / "wheels").glob("mediapipe-*.whl"))
        if not wheels:
            raise RuntimeError("the mediapipe wheel is not in .deps/wheels: run ./tools/setup")
        with zipfile.ZipFile(wheels[0]) as z:
            _write(path, lambda to: to.write_bytes(z.read(f"mediapipe/modules/{member}.tflite")))
    return path


def _write(path, make):
    """make(file beside it), then renamed: a file that is there is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"part-{os.getpid()}-{path.name}")
    make(part)
    os.replace(part, path)
    return path


def _import(name, tflite):
    """Always anew: the importer is part of what is measured."""
    def make(to):
        p = subprocess.run([TACHY, "model", "import", str(tflite), "-y", "-o", str(to)], capture_output=True, text=True)
        if p.returncode:
            raise RuntimeError(p.stderr.strip())
    return _write(MADE / f"{name}.onnx", make)


def _export(path, function, side):
    import torch
    import torchvision

    class Out(torch.nn.Module):  # segmentation networks return a dictionary
        def __init__(self, net):
            super().__init__()
            self.net = net

        def forward(self, x):
            y = self.net(x)
            return y["out"] if isinstance(y, dict) else y

    torch.manual_seed(1)
    make = torchvision.models
    for part in function.split("."):
        make = getattr(make, part)
    kw = {"weights_backbone": None, "aux_loss": False} if "deeplab" in function else \
        {"weights_backbone": None} if "segmentation" in function else {}
    net = make(weights=None, **kw).eval()
    for m in net.modules():
        if isinstance(m, torch.nn.BatchNorm2d):  # as after training: not the identity
            m.running_mean.normal_(0, 0.1)
            m.running_var.uniform_(0.5, 1.5)
    for p in net.parameters():
        if not p.detach().any():  # heads that start as zeros
            torch.nn.init.normal_(p, std=0.02)
    torch.backends.mha.set_fastpath_enabled(False)  # the exporter has no fused attention
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the tracer, on constant conditions
        torch.onnx.export(Out(net), (torch.rand(1, 3, side, side),), path, dynamo=False, opset_version=17,
                          input_names=["x"], output_names=["y"])


def get(name, public):
    """{"onnx": path, "tflite": path or None, "public": path or None}; RuntimeError says what is missing."""
    MADE.mkdir(parents=True, exist_ok=True)
    if name == "selfie" or name in WHEEL:
        tflite = _tflite(WHEEL.get(name, SELFIE_TFLITE))
        return {"onnx": _import(name, tflite), "tflite": tflite, "public": public if name == "selfie" else None}
    if name in PUBLIC:
        path = SHARED / "models" / PUBLIC[name][1]
        if not path.exists():
            raise RuntimeError(f"{path.name} of the shared models is not here ($TACHY_SHARED)")
        return {"onnx": path, "tflite": None, "public": None}
    _, function, side = TORCHVISION[name]
    path = MADE / f"{name}.onnx"
    if not path.exists():
        try:
            _write(path, lambda to: _export(str(to), function, side))
        except ImportError as e:
            raise RuntimeError(f"{e}: torchvision exports this network; run ./tools/setup --bench") from e
    return {"onnx": path, "tflite": None, "public": None}
