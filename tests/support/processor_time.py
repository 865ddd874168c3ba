"""How much processor time a program has taken. A bound on it holds on a busy machine, where a bound on the clock does not."""
import os
import pathlib
import resource


def of_process(pid: int) -> float:
    """Seconds that a running process, all its threads together, has taken so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def of_children() -> float:
    """Seconds of all processes that this one has started and waited for."""
    return of_usage(resource.getrusage(resource.RUSAGE_CHILDREN))


def of_usage(usage) -> float:
    """Seconds that an ended process took, from what os.wait4 says of it."""
    return usage.ru_utime + usage.ru_stime
