"""A disk that refuses one call of an upload, each in turn (fsync among them): the client is told so, nothing of the file
stays, and the next upload is whole.

REQUIRES: FAULT_SHIM in the environment, the library of tests/faults/fault_shim.c.
"""
import contextlib
import os
import pathlib
import shutil
import tempfile
import unittest

from harness import Server  # and tests/support is found
import fault_library
from test_batches import lines, upload


@contextlib.contextmanager
def faulty_server(state, **faults):
    """A server on a disk that fails as fault_shim.c says."""
    names = {"LD_PRELOAD": fault_library.PATH, "FAULT_UNDER": str(state)}
    names |= {f"FAULT_{name.upper()}": str(value) for name, value in faults.items()}
    os.environ.update(names)
    try:
        server = Server("--state", state)
    finally:
        for name in names:
            del os.environ[name]
    try:
        yield server
    finally:
        server.stop()


class DiskFaults(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="banyan-disk-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.numbers = iter(range(1000))

    def new_state(self):
        return self.folder / f"state-{next(self.numbers)}"

    def calls(self, uploads):
        """Calls that change files from the start to the end of a server that takes so many uploads."""
        count = self.folder / "count"
        with faulty_server(self.new_state(), count=count) as server:
            for _ in range(uploads):
                upload(server, lines(2))
        return int(count.read_text())

    def test_every_call_of_an_upload(self):
        before, after = self.calls(0), self.calls(1)
        self.assertGreaterEqual(after - before, 8)  # two files: opened, written, synced and named
        for number in range(before + 1, after + 1):
            with self.subTest(call=number - before):
                state = self.new_state()
                with faulty_server(state, at=number, kind="eio") as server:
                    with self.assertRaisesRegex(AssertionError, "disk_full"):
                        upload(server, lines(2))
                    self.assertEqual(server.json("/v1/files")[1]["data"], [])
                    self.assertEqual(list((state / "files").iterdir()), [])
                    file = upload(server, lines(2))
                    self.assertEqual(len(server.ask("GET", f"/v1/files/{file}/content")[2].splitlines()), 2)
                    self.assertEqual(len(list((state / "files").iterdir())), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
