"""Programs that file permissions hold for, even when root runs the tests.

Root reads and enters everything by two capabilities, CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH. A child without them is
still root and still owns the checkout, so the test needs nothing of the place where the checkout lies.
"""

import ctypes
import os
import subprocess
import unittest

_PR_CAPBSET_DROP = 24
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2


def obey():
    """Give this to subprocess as preexec_fn: from the child's exec on, permissions hold for it."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
            if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "PR_CAPBSET_DROP")


def skip_unless_they_hold(folder: str, program: str):
    """Skips the test where a child cannot give its capabilities up, or cannot run `program` without them."""
    locked = os.path.join(folder, "permissions-probe")
    with open(locked, "w", encoding="utf-8") as file:
        file.write("locked")
    os.chmod(locked, 0)
    try:
        reads = subprocess.run(["cat", locked], preexec_fn=obey, capture_output=True, check=False).returncode == 0
        runs = subprocess.run([program, "--version"], preexec_fn=obey, capture_output=True, check=False).returncode == 0
    except (OSError, subprocess.SubprocessError) as error:
        raise unittest.SkipTest(f"a child of root cannot give up its capabilities here: {error}") from error
    finally:
        os.remove(locked)
    if reads:
        raise unittest.SkipTest(f"permissions do not hold in {folder}: run the tests as another user than root")
    if not runs:
        raise unittest.SkipTest(f"{program} belongs to another user and cannot be run without root's capabilities")
