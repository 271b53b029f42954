"""The record of a measurement in bench/results: command, machine, load at begin and end, figures."""
import json
import os
import pathlib
import sys


def machine():
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    return {"cpu": cpu, "cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]}


def command():
    """As it was typed, of paths only the names, without --json."""
    args, shown = iter(sys.argv[1:]), [f"bench/{pathlib.Path(sys.argv[0]).name}"]
    for a in args:
        if a == "--json":
            next(args, None)
        elif not a.startswith("--json="):
            shown.append("PYTHON" if shown[-1] == "--mediapipe-python" else a if a.startswith("-") else a.rsplit("/", 1)[-1])
    return " ".join(shown)


def write(path, before, **figures):
    """`before`: machine() at the begin."""
    pathlib.Path(path).write_text(json.dumps({"command": command(), "machine": before, "load_at_end": os.getloadavg()[0], **figures}, indent=1) + "\n")
