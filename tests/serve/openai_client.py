"""The real openai package, LangChain's client on top of it, and a validator of OpenAPI documents, against the program.

Skipped (exit code 77) where they are not installed; `make test-serve` installs them.
"""
import json
import os
import pathlib
import sys
import tempfile
import time
import unittest

try:
    import openai
    import openapi_spec_validator
except ImportError as error:
    print(error)
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from harness import FERRY, NAME, Server  # noqa: E402

QUESTION = [{"role": "user", "content": FERRY + "\n\nQuestion: Who steers the ferry Marigold?"}]


class Client(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.state = tempfile.TemporaryDirectory(prefix="banyan-state-")
        arguments = ["--state", cls.state.name]
        cls.encoder = os.environ.get("BANYAN_TEST_ENCODER")
        if cls.encoder:
            arguments += ["--encoder", cls.encoder]
        cls.server = Server(*arguments)
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.state.cleanup()

    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()][0], NAME)
        self.assertEqual(self.client.models.retrieve(NAME).id, NAME)

    def test_chat(self):
        whole = self.client.chat.completions.create(model=NAME, messages=QUESTION, temperature=0, max_completion_tokens=20, n=2,
                                                    logprobs=True, top_logprobs=3, seed=1, stop=["\n"])
        self.assertEqual(whole.choices[0].message.content.strip(), "Anna Walker")
        self.assertEqual(len(whole.choices[1].logprobs.content[0].top_logprobs), 3)
        self.assertGreater(whole.usage.prompt_tokens, whole.usage.prompt_tokens_details.cached_tokens)
        stream = self.client.chat.completions.create(model=NAME, messages=QUESTION, temperature=0, max_tokens=20, stream=True,
                                                     stream_options={"include_usage": True})
        chunks = list(stream)
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), whole.choices[0].message.content)
        self.assertEqual(chunks[-1].usage.completion_tokens * 2, whole.usage.completion_tokens)

    def test_structured_outputs(self):
        schema = {"name": "who", "schema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],
                                            "additionalProperties": False}}
        reply = self.client.chat.completions.create(model=NAME, messages=QUESTION, temperature=0, max_tokens=60,
                                                    response_format={"type": "json_schema", "json_schema": schema})
        self.assertEqual(list(json.loads(reply.choices[0].message.content)), ["name"])
        reply = self.client.chat.completions.create(model=NAME, messages=QUESTION, temperature=0, max_tokens=200,
                                                    response_format={"type": "json_object"})
        if reply.choices[0].finish_reason == "stop":
            self.assertIsInstance(json.loads(reply.choices[0].message.content), dict)

    def test_completions(self):
        reply = self.client.completions.create(model=NAME, prompt=["The pier", "Anna"], max_tokens=5, temperature=0, logprobs=2)
        self.assertEqual(len(reply.choices), 2)
        self.assertEqual(len(reply.choices[0].logprobs.token_logprobs), 5)
        text = "".join(c.choices[0].text for c in self.client.completions.create(model=NAME, prompt="The pier", max_tokens=5,
                                                                                temperature=0, stream=True))
        self.assertEqual(text, reply.choices[0].text)

    def test_refusals_are_the_client_s_own_errors(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(model=NAME, messages=QUESTION, presence_penalty=1)
        self.assertEqual(caught.exception.param, "presence_penalty")
        with self.assertRaises(openai.NotFoundError):
            self.client.chat.completions.create(model="other", messages=QUESTION)

    def test_files_and_batches(self):
        line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions",
                "body": {"model": NAME, "messages": QUESTION, "temperature": 0, "max_tokens": 20}}
        file = self.client.files.create(file=("in.jsonl", (json.dumps(line) + "\n").encode()), purpose="batch")
        self.assertIn(file.id, [known.id for known in self.client.files.list()])
        batch = self.client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h",
                                           metadata={"who": "test"})
        while batch.status not in ("completed", "failed"):
            time.sleep(0.1)
            batch = self.client.batches.retrieve(batch.id)
        self.assertEqual((batch.status, batch.request_counts.completed, batch.metadata), ("completed", 1, {"who": "test"}))
        row = json.loads(self.client.files.content(batch.output_file_id).text)
        self.assertEqual(row["response"]["body"]["choices"][0]["message"]["content"].strip(), "Anna Walker")
        self.assertIn(batch.id, [known.id for known in self.client.batches.list()])
        self.assertTrue(self.client.files.delete(file.id).deleted)

    def test_embeddings(self):
        if not self.encoder:
            self.skipTest("BANYAN_TEST_ENCODER names no encoder")
        name = [model.id for model in self.client.models.list()][1]
        packed = self.client.embeddings.create(model=name, input=["one text", "another"])
        plain = self.client.embeddings.create(model=name, input="one text", encoding_format="float")
        self.assertEqual(len(packed.data), 2)
        self.assertEqual(list(packed.data[0].embedding), plain.data[0].embedding)

    def test_langchain(self):
        try:
            from langchain_openai import ChatOpenAI
        except ImportError:
            self.skipTest("langchain-openai is not installed")
        chat = ChatOpenAI(base_url=self.server.url + "/v1", api_key="none", model=NAME, temperature=0, max_tokens=20)
        self.assertEqual(chat.invoke(QUESTION[0]["content"]).content.strip(), "Anna Walker")
        self.assertEqual("".join(part.content for part in chat.stream(QUESTION[0]["content"])).strip(), "Anna Walker")

    def test_the_description_is_valid(self):
        openapi_spec_validator.validate(self.server.json("/openapi.json")[1])


if __name__ == "__main__":
    unittest.main()
