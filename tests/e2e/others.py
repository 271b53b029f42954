"""How much of the machine other programs take while something is timed."""
import os
import time

MOST = 0.05  # share of the cores; figures that depend on time are not judged above it


def busy_seconds():
    """CPU time of all cores so far, what the hypervisor gave to others included."""
    user, nice, system, _, _, irq, soft, stolen = map(int, open("/proc/stat").readline().split()[1:9])
    return (user + nice + system + irq + soft + stolen) / os.sysconf("SC_CLK_TCK")


class Others:
    """Counts from its making on; what this process and its children take does not count once the children are waited for."""

    def __init__(self):
        self.start, self.busy, self.own = time.monotonic(), busy_seconds(), sum(os.times()[:4])

    def share(self):
        """Of all cores, 0 to 1."""
        cores = (time.monotonic() - self.start) * len(os.sched_getaffinity(0))
        return max(0.0, busy_seconds() - self.busy - sum(os.times()[:4]) + self.own) / cores
