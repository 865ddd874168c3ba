"""The one exception of the library."""
from __future__ import annotations


class Error(Exception):
    """Bad input or a bad environment, told so that you can mend it.

    The message is the one of the command line. `kind` is one of ``usage``, ``input``, ``not_found``,
    ``io``, ``format``, ``unsupported`` and ``limit``.
    """

    def __init__(self, message: str, kind: str = "usage") -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind

    def __reduce__(self) -> tuple[type[Error], tuple[str, str]]:
        return type(self), (self.message, self.kind)
