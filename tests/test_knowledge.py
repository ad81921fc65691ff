"""The graph and the explanation of failures, from made-up observations."""

from dataclasses import replace

from stackgen.knowledge import build_graph, explain_failures, signature
from stackgen.measure import effect
from stackgen.values import Environment, Inspection, Outcome
from tests.samples import call, environment, inspection

GOOD, BAD, WORSE = environment("1.26.0"), environment("2.0.0"), environment("2.1.0")
MATMUL = call()


def failure(where: Environment, log: str, outcome: Outcome = Outcome.IMPORT_FAILED) -> Inspection:
    made = inspection(where, MATMUL, 0, None, outcome=outcome)
    return replace(made, log=log)


def test_failures_alike_are_one_group_that_names_what_only_they_share() -> None:
    stacks = [each.stack for each in (GOOD, BAD, WORSE)]
    seen = [
        inspection(GOOD, MATMUL, 1, 1.0),
        failure(BAD, "Traceback\nImportError: numpy 2 in /one/place"),
        failure(WORSE, "Traceback\nImportError: numpy 2 in /another/place"),
    ]
    (group,) = explain_failures(stacks, seen)
    assert len(group.stacks) == 2
    assert group.reason == "ImportError: numpy 2 in ..."
    assert group.shared == ()
    (alone,) = explain_failures(stacks, seen[:2])
    assert alone.shared == (("numpy", "2.0.0"),)


def test_a_stack_that_ran_and_a_lost_engine_are_no_failures() -> None:
    seen = [
        inspection(GOOD, MATMUL, 1, 1.0),
        failure(GOOD, "killed", Outcome.CRASHED),
        failure(BAD, "gone", Outcome.ENGINE_LOST),
    ]
    assert explain_failures([GOOD.stack, BAD.stack], seen) == ()


def test_the_signature_is_the_error_itself() -> None:
    assert signature("noise\nValueError: x at 0xdeadbeef\nmore noise") == "ValueError: x at ..."
    assert signature("") == "no output"


def test_the_graph_binds_stacks_to_releases_runs_failures_and_effects() -> None:
    found = effect(
        a=BAD.stack.id, b=GOOD.stack.id, indicator_id=MATMUL.id, contrasts=[0.1, 0.1] * 4
    )
    graph = build_graph(
        stacks=[GOOD.stack, BAD.stack],
        inspections=[
            inspection(GOOD, MATMUL, 1, 1.0),
            inspection(BAD, MATMUL, 1, None, outcome=Outcome.CRASHED),
        ],
        calls=[MATMUL],
        effects=[found],
    )
    good, bad = f"stack:{GOOD.stack.id}", f"stack:{BAD.stack.id}"
    assert graph.has_edge(good, "release:numpy==1.26.0")
    assert graph.has_edge("release:numpy==1.26.0", "package:numpy")
    assert graph.has_edge(good, f"indicator:{MATMUL.id}")
    assert graph.has_edge(bad, "outcome:crashed")
    (edge,) = graph.get_edge_data(bad, good).values()
    assert edge["verdict"] == "faster"
