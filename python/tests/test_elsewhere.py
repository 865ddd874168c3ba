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
