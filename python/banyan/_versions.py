"""What a result was made with: for receipts."""
from __future__ import annotations

import platform
import sys

from . import _native


def versions() -> dict[str, str]:
    """Of Banyan, Python and the packages that touched the rows, as far as they are loaded."""
    found = {"banyan": _native.version, "python": platform.python_version(), "machine": platform.machine()}
    for name in ("numpy", "pyarrow", "pandas", "polars", "duckdb", "ray"):
        module = sys.modules.get(name)
        version = getattr(module, "__version__", None)
        if isinstance(version, str):
            found[name] = version
    return found
