"""bench/instructions: growth over 2 % fails, is renewed with a reason only, and slower code is found."""
import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import platform
import shutil
import unittest
from unittest import mock

from common import ROOT, SANITIZER, TACHY, Case, main

LOADER = importlib.machinery.SourceFileLoader("instructions", str(ROOT / "bench" / "instructions"))
guard = importlib.util.module_from_spec(importlib.util.spec_from_loader("instructions", LOADER))
LOADER.exec_module(guard)
MADE = {"compiler": "gcc 12.2.0"}


class Instructions(Case):
    def run_guard(self, *args, found, made=MADE):
        """Exit status and output, with these counts in the place of measured ones."""
        out = io.StringIO()
        with mock.patch.multiple(guard, BASELINE=self.tmp / "base.json", measure=lambda build, parts: {p: found[p] for p in parts if p in found},
                                 made_with=lambda build: made), mock.patch("sys.argv", ["instructions", *args]), contextlib.redirect_stdout(out):
            try:
                return guard.main(), out.getvalue()
            except SystemExit as e:
                return 1, str(e)

    def test_growth_needs_a_reason(self):
        first = {"composite": 1000000, "import": 2000}
        self.assertEqual(self.run_guard(found=first)[0], 77) # no baseline yet
        self.assertEqual(self.run_guard("--renew", found=first)[0], 0)
        self.assertEqual(self.run_guard(found={"composite": 1019999, "import": 1000})[0], 0)
        status, out = self.run_guard(found={"composite": 1021000, "import": 2000})
        self.assertEqual(status, 1)
        self.assertIn("composite needs 2.1% more", out)
        status, out = self.run_guard("--renew", found={"composite": 1021000})
        self.assertEqual(status, 1)
        self.assertIn("--why", out)
        self.assertEqual(self.run_guard("--renew", "--why", "softer edges", found={"composite": 1021000})[0], 0)
        base = guard.json.loads((self.tmp / "base.json").read_text())
        self.assertEqual(base["counts"], {"composite": 1021000, "import": 2000})
        self.assertEqual([(e["part"], e["from"], e["to"], e["why"]) for e in base["entries"]], [("composite", 1000000, 1021000, "softer edges")])
        self.assertEqual(self.run_guard(found={"composite": 1021000})[0], 0)
        self.assertEqual(self.run_guard(found={"pipeline": 5})[0], 1) # a new part wants a baseline
        status, out = self.run_guard(found=first, made={"compiler": "gcc 13.1.0"})
        self.assertEqual(status, 77)
        self.assertIn("compiler gcc 13.1.0 here, gcc 12.2.0 there", out)

    @unittest.skipIf(SANITIZER or not shutil.which("valgrind") or platform.machine() != "x86_64", "needs valgrind and a plain x86-64 build")
    def test_slower_code_is_counted(self):
        """The plain C form of preprocess in the place of the vectors."""
        build = pathlib.Path(TACHY).parent
        fast = guard.measure(build, ["preprocess"])
        with mock.patch.dict(guard.ENV, TACHY_CPU="c"):
            slow = guard.measure(build, ["preprocess"])
        worse, _ = guard.judge(fast, slow)
        self.assertEqual(len(worse), 1, (fast, slow))


if __name__ == "__main__":
    main()
