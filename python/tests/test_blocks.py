"""How a job is cut into blocks and joined again, without a cluster."""
import json
import os
import pathlib
import shutil
import tracemalloc
import unittest

import banyan
from banyan._block_job import BlockWorker, check_job_output, plan, write_output
from banyan._columns import InputColumns
from banyan._job_folder import JobFolder
from banyan._json_text import elements, members, with_member
from banyan._plan import Cost, plan_blocks, split_questions
from banyan._ray_pool import Workers, backend_of, count_workers
from banyan._records import read_records, read_rows
from support import PackageTest, documents, tiny_model


def records_of(rows):
    return read_records(read_rows("ask", rows, InputColumns("ask")), "context")


class Text(unittest.TestCase):
    def test_members_and_elements_as_they_are_written(self):
        text = ' {"a" : 1.50, "b":[1, "x,]" ,{"c":2}],"d":{}}'
        self.assertEqual([(name, text[begin:end]) for name, begin, end in members(text)],
                         [("a", '"a" : 1.50'), ("b", '"b":[1, "x,]" ,{"c":2}]'), ("d", '"d":{}')])
        self.assertEqual(elements('[1, "x,]" ,{"c":2.0}]'), ["1", '"x,]"', '{"c":2.0}'])
        self.assertEqual(with_member("{ }", "n", 3), '{"n":3 }')
        self.assertEqual(with_member('{"a":1}', "n", "ü"), '{"n":"ü","a":1}')


class Plan(PackageTest):
    def blocks(self, rows, tokens, workers=4, common=()):
        cost = Cost(None, common, 8)
        return plan_blocks(records_of(rows), cost, common, "context", tokens, workers)

    def test_rows_with_one_document_are_together_wherever_they_stand(self):
        rows = [{"id": i, "context": f"Text {i % 3}. " * 10, "question": "why?"} for i in range(12)]
        blocks, count = self.blocks(rows, 100)
        self.assertEqual(count, 12)
        self.assertGreater(len(blocks), 1)
        for _, lines in blocks:
            for other_tokens, other in blocks:
                if lines is not other:
                    self.assertFalse({line.place % 3 for line in lines} & {line.place % 3 for line in other})

    def test_blocks_hold_about_as_many_tokens(self):
        rows = [{"id": i, "context": "word " * (10 + 200 * (i % 7 == 0)), "question": "why?"} for i in range(200)]
        for row in rows:
            row["context"] += str(row["id"])
        blocks, _ = self.blocks(rows, 2000)
        for tokens, _ in blocks[:-1]:
            self.assertTrue(1600 <= tokens <= 2000, tokens)

    def test_every_worker_gets_some_dozens_of_blocks(self):
        rows = [{"id": i, "context": f"{i} " + "word " * 100, "question": "why?"} for i in range(4000)]
        blocks, _ = self.blocks(rows, None)
        self.assertTrue(40 * 4 <= len(blocks) <= 50 * 4, len(blocks))
        blocks, _ = self.blocks(rows[:20], None)  # not for a handful of records each
        self.assertEqual(len(blocks), 2)

    def test_a_document_with_many_questions_is_split_among_the_workers(self):
        many = {"id": "m", "context": "abc " * 50, "questions": [f"question {i}?" for i in range(1000)], "kept": 1.50}
        blocks, _ = self.blocks([many, *documents(3)], 1000)
        pieces = [lines[0] for _, lines in blocks if lines[0].own_questions]
        self.assertEqual(len(pieces), 4)
        questions = [q for piece in pieces for q in json.loads(piece.text)["questions"]]
        self.assertEqual([q["id"] for q in questions], list(range(1, 1001)))

    def test_a_hundred_thousand_questions_are_split_evenly(self):
        many = {"id": "m", "context": "abc " * 500, "questions": [f"question {i}?" for i in range(100_000)]}
        blocks, count = self.blocks([many], 10_000, workers=8)
        self.assertEqual((count, len(blocks)), (1, 8))  # the document is computed once a worker
        sizes = [len(json.loads(lines[0].text)["questions"]) for _, lines in blocks]
        self.assertEqual(sizes, [12_500] * 8)

    def test_pieces_have_the_ids_that_one_job_gives(self):
        own = [{"id": 2, "question": "b"}, "c", {"question": "d", "n": 1.50}]
        record = next(records_of([{"id": 1, "context": "x", "questions": own}]))
        pieces = split_questions(record.text, record.fields, ["a"], 2)
        questions = [q for piece in pieces for q in json.loads(piece)["questions"]]
        wanted = banyan.ask([{"id": 1, "context": "x", "questions": own}], "a", model=self.model, max_new=1)
        self.assertEqual([q["id"] for q in questions], [row["question_id"] for row in wanted])
        twice = [{"id": 2, "question": "b"}, {"id": 2, "question": "c"}]
        record = next(records_of([{"id": 1, "context": "x", "questions": twice}]))
        self.assertIsNone(split_questions(record.text, record.fields, [], 2))


class Kinds(unittest.TestCase):
    """How many workers of every kind a cluster gets: no cluster is needed to say so."""

    machines = [{"CPU": 8.0, "GPU": 2.0}, {"CPU": 16.0, "old": 1.0}]

    def test_kinds_with_gpus_choose_first(self):
        kinds = [Workers(cpus=4), Workers(cpus=1, gpus=1)]
        self.assertEqual(count_workers(kinds, self.machines), [5, 2])  # 6 CPUs are left beside the GPUs
        self.assertEqual([kind.its_device for kind in kinds], ["cpu", "cuda"])
        self.assertEqual(Workers(gpus=4).its_device, "cuda:all")
        self.assertEqual([backend_of(name) for name in ("cpu,cpu", "cuda:all", "cuda:0,1", "cuda")], ["cpu"] + 3 * ["cuda"])
        self.assertEqual(count_workers([Workers(cpus=1, resources={"old": 0.5})], self.machines), [2])
        self.assertEqual(count_workers([Workers(40, cpus=4)], self.machines), [40])  # what has no room waits
        self.assertEqual(count_workers([Workers(cpus=8), Workers(2, cpus=16)], self.machines), [3, 2])

    def test_a_kind_that_fits_nowhere_is_refused(self):
        for kind, words in ((Workers(cpus=17), "wants 17 CPU"), (Workers(gpus=3), "wants 1 CPU, 3 GPU"),
                            (Workers(resources={"new": 1}), "wants 1 CPU, 1 new")):
            with self.assertRaises(banyan.Error) as caught:
                count_workers([Workers(), kind], self.machines)
            self.assertIn(words, str(caught.exception))
            self.assertIn("no machine of the cluster has them: at most 16 CPU, 2 GPU", str(caught.exception))


class Work(PackageTest):
    """Blocks answered one after another in this process: the rows of one machine."""

    def answered(self, data, tokens=120, workers=3, **options):
        questions = options.pop("questions", [])
        task = {**options, **({"questions": questions} if questions else {})}
        job = plan("ask", data, self.path("job"), task, model=self.model_path, model_options={}, common=questions,
                   workers=workers, block_tokens=tokens)
        worker = BlockWorker(self.path("job"), {"model": self.model_path, "threads": 1}, "ask", task, {}, {})
        count = len(job.manifest()["blocks"])
        for number in reversed(range(count)):
            worker.work(number)
        facts = write_output(job, self.path("out.jsonl"))
        worker.model.close()
        return (self.folder / "out.jsonl").read_bytes().splitlines(), facts, count

    def test_rows_are_those_of_one_job(self):
        rows = documents(9) + [{"id": "big", "context": "abc " * 30, "questions": [f"{k}?" for k in range(60)]}]
        source = self.write("in.jsonl", rows)
        found, facts, count = self.answered(source, max_new=5, questions=["What else?"])
        wanted = self.command_lines("ask", source, "-q", "What else?", "--max-new", 5)
        self.assertEqual(found, wanted)
        self.assertGreater(count, 3)
        self.assertEqual(facts["rows"], len(wanted))

    def test_error_rows_are_those_of_one_job(self):
        rows = [*documents(2), "not JSON", {"id": "d1", "context": "x", "question": "again?"}, {"context": "no id", "question": "q"},
                {"id": 7, "questions": ["x"]}, {"id": 8, "context": "y", "questions": ["ok?", {"question": ""}]}, "[1]",
                {"id": 1.50, "context": "z", "question": "q", "kept": 1e400}]
        source = self.write("in.jsonl", rows)
        file = pathlib.Path(source)
        file.write_text(file.read_text().replace("Infinity", "1e400").replace('"id": 1.5', '"id": 1.50'))
        found, facts, _ = self.answered(source, max_new=4, tokens=30)
        wanted = self.command_lines("ask", source, "--max-new", 4, code=1)
        self.assertEqual(found, wanted)
        errors = [line for line in wanted if b'"error":{' in line]
        self.assertGreater(len(errors), 4)
        self.assertEqual(facts["error_rows"], len(errors))

    def test_tables_are_read_too(self):
        import pyarrow
        import pyarrow.parquet
        rows = [{"id": i, "context": f"Text {i}.", "question": "why?", "n": i} for i in range(6)]
        wanted = banyan.ask(rows, model=self.model, max_new=4).lines
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), self.path("in.parquet"))
        self.assertEqual(self.answered(self.path("in.parquet"), max_new=4)[0], wanted)
        with open(self.path("in.csv"), "w") as file:
            file.write("id;context;question\n" + "".join(f'{i};"Text\n{i}.";why?\n' for i in range(6)))
        os.rename(self.path("job"), self.path("done"))
        found = self.answered(self.path("in.csv"), max_new=4)[0]
        self.assertEqual(found, self.command_lines("ask", self.path("in.csv"), "--max-new", 4))

    def test_text_that_is_no_utf8_becomes_the_same_error_row(self):
        source = self.folder / "in.jsonl"
        source.write_bytes(b'{"id":1,"context":"caf\xe9","question":"q?"}\n{"id":2,"context":"ok","question":"q?"}\n')
        found = self.answered(str(source), max_new=3)[0]
        self.assertEqual(found, self.command_lines("ask", source, "--max-new", 3, code=1))

    def test_a_folder_of_another_job_or_model_is_refused(self):
        source = self.write("in.jsonl", documents(3))
        self.answered(source, max_new=3)
        with self.assertRaises(banyan.Error) as caught:
            self.answered(source, max_new=4)
        self.assertIn("holds another job; different: options", str(caught.exception))
        with self.assertRaises(banyan.Error) as caught:
            BlockWorker(self.path("job"), {"model": self.model_path, "precision": "f32", "threads": 1}, "ask",
                        {"max_new": 3}, {}, {})
        self.assertIn("another model; different: activations, kv type, precision", str(caught.exception))

    def test_the_content_of_any_input_is_part_of_the_job(self):
        rows = documents(3)
        for first, second in ((rows, rows[::-1]), (iter(rows), iter(rows[:2])),
                              (self.write("a.jsonl", rows), None)):
            self.answered(first, max_new=3)
            if second is None:  # the same name, as long as before
                text = pathlib.Path(first).read_text()
                pathlib.Path(first).write_text(text.replace("thing 0", "thing 9"))
                second = first
            with self.assertRaises(banyan.Error) as caught:
                self.answered(second, max_new=3)
            self.assertIn("holds another job; different: input (", str(caught.exception))
            shutil.rmtree(self.path("job"))

    def test_a_finished_folder_wants_its_model(self):
        source = self.write("in.jsonl", documents(2))
        self.answered(source, max_new=3)
        for model, words in (("/nowhere.gguf", "nowhere.gguf"), (tiny_model(512), "different: model (files: was")):
            with self.assertRaises(banyan.Error) as caught:
                plan("ask", source, self.path("job"), {"max_new": 3}, model=model, model_options={})
            self.assertIn(words, str(caught.exception))

    def test_an_index_that_was_made_anew_is_another_one(self):
        (self.folder / "a.txt").write_text("The ferry leaves at seven.")
        banyan.Index.build(self.path("idx"), [self.path("a.txt")])
        rows = [{"id": 1, "question": "When does the ferry leave?"}]
        call = {"model": self.model_path, "model_options": {}}
        plan("rag", rows, self.path("job"), {"index": self.path("idx")}, **call)
        plan("rag", rows, self.path("job"), {"index": self.path("idx")}, **call)
        with self.assertRaises(banyan.Error) as caught:
            plan("rag", rows, self.path("job"), {"index": self.path("idx")}, engine={"kv_bits": 8}, **call)
        self.assertIn("different: engine", str(caught.exception))
        (self.folder / "a.txt").write_text("The ferry leaves at eight.")
        banyan.Index.build(self.path("idx"), [self.path("a.txt")])
        with self.assertRaises(banyan.Error) as caught:
            plan("rag", rows, self.path("job"), {"index": self.path("idx")}, **call)
        self.assertIn("different: retrieval (index: was", str(caught.exception))

    def test_rows_that_are_no_json_are_error_rows(self):
        rows = [{"id": 1, "context": "a", "question": "b"}, {"id": 2, "context": "a", "question": "b", "n": float("nan")}]
        found = [json.loads(line) for line in self.answered(rows, max_new=2)[0]]
        self.assertEqual(["error" in row for row in found], [False, True])
        self.assertIn("row 1, column 'n'", found[1]["error"]["message"])

    def test_only_its_own_output_is_written_again(self):
        source = self.write("in.jsonl", documents(2))
        self.answered(source, max_new=3)
        check_job_output(self.path("job"), source, self.path("out.jsonl"), False)
        for target, words in ((source, "is both the input and the output"), (self.write("mine.jsonl", ["mine"]), "is there already")):
            with self.assertRaises(banyan.Error) as caught:
                check_job_output(self.path("job"), source, target, False)
            self.assertIn(words, str(caught.exception))
        with open(self.path("out.jsonl"), "a") as file:
            file.write("edited\n")
        with self.assertRaises(banyan.Error):
            check_job_output(self.path("job"), source, self.path("out.jsonl"), False)
        check_job_output(self.path("job"), source, self.path("out.jsonl"), True)

    def test_a_missing_record_and_one_that_is_there_twice_are_noticed(self):
        self.answered(self.write("in.jsonl", documents(6)), max_new=3)
        job = JobFolder(self.path("job"))
        manifest = job.manifest()
        for blocks in (manifest["blocks"][1:], manifest["blocks"] + manifest["blocks"][-1:], manifest["blocks"][:-1]):
            count = len(blocks)
            job.manifest_path.write_text(json.dumps({**manifest, "blocks": blocks}))
            if count > len(manifest["blocks"]):
                for folder, ending in (("blocks", "json"), ("parts", "json"), ("parts", "jsonl")):
                    shutil.copy(job.path / folder / f"{count - 2}.{ending}", job.path / folder / f"{count - 1}.{ending}")
            with self.assertRaises(banyan.Error) as caught:
                job.join(lambda text: None)
            self.assertRegex(str(caught.exception), "some record is missing|is not the part of its block")

    def test_a_plan_keeps_no_texts_in_memory(self):
        rows = ({"id": i, "context": f"{i} " + "word " * 4000, "question": "why?"} for i in range(1500))  # 30 MB
        tracemalloc.start()
        try:
            plan("ask", rows, self.path("job"), {"max_new": 2}, model=self.model_path, model_options={}, block_tokens=20_000)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        self.assertLess(peak, 6_000_000)
        self.assertGreater(sum(file.stat().st_size for file in (self.folder / "job" / "blocks").iterdir()), 29_000_000)

    def test_a_damaged_part_is_noticed(self):
        self.answered(self.write("in.jsonl", documents(6)), max_new=3)
        job = JobFolder(self.path("job"))
        part = job.path / "parts" / "0.jsonl"
        part.write_bytes(part.read_bytes()[:-5])
        with self.assertRaises(banyan.Error):
            job.join(lambda text: None)


if __name__ == "__main__":
    unittest.main()
