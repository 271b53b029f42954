"""Mask quality on labelled photos of people: the same as the same network run by ONNX Runtime's own
Python package with OpenCV preprocessing."""
import json
import pathlib

from common import Case, main, models, run, shared

import cv2
import numpy as np
import onnxruntime as ort


def iou(mask, label):
    a, b = mask > 127, label > 127
    union = np.logical_or(a, b).sum()
    return np.logical_and(a, b).sum() / union if union else 1.0


class Quality(Case):
    def test_mean_iou_is_the_reference_s(self):
        images = sorted(shared("labels/people/images").iterdir())
        labels = shared("labels/people/masks")
        card = json.loads(run("model", "info", "selfie", "--json").stdout)
        session = ort.InferenceSession(card["path"], providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        out = self.tmp / "masks"
        out.mkdir()
        run("segment", *images, "--mode", "mask", "--threshold", "0.5", "--feather", "0", "--quiet", "-o", f"{out}/", "--stereo", "mono",
            timeout=600)
        ours, reference = [], []
        for path in images:
            label = cv2.imread(str(next(labels.glob(path.stem + ".*"))), cv2.IMREAD_GRAYSCALE)
            bgr = cv2.imread(str(path))
            x = cv2.cvtColor(cv2.resize(bgr, (256, 256), interpolation=cv2.INTER_AREA), cv2.COLOR_BGR2RGB)
            y = session.run(None, {name: x.astype(np.float32)[None] / 255})[0].reshape(256, 256)
            ref = cv2.resize(y, (bgr.shape[1], bgr.shape[0]), interpolation=cv2.INTER_LINEAR) * 255
            if label.shape != ref.shape:
                label = cv2.resize(label, (ref.shape[1], ref.shape[0]), interpolation=cv2.INTER_NEAREST)
            reference.append(iou(ref, label))
            found = list(out.glob(path.stem + ".*"))
            self.assertEqual(len(found), 1, path)
            got = cv2.imread(str(found[0]), cv2.IMREAD_GRAYSCALE)
            self.assertEqual(got.shape, label.shape)
            ours.append(iou(got, label))
        print(f"mean IoU over {len(ours)} photos: tachy {np.mean(ours):.4f}, reference {np.mean(reference):.4f}")
        self.assertGreater(np.mean(reference), 0.8)
        self.assertLess(abs(np.mean(ours) - np.mean(reference)), 0.005)


models("selfie")
main()
