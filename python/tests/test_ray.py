"""A real Ray cluster of several processes, with workers and the driver killed. `make test-ray`."""
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import unittest
from unittest import mock

from ray_cluster import LocalCluster

import ray
import ray.data

import banyan
import banyan.ray
from support import PackageTest, documents
import test_random_tables
from test_doors import default_of

PROGRAM = textwrap.dedent("""
    import sys, ray, banyan.ray
    ray.init(address=sys.argv[5], log_to_driver=False)
    summary = banyan.ray.ask(sys.argv[1], sys.argv[2], folder=sys.argv[3], model=sys.argv[4], workers=2, max_new=40,
                             block_tokens=400, engine={"kv_memory": "64M"},
                             progress=lambda done, total: print(done, total, flush=True))
    print(summary, flush=True)
    """)

cluster = None


def setUpModule():
    global cluster
    cluster = LocalCluster(cpus=2, resources={"quick": 1, "slow": 1})
    cluster.connect()


def tearDownModule():
    ray.shutdown()
    cluster.stop()


class Killed(PackageTest):
    def start(self):
        self.log = self.folder / "driver.log"  # a pipe that nobody reads would hold the driver up
        with open(self.log, "w") as log:
            return subprocess.Popen([sys.executable, "-c", PROGRAM, self.path("in.jsonl"), self.path("out.jsonl"),
                                     self.path("job"), self.model_path, cluster.address],
                                    stdout=subprocess.PIPE, stderr=log, text=True)

    def said(self, driver) -> str:
        """The driver's next line: so many blocks are done."""
        line = driver.stdout.readline()
        self.assertTrue(line, self.log.read_text()[-4000:])
        return line

    def test_killed_workers_and_a_killed_driver_lose_nothing(self):
        rows = documents(40, 3) + [{"id": "big", "context": "abc " * 40, "questions": [f"{k}?" for k in range(80)]}]
        source = self.write("in.jsonl", rows)
        wanted = self.command_lines("ask", source, "--max-new", 40)
        driver = self.start()
        self.said(driver)
        victims = cluster.processes(b"BlockWorker")
        self.assertTrue(victims)
        os.kill(victims[0], signal.SIGKILL)
        self.said(driver)  # the pool goes on
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
        driver.stdout.close()
        time.sleep(2)
        done = len([name for name in os.listdir(self.path("job/parts")) if name.endswith(".json")])
        self.assertGreater(done, 0)
        self.assertFalse(os.path.exists(self.path("out.jsonl")))
        again = self.start()
        output, _ = again.communicate(timeout=900)
        self.assertEqual(again.returncode, 0, self.log.read_text()[-4000:])
        self.assertIn("blocks_this_run", output)
        total = len(json.loads((self.folder / "job" / "manifest.json").read_text())["blocks"])
        this_run = int(output.split("blocks_this_run=")[1].split(",")[0])
        self.assertLess(this_run, total)
        self.assertEqual((self.folder / "out.jsonl").read_bytes().splitlines(), wanted)


class Jobs(PackageTest):
    def test_a_dataset_goes_in_and_parquet_comes_out(self):
        import pyarrow.parquet
        rows = [{"id": i, "context": f"Text {i // 2}.", "question": f"why {i}?"} for i in range(6)]
        summary = banyan.ray.ask(ray.data.from_items(rows), self.path("out.parquet"), folder=self.path("job"),
                                 model=self.model_path, workers=1, max_new=4, engine={"kv_memory": "64M"})
        wanted = banyan.ask(rows, model=self.model, max_new=4)
        table = pyarrow.parquet.read_table(self.path("out.parquet")).to_pylist()
        self.assertEqual([row["answer"] for row in table], [row["answer"] for row in wanted])
        self.assertEqual(summary.rows, 6)

    def test_without_a_model_the_librarys_default_answers(self):
        rows = documents(3, 1)
        wanted = banyan.ask(rows, model=self.model, max_new=3).lines
        with mock.patch("banyan._native.reader", default_of({"ask": (self.model_path, "")})):
            banyan.ray.ask(rows, self.path("out.jsonl"), folder=self.path("job"), workers=1, max_new=3, engine={"kv_memory": "64M"})
            found = banyan.ray.ask_dataset(ray.data.from_items(rows), max_new=3, engine={"kv_memory": "64M"}).take_all()
        self.assertEqual((self.folder / "out.jsonl").read_bytes().splitlines(), wanted)
        self.assertEqual(sorted(row["answer"] for row in found), sorted(json.loads(line)["answer"] for line in wanted))

    def test_an_output_inside_the_dataset_is_refused(self):
        import pyarrow
        import pyarrow.parquet
        target = self.path("in.parquet")
        pyarrow.parquet.write_table(pyarrow.table({"context": ["Anna steers."]}), target)
        with self.assertRaisesRegex(banyan.Error, "is both the input and the output"):
            banyan.ray.ask(ray.data.read_parquet(target), target, "Who?", folder=self.path("job"), model=self.model_path,
                           overwrite=True)

    def test_workers_of_two_kinds_share_a_job(self):
        rows = documents(60, 2)
        kinds = [banyan.ray.Workers(1, resources={"quick": 1}), banyan.ray.Workers(1, resources={"slow": 1}, threads=2)]
        summary = banyan.ray.ask(rows, self.path("out.jsonl"), folder=self.path("job"), model=self.model_path, workers=kinds,
                                 max_new=6, block_tokens=300, engine={"kv_memory": "64M"})
        self.assertEqual((self.folder / "out.jsonl").read_bytes().splitlines(), banyan.ask(rows, model=self.model, max_new=6).lines)
        self.assertEqual(set(summary.blocks_by_kind), {kind.name for kind in kinds})
        self.assertEqual(sum(summary.blocks_by_kind.values()), summary.blocks)
        self.assertGreater(min(summary.blocks_by_kind.values()), 0)
        self.assertEqual(summary.dataset().count(), 120)
        for wrong, words in (([banyan.ray.Workers(1, resources={"quikc": 1})], "a worker wants 1 CPU, 1 quikc"),
                             (0, "workers: expected a number from 1 on"), ([], "expected a number, or banyan.ray.Workers")):
            with self.assertRaises(banyan.Error) as caught:
                banyan.ray.ask(rows, self.path("new.jsonl"), folder=self.path("new"), model=self.model_path, workers=wrong)
            self.assertIn(words, str(caught.exception))

    def test_a_worker_that_cannot_start_says_why(self):
        start = time.monotonic()
        with self.assertRaises(banyan.Error) as caught:
            banyan.ray.ask(documents(2), self.path("out.jsonl"), folder=self.path("job"), model=self.model_path,
                           model_options={"precision": "f99"})
        self.assertRegex(str(caught.exception), r"workers \(cpu: 1 CPUs, 0 GPUs\) do not start: .*f99")
        self.assertLess(time.monotonic() - start, 120)

    def test_a_block_that_ends_every_worker_is_named(self):
        from banyan._ray_pool import WorkerPool, Workers

        class Fragile:
            def ready(self):
                return ""

            def work(self, number):
                if number == 3:
                    os._exit(1)
                return number
        done = []
        with self.assertRaises(banyan.Error) as caught:
            WorkerPool([Workers(1, cpus=0.5)], [1], lambda kind: ray.remote(Fragile).options(num_cpus=0.5).remote()).run(
                [0, 1, 2, 3, 4], done.append)
        self.assertIn("block 3: 5 workers died while they answered it", str(caught.exception))
        self.assertEqual(done, [0, 1, 2])

    def test_a_dataset_is_answered_in_the_middle_of_a_pipeline(self):
        rows = [{"id": i, "context": f"Text {i // 2}.", "question": f"why {i}?", "n": i} for i in range(30)]
        wanted = banyan.ask(rows, model=self.model, max_new=4).to_arrow().to_pylist()
        documents_of = ray.data.from_items(rows).map(lambda row: {**row, "m": row["n"] * 2})
        answers = banyan.ray.ask_dataset(documents_of, model=self.model_path, batch_documents=7, max_new=4,
                                         engine={"kv_memory": "64M"})
        found = sorted(answers.filter(lambda row: row["n"] < 25).take_all(), key=lambda row: row["n"])
        self.assertEqual([row["m"] for row in found], [2 * i for i in range(25)])
        self.assertEqual([{name: row[name] for name in wanted[0] if name != "n"} for row in found],
                         [{name: row[name] for name in wanted[0] if name != "n"} for row in wanted[:25]])
        nameless = ray.data.from_items([{"text": "The ferry."}] * 3)
        found = banyan.ray.extract_dataset(nameless, {"attributes": [{"name": "x"}]}, model=self.model_path,
                                           engine={"kv_memory": "64M"}).take_all()
        self.assertEqual([row["id"] for row in found], [None] * 3)
        with self.assertRaises(banyan.Error) as caught:
            banyan.ray.ask_dataset(nameless, "q?", model=self.model_path, max_now=3)
        self.assertIn("did you mean 'max_new'?", str(caught.exception))
        with self.assertRaises(banyan.Error) as caught:
            banyan.ray.ask_dataset(rows, "q?")
        self.assertIn("expected a Ray Dataset, found list", str(caught.exception))

    def test_a_dataset_without_the_column_is_refused_before_there_are_workers(self):
        import pyarrow
        import pyarrow.parquet
        pyarrow.parquet.write_table(pyarrow.table({"id": [1], "page": ["Anna steers."]}), self.path("in.parquet"))
        for name, dataset in (("items", ray.data.from_items([{"id": 1, "page": "Anna steers."}])),
                              ("parquet", ray.data.read_parquet(self.path("in.parquet")))):
            with self.subTest(name):
                with self.assertRaisesRegex(banyan.Error, "expected a column 'context'; the input has id, page"):
                    banyan.ray.ask_dataset(dataset, "q?", model="/nowhere.gguf")
                with self.assertRaisesRegex(banyan.Error, "expected a column 'question'; the input has id, page"):
                    banyan.ray.ask_dataset(dataset, model="/nowhere.gguf", fields="page")
                with self.assertRaisesRegex(banyan.Error, "expected a column 'text'; the input has id, page"):
                    banyan.ray.extract_dataset(dataset, {"attributes": [{"name": "x"}]}, model="/nowhere.gguf")
                with self.assertRaisesRegex(banyan.Error, "attributes"):
                    banyan.ray.extract_dataset(dataset, {"atributes": []}, model="/nowhere.gguf", fields="page")
                banyan.ray.ask_dataset(dataset, "q?", model=self.model_path, fields="page")
        unknown = ray.data.from_items([{"page": "Anna steers."}]).map(lambda row: row)
        with self.assertRaisesRegex(Exception, "expected a column 'context'"):  # of the first batch
            banyan.ray.ask_dataset(unknown, "q?", model=self.model_path).take_all()

    def test_what_lies_in_the_object_store_is_bounded(self):
        """300 MB of texts pass through a store of 200 MB, in and out; nothing is spilled."""
        big = ray.data.range(300, override_num_blocks=100).map_batches(
            lambda batch: {"id": batch["id"], "pad": ["x" * 1_000_000 for _ in batch["id"]],
                           "context": ["The ferry."] * len(batch["id"]), "question": ["why?"] * len(batch["id"])}, batch_size=3,
            num_cpus=0.5)  # a step of its own, not a part of the next one
        answers = banyan.ray.ask_dataset(big, model=self.model_path, batch_documents=3, in_flight_bytes=60_000_000, max_new=1,
                                         engine={"kv_memory": "16M"})
        count, spilled = 0, []
        with cluster.watching_spilled(spilled):
            for batch in answers.iter_batches(batch_size=None, batch_format="pyarrow"):
                count += batch.num_rows
        self.assertEqual((count, spilled), (300, []))
        with cluster.watching_spilled(spilled):  # it sees what it looks for
            held = [ray.put(b"x" * 30_000_000) for _ in range(10)]
            deadline = time.monotonic() + 60
            while not spilled and time.monotonic() < deadline:
                time.sleep(0.1)
        self.assertTrue(spilled)
        del held

    def test_a_document_with_many_questions_is_computed_once_a_worker(self):
        big = {"id": "big", "context": "abc " * 150, "questions": [f"{k}?" for k in range(400)]}
        source = self.write("in.jsonl", [big])
        engine = {"kv_memory": "64M"}
        whole = banyan.ask(source, model=self.model, max_new=3, engine=engine)
        one_question = banyan.ask([{**big, "questions": ["0?"]}], model=self.model, max_new=3, engine=engine)
        prefix = one_question.receipt["prefilled_tokens"]  # document, instruction and one question
        summary = banyan.ray.ask(source, self.path("out.jsonl"), folder=self.path("job"), model=self.model_path,
                                 workers=2, max_new=3, block_tokens=1000, engine=engine)
        self.assertEqual((self.folder / "out.jsonl").read_bytes().splitlines(), whole.lines)
        self.assertEqual(summary.blocks, 2)
        self.assertLessEqual(summary.prefilled_tokens, whole.receipt["prefilled_tokens"] + prefix)

    def test_a_worker_that_fits_nowhere_is_not_waited_for(self):
        for wanted in ({"cpus_per_worker": 64}, {"gpus_per_worker": 8}):
            with self.assertRaises(banyan.Error) as caught:
                banyan.ray.ask([{"context": "a", "question": "b"}], self.path("out.jsonl"), folder=self.path("job"),
                               model=self.model_path, **wanted)
            self.assertIn("no machine of the cluster has them", str(caught.exception))

    def test_a_folder_keeps_to_its_input_and_a_foreign_output_is_kept(self):
        first, second = ([{"id": i, "context": f"{word} {i}.", "question": "why?"} for i in range(2)] for word in ("Text", "Fig"))
        call = {"folder": self.path("job"), "model": self.model_path, "workers": 1, "max_new": 3, "engine": {"kv_memory": "64M"}}
        banyan.ray.ask(first, self.path("out.jsonl"), **call)
        before = (self.folder / "out.jsonl").read_bytes()
        with self.assertRaises(banyan.Error) as caught:
            banyan.ray.ask(second, self.path("out.jsonl"), **call)
        self.assertIn("different: input", str(caught.exception))
        self.write("mine.jsonl", ["mine"])
        with self.assertRaises(banyan.Error) as caught:
            banyan.ray.ask(first, self.path("mine.jsonl"), **call)
        self.assertIn("is there already", str(caught.exception))
        summary = banyan.ray.ask(first, self.path("out.jsonl"), **call)
        self.assertEqual((summary.blocks_this_run, (self.folder / "out.jsonl").read_bytes()), (0, before))

    def test_resume_needs_a_folder_with_a_job(self):
        job = {"folder": self.path("job"), "model": self.model_path, "workers": 1, "max_new": 2}
        with self.assertRaisesRegex(banyan.Error, "job: there is nothing to go on with: no job was planned in this folder"):
            banyan.ray.ask(documents(2), self.path("out.jsonl"), **job, resume=True)
        self.assertFalse(os.path.exists(self.path("job")))
        self.assertEqual(banyan.ray.ask(documents(2), self.path("out.jsonl"), **job).rows, 4)
        self.assertEqual(banyan.ray.ask(documents(2), self.path("out.jsonl"), **job, resume=True).blocks_this_run, 0)

    def test_what_is_wrong_is_said_before_workers_start(self):
        for options, words in (({"max_now": 3}, "max_now: there is no such option; did you mean 'max_new'?"),
                               ({"engine": {"rows": 3}}, "engine: rows: there is no such option"),
                               ({"fields": {"contxt": "x"}}, "fields: contxt: there is no such field; did you mean 'context'?")):
            with self.assertRaises(banyan.Error) as caught:
                banyan.ray.ask([{"context": "a", "question": "b"}], self.path("out.jsonl"), folder=self.path("job"),
                               model=self.model_path, **options)
            self.assertIn(words, str(caught.exception))


class Lossless(test_random_tables.Random):
    """Random tables: files and Datasets, in blocks and in the middle of a pipeline."""

    SEEDS = range(4)
    test_arrow_and_parquet = test_pandas = test_polars = test_duckdb = test_lists = None
    test_the_command_line = test_the_command_line_on_csv = None

    def test_columns_come_back_from_ray(self):
        import pyarrow.parquet

        def body(table, shown, answers):
            if table.num_rows == 0:
                return
            job = self.path(f"job{len(list(self.folder.iterdir()))}")
            pyarrow.parquet.write_table(table, self.path("x.parquet"))
            read = pyarrow.parquet.read_table(self.path("x.parquet"))
            for kind, data in (("file", self.path("x.parquet")), ("dataset", ray.data.from_arrow(table))):
                output = f"{job}.{kind}.parquet"
                banyan.ray.ask(data, output, test_random_tables.QUESTION, folder=f"{job}.{kind}", model=self.model_path, workers=1, max_new=3,
                               engine={"kv_memory": "64M"})
                self.check(pyarrow.parquet.read_table(output), read, shown, answers)
        self.tables(body)


if __name__ == "__main__":
    unittest.main()
