"""Files at URLs, such as s3://bucket/x.parquet: pyarrow's file systems, and fsspec's for the schemes that pyarrow does
not know. Credentials and endpoints come from where these take them: the environment, a configuration, the URL's query
(``s3://bucket/x.parquet?endpoint_override=http://127.0.0.1:5000``)."""
from __future__ import annotations

import contextlib
import fnmatch
import os
import pathlib
import re
from typing import Any, Iterator, Mapping

from ._errors import Error

_URL = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]+://")
_PIECE_BYTES = 1 << 22
# What is certainly a file, and not a folder of Parquet files.
_OTHER_FILES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".tab", ".txt", ".md", ".html", ".htm", ".pdf", ".gz", ".zst")


def is_url(path: str) -> bool:
    return _URL.match(path) is not None


def _fs() -> Any:
    try:
        import pyarrow.fs
    except ImportError as error:
        raise Error("files at URLs need pyarrow: pip install 'banyan-engine[arrow]'", "unsupported") from error
    return pyarrow.fs


def opened(url: str) -> tuple[Any, str]:
    """The file system of a URL, as pyarrow has it, and the path in it."""
    fs = _fs()
    try:
        found: tuple[Any, str] = fs.FileSystem.from_uri(url)
        return found
    except (ValueError, OSError) as problem:  # a scheme, or a query, that pyarrow does not know
        try:
            import fsspec
        except ImportError:
            raise Error(f"{url}: cannot be opened: {problem}; other schemes need fsspec: pip install fsspec", "unsupported") from problem
        try:
            system, path = fsspec.core.url_to_fs(url)
        except (ValueError, ImportError) as error:
            raise Error(f"{url}: cannot be opened: {error}", "unsupported") from error
        return fs.PyFileSystem(fs.FSSpecHandler(system)), path


def _told(url: str, error: Exception) -> Error:
    return Error(f"{url}: cannot be read or written: {error}", "io")


def size(url: str) -> int | None:
    """Bytes; None: there is no such file."""
    system, path = opened(url)
    try:
        found = system.get_file_info(path)
    except OSError as error:
        raise _told(url, error) from error
    return int(found.size or 0) if found.is_file else None


def _parts(url: str) -> tuple[str, str]:
    """A URL without its query, and the query with its question mark. Patterns have question marks too: those are
    followed by no name and an equals sign."""
    found = re.search(r"\?[a-z_]+=", url)
    return (url, "") if found is None else (url[:found.start()], url[found.start():])


def files(url: str, suffixes: tuple[str, ...]) -> list[str]:
    """What a URL means: itself, the files that a pattern finds, or the files of a folder of such files alone."""
    plain, query = _parts(url)
    pattern = any(mark in plain for mark in "*?[")
    if plain.endswith((*suffixes, *_OTHER_FILES)) and not pattern:
        return [url]
    fs = _fs()
    scheme, rest = plain.split("://", 1)
    below = re.split(r"[*?\[]", rest)[0].rpartition("/")[0] if pattern else rest.rstrip("/")
    system, base = opened(f"{scheme}://{below}{query}")
    try:
        found = system.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True))
    except OSError as error:
        raise _told(url, error) from error
    inner = len(base.strip("/"))  # file systems differ in slashes around a path
    names = (one.path.lstrip("/")[inner:].lstrip("/") for one in found if one.is_file)
    paths = sorted(f"{below}/{name}" for name in names)
    if pattern:
        chosen = [path for path in paths if fnmatch.fnmatchcase(path, rest)]
        if not chosen:
            raise Error(f"{url}: no file is named like this", "not_found")
    else:
        chosen = [path for path in paths if not path.rpartition("/")[2].startswith(("_", "."))]
        if not chosen or not all(path.endswith(suffixes) for path in chosen):
            return [url]
    return [f"{scheme}://{path}{query}" for path in chosen]


def open_file(url: str) -> Any:
    """A file of pyarrow's to read from, anywhere in it."""
    system, path = opened(url)
    try:
        return system.open_input_file(path)
    except FileNotFoundError as error:
        raise Error(f"{url}: no such file", "not_found") from error
    except OSError as error:
        raise _told(url, error) from error


def get(url: str, target: pathlib.Path) -> str:
    """The file as one of this machine, piece by piece."""
    with open_file(url) as source, open(target, "wb") as file:
        while piece := source.read(_PIECE_BYTES):
            file.write(piece)
    return str(target)


def put(source: str, url: str) -> None:
    """A file of this machine to its URL. Stores of objects show it when it is whole."""
    system, path = opened(url)
    try:
        with open(source, "rb") as file, system.open_output_stream(path) as stream:
            while piece := file.read(_PIECE_BYTES):
                stream.write(piece)
    except OSError as error:
        raise _told(url, error) from error


def same(one: str, other: str) -> bool:
    """Whether two URLs mean one file, however they are written."""
    return one == other or _parts(one)[0].replace("//", "/") == _parts(other)[0].replace("//", "/")


def name_of(url: str) -> str:
    """The last part of a URL's path: what a file of it may be called here."""
    return _parts(url)[0].rstrip("/").rpartition("/")[2] or "file"


def plain_name(path: str) -> str:
    """A path, or of a URL its last part: what says of which kind a file is."""
    return name_of(path) if is_url(path) else path


@contextlib.contextmanager
def local_output(target: str | None, folder: pathlib.Path, job: Mapping[str, Any]) -> Iterator[str | None]:
    """Where a job writes: its output itself, or of a URL a file here that is put there when the job has ended well."""
    if target is None or not is_url(target):
        yield target
        return
    if job["resume"]:
        raise Error(f"resume: the output is at a URL ({target}), which is written when the job has ended; give a file of "
                    "this machine to go on with an interrupted job")
    place = folder / "output"
    place.mkdir()
    local = str(place / name_of(target))
    yield local
    if os.path.exists(local):
        put(local, target)
