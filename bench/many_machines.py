"""What 1 to 1000 workers give on a job of many documents, from costs that were measured on one machine.

    python3 -m bench.many_machines measure costs.json            (the Python package and ray must be installed)
    python3 -m bench.many_machines simulate costs.json OUT.svg   (prints the table of docs/many-machines.md)

The simulation is of events: the driver plans (one after another), hands out blocks (one after another), workers load the
model, answer blocks and write parts (side by side, each block's speed a little different), the driver joins the rows.
"""
import heapq
import json
import math
import random
import sys
import tempfile
import time

WORKERS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def simulate(workers: int, blocks: list[float], costs: dict, seed: int = 1) -> dict:
    """Seconds of a job whose blocks take so long to answer, and where they went."""
    draw = random.Random(seed)
    plan = costs["plan_seconds_per_document"] * costs["documents"]
    join = costs["join_seconds_per_row"] * costs["rows"]
    free = [(plan + costs["start_seconds"] * draw.lognormvariate(0.0, costs["start_spread"]), worker)
            for worker in range(workers)]
    heapq.heapify(free)
    driver = plan  # when it can hand out the next block
    disk = plan  # when the shared folder can take the next files
    end = busy = 0.0
    for seconds in sorted(blocks, reverse=True):
        ready, worker = heapq.heappop(free)
        driver = max(driver, ready) + costs["hand_out_seconds"]
        work = seconds * draw.lognormvariate(0.0, costs["speed_spread"]) + costs["block_seconds"]
        written = max(disk, driver + work) if costs["files_per_second"] else driver + work
        if costs["files_per_second"]:
            disk = max(disk, driver + work - 1.0) + 2.0 / costs["files_per_second"]
        heapq.heappush(free, (written, worker))
        end = max(end, written)
        busy += work
    return {"workers": workers, "seconds": end + join, "plan": plan, "join": join, "busy": busy,
            "driver": costs["hand_out_seconds"] * len(blocks)}


def study(costs: dict, limits: tuple = WORKERS) -> list[dict]:
    """One simulation for every number of workers, with how much of the linear gain is there."""
    count = max(1, round(costs["documents"] * costs["tokens_per_document"] / costs["block_tokens"]))
    blocks = [costs["block_tokens"] * costs["seconds_per_token"]] * count
    rows = [simulate(workers, blocks, costs) for workers in limits]
    for row in rows:
        row["speedup"] = rows[0]["seconds"] / row["seconds"] * rows[0]["workers"]
        row["linear"] = row["speedup"] / row["workers"]
        row["blocks_per_worker"] = count / row["workers"]
    return rows


def breaking_points(costs: dict) -> dict:
    """How many workers each shared part can serve before it is what everybody waits for."""
    block = costs["block_tokens"] * costs["seconds_per_token"]
    count = costs["documents"] * costs["tokens_per_document"] / costs["block_tokens"]
    serial = costs["plan_seconds_per_document"] * costs["documents"] + costs["join_seconds_per_row"] * costs["rows"]
    return {"handing out blocks": block / costs["hand_out_seconds"],
            "files of the shared folder": block * costs["files_per_second"] / 2.0,
            "planning and joining take 5 % of the time": 0.05 * block * count / serial,
            "fewer than 20 blocks a worker": count / 20.0}


def draw(rows: list[dict], title: str) -> str:
    """Speed-up against workers on two logarithmic axes, with the line that would be linear."""
    left, top, width, height = 70, 50, 520, 340
    most = math.log10(max(row["workers"] for row in rows))

    def x(workers):
        return left + width * math.log10(workers) / most

    def y(speedup):
        return top + height * (1 - math.log10(max(speedup, 1)) / most)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="640" height="450" font-family="sans-serif" font-size="12">',
             '<rect width="640" height="450" fill="white"/>', f'<text x="{left}" y="28" font-size="15">{title}</text>']
    for power in range(int(most) + 1):
        value = 10 ** power
        parts.append(f'<line x1="{x(value):.1f}" y1="{top}" x2="{x(value):.1f}" y2="{top + height}" stroke="#ddd"/>'
                     f'<text x="{x(value):.1f}" y="{top + height + 18}" text-anchor="middle">{value}</text>'
                     f'<line x1="{left}" y1="{y(value):.1f}" x2="{left + width}" y2="{y(value):.1f}" stroke="#ddd"/>'
                     f'<text x="{left - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value}</text>')
    parts.append(f'<text x="{left + width / 2}" y="{top + height + 40}" text-anchor="middle">workers</text>'
                 f'<text transform="translate(22,{top + height / 2}) rotate(-90)" text-anchor="middle">times as fast as one</text>')
    parts.append(f'<line x1="{x(1)}" y1="{y(1)}" x2="{x(10 ** most):.1f}" y2="{y(10 ** most):.1f}" stroke="#999" stroke-dasharray="5 4"/>')
    points = " ".join(f"{x(row['workers']):.1f},{y(row['speedup']):.1f}" for row in rows)
    parts.append(f'<polyline points="{points}" fill="none" stroke="#2a7" stroke-width="2.5"/>')
    for row in rows:
        parts.append(f'<circle cx="{x(row["workers"]):.1f}" cy="{y(row["speedup"]):.1f}" r="4" fill="#2a7"/>')
        parts.append(f'<text x="{x(row["workers"]) + 8:.1f}" y="{y(row["speedup"]) + 14:.1f}" fill="#175">{100 * row["linear"]:.0f} %</text>')
    return "\n".join(parts + ["</svg>"]) + "\n"


def table(rows: list[dict]) -> str:
    lines = ["| workers | hours | times as fast | of linear | blocks a worker |", "|---|---|---|---|---|"]
    for row in rows:
        lines.append(f"| {row['workers']} | {row['seconds'] / 3600:.2f} | {row['speedup']:.1f} | {100 * row['linear']:.1f} % "
                     f"| {row['blocks_per_worker']:.0f} |")
    return "\n".join(lines)


def measure() -> dict:
    """The costs of this machine, in processor seconds: others may be running; files a second by the clock."""
    import pathlib

    import banyan
    from banyan._block_job import BlockWorker, plan
    from banyan._job_folder import JobFolder
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        text = "The ferry Marigold leaves at 7:45 every morning. It is painted yellow and has 64 seats. " * 6
        many = [{"id": i, "context": f"{i} {text}", "questions": ["Who?", "When?", "Why?"]} for i in range(1000)]
        start = time.process_time()
        plan("ask", many, folder / "planned", {"max_new": 16}, model=banyan._model.find_model(None), model_options={},
             workers=100, block_tokens=100_000)
        planned = (time.process_time() - start) / len(many)
        some = many[:8]
        job = plan("ask", some, folder / "job", {"max_new": 16}, model=banyan._model.find_model(None), model_options={},
                   workers=1, block_tokens=2000)
        start = time.process_time()
        worker = BlockWorker(str(folder / "job"), {"threads": 1}, "ask", {"max_new": 16}, {}, {})
        loaded = time.process_time() - start
        manifest = job.manifest()
        start = time.process_time()
        for number in range(len(manifest["blocks"])):
            worker({"block": [number]})
        answered = time.process_time() - start
        rows = []
        start = time.process_time()
        for _ in range(20):
            facts = job.join(rows.append)
        joined = (time.process_time() - start) / 20 / facts["rows"]
        computed = facts["prefilled_tokens"] + facts["generated_tokens"]
        empty = JobFolder(folder / "empty")
        (empty.path / "parts").mkdir(parents=True)
        began = time.monotonic()
        for number in range(100):
            empty.write_part(number, [[0, 0, "rows", 1]], [b'{"id":1,"banyan:record":0}'],
                             {"seconds": 0})
        files = 200 / (time.monotonic() - began)
        worker.model.close()
    return {"plan_seconds_per_document": planned, "join_seconds_per_row": joined, "start_seconds": 10.0 + loaded,
            "start_spread": 0.3, "seconds_per_token": answered / computed, "block_seconds": 0.05, "speed_spread": 0.03,
            "hand_out_seconds": measure_hand_out(), "files_per_second": files, "documents": 1_000_000, "rows": 3_000_000,
            "tokens_per_document": computed / len(some), "block_tokens": 100_000}


def measure_hand_out(few: int = 5, many: int = 40) -> float:
    """Processor seconds of the driver, whose loop hands out one block after another, for one that costs nothing."""
    import ray
    import ray.data

    class Nothing:
        def __call__(self, batch):
            return batch
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    seconds = []
    for blocks in (few, many):
        items = ray.data.from_items([{"block": n} for n in range(blocks)], override_num_blocks=blocks)
        start = time.process_time()
        list(items.map_batches(Nothing, batch_size=1, compute=ray.data.ActorPoolStrategy(size=1)).iter_rows())
        seconds.append(time.process_time() - start)
    ray.shutdown()
    return max(1e-4, (seconds[1] - seconds[0]) / (many - few))


def main() -> int:
    if sys.argv[1] == "measure":
        costs = measure()
        with open(sys.argv[2], "w") as file:
            json.dump(costs, file, indent=1)
            file.write("\n")
        print(json.dumps(costs, indent=1))
        return 0
    with open(sys.argv[2]) as file:
        costs = json.load(file)
    rows = study(costs)
    with open(sys.argv[3], "w") as file:
        file.write(draw(rows, f"{costs['documents']:,} documents on many workers (simulated)"))
    print(table(rows))
    for what, workers in sorted(breaking_points(costs).items(), key=lambda one: one[1]):
        print(f"- {what}: from {workers:.0f} workers on")
    return 0


if __name__ == "__main__":
    sys.exit(main())
