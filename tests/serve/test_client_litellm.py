"""LiteLLM against the program, as its provider `openai` with another address."""
import asyncio
import json
import os
import unittest

from client_packages import need

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it fetches a price list otherwise
need(["litellm", "mcp"], "litellm", "mcp")  # responses and tools need the second
import litellm  # noqa: E402

from client_harness import ANSWER, QUESTION, WHO, ClientTest  # noqa: E402
from harness import NAME  # noqa: E402

MODEL = f"openai/{NAME}"


class LiteLlm(ClientTest):
    def complete(self, **more):
        return litellm.completion(model=MODEL, api_base=self.url, api_key="none", messages=QUESTION, temperature=0, num_retries=0,
                                  **{"max_tokens": 20, **more})

    def test_chat(self):
        reply = self.complete(user="anna", seed=3)
        self.assertEqual(reply.choices[0].message.content.strip(), ANSWER)
        self.assertEqual(reply.choices[0].finish_reason, "stop")
        self.assertGreater(reply.usage.prompt_tokens, 20)
        several = asyncio.run(litellm.acompletion(model=MODEL, api_base=self.url, api_key="none", messages=QUESTION, temperature=0,
                                                  max_tokens=20, n=2))
        self.assertEqual([choice.message.content.strip() for choice in several.choices], [ANSWER] * 2)

    def test_stream(self):
        parts = list(self.complete(stream=True, stream_options={"include_usage": True}))
        self.assertEqual("".join(part.choices[0].delta.content or "" for part in parts if part.choices).strip(), ANSWER)
        self.assertTrue(any(getattr(part, "usage", None) for part in parts))

    def test_structured_output(self):
        schema = {key: value for key, value in WHO.items() if key != "title"}
        reply = self.complete(max_tokens=60, response_format={"type": "json_schema", "json_schema": {"name": "who", "strict": True, "schema": schema}})
        self.assertEqual(list(json.loads(reply.choices[0].message.content)), ["name"])

    def test_completions(self):
        reply = litellm.text_completion(model=f"text-completion-openai/{NAME}", api_base=self.url, api_key="none", prompt="The pier",
                                        max_tokens=5, temperature=0)
        self.assertEqual(reply.choices[0].text, self.server.json("/v1/completions", {
            "model": NAME, "prompt": "The pier", "max_tokens": 5, "temperature": 0})[1]["choices"][0]["text"])

    def test_responses(self):
        reply = litellm.responses(model=MODEL, api_base=self.url, api_key="none", input=QUESTION, temperature=0, max_output_tokens=20)
        said = "".join(part.text for item in reply.output for part in item.content)
        self.assertEqual(said.strip(), ANSWER)
        text = "".join(event.delta for event in litellm.responses(model=MODEL, api_base=self.url, api_key="none", input=QUESTION, temperature=0,
                                                                  max_output_tokens=20, stream=True)
                       if event.type == "response.output_text.delta")
        self.assertEqual(text, said)

    def test_tools_are_refused_in_words(self):
        with self.assertRaisesRegex(litellm.BadRequestError, "calls no tools"):
            self.complete(tools=[{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}])

    def test_embeddings(self):
        reply = litellm.embedding(model=f"openai/{self.encoder}", api_base=self.url, api_key="none", input=["one text", "another"],
                                  encoding_format="float")
        self.assert_vector(reply.data[1]["embedding"], "another")


if __name__ == "__main__":
    unittest.main(warnings="ignore", verbosity=2)  # of pydantic about its own types
