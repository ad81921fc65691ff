"""Where indexes come from: options, environment, and the files of pip and uv."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from pypi_simple import PYPI_SIMPLE_ENDPOINT

from stackgen.errors import UsageError
from stackgen.index import Credentials, IndexConfig, IndexLocation, load_config

BARE = {"PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1"}


def loaded(**environ: str) -> IndexConfig:
    return load_config(environ=BARE | environ)


def urls(config: IndexConfig) -> list[str]:
    return [each.url for each in config.indexes]


def test_without_settings_there_is_one_index_and_it_is_pypi() -> None:
    (only,) = loaded().indexes
    assert (only.name, only.url) == ("PyPI", PYPI_SIMPLE_ENDPOINT)


@pytest.mark.parametrize(
    ("environ", "first"),
    [
        ({"PIP_INDEX_URL": "https://pip.test/simple"}, "https://pip.test/simple"),
        (
            {"PIP_INDEX_URL": "https://pip.test", "UV_INDEX_URL": "https://uv.test"},
            "https://uv.test",
        ),
        (
            {"UV_INDEX_URL": "https://old.test", "UV_DEFAULT_INDEX": "a=https://n.test"},
            "https://n.test",
        ),
    ],
)
def test_uv_variables_go_before_those_of_pip(environ: Mapping[str, str], first: str) -> None:
    assert urls(loaded(**environ)) == [first]


def test_the_command_line_wins_and_extras_follow_in_order() -> None:
    config = load_config(
        environ=BARE
        | {
            "PIP_INDEX_URL": "https://pip.test",
            "PIP_EXTRA_INDEX_URL": "https://c.test https://a.test",
        },
        index_url="https://own.test",
        extra_index_urls=["https://b.test", "https://a.test"],
    )
    assert urls(config) == [
        "https://own.test",
        "https://b.test",
        "https://a.test",
        "https://c.test",
    ]


def test_no_index_leaves_the_links_alone() -> None:
    config = load_config(environ=BARE, no_index=True, find_links=["https://links.test/all.html"])
    assert (config.indexes, [x.url for x in config.find_links]) == (
        (),
        ["https://links.test/all.html"],
    )
    assert loaded(PIP_NO_INDEX="1").indexes == ()


def test_credentials_are_taken_out_of_an_address() -> None:
    (place,) = loaded(PIP_INDEX_URL="https://m%40e:s%2Ft@host.test:8/simple").indexes
    assert (place.name, place.url) == ("https://host.test:8/simple", "https://host.test:8/simple")
    assert place.credentials == Credentials("m@e", "s/t")
    assert "s/t" not in repr(place) + repr(place.credentials)


def test_a_location_refuses_an_address_with_credentials() -> None:
    with pytest.raises(ValueError, match="apart"):
        IndexLocation(name="x", url="https://me:secret@host.test")


def test_paths_become_addresses(tmp_path: Path) -> None:
    (place,) = load_config(environ=BARE, find_links=[str(tmp_path)]).find_links
    assert place.url == tmp_path.as_uri()


def test_an_address_of_an_unsupported_scheme_is_refused() -> None:
    with pytest.raises(UsageError, match="ftp"):
        loaded(PIP_INDEX_URL="ftp://host.test")


def test_pip_files_are_read_and_its_variables_replace_them(tmp_path: Path) -> None:
    path = tmp_path / "pip.conf"
    path.write_text(
        "[global]\nindex-url = https://global.test\nfind_links = https://l.test\n"
        "cert = bundle.pem\ntimeout = 7\n"
        "[install]\nindex-url = https://install.test\nextra-index-url =\n  https://x.test\n  https://y.test\n"
    )
    environ = {"PIP_CONFIG_FILE": str(path), "XDG_CONFIG_DIRS": str(tmp_path), "UV_NO_CONFIG": "1"}
    config = load_config(environ=environ)
    assert urls(config) == ["https://install.test", "https://x.test", "https://y.test"]
    assert [x.url for x in config.find_links] == ["https://l.test"]
    assert (config.ca_bundle, config.read_timeout_s) == ("bundle.pem", 7.0)
    replaced = load_config(environ=environ | {"PIP_EXTRA_INDEX_URL": "https://z.test"})
    assert urls(replaced) == ["https://install.test", "https://z.test"]


def test_the_users_pip_file_is_found_at_home(tmp_path: Path) -> None:
    (tmp_path / ".config/pip").mkdir(parents=True)
    (tmp_path / ".config/pip/pip.conf").write_text("[global]\nindex-url = https://home.test\n")
    assert urls(load_config(environ={"HOME": str(tmp_path)}))[0] == "https://home.test"


def test_a_uv_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "uv.toml"
    path.write_text(
        '[[index]]\nname = "more"\nurl = "https://more.test"\n'
        '[[index]]\nurl = "https://main.test"\ndefault = true\n'
    )
    config = load_config(environ={"PIP_CONFIG_FILE": os.devnull, "UV_CONFIG_FILE": str(path)})
    assert [(x.name, x.url) for x in config.indexes] == [
        ("https://main.test", "https://main.test"),
        ("more", "https://more.test"),
    ]


@pytest.mark.parametrize("text", ["no section", "[global]\na", "index = 3"])
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken"
    path.write_text(text)
    variable = "UV_CONFIG_FILE" if "=" in text else "PIP_CONFIG_FILE"
    with pytest.raises(UsageError, match=r"cannot read .*broken"):
        load_config(environ={"PIP_CONFIG_FILE": os.devnull, variable: str(path)})


def test_certificates_and_timeouts_come_from_the_environment() -> None:
    config = loaded(SSL_CERT_FILE="/a.pem", PIP_CERT="/b.pem", PIP_DEFAULT_TIMEOUT="180")
    assert (config.ca_bundle, config.read_timeout_s) == ("/b.pem", 180.0)
    with pytest.raises(UsageError, match="soon"):
        loaded(PIP_DEFAULT_TIMEOUT="soon")
