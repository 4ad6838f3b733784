"""Authorisation: API keys, stored as hashes; without keys, only requests from this machine's own pages."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from perturank.errors import BadInput, unknown
from perturank.service.log.refusals import Forbidden, TooMany, Unauthorised
from perturank.service.settings import is_loopback
from perturank.service.telemetry.logger import logger

Scope = Literal["serve", "admin"]
MARK = "pr_"
MOST_BUCKETS = 10_000
SECONDS_BETWEEN_LOOKS = 1.0  # at the file: for so long a revoked key still works
LOOPBACK_REMEDY = "ask this machine by its loopback address, or start the service with --keys"


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A key as it is stored. A hash without salt is enough: nobody guesses 32 random bytes."""

    name: str
    hash: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    scopes: tuple[Scope, ...]
    models: tuple[str, ...] | None = None  # None: all

    def allows(self, scope: Scope, model: str | None) -> bool:
        """Return whether the key may do this with the model; `admin` includes `serve`."""
        may = scope in self.scopes or "admin" in self.scopes
        return may and (self.models is None or (model is not None and model in self.models))


def hashed(secret: str) -> str:
    """Return the hash that is stored for a key."""
    return hashlib.sha256(secret.encode()).hexdigest()


def checked_scopes(names: list[str]) -> tuple[Scope, ...]:
    """Return the scopes of these names."""
    for name in names:
        if name not in ("serve", "admin"):
            raise unknown("scope", name, ["serve", "admin"])
    return tuple("admin" if name == "admin" else "serve" for name in dict.fromkeys(names))


def read_keys(path: Path) -> list[Key]:
    """Return the keys of a file, one JSON object a line."""
    try:
        lines = path.read_text().splitlines()
        return [msgspec.json.decode(line, type=Key) for line in lines if line.strip()]
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}", "make a key with `perturank keys add`") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} is no file of keys ({error})", "make one with `perturank keys add`") from None


def add_key(path: Path, name: str, scopes: tuple[Scope, ...], models: tuple[str, ...] | None) -> str:
    """Add a new key to the file and return it; it cannot be read again."""
    if path.exists() and any(key.name == name for key in read_keys(path)):
        raise BadInput(f"{path} has a key {name!r}", "choose another name")
    secret = MARK + secrets.token_urlsafe(32)
    line = json.dumps(msgspec.to_builtins(Key(name, hashed(secret), scopes, models)))
    before = path.read_text() if path.exists() else ""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a") as file:
        file.write(("\n" if before and not before.endswith("\n") else "") + line + "\n")
    return secret


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return numbers that change whenever the file does; None: there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class Keyring:
    """Checks keys and limits rates; without a file of keys, everybody is admitted and each address is limited."""

    def __init__(self, file: Path | None, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._file, self._rate, self._clock = file, rate, clock
        self._seen = None if file is None else _stamp(file)  # before it is read: a change in between is noticed
        self._keys = None if file is None else read_keys(file)
        self._looked, self._is_broken = clock(), False
        self.buckets: dict[str, tuple[float, float]] = {}

    @property
    def asks(self) -> bool:
        """Whether requests need a key."""
        return self._file is not None

    def _look(self, file: Path) -> None:
        """Read the file again if it has changed, at most once a second; keep the known keys if it cannot be read."""
        now = self._clock()
        if now - self._looked < SECONDS_BETWEEN_LOOKS:
            return
        self._looked, stamp = now, _stamp(file)
        if stamp == self._seen:
            return
        try:
            self._keys, self._seen, self._is_broken = read_keys(file), stamp, False
            logger.info("the file of keys has changed: it has %d keys now", len(self._keys))
        except BadInput as error:
            if not self._is_broken:  # retried at every look, logged once
                logger.error("the changed file of keys cannot be read, and the keys from before stay valid: %s", error)
            self._is_broken = True

    def admit(self, authorization: str | None, scope: Scope, model: str | None, address: str = "") -> Key | None:
        """Return the key, or refuse the request; None: requests need no key."""
        if self._file is None:
            self._count(f"address {address!r}")
            return None
        self._look(self._file)
        key = self._found(authorization, address)
        self._count(f"key {key.name!r}")
        if model is None and key.models is not None:
            bound = f"key {key.name!r} is bound to the models {', '.join(key.models)}"
            raise Forbidden(f"{bound}, and this request concerns all models", "use a key that is bound to no model")
        if not key.allows(scope, model):
            raise Forbidden(f"key {key.name!r} may not do this", f"use one with the scope {scope!r} for this model")
        return key

    def _found(self, authorization: str | None, address: str) -> Key:
        kind, _, secret = (authorization or "").partition(" ")
        given = hashed(secret.strip())
        found = None
        for key in self._keys or ():  # all of them: the time must not reveal which one nearly matched
            if hmac.compare_digest(key.hash, given):
                found = key
        if found is None or kind.lower() != "bearer":
            self._count(f"address {address!r}")  # limits how many keys an address can try
            raise Unauthorised("no valid key was sent", "send the header Authorization: Bearer KEY")
        return found

    def _count(self, who: str) -> None:
        """Take a token from the bucket of a key or an address; it fills at the rate and holds one second of it."""
        now, most = self._clock(), max(1.0, self._rate)
        if len(self.buckets) > MOST_BUCKETS:  # a bucket unused for that long is full, like a new one
            self.buckets = {k: bucket for k, bucket in self.buckets.items() if now - bucket[1] < most / self._rate}
        left, at = self.buckets.get(who, (most, now))
        left = min(most, left + (now - at) * self._rate)
        if left < 1:
            raise TooMany(f"{who} sent more than {self._rate:g} requests a second", "wait a moment")
        self.buckets[who] = (left - 1, now)


def check_local(headers: Mapping[str, str]) -> None:
    """Refuse a request that was sent to another host name, or by a page from elsewhere.

    Without keys this is all that protects the service from the pages in its user's browser: a page of any site can
    send a simple POST to a loopback address, and one whose name was re-bound to that address can read the answer too.
    """
    host, origin = headers.get("host"), headers.get("origin")
    if host is not None and not _is_local(host):
        raise Forbidden(f"the request is for {host[:80]!r}", LOOPBACK_REMEDY)
    if origin is not None and (host is None or origin.partition("://")[2] != host):
        raise Forbidden(f"the request comes from a page of {origin[:80]!r}", LOOPBACK_REMEDY)


@lru_cache(maxsize=256)
def _is_local(host: str) -> bool:
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False
