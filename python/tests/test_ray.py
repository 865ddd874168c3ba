"""A real Ray cluster of several processes, with workers and the driver killed. `make test-ray`."""
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import unittest

from ray_cluster import LocalCluster

import ray
import ray.data

import banyan
import banyan.ray
from support import PackageTest, documents

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
    cluster = LocalCluster(cpus=2)
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
        victims = cluster.processes(b"MapWorker")
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

    def test_what_is_wrong_is_said_before_workers_start(self):
        for options, words in (({"max_now": 3}, "max_now: there is no such option"),
                               ({"engine": {"rows": 3}}, "rows: there is no such option")):
            with self.assertRaises(banyan.Error) as caught:
                banyan.ray.ask([{"context": "a", "question": "b"}], self.path("out.jsonl"), folder=self.path("job"),
                               model=self.model_path, **options)
            self.assertEqual(str(caught.exception), words)


if __name__ == "__main__":
    unittest.main()
