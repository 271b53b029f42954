"""--edge natural and --foreground against PyMatting's closed-form matting and multi-level estimation, on a picture with hair of
known alpha and colour. Skips without PyMatting (pip install pymatting) or the shared test material."""
import importlib.machinery
import importlib.util
import unittest

from common import Case, ROOT, SHARED, main, models, shared

try:
    import pymatting  # noqa: F401
except ImportError:
    pymatting = None


def bench():
    loader = importlib.machinery.SourceFileLoader("matting", str(ROOT / "bench" / "matting"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("matting", loader))
    loader.exec_module(module)
    return module


class Peer(Case):
    @unittest.skipUnless(pymatting, "PyMatting is not installed")
    def test_alpha_and_colours(self):
        """One picture of the bench's strands at half its size, under the network's own mask."""
        matting, folder = bench(), self.tmp / "strands"
        models("selfie")
        shared("labels/people/images")
        matting.make_strands(matting.Material(SHARED), folder, 1)
        got = matting.peers(folder / "0", [])
        self.assertLess(got["alpha"], 1.05 * got["pymatting_alpha"])
        self.assertLess(got["colour"], 1.05 * got["pymatting_colour"])


main()
