#!/usr/bin/env python3
"""Answers of `banyan ask` (stdin) beside their questions and the right answers of the sample (argument)."""
import json
import sys

questions = {}
for line in open(sys.argv[1], encoding="utf-8"):
    record = json.loads(line)
    for question in record["questions"]:
        questions[(record["id"], question["id"])] = question
right = total = 0
for line in sys.stdin:
    row = json.loads(line)
    question = questions[(row["id"], row["question_id"])]
    expected = question.get("answers") or ["null"]
    if "choices" in question:  # the right one is a letter
        expected = [question["choices"]["ABCDEFGHIJ".index(letter)] for letter in expected]
    answer = row.get("answer", row.get("error", {}).get("message", ""))
    good = answer in expected
    right += good
    total += 1
    print(f"  {question['question']:<58} {answer:<28} {'ok' if good else 'expected ' + expected[0]}")
print(f"{right} of {total} right")
sys.exit(0 if total else 1)
