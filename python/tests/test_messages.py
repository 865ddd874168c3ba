"""Every door says things in its own words: parameters in Python, options on the command line, places as they are."""

import contextlib
import io
import re
import unittest

import banyan
from banyan._errors import in_words_of_python, in_words_of_the_program
from banyan.__main__ import main
from support import ROOT, PackageTest

WORDS = {
    "--too-long split": "too_long='split'",
    "x: is there already; replace it with --overwrite": "x: is there already; replace it with overwrite=True",
    "add --resume --overwrite": "add resume=True and overwrite=True",
    "Give another output (-o), or begin anew": "Give another output (output), or begin anew",
    "(--encoding UTF-16)": "(encoding='UTF-16')",
    "--encoding latin-1, if it is that": "encoding='latin-1', if it is that",
    "--relevance rerank needs a reranker (--reranker MODEL)": "relevance='rerank' needs a reranker (reranker=MODEL)",
    "make it with 'banyan rag index --encoder MODEL'": "make it with Index.build(…, encoder=MODEL)",
    "(--field context=NAME says which)": '(fields={"context": NAME} says which)',
    "--kv-type q8 needs --precision mixed": "kv_type q8 needs precision='mixed'",
    "rows, line 3: too long": "row 2: too long",
    "rows, line 3: row 2, column 'n': NaN": "row 2, column 'n': NaN",
    "in.jsonl, line 3: too long": "in.jsonl, line 3: too long",
}
BACK = {
    "x: give another output, or overwrite=True to replace it": "x: give another output, or --overwrite to replace it",
    "expected too_long='split'": "expected --too-long split",
    "output_format: the output's name says Parquet": "--output-format: the output's name says Parquet",
    '(fields={"context": NAME} says which)': "(--field context=NAME says which)",
    "the column x=True": "the column x=True",
}
# The program's own sources: what of these is printed by the command alone, or is no option of ours.
COMMAND_ALONE = re.compile(
    r"models--|--hash|--quiet|--no-deps|--disable-pip|--only-binary|--require-hashes|--dest|--requirement|--shape|--weights"
    r"|extract schema|--report|--show-prompt|--headless|--field|--receipt|--hue"
)


class Words(unittest.TestCase):
    def test_options_are_parameters_and_back(self):
        for message, words in WORDS.items():
            self.assertEqual(in_words_of_python(message), words)
        for message, words in BACK.items():
            self.assertEqual(in_words_of_the_program(message), words)

    def test_no_message_of_the_library_names_an_option_in_python(self):
        text = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
        left = []
        for path in sorted((ROOT / "src").glob("**/*.cc")):
            if path.name.endswith("_test.cc") or {"serve", "kernels", "options"} & set(path.parts):
                continue
            for found in re.finditer(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+', path.read_text()):
                said = in_words_of_python("".join(text.findall(found[0])))
                if re.search(r"--[a-z]", said) and not COMMAND_ALONE.search(said):
                    left.append(f"{path.name}: {said}")
        self.assertEqual(left, [])


class Places(PackageTest):
    def test_rows_in_memory_count_from_nought(self):
        rows = [{"id": "a", "context": "Text."}, {"id": "b"}]
        found = banyan.ask(rows, "Why?", model=self.model, max_new=2)
        self.assertEqual(found[1]["error"]["message"], "row 1: expected the field 'context', found none")
        self.assertEqual(
            found.to_arrow()["error"].to_pylist()[1]["message"], "row 1: expected the field 'context', found none"
        )
        with self.assertRaisesRegex(banyan.Error, "^row b: row 1: expected the field"):
            found.raise_for_errors()
        with self.assertRaisesRegex(banyan.Error, "^row 1: expected the field 'context', found none"):
            banyan.ask(rows, "Why?", model=self.model, strict=True)
        path = self.write("in.jsonl", rows)
        self.assertEqual(
            banyan.ask(path, "Why?", model=self.model, max_new=2)[1]["error"]["message"],
            f"{path}, line 2: expected the field 'context', found none",
        )

    def test_reasons_of_cells_name_no_place(self):
        import pandas
        import banyan.pandas

        found = pandas.Series(["Text.", "word " * 3000]).banyan.ask("Why?", model=self.model, max_new=2, too_long="fail", errors=True)
        self.assertTrue(found["answer_error"][1].startswith("too long: "), found["answer_error"][1])


class Command(PackageTest):
    def test_the_package_speaks_as_the_program(self):
        path, out = self.write("in.jsonl", [{"context": "Text."}]), self.path("out.parquet")
        with open(out, "w") as file:
            file.write("mine")
        with contextlib.redirect_stderr(io.StringIO()) as said:
            code = main(["ask", path, "-q", "Why?", "-m", self.model_path, "-o", out])
        self.assertEqual(code, 2)
        self.assertIn("or --overwrite to replace it", said.getvalue())
        self.assertNotIn("=True", said.getvalue())


if __name__ == "__main__":
    unittest.main()
