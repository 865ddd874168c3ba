"""Jobs that feel like Python: rows as they come, coroutines, deadlines, estimates, indexes in memory, notebooks."""
import asyncio
import gc
import os
import pathlib
import pickle
import sys
import threading
import time
import types
import unittest
from unittest import mock

import banyan
from banyan import _progress
from support import PackageTest, documents

MANY = [{"id": i, "context": "word " * 100, "questions": [f"{k}?" for k in range(50)]} for i in range(2000)]


class Streams(PackageTest):
    def test_rows_are_those_of_the_job_and_come_before_its_end(self):
        rows = documents(300, 4)
        wanted = banyan.ask(rows, model=self.model, max_new=8)
        stream = banyan.stream.ask(rows, model=self.model, max_new=8, ordered=True)
        first = next(stream)
        self.assertIsNone(stream.result)  # the job is still at work
        found = [first, *stream]
        self.assertEqual(found, list(wanted))
        self.assertEqual(stream.result.receipt["rows"], len(found))
        unordered = list(banyan.stream.ask(rows, model=self.model, max_new=8))
        key = lambda row: (row["id"], row["question_id"])  # noqa: E731
        self.assertEqual(sorted(unordered, key=key), sorted(wanted, key=key))

    def test_a_stream_that_is_left_ends_its_job(self):
        with banyan.stream.ask(MANY, model=self.model, max_new=20) as stream:
            next(stream)
            start = time.monotonic()
        self.assertLess(time.monotonic() - start, 20.0)
        self.assertIsNone(stream.result)
        self.assertEqual(len(banyan.ask(documents(1), model=self.model, max_new=2)), 2)  # the model is free again
        for row in banyan.stream.ask(MANY, model=self.model, max_new=20):
            break  # nobody has the stream any more
        deadline = time.monotonic() + 30
        while [one for one in threading.enumerate() if one.name == "banyan-job"]:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def test_errors_are_raised_where_rows_are_taken(self):
        with self.assertRaises(banyan.Error) as caught:
            next(banyan.stream.ask(["/nowhere.jsonl"], model=self.model))
        self.assertEqual(caught.exception.kind, "not_found")
        for options, words in (({"output": self.path("o.parquet")}, "expected such an output"),
                               ({"output": self.path("o.jsonl"), "resume": True}, "resume")):
            with self.assertRaises(banyan.Error) as caught:
                banyan.stream.ask(documents(1), model=self.model, **options)
            self.assertIn(words, str(caught.exception))
        error = next(banyan.stream.ask([{"id": 1, "context": "word " * 3000, "question": "q"}], model=self.model, too_long="fail"))["error"]
        self.assertIn("(too_long)", error["message"])

    def test_async_for_and_other_tasks(self):
        async def taken():
            return [row async for row in banyan.stream.extract([{"id": i, "text": f"Text {i}."} for i in range(3)],
                                                               {"attributes": [{"name": "x"}]}, model=self.model, ordered=True)]
        self.assertEqual([row["id"] for row in asyncio.run(taken())], [0, 1, 2])
        row = {"id": 1, "question": "q?", "documents": [{"id": "a", "text": "The ferry."}]}
        self.assertEqual([one["id"] for one in banyan.stream.rag([row], model=self.model, max_new=2)], [1])


class Coroutines(PackageTest):
    def test_jobs_are_awaited_and_the_loop_stays_free(self):
        async def work():
            ticks = 0
            job = asyncio.ensure_future(banyan.aio.ask(documents(60, 4), model=self.model, max_new=16))
            while not job.done():
                ticks += 1
                await asyncio.sleep(0.005)
            return ticks, await job
        ticks, rows = asyncio.run(work())
        self.assertGreater(ticks, 5)
        self.assertEqual(rows.lines, banyan.ask(documents(60, 4), model=self.model, max_new=16).lines)

    def test_a_cancelled_coroutine_ends_its_job(self):
        async def cancelled():
            job = asyncio.ensure_future(banyan.aio.ask(MANY, model=self.model, max_new=20))
            await asyncio.sleep(0.5)
            job.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await job
        start = time.monotonic()
        asyncio.run(cancelled())
        self.assertLess(time.monotonic() - start, 20.0)


class Deadlines(PackageTest):
    def test_a_job_ends_at_its_timeout_and_goes_on_later(self):
        output = self.path("out.jsonl")
        for seconds in (1.5, 6, 24, 96):  # on a busy machine the first rows take longer
            with self.assertRaises(banyan.Timeout) as caught:
                banyan.ask(MANY, model=self.model, max_new=20, output=output, timeout=seconds)
            self.assertIsInstance(caught.exception, TimeoutError)
            self.assertIn(f"{seconds} seconds (timeout)", str(caught.exception))
            self.assertEqual(pickle.loads(pickle.dumps(caught.exception)).kind, "limit")
            if os.path.exists(output + ".journal"):
                break
        self.assertTrue(os.path.exists(output + ".journal"))
        rows = banyan.ask(documents(3), model=self.model, max_new=2, timeout=600)
        self.assertEqual(len(rows), 6)
        with self.assertRaises(banyan.Error):
            banyan.ask(documents(1), model=self.model, timeout=0)

    def test_an_answer_has_a_timeout_too(self):
        with banyan.Engine(self.model) as engine:
            requests = [engine.submit("abc", max_new=1000, stop_tokens=[]) for _ in range(200)]
            with self.assertRaises(banyan.Timeout):
                requests[-1].answer(timeout=0.05)
            for request in requests:
                request.cancel()
            self.assertEqual(len(engine.submit("abc", max_new=3, stop_tokens=[]).answer(timeout=600).tokens), 3)


class Estimates(PackageTest):
    def test_every_task_has_rows_seconds_memory_and_price(self):
        calls = {"ask": (documents(3), {}), "extract": ([{"id": i, "text": f"Text {i}."} for i in range(3)],
                                                       {"schema": {"attributes": [{"name": "x"}, {"name": "y"}]}}),
                 "rag": ([{"id": i, "question": "q?", "documents": [{"id": "a", "text": "The ferry."}]} for i in range(3)], {})}
        for task, (rows, more) in calls.items():
            found = banyan.estimate(rows, task=task, model=self.model, price_per_hour=3600.0, **more)
            self.assertEqual(found["records"], 3, task)
            self.assertEqual(found["rows"], 6 if task == "ask" else 3, task)
            self.assertGreater(found["prompt_tokens"], 0)
            self.assertGreater(found["expected_seconds"], 0.0)
            self.assertAlmostEqual(found["price"], found["expected_seconds"])
            self.assertEqual(found["memory_bytes"], found["weight_bytes"] + found["kv_bytes"])
        for options, words in (({"task": "extract"}, "expected a schema"), ({"schema": {}}, "expected with task='extract'"),
                               ({"price_per_hour": -1.0}, "price_per_hour: expected")):
            with self.assertRaises(banyan.Error) as caught:
                banyan.estimate(documents(1), model=self.model, **options)
            self.assertIn(words, str(caught.exception))


class Memory(PackageTest):
    def test_an_index_of_documents_in_memory(self):
        pages = [{"id": "f", "text": "The ferry leaves at seven.", "title": "Ferry"}, {"id": "b", "text": "The barge is green."}]
        index = banyan.Index.build(None, pages)
        folder = index.path
        self.assertEqual([(one.id, one.title) for one in index.search("ferry")], [("f", "Ferry")])
        self.assertIn("in memory", repr(index))
        kept = banyan.Index.build(self.path("idx"), pages)
        self.assertEqual([one.text for one in kept.search("barge")], [one.text for one in index.search("barge")])
        found = banyan.rag([{"id": 1, "question": "When does the ferry leave?"}], index=index, model=self.model, max_new=3)
        self.assertEqual(len(found), 1)
        with self.assertRaises(banyan.Error) as caught:
            pickle.dumps(index)
        self.assertIn("build it with a folder", str(caught.exception))
        del index, found
        gc.collect()
        self.assertFalse(os.path.exists(folder))
        with self.assertRaises(banyan.Error) as caught:
            banyan.Index.build(None, [{"id": 1, "text": None}])
        self.assertEqual((caught.exception.row, caught.exception.reason), (0, "expected a text in 'text', found NoneType"))

    def test_the_receipt_has_versions_and_hashes(self):
        rows = banyan.ask(documents(2), model=self.model, max_new=2)
        self.assertEqual(rows.receipt["model_fingerprint"], self.model.fingerprint)
        self.assertEqual(rows.receipt["versions"]["banyan"], banyan.__version__)
        self.assertTrue(rows.receipt["answers_hash"])
        again = banyan.ask(documents(2), model=self.model, max_new=2)
        self.assertEqual(again.receipt["answers_hash"], rows.receipt["answers_hash"])


class Notebooks(PackageTest):
    def test_a_long_job_has_a_bar_in_a_notebook_and_nowhere_else(self):
        shell = types.SimpleNamespace(kernel=object())
        fake = types.SimpleNamespace(get_ipython=lambda: shell)
        bars = []
        with mock.patch.dict(sys.modules, {"IPython": fake}), mock.patch.object(_progress, "SECONDS_BEFORE_A_BAR", 0.0), \
                mock.patch("tqdm.auto.tqdm", side_effect=lambda **_: bars.append(mock.MagicMock()) or bars[-1]):
            self.assertTrue(_progress.in_notebook())
            banyan.ask(documents(3), model=self.model, max_new=4)
            self.assertEqual(len(bars), 1)
            self.assertIn("6 rows, 0 errors", bars[0].set_postfix_str.call_args[0][0])
            banyan.ask(documents(3), model=self.model, max_new=4, progress=False)
            shell.__dict__.pop("kernel")  # a terminal
            banyan.ask(documents(3), model=self.model, max_new=4)
            self.assertEqual(len(bars), 1)


class Arrow(PackageTest):
    def test_streams_of_arrow_are_taken_a_batch_at_a_time(self):
        import pyarrow
        schema = pyarrow.schema([("context", pyarrow.string()), ("question", pyarrow.string())])
        taken = []

        def batches():
            for number in range(100):
                taken.append(number)
                yield pyarrow.record_batch([[f"Text {number}."] * 4, ["why?"] * 4], schema=schema)

        class Speaker:
            """Anything that speaks Arrow's C stream."""

            def __arrow_c_stream__(self, requested=None):
                return pyarrow.RecordBatchReader.from_batches(schema, batches()).__arrow_c_stream__(requested)
        found = banyan.ask(Speaker(), model=self.model, max_new=2, limit=6)
        self.assertEqual((len(found), taken), (6, [0, 1]))
        taken.clear()
        reader = pyarrow.RecordBatchReader.from_batches(schema, batches())
        self.assertEqual((len(banyan.ask(reader, model=self.model, max_new=2, limit=3)), taken), (3, [0]))

    def test_lazy_sources_give_the_same_rows(self):
        try:
            import duckdb
            import polars
        except ImportError as error:
            self.skipTest(str(error))
        frame = polars.DataFrame({"context": [f"Text {i}." for i in range(9)], "question": ["why?"] * 9})
        wanted = banyan.ask(frame, model=self.model, max_new=3).lines
        frame.write_parquet(self.path("in.parquet"))
        with duckdb.connect() as con:
            relation = con.sql(f"SELECT * FROM '{self.path('in.parquet')}'")
            self.assertEqual(banyan.ask(relation, model=self.model, max_new=3).lines, wanted)
        self.assertEqual(banyan.ask(polars.scan_parquet(self.path("in.parquet")), model=self.model, max_new=3).lines, wanted)
        lazy = polars.scan_parquet(self.path("in.parquet"))
        self.assertEqual(len(banyan.ask(lazy, model=self.model, max_new=3, limit=2)), 2)


if __name__ == "__main__":
    unittest.main()
