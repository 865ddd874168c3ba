"""Parquet and JSONL in a store of objects: a local server that speaks S3 (moto, from the Python index)."""
import importlib.util
import json
import logging
import os
import subprocess
import sys
import unittest

import banyan
from ray_cluster import free_ports
from support import PackageTest

KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
ROWS = [{"id": i, "context": f"Text {i}.", "question": "why?", "n": i} for i in range(6)]


@unittest.skipUnless(importlib.util.find_spec("moto"), "moto is not installed: pip install 'moto[server]'")
class Store(PackageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        import boto3
        from moto.server import ThreadedMotoServer
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        os.environ.update(KEYS)
        [port] = free_ports(1)
        cls.server = ThreadedMotoServer("127.0.0.1", port, verbose=False)
        cls.server.start()
        cls.address = f"http://127.0.0.1:{port}"
        cls.client = boto3.client("s3", endpoint_url=cls.address)
        cls.client.create_bucket(Bucket="data")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        super().tearDownClass()

    def url(self, path: str) -> str:
        return f"s3://data/{self.id()}/{path}?endpoint_override={self.address}"

    def put_table(self, path: str, rows) -> str:
        import pyarrow
        import pyarrow.parquet
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), self.path("t.parquet"))
        self.client.upload_file(self.path("t.parquet"), "data", f"{self.id()}/{path}")
        return self.url(path)

    def keys(self) -> list[str]:
        found = self.client.list_objects_v2(Bucket="data", Prefix=f"{self.id()}/").get("Contents", [])
        return sorted(one["Key"].removeprefix(f"{self.id()}/") for one in found)

    def ask(self, data, **options):
        return banyan.ask(data, model=self.model, max_new=3, **options)

    def test_files_patterns_and_folders_are_read(self):
        wanted = self.ask(ROWS).lines
        whole = self.put_table("whole.parquet", ROWS)
        self.assertEqual(self.ask(whole).lines, wanted)
        self.put_table("parts/a.parquet", ROWS[:2])
        self.put_table("parts/b.parquet", ROWS[2:])
        self.client.put_object(Bucket="data", Key=f"{self.id()}/parts/_SUCCESS", Body=b"")
        for url in (self.url("parts"), self.url("parts/"), self.url("parts/*.parquet"), self.url("par?s/[ab].parquet")):
            self.assertEqual(self.ask(url).lines, wanted, url)
        self.assertEqual(self.ask([self.url("parts/a.parquet"), self.url("parts/b.parquet")]).lines, wanted)
        lines = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
        self.client.put_object(Bucket="data", Key=f"{self.id()}/rows.jsonl", Body=lines)
        self.assertEqual(self.ask(self.url("rows.jsonl")).lines, wanted)

    def test_outputs_are_written_once_and_kept(self):
        import pyarrow.parquet
        source = self.put_table("in.parquet", ROWS)
        rows = self.ask(source, output=self.url("out.parquet"))
        self.assertEqual(self.keys(), ["in.parquet", "out.parquet"])
        self.client.download_file("data", f"{self.id()}/out.parquet", self.path("got.parquet"))
        table = pyarrow.parquet.read_table(self.path("got.parquet"))
        self.assertEqual(table.column("answer").to_pylist(), [row["answer"] for row in rows])
        self.assertEqual(str(table.schema.field("n").type), "int64")
        before = self.client.head_object(Bucket="data", Key=f"{self.id()}/out.parquet")["ETag"]
        for options, words in (({"output": self.url("out.parquet")}, "is there already"),
                               ({"output": source, "overwrite": True}, "is both the input and the output"),
                               ({"output": self.url("new.parquet"), "resume": True}, "resume: the output is at a URL")):
            with self.assertRaises(banyan.Error) as caught:
                self.ask(source, **options)
            self.assertIn(words, str(caught.exception))
        self.assertEqual(self.client.head_object(Bucket="data", Key=f"{self.id()}/out.parquet")["ETag"], before)
        self.ask(ROWS[:1], output=self.url("out.parquet"), overwrite=True)
        self.assertNotEqual(self.client.head_object(Bucket="data", Key=f"{self.id()}/out.parquet")["ETag"], before)
        self.ask(ROWS, output=self.url("out.jsonl"))
        body = self.client.get_object(Bucket="data", Key=f"{self.id()}/out.jsonl")["Body"].read()
        self.assertEqual(body.splitlines(), rows.lines)
        with self.assertRaises(banyan.Error):
            rows.to_parquet(self.url("out.parquet"))
        rows.to_parquet(self.url("again.parquet"))
        self.assertIn("again.parquet", self.keys())
        self.assertFalse([key for key in self.keys() if "rows.jsonl" in key or "part" in key.split(".")[-1]])

    def test_a_job_that_fails_writes_nothing(self):
        with self.assertRaises(banyan.Error):
            self.ask([{"id": 1, "question": "no context"}] * 3, output=self.url("bad.jsonl"), max_errors=0)
        self.assertEqual(self.keys(), [])

    def test_what_is_not_there_is_said(self):
        for url, words in ((self.url("none.parquet"), "no such file"), (self.url("no/*.parquet"), "no file is named like this"),
                           ("nonsense://x/y.parquet", "nonsense://x/y.parquet: cannot be opened")):
            with self.assertRaises(banyan.Error) as caught:
                self.ask(url)
            self.assertIn(words, str(caught.exception))
            self.assertNotIn("Traceback", str(caught.exception))

    def test_error_rows_name_the_url(self):
        bad = [{"id": 9, "context": None, "question": "why?"}, ROWS[1]]
        [row] = self.ask(self.put_table("bad.parquet", bad)).errors
        self.assertTrue(row["error"]["file"].startswith(f"s3://data/{self.id()}/bad.parquet"), row)

    def test_the_command_and_datasets_of_pyarrow_take_them_too(self):
        import pyarrow.dataset
        import pyarrow.fs
        source = self.put_table("in.parquet", ROWS)
        wanted = self.ask(ROWS)
        store = pyarrow.fs.S3FileSystem(endpoint_override=self.address, region="us-east-1")
        dataset = pyarrow.dataset.dataset(f"data/{self.id()}/in.parquet", filesystem=store)
        self.assertEqual(self.ask(dataset).lines, wanted.lines)
        command = [sys.executable, "-m", "banyan", "ask", source, "-m", self.model_path, "--max-new", "3", "--ordered",
                   "--quiet", "-o", self.url("out.parquet")]
        result = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        again = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(again.returncode, 2)
        self.assertIn("is there already", again.stderr)
        self.client.download_file("data", f"{self.id()}/out.parquet", self.path("got.parquet"))
        import pyarrow.parquet
        self.assertEqual(pyarrow.parquet.read_table(self.path("got.parquet")).column("answer").to_pylist(),
                         [row["answer"] for row in wanted])


@unittest.skipUnless(importlib.util.find_spec("fsspec") and importlib.util.find_spec("pyarrow"), "fsspec or pyarrow is not installed")
class Fsspec(PackageTest):
    def test_a_scheme_that_pyarrow_does_not_know(self):
        import fsspec
        import pyarrow
        import pyarrow.parquet
        memory = fsspec.filesystem("memory")
        with memory.open("/box/in.parquet", "wb") as file:
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), file)
        wanted = banyan.ask(ROWS, model=self.model, max_new=3)
        rows = banyan.ask("memory://box/*.parquet", model=self.model, max_new=3, output="memory://box/out/answers.parquet")
        self.assertEqual(rows.lines, wanted.lines)
        with memory.open("/box/out/answers.parquet", "rb") as file:
            self.assertEqual(pyarrow.parquet.read_table(file).num_rows, 6)
        with self.assertRaises(banyan.Error) as caught:
            banyan.ask(ROWS, model=self.model, output="memory://box/out/answers.parquet")
        self.assertIn("is there already", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
