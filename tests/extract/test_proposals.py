"""`banyan extract schema`: what it proposes from documents with labels, what it refuses. The model is random: it finds nothing sure."""
import json
import unittest

from harness import ExtractTest, tiny_model

INVOICES = [
    "Invoice no. 2024-0117      Date: 12 March 2024\nBill to: Orchard Cafe\nTotal: 456.00 GBP\nPaid: yes",
    "Invoice no: 88-301\nDate: 2 May 2024\nBill to: Peter Hale\nWeight: 3 kg\nTotal: 210.00 GBP\nPaid: no",
    "INVOICE NO: BP-7731\nDate: 20.05.2024\nBill to: Ruth Castellano\nWeight: 500 g\nTotal: 108.00 GBP\nPaid: yes",
    "Invoice no: 1042\nDate: 1 June 2024\nTotal: GBP 45.00\nOnly here: 1\nPaid: no"]


def rows(texts: list) -> list:
    return [{"id": f"d{i}", "text": text} for i, text in enumerate(texts)]


class ProposalsTest(ExtractTest):
    def propose(self, docs, *arguments, code=0):
        path = docs if isinstance(docs, str) else self.write("docs.jsonl", docs)
        return self.run_banyan("extract", "schema", "-m", self.model, path, "--threads", "1", *arguments, code=code)

    def proposal(self, docs, *arguments) -> dict:
        return json.loads(self.propose(docs, "--json", "--quiet", *arguments).stdout)

    def test_labels_become_typed_attributes(self):
        found = self.proposal(rows(INVOICES))
        self.assertEqual(found["documents"], 4)
        self.assertEqual(found["kinds"][0], "invoice")
        attributes = {a["name"]: a for a in found["attributes"]}
        self.assertEqual({n: a["type"] for n, a in attributes.items() if a["label_documents"]},
                         {"Invoice no": "text", "Date": "date", "Total": "number in GBP", "Paid": "boolean", "Bill to": "text",
                          "Weight": "number in kg"})
        self.assertEqual(attributes["Date"]["coverage"], 1.0)
        self.assertEqual(attributes["Weight"]["documents"], 2)
        self.assertIn({"value": "500 g", "document": "d2"}, attributes["Weight"]["values"])
        self.assertNotIn("Only here", attributes)
        coverage = [a["documents"] for a in found["attributes"]]
        self.assertEqual(coverage, sorted(coverage, reverse=True))

    def test_the_schema_is_one_for_extract(self):
        schema = self.path("schema.json")
        table = self.propose(rows(INVOICES), "-o", schema, "--category", "bill").stdout.decode()
        self.assertRegex(table, r"(?m)^Date +date +4 of 4 +1\.00 +label in 4 +12 March 2024 \| ")
        with open(schema, encoding="utf-8") as file:
            read = json.load(file)["categories"]["bill"]["attributes"]
        out = self.extract(rows(INVOICES), schema, "--category", "bill")
        self.assertEqual(list(out[0]["values"]), [a["name"] for a in read])
        self.assertIn("is there already (", self.propose(rows(INVOICES), "-o", schema, code=2).stderr)
        self.propose(rows(INVOICES), "-o", schema, "--overwrite")
        result = self.propose(rows(INVOICES))
        self.assertIn("label in 4", result.stderr)
        self.assertEqual(json.loads(result.stdout)["attributes"], read)

    def test_runs_and_strategies_agree(self):
        first = self.proposal(rows(INVOICES))
        self.assertEqual(self.proposal(rows(INVOICES)), first)
        self.assertEqual(self.proposal(rows(INVOICES), "--strategy", "flat"), first)

    def test_long_documents_and_small_contexts(self):
        self.model = tiny_model(256)
        long = [text + "\n\n" + "A paragraph that says nothing. " * 60 + f"\n\nShelf: {i}{i}" for i, text in enumerate(INVOICES)]
        names = [a["name"] for a in self.proposal(rows(long))["attributes"]]
        self.assertIn("Invoice no", names)
        self.assertIn("Shelf", names)

    def test_given_names_and_limits(self):
        found = self.proposal(rows(INVOICES), "--attributes", "2", "--names", "Only here,Total")
        self.assertEqual({a["name"] for a in found["attributes"]} - {"Only here", "Total"}, set())
        found = self.proposal(rows(INVOICES), "--min-documents", "4")
        self.assertNotIn("Weight", [a["name"] for a in found["attributes"]])
        self.assertEqual(self.proposal(rows(INVOICES), "--kind", "mail")["kinds"], ["mail"])

    def test_documents_that_do_not_count(self):
        docs = rows(INVOICES) + [{"id": "empty", "text": " \n"}, {"id": "double", "text": INVOICES[0]}, {"id": "none"}, "{"]
        result = self.propose(docs, "--json")
        self.assertEqual(json.loads(result.stdout)["documents"], 4)
        for reason in ("line 5: left out: it has no words", "line 6: left out: its text came before",
                       "line 7: left out: it has no field 'text'", "line 8: left out: "):
            self.assertIn(reason, result.stderr)
        many = rows([f"Number of the day: {i}\nName: n{i}" for i in range(30)])
        self.assertEqual(self.proposal(many)["documents"], 20)
        self.assertEqual(self.proposal(many, "--documents", "5")["documents"], 5)

    def test_refusals(self):
        few = self.propose(rows(INVOICES[:2]) + [{"id": 9, "text": ""}], code=2)
        self.assertIn("expected at least 3 different documents with words, found 2", few.stderr)
        self.assertIn("--documents", self.propose(rows(INVOICES), "--documents", "21", code=2).stderr)
        self.assertIn("expected one of product, invoice, mail", self.propose(rows(INVOICES), "--kind", "poem", code=2).stderr)
        nothing = self.propose(rows(["one", "two", "three"]), code=2)
        self.assertIn("no attribute has sure values in 2 of the 3 documents", nothing.stderr)
        self.assertIn("no/such.jsonl", self.propose("no/such.jsonl", code=2).stderr)
        self.assertIn("no such folder", self.propose(rows(INVOICES), "-o", self.path("no/such/schema.json"), code=2).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
