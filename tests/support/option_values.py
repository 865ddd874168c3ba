"""Values for every row of the option table (`banyan help --json`): some that an interface must take, some that it must refuse."""
import json
import subprocess


def read_table(program):
    return json.loads(subprocess.run([program, "help", "--json"], capture_output=True, check=True, timeout=120).stdout)


def within(row):
    """Values at both ends of the range, as JSON has them."""
    if row["kind"] == "flag":
        return [True, False]
    if row["kind"] in ("whole", "number"):
        least = row.get("least", 0) + (1 if row["range"].startswith("above") else 0)
        ends = [least, row.get("most", least + 1)]
        return [int(value) for value in ends] if row["kind"] == "whole" else [float(value) for value in ends]
    if row["kind"] == "name":
        return row["names"]
    if row["kind"] == "name or number":
        return [*row["names"], row["least"], row["most"]]
    if row["name"] == "labels":
        return [["1", "2"]]
    if row["kind"] == "texts":
        return [["one"], ["one", "two"]]
    if row["kind"] == "json":
        return [{"type": "object"}]
    if row["kind"] == "bytes":
        return ["512M", 1 << 20]
    return {"delimiter": [";", "tab"], "shard": ["1/1", "2/8"], "device": ["cpu", "cpu,cpu"]}.get(row["name"], ["words"])


def outside(row):
    """Values beyond the range, of another type or with a name that there is not."""
    if row["kind"] in ("whole", "number"):
        beyond = [row["least"] - 1, "nonsense"] if "least" in row else ["nonsense"]
        if "most" in row:
            beyond.append(row["most"] + 1)
        return [int(value) if row["kind"] == "whole" and not isinstance(value, str) else value for value in beyond]
    if row["kind"] in ("name", "name or number"):
        return ["nonsense"] + ([-1] if row["kind"] == "name or number" else [])
    if row["kind"] == "bytes":
        return ["nonsense"]
    return {"delimiter": ["nonsense"], "shard": ["9/8"]}.get(row["name"], [])
