"""What is read from the figures of `banyan bench`: series → measure → value."""

from __future__ import annotations

from bench.evidence.figures import RAN

PREDICTED = "s at least, by the program's prediction"
RELAY = "relay"  # RelayAttention: the system prompt alone is shared
RATE, DECODE, MEMORY, SECONDS, FIRST = "questions/s", "decode tok/s", "KV MiB", "s", "s to the first token"
GAIN = "auto over flat, times"


def of_work(names: dict[str, str] | None = None):
    """Reads `bench tree` and the named jobs: strategies, or those of `names` under the names there. Flat may have run
    only its first streams: then rates are of those alone, time and memory are calculated for all, and RAN says so."""

    def read(json: object) -> dict[str, dict[str, float]]:
        found = {}
        for s in json["strategies"]:
            if names is not None and s["strategy"] not in names:
                continue
            whole = json["streams"] / s["streams"]
            measures = {
                RATE: s["questions_per_second"],
                SECONDS: s["seconds"] * whole,
                MEMORY: s["kv_bytes_peak"] * whole / 2**20,
                PREDICTED: s["limit_seconds"] * whole,
                "rows": (s["prefilled_tokens"] + s["generated_tokens"]) * whole,
            }
            if whole > 1:
                measures[RAN] = 1 / whole
            if s["decode_tokens_per_second"] > 0:
                measures[DECODE] = s["decode_tokens_per_second"]
            found[names[s["strategy"]] if names else s["strategy"]] = measures
        return found

    return read


def of_extract(json: object) -> dict[str, dict[str, float]]:
    """A series for each mode; of several stacks, one for each."""
    stacks = sorted({m["stack"] for m in json["modes"] if m["values"] == "skeleton, stacked"})
    return {
        m["values"]
        + (f" by {m['stack']}" if len(stacks) > 1 and m["stack"] > 1 else ""): {
            "documents/s": m["documents_per_second"],
            "steps": m["steps"],
            "values at once": min(m["stack"], json["documents"]) * json["attributes"],
        }
        for m in json["modes"]
    }


def of_rag(json: object) -> dict[str, dict[str, float]]:
    names = ("experts, documents in memory", "experts, documents computed", "one prompt")
    return {
        name: {FIRST: json[name]["first_token_seconds"], SECONDS: json[name]["seconds"]}
        for name in names
        if name in json
    }


def of_attention(json: object) -> dict[str, dict[str, float]]:
    return {name: {"µs": times["median_us"]} for name, times in json[0]["strategies"].items()}


def of_gain(name: str):
    """The rate of auto over that of flat in one command, as a series of its own."""

    def read(json: object) -> dict[str, dict[str, float]]:
        rates = {s["strategy"]: s["questions_per_second"] for s in json["strategies"]}
        ran = min(s["streams"] for s in json["strategies"]) / json["streams"]
        return {name: {GAIN: rates["auto"] / rates["flat"]} | ({RAN: ran} if ran < 1 else {})}

    return read


def of_grid(json: object) -> dict[str, dict[str, float]]:
    """The one cell of `bench hydragen`."""
    return of_work()(json[0])
