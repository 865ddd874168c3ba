#!/usr/bin/env python3
"""An SPDX 2.3 document of a release: the program, the models beside it, and the Debian packages whose libraries the
self-contained tarball carries or whose headers are compiled in. Depends on its arguments and SOURCE_DATE_EPOCH alone.
Usage: sbom.py VERSION SOURCE_FOLDER LIBRARIES.txt RELEASE_FOLDER"""
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

version, source, libraries, release = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4])
# Compiled into the program: headers and static libraries.
COMPILED_IN = ("nlohmann-json3-dev", "libcli11-dev", "libboost-dev", "libfaiss-dev")


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def spdx_id(name):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def debian_package(name, package_version, comment):
    return {"name": name, "SPDXID": spdx_id("debian-" + name), "versionInfo": package_version, "supplier": "Organization: Debian",
            "downloadLocation": f"https://packages.debian.org/bookworm/{name}", "filesAnalyzed": False,
            "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION",
            "comment": comment,
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                              "referenceLocator": f"pkg:deb/debian/{name}@{package_version}?distro=bookworm"}]}


packages = [{"name": "banyan", "SPDXID": "SPDXRef-banyan", "versionInfo": version, "supplier": "NOASSERTION",
             "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "Apache-2.0",
             "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION", "primaryPackagePurpose": "APPLICATION"}]
relations = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-banyan")]

for artefact in sorted(path for path in release.iterdir() if path.suffix in (".gz", ".deb", ".whl")):
    identity = spdx_id("artefact-" + artefact.name)
    packages.append({"name": artefact.name, "SPDXID": identity, "versionInfo": version, "supplier": "NOASSERTION",
                     "downloadLocation": "NOASSERTION", "packageFileName": artefact.name, "filesAnalyzed": False,
                     "checksums": [{"algorithm": "SHA256", "checksumValue": sha256(artefact)}],
                     "licenseConcluded": "NOASSERTION", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION"})
    relations.append(("SPDXRef-banyan", "VARIANT_OF", identity))

for line in (source / "models/SHA256SUMS").read_text().splitlines():
    digest, name = line.split()
    packages.append({"name": name, "SPDXID": spdx_id("model-" + name), "supplier": "NOASSERTION", "downloadLocation": "NOASSERTION",
                     "filesAnalyzed": False, "checksums": [{"algorithm": "SHA256", "checksumValue": digest}],
                     "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION",
                     "primaryPackagePurpose": "DATA", "comment": "weights; models/README.md has their sources and licences"})
    relations.append(("SPDXRef-banyan", "CONTAINS", spdx_id("model-" + name)))

bundled = {}
for line in libraries.read_text().splitlines():
    library, package, package_version = line.split()
    bundled.setdefault((package, package_version), []).append(library)
for (package, package_version), names in sorted(bundled.items()):
    comment = "in the self-contained tarball and the wheel: " + ", ".join(names) + "; the Debian package depends on it"
    packages.append(debian_package(package, package_version, comment))
    relations.append(("SPDXRef-banyan", "DYNAMIC_LINK", spdx_id("debian-" + package)))
for package in COMPILED_IN:
    shown = subprocess.run(["dpkg-query", "--show", "--showformat", "${Version}", package], capture_output=True, text=True)
    if shown.returncode == 0:
        packages.append(debian_package(package, shown.stdout, "compiled into the program"))
        relations.append(("SPDXRef-banyan", "STATIC_LINK", spdx_id("debian-" + package)))

created = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
content = hashlib.sha256(json.dumps(packages, sort_keys=True).encode()).hexdigest()
json.dump({"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"banyan-{version}",
           "documentNamespace": f"https://spdx.org/spdxdocs/banyan-{version}-{content[:32]}",
           "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: tools/sbom.py"]},
           "packages": packages,
           "relationships": [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
                             for one, kind, other in relations]}, sys.stdout, indent=1)
print()
