"""Somewhere to build source distributions: packages in a folder, a cache, and an engine."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from stackgen.campaign.sdist_wheels import SdistWheels
from stackgen.errors import BuildError
from stackgen.images.build import ImageBuilder
from stackgen.images.engine import Engine
from stackgen.images.sdists import Attempt, BuildLimits, BuiltWheels, SdistBuilder
from stackgen.index import PackageIndex, load_config
from stackgen.index.closure import resolve
from stackgen.model.packages import Artifact
from stackgen.model.progress import NullProgress
from stackgen.model.stacks import Base, Environment, Stack
from stackgen.resolve.candidates import Policy
from stackgen.resolve.requirements import parse_requirements
from stackgen.storage.wheels import WheelStore

LIMITS = BuildLimits(memory_bytes=256 << 20, timeout_s=60)


class CountedBuilder(SdistBuilder):
    """Knows how often it built."""

    __slots__ = ()
    counts: dict[str, int] = {}  # noqa: RUF012 # by owner: it is frozen

    def build(self, *args: object, **options: object) -> Attempt:
        self.counts[self.owner] = self.counts.get(self.owner, 0) + 1
        return super().build(*args, **options)  # type: ignore[arg-type]


@dataclass
class Bench:
    """A folder with packages, a cache, and an engine to build in."""

    root: Path
    engine: Engine
    base: Base
    images: ImageBuilder
    limits: BuildLimits = LIMITS
    environ: Mapping[str, str] | None = None
    policy: Policy = field(default_factory=lambda: Policy(allow_build=frozenset({":all:"})))

    @property
    def packages(self) -> Path:
        (self.root / "packages").mkdir(exist_ok=True)
        return self.root / "packages"

    @property
    def builds(self) -> int:
        return CountedBuilder.counts.get(str(self.root), 0)

    @contextmanager
    def sources(self, *, again: bool = False) -> Iterator[SdistWheels]:
        links = [str(self.packages)]
        no_index = self.environ is None
        config = load_config(environ=self.environ or {}, find_links=links, no_index=no_index)

        def build(stack: Stack, wheels: Mapping[str, Path], varied: frozenset[str]) -> Environment:
            return self.images.build(stack, self.base, wheels, varied)

        with PackageIndex(config, self.root / "cache") as index:
            yield SdistWheels(
                base=self.base,
                build=build,
                sdists=CountedBuilder(engine=self.engine, owner=str(self.root), limits=self.limits),
                index=index,
                store=WheelStore(self.root / "cache"),
                built=BuiltWheels(self.root / "cache" / "built"),
                policy=self.policy,
                progress=NullProgress(),
                again=again,
            )

    def built(self, name: str = "demo", *, again: bool = False) -> tuple[Stack, dict[str, Path]]:
        with self.sources(again=again) as sources:
            request = replace(parse_requirements(name), policy=self.policy)
            lock = resolve(sources.index, request, self.base.target).newest()
            assert lock is not None
            stack = Stack(lock=lock, facts=self.base.facts)
            files = sources.store.fetch(lock.artifacts, downloader=sources.index)
            return sources.installable(stack, files)

    def wheel(self, name: str = "demo") -> Artifact:
        stack, _ = self.built(name)
        return next(each for each in stack.lock.artifacts if each.name == name)

    def refusal(self, name: str = "demo", *, again: bool = False) -> BuildError:
        with pytest.raises(BuildError) as caught:
            self.built(name, again=again)
        return caught.value

    def environment(self, name: str = "demo") -> Environment:
        stack, files = self.built(name)
        return self.images.build(stack, self.base, files)

    def printed(self, expression: str, name: str = "demo") -> str:
        environment = self.environment(name)
        code = f"import {name.partition('=')[0]} as demo; print({expression})"
        ran = self.engine.run(environment.location, [environment.python, "-c", code])
        assert ran.exit_code == 0, ran.stderr
        return ran.stdout.strip()

    def containers(self) -> list[str]:
        label = f"stackgen.build={self.root}"
        return [
            str(x["Id"]) for x in self.engine.api.containers(all=True, filters={"label": label})
        ]
