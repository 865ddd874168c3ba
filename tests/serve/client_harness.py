"""What tests with other people's clients share: one server with an encoder, and what it must say."""
import os
import pathlib
import tempfile
import unittest

import tiny_encoder
from harness import FERRY, Server

PROMPT = FERRY + "\n\nQuestion: Who steers the ferry Marigold?"
QUESTION = [{"role": "user", "content": PROMPT}]
ANSWER = "Anna Walker"
WHO = {"title": "who", "type": "object", "properties": {"name": {"type": "string", "maxLength": 12}}, "required": ["name"],
       "additionalProperties": False}


class ClientTest(unittest.TestCase):
    """BANYAN_TEST_ENCODER names an encoder; without it there is a small one that is made here."""
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="banyan-client-")
        cls.addClassCleanup(folder.cleanup)
        encoder = os.environ.get("BANYAN_TEST_ENCODER") or tiny_encoder.write(pathlib.Path(folder.name, "letters"))
        cls.encoder = pathlib.Path(encoder).name
        cls.server = Server("--state", pathlib.Path(folder.name, "state"), "--encoder", encoder)
        cls.addClassCleanup(cls.server.stop)
        cls.url = cls.server.url + "/v1"

    def vector(self, text):
        """The server's own, by plain HTTP."""
        status, reply = self.server.json("/v1/embeddings", {"model": self.encoder, "input": text})
        self.assertEqual(status, 200, reply)
        return reply["data"][0]["embedding"]

    def assert_vector(self, found, text):
        """Clients may take the packed form, of the same floats."""
        expected = self.vector(text)
        self.assertEqual(len(found), len(expected))
        for got, wanted in zip(found, expected):
            self.assertAlmostEqual(got, wanted, places=6)
