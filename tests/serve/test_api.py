"""The API on one running server: what it answers, what it refuses, what it shares and what it survives."""
import contextlib
import gzip
import json
import random
import threading
import unittest

from harness import ASK, FERRY, NAME, PIER, QUESTIONS, READS_HTML, ROOT, SCHEMA, ServeTest, command_rows, essence, mixed_requests, timeless


class Pages(ServeTest):
    def test_health_models_and_what_is_not_there(self):
        status, health = self.server.json("/health")
        self.assertEqual((status, health["status"], health["model"]), (200, "ok", NAME))
        self.assertEqual(self.server.json("/v1/models")[1]["data"][0]["id"], NAME)
        self.assertEqual(self.server.json("/v1/models/" + NAME)[1]["id"], NAME)
        self.assertEqual(self.server.json("/v1/models/other")[0], 404)
        self.assertEqual(self.server.json("/v1/nothing")[0], 404)
        status, headers, _ = self.server.ask("GET", "/v1/ask")
        self.assertEqual((status, headers["Allow"]), (405, "OPTIONS, POST"))
        self.assertEqual(self.server.json("/v1/files")[1]["error"]["code"], "no_state")

    def test_the_page_is_part_of_the_program(self):
        status, headers, page = self.server.ask("GET", "/")
        self.assertEqual(status, 200)
        self.assertIn(b"<html", page)
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        self.assertEqual(self.server.ask("GET", "/", headers={"If-None-Match": headers["ETag"]})[0], 304)
        status, headers, packed = self.server.ask("GET", "/openapi.json", headers={"Accept-Encoding": "gzip"})
        self.assertEqual(headers["Content-Encoding"], "gzip")
        self.assertIn("/v1/ask", json.loads(gzip.decompress(packed))["paths"])
        status, headers, body = self.server.ask("HEAD", "/openapi.json")
        self.assertEqual((status, body), (200, b""))
        self.assertGreater(int(headers["Content-Length"]), 1000)

    def test_one_connection_serves_many_requests(self):
        with contextlib.closing(self.server.connect()) as connection:
            for _ in range(3):
                connection.request("POST", "/v1/ask", json.dumps(dict(ASK, max_tokens=2)))
                reply = connection.getresponse()
                self.assertEqual(reply.status, 200)
                reply.read()

    def test_documents_become_text(self):
        status, reply = self.server.json("/v1/documents?name=a.html", "<p>One</p><script>no</script><p>Two</p>")
        if READS_HTML:
            self.assertEqual((status, reply["kind"]), (200, "html"))
            self.assertEqual(reply["text"].split(), ["One", "Two"])
        else:
            self.assertEqual(status, 400)
            self.assertIn("libxml2", reply["error"]["message"])
        status, reply = self.server.json("/v1/documents?name=b.md", FERRY.encode())
        self.assertEqual((reply["kind"], reply["text"], reply["characters"]), ("text", FERRY, len(FERRY)))
        self.assertEqual(self.server.json("/v1/documents", b"\xff\x00")[0], 400)


class OwnEndpoints(ServeTest):
    def test_ask_gives_the_rows_of_the_command(self):
        questions = QUESTIONS + [{"id": "c", "question": "Is the lamp green?", "choices": ["yes", "no"]}]
        documents = ASK["documents"] + [{"text": "The sky is blue.", "page": 7}]
        # A document of a request without an id has its number; a line of a file would have the file's name, too.
        rows = [{"id": n, "context": d["text"], "questions": questions, **{k: d[k] for k in d if k != "text"}}
                for n, d in enumerate(documents, 1)]
        expected = command_rows("ask", rows)
        body = {"documents": documents, "questions": questions}
        status, reply = self.server.json("/v1/ask", body)
        self.assertEqual(status, 200, reply)
        self.assertEqual(reply["rows"], expected)
        self.assertGreater(reply["saved_tokens"], 0)
        self.assertGreater(reply["usage"]["prompt_tokens"], reply["computed_tokens"])
        self.assertEqual(reply["rows"][0]["answer"], "Anna Walker")
        events = self.server.stream("/v1/ask", dict(body, forest=True))
        self.assertEqual(events[0]["type"], "start")
        self.assertEqual([d["id"] for d in events[0]["documents"]], ["a", "b", 3])
        self.assertEqual(events[-1]["type"], "done")
        answers = {(e["document"], e["question"]): e["row"] for e in events if e["type"] == "answer"}
        self.assertEqual([answers[d, q] for d in range(3) for q in range(4)], expected)
        # What is streamed is the answer: nothing of an answer that gives way to null, no half word.
        for extra in ({}, {"copy": False}, {"max_tokens": 2}):
            events += (more := self.server.stream("/v1/ask", dict(body, forest=True, **extra)))
            rows = {(e["document"], e["question"]): e["row"] for e in more if e["type"] == "answer"}
            written = dict.fromkeys(rows, "")
            for event in more:
                if event["type"] == "token":
                    written[event["document"], event["question"]] += event["text"]
            self.assertTrue(any(row["answer"] is None for row in rows.values()))
            for place, row in rows.items():
                self.assertEqual(written[place], "" if "choice" in row else row["answer"] or "", (extra, place))
            if not extra:  # word by word: more than one event for an answer of two words
                tokens = [e["text"] for e in more if e["type"] == "token" and (e["document"], e["question"]) == (0, 0)]
                self.assertEqual(tokens, ["Anna", " Walker"])
        pictures = [event for event in events if event["type"] == "forest"]
        self.assertTrue(pictures)
        for picture in pictures:
            known = {node["id"] for node in picture["nodes"]}
            self.assertTrue(all(node["parent"] in known | {None} for node in picture["nodes"]))
            self.assertTrue({node["state"] for node in picture["nodes"]} <= {"computing", "kept", "tail"})
            # Three questions and an answer for each of two choices read a document, whenever the picture is taken.
            read = {node["id"]: node["readers"] for node in picture["nodes"] if node["label"] == "document"}
            below = {node["document"] for node in picture["nodes"] if node["label"] == "document"}
            self.assertEqual(set(read.values()), {5}, picture)
            self.assertEqual({node["readers"] for node in picture["nodes"] if node["label"] == "instruction"}, {5 * len(below)})

    def test_sampling_is_that_of_the_command(self):
        expected = command_rows("ask", [{"id": "a", "context": FERRY, "questions": QUESTIONS}], "--temperature", "0.9",
                                "--seed", "5", "--samples", "3")
        status, reply = self.server.json("/v1/ask", {"documents": ASK["documents"][:1], "questions": QUESTIONS,
                                                     "temperature": 0.9, "seed": 5, "samples": 3})
        self.assertEqual((status, reply["rows"]), (200, expected))

    def test_copies_are_those_of_the_command(self):
        rows = [{"id": "a", "context": FERRY, "questions": QUESTIONS}]
        body = {"documents": ASK["documents"][:1], "questions": QUESTIONS}
        for copy, option in ((True, "--copy"), (False, "--no-copy")):
            status, reply = self.server.json("/v1/ask", dict(body, copy=copy))
            self.assertEqual((status, reply["rows"]), (200, command_rows("ask", rows, option)))
        status, reply = self.server.json("/v1/ask", dict(body, copy=None))
        self.assertEqual((status, reply["rows"]), (200, command_rows("ask", rows)))
        self.assertEqual(self.server.json("/v1/ask", dict(body, copy=True, regex="a"))[0], 400)

    def test_extract_gives_the_rows_of_the_command(self):
        import tempfile
        with tempfile.NamedTemporaryFile("w", suffix=".json") as schema:
            json.dump(SCHEMA, schema)
            schema.flush()
            expected = command_rows("extract", ASK["documents"], "--schema", schema.name)
        status, reply = self.server.json("/v1/extract", {"documents": ASK["documents"], "schema": SCHEMA})
        self.assertEqual(status, 200, reply)
        self.assertEqual(reply["rows"], expected)
        events = self.server.stream("/v1/extract", {"documents": ASK["documents"], "schema": SCHEMA})
        rows = {e["document"]: e["row"] for e in events if e["type"] == "answer"}
        self.assertEqual([rows[0], rows[1]], expected)

    def test_extract_takes_things_with_several_documents(self):
        import tempfile
        things = [{"id": "lamp", "documents": [{"id": "page", "text": "A red lamp."}, {"id": "manual", "text": "Lamp, 9 W."}]},
                  {"id": "text", "text": "One text."},
                  {"id": "twice", "documents": [{"id": 1, "text": "a"}, {"id": 1, "text": "b"}]}]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as schema:
            json.dump(SCHEMA, schema)
            schema.flush()
            for fuse in ("values", "tokens"):
                expected = command_rows("extract", things[:2], "--schema", schema.name, "--fuse", fuse)
                status, reply = self.server.json("/v1/extract", {"documents": things, "schema": SCHEMA, "fuse": fuse})
                self.assertEqual((status, reply["rows"][:2]), (200, expected))
                self.assertIn("two have the id '1'", reply["rows"][2]["error"]["message"])
        self.assertEqual(self.server.json("/v1/extract", {"documents": things, "schema": SCHEMA, "fuse": "x"})[0], 400)

    def test_rag_gives_the_rows_of_the_command(self):
        documents = ASK["documents"]
        rows = [{"question": q, "documents": documents} for q in QUESTIONS]
        for method in ("experts", "map-reduce"):
            expected = [timeless(r) for r in command_rows("rag", rows, "--method", method)]
            body = {"questions": QUESTIONS, "documents": documents, "method": method}
            status, reply = self.server.json("/v1/rag", body)
            self.assertEqual(status, 200, reply)
            self.assertEqual([timeless(r) for r in reply["rows"]], expected)
            events = self.server.stream("/v1/rag", body)
            streamed = {e["question"]: timeless(e["row"]) for e in events if e["type"] == "answer"}
            self.assertEqual([streamed[i] for i in range(len(QUESTIONS))], expected)

    def test_what_rag_streams_is_final(self):
        """The text of the events is the row's answer, whichever document's it becomes in the end."""
        lockers = ["The code of Mila's locker is LMB-K 311. Tickets cost 12 euros on weekdays.",
                   "The\nweather was mild; nobody complained. The code of Mila's locker is KT-2 932."]
        replaced = 0
        for more in ({}, {"relevance": "equal"}, {"copy": False}, {"copy": False, "switch": "token"}, {"method": "concat"},
                     {"method": "map-reduce"}, {"max_tokens": 2}, {"copy": False, "max_tokens": 2}):
            for questions, documents in ((QUESTIONS, ASK["documents"]), (["What is the code of Mila's locker?"], lockers)):
                events = self.server.stream("/v1/rag", {"questions": questions, "documents": documents, **more})
                rows = {e["question"]: e["row"] for e in events if e["type"] == "answer"}
                self.assertEqual(len(rows), len(questions))
                for i, row in rows.items():
                    said = "".join(e["text"] for e in events if e["type"] == "token" and e["question"] == i)
                    self.assertEqual(said, row["answer"] or "", more)
                    replaced += row["trace"].get("joint", row["answer"]) != row["answer"]
        self.assertGreater(replaced, 0)

    def test_256_documents_are_copied_from_on_an_idle_server(self):
        texts = [part for path in sorted((ROOT / "docs").glob("*.md")) for part in path.read_text(encoding="utf-8").split("\n\n")]
        texts = [part for part in texts if 200 < len(part) < 1000][:256]
        body = {"documents": texts, "questions": QUESTIONS, "copy": True, "max_tokens": 2}
        for method in ("top1", "concat"):
            status, reply = self.server.json("/v1/rag", dict(body, method=method, too_long="truncate"))
            self.assertEqual(status, 200, reply)
            for row in reply["rows"]:
                self.assertNotIn("error", row)
                self.assertNotIn("dropped", row)

    def test_a_bad_document_is_a_row_and_not_the_end(self):
        documents = [{"id": "a", "text": FERRY}, {"id": "a", "text": PIER}, 5, {"id": "d"}]
        status, reply = self.server.json("/v1/ask", {"documents": documents, "questions": QUESTIONS[:1]})
        self.assertEqual(status, 200)
        self.assertEqual(reply["rows"][0]["answer"], "Anna Walker")
        for row, word in zip(reply["rows"][1:], ("same id", "expected an object", "context")):
            self.assertIn(word, row["error"]["message"])

    def test_what_makes_no_sense_is_refused_by_name(self):
        for path, body, param in (
                ("/v1/ask", {"questions": ["?"]}, "documents"), ("/v1/ask", dict(ASK, topp=1), "topp"),
                ("/v1/ask", dict(ASK, temperature="hot"), "temperature"), ("/v1/ask", dict(ASK, questions=[5]), "questions"),
                ("/v1/ask", dict(ASK, too_long="maybe"), "too_long"), ("/v1/ask", dict(ASK, copy="yes"), "copy"),
                ("/v1/ask", dict(ASK, min_confidence=2), "min_confidence"), ("/v1/ask", dict(ASK, max_tokens=0), "max_tokens"),
                ("/v1/extract", {"documents": ["x"]}, "schema"), ("/v1/rag", {"questions": ["x"]}, "documents"),
                ("/v1/rag", {"questions": ["x"], "documents": ["y"], "beta": -1}, "beta")):
            status, reply = self.server.json(path, body)
            self.assertEqual((status, reply["error"]["param"]), (400, param), reply)
        for body in (b"", b"[]", b"{", b'{"a":' + b"[" * 5000, b"\xff", json.dumps(dict(ASK, regex="(")).encode()):
            self.assertEqual(self.server.json("/v1/ask", body)[0], 400, body[:20])
        self.assertEqual(self.server.json("/v1/extract", {"documents": ["x"], "schema": {"type": "nothing"}})[0], 400)


class OpenAi(ServeTest):
    def test_a_chat_is_the_same_whole_and_in_pieces(self):
        whole = self.chat(n=2, logprobs=True, top_logprobs=2)
        self.assertEqual(whole["object"], "chat.completion")
        first, second = whole["choices"]
        self.assertEqual(first["message"]["content"].strip(), "Anna Walker")
        self.assertEqual(first["message"], second["message"])
        self.assertEqual(first["finish_reason"], "stop")
        content = first["logprobs"]["content"]
        self.assertEqual("".join(bytes(t["bytes"]).decode() for t in content), first["message"]["content"])
        self.assertTrue(all(len(t["top_logprobs"]) == 2 and t["top_logprobs"][0]["logprob"] == t["logprob"] for t in content))
        body = {"model": NAME, "temperature": 0, "max_tokens": 24, "n": 2, "logprobs": True, "top_logprobs": 2,
                "stream_options": {"include_usage": True},
                "messages": [{"role": "user", "content": FERRY + "\n\nQuestion: Who steers the ferry Marigold?"}]}
        events = self.server.stream("/v1/chat/completions", body)
        self.assertEqual(events[-1]["choices"], [])
        self.assertEqual(events[-1]["usage"]["completion_tokens"], whole["usage"]["completion_tokens"])
        for index in range(2):
            mine = [e["choices"][0] for e in events if e["choices"] and e["choices"][0]["index"] == index]
            self.assertEqual(mine[0]["delta"]["role"], "assistant")
            self.assertEqual("".join(c["delta"].get("content", "") for c in mine), first["message"]["content"])
            tokens = [t for c in mine if c["logprobs"] for t in c["logprobs"]["content"]]
            self.assertEqual(tokens, content)
            self.assertEqual(mine[-1]["finish_reason"], "stop")

    def test_what_was_read_before_is_not_read_again(self):
        text = "The train to Kent leaves at nine. " * 20
        messages = [{"role": "user", "content": text + "\n\nQuestion: When does the train leave?"}]
        first = self.chat(messages=messages)["usage"]
        again = self.chat(messages=messages)["usage"]
        self.assertEqual(first["prompt_tokens"], again["prompt_tokens"])
        self.assertGreater(again["prompt_tokens_details"]["cached_tokens"], again["prompt_tokens"] // 2)

    def test_seeds_stops_and_lengths(self):
        hot = {"temperature": 1.2, "seed": 11, "max_tokens": 12}
        self.assertEqual(self.chat(**hot)["choices"], self.chat(**hot)["choices"])
        texts = {self.chat(temperature=1.9, seed=seed, max_tokens=12)["choices"][0]["message"]["content"] for seed in range(5)}
        self.assertGreater(len(texts), 1)
        short = self.chat(max_tokens=1)["choices"][0]
        self.assertEqual(short["finish_reason"], "length")
        stopped = self.chat(stop=["Walk"])["choices"][0]
        self.assertEqual((stopped["message"]["content"].strip(), stopped["finish_reason"]), ("Anna", "stop"))

    def test_json_as_it_was_asked_for(self):
        schema = {"type": "object", "properties": {"z": {"type": "string", "maxLength": 8}, "a": {"type": "integer"}},
                  "required": ["z", "a"], "additionalProperties": False}
        reply = self.chat(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}, max_tokens=60)
        value = json.loads(reply["choices"][0]["message"]["content"])
        self.assertEqual(list(value), ["z", "a"])  # in the schema's own order
        self.assertIsInstance(value["a"], int)
        anything = self.chat(response_format={"type": "json_object"}, max_tokens=40)["choices"][0]
        self.assertTrue(anything["message"]["content"].startswith("{"))
        letters = self.chat(regex="[a-c]{3}")["choices"][0]["message"]["content"]
        self.assertRegex(letters, "^[a-c]{3}$")

    def test_text_completions(self):
        body = {"model": NAME, "prompt": ["Anna Walker steers", "The pier was"], "temperature": 0, "max_tokens": 6, "logprobs": 1}
        status, reply = self.server.json("/v1/completions", body)
        self.assertEqual((status, len(reply["choices"])), (200, 2), reply)
        for choice in reply["choices"]:
            self.assertEqual("".join(choice["logprobs"]["tokens"]).strip(), choice["text"].strip())
            self.assertEqual(choice["logprobs"]["text_offset"][0], 0)
        alone = [self.server.json("/v1/completions", dict(body, prompt=p))[1]["choices"][0] for p in body["prompt"]]
        for choice, single in zip(reply["choices"], alone):
            self.assertEqual((choice["text"], choice["logprobs"]), (single["text"], single["logprobs"]))
        events = self.server.stream("/v1/completions", dict(body, prompt=body["prompt"][0]))
        self.assertEqual("".join(e["choices"][0]["text"] for e in events), alone[0]["text"])

    def test_what_is_about_the_asker_is_ignored(self):
        body = {"model": NAME, "messages": [{"role": "user", "content": FERRY}], "temperature": 0, "max_tokens": 4}
        expected = self.server.json("/v1/chat/completions", body)[1]["choices"]
        more = dict(body, user="anna", metadata={"a": "b"}, tools=[], tool_choice="auto", logit_bias={})
        self.assertEqual(self.server.json("/v1/chat/completions", more)[1]["choices"], expected)
        status, reply = self.server.json("/v1/chat/completions", dict(body, tools=[{"type": "function"}]))
        self.assertEqual((status, reply["error"]["param"]), (400, "tools"))
        self.assertIn("calls no tools", reply["error"]["message"])
        status, headers, _ = self.server.ask("GET", "/v1/chat/completions")
        self.assertEqual((status, headers["Allow"]), (405, "OPTIONS, POST"))
        status, headers, _ = self.server.ask("POST", "/")
        self.assertEqual((status, headers.get("Allow")), (405, "OPTIONS, GET, HEAD"))

    def test_responses_are_chats(self):
        content = FERRY + "\n\nQuestion: Who steers the ferry Marigold?"
        chat = self.server.json("/v1/chat/completions", {
            "model": NAME, "temperature": 0, "max_tokens": 20,
            "messages": [{"role": "system", "content": "Answer."}, {"role": "user", "content": content}]})[1]
        body = {"model": NAME, "input": content, "instructions": "Answer.", "temperature": 0, "max_output_tokens": 20}
        status, reply = self.server.json("/v1/responses", body)
        self.assertEqual(status, 200, reply)
        expected = chat["choices"][0]["message"]["content"]
        self.assertEqual(reply["output"][0]["content"][0]["text"], expected)
        self.assertEqual((reply["object"], reply["status"]), ("response", "completed"))
        self.assertEqual(reply["usage"]["input_tokens"], chat["usage"]["prompt_tokens"])
        self.assertEqual(reply["usage"]["output_tokens"], chat["usage"]["completion_tokens"])
        parts = dict(body, input=[{"role": "user", "content": [{"type": "input_text", "text": content}]}])
        self.assertEqual(self.server.json("/v1/responses", parts)[1]["output"][0]["content"], reply["output"][0]["content"])
        cut = self.server.json("/v1/responses", dict(body, max_output_tokens=1))[1]
        self.assertEqual((cut["status"], cut["incomplete_details"]), ("incomplete", {"reason": "max_output_tokens"}))
        events = [json.loads(line[6:]) for line in self.server.ask("POST", "/v1/responses", json.dumps(
            dict(body, stream=True)))[2].decode().splitlines() if line.startswith("data: ")]
        self.assertEqual([event["sequence_number"] for event in events], list(range(len(events))))
        self.assertEqual(events[0]["type"], "response.created")
        self.assertEqual(events[-1]["type"], "response.completed")
        self.assertEqual("".join(e["delta"] for e in events if e["type"] == "response.output_text.delta"), expected)
        self.assertEqual(events[-1]["response"]["output"][0]["content"], reply["output"][0]["content"])
        schema = {"type": "object", "properties": {"zeta": {"type": "boolean"}, "alpha": {"type": "boolean"}},
                  "required": ["zeta", "alpha"], "additionalProperties": False}
        shaped = self.server.json("/v1/responses", dict(body, text={"format": {
            "type": "json_schema", "name": "x", "schema": schema}}))[1]
        self.assertEqual(list(json.loads(shaped["output"][0]["content"][0]["text"])), ["zeta", "alpha"])
        for name, value in (("tools", [{"type": "web_search"}]), ("previous_response_id", "resp_1"), ("reasoning", {"effort": "low"}),
                            ("max_output_tokens", 0), ("input", []), ("background", True)):
            status, refused = self.server.json("/v1/responses", dict(body, **{name: value}))
            self.assertEqual((status, refused["error"]["param"]), (400, name), refused)

    def test_parameters_that_are_not_there_are_refused_by_name(self):
        for name, value in (("tools", [{"type": "function"}]), ("logit_bias", {"5": 1}), ("presence_penalty", 0.5),
                            ("frequency_penalty", 1), ("audio", {}), ("top_logprobs", 3), ("n", 0),
                            ("messages", []), ("stream_options", {"include_usage": True}), ("max_tokens", 10**6),
                            ("temperature", 3), ("reasoning_effort", "high")):
            status, reply = self.server.json("/v1/chat/completions", {
                "model": NAME, "messages": [{"role": "user", "content": "x"}], name: value})
            self.assertEqual((status, reply["error"]["param"]), (400, name), reply)
        status, reply = self.server.json("/v1/chat/completions", {"model": "gpt-9", "messages": []})
        self.assertEqual((status, reply["error"]["code"]), (404, "model_not_found"))
        long = [{"role": "user", "content": "word " * 9000}]
        status, reply = self.server.json("/v1/chat/completions", {"model": NAME, "messages": long})
        self.assertEqual(reply["error"]["code"], "context_length_exceeded")
        self.assertEqual(self.server.json("/v1/embeddings", {"model": "x", "input": "y"})[0], 404)


class Company(ServeTest):
    """Every answer is what it is alone, whoever else asks and goes away."""
    ARGUMENTS = ("--threads", 2)  # their processor time is measured

    def test_answers_do_not_depend_on_company(self):
        requests = mixed_requests()
        alone = [essence(self.server.json(path, body)[1]) for path, body in requests]
        wrong, stop = [], threading.Event()

        def good(seed):
            order = list(range(len(requests)))
            random.Random(seed).shuffle(order)
            for i in order:
                status, reply = self.server.json(*requests[i])
                if status != 200 or essence(reply) != alone[i]:
                    wrong.append((requests[i][0], status, reply))

        def leaves():
            path, body = "/v1/chat/completions", {
                "model": NAME, "messages": [{"role": "user", "content": FERRY * 3}], "max_tokens": 1500, "stream": True,
                "regex": "[a-z ]{6000,}"}
            while not stop.is_set():
                connection = self.server.connect()
                connection.request("POST", path, json.dumps(body))
                connection.getresponse().read(200)
                connection.close()

        people = [threading.Thread(target=good, args=(seed,)) for seed in range(4)]
        leavers = [threading.Thread(target=leaves) for _ in range(2)]
        for thread in people + leavers:
            thread.start()
        for thread in people:
            thread.join()
        stop.set()
        for thread in leavers:
            thread.join()
        self.assertEqual(wrong, [])
        self.server.wait_until(lambda: self.server.metric("banyan_running_answers") == 0)
        self.assertGreater(self.server.metric("banyan_cancelled_total"), 0)
        self.assertEqual(self.server.metric("banyan_waiting_answers"), 0)

    def test_whoever_leaves_costs_nothing_lasting(self):
        body = {"model": NAME, "messages": [{"role": "user", "content": FERRY}], "max_tokens": 2000, "regex": "[a-z ]{5000,}"}
        connection = self.server.connect()
        connection.request("POST", "/v1/chat/completions", json.dumps(body))
        self.server.wait_until(lambda: self.server.metric("banyan_running_answers") == 1)
        connection.close()
        before = self.server.processor_seconds()
        self.server.wait_until(lambda: self.server.metric("banyan_running_answers") == 0)
        self.assertLess(self.server.processor_seconds() - before, 5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
