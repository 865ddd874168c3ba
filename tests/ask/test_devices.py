"""Several devices in one job: the bytes of one, resumed on more or fewer, and who did what."""
import json
import os
import signal
import subprocess
import time
import unittest

from harness import BANYAN, AskTest, documents

ANSWER = ["--max-new", "6", "--temperature", "1", "--quiet"]
DEVICES = ["cpu", "cpu,cpu", "cpu,cpu,cpu"]


class Devices(AskTest):
    def setUp(self):
        super().setUp()
        docs = documents(120, 3)
        docs[10] = b"this is not JSON\n"
        docs[20]["id"] = "d3"
        docs[30]["questions"][1] = {"id": "q1"}
        self.input = self.write("in.jsonl", docs)

    def test_rows_are_the_same(self):
        for more in ([], ["--strategy", "flat"], ["--strategy", "paged"], ["--strategy", "stacked"],
                     ["--strategy", "tree"], ["--kv-memory", "3M", "--max-streams", "5"]):
            outputs = []
            for device in DEVICES:
                name = f"out{len(device)}{len(more)}{more[-1] if more else ''}.jsonl"
                self.ask(self.input, *ANSWER, "--ordered", "--device", device, *more, "-o", self.path(name), code=1)
                outputs.append(self.bytes(name))
            self.assertEqual(outputs[0], outputs[1], more)
            self.assertEqual(outputs[0], outputs[2], more)

    def test_killed_and_resumed_on_other_devices(self):
        self.ask(self.input, *ANSWER, "--ordered", "-o", self.path("whole.jsonl"), code=1)
        output = self.path("out.jsonl")
        for turn, device in enumerate(["cpu,cpu", "cpu,cpu,cpu", "cpu", "cpu,cpu"]):
            resume = ["--resume"] if os.path.exists(output) else []
            process = subprocess.Popen(
                self.command(self.input, *ANSWER, "--ordered", "-o", output, "--checkpoint", "0.01", "--device", device,
                             "--strategy", "flat", *resume), stderr=subprocess.PIPE)
            # Some rows more than before are there, or the job is done.
            before = os.path.getsize(output) if os.path.exists(output) else 0
            deadline = time.monotonic() + 120
            while process.poll() is None and time.monotonic() < deadline:
                if os.path.exists(output) and os.path.getsize(output) > before + 200 * turn:
                    break
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)
            process.communicate()
        resume = ["--resume"] if os.path.exists(output) else []
        self.ask(self.input, *ANSWER, "--ordered", "-o", output, "--device", "cpu,cpu,cpu", *resume, code=1)
        self.assertEqual(self.bytes("out.jsonl"), self.bytes("whole.jsonl"))

    def test_receipt_and_plan_say_what_each_does(self):
        said = self.ask(self.input, "--max-new", "6", "--device", "cpu,cpu", "--explain", "-o", self.path("out.jsonl"),
                        "--receipt", self.path("receipt.json"), code=1).stderr
        self.assertIn("device    cpu#1: ", said)
        self.assertIn("device    cpu#2: ", said)
        receipt = self.json("receipt.json")
        first, second = receipt["devices"]
        self.assertEqual([first["name"], second["name"]], ["cpu#1", "cpu#2"])
        for name in ("prefilled_tokens", "generated_tokens"):
            self.assertEqual(first[name] + second[name], receipt[name])
            self.assertGreater(min(first[name], second[name]), receipt[name] // 10, name)
        self.assertEqual(first["weight_bytes"] * 2, receipt["weight_bytes"])
        self.assertEqual(first["requests"] + second["requests"], 118)  # 120 records, two of which ask nothing
        self.assertGreater(min(first["busy_seconds"], second["busy_seconds"]), 0)
        self.assertEqual(receipt["backend"][:6], "2 x cp")
        dry = self.ask(self.input, "--max-new", "6", "--device", "cpu,cpu", "--dry-run", code=1).stderr
        self.assertIn("cpu#2: about 60 records; weights ", dry)

    def test_ids_answers_the_same(self):
        lines = "".join(json.dumps({"id": i, "kind": "greedy", "ids": [5 + i % 9, 7, 8, i % 50], "max_new": 5}) + "\n"
                        for i in range(200)) + '{"id":"bad","kind":"greedy","ids":[999999]}\n'
        outputs = []
        for device in DEVICES:
            result = subprocess.run([BANYAN, "ids", "-m", self.model, "--device", device, "--threads", "2"],
                                    input=lines.encode(), capture_output=True, timeout=300)
            self.assertEqual(result.returncode, 1, result.stderr)
            outputs.append(result.stdout)
        self.assertEqual(len(outputs[0].splitlines()), 201)
        self.assertEqual(outputs[0], outputs[1])
        self.assertEqual(outputs[0], outputs[2])

    def test_what_is_no_device(self):
        for device, message in (("cpu,gpu", "unknown device 'gpu'"), ("cpu:1", "unknown device 'cpu:1'"),
                                ("cpu,reference", "expected devices of one kind")):
            said = self.ask(self.input, *ANSWER, "--device", device, code=2).stderr
            self.assertIn(message, said)
            self.assertIn("--device " + device, said)


if __name__ == "__main__":
    unittest.main()
