"""--request-seconds reaches all that is made of a request's texts: schemas, templates, parts of documents, questions. A
machine that is done before gets larger requests, up to what --max-body takes."""

import json
import unittest

from harness import FERRY, NAME, ServeTest

MIB = 1 << 20
SIZES = (MIB, 4 * MIB, 16 * MIB, 29 * MIB)
# Of processor time, which does not depend on what else the machine does: the limit, on each of its threads, what is
# done between two looks at the clock, and reading the body. It was 6.6 to 7.6 s beyond the limit.
MOST_SECONDS = 6
QUESTION = "Who steers the ferry Marigold?"


def schema(value):
    return {
        "model": NAME,
        "prompt": "The ferry",
        "max_tokens": 1,
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": value}},
    }


def ask(text, **more):
    return {"documents": [text], "questions": [QUESTION], "max_tokens": 4, **more}


# What is asked of → path and body of about so many bytes.
REQUESTS = {
    "a constant": ("/v1/completions", lambda size: schema({"const": "x" * size})),
    "an enumeration": ("/v1/completions", lambda size: schema({"enum": [f"v{i}" for i in range(size // 12)]})),
    "an enumeration of numbers": ("/v1/completions", lambda size: schema({"enum": list(range(size // 9))})),
    "a template": ("/v1/ask", lambda size: ask("Anna walks. " * (size // 12), template="{context} {context} {question}")),
    "parts of a document": ("/v1/ask", lambda size: ask("Anna walks. " * (size // 12), too_long="split")),
    "choices": (
        "/v1/ask",
        lambda size: ask(
            FERRY, questions=[{"question": "Which?", "choices": [f"c{i}" + "x" * (size // 2000) for i in range(2000)]}]
        ),
    ),
    "examples": (
        "/v1/ask",
        lambda size: ask(FERRY, few_shot='{"context":"a","question":"b","answer":"c"}\n' * (size // 60)),
    ),
}


class Time(ServeTest):
    ARGUMENTS = ("--threads", 1, "--request-seconds", 1)

    def test_it_ends_all_work_for_a_request(self):
        for what, (path, body) in REQUESTS.items():
            with self.subTest(what=what):
                status, size = 0, 0
                for size in SIZES:
                    self.server.wait_until(lambda: self.server.metric("banyan_requests") == 1)
                    before = self.server.processor_seconds()
                    status, _, reply = self.server.ask("POST", path, json.dumps(body(size)))
                    self.server.wait_until(lambda: self.server.metric("banyan_requests") == 1)
                    spent = self.server.processor_seconds() - before
                    self.assertIn(status, (200, 400, 413, 504), reply[:300])
                    self.assertEqual(b"took too long" in reply, status == 504, reply[:300])
                    self.assertLess(spent, MOST_SECONDS, size)
                    if status == 504:
                        break
                print(f"{what}: {size >> 20} MiB, {status}, {spent:.1f} s of processor time")
        self.assertEqual(self.server.json("/v1/ask", ask(FERRY))[0], 200)


if __name__ == "__main__":
    unittest.main(verbosity=2)
