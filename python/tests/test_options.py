"""The options of the command line and those of the package: the same, but for what is listed here with its reason."""
import inspect
import json
import re
import unittest

import banyan
from banyan import _native
from support import PackageTest
from test_embed import encoder_files

# Options with another name in Python.
RENAMED = {"question": "questions", "field": "fields", "gap": "gaps", "no_trace": "trace", "no_replay": "replay"}

# Options of the command line that Python has in another way, or has no use for.
ELSEWHERE = {
    "help": "help(banyan.ask)",
    "quiet": "the package prints nothing",
    "receipt": "Rows.receipt",
    "show_prompt": "banyan.show_prompts",
    "dry_run": "banyan.estimate",
    "explain": "Engine.explain",
    "json": "rows are dicts",
    "layout": "for the training scripts, which call the program",
    "report": "a page that the program draws",
    "price_per_hour": "of the receipt that the program prints",
}
# Parameters of Python that the command line has in another way.
PYTHON_ONLY = {
    "data": "the positional input", "schema": "--schema, a file there", "model": "--model", "engine": "the engine's options",
    "progress": "the line on stderr", "notice": "the lines on stderr", "directory": "the first argument", "cls": "",
    "inputs": "the other arguments", "flat": "chosen there by the output's format", "columns": "of ask's tables",
    "field": "input lines of embed have text", "max_waiting": "back-pressure, of programs that submit", "adapters": "--adapter NAME=DIR"}


class Options(PackageTest):
    def command_options(self, *command) -> set[str]:
        """Names as Python spells them, read from the help."""
        text = self.command("help", *command).decode()
        names = re.findall(r"^  (?:-\w, )?--([a-z0-9-]+)", text, re.MULTILINE)
        return {name.replace("-", "_") for name in names}

    def check(self, command, *callables, engine=True):
        there = {RENAMED.get(name, name) for name in self.command_options(*command)}
        self.assertGreater(len(there), 5)
        here = {name for one in callables for name in inspect.signature(one).parameters if name != "self"}
        if engine:
            here |= set(banyan.EngineOptions.__annotations__)
        self.assertEqual(sorted(there - here - set(ELSEWHERE)), [], f"options that Python lacks: {command}")
        self.assertEqual(sorted(here - there - set(PYTHON_ONLY)), [], f"parameters that the program lacks: {command}")

    def test_ask(self):
        self.check(["ask"], banyan.ask, banyan.Model)

    def test_extract(self):
        text = self.command_options("extract")
        engine = set(banyan.EngineOptions.__annotations__) - {"kv_store", "kv_save", "kv_bits"}  # of ask and rag
        here = set(inspect.signature(banyan.extract).parameters) | set(inspect.signature(banyan.Model).parameters) | engine
        there = {RENAMED.get(name, name) for name in text}
        self.assertEqual(sorted(there - here - set(ELSEWHERE)), [])
        self.assertEqual(sorted(here - there - set(PYTHON_ONLY)), [])

    def test_rag(self):
        self.check(["rag"], banyan.rag, banyan.Model)

    def test_embed(self):
        self.check(["embed"], banyan.embed, banyan.Encoder, engine=False)

    def test_rag_index(self):
        # Device and threads are those of the Encoder that is given.
        self.check(["rag", "index"], banyan.Index.build, lambda device, threads: None, engine=False)

    def test_every_name_of_the_tables_is_needed(self):
        there = set().union(*(self.command_options(*c) for c in (["ask"], ["extract"], ["rag"], ["embed"], ["rag", "index"])))
        self.assertLessEqual(set(RENAMED) | set(ELSEWHERE), there)

    def test_the_library_knows_what_the_package_passes(self):
        self.assertEqual(set(_native.option_names("engine")), set(banyan.EngineOptions.__annotations__))
        self.assertEqual(set(_native.option_names("model")), set(inspect.signature(banyan.Model).parameters))
        job = set(_native.option_names("job")) - {"inputs", "other_files", "shards"} | {"data", "questions", "schema", "model",
                                                                                        "engine", "progress"}
        for task in (banyan.ask, banyan.extract, banyan.rag):
            names = set(inspect.signature(task).parameters)
            known = set(_native.option_names(task.__name__))
            self.assertEqual(sorted(names - known - job), [])
            self.assertEqual(sorted(known - names - {"questions_text"}), [])


class Meaning(PackageTest):
    def test_answers_are_copied_from_the_context(self):
        rows = [{"id": i, "context": f"Anna {i} steers the ferry.", "question": "Who?"} for i in range(3)]
        source = self.write("in.jsonl", rows)
        found = banyan.ask(rows, model=self.model, max_new=8, copy=True)
        self.assertEqual(found.lines, self.command_lines("ask", source, "--max-new", 8, "--copy"))
        for row, given in zip(found, rows):
            self.assertTrue(row["answer"] is None or row["answer"] in given["context"], row)

    def test_documents_are_kept_and_loaded(self):
        rows = [{"id": i, "context": f"Text {i}. " * 40, "question": "Why?"} for i in range(3)]
        plain = banyan.ask(rows, model=self.model, max_new=4)
        store = self.folder / "store"
        saved = banyan.ask(rows, model=self.model, max_new=4, engine={"kv_store": store, "kv_save": True})
        loaded = banyan.ask(rows, model=self.model, max_new=4, engine={"kv_store": store})
        self.assertEqual([saved.lines, loaded.lines], [plain.lines] * 2)
        self.assertGreater(saved.receipt["saved_tokens"], 0)
        self.assertGreater(loaded.receipt["loaded_tokens"], 0)
        with self.assertRaises(banyan.Error) as caught:
            banyan.ask(rows, model=self.model, engine={"kv_save": True})
        self.assertIn("needs --kv-store", str(caught.exception))

    def test_prompts_and_estimates_without_a_job(self):
        rows = [{"id": i, "context": f"Text {i}.", "question": "Why?"} for i in range(4)]
        source = self.write("in.jsonl", rows)
        printed = self.command("ask", "-m", self.model_path, "--threads", 1, source, "--show-prompt").decode()
        self.assertEqual(banyan.show_prompts(source, model=self.model).strip(), printed.strip())
        estimate = banyan.estimate(rows, model=self.model, max_new=4)
        self.assertEqual((estimate["records"], estimate["rows"]), (4, 4))

    def test_outputs_that_are_not_read_back_say_so(self):
        rows = banyan.ask([{"context": "a", "question": "b"}], model=self.model, max_new=2, output=self.path("out.csv"))
        self.assertIn("1 rows", repr(rows))
        with self.assertRaises(banyan.Error) as caught:
            len(rows)
        self.assertIn("out.csv: the rows are in this file alone", str(caught.exception))
        packed = banyan.ask([{"context": "a", "question": "b"}], model=self.model, max_new=2,
                            output=self.path("out.jsonl.gz"))
        self.assertEqual(len(packed), 1)


class Retrieval(PackageTest):
    """An encoder beside the model: the rows of the command line, found by vectors."""

    def encoder(self) -> str:
        files, folder = encoder_files(), self.folder / "encoder"
        files.write_model(folder, "XLMRobertaModel", files.network())
        files.write_tokenizer(folder)
        return str(folder)

    def test_an_index_with_vectors_is_asked(self):
        path = self.encoder()
        texts = [{"id": f"d{i}", "text": " ".join(f"w{(i * k) % 30}" for k in range(1, 9))} for i in range(6)]
        source = self.write("texts.jsonl", texts)
        heard = []
        index = banyan.Index.build(self.path("idx"), source, encoder=path, progress=lambda *now: heard.append(now))
        self.assertEqual(heard[-1], (6, 6))
        self.assertEqual(index.encoder, path)
        with banyan.Encoder(path, threads=1) as encoder:
            nearest = index.search(texts[3]["text"], 2, encoder=encoder)
            self.assertAlmostEqual(nearest[0].score, 1.0, places=5)
            self.assertEqual(nearest[0].text, texts[3]["text"])
            rows = [{"id": i, "question": f"w{i} w{i + 1}"} for i in range(2)]
            asked = self.write("in.jsonl", rows)
            wanted = self.command_lines("rag", asked, "--index", self.path("idx"), "--max-new", 4, "--top", 2)
            for given in ({}, {"encoder": encoder}, {"encoder": path}):
                found = banyan.rag(rows, index=index, model=self.model, max_new=4, top=2, **given)
                self.assertEqual([self.timeless(line) for line in found.lines], [self.timeless(line) for line in wanted])

    def test_examples_are_experts(self):
        examples = [{"question": f"q{i}", "answer": f"a{i}"} for i in range(3)]
        rows = [{"id": 1, "question": "q9"}]
        wanted = self.command_lines("rag", self.write("in.jsonl", rows), "--experts", "examples", "--examples",
                                    self.write("examples.jsonl", examples), "--max-new", 4)
        found = banyan.rag(rows, experts="examples", examples=examples, model=self.model, max_new=4)
        self.assertEqual([self.timeless(line) for line in found.lines], [self.timeless(line) for line in wanted])
        with self.assertRaises(banyan.Error):
            banyan.rag(rows, examples=examples, model=self.model)

    @staticmethod
    def timeless(line):
        row = json.loads(line)
        return {name: value for name, value in row.items() if not name.endswith("seconds")}


if __name__ == "__main__":
    unittest.main()
