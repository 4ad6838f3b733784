"""Who speaks through the user's browser: without keys, pages from elsewhere must not.

A page of any site can send a simple POST to a loopback address, and one whose name was re-bound to that
address can read the answer too. Such requests name their page in Origin or Host.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from perturank.service.refusals import Forbidden
from perturank.service.settings import is_loopback

REMEDY = "ask this machine by its loopback address, or start the service with --keys"


def check_local(headers: Mapping[str, str]) -> None:
    """Refuse a request that was sent to another name, or by a page that came from elsewhere."""
    host, origin = headers.get("host"), headers.get("origin")
    if host is not None and not _is_local(host):
        raise Forbidden(f"the request is for {host[:80]!r}", REMEDY)
    if origin is not None and (host is None or origin.partition("://")[2] != host):
        raise Forbidden(f"the request comes from a page of {origin[:80]!r}", REMEDY)


@lru_cache(maxsize=256)
def _is_local(host: str) -> bool:
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False
