from __future__ import annotations

from pathlib import Path

import pytest

from perturank.errors import BadInput
from perturank.service.settings import Retention, ServeSettings, settled


def test_a_flag_counts_before_the_environment_that_before_the_file_that_before_the_default(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text('[serve]\nport = 1\nrequests_per_second = 5.0\nlearner = "none"\n')
    settings = settled({"port": 3, "host": None}, {"PERTURANK_PORT": "2", "PERTURANK_REQUESTS_PER_SECOND": "7"}, file)
    assert (settings.port, settings.requests_per_second, settings.learner, settings.host) == (
        3,
        7.0,
        "none",
        "127.0.0.1",
    )


def test_a_port_that_kubernetes_has_set_is_told_from_one_that_was_meant() -> None:
    environment = {"PERTURANK_PORT": "tcp://10.0.0.7:8765"}
    with pytest.raises(BadInput, match=r"tcp://10\.0\.0\.7:8765.*Kubernetes.*enableServiceLinks: false"):
        settled({"port": None}, environment)
    assert settled({"port": 99}, environment).port == 99


def test_a_limit_under_an_earlier_name_is_refused() -> None:
    with pytest.raises(BadInput, match="set PERTURANK_MAX_DOCUMENTS instead"):
        settled({}, {"PERTURANK_DOCUMENTS": "16"})


@pytest.mark.parametrize(
    "text, says",
    [
        ("[serve]\nprot = 1", "did you mean 'port'"),
        ("[server]\nport = 1", "unknown table 'server'"),
        ("[serve]\nport = 70000", "port is 70000"),
        ("[serve", "cannot be read as TOML"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(text)
    with pytest.raises(BadInput, match=says):
        settled({}, {}, file)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_loopback_needs_no_key(host: str) -> None:
    assert ServeSettings(host=host).checked().is_loopback


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", ""])
def test_any_other_address_does(host: str) -> None:
    with pytest.raises(BadInput, match="no key is asked for"):
        ServeSettings(host=host).checked()
    assert ServeSettings(host=host, keys="file").checked()


def test_what_is_kept_is_a_span_or_a_number_and_not_both() -> None:
    assert ServeSettings().checked().retention is None
    assert ServeSettings(keep="30d").checked().retention == Retention(seconds=30 * 86400)
    assert settled({}, {"PERTURANK_KEEP_IMPRESSIONS": "500"}).retention == Retention(impressions=500)
    for settings in (ServeSettings(keep="soon"), ServeSettings(keep="30d", keep_impressions=5)):
        with pytest.raises(BadInput):
            settings.checked()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@host/log", "postgresql://me:***@host/log"),
        ("postgresql://:secret@host/log?sslmode=require", "postgresql://:***@host/log?sslmode=require"),
        ("postgresql://me@host:5432/log?password=secret&x=1", "postgresql://me@host:5432/log?password=***&x=1"),
        ("postgresql://host/log?sslpassword=secret", "postgresql://host/log?sslpassword=***"),
        (
            "postgresql://host/log?x=1&SSLPassword=secret&PASSWORD=secret",
            "postgresql://host/log?x=1&SSLPassword=***&PASSWORD=***",
        ),
        ("host=h password=secret sslpassword = secret user=me", "host=h password=*** sslpassword = *** user=me"),
        ("password='my \\' secret' host=h", "password=*** host=h"),
        ("password='my secret", "password=***"),
        ("password=my\\ secret host=h", "password=*** host=h"),
        ("mysql://me:secret@host", "mysql://me:***@host"),
        ("postgresql://me:a?secret@host/log", "postgresql://me:***@host/log"),
        ("postgresql://me:a/secret?@secret@host/log?x=1", "postgresql://me:***@host/log?x=1"),
        ("postgresql://me:a#\nsecret@host/log", "postgresql://me:***@host/log"),
        ("postgresql://me@host:5432/log?password=x@secret", "postgresql://me@host:5432/log?password=***"),
        ("postgresql://host:5432/log?user=me&password=secret@", "postgresql://host:5432/log?user=me&password=***"),
        ("postgresql://me@host:5432/log", "postgresql://me@host:5432/log"),
        ("sqlite:///a:b@c.db", "sqlite:///a:b@c.db"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    found = ServeSettings(log=url).shown()["log"]
    assert "secret" not in found
    assert found == shown


@pytest.mark.parametrize("text, seconds", [("30d", 30 * 86400), ("12h", 12 * 3600), ("1.5m", 90), ("10s", 10)])
def test_a_span_is_written_with_its_unit(text: str, seconds: float) -> None:
    retention = Retention.of(text, None)
    assert retention is not None
    assert retention.seconds == seconds
    assert retention.lets_go(round(1000 * seconds), 0)
    assert not retention.lets_go(round(1000 * seconds) - 1, 10**9)


def test_impressions_are_counted() -> None:
    retention = Retention.of(None, 100)
    assert retention is not None
    assert retention.lets_go(0, 100)
    assert not retention.lets_go(10**12, 99)


def test_nothing_said_keeps_all_and_nonsense_is_refused() -> None:
    assert Retention.of(None, None) is None
    for words in (("30", None), ("-3d", None), ("d", None), ("30d", 5)):
        with pytest.raises(BadInput):
            Retention.of(*words)
