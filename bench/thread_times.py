"""CPU time of a process by class of thread, for benches."""
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

KINDS = ["main", "readers", "workers", "driver", "others"]
NAMES = {"tachy-reader": "readers", "tachy-worker": "workers"}


def watch(p, threads):
    """While the process runs, {thread: (name, CPU seconds, times that it waited)}."""
    while p.poll() is None:
        try:
            for t in os.listdir(f"/proc/{p.pid}/task"):
                task = pathlib.Path(f"/proc/{p.pid}/task/{t}")
                waits = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text(), re.MULTILINE)
                threads[int(t)] = ((task / "comm").read_text().strip(), 1e-9 * int((task / "schedstat").read_text().split()[0]), int(waits[1]))
        except (OSError, TypeError, IndexError):
            pass  # a thread has ended
        time.sleep(0.02)


def by_class(threads):
    """Seconds and waits of the thread that pulls (main), readers, workers, the driver's threads and others."""
    sums = {"seconds": dict.fromkeys(KINDS, 0.0), "waits": dict.fromkeys(KINDS, 0)}
    for t, (name, seconds, waits) in threads.items():
        kind = "main" if t == min(threads) else NAMES.get(name, "driver" if name.startswith("cuda") else "others")
        sums["seconds"][kind] += seconds
        sums["waits"][kind] += waits
    return sums


def run(env, *command, timeout=200):
    """The command's output, and its threads' sums. Ends the bench if the command fails."""
    p = subprocess.Popen([str(c) for c in command], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         errors="replace")
    threads = {}
    watcher = threading.Thread(target=watch, args=(p, threads))
    watcher.start()
    out, err = p.communicate(timeout=timeout)
    watcher.join()
    if p.returncode:
        sys.exit(f"{' '.join(str(c) for c in command)}: status {p.returncode}\n{out[-2000:]}{err[-2000:]}")
    return out, by_class(threads)
