"""The simulation of many workers, where its result is known."""
import unittest

from bench.many_machines import breaking_points, draw, simulate, study

FREE = {"plan_seconds_per_document": 0.0, "join_seconds_per_row": 0.0, "start_seconds": 0.0, "start_spread": 0.0,
        "seconds_per_token": 0.01, "block_seconds": 0.0, "speed_spread": 0.0, "hand_out_seconds": 0.0,
        "files_per_second": 0.0, "documents": 1000, "rows": 3000, "tokens_per_document": 100, "block_tokens": 1000}


class Simulation(unittest.TestCase):
    def test_without_overhead_the_gain_is_linear(self):
        rows = study(FREE, (1, 2, 10, 50))
        self.assertAlmostEqual(rows[0]["seconds"], 1000.0)
        for row in rows:
            self.assertAlmostEqual(row["linear"], 1.0)

    def test_blocks_that_do_not_divide_leave_workers_idle(self):
        self.assertAlmostEqual(simulate(3, [10.0] * 4, FREE)["seconds"], 20.0)

    def test_serial_parts_are_added(self):
        found = simulate(2, [10.0] * 2, {**FREE, "plan_seconds_per_document": 0.001, "join_seconds_per_row": 0.002})
        self.assertAlmostEqual(found["seconds"], 1.0 + 10.0 + 6.0)

    def test_a_driver_that_hands_out_slowly_is_the_limit(self):
        costs = {**FREE, "hand_out_seconds": 1.0}
        self.assertAlmostEqual(breaking_points({**costs, "files_per_second": 1e9, "join_seconds_per_row": 1e-9})["handing out blocks"], 10.0)
        slow = simulate(100, [10.0] * 1000, costs)["seconds"]
        self.assertGreaterEqual(slow, 1000.0)
        self.assertLess(slow, 1020.0)

    def test_the_picture_has_a_point_for_every_number_of_workers(self):
        self.assertEqual(draw(study(FREE, (1, 10, 100)), "title").count("<circle"), 3)


if __name__ == "__main__":
    unittest.main()
