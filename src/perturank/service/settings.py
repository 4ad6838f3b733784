"""The settings of a serving process: one frozen object, from flags, the environment and a TOML file."""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from perturank.errors import BadInput, unknown
from perturank.hyperparameters import AT_LEAST_ONE, POSITIVE, Limit, Settings, hyper

SECONDS_OF = {"s": 1, "m": 60, "h": 3600, "d": 86400}
PREFIX = "PERTURANK_"
LineFormat = Literal["text", "json"]
PASSWORD = r"(?i)(\b(?:ssl)?password"
RENAMED = {
    "documents": "max_documents",
    "batch": "max_batch",
    "rate": "requests_per_second",
    "patience": "body_timeout",
}
PORT = Limit(lambda v: 0 <= v < 65536, "must be between 0 and 65535")


@dataclass(frozen=True)
class Retention:
    """So many seconds before the newest record, or so many learned impressions."""

    seconds: float | None = None
    impressions: int | None = None

    @classmethod
    def of(cls, span: str | None, impressions: int | None) -> Retention | None:
        """Return what the user asks for: a span like 30d, 12h or 90s, or a number of impressions."""
        if span is not None and impressions is not None:
            raise BadInput("both a span and a number of impressions are to be kept", "name one of them")
        if span is None:
            return None if impressions is None else cls(impressions=impressions)
        found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)([smhd])", span)
        if found is None:
            raise BadInput(f"{span!r} is no span of time", "write it like 30d, 12h, 90m or 10s")
        return cls(seconds=float(found[1]) * SECONDS_OF[found[2]])

    def lets_go(self, milliseconds: int, impressions: int) -> bool:
        """Return whether a state may be the base that has so much time and so many impressions after it."""
        if self.seconds is not None:
            return milliseconds >= 1000 * self.seconds
        return self.impressions is not None and impressions >= self.impressions


@dataclass(frozen=True)
class ServeSettings(Settings):
    """Everything that decides how `perturank serve` behaves."""

    host: str = hyper("127.0.0.1", "address to listen on; any but loopback needs keys")
    port: int = hyper(8765, "port to listen on; 0: a free one", "", PORT)
    log: str = hyper("sqlite:///perturank.db", "sqlite:///FILE or postgresql://…")
    learner: Literal["child", "none"] = hyper("child", "child: learn in a process of its own; none: elsewhere")
    keep: str | None = hyper(None, "records kept before the newest, like 30d or 12h, the rest as a base; none: all")
    keep_impressions: int | None = hyper(None, "the same as a number of learned impressions", "", AT_LEAST_ONE)
    keys: str | None = hyper(None, "file of API keys, as `perturank keys` writes it; none: no key is asked for")
    body_bytes: int = hyper(8_000_000, "largest body of a request", "", AT_LEAST_ONE)
    file_bytes: int = hyper(500_000_000, "largest file of a model that is imported", "", AT_LEAST_ONE)
    max_documents: int = hyper(1000, "most documents of a request", "", AT_LEAST_ONE)
    max_batch: int = hyper(100, "most requests of a batch", "", AT_LEAST_ONE)
    requests_per_second: float = hyper(2000.0, "of a key, or without keys of an address", "", POSITIVE)
    client_records_per_second: float = hyper(100.0, "UBI records of a client_id", "", POSITIVE)
    body_timeout: float = hyper(30.0, "seconds within which the body of a request must arrive", "", POSITIVE)
    log_lines: LineFormat = hyper("text", "form of the lines on stderr")
    compile_first: bool = hyper(True, "be ready only when every length of list is compiled")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)

    @property
    def learner_words(self) -> list[str]:
        """The words of the command that learns, without the log."""
        words = ["learn", "--log-lines", self.log_lines]
        words += [] if self.keep is None else ["--keep", self.keep]
        return words + ([] if self.keep_impressions is None else ["--keep-impressions", str(self.keep_impressions)])

    def shown(self) -> dict[str, Any]:
        """Return plain values that anybody may read."""
        return self.as_dict() | {"log": without_password(self.log)}

    def checked(self) -> ServeSettings:
        """Return itself if it is safe to start."""
        if not self.is_loopback and self.keys is None:
            raise BadInput(f"{self.host} can be reached by others and no key is asked for", "give --keys FILE")
        _ = self.retention
        return self

    @property
    def retention(self) -> Retention | None:
        """How much of the past the log keeps; None: all."""
        return Retention.of(self.keep, self.keep_impressions)


def without_password(url: str) -> str:
    """Return an address as it may be shown, whether it is a URL or written as `host=… password=…`.

    Rather too little is shown than too much: a password may hold any sign, also where a URL would have it encoded.
    """
    if url.startswith("sqlite:"):
        return url
    if "://" not in url:
        return re.sub(rf"{PASSWORD}\s*=\s*)('(?:[^'\\]|\\.)*'?|(?:[^\s\\]|\\.)*)", r"\1***", url)
    url = re.sub(rf"{PASSWORD}=)[^&]*", r"\1***", url)
    return re.sub(r"(://[^:@]*):.*@", r"\1:***@", url, flags=re.S)


def is_loopback(host: str) -> bool:
    """Return whether a name or an address always means this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def settled(flags: Mapping[str, Any], environment: Mapping[str, str], file: Path | None = None) -> ServeSettings:
    """Return the settings: a flag counts before the environment, that before the file, that before the default."""
    settings = ServeSettings()
    names = settings.as_dict()
    if file is not None:
        settings = settings.changed(**_of_file(file))
    said = {name: value for name, value in flags.items() if value is not None}
    unsaid = {name: PREFIX + name.upper() for name in names if name not in said}
    for old, new in RENAMED.items():  # a limit must not be lost without a word
        if PREFIX + old.upper() in environment:
            raise BadInput(f"{PREFIX}{old.upper()} is an earlier name", f"set {PREFIX}{new.upper()} instead")
    texts = {name: environment[variable] for name, variable in unsaid.items() if variable in environment}
    if texts.get("port", "").startswith("tcp://"):
        remedy = "give --port, or name the Service otherwise, or set enableServiceLinks: false for the Pod"
        raise BadInput(f"PERTURANK_PORT is {texts['port']!r}: Kubernetes sets it for a Service named perturank", remedy)
    return settings.parsed(texts).changed(**said)


def _of_file(file: Path) -> dict[str, Any]:
    try:
        tables = tomllib.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise BadInput(f"{file} cannot be read as TOML ({error})", "write [serve] and name = value") from None
    strangers = [name for name in tables if name != "serve"]
    if strangers:
        raise unknown("table", strangers[0], ["serve"])
    return dict(tables.get("serve", {}))
