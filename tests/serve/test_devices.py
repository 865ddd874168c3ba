"""A server on several devices: the replies of one, and conversations that stay where they began."""
import concurrent.futures
import json
import unittest

from harness import ASK, FERRY, PIER, QUESTIONS, SCHEMA, Server, ServeTest, timeless


def body(number):
    text = f"Page {number}. " + (FERRY if number % 2 else PIER) * (1 + number % 3)
    return {"documents": [{"id": str(number), "text": text}], "questions": QUESTIONS, "logprobs": True}


class Devices(ServeTest):
    ARGUMENTS = ("--device", "cpu,cpu", "--threads", "2")

    def requests_by_device(self):
        text = self.server.ask("GET", "/metrics")[2].decode()
        return {line.split('"')[1]: int(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                if line.startswith("banyan_device_requests_total{")}

    def test_replies_are_those_of_one_device(self):
        def ask(server, number):
            status, reply = server.json("/v1/ask", body(number))
            self.assertEqual(status, 200, reply)
            return json.dumps([timeless(row) for row in reply["rows"]], sort_keys=True)

        one = Server("--threads", "1")
        try:
            expected = [ask(one, number) for number in range(12)]
            schema = one.json("/v1/extract", {"documents": ASK["documents"], "schema": SCHEMA})[1]["rows"]
        finally:
            one.stop()
        before = self.requests_by_device()
        self.assertEqual(sorted(before), ["cpu#1", "cpu#2"])
        with concurrent.futures.ThreadPoolExecutor(6) as clients:
            found = list(clients.map(lambda number: ask(self.server, number), range(12)))
        self.assertEqual(found, expected)
        for device, requests in self.requests_by_device().items():
            self.assertGreater(requests - before[device], 0, device)
        again = self.server.json("/v1/extract", {"documents": ASK["documents"], "schema": SCHEMA})[1]["rows"]
        self.assertEqual([timeless(row) for row in again], [timeless(row) for row in schema])

    def test_a_conversation_stays_on_its_device(self):
        """One after another, so that both devices are idle: what one of them has in memory decides."""
        for start in ("Tell me of boats. ", "Tell me of lamps. ", "Tell me of towns. "):
            messages = [{"role": "user", "content": start + FERRY * 3}]
            for turn in range(3):
                before = self.requests_by_device()
                reply = self.chat(messages=messages, max_tokens=8)
                after = self.requests_by_device()
                took = [device for device in after if after[device] > before[device]]
                self.assertEqual(len(took), 1)
                cached = reply["usage"]["prompt_tokens_details"]["cached_tokens"]
                if turn > 0:
                    self.assertEqual(took, home)
                    self.assertGreater(cached, 100)
                home = took
                messages += [reply["choices"][0]["message"], {"role": "user", "content": f"And number {turn}?"}]


if __name__ == "__main__":
    unittest.main()
