"""Generated networks with the signature of SyncNet (Chung and Zisserman 2016): not trained. A bright picture and a loud sound have vectors that
are near each other, so a clip that flickers as its sound does has an offset.

    sync_networks.py FOLDER [SIDE]    writes sync-lips.onnx, sync-sound.onnx and their card sync.json

`lips` 1 x 3 x 5 x S x S, B, G, R from 0 to 255 of five pictures, and `sound` 1 x 1 x 13 x 20, cepstra of 0.2 s -> 1 x 1024. S is 224 as
published, or less for tests.
"""
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LENGTH = 1024
BRIGHT, LOUD = (0.034, -3.0), (0.408, -7.88)  # make -1 to 1 of the mean picture and of the energy's logarithm in the tests' clip


def save(path, name, shape, nodes, weights):
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in ((name, shape), ("vector", [1, LENGTH]))]
    graph = helper.make_graph(nodes, "generated", value[:1], value[1:], [numpy_helper.from_array(v if np.asarray(v).dtype == np.int64 else np.float32(v), n) for n, v in weights.items()])
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(m)
    onnx.save(m, path)


def make(folder, side=224, seed=1):
    """Writes both networks and their card; returns the card's path."""
    folder, rng = pathlib.Path(folder), np.random.default_rng(seed)
    cell, inner = side // 16, 32 * 16
    node = helper.make_node
    way = rng.normal(size=(1, LENGTH)) / 4

    def share():
        return [node("Mul", ["m", "scale"], ["ms"]), node("Add", ["ms", "shift"], ["s"]), node("MatMul", ["s", "way"], ["w"]),
                node("Add", ["w", "g"], ["vector"])]

    def shared(by):
        return {"scale": by[0], "shift": by[1], "way": way}
    save(folder / "sync-lips.onnx", "lips", [1, 3, 5, side, side],
         [node("Conv", ["lips", "a", "b"], ["x"], strides=[1, cell, cell]), node("Relu", ["x"], ["y"]),
          node("Conv", ["y", "c"], ["z"], strides=[1, 4, 4]), node("Relu", ["z"], ["r"]), node("Flatten", ["r"], ["f"]),
          node("Gemm", ["f", "d"], ["g"]), node("Flatten", ["lips"], ["all"]), node("ReduceMean", ["all"], ["m"], axes=[1]),
          *share()],
         {**shared(BRIGHT), "a": rng.normal(size=(16, 3, 5, cell, cell)) / cell / 200, "b": rng.normal(size=16), "c": rng.normal(size=(32, 16, 1, 4, 4)) / 16,
          "d": rng.normal(size=(inner, LENGTH)) / np.sqrt(inner) / 40})
    save(folder / "sync-sound.onnx", "sound", [1, 1, 13, 20],
         [node("Conv", ["sound", "a", "b"], ["x"], pads=[1, 1, 1, 1]), node("Relu", ["x"], ["y"]),
          node("MaxPool", ["y"], ["z"], kernel_shape=[3, 3], strides=[2, 2]), node("Flatten", ["z"], ["f"]), node("Gemm", ["f", "d"], ["g"]),
          node("Gather", ["sound", "first"], ["row"], axis=2), node("Flatten", ["row"], ["all"]), node("ReduceMean", ["all"], ["m"], axes=[1]),
          *share()],
         {**shared(LOUD), "first": np.int64([0]), "a": rng.normal(size=(8, 1, 3, 3)) / 30, "b": rng.normal(size=8), "d": rng.normal(size=(8 * 6 * 9, LENGTH)) / np.sqrt(8 * 6 * 9) / 40})
    card = {"name": "sync-generated", "title": "generated, not trained", "task": "avsync", "license": "CC0-1.0",
            "networks": {"lips": "sync-lips.onnx", "sound": "sync-sound.onnx"}}
    (folder / "sync.json").write_text(json.dumps(card, indent=1))
    return folder / "sync.json"


if __name__ == "__main__":
    make(sys.argv[1], *map(int, sys.argv[2:3]))
