"""Do a fixed piece of plain Python: the control that must read the same on equal interpreters."""

# /// script
# requires-python = ">=3.6"
# dependencies = []
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness

INDICATOR = {
    "summary": "Time for a fixed piece of plain Python; no package should change it",
    "component": "python",
    "unit": "",
    "one_shot": False,
    "timeout_s": 120,
    "parameters": {
        "rounds": {"type": "int", "default": 1500, "help": "rounds of work in one operation"},
    },
}


class Counter:
    """Something with an attribute and a method, as plain Python has everywhere."""

    def __init__(self):
        self.total = 0

    def add(self, number):
        self.total = (self.total * 31 + number) % 1000003


def setup(parameters):
    rounds = parameters["rounds"]
    last = []

    def run():
        counter, seen = Counter(), {}
        for number in range(rounds):
            word = "w%d" % (number % 97)
            seen[word] = seen.get(word, 0) + number
            counter.add(sum([digit * digit for digit in (number & 7, number & 15, 3)]))
        counter.add(sum(seen[word] for word in sorted(seen)))
        last[:] = [counter.total]

    return harness.Operation(run, checksum=lambda: float(last[0]))


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
