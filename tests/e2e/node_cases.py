"""ONNX's own tests of operators through our provider: what test_provider_ops counts on a CPU, and on both devices

  node_cases.py LIBRARY [FILE.json]

in float32, which fails if a case that passes on the CPU does not pass on the GPU. In the test suite the GPU's kernels are plain
loops over a driver without a GPU. Needs numpy, onnx and onnxruntime alone; exit status 77 without them."""
import collections
import json
import os
import sys
import warnings

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
except ImportError as e:
    if __name__ != "__main__":
        raise
    print(f"skipped: a Python package is missing: {e}")
    sys.exit(77)


def collect():
    """Cases of one node that ONNX Runtime does not fold."""
    from onnx.backend.test.case.node import collect_testcases
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [c for c in collect_testcases(None) if c.model is not None and len(c.model.graph.node) == 1
                and c.model.graph.node[0].op_type not in ("Constant", "Shape")]


def session(model, whole, own):
    """`whole`: all of it ours, else ONNX Runtime's CPU provider. None: not ours, or not ONNX Runtime's either."""
    o = ort.SessionOptions()
    o.intra_op_num_threads = o.inter_op_num_threads = 1
    o.log_severity_level = 4
    if whole:
        o.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        o.add_provider_for_devices([d for d in ort.get_ep_devices() if d.ep_name == "tachy" and str(d.device.type).endswith("CPU")][:1],
                                   {"build_effort": "0", "store": "0", **own})
    try:
        return ort.InferenceSession(model, o, **({} if whole else {"providers": ["CPUExecutionProvider"]}))
    except Exception:
        return None


def forms(case):
    """The model as it is, then with all inputs but the first as constants."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model.ir_version = min(model.ir_version, 10)
    yield model.SerializeToString()
    values = [(i, v) for i, v in zip(list(model.graph.input)[1:], case.data_sets[0][0][1:])
              if isinstance(v, (np.ndarray, np.generic))]
    for i, v in values:
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(v), i.name))
        model.graph.input.remove(i)
    if values:
        yield model.SerializeToString()


def same(of, case):
    inputs, outputs = case.data_sets[0]
    feed = dict(zip([i.name for i in case.model.graph.input], inputs))
    got = of.run(None, {i.name: np.asarray(feed[i.name]) for i in of.get_inputs()})
    return all(g.shape == np.shape(w) and np.allclose(g, w, rtol=1e-3, atol=1e-6, equal_nan=True)
               for g, w in zip(got, outputs))


def count(cases, own):
    """By operator how many pass and how many there are; names of those that pass; of those that ONNX Runtime alone has right."""
    counts, passed, failed = {}, set(), []
    for case in cases:
        for model in forms(case):
            ours = session(model, True, own)
            if not ours:
                continue
            if same(ours, case):
                passed.add(case.name)
                break
            if same(session(model, False, own), case):  # else ONNX Runtime differs, too
                failed.append(case.name)
        row = counts.setdefault(case.model.graph.node[0].op_type, [0, 0])
        row[0] += case.name in passed
        row[1] += 1
    return counts, passed, failed


def main():
    ort.set_default_logger_severity(4)  # refusals are expected
    ort.register_execution_provider_library("tachy", os.path.abspath(sys.argv[1]))
    cases = collect()
    operators = {c.name: c.model.graph.node[0].op_type for c in cases}
    here, there = (count(cases, {"device": d, "precision": "fp32"}) for d in ("cpu", "cuda"))
    missing = collections.defaultdict(list)
    for name in sorted(here[1] - there[1]):
        missing[operators[name]].append(name)
    print(f"ONNX {onnx.__version__}: {len(here[1])} of {len(cases)} pass on the CPU, {len(there[1])} on the GPU; there "
          f"{len(there[2])} are wrong, {sum(map(len, missing.values()))} are missing")
    for op, names in missing.items():
        print(f"  {op}: {', '.join(names)}")
    for name in there[2]:
        print(f"  wrong: {name}")
    if len(sys.argv) > 2:
        with open(sys.argv[2], "w", encoding="utf-8") as f:
            json.dump({"cpu": sorted(here[1]), "cuda": sorted(there[1]), "wrong": there[2], "missing": missing}, f, indent=1)
    return bool(missing or there[2] or not here[1])


if __name__ == "__main__":
    sys.exit(main())
