"""The real openai package and a validator of OpenAPI documents, against the program.

Skipped (exit code 77) where they are not installed and cannot be.
"""
import asyncio
import json
import threading
import tempfile
import time
import typing
import unittest

from client_packages import need

need(["openai", "openapi_spec_validator", "pydantic"], "openai", "openapi-spec-validator")
import openai  # noqa: E402
import openapi_spec_validator  # noqa: E402
import pydantic  # noqa: E402

from client_harness import QUESTION, ClientTest  # noqa: E402
from harness import NAME, Server  # noqa: E402


def assert_json_object(test, choice):
    """An object, or, where the answer was cut off, the beginning of one."""
    text = choice.message.content
    test.assertTrue(text.startswith("{"), text)
    try:
        test.assertIsInstance(json.loads(text), dict)
    except json.JSONDecodeError as error:
        test.assertEqual(choice.finish_reason, "length", text)
        test.assertTrue(error.msg.startswith("Unterminated string") or error.pos >= len(text.rstrip()) - 1, (error, text))


class Client(ClientTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = openai.OpenAI(base_url=cls.url, api_key="none", max_retries=0)

    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()][0], NAME)
        self.assertEqual(self.client.models.retrieve(NAME).id, NAME)

    def test_chat(self):
        whole = self.client.chat.completions.create(model=NAME, messages=QUESTION, temperature=0, max_completion_tokens=20, n=2,
                                                    logprobs=True, top_logprobs=3, seed=1, stop=["\n"])
        self.assertEqual(whole.choices[0].message.content.strip(), "Anna Walker")
        self.assertEqual(len(whole.choices[1].logprobs.content[0].top_logprobs), 3)
        new = self.client.chat.completions.create(model=NAME, messages=[{"role": "user", "content": "A text that nobody has asked before."}],
                                                  max_tokens=2).usage
        self.assertGreater(new.prompt_tokens, new.prompt_tokens_details.cached_tokens)
        stream = self.client.chat.completions.create(model=NAME, messages=QUESTION, temperature=0, max_tokens=20, stream=True,
                                                     stream_options={"include_usage": True})
        chunks = list(stream)
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), whole.choices[0].message.content)
        self.assertEqual(chunks[-1].usage.completion_tokens * 2, whole.usage.completion_tokens)

    def test_structured_outputs(self):
        schema = {"name": "who", "schema": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}}, "required": ["name"],
                                            "additionalProperties": False}}
        reply = self.client.chat.completions.create(model=NAME, messages=QUESTION, temperature=0, max_tokens=60,
                                                    response_format={"type": "json_schema", "json_schema": schema})
        self.assertEqual(list(json.loads(reply.choices[0].message.content)), ["name"])
        for seed in range(3):
            reply = self.client.chat.completions.create(model=NAME, messages=QUESTION, temperature=1, seed=seed, max_tokens=60,
                                                        response_format={"type": "json_object"})
            assert_json_object(self, reply.choices[0])

    def test_objects_of_pydantic(self):
        class Person(pydantic.BaseModel):
            name: typing.Annotated[str, pydantic.Field(max_length=12)]
            captain: bool
        reply = self.client.chat.completions.parse(model=NAME, messages=QUESTION, temperature=0, max_tokens=60, response_format=Person)
        self.assertIsInstance(reply.choices[0].message.parsed, Person)

    def test_the_stream_s_own_events(self):
        arguments = {"model": NAME, "messages": QUESTION, "temperature": 0, "max_tokens": 20}
        with self.client.chat.completions.stream(**arguments) as stream:
            pieces = [event.delta for event in stream if event.type == "content.delta"]
            last = stream.get_final_completion().choices[0].message.content
        whole = self.client.chat.completions.create(**arguments).choices[0].message.content
        self.assertEqual(("".join(pieces), last), (whole, whole))

    def test_asyncio(self):
        arguments = {"model": NAME, "temperature": 0.7, "max_tokens": 20, "logprobs": True}
        alone = [self.client.chat.completions.create(messages=QUESTION, seed=seed, **arguments).choices[0] for seed in range(6)]

        async def together():
            async with openai.AsyncOpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=0) as client:
                async def streamed():
                    parts = await client.chat.completions.create(messages=QUESTION, seed=0, stream=True, **arguments)
                    return "".join([part.choices[0].delta.content or "" async for part in parts])
                whole = [client.chat.completions.create(messages=QUESTION, seed=seed, **arguments) for seed in range(6)]
                return await asyncio.gather(streamed(), *whole)
        text, *replies = asyncio.run(together())
        self.assertEqual([reply.choices[0] for reply in replies], alone)
        self.assertEqual(text, alone[0].message.content)

    def test_what_openai_does_not_have(self):
        def said(**body):
            return self.client.chat.completions.create(model=NAME, messages=QUESTION, temperature=1, seed=3, max_tokens=12,
                                                       extra_body=body).choices[0].message.content
        greedy = self.client.chat.completions.create(model=NAME, messages=QUESTION, temperature=0, max_tokens=12).choices[0].message.content
        self.assertEqual(said(top_k=1), greedy)
        self.assertEqual(said(min_p=1.0), greedy)
        self.assertRegex(said(regex="[a-c]{3}"), "^[a-c]{3}$")
        self.assertEqual(said(top_k=1, chat_template_kwargs={"enable_thinking": False}), greedy)
        self.assertNotEqual(said(top_k=1, regex="[a-z]{12}", repetition_penalty=9.0), said(top_k=1, regex="[a-z]{12}"))

    def test_tokens_as_a_prompt(self):
        one, two = ([list(range(40, 60)), list(range(60, 70))][:count] for count in (1, 2))
        alone = self.client.completions.create(model=NAME, prompt=one[0], max_tokens=6, temperature=0)
        both = self.client.completions.create(model=NAME, prompt=two, max_tokens=6, temperature=0)
        self.assertEqual((alone.usage.prompt_tokens, both.usage.prompt_tokens), (20, 30))
        self.assertEqual(alone.choices[0].text, both.choices[0].text)

    def test_completions(self):
        reply = self.client.completions.create(model=NAME, prompt=["The pier", "Anna"], max_tokens=5, temperature=0, logprobs=2)
        self.assertEqual(len(reply.choices), 2)
        self.assertEqual(len(reply.choices[0].logprobs.token_logprobs), 5)
        text = "".join(c.choices[0].text for c in self.client.completions.create(model=NAME, prompt="The pier", max_tokens=5,
                                                                                temperature=0, stream=True))
        self.assertEqual(text, reply.choices[0].text)

    def test_responses(self):
        if not hasattr(self.client, "responses"):
            self.skipTest("an older client")
        chat = self.client.chat.completions.create(model=NAME, messages=QUESTION, temperature=0, max_tokens=20)
        reply = self.client.responses.create(model=NAME, input=QUESTION, temperature=0, max_output_tokens=20, user="anna")
        self.assertEqual(reply.output_text, chat.choices[0].message.content)
        text = ""
        for event in self.client.responses.create(model=NAME, input=QUESTION, temperature=0, max_output_tokens=20, stream=True):
            if event.type == "response.output_text.delta":
                text += event.delta
        self.assertEqual(text, reply.output_text)
        self.assertEqual(event.type, "response.completed")

    def test_refusals_are_the_client_s_own_errors(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(model=NAME, messages=QUESTION, presence_penalty=1)
        self.assertEqual(caught.exception.param, "presence_penalty")
        with self.assertRaises(openai.NotFoundError):
            self.client.chat.completions.create(model="other", messages=QUESTION)
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("other")
        for name, value in (("frequency_penalty", 1), ("logit_bias", {"5": 1}), ("service_tier", "flex"), ("store", True),
                            ("tools", [{"type": "function", "function": {"name": "f"}}]), ("reasoning_effort", "low")):
            with self.assertRaises(openai.BadRequestError) as caught:
                self.client.chat.completions.create(model=NAME, messages=QUESTION, **{name: value})
            self.assertEqual(caught.exception.param, name)

    def test_keys_and_patience(self):
        with tempfile.NamedTemporaryFile("w") as keys:
            keys.write("anna:anna-key-0123456789\n")
            keys.flush()
            server = Server("--keys", keys.name, "--max-requests", 1)
            try:
                with self.assertRaises(openai.AuthenticationError):
                    openai.OpenAI(base_url=server.url + "/v1", api_key="wrong", max_retries=0).models.list()
                client = openai.OpenAI(base_url=server.url + "/v1", api_key="anna-key-0123456789", max_retries=0)
                endless = client.chat.completions.create(model=NAME, messages=QUESTION, max_tokens=2000, stream=True,
                                                         extra_body={"regex": "[a-z ]{6000,}"})
                next(iter(endless))
                with self.assertRaises(openai.RateLimitError) as caught:
                    client.chat.completions.create(model=NAME, messages=QUESTION, max_tokens=4)
                self.assertEqual(caught.exception.response.headers["Retry-After"], "1")
                threading.Timer(0.5, endless.close).start()  # the client itself comes again, as it was told
                client.with_options(max_retries=20).chat.completions.create(model=NAME, messages=QUESTION, max_tokens=4)
            finally:
                server.stop()

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
        self.assertEqual(self.client.files.retrieve(file.id).bytes, len(json.dumps(line)) + 1)
        self.assertTrue(self.client.files.delete(file.id).deleted)

    def test_a_batch_that_is_called_off(self):
        line = {"method": "POST", "url": "/v1/chat/completions", "body": {
            "model": NAME, "messages": QUESTION, "max_tokens": 2000, "regex": "[a-z ]{6000,}"}}
        lines = "".join(json.dumps(dict(line, custom_id=str(i))) + "\n" for i in range(4))
        file = self.client.files.create(file=("in.jsonl", lines.encode()), purpose="batch")
        batch = self.client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
        self.assertIn(self.client.batches.cancel(batch.id).status, ("cancelling", "cancelled"))
        while batch.status != "cancelled":
            time.sleep(0.1)
            batch = self.client.batches.retrieve(batch.id)
            self.assertNotIn(batch.status, ("completed", "failed", "expired"))

    def test_embeddings(self):
        packed = self.client.embeddings.create(model=self.encoder, input=["one text", "another"])
        plain = self.client.embeddings.create(model=self.encoder, input="one text", encoding_format="float")
        self.assertEqual(len(packed.data), 2)
        self.assertEqual(list(packed.data[0].embedding), plain.data[0].embedding)
        self.assert_vector(packed.data[1].embedding, "another")

    def test_the_description_is_valid(self):
        openapi_spec_validator.validate(self.server.json("/openapi.json")[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
