"""The options of the command line and those of the package: the same, but for what is listed here with its reason."""
import inspect
import json
import re
import typing
import unittest
import unittest.mock

import banyan
from banyan import _native
from banyan._names import native_names
from banyan._option_table import TABLE_TASKS, job_names, option_tables, options_of
from support import PackageTest, ROOT
from test_embed import encoder_files

# Options with another name in Python; extract's --max-tokens is what --max-new is of the others.
RENAMED = {"id": "id_column", "question": "questions", "field": "fields", "gap": "gaps", "no_trace": "trace"}

# Options of the command line that Python has in another way, or has no use for.
ELSEWHERE = {
    "help": "help(banyan.ask)",
    "help_all": "the same",
    "quiet": "the package prints nothing",
    "receipt": "Rows.receipt",
    "show_prompt": "banyan.show_prompts",
    "dry_run": "banyan.estimate",
    "explain": "Engine.explain",
    "json": "rows are dicts",
    "verbose": "the lines that end a command",
    "layout": "for the training scripts, which call the program",
    "report": "a page that the program draws",
    "new": "Index.build always makes the index anew",
}
# Parameters of Python that the command line has in another way.
PYTHON_ONLY = {
    "data": "the positional input", "schema": "--schema, a file there", "model": "--model", "engine": "the engine's options",
    "progress": "the line on stderr", "options": "the options in one object", "timeout": "the program timeout(1)", "notice": "the lines on stderr", "directory": "the first argument", "cls": "",
    "inputs": "the other arguments", "flat": "chosen there by the output's format", "columns": "of ask's tables",
    "overwrite": "embed's output there is standard output or a new file",
    "field": "input lines of embed have text", "max_waiting": "back-pressure, of programs that submit", "adapters": "--adapter NAME=DIR",
    "look": "Ctrl-C"}


TYPES = {banyan.ask: banyan.AskOptions, banyan.extract: banyan.ExtractOptions, banyan.rag: banyan.RagOptions}


def parameters(call) -> set[str]:
    """Of a call, the options of its typed object among them."""
    names = set(inspect.signature(call).parameters) - {"self", "more"}
    return names | set(typing.get_type_hints(TYPES[call])) if call in TYPES else names


class Options(PackageTest):
    def command_options(self, *command) -> set[str]:
        """Names as Python spells them, read from the help."""
        text = self.command(*command, "--help").decode()
        if "--help-all" in text:
            text = self.command(*command, "--help-all").decode()
        names = re.findall(r"^  (?:-\w, )?--([a-z0-9-]+)", text, re.MULTILINE)
        return {name.replace("-", "_") for name in names}

    def check(self, command, *callables, engine=True):
        there = {RENAMED.get(name, name) for name in self.command_options(*command)}
        self.assertGreater(len(there), 5)
        here = {name for one in callables for name in parameters(one)}
        if engine:
            here |= set(banyan.EngineOptions.__annotations__)
        self.assertEqual(sorted(there - here - set(ELSEWHERE)), [], f"options that Python lacks: {command}")
        self.assertEqual(sorted(here - there - set(PYTHON_ONLY)), [], f"parameters that the program lacks: {command}")

    def test_ask(self):
        self.check(["ask"], banyan.ask, banyan.Model)

    def test_extract(self):
        text = self.command_options("extract")
        engine = set(banyan.EngineOptions.__annotations__) - {"kv_store", "kv_save", "kv_bits"}  # of ask and rag
        here = parameters(banyan.extract) | parameters(banyan.Model) | engine
        there = {{**RENAMED, "examples": "few_shot", "max_tokens": "max_new"}.get(name, name) for name in text}
        self.assertEqual(sorted(there - here - set(ELSEWHERE)), [])
        self.assertEqual(sorted(here - there - set(PYTHON_ONLY)), [])

    def test_rag(self):
        self.check(["rag"], banyan.rag, banyan.Model)

    def test_tables(self):
        known = set(_native.option_names("table"))
        passed: set[str] = set()
        for task in TABLE_TASKS:
            call = getattr(banyan, task)
            there = {{**RENAMED, "min_precision": "precision"}.get(name, name) for name in self.command_options(task)}
            here = set(options_of(task)) | set(inspect.signature(call).parameters) | parameters(banyan.Model) | \
                set(banyan.EngineOptions.__annotations__)
            self.assertEqual(sorted(there - here - set(ELSEWHERE)), [], f"options that Python lacks: {task}")
            own = set(options_of(task)) - job_names(task)
            self.assertEqual(sorted(own - there), [], f"options that the program lacks: {task}")
            passed |= set(native_names(task, dict.fromkeys(own)))
            for name, option in options_of(task).items():
                self.assertIn(f"| `{name}` | `{option.default!r}` |", call.__doc__)
            self.assertLessEqual(set(options_of(task)), set(typing.get_type_hints(banyan.TableOptions)))
        self.assertEqual(known - passed, {"operator", "prompt", "large", "right", "candidates", "encoder"})
        self.assertEqual(passed - known, set())

    def test_embed(self):
        # Python reads these rows itself: UTF-8, of the kind that the file's name says, the text in `field`.
        itself = lambda delimiter, encoding, fields, id_column, input_format, strict: None  # noqa: E731
        self.check(["embed"], banyan.embed, banyan.Encoder, itself, engine=False)

    def test_rag_index(self):
        # Device and threads are those of the Encoder that is given.
        self.check(["rag", "index"], banyan.Index.build, lambda device, threads: None, engine=False)

    def test_every_name_of_the_tables_is_needed(self):
        there = set().union(*(self.command_options(*c) for c in (["ask"], ["extract"], ["rag"], ["embed"], ["rag", "index"])))
        self.assertLessEqual(set(RENAMED) | set(ELSEWHERE), there)

    def test_the_library_knows_what_the_package_passes(self):
        knobs = {row["name"] for row in json.loads(_native.option_table()) if row["for_comparison"]}  # not shown
        self.assertEqual(set(_native.option_names("engine")) - knobs, set(banyan.EngineOptions.__annotations__))
        self.assertEqual(set(_native.option_names("model")), set(inspect.signature(banyan.Model).parameters) - {"look"})
        job = set(_native.option_names("job")) - {"inputs", "other_files", "shards"} | {
            "data", "questions", "schema", "model", "engine", "progress", "options", "timeout"}
        for task in TYPES:
            names = set(native_names(task.__name__, dict.fromkeys(parameters(task))))
            known = set(_native.option_names(task.__name__))
            self.assertEqual(sorted(names - known - job), [])
            self.assertEqual(sorted(known - names - {"questions_text", "null_tokens"}), [])

    def test_the_table_explains_every_option_of_the_types(self):
        for call, types in TYPES.items():
            table = options_of(call.__name__)
            self.assertEqual(sorted(table), sorted(typing.get_type_hints(types)))
            for name, option in table.items():
                self.assertIn(f"| `{name}` | `{option.default!r}` |", call.__doc__)
                self.assertGreater(len(option.text), 5)


class Names(PackageTest):
    def test_names_in_the_types_are_those_that_the_library_takes(self):
        row = {"id": 1, "context": "a", "text": "a", "question": "b", "documents": [{"id": 1, "text": "a"}], "choices": ["x", "y"]}
        calls = {banyan.ask: {}, banyan.extract: {"schema": {"attributes": [{"name": "x"}]}}, banyan.rag: {}}
        checked = 0
        for call, more in calls.items():
            for name, hint in typing.get_type_hints(TYPES[call]).items():
                literals = [one for one in (hint, *typing.get_args(hint)) if typing.get_origin(one) is typing.Literal]
                for literal in literals:
                    with self.assertRaises(banyan.Error) as caught:
                        call([row], model=self.model, **more, **{name: "nonsense"})
                    for value in typing.get_args(literal):
                        if (name, value) == ("candidates", "auto"):  # the command line's default has no name
                            continue
                        self.assertRegex(str(caught.exception), rf"\b{value}\b", name)
                    checked += 1
        self.assertGreater(checked, 12)


    def test_names_of_models_and_indexes_are_the_librarys_too(self):
        for typed, call in ((banyan.Model.__init__, lambda **given: banyan.Model(self.model_path, **given)),
                            (banyan.Index.build, lambda **given: banyan.Index.build(None, [{"text": "a"}], **given))):
            for name, hint in typing.get_type_hints(typed).items():
                for literal in [one for one in (hint, *typing.get_args(hint)) if typing.get_origin(one) is typing.Literal]:
                    with self.assertRaises(banyan.Error) as caught:
                        call(**{name: "nonsense"})
                    for value in typing.get_args(literal):
                        self.assertRegex(str(caught.exception), rf"\b{value}\b", name)

    def test_a_wrong_name_is_refused_at_once(self):
        rows = [{"id": 1, "context": "a", "question": "b"}]
        with banyan.Engine(self.model) as engine, self.assertRaises(banyan.Error) as caught:
            engine.submit("abc", temprature=1)
        self.assertEqual(str(caught.exception), "temprature: there is no such option; did you mean 'temperature'?")
        for call, words in (
                (lambda: banyan.ask(rows, model="/nowhere", temprature=1), "temprature: there is no such option; did you mean 'temperature'?"),
                (lambda: banyan.ask(rows, model="/nowhere", options={"max_now": 1}), "options: max_now: there is no such option; did you mean 'max_new'?"),
                (lambda: banyan.ask(rows, model="/nowhere", fields={"contxt": "x"}), "fields: contxt: there is no such field; did you mean 'context'?"),
                (lambda: banyan.extract(rows, {}, model="/nowhere", feilds={}), "did you mean 'fields'?"),
                (lambda: banyan.rag(rows, model="/nowhere", min_relevence=1), "did you mean 'min_relevance'?"),
                (lambda: banyan.estimate(rows, task="answer", model="/nowhere"), "task: answer: there is no such task"),
                (lambda: banyan.ask(rows, model="/nowhere", max_new=1, max_tokens=2), "max_tokens: is another name of max_new"),
                (lambda: banyan.ask(rows, model="/nowhere", fields={"context": "x", "text": "y"}), "text: is another name of context"),
                (lambda: banyan.ask(rows, model="/nowhere", options=3), "options: expected a dict of AskOptions, found int"),
                (lambda: banyan.ask(rows, model="/nowhere", engine=3), "engine: expected a dict of EngineOptions, found int")):
            with self.assertRaises(banyan.Error) as caught:
                call()
            self.assertIn(words, str(caught.exception))

    def test_one_vocabulary_with_the_other_names_understood(self):
        wanted = banyan.ask([{"id": 1, "context": "The ferry.", "question": "b"}], model=self.model, max_new=5).lines
        for data, options in (({"context": "The ferry."}, {"max_tokens": 5}), ({"context": "The ferry."}, {"max_new_tokens": 5}),
                              ({"body": "The ferry."}, {"max_new": 5, "fields": {"text": "body"}}),
                              ({"body": "The ferry."}, {"max_new": 5, "field": "body"}),
                              ({"body": "The ferry."}, {"max_new": 5, "options": {"fields": {"context": "body"}}})):
            self.assertEqual(banyan.ask([{"id": 1, "question": "b", **data}], model=self.model, **options).lines, wanted)
        schema = {"attributes": [{"name": "x"}]}
        texts = [banyan.extract([{"id": 1, "page": "The ferry."}], schema, model=self.model, fields={name: "page"}, **most).lines
                 for name, most in (("text", {"max_new": 3}), ("context", {"max_tokens": 3}))]
        self.assertEqual(texts[0], texts[1])
        with banyan.Engine(self.model) as engine:
            self.assertEqual([len(engine.submit("abc", stop_tokens=[], **{name: 3}).answer().tokens)
                              for name in ("max_new", "max_tokens", "max_new_tokens")], [3] * 3)

    def test_a_keyword_counts_before_the_object(self):
        careful = banyan.AskOptions(max_new=2, token_ids=True)
        row = [{"id": 1, "context": "a", "question": "b"}]
        self.assertLessEqual(len(banyan.ask(row, model=self.model, options=careful)[0]["token_ids"]), 2)
        self.assertEqual(banyan.ask(row, model=self.model, options=careful, max_new=4).lines,
                         banyan.ask(row, model=self.model, max_new=4, token_ids=True).lines)

    def test_messages_speak_of_parameters(self):
        long = [{"id": 1, "context": "word " * 3000, "question": "b"}, {"id": 2, "context": "a"}]
        messages = " ".join(row["error"]["message"] for row in banyan.ask(long, model=self.model, too_long="fail").errors)
        self.assertNotRegex(messages, r"(^|\s)--?[a-z]")
        self.assertIn("(too_long)", messages)
        self.assertIn("questions", messages)


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
        self.assertIn("needs kv_store", str(caught.exception))

    def test_prompts_and_estimates_without_a_job(self):
        rows = [{"id": i, "context": f"Text {i}.", "question": "Why?"} for i in range(4)]
        source = self.write("in.jsonl", rows)
        printed = self.command("ask", "-m", self.model_path, "--threads", 1, source, "--show-prompt").decode()
        self.assertEqual(banyan.show_prompts(source, model=self.model).strip(), printed.strip())
        estimate = banyan.estimate(rows, model=self.model, max_new=4)
        self.assertEqual((estimate["records"], estimate["rows"]), (4, 4))


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

    def test_the_encoder_of_an_open_index_is_loaded_once(self):
        texts = [{"id": f"d{i}", "text": f"w{i} w{i + 1} w{i + 2}"} for i in range(4)]
        index = banyan.Index.build(self.path("idx"), self.write("texts.jsonl", texts), encoder=self.encoder())
        asked = {"model": self.model, "max_new": 2, "top": 2}
        with unittest.mock.patch.object(banyan._index, "Encoder", wraps=banyan.Encoder) as load:
            rows = [banyan.rag([{"id": 1, "question": "w1 w2"}], index=index, **asked)[0] for _ in range(3)]
            self.assertEqual(load.call_count, 1)
        for row in rows:
            del row["seconds"], row["first_token_seconds"]
        self.assertEqual(rows[0], rows[2])

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
