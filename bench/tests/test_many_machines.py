"""The simulation of many workers, where its result is known."""

import pathlib
import re
import unittest
import xml.etree.ElementTree

from bench import many_machines
from bench.many_machines import breaking_points, report, simulate, study
from bench.many_machines_plot import draw

FREE = {
    "plan_seconds_per_document": 0.0,
    "join_seconds_per_row": 0.0,
    "start_seconds": 0.0,
    "start_spread": 0.0,
    "prefill_seconds": 0.01,
    "generate_seconds": 0.0,
    "prefilled_per_document": 100,
    "generated_per_document": 0,
    "block_seconds": 0.0,
    "speed_spread": 0.0,
    "hand_out_seconds": 0.0,
    "files_per_second": 0.0,
    "documents": 100_000,
    "rows": 300_000,
}


class Simulation(unittest.TestCase):
    def test_without_overhead_the_gain_is_linear(self):
        rows = study(FREE, (1, 2, 10, 50))
        self.assertAlmostEqual(rows[0]["seconds"], 100_000.0)
        for row in rows:
            self.assertAlmostEqual(row["linear"], 1.0)
            self.assertGreaterEqual(row["blocks_per_worker"], 40)

    def test_blocks_that_do_not_divide_leave_workers_idle(self):
        self.assertAlmostEqual(simulate(3, [10.0] * 4, FREE)["seconds"], 20.0)

    def test_serial_parts_are_added(self):
        found = simulate(2, [10.0] * 2, {**FREE, "plan_seconds_per_document": 0.001, "join_seconds_per_row": 0.002})
        self.assertAlmostEqual(found["seconds"], 100.0 + 10.0 + 600.0)

    def test_a_driver_that_hands_out_slowly_is_the_limit(self):
        slow = simulate(100, [10.0] * 1000, {**FREE, "hand_out_seconds": 1.0})["seconds"]
        self.assertGreaterEqual(slow, 1000.0)
        self.assertLess(slow, 1020.0)

    def test_parts_go_onto_one_disk_in_the_order_of_their_ends(self):
        found = simulate(2, [10.0, 1.0], {**FREE, "files_per_second": 2.0})  # a second a part
        self.assertAlmostEqual(found["seconds"], 11.0)
        found = simulate(4, [10.0] * 4, {**FREE, "files_per_second": 2.0})
        self.assertAlmostEqual(found["seconds"], 14.0)

    def test_what_breaks_first_is_where_the_gain_falls(self):
        costs = {**FREE, "plan_seconds_per_document": 0.001}
        points = breaking_points(costs)
        first = min(points, key=points.get)
        self.assertIn("planning", first)
        share = study(costs, (1, round(points[first])))[1]["linear"]
        self.assertTrue(0.94 < share < 0.96, share)

    def test_blocks_are_as_large_as_the_package_makes_them(self):
        text = (pathlib.Path(many_machines.ROOT) / "python" / "banyan" / "_plan.py").read_text()
        found = re.search(
            r"^BLOCKS_PER_WORKER, MOST_BLOCK_TOKENS, LEAST_BLOCK_TOKENS = (\d+), ([\d_]+), ([\d_]+)", text, re.M
        )
        self.assertEqual(
            tuple(int(one) for one in found.groups()),
            (many_machines.BLOCKS_PER_WORKER, many_machines.MOST_BLOCK_TOKENS, many_machines.LEAST_BLOCK_TOKENS),
        )


class Report(unittest.TestCase):
    def test_the_page_has_what_the_recorded_costs_give(self):
        import json

        root = pathlib.Path(many_machines.ROOT)
        costs = json.loads((root / "bench" / "many_machines_costs.json").read_text())
        self.assertIn(report(costs), (root / "docs" / "many-machines.md").read_text())
        studies = {name: study({**costs["machine"], **job}) for name, job in costs["jobs"].items()}
        self.assertEqual(draw(studies), (root / "docs" / "images" / "many-machines.svg").read_text())

    def test_the_picture_has_a_point_for_every_number_of_workers(self):
        picture = draw({"a": study(FREE, (1, 10, 100)), "b": study(FREE, (1, 10, 100))})
        xml.etree.ElementTree.fromstring(picture)
        self.assertEqual(picture.count("<circle"), 2 * 3 + 2)
        self.assertIn("prefers-color-scheme:dark", picture)


if __name__ == "__main__":
    unittest.main()
