"""Authorisation: API keys, stored as hashes; without keys, only requests from this machine's own pages."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
import re
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

import msgspec

from perturank.errors import BadInput, unknown
from perturank.service.log.refusals import Forbidden, TooMany, Unauthorised
from perturank.service.settings import is_loopback
from perturank.service.telemetry.logger import logger

Scope = Literal["ubi", "serve", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)  # each includes those before it
MARK = "pr_"
PUBLISHABLE_MARK = "pr_pub_"
SECRET = re.compile(rf"{MARK}[A-Za-z0-9_-]{{20,}}")
MOST_BUCKETS = 10_000
SECONDS_BETWEEN_LOOKS = 1.0  # at the file: for so long a revoked key still works; and at the buckets
LOOPBACK_REMEDY = "ask this machine by its loopback address, or start the service with --keys"


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A key as it is stored. A hash without salt is enough: nobody guesses 32 random bytes."""

    name: str
    hash: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    scopes: tuple[Scope, ...]
    models: tuple[str, ...] | None = None  # None: all

    def allows(self, scope: Scope, model: str | None) -> bool:
        """Return whether the key may do this with the model; `admin` includes `serve`, and that `ubi`."""
        return self.has(scope) and (self.models is None or (model is not None and model in self.models))

    def has(self, scope: Scope) -> bool:
        """Return whether the key may do this with some model."""
        return any(SCOPES.index(each) >= SCOPES.index(scope) for each in self.scopes)

    @property
    def is_publishable(self) -> bool:
        """Whether anybody may see the key: it can only add UBI records of its models."""
        return set(self.scopes) == {"ubi"}


def hashed(secret: str) -> str:
    """Return the hash that is stored for a key."""
    return hashlib.sha256(secret.encode()).hexdigest()


def checked_scopes(names: list[str]) -> tuple[Scope, ...]:
    """Return the scopes of these names."""
    for name in names:
        if name not in SCOPES:
            raise unknown("scope", name, SCOPES)
    return tuple(scope for scope in SCOPES if scope in names)


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
    is_publishable = set(scopes) == {"ubi"}
    if is_publishable and not models:
        raise BadInput("a key with the scope ubi is for pages, and is bound to no model", "name one with --model")
    secret = (PUBLISHABLE_MARK if is_publishable else MARK) + secrets.token_urlsafe(32)
    line = json.dumps(msgspec.to_builtins(Key(name, hashed(secret), scopes, models)))
    before = path.read_text() if path.exists() else ""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a") as file:
        file.write(("\n" if before and not before.endswith("\n") else "") + line + "\n")
    return secret


def write_key(path: Path, make: Callable[[], str]) -> None:
    """Make a key and write it into a new file; one that exists is refused before there is a key."""
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}", "name a new file with --out") from None
    try:
        with os.fdopen(opened, "w") as file:
            file.write(make() + "\n")
    except BaseException:
        path.unlink()
        raise


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return numbers that change whenever the file does; None: there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class Keyring:
    """Checks keys and limits rates; without a file of keys, everybody is admitted and each address is limited."""

    def __init__(
        self,
        file: Path | None,
        rate: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        client_rate: float = math.inf,
    ) -> None:
        self._file, self._rate, self._client_rate, self._clock = file, rate, client_rate, clock
        self._seen = None if file is None else _stamp(file)  # before it is read: a change in between is noticed
        self._keys = None if file is None else read_keys(file)
        self._looked, self._is_broken = clock(), False
        self.buckets: dict[str, tuple[float, float]] = {}
        self._emptied = -math.inf  # when full buckets were last forgotten

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
        if scope == "ubi" and key.has(scope):  # its records name the models
            return key
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

    def limit_client(self, model: str, client: str) -> None:
        """Refuse a UBI record of a client that sends too many; a key that pages share limits no single client."""
        self._count(f"client {client!r} of model {model!r}", self._client_rate, "records")

    def _count(self, who: str, rate: float | None = None, what: str = "requests") -> None:
        """Take a token from a bucket, such as that of a key; it fills at the rate and holds one second of it."""
        rate = self._rate if rate is None else rate
        if math.isinf(rate):
            return
        now, most = self._clock(), max(1.0, rate)
        if len(self.buckets) > MOST_BUCKETS and now - self._emptied >= SECONDS_BETWEEN_LOOKS:
            slowest = min(self._rate, self._client_rate)
            full = max(1.0, slowest) / slowest  # a bucket unused for that long is full, like a new one
            self.buckets = {k: bucket for k, bucket in self.buckets.items() if now - bucket[1] < full}
            self._emptied = now
        left, at = self.buckets.get(who, (most, now))
        left = min(most, left + (now - at) * rate)
        if left < 1:
            raise TooMany(f"{who} sent more than {rate:g} {what} a second", "wait a moment")
        self.buckets[who] = (left - 1, now)


def check_local(headers: Mapping[str, str]) -> None:
    """Refuse a request that was sent to another host name, or by a page from elsewhere.

    Without keys this is all that protects the service from the pages in its user's browser: a page of any site can
    send a simple POST to a loopback address, and one whose name was re-bound to that address can read the answer too.
    """
    check_host(headers)
    origin = headers.get("origin")
    if origin is not None and not is_same_origin(headers):
        raise Forbidden(f"the request comes from a page of {origin[:80]!r}", LOOPBACK_REMEDY)


def check_host(headers: Mapping[str, str]) -> None:
    """Refuse a request that was sent to another host name than one of this machine's own."""
    host = headers.get("host")
    if host is not None and not _is_local(host):
        raise Forbidden(f"the request is for {host[:80]!r}", LOOPBACK_REMEDY)


def check_page(headers: Mapping[str, str], origins: Collection[str]) -> None:
    """Refuse a request of a page, unless it is of one of these origins or of the service's own."""
    origin = headers.get("origin")
    if origin is not None and origin not in origins and not is_same_origin(headers):
        remedy = 'PATCH the model with {"ubi": {"origins": ["https://…"]}} to let them send records'
        raise Forbidden(f"pages of {origin[:80]!r} may not send records", remedy)


def is_same_origin(headers: Mapping[str, str]) -> bool:
    """Return whether the page that sends the request came from the host that it is sent to."""
    host, origin = headers.get("host"), headers.get("origin", "")
    return host is not None and origin.partition("://")[2] == host


def without_keys(text: str) -> str:
    """Return a text without the keys in it."""
    return SECRET.sub(MARK + "***", text)


@lru_cache(maxsize=256)
def _is_local(host: str) -> bool:
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False
