from hypothesis import given
from hypothesis import strategies as st
from packaging.markers import Marker

from stackgen.locks.fields import reach

_PLATFORMS = ("linux", "win32", "darwin")
markers = st.sampled_from(["", *(f"sys_platform == '{p}'" for p in _PLATFORMS)])
graphs = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), markers), max_size=16)


def walked(graph: list[tuple[int, int, str]], platform: str) -> set[int]:
    """Return what a walk on one platform finds."""
    found, waiting = set(), [0]
    while waiting:
        node = waiting.pop()
        if node in found:
            continue
        found.add(node)
        for source, target, marker in graph:
            if source == node and (
                not marker or Marker(marker).evaluate({"sys_platform": platform})
            ):
                waiting.append(target)
    return found


@given(graphs, st.sampled_from(_PLATFORMS))
def test_a_nodes_marker_holds_exactly_where_a_walk_reaches_it(
    graph: list[tuple[int, int, str]], platform: str
) -> None:
    reached = reach([(0, "")], lambda node: [(t, m) for s, t, m in graph if s == node])
    holds = {
        node
        for node, marker in reached.items()
        if not marker or Marker(marker).evaluate({"sys_platform": platform})
    }
    assert holds == walked(graph, platform)


def test_more_ways_than_are_worth_following_mean_always() -> None:
    ways = [(1, f"python_full_version == '3.{n}'") for n in range(100)]
    assert reach(ways, lambda _: [])[1] == ""
