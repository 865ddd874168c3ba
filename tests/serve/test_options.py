"""Every row of the option table through HTTP: what is in range is read, what is not is refused with 400 and its field."""
import pathlib
import sys
import unittest

from harness import ASK, BANYAN, ROOT, ServeTest

sys.path.insert(0, str(pathlib.Path(ROOT) / "tests" / "support"))
from option_values import outside, read_table, within  # noqa: E402


class Options(ServeTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.table = [row for row in read_table(BANYAN) if row["http"] is not None]

    def refusal(self, row, name, value):
        """Of a request that is wrong in any case: nothing of it is said before the options are read."""
        body = {"schema": {"attributes": [{"name": "a"}]}} if row["table"] == "extract" else {}
        status, reply = self.server.json("/v1/" + row["table"], {**body, name: value})
        self.assertEqual(status, 400)
        return reply["error"]

    def test_what_is_in_range_is_read(self):
        tried = 0
        for row in self.table:
            for value in row["http_names"] or within(row):
                for name in {row["http"], row["name"], *row["aliases"]}:
                    error = self.refusal(row, name, value)
                    self.assertIn(error["param"], ("documents", "questions"), (row["name"], value, error))
                    self.assertIn("is missing", error["message"])
                    tried += 1
        self.assertGreater(tried, 100)

    def test_what_is_out_of_range_is_refused_by_name(self):
        tried = 0
        for row in self.table:
            wrong = {"flag": ["yes", 1], "text": [5, ["a"]], "texts": [5, [""], ["a", 5]]}.get(row["kind"], outside(row))
            wrong = wrong + [name for name in row["names"] if row["http_names"] and name not in row["http_names"]]
            for value in wrong:
                error = self.refusal(row, row["http"], value)
                self.assertEqual(error["param"], row["http"], (row["name"], value, error))
                self.assertIn(f"'{row['http']}': expected ", error["message"])
                tried += 1
        self.assertGreater(tried, 100)

    def test_a_server_bounds_what_one_request_costs(self):
        for row in self.table:
            if row["http"] == "max_tokens":
                self.assertEqual(self.refusal(row, "max_tokens", 4097)["param"], "max_tokens")

    def test_two_names_of_one_option(self):
        status, reply = self.server.json("/v1/ask", dict(ASK, max_tokens=4, max_new=4))
        self.assertEqual(status, 400)
        self.assertIn("'max_tokens' and 'max_new' are one parameter", reply["error"]["message"])
        wanted = self.server.json("/v1/ask", dict(ASK, max_tokens=4))[1]["rows"]
        self.assertEqual(self.server.json("/v1/ask", dict(ASK, max_new=4))[1]["rows"], wanted)
        documents = [{"id": one["id"], "context": one["text"]} for one in ASK["documents"]]
        self.assertEqual(self.server.json("/v1/ask", dict(ASK, documents=documents, max_tokens=4))[1]["rows"], wanted)

    def test_answers_can_be_copied_or_not(self):
        for copy in (True, False):
            status, reply = self.server.json("/v1/ask", dict(ASK, max_tokens=4, copy=copy, top_logprobs=30))
            self.assertEqual(status, 200, reply)

    def test_the_description_has_every_option(self):
        schemas = self.server.json("/openapi.json")[1]["components"]["schemas"]
        names = {"ask": "AskRequest", "extract": "ExtractRequest", "rag": "RagRequest"}
        for row in self.table:
            schema = schemas[names[row["table"]]]
            self.assertNotIn("x-banyan-options", schema)
            found = schema["properties"][row["http"]]
            self.assertEqual(found["description"], row["help"])
            self.assertEqual(found.get("enum", []), row["http_names"] or row["names"] if row["kind"] == "name" else [])
            if row["kind"] in ("whole", "number"):
                self.assertEqual((found.get("minimum"), found.get("maximum")), (row.get("least"), row.get("most")))
                self.assertEqual(found.get("default"), row.get("default"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
