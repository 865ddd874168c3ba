"""Packages that people ask the server with, got from PyPI for a test and put into a folder of the build.

    need(["openai", "pydantic"], "openai")   # modules to import ← what pip installs

A package that is installed already is used as it is. One that cannot be got skips the test: the reason is printed and
the exit code is 77, which ctest calls skipped.
"""
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

SECONDS = 600


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def missing(modules):
    return [module for module in modules if importlib.util.find_spec(module) is None]


def pip():
    """The words that run pip, or None: with Debian's python3 it is a package of its own, and venv another."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    return [shutil.which("pip3")] if shutil.which("pip3") else None


def install(packages, folder):
    """Fills the folder. It appears whole or not at all, so that a test that is killed leaves nothing half."""
    part = folder.with_name(f"{folder.name}.{os.getpid()}.part")
    words = pip()
    venv = None
    try:
        if words is None:  # a virtual environment brings its own
            venv = folder.with_name(f"{folder.name}.{os.getpid()}.venv")
            done = subprocess.run([sys.executable, "-m", "venv", venv], capture_output=True, text=True, timeout=SECONDS)
            if done.returncode != 0:
                skip(f"no pip here, and no venv (apt-get install python3-venv): {(done.stdout + done.stderr).strip()[-200:]}")
            words = [str(venv / "bin" / "python"), "-m", "pip"]
        done = subprocess.run([*words, "install", "--quiet", "--disable-pip-version-check", "--no-compile", "--only-binary=:all:",
                               "--retries", "1", "--target", str(part), *packages], capture_output=True, text=True, timeout=SECONDS)
        if done.returncode != 0:
            skip(f"pip cannot install {' '.join(packages)}: {done.stderr.strip()[-400:]}")
        part.rename(folder)
    except subprocess.TimeoutExpired:
        skip(f"pip did not install {' '.join(packages)} in {SECONDS} s")
    finally:
        shutil.rmtree(part, ignore_errors=True)
        if venv:
            shutil.rmtree(venv, ignore_errors=True)


def need(modules, *packages):
    """Makes these modules importable. REQUIRES: BANYAN in the environment; packages[0] names the folder."""
    if not missing(modules):
        return
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    folder = pathlib.Path(os.environ["BANYAN"]).resolve().parent / "client-packages" / version / packages[0]
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        install(packages, folder)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    if left := missing(modules):
        skip(f"{' '.join(packages)} came without {', '.join(left)}")
