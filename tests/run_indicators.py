"""Run many indicators in one process, each through the harness; for tests that save imports.

It runs inside stacks, on Python 3.6 and newer: ``run_indicators.py PIS < cases > documents``. Cases
are a list of (path below PIS, arguments); documents are the harness's own, in the same order; those
of indicators that failed are {"outcome": "crashed", "reason": the traceback}.
"""

import importlib.util
import json
import os
import sys
import tempfile
import traceback
from typing import Any, List  # noqa: UP035 - for Python 3.6

FOLDER = os.path.abspath(sys.argv[1])  # noqa: PTH100


def document(number: int, script: str, arguments: List[str]) -> Any:  # noqa: UP006
    """Run one indicator as its command line would, and return what it printed."""
    path = os.path.join(FOLDER, script)  # noqa: PTH118
    handle, output = tempfile.mkstemp(suffix=".json")
    os.close(handle)
    kept = sys.path[:]
    sys.argv = [path, *arguments, "--output", output]
    try:
        spec = importlib.util.spec_from_file_location("indicator_{}".format(number), path)  # noqa: UP032
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        # The harness takes its folder off the path when it is imported, which happens but once.
        sys.path[:] = [folder for folder in kept if os.path.realpath(folder) != FOLDER]
        module.harness.main(module.INDICATOR, module.setup)
        with open(output) as file:  # noqa: PTH123
            return json.load(file)
    except (Exception, SystemExit):  # noqa: BLE001 - whatever happens belongs to this one alone
        return {"outcome": "crashed", "reason": traceback.format_exc()}
    finally:
        os.unlink(output)  # noqa: PTH108


def main() -> None:
    """Answer the cases."""
    cases, answer = json.load(sys.stdin), os.dup(1)
    os.dup2(2, 1)  # what indicators print is not the answer
    found = [
        document(number, script, arguments) for number, (script, arguments) in enumerate(cases)
    ]
    sys.stdout.flush()
    with os.fdopen(answer, "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
