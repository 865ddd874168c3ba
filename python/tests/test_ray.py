"""A real Ray cluster of several processes, with workers and the driver killed. `make test-ray`."""
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import unittest

os.environ.setdefault("RAY_raylet_start_wait_time_s", "300")  # a busy machine is slow to start it

import banyan
import banyan.ray
from support import PackageTest, documents

PROGRAM = textwrap.dedent("""
    import sys, ray, banyan.ray
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    summary = banyan.ray.ask(sys.argv[1], sys.argv[2], folder=sys.argv[3], model=sys.argv[4], workers=2, max_new=40,
                             block_tokens=400, engine={"kv_memory": "64M"},
                             progress=lambda done, total: print(done, total, flush=True))
    print(summary, flush=True)
    """)


def parent_of(process: int) -> int:
    with open(f"/proc/{process}/stat") as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])


def workers_of(driver: int) -> list[int]:
    """The processes of the pool, by what Ray calls them, that descend from the driver."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                if b"MapWorker" not in file.read():
                    continue
            ancestor = int(entry)
            while ancestor > 1 and ancestor != driver:
                ancestor = parent_of(ancestor)
        except OSError:
            continue
        if ancestor == driver:
            found.append(int(entry))
    return found


class Cluster(PackageTest):
    def start(self):
        self.log = self.folder / "driver.log"  # a pipe that nobody reads would hold the driver up
        with open(self.log, "w") as log:
            return subprocess.Popen([sys.executable, "-c", PROGRAM, self.path("in.jsonl"), self.path("out.jsonl"),
                                     self.path("job"), self.model_path], stdout=subprocess.PIPE, stderr=log, text=True)

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
        victims = workers_of(driver.pid)
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

    def test_a_dataset_goes_in_and_parquet_comes_out(self):
        import pyarrow.parquet
        import ray
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        try:
            rows = [{"id": i, "context": f"Text {i // 2}.", "question": f"why {i}?"} for i in range(6)]
            summary = banyan.ray.ask(ray.data.from_items(rows), self.path("out.parquet"), folder=self.path("job"),
                                     model=self.model_path, workers=1, max_new=4, engine={"kv_memory": "64M"})
            wanted = banyan.ask(rows, model=self.model, max_new=4)
            table = pyarrow.parquet.read_table(self.path("out.parquet")).to_pylist()
            self.assertEqual([row["answer"] for row in table], [row["answer"] for row in wanted])
            self.assertEqual(summary.rows, 6)
        finally:
            ray.shutdown()


if __name__ == "__main__":
    unittest.main()
