"""How a job says how far it is: to a callable, or as a bar of tqdm. In a notebook a job that takes longer has a bar
without being asked."""
from __future__ import annotations

import contextlib
import importlib.util
import sys
from typing import Any, Callable, Iterator, Union

from ._errors import Error

#: Called with a dict a few times a second (fraction, rows, seconds_left …); True: a bar of tqdm; False: nothing; None:
#: a bar in notebooks, where tqdm is installed, for jobs of more than a second.
Progress = Union[Callable[[dict[str, Any]], object], bool]

SECONDS_BEFORE_A_BAR = 1.0


def in_notebook() -> bool:
    """A kernel of Jupyter runs this; a terminal's IPython does not count."""
    module = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class _Bar:
    """A bar of tqdm, which appears with the first call after some seconds."""

    def __init__(self, after_seconds: float) -> None:
        self.after_seconds = after_seconds
        self.bar: Any = None

    def __call__(self, now: dict[str, Any]) -> None:
        if self.bar is None:
            if now["seconds"] < self.after_seconds:
                return
            from tqdm.auto import tqdm
            self.bar = tqdm(total=100, unit="%", bar_format="{l_bar}{bar}| {elapsed}<{postfix}")
        if now["fraction"] >= 0.0:
            self.bar.n = round(100.0 * now["fraction"], 1)
        left = "" if now["seconds_left"] < 0.0 else f"{now['seconds_left']:.0f} s left, "
        self.bar.set_postfix_str(f"{left}{now['rows']} rows, {now['error_rows']} errors")

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


@contextlib.contextmanager
def progress_call(progress: Progress | None) -> Iterator[Callable[[dict[str, Any]], object] | None]:
    """What the library calls, for as long as the job runs."""
    if progress is not None and progress is not True and progress is not False:
        yield progress
        return
    has_tqdm = importlib.util.find_spec("tqdm") is not None
    if progress is False or (progress is None and not (has_tqdm and in_notebook())):
        yield None
        return
    if not has_tqdm:
        raise Error("progress=True needs tqdm: pip install tqdm; or give a callable", "unsupported")
    bar = _Bar(0.0 if progress is True else SECONDS_BEFORE_A_BAR)
    try:
        yield bar
    finally:
        bar.close()
