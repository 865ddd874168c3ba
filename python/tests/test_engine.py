"""Requests one by one: streams, trees, asyncio, cancelling, numpy without copies."""
import asyncio
import threading
import unittest

import numpy

import banyan
from banyan import Ask, Segment
from support import PackageTest


class Engine(PackageTest):
    def test_events_add_up_to_the_answer(self):
        with banyan.Engine(self.model) as engine:
            events = list(engine.submit("Once upon a time", max_new=12, stop_tokens=[], stream=True))
            answer = events[-1].answer
            self.assertTrue(events[-1].ended)
            self.assertEqual(sum((event.tokens for event in events), []), answer.tokens)
            self.assertEqual("".join(event.text for event in events), answer.text)
            self.assertEqual(len(answer.tokens), 12)
            alone = engine.submit("Once upon a time", max_new=12, stop_tokens=[]).answer()
            self.assertEqual(alone.tokens, answer.tokens)
            numpy.testing.assert_array_equal(alone.logprobs, answer.logprobs)

    def test_a_tree_is_answered_as_its_paths_alone(self):
        with banyan.Engine(self.model) as engine:
            context = self.model.encode("The ferry leaves at seven. " * 5)
            questions = [self.model.encode(f"Question {i}:") for i in range(4)]
            tree = Segment(context, below=[Segment(q, [Ask(tag=i, max_new=6)]) for i, q in enumerate(questions)])
            answers = {answer.tag: answer.tokens for answer in engine.submit(tree).answers()}
            self.assertLess(engine.receipt()["prefilled_tokens"], 2 * len(context))
            for i, question in enumerate(questions):
                path = Segment(context, below=[Segment(question, [Ask(max_new=6)])])
                self.assertEqual(engine.submit(path).answer().tokens, answers[i])

    def test_logits_are_arrays_that_own_their_memory(self):
        with banyan.Engine(self.model) as engine:
            answer = engine.submit("abc", max_new=1, want_logits=True).answer()
        logits = answer.prompt_logits
        self.assertEqual(logits.shape, (self.model.vocab_size,))
        self.assertEqual(logits.dtype, numpy.float32)
        self.assertFalse(logits.flags.owndata)  # the vector's memory, not a copy of it
        self.assertEqual(int(logits.argmax()), answer.tokens[0])
        shifted = logits.astype(numpy.float64) - logits.max()
        wanted = shifted[answer.tokens[0]] - numpy.log(numpy.exp(shifted).sum())
        self.assertAlmostEqual(float(answer.logprobs[0]), float(wanted), places=4)

    def test_given_text_is_scored_and_answers_are_held_to_a_shape(self):
        with banyan.Engine(self.model) as engine:
            forced = self.model.encode("xyz")
            self.assertEqual(engine.submit("abc", forced=forced).answer().tokens, forced)
            held = engine.submit("abc", regex="[0-9]{4}", max_new=10, stop=["#"]).answer()
            self.assertRegex(self.model.decode(held.tokens), "^[0-9]{4}$")

    def test_coroutines_share_an_engine(self):
        async def one(engine, prompt, **options):
            return [event.text async for event in engine.submit(prompt, **{"max_new": 5, "stream": True, **options})]

        async def run():
            with banyan.Engine(self.model) as engine:
                pieces = await asyncio.gather(*(one(engine, f"Number {i}") for i in range(5)))
                answer = await engine.submit("Number 3", max_new=5, stop=["\0"])
                self.assertEqual("".join(pieces[3]), answer.text)
                task = asyncio.create_task(one(engine, "never ends", max_new=900, stop_tokens=[]))
                await asyncio.sleep(0)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
        asyncio.run(run())

    def test_a_request_is_cancelled_with_what_there_is(self):
        with banyan.Engine(self.model) as engine:
            request = engine.submit("abc", max_new=900, stop_tokens=[], stream=True)
            next(iter(request))
            request.cancel()
            self.assertEqual(request.answer().finish_reason, "cancelled")

    def test_closing_ends_those_who_wait(self):
        engine = banyan.Engine(self.model)
        requests = [engine.submit(f"abc {i}", max_new=900, stop_tokens=[]) for i in range(3)]
        engine.close()
        self.assertEqual([request.answer().finish_reason for request in requests], ["cancelled"] * 3)
        with self.assertRaises(banyan.Error) as caught:
            engine.submit("abc")
        self.assertEqual(str(caught.exception), "engine: is closed")

    def test_threads_share_an_engine(self):
        with banyan.Engine(self.model) as engine:
            found = {}

            def work(i):
                found[i] = engine.submit(f"Number {i % 3}", max_new=6).answer().tokens

            threads = [threading.Thread(target=work, args=(i,)) for i in range(9)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for i in range(9):
                self.assertEqual(found[i], found[i % 3])

    def test_one_engine_or_job_a_model(self):
        with banyan.Engine(self.model):
            with self.assertRaises(banyan.Error) as caught:
                banyan.ask([{"context": "a", "question": "b"}], model=self.model)
            self.assertIn("close it first", str(caught.exception))
            with self.assertRaises(banyan.Error):
                banyan.Engine(self.model)
        self.assertEqual(len(banyan.ask([{"context": "a", "question": "b"}], model=self.model, max_new=2)), 1)

    def test_jobs_of_several_threads_wait_for_one_another(self):
        rows = [{"id": i, "context": "abc", "question": f"{i}?"} for i in range(4)]
        wanted = banyan.ask(rows, model=self.model, max_new=8).lines
        found = [None] * 3

        def work(i):
            found[i] = banyan.ask(rows, model=self.model, max_new=8).lines

        threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [wanted] * 3)


if __name__ == "__main__":
    unittest.main()
