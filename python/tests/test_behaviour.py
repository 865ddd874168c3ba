"""Errors, Ctrl-C, fork, the GIL: how the package behaves as a part of a Python program."""
import contextlib
import io
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest

import banyan
from support import ROOT, PackageTest, documents

sys.path.insert(0, str(ROOT / "tests" / "support"))
import processor_time  # noqa: E402


class Errors(PackageTest):
    def test_errors_have_the_words_of_the_command_line(self):
        result = subprocess.run([os.environ["BANYAN"], "ask", "-m", "/nowhere.gguf", self.write("in.jsonl", documents(1))],
                                capture_output=True)
        with self.assertRaises(banyan.Error) as caught:
            banyan.Model("/nowhere.gguf")
        self.assertEqual("banyan: " + str(caught.exception), result.stderr.decode().strip())
        self.assertEqual(caught.exception.kind, "not_found")

    def test_bad_options_are_named(self):
        for options, words in (({"chat": "maybe"}, "chat: expected one of auto, on, off; found 'maybe'"),
                               ({"max_new": 0}, "max_new: expected a number from 1 on, found 0"),
                               ({"engine": {"strategy": "fast"}}, "strategy"),
                               ({"engine": {"rows": 3}}, "rows: there is no such option"),
                               ({"engine": {"kv_memory": "much"}}, "expected a size such as 512M or 2G, found 'much'"),
                               ({"regex": "("}, "(")):
            with self.assertRaises(banyan.Error) as caught:
                banyan.ask(documents(1), model=self.model, **options)
            self.assertIn(words, str(caught.exception))
        with self.assertRaises(banyan.Error):
            banyan.ask(["/nowhere.jsonl"], model=self.model)
        with self.assertRaises(banyan.Error) as caught:
            banyan.ask([3], model=self.model)
        self.assertEqual(str(caught.exception), "row 0: expected a dict, found int")

    def test_errors_go_through_pickle_and_closed_models_say_so(self):
        error = pickle.loads(pickle.dumps(banyan.Error("words", "limit")))
        self.assertEqual((str(error), error.kind), ("words", "limit"))
        with banyan.Model(self.model_path, threads=1) as model:
            self.assertIn("cpu", repr(model))
        self.assertIn("closed", repr(model))
        with self.assertRaises(banyan.Error) as caught:
            model.encode("a")
        self.assertEqual(str(caught.exception), "model: is closed")

    def test_what_cannot_be_pickled_says_why(self):
        with banyan.Engine(self.model) as engine:
            for one, words in ((self.model, "load it there: Model(path)"), (engine, "make one there")):
                with self.assertRaises(banyan.Error) as caught:
                    pickle.dumps(one)
                self.assertIn(words, str(caught.exception))
        (self.folder / "a.txt").write_text("The ferry leaves at seven.")
        index = banyan.Index.build(self.path("idx"), [self.path("a.txt")])
        self.assertEqual(pickle.loads(pickle.dumps(index)).search("ferry")[0].text, "The ferry leaves at seven.")

    def test_rows_raise_for_errors_and_show_themselves(self):
        rows = banyan.ask([{"id": "a", "context": "<b>", "question": "q"}, {"id": "b", "question": "q"}], model=self.model, max_new=2)
        with self.assertRaises(banyan.Error) as caught:
            rows.raise_for_errors()
        self.assertEqual((caught.exception.row, caught.exception.kind), ("b", "input"))
        self.assertIn("context", caught.exception.reason)
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((again.row, again.reason, str(again)), ("b", caught.exception.reason, str(caught.exception)))
        self.assertIn("<td>b</td>", rows._repr_html_())
        self.assertEqual(rows.receipt["versions"]["banyan"], banyan.__version__)
        good = banyan.ask(documents(1), model=self.model, max_new=2)
        self.assertIs(good.raise_for_errors(), good)

    def test_progress_is_a_callable_or_a_bar(self):
        heard = []
        banyan.ask(documents(3), model=self.model, max_new=4, progress=heard.append)
        self.assertTrue(heard[-1]["last"])
        self.assertEqual(heard[-1]["rows"], 6)
        self.assertIn("shared_tokens", heard[-1])
        error = io.StringIO()
        with contextlib.redirect_stderr(error):
            banyan.ask(documents(3), model=self.model, max_new=4, progress=True)
        self.assertIn("6 rows, 0 errors", error.getvalue())

    def test_an_estimate_has_seconds_memory_and_price(self):
        found = banyan.estimate(documents(3), model=self.model, max_new=4, price_per_hour=3600.0)
        self.assertAlmostEqual(found["price"], found["expected_seconds"])
        self.assertEqual(found["memory_bytes"], found["weight_bytes"] + found["kv_bytes"])

    def test_a_model_that_nobody_has_is_not_fetched(self):
        with self.assertRaises(banyan.Error) as caught:
            banyan.fetch_model("no-such-model")
        self.assertEqual(caught.exception.kind, "usage")
        self.assertIn("smollm2-135m-instruct", str(caught.exception))

    def test_the_model_is_never_written_to(self):
        with self.assertRaises(banyan.Error) as caught:
            banyan.ask(documents(1), model=self.model, output=self.model_path, overwrite=True)
        self.assertIn("the model", str(caught.exception))

    def test_an_exception_of_the_callers_ends_the_job(self):
        def refuse(progress):
            raise ZeroDivisionError("mine")
        with self.assertRaises(ZeroDivisionError):
            banyan.ask(documents(40), model=self.model, max_new=60, progress=refuse)


class Interrupt(PackageTest):
    def interrupted(self, body: str) -> float:
        """Runs the body in a process that is interrupted once it says so; the processor seconds until it has ended."""
        program = "import banyan, sys, time\n" + textwrap.dedent(body)
        process = subprocess.Popen([sys.executable, "-c", program, self.model_path], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        process.stdout.readline()
        time.sleep(0.5)
        before = processor_time.of_process(process.pid) + processor_time.of_children()
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=120)
        self.assertIn(b"KeyboardInterrupt", error)
        self.assertEqual(process.returncode, -signal.SIGINT)
        return processor_time.of_children() - before

    def test_ctrl_c_ends_a_job_within_two_seconds(self):
        self.assertLess(self.interrupted("""
            model = banyan.Model(sys.argv[1], threads=1)
            rows = [{"context": "word " * 100, "questions": [f"{k}?" for k in range(50)]} for i in range(2000)]
            print("now", flush=True)
            banyan.ask(rows, model=model, max_new=200)
            """), 2.0)

    def test_ctrl_c_ends_waiting_for_an_answer(self):
        self.assertLess(self.interrupted("""
            engine = banyan.Engine(banyan.Model(sys.argv[1], threads=1))
            requests = [engine.submit("abc", max_new=1000, stop_tokens=[]) for i in range(300)]
            print("now", flush=True)
            for request in requests: request.answer()
            """), 2.0)


class Processes(PackageTest):
    def test_a_forked_child_gets_an_error_and_ends(self):
        engine = banyan.Engine(self.model)
        request = engine.submit("abc", max_new=3)
        request.answer()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                self.model.encode("abc")
            except banyan.Error as error:
                code = 2 if "forked" in str(error) else 3
            try:
                engine.submit("abc")
                code = 4
            except banyan.Error:
                pass
            engine.close()
            with banyan.Model(self.model_path, threads=1) as own:
                if len(banyan.ask(documents(1), model=own, max_new=2)) != 2:
                    code = 5
            os._exit(code)
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 2)
        self.assertEqual(len(engine.submit("abc", max_new=3).answer().tokens), 3)
        engine.close()

    def test_other_threads_run_while_a_job_computes(self):
        ticks = 0
        done = threading.Event()

        def work():
            banyan.ask(documents(60, 4), model=self.model, max_new=64)
            done.set()
        thread = threading.Thread(target=work)
        thread.start()
        while not done.is_set():
            ticks += 1
            time.sleep(0.005)
        thread.join()
        self.assertGreater(ticks, 5)


if __name__ == "__main__":
    unittest.main()
