"""A thousand times load, ask, close: memory does not grow."""
import os
import unittest

import banyan
from support import PackageTest

CYCLES = int(os.environ.get("CYCLES", "1000"))


def resident() -> int:
    """Bytes of the process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Leaks(PackageTest):
    def test_load_ask_close(self):
        def cycle():
            with banyan.Model(self.model_path, threads=1) as model:
                banyan.ask([{"context": "abc", "question": "d?"}], model=model, max_new=2, engine={"kv_memory": "1M"})
                with banyan.Engine(model, kv_memory="1M") as engine:
                    engine.submit("abc", max_new=2, want_logits=True).answer()

        for _ in range(CYCLES // 5):  # until the allocator has what it keeps
            cycle()
        before, threads = resident(), len(os.listdir("/proc/self/task"))
        files = len(os.listdir("/proc/self/fd"))
        for _ in range(CYCLES - CYCLES // 5):
            cycle()
        grown = resident() - before
        self.assertLess(grown, 8 << 20, f"{grown / (CYCLES - CYCLES // 5):.0f} bytes a cycle")
        self.assertLessEqual(len(os.listdir("/proc/self/task")), threads)
        self.assertLessEqual(len(os.listdir("/proc/self/fd")), files)


if __name__ == "__main__":
    unittest.main()
