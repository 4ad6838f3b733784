from __future__ import annotations

import stat
from pathlib import Path

import pytest

from perturank.errors import BadInput
from perturank.service.http import auth
from perturank.service.http.auth import Keyring, add_key, checked_scopes, hashed, read_keys
from perturank.service.log.refusals import Forbidden, TooMany, Unauthorised


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def test_only_a_hash_is_kept_in_a_file_that_nobody_else_reads(file: Path) -> None:
    secret = add_key(file, "me", ("serve",), ("m",))
    (key,) = read_keys(file)
    assert (key.name, key.hash, key.scopes, key.models) == ("me", hashed(secret), ("serve",), ("m",))
    assert secret not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(BadInput, match="has a key 'me'"):
        add_key(file, "me", ("serve",), None)


def test_a_key_is_added_to_a_file_whose_last_line_has_no_end(file: Path) -> None:
    add_key(file, "first", ("serve",), None)
    file.write_text(file.read_text().rstrip("\n"))
    secret = add_key(file, "second", ("serve",), None)
    assert [key.name for key in read_keys(file)] == ["first", "second"]
    assert Keyring(file, rate=1000).admit(f"Bearer {secret}", "serve", "m") is not None


def test_a_key_may_do_what_its_scope_and_models_say(file: Path) -> None:
    one, all_of_it = add_key(file, "one", ("serve",), ("m",)), add_key(file, "all", ("admin",), None)
    ring = Keyring(file, rate=1000)
    found = ring.admit(f"Bearer {one}", "serve", "m"), ring.admit(f"bearer {all_of_it}", "serve", "x")
    assert [key and key.name for key in found] == ["one", "all"]
    for scope, model in (("serve", "n"), ("admin", "m"), ("serve", None)):
        with pytest.raises(Forbidden):
            ring.admit(f"Bearer {one}", scope, model)  # type: ignore[arg-type]
    for header in (None, "", "Bearer", "Bearer x", f"Basic {one}", one):
        with pytest.raises(Unauthorised):
            ring.admit(header, "serve", "m")


def test_a_publishable_key_is_bound_to_models_and_may_only_send_records(file: Path) -> None:
    with pytest.raises(BadInput, match="bound to no model"):
        add_key(file, "page", ("ubi",), None)
    secret = add_key(file, "page", ("ubi",), ("m",))
    assert secret.startswith("pr_pub_")
    both = add_key(file, "backend", checked_scopes(["serve", "ubi"]), None)
    assert not both.startswith("pr_pub_")
    ring = Keyring(file, rate=1000)
    found = ring.admit(f"Bearer {secret}", "ubi", None), ring.admit(f"Bearer {both}", "ubi", None)
    assert [key and key.is_publishable for key in found] == [True, False]
    for scope in ("serve", "admin"):
        with pytest.raises(Forbidden):
            ring.admit(f"Bearer {secret}", scope, "m")


def test_a_client_has_a_rate_of_its_own_whatever_key_it_shares() -> None:
    now = 0.0
    ring = Keyring(None, rate=1000, clock=lambda: now, client_rate=2)
    for client in ("loud", "quiet"):
        for _ in range(2):
            ring.limit_client("m", client)
    with pytest.raises(TooMany, match="client 'loud' of model 'm' sent more than 2 records a second"):
        ring.limit_client("m", "loud")
    ring.limit_client("n", "loud")
    now = 0.5
    ring.limit_client("m", "loud")


def test_without_keys_everybody_may_do_everything() -> None:
    assert Keyring(None, rate=1).admit(None, "admin", "m") is None


def test_without_keys_each_address_has_its_own_rate() -> None:
    now = 0.0
    ring = Keyring(None, rate=2, clock=lambda: now)
    for address in ("127.0.0.1", "::1"):
        for _ in range(2):
            ring.admit(None, "serve", "m", address)
        with pytest.raises(TooMany, match=f"address '{address}' sent more than 2 requests a second"):
            ring.admit(None, "serve", "m", address)
    now = 0.5
    ring.admit(None, "serve", "m", "::1")


def test_an_address_that_tries_many_keys_is_told_to_wait(tmp_path: Path) -> None:
    add_key(tmp_path / "keys", "one", ("serve",), None)
    ring = Keyring(tmp_path / "keys", rate=2, clock=lambda: 0.0)
    for _ in range(2):
        with pytest.raises(Unauthorised):
            ring.admit("Bearer pr_guess", "serve", "m", "10.0.0.1")
    with pytest.raises(TooMany):
        ring.admit("Bearer pr_guess", "serve", "m", "10.0.0.1")


def test_addresses_that_have_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "MOST_BUCKETS", 10)
    now = 0.0
    ring = Keyring(None, rate=2, clock=lambda: now)
    for number in range(100):
        now += 1
        ring.admit(None, "serve", "m", f"10.0.0.{number}")
    assert len(ring.buckets) <= 11


def test_a_bucket_fills_at_the_keys_rate(file: Path) -> None:
    now = [0.0]
    secret = f"Bearer {add_key(file, 'me', ('serve',), None)}"
    ring = Keyring(file, rate=2.0, clock=lambda: now[0])
    for _ in range(2):
        ring.admit(secret, "serve", "m")
    with pytest.raises(TooMany):
        ring.admit(secret, "serve", "m")
    now[0] += 0.5
    ring.admit(secret, "serve", "m")
    with pytest.raises(TooMany):
        ring.admit(secret, "serve", "m")


def test_a_file_that_is_none_is_refused(file: Path) -> None:
    with pytest.raises(BadInput, match="make a key"):
        read_keys(file)
    for text in ("hello", '{"name": "me", "hash": "é", "scopes": ["serve"]}'):
        file.write_text(text)
        with pytest.raises(BadInput, match="is no file of keys"):
            read_keys(file)
    with pytest.raises(BadInput, match="did you mean 'serve'"):
        checked_scopes(["server"])


def test_keys_that_come_and_go_count_and_do_not_within_a_second(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    first = add_key(file, "first", ("serve",), None)
    ring = Keyring(file, rate=1000, clock=lambda: now[0])
    second = add_key(file, "second", ("serve",), None)
    now[0] = 0.5
    with pytest.raises(Unauthorised):
        ring.admit(f"Bearer {second}", "serve", "m")
    now[0] = 1.5
    assert ring.admit(f"Bearer {second}", "serve", "m") is not None
    file.write_text(file.read_text().splitlines()[1] + "\n")
    now[0] = 3.0
    with pytest.raises(Unauthorised):
        ring.admit(f"Bearer {first}", "serve", "m")
    for broken in ("{", None):  # a file that is being written, or is gone
        file.unlink() if broken is None else file.write_text(broken)
        now[0] += 2
        with caplog.at_level("ERROR", "perturank.service"):
            assert ring.admit(f"Bearer {second}", "serve", "m") is not None
    assert caplog.text.count("the keys from before stay valid") == 1


def test_a_file_that_could_not_be_read_is_tried_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    gone = add_key(file, "gone", ("serve",), None)
    ring = Keyring(file, rate=1000, clock=lambda: now[0])
    file.write_text("")

    def unreadable(path: Path) -> list[auth.Key]:
        raise BadInput(f"{path}: permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(auth, "read_keys", unreadable)
        now[0] = 2.0
        assert ring.admit(f"Bearer {gone}", "serve", "m") is not None
    now[0] = 4.0
    with pytest.raises(Unauthorised):
        ring.admit(f"Bearer {gone}", "serve", "m")


def test_a_file_that_is_no_text_is_refused(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="is no file of keys"):
        read_keys(file)


def test_a_key_of_one_model_is_told_why_it_cannot_read_what_concerns_all(tmp_path: Path) -> None:
    secret = add_key(tmp_path / "keys", "shop", ("serve",), ("m",))
    with pytest.raises(Forbidden, match="bound to the models m, and this request concerns all models"):
        Keyring(tmp_path / "keys", rate=1000).admit(f"Bearer {secret}", "serve", None)
