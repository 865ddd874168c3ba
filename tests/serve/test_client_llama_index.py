"""LlamaIndex's client for servers like OpenAI's (llama-index-llms-openai-like) against the program."""
import asyncio
import unittest

from client_packages import need

need(["llama_index"], "llama-index-llms-openai-like", "llama-index-embeddings-openai-like")
import pydantic  # noqa: E402
from llama_index.core.llms import ChatMessage  # noqa: E402
from llama_index.embeddings.openai_like import OpenAILikeEmbedding  # noqa: E402
from llama_index.llms.openai_like import OpenAILike  # noqa: E402

from client_harness import ANSWER, PROMPT, ClientTest  # noqa: E402
from harness import NAME  # noqa: E402


class Who(pydantic.BaseModel):
    """Who steers the ferry."""
    name: str = pydantic.Field(max_length=12)


class LlamaIndex(ClientTest):
    def model(self, **more):
        return OpenAILike(**{"api_base": self.url, "api_key": "none", "model": NAME, "is_chat_model": True, "temperature": 0,
                             "max_tokens": 20, "max_retries": 0, "context_window": 2048, **more})

    def test_chat(self):
        message = [ChatMessage(role="user", content=PROMPT)]
        self.assertEqual(self.model().chat(message).message.content.strip(), ANSWER)
        self.assertEqual(self.model().complete(PROMPT).text.strip(), ANSWER)
        self.assertEqual(asyncio.run(self.model().achat(message)).message.content.strip(), ANSWER)

    def test_stream(self):
        message = [ChatMessage(role="user", content=PROMPT)]
        parts = list(self.model().stream_chat(message))
        self.assertEqual("".join(part.delta or "" for part in parts).strip(), ANSWER)
        self.assertEqual(parts[-1].message.content.strip(), ANSWER)

    def test_completions(self):
        text = self.model(is_chat_model=False, max_tokens=5).complete("The pier").text
        self.assertEqual(text, self.server.json("/v1/completions", {"model": NAME, "prompt": "The pier", "max_tokens": 5,
                                                                    "temperature": 0})[1]["choices"][0]["text"])

    def test_structured_output(self):
        structured = self.model(max_tokens=60, should_use_structured_outputs=True).as_structured_llm(Who)
        self.assertIsInstance(structured.complete(PROMPT).raw, Who)

    def test_embeddings(self):
        vectors = OpenAILikeEmbedding(api_base=self.url, api_key="none", model_name=self.encoder)
        self.assert_vector(vectors.get_text_embedding("another"), "another")
        self.assert_vector(vectors.get_text_embedding_batch(["one text", "another"])[0], "one text")


if __name__ == "__main__":
    unittest.main(warnings="ignore", verbosity=2)  # sockets that it leaves to the collector
