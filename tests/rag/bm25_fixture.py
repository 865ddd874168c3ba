"""Makes tests/data/retrieve/bm25.json with the Python package bm25s; prints it.

    python3 tests/rag/bm25_fixture.py > tests/data/retrieve/bm25.json
"""
import json
import random


def corpus():
    """(documents, queries), as words; common words are common."""
    rng = random.Random(7)
    words = [f"w{i}" for i in range(40)]
    documents = [[words[min(39, int(rng.expovariate(0.12)))] for _ in range(rng.randint(1, 30))] for _ in range(12)]
    queries = [[rng.choice(words) for _ in range(rng.randint(1, 6))] for _ in range(8)]
    return documents, queries + [["w1", "w1", "w2"], ["w3", "absent"]]


def scores_by_bm25s(documents, queries):
    import bm25s

    model = bm25s.BM25()
    model.index([list(d) for d in documents], show_progress=False)
    return [[float(x) for x in model.get_scores(q)] for q in queries]


def main():
    import bm25s

    documents, queries = corpus()
    parts = {"docs": documents, "queries": queries, "scores": scores_by_bm25s(documents, queries)}
    made_by = f"bm25s {bm25s.__version__}, BM25() with its defaults, get_scores (tests/rag/bm25_fixture.py)"
    lists = [f' "{name}": [\n' + ",\n".join("  " + json.dumps(row) for row in rows) + "]" for name, rows in parts.items()]
    print(f'{{"made_by": "{made_by}",\n' + ",\n".join(lists) + "}")


if __name__ == "__main__":
    main()
