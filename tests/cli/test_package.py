#!/usr/bin/env python3
"""The Debian package, from the release build: what is in it, what it depends on, and that the program in it answers
with the model beside it, wherever it was unpacked. And that the Dockerfiles agree with it.
Usage: test_package.py BUILD_FOLDER"""
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(sys.argv[1]).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
failures = 0


def check(ok, what):
    global failures
    if not ok:
        failures += 1
        print("FAIL", what)


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=250, **options)


LIBRARIES = {"libblas3", "libc6", "libedit2", "libfmt9", "libgcc-s1", "libgomp1", "liblapack3", "libpcre2-8-0", "libsqlite3-0",
             "libssl3", "libstdc++6", "libutf8proc2", "libxml2", "libzstd1", "zlib1g"}

# The Dockerfiles install from the one list of packages, and at run time what the package depends on.
docker, cuda = (ROOT / "Dockerfile").read_text(), (ROOT / "Dockerfile.cuda").read_text()
for name, text in (("Dockerfile", docker), ("Dockerfile.cuda", cuda)):
    stages = re.split(r"^FROM ", text, flags=re.MULTILINE)[1:]
    builds = [stage for stage in stages if " AS build\n" in stage]
    check(len(builds) == 1 and builds[0].startswith("debian:12 ") and "RUN apt-get update -qq && tools/setup.sh " in builds[0],
          f"{name}: builds on Debian 12 with the packages of tools/setup.sh")
    check("apt-get install" not in builds[0], f"{name}: no second list of packages to build with")
    check(stages[-1].startswith("debian:12-slim\n") and re.search(r"^USER banyan$", stages[-1], re.MULTILINE)
          and 'ENTRYPOINT ["banyan"]' in stages[-1], f"{name}: runs on Debian 12, not as root")
    for source in re.findall(r"^COPY (?!--from)(\S+) ", text, re.MULTILINE):
        check((ROOT / source).exists(), f"{name}: copies {source}")
installed = re.search(r"apt-get install[^\\]*\\\n +(.*?) \\\n", cuda).group(1)
check(set(installed.split()) == LIBRARIES, f"Dockerfile.cuda installs {installed}")
check(re.search(r"^deb:", (ROOT / "Makefile").read_text(), re.MULTILINE), "the Dockerfile's make deb")

if not shutil.which("dpkg-deb") or not shutil.which("dpkg-shlibdeps") or not shutil.which("cpack"):
    print("skipped: the Debian package was not built: apt-get install dpkg-dev file")
    sys.exit(1 if failures else 77)

with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)
    packed = run("cpack", "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-B", folder,
                 "-D", f"CPACK_OUTPUT_FILE_PREFIX={folder}", cwd=folder)
    packages = list(folder.glob("*.deb"))
    check(packed.returncode == 0 and len(packages) == 1, f"cpack: {packed.stdout[-500:]} {packed.stderr[-500:]}")
    package = packages[0]
    architecture = run("dpkg", "--print-architecture").stdout.strip()
    version = re.search(r'BANYAN_VERSION "(\S+)"', (ROOT / "include/banyan/version.h").read_text()).group(1)
    check(package.name == f"banyan_{version}_{architecture}.deb", f"its name: {package.name}")

    def field(name):
        return run("dpkg-deb", "--field", package, name).stdout.strip()

    check(field("Package") == "banyan" and field("Version") == version and field("Architecture") == architecture
          and "@" in field("Maintainer") and len(field("Description").splitlines()) > 2, run("dpkg-deb", "--info", package).stdout)
    depends = {entry.split()[0] for entry in field("Depends").split(", ")}
    if "VERSION_ID=\"12\"" in pathlib.Path("/etc/os-release").read_text():
        check(depends == LIBRARIES, f"it depends on {sorted(depends)}")
    check("libc6 (>= " in field("Depends"), "dependencies have versions")
    check("libcurl4" in field("Recommends") and "ca-certificates" in field("Recommends"), "what downloads need")

    files = {line.split()[-1].removeprefix("./") for line in run("dpkg-deb", "--contents", package).stdout.splitlines()}
    for name in ("usr/bin/banyan", "usr/share/banyan/models/banyan-reader-34m.gguf", "usr/share/doc/banyan/LICENSE",
                 "usr/share/doc/banyan/copyright", "usr/share/doc/banyan/docs/install.md", "usr/share/man/man1/banyan.1.gz",
                 "usr/share/man/man1/banyan-ask.1.gz", "usr/share/doc/banyan/changelog.gz", "usr/share/doc/banyan/CHANGELOG.md",
                 "usr/share/bash-completion/completions/banyan",
                 "usr/share/zsh/site-functions/_banyan", "usr/share/fish/vendor_completions.d/banyan.fish"):
        check(name in files, f"the package has {name}")
    check(not any("include/" in name or name.endswith((".a", ".cmake")) for name in files), "no development files")
    check(all(line.split()[1] == "root/root" for line in run("dpkg-deb", "--contents", package).stdout.splitlines()),
          "all files are root's")
    check(package.stat().st_size < 100e6,  # a model and four adapters of at most 20 MB each, the program and its pages
          f"{package.stat().st_size} bytes")

    if shutil.which("lintian"):
        found = run("lintian", "--allow-root", "--fail-on", "error,warning", package)
        check(found.returncode == 0, f"lintian: {found.stdout} {found.stderr}")

    # Unpacked anywhere, the program finds its model; no path of this machine is needed.
    root = folder / "root"
    check(run("dpkg-deb", "--extract", package, root).returncode == 0, "unpacking")
    check(run(root / "usr/bin/banyan", "model", "path").stdout.strip()
          == str(root.resolve() / "usr/share/banyan/models/banyan-reader-34m.gguf"), "the model beside the program")
    row = '{"id":1,"context":"The ferry Marigold leaves at 7:45.","question":"When does the ferry Marigold leave?"}\n'
    environment = {key: value for key, value in os.environ.items() if key != "BANYAN_MODEL"}
    answer = run(root / "usr/bin/banyan", "ask", "-", "--quiet", input=row, cwd="/", env=environment)
    check(answer.returncode == 0 and '"answer":"7:45"' in answer.stdout, f"the unpacked program: {answer}")
    page = gzip.decompress((root / "usr/share/man/man1/banyan-ask.1.gz").read_bytes()).decode()
    check(page == run(BUILD / "banyan", "man", "banyan-ask").stdout, "the page of this build")
    completion = root / "usr/share/bash-completion/completions/banyan"
    check(completion.read_text() == run(BUILD / "banyan", "completion", "bash").stdout, "the completion of this build")

print(f"package_test: {failures} failed")
sys.exit(1 if failures else 0)
