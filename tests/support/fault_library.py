"""The library of tests/faults/fault_shim.c for LD_PRELOAD, which cannot hold a path with spaces or colons."""

import atexit
import os
import shutil
import tempfile


def preloadable() -> str:
    """The path of $FAULT_SHIM, or of a link to it whose path has neither spaces nor colons."""
    path = os.environ["FAULT_SHIM"]
    if not set(path) & set(" :"):
        return path
    folder = tempfile.mkdtemp(prefix="banyan-shim-", dir="/tmp")
    atexit.register(shutil.rmtree, folder, True)
    link = os.path.join(folder, "fault_shim.so")
    os.symlink(path, link)
    return link


PATH = preloadable()
