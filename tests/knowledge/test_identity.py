"""Ids are a promise to every knowledge base that exists: none of these values may ever change.

Whoever has to change one raises ID_SCHEME and adds a migration; see stackgen/model/identity.py.
"""

import re
from dataclasses import replace

import pytest

from stackgen.model.identity import ID_SCHEME, canonical_json, content_id
from stackgen.model.inspections import (
    OUTCOME_CODES,
    ROLE_CODES,
    Indicator,
    Observation,
    Outcome,
    Role,
)
from tests.knowledge import samples

PLAIN = samples.inspection(3)
FULL = replace(
    PLAIN,
    observation=Observation(
        values_s=(0.002, 0.004),
        loops=4,
        work=12.5,
        steady=False,
        checksum=0.25,
        peak_memory_bytes=1024,
        circumstances=(("cpu_mhz", "3000"),),
        loaded=PLAIN.observation.loaded,  # type: ignore[union-attr]
    ),
    unenforced=("memory",),
)


def indicator(**changes: object) -> Indicator:
    return replace(samples.CALL.indicator, **changes)  # type: ignore[arg-type]


GOLDEN = {
    "lock": (
        samples.STACK.lock.id,
        "58900a98a3b447aee486cf78f2cc114a843949d7ed1b674cbdef67616a307256",
    ),
    "stack": (samples.STACK.id, "8dce791acf34d244eea8a42b7a9afe2d56b26a0bf05641c607f9990bb49ebc57"),
    "machine": (
        samples.MACHINE.id,
        "fa3d0073cae406f50b93f41714448671f557c9988f05caed1cbcd554725b817d",
    ),
    "campaign": (
        samples.CAMPAIGN.id,
        "52b1264f8d6ae7e54f2f6cd08f2bd61d06c4de4c0a39e3e6fc037428f75ad9a1",
    ),
    "indicator": (
        samples.CALL.id,
        "b7163353eff559808f78eb3e7ad0c65953a4f992e1ffcaeb5257d783e183d69e",
    ),
    "own indicator": (
        replace(samples.CALL, indicator=indicator(own_sha256="cd")).id,
        "f457393a010d4ab4c051c9014230d63083f98c5397380ae4ac49075b9f556a66",
    ),
    "inspection": (PLAIN.id, "6b803dc3c82f3697c03cf773befd95046ad32d03c3299b3433603fcdb6b1ae06"),
    "full inspection": (
        FULL.id,
        "6f3aaceb0dc1a9e127b7f92966651b2988c232314976e1a58f873d8f6f40e374",
    ),
    "failed inspection": (
        samples.inspection(3, outcome=Outcome.OUT_OF_MEMORY).id,
        "e707fa3ccce62f87c7e942f9689b46f072c91694e3c83f9aa8c7bdcc5da3779c",
    ),
}


@pytest.mark.parametrize("kind", GOLDEN)
def test_an_id_stays_what_it_is_in_every_knowledge_base(kind: str) -> None:
    computed, recorded = GOLDEN[kind]
    assert computed == recorded
    assert ID_SCHEME == 2


@pytest.mark.parametrize(
    ("codes", "spelled"),
    [
        (ROLE_CODES, "baseline twin candidate calibration search"),
        (
            OUTCOME_CODES,
            "ok unsupported download_failed hash_mismatch build_failed import_failed crashed "
            "timeout out_of_memory invalid_output engine_lost",
        ),
    ],
)
def test_each_role_and_outcome_has_a_frozen_code(
    codes: dict[Role | Outcome, str], spelled: str
) -> None:
    assert list(codes.values()) == spelled.split()
    assert set(codes) == set(type(next(iter(codes))))


def test_ids_do_not_depend_on_how_members_of_an_enum_are_spelled() -> None:
    spelled_otherwise = {each.value for each in Role} - set(ROLE_CODES.values())
    ids = {each: replace(PLAIN, role=each).id for each in Role}
    assert len(set(ids.values())) == len(Role)
    assert all(re.fullmatch("[0-9a-f]{64}", each) for each in ids.values())
    for word in spelled_otherwise:
        assert word not in canonical_json(list(ROLE_CODES.values()))


def test_an_indicators_source_is_a_fact_and_no_part_of_its_identity() -> None:
    edited = replace(samples.CALL, indicator=indicator(sha256="2f", summary="reworded", path="x"))
    assert edited.id == samples.CALL.id


@pytest.mark.parametrize("change", [{"revision": 2}, {"protocol": 2}, {"own_sha256": "cd"}])
def test_revisions_and_the_content_of_own_scripts_distinguish_indicators(
    change: dict[str, object],
) -> None:
    assert replace(samples.CALL, indicator=indicator(**change)).id != samples.CALL.id


def test_fields_that_are_not_identity_do_not_change_an_id() -> None:
    assert replace(samples.CAMPAIGN, stackgen_version="9").id == samples.CAMPAIGN.id
    assert replace(samples.MACHINE, circumstances=(("kernel", "6"),)).id == samples.MACHINE.id


def test_canonical_json_has_one_text_for_equal_contents() -> None:
    assert (
        canonical_json({"b": [1, 0.1, None], "a": "\u00e9"}) == '{"a":"\\u00e9","b":[1,0.1,null]}'
    )
    assert content_id("lock", []) != content_id("loaded", [])
