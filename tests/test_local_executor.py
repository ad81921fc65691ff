"""Inspections in an interpreter as it is: nothing is confined, and that is said."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from stackgen.executors import Executor
from stackgen.executors.local import LocalExecutor, passed_variables, trace_folder
from stackgen.model.inspections import Outcome
from stackgen.model.stacks import Machine
from tests.executor_contract import ExecutorContract, Inspect, OwnInterpreter, Plan, Script

SeenWith = Callable[..., str]
TRACED = (
    "return harness.Operation(lambda: None, "
    "trace=lambda folder: open(os.path.join(folder, 'trace.json'), 'w').close())"
)


class TestLocalExecutor(OwnInterpreter, ExecutorContract):
    @pytest.fixture
    def executor(self, tmp_path: Path) -> Iterator[Executor]:
        made = LocalExecutor(machine=Machine(identity=()), scratch=tmp_path / "scratch")
        with closing(made) as executor:
            yield executor

    @pytest.fixture
    def seen_with(self, tmp_path: Path, plan: Plan, script: Script) -> SeenWith:
        def seen_with(environ: dict[str, str], *names: str, **limits: str) -> str:
            made = LocalExecutor(
                machine=Machine(identity=()), scratch=tmp_path / "scratch", environ=environ
            )
            body = f"raise harness.Unsupported(repr([os.environ.get(n) for n in {names!r}]))"
            with closing(made) as executor:
                (seen,) = executor.inspect([plan(script(body), **limits)])
            return seen.log

        return seen_with

    def test_nothing_is_confined_and_that_is_said(self, inspect: Inspect, script: Script) -> None:
        seen = inspect(script("pass"))
        assert {"network isolation", "read-only stack"} <= set(seen.unenforced)

    def test_what_libraries_read_is_kept(self, seen_with: SeenWith) -> None:
        names = ("LD_LIBRARY_PATH", "XLA_FLAGS", "TF_XLA_FLAGS", "NCCL_DEBUG", "PYTHONPATH")
        seen = seen_with({name: f"/mine/{name}" for name in names}, *names)
        assert [name for name in names if f"/mine/{name}'" not in seen] == []

    def test_the_user_says_which_gpus_are_seen(self, seen_with: SeenWith) -> None:
        mine = {"CUDA_VISIBLE_DEVICES": "3"}
        assert "['3']" in seen_with(mine, *mine, gpus="all")
        assert "['0,1']" in seen_with(mine, *mine, gpus="0,1")
        assert "['']" in seen_with(mine, *mine)

    def test_threads_are_ours_to_say(self, seen_with: SeenWith) -> None:
        assert "['1']" in seen_with({"OMP_NUM_THREADS": "64"}, "OMP_NUM_THREADS")

    def test_what_lies_in_the_users_home_is_found_though_home_is_another_one(
        self, seen_with: SeenWith
    ) -> None:
        user = {"HOME": "/home/me"}
        seen = seen_with(user, "HOME", "PYTHONUSERBASE", "CUDA_CACHE_PATH")
        assert "'/home/me'" not in seen
        assert "'/home/me/.local'" in seen
        assert "'/home/me/.nv/" in seen
        own = {**user, "CUDA_CACHE_PATH": "/fast"}
        assert "['/fast']" in seen_with(own, "CUDA_CACHE_PATH")
        assert "[None]" in seen_with({}, "PYTHONNOUSERSITE")

    def test_a_trace_is_kept_of_the_first_block_in_a_folder_of_the_call(
        self, tmp_path: Path, plan: Plan, script: Script
    ) -> None:
        planned = plan(script(TRACED))
        made = LocalExecutor(
            machine=Machine(identity=()), scratch=tmp_path / "scratch", trace=tmp_path / "traces"
        )
        retained = trace_folder(tmp_path / "traces", planned.call) / "trace.json"
        with closing(made) as executor:
            (later,) = executor.inspect([replace(planned, block=1)])
            assert later.outcome is Outcome.OK, later.log
            assert not retained.exists()
            (first,) = executor.inspect([planned])
        assert first.outcome is Outcome.OK, first.log
        assert retained.exists()


@pytest.mark.parametrize(
    "name",
    ["AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "TF_VAR_password", "NVIDIA_API_KEY", "CUDA_TOKEN"],
)
def test_secrets_are_not_kept(name: str) -> None:
    assert passed_variables({name: "x", "HOME": "/root"}) == {}
