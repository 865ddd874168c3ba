"""Vectors of texts: the command line's, as arrays without copies."""
import asyncio
import json
import os
import sys
import threading
import time
import types
import unittest
from unittest import mock

import numpy

import banyan
from support import BANYAN, ROOT, PackageTest


def encoder_files():
    """The functions with which the tests of the program make a tiny encoder; that file runs its tests when imported."""
    path = ROOT / "tests" / "cli" / "test_encoder.py"
    names = {"__name__": "encoder_files"}
    with mock.patch.object(sys, "argv", [str(path), BANYAN, "none"]):
        exec(compile(path.read_text().split("\nwith ")[0], path, "exec"), names)
    return types.SimpleNamespace(**names)


class Embed(PackageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.files = encoder_files()

    def encoder(self) -> str:
        folder = self.folder / "encoder"
        self.files.write_model(folder, "XLMRobertaModel", self.files.network())
        self.files.write_tokenizer(folder)
        return str(folder)

    def test_vectors_are_those_of_the_command_line(self):
        path = self.encoder()
        rows = [{"id": i, "text": " ".join(f"w{(i * k) % 30}" for k in range(1, 4 + i * 12))} for i in range(6)]
        lines = self.command("embed", "-m", path, "--threads", 1, self.write("in.jsonl", rows)).splitlines()
        wanted = [json.loads(line) for line in lines]
        found = banyan.embed(rows, model=path)
        self.assertEqual(found.dense.dtype, numpy.float32)
        self.assertFalse(found.dense.flags.owndata)
        for number, row in enumerate(wanted):
            numpy.testing.assert_array_equal(found.dense[number], numpy.array(row["dense"], numpy.float32))
            self.assertEqual(found.truncated[number], row.get("truncated", False))
        self.assertTrue(any(found.truncated))
        alone = banyan.embed([rows[3]["text"]], model=path)
        numpy.testing.assert_array_equal(alone.dense[0], found.dense[3])

    def test_tables_in_and_parquet_out(self):
        import pandas
        import pyarrow.parquet
        frame = pandas.DataFrame({"id": ["a", "b"], "body": ["w1 w2", "w3"]})
        found = banyan.embed(frame, model=self.encoder(), field="body", output=self.path("out.parquet"))
        table = pyarrow.parquet.read_table(self.path("out.parquet")).to_pylist()
        self.assertEqual([row["id"] for row in table], ["a", "b"])
        numpy.testing.assert_array_equal(numpy.array(table[1]["dense"], numpy.float32), found.dense[1])

    def test_a_row_without_a_text_is_an_error_of_its_own(self):
        path = self.encoder()
        whole = banyan.embed(["w1 w2", "w3"], model=path)
        for data in (["w1 w2", None, "w3"], [{"text": "w1 w2"}, {"text": None}, {"text": "w3"}],
                     [{"text": "w1 w2"}, {"text": "w5", "n": float("inf")}, {"text": "w3"}]):
            found = banyan.embed(data, model=path, output=self.path("out.jsonl"), overwrite=True)
            self.assertEqual([error is None for error in found.errors], [True, False, True])
            self.assertEqual(found.errors[1].row, 1)
            numpy.testing.assert_array_equal(found.dense[[0, 2]], whole.dense)
            self.assertFalse(found.dense[1].any())
            rows = [json.loads(line) for line in (self.folder / "out.jsonl").read_text().splitlines()]
            self.assertIn("row 1", rows[1]["error"]["message"])

    def test_a_coroutine_that_is_cancelled_ends_the_work(self):
        import banyan.aio
        path, out = self.encoder(), self.path("out.jsonl")
        texts = [f"w{number % 30} w{number % 7} " * 20 for number in range(200_000)]  # minutes of work

        async def run():
            with banyan.Encoder(path, threads=1) as encoder:
                before = set(threading.enumerate())
                job = asyncio.ensure_future(banyan.aio.embed(texts, model=encoder, output=out))
                await asyncio.sleep(0.3)
                self.assertFalse(job.done())
                job.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await asyncio.wait_for(job, 120)
                deadline = time.monotonic() + 60
                while set(threading.enumerate()) - before and time.monotonic() < deadline:
                    await asyncio.sleep(0.01)
                self.assertEqual(set(threading.enumerate()) - before, set())
                return await banyan.aio.embed(["w1"], model=encoder)
        self.assertEqual(len(asyncio.run(run()).ids), 0)
        self.assertFalse(os.path.exists(out))

    def test_texts_of_a_list_are_no_paths(self):
        found = banyan.embed(["*.parquet", "/tmp", "w1"], model=self.encoder(), output=self.path("out.jsonl"))
        self.assertEqual((found.errors, found.dense.shape[0]), ([None] * 3, 3))

    def test_what_looks_ends_loading_and_embedding(self):
        class Enough(Exception):
            pass

        def look():
            raise Enough
        path = self.encoder()
        with self.assertRaises(Enough):
            banyan.Encoder(path, look=look)
        with banyan.Encoder(path) as encoder:
            with self.assertRaises(Enough):
                encoder.embed(["w1 w2"] * 3, look=look)
            self.assertEqual(encoder.embed(["w1 w2"]).dense.shape[0], 1)

    def test_what_cannot_be_embedded_says_why(self):
        path = self.encoder()
        with self.assertRaises(banyan.Error) as caught:
            banyan.embed([{"id": 1}], model=path)
        self.assertIn("no row has a text in the column 'text'", str(caught.exception))
        with self.assertRaises(banyan.Error):
            banyan.Model(path)
        with self.assertRaises(banyan.Error):
            banyan.Encoder(self.model_path)


if __name__ == "__main__":
    unittest.main()
