"""Files and batches: OpenAI's forms, and nothing lost or repeated by a server that is killed."""
import collections
import json
import shutil
import signal
import tempfile
import time
import unittest
import uuid

from harness import FERRY, NAME, Server


def lines(count, max_tokens=12, **more):
    for i in range(count):
        yield {"custom_id": f"line-{i}", "method": "POST", "url": "/v1/chat/completions", "body": {
            "model": NAME, "temperature": 0.7, "seed": i, "max_tokens": max_tokens,
            "messages": [{"role": "user", "content": f"{FERRY}\n\nQuestion: Who is number {i}?"}], **more}}


def upload(server, rows):
    mark = uuid.uuid4().hex
    data = "".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows)
    body = (f"--{mark}\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--{mark}\r\n"
            f"Content-Disposition: form-data; name=\"file\"; filename=\"in.jsonl\"\r\n"
            f"Content-Type: application/octet-stream\r\n\r\n{data}\r\n--{mark}--\r\n")
    status, file = server.json("/v1/files", body.encode(), {"Content-Type": "multipart/form-data; boundary=" + mark})
    assert status == 200, file
    assert file["bytes"] == len(data.encode())
    return file["id"]


def start(server, file):
    status, batch = server.json("/v1/batches", {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"})
    assert status == 200, batch
    return batch["id"]


def wait_for(server, batch, *states):
    found = {}

    def reached():
        found.update(server.json("/v1/batches/" + batch)[1])
        return found["status"] in states
    server.wait_until(reached, 240)
    return found


def rows_of(server, file):
    return [json.loads(line) for line in server.ask("GET", f"/v1/files/{file}/content")[2].splitlines()]


class Batches(unittest.TestCase):
    def setUp(self):
        self.state = tempfile.mkdtemp(prefix="banyan-state-")
        self.addCleanup(shutil.rmtree, self.state, True)
        self.server = Server("--state", self.state)
        self.addCleanup(lambda: self.server.stop())

    def test_killed_and_gone_on_with(self):
        wanted = list(lines(60))
        file = upload(self.server, wanted)
        batch = start(self.server, file)
        self.server.wait_until(
            lambda: self.server.json("/v1/batches/" + batch)[1]["request_counts"]["completed"] > 3)
        time.sleep(1.2)  # a checkpoint
        self.server.process.send_signal(signal.SIGKILL)
        self.server.process.wait()
        self.server = Server("--state", self.state)
        done = wait_for(self.server, batch, "completed", "failed")
        self.assertEqual(done["status"], "completed", done)
        self.assertEqual(done["request_counts"], {"total": 60, "completed": 60, "failed": 0})
        rows = rows_of(self.server, done["output_file_id"])
        self.assertEqual(collections.Counter(row["custom_id"] for row in rows),
                         collections.Counter(line["custom_id"] for line in wanted))
        answers = {row["custom_id"]: row["response"]["body"]["choices"] for row in rows}
        for line in wanted[::20]:
            self.assertEqual(answers[line["custom_id"]], self.server.json("/v1/chat/completions", line["body"])[1]["choices"])

    def test_bad_lines_end_alone(self):
        good = list(lines(2))
        bad = [dict(good[0]), dict(good[0], custom_id="url", url="/v1/nothing"), "no json\n",
               dict(good[0], custom_id="tools", body=dict(good[0]["body"], tools=[1]))]
        batch = start(self.server, upload(self.server, good + bad))
        done = wait_for(self.server, batch, "completed", "failed")
        self.assertEqual(done["request_counts"], {"total": 6, "completed": 2, "failed": 4})
        self.assertEqual({row["custom_id"] for row in rows_of(self.server, done["output_file_id"])}, {"line-0", "line-1"})
        errors = {row["custom_id"]: row["response"] for row in rows_of(self.server, done["error_file_id"])}
        self.assertEqual(set(errors), {"line-0", "url", "", "tools"})
        self.assertEqual(errors["tools"]["body"]["error"]["param"], "tools")

    def test_cancelled(self):
        batch = start(self.server, upload(self.server, lines(400, 400, regex="[a-z ]{300,}")))
        wait_for(self.server, batch, "in_progress")
        self.assertEqual(self.server.json(f"/v1/batches/{batch}/cancel", {}, method="POST")[1]["status"], "cancelling")
        wait_for(self.server, batch, "cancelled")
        self.assertEqual(self.server.json("/v1/batches")[1]["data"][0]["id"], batch)

    def test_stopped_while_lines_are_read(self):
        """A line whose constraint was being compiled when the server stopped is no error: it is asked again."""
        wanted = [dict(line, body=dict(line["body"], regex=f"([a-k]{{1,9}}|[x-z]{{2,20}}|q){{1,{20 + i % 10}}}r{{0,{i}}}")) for i, line in enumerate(lines(40, 4))]
        batch = start(self.server, upload(self.server, wanted))
        wait_for(self.server, batch, "in_progress", "completed")
        for _ in range(3):
            time.sleep(0.3)
            self.assertEqual(self.server.stop(), 0)
            self.server = Server("--state", self.state)
        done = wait_for(self.server, batch, "completed", "failed")
        self.assertEqual(done["request_counts"], {"total": 40, "completed": 40, "failed": 0})

    def test_cancelled_among_lines_that_fail(self):
        """Whatever a call of the engine ends with, nobody cancels it later."""
        wanted = list(lines(60, 1500, regex="[a-z ]{1400,}"))
        for line in wanted[::2]:
            line["body"]["messages"][0]["content"] = FERRY * 400  # longer than the model's context
        batch = start(self.server, upload(self.server, wanted))
        self.server.wait_until(lambda: self.server.json("/v1/batches/" + batch)[1]["request_counts"]["failed"] > 3)
        self.server.json(f"/v1/batches/{batch}/cancel", {}, method="POST")
        done = wait_for(self.server, batch, "cancelled")
        for row in rows_of(self.server, done["error_file_id"]):
            self.assertEqual(row["response"]["status_code"], 400)
        self.assertEqual(self.server.json("/health")[0], 200)

    def test_what_is_not_there(self):
        for path in ("/v1/files/file-0", "/v1/files/..%2f..%2fetc/content", "/v1/batches/batch_0"):
            self.assertEqual(self.server.json(path)[0], 404, path)
        self.assertEqual(self.server.json("/v1/batches", {"input_file_id": "file-0", "endpoint": "/v1/completions"})[0], 404)
        self.assertEqual(self.server.json("/v1/files", b"{}", {"Content-Type": "application/json"})[0], 415)
        self.assertEqual(self.server.json("/v1/files", b"--x\r\n", {"Content-Type": "multipart/form-data; boundary=x"})[0], 400)
        file = upload(self.server, lines(1))
        self.assertEqual(self.server.json("/v1/files/" + file, method="DELETE")[1]["deleted"], True)
        self.assertEqual(self.server.json("/v1/files/" + file)[0], 404)


if __name__ == "__main__":
    unittest.main(verbosity=2)
