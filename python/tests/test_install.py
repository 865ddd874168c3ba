"""What is missing for a build is said before anything compiles, with the command that installs it."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from support import ROOT


@unittest.skipUnless(shutil.which("cmake"), "cmake is not installed")
class Missing(unittest.TestCase):
    def configured(self, *definitions, **environment) -> str:
        """What cmake says when it refuses."""
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-D", "BANYAN_TESTS=OFF", *definitions],
                                    capture_output=True, text=True, env={**os.environ, **environment})
            self.assertNotEqual(result.returncode, 0)
            self.assertEqual(list(pathlib.Path(folder).glob("**/banyan*.o")), [])
            return result.stderr

    def test_debian_packages_are_named_together_with_their_command(self):
        said = self.configured("-D", "CMAKE_DISABLE_FIND_PACKAGE_fmt=ON", "-D", "CMAKE_DISABLE_FIND_PACKAGE_CLI11=ON",
                               PKG_CONFIG_LIBDIR="/nowhere", PKG_CONFIG_PATH="")
        self.assertIn("sudo apt-get install libfmt-dev libcli11-dev libpcre2-dev libutf8proc-dev", said)

    def test_pythons_headers_are_named(self):
        said = self.configured("-D", "BANYAN_PYTHON=ON", "-D", "CMAKE_DISABLE_FIND_PACKAGE_Python=ON")
        self.assertIn("sudo apt-get install python3-dev", said)


class SecondInstall(unittest.TestCase):
    def test_what_was_compiled_is_kept(self):
        """scikit-build-core clears a build folder that another environment made; the backend says that it is ours."""
        try:
            import scikit_build_core
        except ImportError as error:
            self.skipTest(str(error))
        sys.path.insert(0, str(ROOT / "tools" / "python_build"))
        try:
            from banyan_build import keep_objects
        finally:
            del sys.path[0]
        here = str(pathlib.Path(scikit_build_core.__file__).resolve().parent)
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("a", '{"skbuild_path": "/gone", "source_dir": "/here"}'), ("b", "cut o")):
                (pathlib.Path(folder) / name).mkdir()
                (pathlib.Path(folder) / name / ".skbuild-info.json").write_text(text)
            keep_objects(pathlib.Path(folder))
            self.assertEqual(json.loads((pathlib.Path(folder) / "a" / ".skbuild-info.json").read_text()),
                             {"skbuild_path": here, "source_dir": "/here"})
            self.assertEqual((pathlib.Path(folder) / "b" / ".skbuild-info.json").read_text(), "cut o")


if __name__ == "__main__":
    unittest.main()
