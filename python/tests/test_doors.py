"""Every door of the package does as the others: one default model, one guard of outputs, one way to end a job."""
import asyncio
import contextlib
import gc
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

import banyan
import banyan.aio
import banyan.stream
from banyan import _shared
from support import ROOT, PackageTest, documents, tiny_model

LONG = {"max_new": 400, "stop": ["\0never"]}  # with the tiny model: far longer than any test waits


def has(*names):
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"needs {', '.join(missing)}")


def descriptors_of(path) -> int:
    """How many open descriptors of this process lead to the file."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found += os.readlink(f"/proc/self/fd/{name}") == os.path.realpath(path)
    return found


def default_of(models):
    """The library's resolver, with other defaults: task → model and adapter."""
    found = banyan._native.reader
    return lambda task, model, adapter: found(task, model, adapter) if model or adapter else models[task]


class DefaultModel(PackageTest):
    def defaults(self):
        of_task = {"ask": (self.model_path, ""), "extract": (tiny_model(2048), ""), "rag": (tiny_model(512), "")}
        return mock.patch("banyan._native.reader", default_of(of_task))

    def test_jobs_and_models(self):
        boat = [{"text": "Anna steers.", "question": "Who?"}]
        with self.defaults():
            self.assertEqual(banyan.ask(boat, max_new=2).receipt["model"], self.model_path)
            self.assertEqual(banyan.extract(boat, {"attributes": [{"name": "who"}]}).receipt["model"], tiny_model(2048))
            with banyan.Model() as model:
                self.assertEqual(model.path, self.model_path)
            self.assertEqual(banyan.describe()["context_length"], 1024)
            self.assertEqual(banyan.estimate(boat, task="extract", schema={"attributes": [{"name": "who"}]})["rows"], 1)

    @has("duckdb", "pyarrow")
    def test_duckdb(self):
        import duckdb
        import banyan.duckdb
        con = duckdb.connect()
        with self.defaults(), banyan.duckdb.register(con, cache=False):
            asked = con.sql("SELECT ask_choice('Anna steers.', 'Who?', ['Anna', 'Ivan'])").fetchall()[0][0]
            read = con.sql("""SELECT extract_json('Anna steers.', '{"attributes": [{"name": "who"}]}')""").fetchall()[0][0]
            rows = banyan.ask([{"context": "Anna steers.", "question": "Who?", "choices": ["Anna", "Ivan"]}])
            values = banyan.extract([{"text": "Anna steers."}], '{"attributes": [{"name": "who"}]}')
        self.assertEqual(asked["probability"], rows[0]["probabilities"][rows[0]["choice"]])
        self.assertEqual(json.loads(read), values[0]["values"])
        with banyan.Model(tiny_model(2048)) as other:  # the default of extract is another model indeed
            self.assertNotEqual(other.fingerprint, rows.receipt["model_fingerprint"])

    def test_the_package_says_only_where_its_models_are(self):
        for name in ("ask", "extract", "rag"):
            model, adapter = banyan._native.reader(name, "", "")
            self.assertTrue(os.path.exists(banyan._native.path_of_model(model)), (model, adapter))
        sources = "".join(path.read_text() for path in (ROOT / "python" / "banyan").glob("*.py"))
        self.assertNotIn("BANYAN_MODEL\"", sources)  # who decides is the library


class Once(PackageTest):
    def test_a_model_is_loaded_once_however_it_is_named(self):
        banyan.unload_models()
        link = self.path("link.gguf")
        os.symlink(self.model_path, link)
        rows = [{"context": "Anna steers.", "question": "Who?"}]
        with mock.patch.object(_shared, "_load", side_effect=banyan.Model) as loaded, \
                mock.patch("banyan._native.reader", default_of({"ask": (self.model_path, "")})):
            answers = [_once(rows, name) for name in (self.model_path, pathlib.Path(self.model_path), link, None)]
        self.assertEqual(len({json.dumps(answer) for answer in answers}), 1)
        self.assertEqual(loaded.call_count, 1)
        banyan.unload_models()

    def test_a_file_that_was_replaced_is_loaded_again(self):
        import shutil
        path = self.path("model.gguf")
        shutil.copy(self.model_path, path)
        one = _once([{"context": "a", "question": "b?"}], path)
        shutil.copy(tiny_model(2048), path + ".new")
        os.replace(path + ".new", path)
        self.assertNotEqual(one, _once([{"context": "a", "question": "b?"}], path))

    def test_a_job_whose_callback_asks_does_not_wait_for_itself(self):
        inner = []

        def progress(now):
            if not inner:
                inner.append(_once([{"context": "a", "question": "b?"}], self.model_path))
        banyan.ask(documents(3), model=self.model_path, max_new=2, progress=progress)
        self.assertEqual(len(inner), 1)

    def test_importing_is_quick(self):
        program = "import time; begin = time.process_time(); import banyan; print(time.process_time() - begin)"
        places = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        places["PYTHONPYCACHEPREFIX"] = self.path("compiled")  # as of an installed package
        seconds, deadline = [1.0], time.monotonic() + 120  # a busy machine's caches and clocks are somebody else's
        while min(seconds) >= 0.3 and time.monotonic() < deadline:
            seconds.append(float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                                                env=places).stdout))
        self.assertLess(min(seconds), 0.3)


def _once(rows, model):
    found = banyan.ask(rows, model=model, max_new=4)
    return [found[0]["answer"], found.receipt["model_fingerprint"]]


class Streams(PackageTest):
    def test_an_overwritten_output_gives_the_rows_of_this_job_alone(self):
        for number in range(10):
            old = self.write("out.jsonl", [{"old": k} for k in range(3000)])
            with open(old, "a") as file:
                file.write('{"cut')
            rows = list(banyan.stream.ask(documents(3), model=self.model, max_new=2, output=old, overwrite=True))
            self.assertEqual(sorted(row["id"] for row in rows), ["d0", "d0", "d1", "d1", "d2", "d2"], number)

    def test_rows_of_a_generator_are_answered_as_it_gives_them(self):
        taken = threading.Event()

        def made():
            yield {"id": "first", "context": "Anna steers.", "question": "Who?"}
            if not taken.wait(60):
                raise AssertionError("the first row was not answered before the second was wanted")
            yield {"id": "second", "context": "Ivan steers.", "question": "Who?"}
        names = []
        for row in banyan.stream.ask(made(), model=self.model, max_new=2):
            names.append(row["id"])
            taken.set()
        self.assertEqual(names, ["first", "second"])

    def test_what_a_generator_raises_comes_after_its_rows(self):
        def made():
            yield from documents(2)
            raise LookupError("no more")
        seen = []
        with self.assertRaisesRegex(LookupError, "no more"):
            for row in banyan.stream.ask(made(), model=self.model, max_new=2):
                seen.append(row["id"])
        self.assertEqual(sorted(seen), ["d0", "d0", "d1", "d1"])

    def test_a_generator_that_asks_itself(self):
        def made():
            for one in documents(2, 1):
                answer = banyan.ask([one], model=self.model_path, max_new=2)[0]["answer"]
                yield {**one, "hint": answer}
        rows = list(banyan.stream.ask(made(), model=self.model_path, max_new=2))
        self.assertEqual(len(rows), 2)

    def test_a_stream_is_left_though_its_generator_waits(self):
        forever = threading.Event()

        def made():
            yield from documents(1, 1)
            forever.wait(120)
        stream = banyan.stream.ask(made(), model=self.model, max_new=2)
        next(stream)
        begin = time.monotonic()
        stream.close()
        self.assertLess(time.monotonic() - begin, 30)
        forever.set()

    def test_streams_in_coroutines_leave_the_loops_threads_alone(self):
        async def run():
            streams = [banyan.stream.ask(documents(1, 1), model=self.model, max_new=3) for _ in range(12)]

            async def rows_of(stream):
                return [row async for row in stream]
            tasks = [asyncio.ensure_future(rows_of(stream)) for stream in streams]
            self.assertEqual(await asyncio.wait_for(asyncio.to_thread(lambda: 7), 60), 7)
            return await asyncio.gather(*tasks)
        self.assertEqual([len(rows) for rows in asyncio.run(run())], [1] * 12)


class Ended(PackageTest):
    def test_loading_looks_and_ends(self):
        class Enough(Exception):
            pass
        calls = []

        def look():
            calls.append(1)
            raise Enough
        with self.assertRaises(Enough):
            banyan.Model(look=look)
        self.assertEqual(len(calls), 1)

    def test_a_timeout_counts_while_the_model_is_loaded(self):
        banyan.unload_models()
        loading = banyan.Model

        def slow(*arguments, look=None, **named):  # a model that takes a minute, looking as the library does
            for _ in range(600):
                if look is not None:
                    look()
                time.sleep(0.1)
            return loading(*arguments, **named)
        with mock.patch.object(_shared, "_load", slow):
            begin = time.monotonic()
            with self.assertRaises(banyan.Timeout):
                banyan.ask(documents(1), model=self.model_path, timeout=0.5)
            self.assertLess(time.monotonic() - begin, 20)

    def busy(self):
        """A job that holds the model for long."""
        stream = banyan.stream.ask(documents(200, 4), model=self.model, **LONG)
        next(stream)
        return contextlib.closing(stream)

    def test_a_job_that_waits_for_the_model_ends_in_time(self):
        with self.busy():
            with self.assertRaises(banyan.Timeout):
                banyan.ask(documents(1), model=self.model, max_new=2, timeout=0.3)

    def test_waiting_jobs_leave_the_loops_threads_alone_and_are_cancelled(self):
        async def run():
            jobs = [asyncio.ensure_future(banyan.aio.ask(documents(1), model=self.model, max_new=2)) for _ in range(12)]
            await asyncio.sleep(0.2)
            self.assertEqual(await asyncio.wait_for(asyncio.to_thread(lambda: 7), 30), 7)
            for job in jobs:
                job.cancel()
            return await asyncio.gather(*jobs, return_exceptions=True)
        with self.busy():
            self.assertTrue(all(isinstance(one, asyncio.CancelledError) for one in asyncio.run(run())))

    @has("duckdb", "pyarrow")
    def test_duckdbs_interrupt_ends_a_function_that_is_answering(self):
        import duckdb
        import banyan.duckdb
        con = duckdb.connect()
        con.execute("CREATE TABLE pages AS SELECT 'Page ' || i AS page FROM range(2000) t(i)")
        with banyan.duckdb.register(con, model=self.model, ask=LONG) as registered:
            failed = []

            def query():
                try:
                    con.execute("SELECT ask(page, 'What?') FROM pages").fetchall()
                except Exception as error:
                    failed.append(error)
            thread = threading.Thread(target=query)
            thread.start()
            deadline = time.monotonic() + 60
            while registered.answers.computed == 0 and time.monotonic() < deadline:
                time.sleep(0.02)
            con.interrupt()
            thread.join(60)
            self.assertFalse(thread.is_alive())
            self.assertEqual(len(failed), 1)
            self.assertLess(registered.answers.computed, 2000)
            # The next query is not ended by it.
            self.assertEqual(con.execute("SELECT count(*) FROM pages").fetchall(), [(2000,)])


class Outputs(PackageTest):
    def test_a_refused_resume_leaves_the_output_free(self):
        rows, out = documents(2), self.path("out.jsonl")
        banyan.ask(rows, model=self.model, max_new=2, output=out)
        for _ in range(3):
            with self.assertRaisesRegex(banyan.Error, "other parameters"):
                banyan.ask(rows, model=self.model, max_new=3, output=out, resume=True)
            self.assertEqual(descriptors_of(out), 0)
            self.assertEqual(descriptors_of(out + ".journal"), 0)
        banyan.ask(rows, model=self.model, max_new=2, output=out, resume=True)

    def test_an_output_that_another_job_holds_costs_no_descriptor(self):
        import fcntl
        out = self.path("out.jsonl")
        with open(out, "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            before = descriptors_of(out)
            for _ in range(3):
                with self.assertRaisesRegex(banyan.Error, "another job"):
                    banyan.ask(documents(1), model=self.model, max_new=2, output=out)
            self.assertEqual(descriptors_of(out), before)

    @has("pyarrow")
    def test_a_table_that_was_edited_is_kept_by_resume(self):
        import pyarrow
        import pyarrow.parquet as parquet
        out = self.path("out.parquet")
        banyan.ask(documents(2), model=self.model, max_new=2, output=out)
        table = parquet.read_table(out)
        edited = table.set_column(table.column_names.index("answer"), "answer", pyarrow.array(["mine"] * table.num_rows))
        parquet.write_table(edited.replace_schema_metadata(table.schema.metadata), out)
        for rows in (documents(2), documents(3)):
            with self.assertRaisesRegex(banyan.Error, "was changed since this job wrote it"):
                banyan.ask(rows, model=self.model, max_new=2, output=out, resume=True)
            self.assertEqual(parquet.read_table(out)["answer"].to_pylist(), ["mine"] * 4)
        code = self.module("ask", self.write("in.jsonl", documents(2)), "-m", self.model_path, "-o", out, "--max-new", 2, "--resume")
        self.assertEqual(code, 2)
        self.assertEqual(parquet.read_table(out)["answer"].to_pylist(), ["mine"] * 4)
        again = banyan.ask(documents(3), model=self.model, max_new=2, output=out, resume=True, overwrite=True)
        self.assertEqual(len(again), 6)
        self.assertNotIn("mine", parquet.read_table(out)["answer"].to_pylist())
        banyan.ask(documents(4), model=self.model, max_new=2, output=out, resume=True)  # as it was written: goes on
        self.assertEqual(parquet.read_table(out).num_rows, 8)

    def module(self, *arguments) -> int:
        return subprocess.run([sys.executable, "-m", "banyan", *map(str, arguments)], capture_output=True, timeout=300).returncode

    @has("pyarrow", "polars", "duckdb")
    def test_what_a_table_reads_is_never_written_to(self):
        import duckdb
        import polars
        import pyarrow
        import pyarrow.dataset
        import pyarrow.parquet as parquet
        os.mkdir(self.path("in"))
        for name in ("a", "b"):
            parquet.write_table(pyarrow.table({"context": [f"Text {name}."]}), self.path(f"in/{name}.parquet"))
        target, other = self.path("in/b.parquet"), self.path("in/c.parquet")
        con = duckdb.connect()
        con.execute(f"CREATE VIEW pages AS FROM '{self.path('in')}/*.parquet'")
        con.execute(f"CREATE VIEW elsewhere AS SELECT '{other}' AS name")
        kinds = {
            "dataset": lambda: pyarrow.dataset.dataset(self.path("in")),
            "polars": lambda: polars.scan_parquet(self.path("in/*.parquet")).filter(polars.col("context") != "x"),
            "polars, a folder": lambda: polars.scan_parquet(self.path("in")),
            "polars with a function": lambda: polars.scan_parquet(self.path("in")).with_columns(
                polars.col("context").map_elements(lambda text: text + "!", return_dtype=polars.String)),
            "duckdb": lambda: con.sql(f"SELECT context FROM '{target}'"),
            "duckdb, a view": lambda: con.sql("SELECT context FROM pages"),
            "duckdb, read_parquet": lambda: con.read_parquet(target)}
        before = pathlib.Path(target).read_bytes()
        for name, data in kinds.items():
            with self.subTest(name):
                with self.assertRaisesRegex(banyan.Error, "is both the input and the output"):
                    banyan.ask(data(), "What?", model=self.model, max_new=2, output=target, overwrite=True)
                self.assertEqual(pathlib.Path(target).read_bytes(), before)
                if "function" not in name:
                    made = self.path(f"{len(os.listdir(self.folder))}.parquet")
                    banyan.ask(data(), "What?", model=self.model, max_new=2, output=made, overwrite=True)


class Cache(PackageTest):
    @has("duckdb", "pyarrow")
    def test_what_changes_an_answer_is_in_the_key(self):
        import duckdb
        import banyan.duckdb
        con = duckdb.connect()
        query = "SELECT ask('Anna steers.', 'Who?')"
        with banyan.duckdb.register(con, model=self.model) as one:
            con.sql(query).fetchall()
            self.assertEqual(one.answers.computed, 1)
        with banyan.duckdb.register(con, model=self.model) as again:
            con.sql(query).fetchall()
            self.assertEqual(again.answers.computed, 0)
        self.command("kv", "add", self.path("kv"), "-m", self.model_path, "--threads", 1, "--kv-bits", 8, self.write("in.jsonl", documents(1)))
        for engine in ({"kv_store": self.path("kv"), "kv_bits": 8}, {"strategy": "no-attention"}):
            with banyan.duckdb.register(con, model=self.model, engine=engine) as other:
                con.sql(query).fetchall()
                self.assertEqual(other.answers.computed, 1)


class Shards(PackageTest):
    def module(self, *arguments, code=0):
        done = subprocess.run([sys.executable, "-m", "banyan", *map(str, arguments)], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    @has("pyarrow")
    def test_tables_of_shards_are_merged_into_the_table_of_one_job(self):
        import decimal
        import pyarrow
        import pyarrow.parquet as parquet
        source = self.path("in.parquet")
        parquet.write_table(pyarrow.table({"id": list(range(7)), "context": [f"Text {k}." for k in range(7)],
                                           "price": [decimal.Decimal(k) / 10 for k in range(7)]}), source)
        common = ("-q", "What?", "-m", self.model_path, "--threads", 1, "--max-new", 2, "--ordered", "--quiet")
        for number in (1, 2):
            self.module("ask", source, *common, "--shard", f"{number}/2", "-o", self.path(f"s{number}.parquet"))
        self.module("ask", source, *common, "-o", self.path("whole.parquet"))
        out = self.path("merged.parquet")
        self.module("merge", self.path("s1.parquet"), self.path("s2.parquet"), "--ordered", "-o", out)
        merged, whole = parquet.read_table(out), parquet.read_table(self.path("whole.parquet"))
        self.assertEqual(merged.to_pylist(), whole.to_pylist())
        self.assertEqual(merged.schema, whole.schema)
        self.assertIn("is there already", self.module("merge", self.path("s1.parquet"), self.path("s2.parquet"), "-o", out, code=2))
        parquet.write_table(whole.slice(0, 4), self.path("s1.parquet"))
        said = self.module("merge", self.path("s1.parquet"), self.path("s2.parquet"), "--overwrite", "-o", out, code=2)
        self.assertIn("s1.parquet: was changed since its job wrote it", said)
        self.assertEqual(parquet.read_table(out).num_rows, 7)


class Installed(unittest.TestCase):
    def test_the_distribution_has_a_name_of_its_own(self):
        """Another project is called banyan on the index: no advice may lead there."""
        old = re.compile(r"pip3? install[^\n]*?(?:['\" ])banyan(?:[\['\" ]|$)|'banyan\[", re.MULTILINE)
        tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
        for name in tracked:
            path = ROOT / name
            if path.suffix in (".py", ".md", ".cc", ".h", ".toml", ".sh", ".ipynb", ".yml") and path != pathlib.Path(__file__).resolve():
                self.assertIsNone(old.search(path.read_text(errors="replace")), name)
        self.assertIn('name = "banyan-engine"', (ROOT / "pyproject.toml").read_text())

    @has("langchain_core")
    def test_a_retriever_takes_k_and_no_unknown_name(self):
        from banyan.langchain import BanyanRetriever
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            for name in ("a", "b", "c"):
                (pathlib.Path(folder) / f"{name}.txt").write_text(f"The ferry {name} leaves.")
            index = banyan.Index.build(None, [folder])
            self.assertEqual(len(BanyanRetriever(index=index, k=1).invoke("ferry")), 1)
            self.assertEqual(len(BanyanRetriever(index=index, count=2).invoke("ferry")), 2)
            with self.assertRaises(ValueError):
                BanyanRetriever(index=index, top=1)


if __name__ == "__main__":
    unittest.main()
