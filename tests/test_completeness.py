"""What a lock's packages require beside it, from the wheels that are here."""

from dataclasses import replace
from pathlib import Path

from stackgen.commands.images import lacking
from stackgen.model.packages import Lock
from tests.containers.wheels import a_base, make_wheel

TARGET = a_base().target


def test_what_the_lock_lacks_is_named(tmp_path: Path) -> None:
    requires = (
        *("Other_One>=2", "missing", "fine<3", "never; python_version<'3'"),
        *("extra-only; extra == 'all'", "no PEP 508"),
    )
    metadata = "Metadata-Version: 2.1\nName: user\nVersion: 1.0\n"
    metadata += "".join(f"Requires-Dist: {each}\n" for each in requires)
    user, path = make_wheel(tmp_path, "user", {"user-1.0.dist-info/METADATA": metadata})
    other, fine = (replace(user, name=name, sha256=name * 8) for name in ("other-one", "fine"))
    lock = Lock(artifacts=(fine, other, user))
    assert lacking(lock, TARGET, {user.sha256: path}) == (
        "user 1.0 requires Other_One>=2, and the lock has 1.0",
        "user 1.0 requires missing, which the lock lacks",
    )
    assert lacking(lock, TARGET, {}) == ()
