"""LangChain's client for OpenAI (langchain-openai) against the program: chat, streams, batches, structured output, vectors."""
import asyncio
import unittest

from client_packages import need

need(["langchain_openai"], "langchain-openai")
import pydantic  # noqa: E402
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings  # noqa: E402

from client_harness import ANSWER, PROMPT, WHO, ClientTest  # noqa: E402
from harness import NAME  # noqa: E402


class Who(pydantic.BaseModel):
    """Who steers the ferry."""
    name: str = pydantic.Field(max_length=12)


class LangChain(ClientTest):
    def chat(self, **more):
        return ChatOpenAI(base_url=self.url, api_key="none", model=NAME, temperature=0, max_tokens=20, max_retries=0, **more)

    def test_chat(self):
        reply = self.chat().invoke(PROMPT)
        self.assertEqual(reply.content.strip(), ANSWER)
        self.assertGreater(reply.usage_metadata["input_tokens"], 20)
        self.assertEqual(reply.response_metadata["finish_reason"], "stop")
        self.assertEqual([reply.content.strip() for reply in self.chat().batch([PROMPT] * 3)], [ANSWER] * 3)
        self.assertEqual(asyncio.run(self.chat().ainvoke([("system", "Answer from the text."), ("user", PROMPT)])).content.strip(), ANSWER)

    def test_stream(self):
        parts = list(self.chat(stream_usage=True).stream(PROMPT))
        self.assertEqual("".join(part.content for part in parts).strip(), ANSWER)
        self.assertGreater(sum(part.usage_metadata["output_tokens"] for part in parts if part.usage_metadata), 0)

    def test_structured_output(self):
        found = self.chat().with_structured_output(WHO, method="json_schema").bind(max_tokens=60).invoke(PROMPT)
        self.assertEqual(list(found), ["name"])
        self.assertIsInstance(ChatOpenAI(base_url=self.url, api_key="none", model=NAME, temperature=0, max_tokens=60)
                              .with_structured_output(Who, method="json_schema").invoke(PROMPT), Who)

    def test_completions(self):
        text = OpenAI(base_url=self.url, api_key="none", model=NAME, temperature=0, max_tokens=5).invoke("The pier")
        self.assertEqual(text, self.server.json("/v1/completions", {"model": NAME, "prompt": "The pier", "max_tokens": 5,
                                                                    "temperature": 0})[1]["choices"][0]["text"])

    def test_responses(self):
        reply = self.chat(use_responses_api=True).invoke(PROMPT)
        self.assertEqual(reply.text.strip() if isinstance(reply.text, str) else reply.text().strip(), ANSWER)

    def test_tools_are_refused_in_words(self):
        tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
        with self.assertRaisesRegex(Exception, "calls no tools"):
            self.chat().bind_tools([tool]).invoke(PROMPT)

    def test_embeddings(self):
        vectors = OpenAIEmbeddings(base_url=self.url, api_key="none", model=self.encoder, check_embedding_ctx_length=False)
        self.assert_vector(vectors.embed_documents(["one text", "another"])[1], "another")
        self.assert_vector(vectors.embed_query("one text"), "one text")


if __name__ == "__main__":
    unittest.main(verbosity=2)
