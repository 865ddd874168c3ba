"""The examples of docstrings, run as they stand there; and every function that people call has one."""
import doctest
import importlib.util
import inspect
import unittest

import banyan
import banyan.aio
import banyan.stream
from test_embed import encoder_files
from support import PackageTest

#: Without one: what is made by the library alone, options, and what fetches from the index.
WITHOUT = {"Answer", "AskOptions", "EngineOptions", "Event", "ExtractOptions", "Embeddings", "Error", "Filtered", "Passage",
           "RagOptions", "Request", "SHIPPED_MODEL", "TableOptions", "Timeout", "aio", "stream", "fetch_model", "Rows", "Encoder", "Ask"}


class Examples(PackageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.files = encoder_files()
        cls.reader = banyan.Model(threads=1)

    @classmethod
    def tearDownClass(cls):
        cls.reader.close()
        super().tearDownClass()

    def names(self):
        """What the examples may use without saying where it comes from."""
        import asyncio
        folder = self.folder / "encoder"
        if not folder.exists():
            self.files.write_model(folder, "XLMRobertaModel", self.files.network())
            self.files.write_tokenizer(folder)
        return {"banyan": banyan, "asyncio": asyncio, "encoder": str(folder), "model": self.reader}

    def run_examples(self, found, name, must=True):
        text = inspect.getdoc(found) or ""
        test = doctest.DocTestParser().get_doctest(text, self.names(), name, None, None)
        if must:
            self.assertTrue(test.examples, f"{name}: no example")
        said = []
        runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        runner.run(test, out=said.append)
        self.assertEqual(runner.failures, 0, "".join(said))

    def test_the_package(self):
        for name in banyan.__all__:
            with self.subTest(name):
                self.run_examples(getattr(banyan, name), f"banyan.{name}", must=name not in WITHOUT)
        self.run_examples(banyan.Index.build, "banyan.Index.build")

    def test_streams_and_coroutines(self):
        self.run_examples(banyan.stream, "banyan.stream")
        for module, names in ((banyan.stream, ("ask", "extract", "rag")), (banyan.aio, ("ask", "extract", "rag", "embed"))):
            for name in names:
                with self.subTest(f"{module.__name__}.{name}"):
                    self.run_examples(getattr(module, name), f"{module.__name__}.{name}")

    def test_accessors(self):
        for name in ("pandas", "polars"):
            if importlib.util.find_spec(name) is None:
                continue
            module = importlib.import_module(f"banyan.{name}")
            self.run_examples(module, f"banyan.{name}")
            for kind in vars(module).values():
                if inspect.isclass(kind) and kind.__module__ == module.__name__ and not kind.__name__.startswith("_"):
                    for method, found in inspect.getmembers(kind, inspect.isfunction):
                        if not method.startswith("_"):
                            with self.subTest(f"{name}.{kind.__name__}.{method}"):
                                self.run_examples(found, f"banyan.{name}.{kind.__name__}.{method}")

    def test_duckdb(self):
        if importlib.util.find_spec("duckdb") is None:
            self.skipTest("needs duckdb")
        import banyan.duckdb
        self.run_examples(banyan.duckdb.register, "banyan.duckdb.register")


if __name__ == "__main__":
    unittest.main()
