"""What a tenant's batches may take: their own calls of the engine, room on the disk, memory. Each test failed before it was
repaired."""
import concurrent.futures
import json
import pathlib
import time
import unittest

from harness import Server
from test_attacks import KEYS, MIB, Tenant, folder
from test_batches import lines, rows_of, start, upload, wait_for


def endless(count=400):
    """Lines that nobody waits for: minutes of work."""
    return lines(count, 400, regex="[a-z ]{900,}")


def disk_bytes(state):
    total = 0
    for path in pathlib.Path(state).rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:  # gone by now
            pass
    return total


class Tenants(unittest.TestCase):
    def test_a_cancel_ends_calls_of_its_own_batch_alone(self):
        with folder() as state:
            keys = state / "keys"
            keys.write_text("".join(f"{name}:{key}\n" for name, key in KEYS.items()))
            server = Server("--keys", keys, "--state", state / "state")
            self.addCleanup(server.stop)
            anna, ben = Tenant(server, "anna"), Tenant(server, "ben")
            hers = start(anna, upload(anna, endless()))
            his = start(ben, upload(ben, lines(1)))
            wait_for(anna, hers, "in_progress")
            server.wait_until(lambda: server.metric("banyan_running_answers", anna.headers) > 3)
            for _ in range(10):
                self.assertEqual(ben.json(f"/v1/batches/{his}/cancel", {}, method="POST")[1]["status"], "cancelling")
            first = ben.json("/v1/batches/" + his)[1]["cancelling_at"]
            time.sleep(1.1)
            self.assertEqual(server.metric("banyan_cancelled_total", anna.headers), 0)
            self.assertEqual(ben.json(f"/v1/batches/{his}/cancel", {}, method="POST")[1]["cancelling_at"], first)
            anna.json(f"/v1/batches/{hers}/cancel", {}, method="POST")
            wait_for(anna, hers, "cancelled")
            self.assertGreater(server.metric("banyan_cancelled_total", anna.headers), 3)
            wait_for(ben, his, "cancelled")


class Disk(unittest.TestCase):
    def setUp(self):
        context = folder()
        self.state = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)

    def serve(self, *arguments):
        self.server = Server("--state", self.state, *arguments)
        self.addCleanup(lambda: self.server.stop())
        return self.server

    def files_of(self, batch):
        return sorted(path.name for path in (self.state / "batches").iterdir() if path.name.startswith(batch))

    def test_results_stay_within_the_tenants_room(self):
        """Short lines become long error rows: what fits is kept, the batch says why the rest is missing."""
        most = 2 * MIB
        server = self.serve("--max-files", most)
        file = upload(server, ["1\n"] * 20_000)
        batches = [start(server, file) for _ in range(3)]
        largest, over = 0, set()
        while len(over) < len(batches):
            largest = max(largest, disk_bytes(self.state))
            over = {batch for batch in batches if server.json("/v1/batches/" + batch)[1]["status"] in ("completed", "failed")}
        self.assertLess(largest, most + 64 * 1024)
        first, last = (server.json("/v1/batches/" + batch)[1] for batch in (batches[0], batches[-1]))
        self.assertEqual((first["status"], first["errors"]["data"][0]["code"]), ("failed", "storage_full"))
        self.assertEqual(last["status"], "failed")
        rows = rows_of(server, first["error_file_id"])
        self.assertGreater(len(rows), 500)
        self.assertEqual(len(rows), first["request_counts"]["failed"])
        for listed in server.json("/v1/files")[1]["data"]:
            server.json("/v1/files/" + listed["id"], method="DELETE")
        for batch in batches:
            self.assertEqual(server.json("/v1/batches/" + batch, method="DELETE")[0], 200)
        # All room is free again.
        self.assertEqual([path for path in self.state.rglob("*") if path.is_file() and path.name != "lock"], [])
        small = start(server, upload(server, lines(2, 4)))
        self.assertEqual(wait_for(server, small, "completed", "failed")["status"], "completed")

    def test_nothing_is_left_of_a_failed_batch(self):
        server = self.serve()
        long = start(server, upload(server, endless()))
        wait_for(server, long, "in_progress")
        file = upload(server, lines(1))
        failing = [start(server, file) for _ in range(3)]
        server.json("/v1/files/" + file, method="DELETE")  # before their turn
        many = start(server, upload(server, ["1\n"] * 50_001))
        server.json(f"/v1/batches/{long}/cancel", {}, method="POST")
        for batch in (*failing, many):
            self.assertEqual(wait_for(server, batch, "failed")["output_file_id"], None)
            self.assertEqual(self.files_of(batch), [batch + ".json"])
        self.assertIn("50001 lines", server.json("/v1/batches/" + many)[1]["errors"]["data"][0]["message"])
        for batch in (*failing, many):
            server.json("/v1/batches/" + batch, method="DELETE")
            self.assertEqual(self.files_of(batch), [])

    def test_what_an_earlier_server_left_goes(self):
        server = self.serve()
        done = start(server, upload(server, lines(1, 2)))
        wait_for(server, done, "completed")
        going_on = start(server, upload(server, endless()))
        wait_for(server, going_on, "in_progress")
        server.wait_until(lambda: len(self.files_of(going_on)) > 2)
        server.process.kill()
        server.process.wait()
        for name in (done + ".jsonl", done + ".jsonl.journal", "batch_nobody.jsonl", "batch_nobody.json.part"):
            (self.state / "batches" / name).write_bytes(b"x" * 1000)
        server = self.serve()
        left = {path.name.split(".")[0] for path in (self.state / "batches").iterdir() if path.suffix != ".json"}
        self.assertEqual(left, {going_on})
        server.json(f"/v1/batches/{going_on}/cancel", {}, method="POST")
        wait_for(server, going_on, "cancelled")

    def test_metadata_counts_and_lists_have_pages(self):
        server = self.serve("--max-files", 40 * MIB)
        file = upload(server, lines(1))
        (self.state / "files" / file).unlink()  # the first waits for it, and the others wait for the first
        body = {"input_file_id": file, "endpoint": "/v1/chat/completions",
                "metadata": {f"k{i:02}" + "n" * 61: "\U0001F600" * 512 for i in range(16)}}
        text = json.dumps(body, ensure_ascii=False).encode()
        statuses = [server.json("/v1/batches", text)[0] for _ in range(300)]
        self.assertEqual(set(statuses), {200})
        before = server.resident_kib("VmHWM")
        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            replies = list(pool.map(lambda _: server.json("/v1/batches?limit=1"), range(120)))
        self.assertEqual({(status, len(reply["data"]), reply["has_more"]) for status, reply in replies}, {(200, 1, True)})
        # All of them are 10 MB, 40 at once would be 400 and more.
        self.assertLess(server.resident_kib("VmHWM") - before, 100 * 1024)
        seen, after = [], ""
        while True:
            page = server.json(f"/v1/batches?limit=100{after}")[1]
            seen += [batch["id"] for batch in page["data"]]
            self.assertEqual((page["first_id"], page["last_id"]), (page["data"][0]["id"], page["data"][-1]["id"]))
            if not page["has_more"]:
                break
            after = "&after=" + page["last_id"]
        self.assertEqual((len(seen), len(set(seen))), (300, 300))
        self.assertEqual(server.json(f"/v1/batches?after={seen[-1]}")[1],
                         {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False})
        self.assertEqual([listed["id"] for listed in server.json("/v1/files?limit=1")[1]["data"]], [file])
        self.assertEqual(server.json("/v1/files?after=" + file)[1]["data"], [])

    def test_batches_with_much_metadata_fill_the_room(self):
        server = self.serve("--max-files", 200_000)
        file = upload(server, lines(1, 1))
        body = {"input_file_id": file, "endpoint": "/v1/chat/completions", "metadata": {str(i): "\U0001F600" * 512 for i in range(16)}}
        statuses = [server.json("/v1/batches", json.dumps(body, ensure_ascii=False).encode())[0] for _ in range(12)]
        self.assertEqual((statuses[0], statuses[-1]), (200, 413))


class Memory(unittest.TestCase):
    def test_lines_take_room_before_they_are_read(self):
        """Each of these becomes thirty times its size, and all are under way at once."""
        with folder() as state:
            server = Server("--state", state)
            self.addCleanup(server.stop)
            values = "{}," * 320_000
            large = [f'{{"custom_id":"c{i}","method":"POST","url":"/v1/chat/completions","body":{{"model":"x","messages":[{values}{{}}]}}}}\n'
                     for i in range(20)]
            good = list(lines(3, 4))
            file = upload(server, large[:10] + good + large[10:])
            before = server.resident_kib("VmHWM")
            done = wait_for(server, start(server, file), "completed", "failed")
            self.assertEqual(done["request_counts"], {"total": 23, "completed": 3, "failed": 20})
            self.assertEqual({row["response"]["status_code"] for row in rows_of(server, done["error_file_id"])}, {404})
            # Half of the 256 MiB of requests, and what the allocator keeps for each of its threads: 200 to 330 MiB here.
            # All lines at once, uncounted, would be more than 600.
            self.assertLess(server.resident_kib("VmHWM") - before, 450 * 1024)
            server.wait_until(lambda: server.metric("banyan_bodies_bytes") == 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
