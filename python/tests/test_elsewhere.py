"""Banyan where people already are: LangChain and Transformers' generate. What is not installed is not tried, and said."""
import asyncio
import importlib.util
import unittest

import numpy

import banyan
from banyan.transformers import BanyanForCausalLM
from support import PackageTest


class Generate(PackageTest):
    def test_rows_are_continued_as_each_alone(self):
        prompts = [self.model.encode(text) for text in ("The ferry leaves", "A barge", "The ferry is")]
        width = max(map(len, prompts))
        ids = numpy.array([[0] * (width - len(p)) + p for p in prompts])
        mask = numpy.array([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
        generator = BanyanForCausalLM(self.model)
        try:
            found = generator.generate(ids, mask, max_new_tokens=6, eos_token_id=[])
            self.assertEqual(found.shape, (3, width + 6))
            for row, prompt in zip(found, prompts):
                alone = generator.generate(prompt, max_new_tokens=6, eos_token_id=[])
                numpy.testing.assert_array_equal(row[width:], alone[0, len(prompt):])
            samples = generator.generate(prompts[0], max_new_tokens=8, do_sample=True, num_return_sequences=4, seed=3)
            again = generator.generate(prompts[0], max_new_tokens=8, do_sample=True, num_return_sequences=4, seed=3)
            numpy.testing.assert_array_equal(samples, again)
            self.assertGreater(len({tuple(row) for row in samples}), 1)
            ended = generator.generate(prompts[0], max_new_tokens=6, eos_token_id=int(found[0, width + 1]), pad_token_id=7)
            self.assertLessEqual(ended.shape[1], len(prompts[0]) + 6)
        finally:
            generator._engine.close()


@unittest.skipUnless(importlib.util.find_spec("langchain_core"), "langchain-core is not installed")
class LangChain(PackageTest):
    def test_a_chat_is_answered_streamed_and_awaited(self):
        from banyan.langchain import BanyanChat
        from langchain_core.messages import HumanMessage, SystemMessage
        chat = BanyanChat(model=self.model, max_new=8)
        try:
            messages = [SystemMessage("Be brief."), HumanMessage("Who steers the ferry?")]
            answer = chat.invoke(messages)
            tokens = self.model.chat_tokens([{"role": "system", "content": "Be brief."},
                                             {"role": "user", "content": "Who steers the ferry?"}])
            self.assertEqual(answer.usage_metadata["input_tokens"], len(tokens))
            self.assertEqual("".join(chunk.content for chunk in chat.stream(messages)), answer.content)
            self.assertEqual(asyncio.run(chat.ainvoke(messages)).content, answer.content)
            many = chat.batch([messages] * 4)
            self.assertEqual([one.content for one in many], [answer.content] * 4)
        finally:
            chat.close()

    def test_answers_have_the_structure_of_a_schema(self):
        from typing import TypedDict

        from banyan.langchain import BanyanChat
        from pydantic import BaseModel

        class Boat(BaseModel):
            kind: bool
            crew: bool

        class BoatDict(TypedDict):
            """A boat."""
            kind: bool
            crew: bool
        wide = {"title": "boat", "type": "object", "properties": {"kind": {"enum": ["ferry", "barge"]}}, "required": ["kind"],
                "additionalProperties": False}
        chat = BanyanChat(model=self.model, max_new=60)
        try:
            self.assertIsInstance(chat.with_structured_output(Boat).invoke("What boat?"), Boat)
            self.assertEqual(set(chat.with_structured_output(BoatDict).invoke("What boat?")), {"kind", "crew"})
            found = chat.with_structured_output(wide).invoke("What boat?")
            self.assertIn(found["kind"], ("ferry", "barge"))
            self.assertEqual(asyncio.run(chat.with_structured_output(wide).ainvoke("What boat?")), found)
            whole = chat.with_structured_output(wide, include_raw=True).invoke("What boat?")
            self.assertEqual((whole["parsed"], whole["parsing_error"]), (found, None))
            self.assertTrue(whole["raw"].content)
            short = BanyanChat(model=chat.engine.model, max_new=2)
            chat.close()
            cut = short.with_structured_output(Boat, include_raw=True).invoke("What boat?")
            self.assertIsNone(cut["parsed"])
            self.assertIsNotNone(cut["parsing_error"])
            short.close()
            with self.assertRaises(banyan.Error):
                chat.with_structured_output(3)
            with self.assertRaises(banyan.Error):
                chat.with_structured_output(Boat, method="json_mode")
        finally:
            chat.close()

    def test_an_answers_length_has_langchains_name_and_ours(self):
        from banyan.langchain import BanyanChat
        for given, calls in (({"max_tokens": 5}, {}), ({"max_new": 5}, {}), ({}, {"max_tokens": 5}), ({}, {"max_new": 5})):
            chat = BanyanChat(model=self.model, **given)
            try:
                answer = chat.invoke("Who steers the ferry?", **calls)
                self.assertEqual(answer.usage_metadata["output_tokens"], 5)
                self.assertNotEqual(answer.content, "")
            finally:
                chat.close()
        with self.assertRaises(ValueError):
            BanyanChat(model=self.model, max_token=5)
        with self.assertRaises(banyan.Error):
            BanyanChat(model=self.model).invoke("Who?", temprature=1)

    def test_a_retriever_finds_passages(self):
        from banyan.langchain import BanyanRetriever
        for name, text in (("a.txt", "The ferry leaves at seven."), ("b.txt", "The barge is green.")):
            (self.folder / name).write_text(text)
        index = banyan.Index.build(self.path("idx"), [self.path("a.txt"), self.path("b.txt")])
        found = BanyanRetriever(index=index, count=1).invoke("Which barge is green?")
        self.assertEqual([one.page_content for one in found], ["The barge is green."])
        self.assertTrue(found[0].metadata["source"].endswith("b.txt"))


if __name__ == "__main__":
    unittest.main()
