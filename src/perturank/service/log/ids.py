"""Ids of impressions: a log position, random bytes, and a signature that tells our ids from made-up ones.

Feedback with a signed id that is not in the log came early; an id without a valid signature is refused.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os

from perturank.service.log.refusals import NotKnown

N_POSITION, N_CHANCE, N_SEAL = 5, 7, 8
N_SOURCE = 16
SECRET_BYTES = 32


def new_id(position: int) -> bytes:
    """Return a new name, made when the log ended at this position; 12 bytes."""
    return position.to_bytes(N_POSITION, "big") + os.urandom(N_CHANCE)


def made_at(name: bytes) -> int:
    """Return the position at which the log ended when the name was made."""
    return int.from_bytes(name[:N_POSITION], "big")


def sign_id(name: bytes, model: str, secret: bytes) -> str:
    """Return the name as clients see it: URL-safe, with the seal; 27 characters."""
    return base64.urlsafe_b64encode(name + _seal(name, model, secret)).rstrip(b"=").decode()


def verify_id(text: str, model: str, secret: bytes) -> bytes:
    """Return the name behind the text; one that this log did not give for this model is refused."""
    try:
        content = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        content = b""
    name, seal = content[: N_POSITION + N_CHANCE], content[N_POSITION + N_CHANCE :]
    if not hmac.compare_digest(seal, _seal(name, model, secret)) or sign_id(name, model, secret) != text:
        raise NotKnown(f"impression {text[:40]!r} was not given by this model", "send back what /rank answered")
    return name


def source_seal(source: str, secret: bytes) -> bytes:
    """Return what stands for a client, user or session where its name must not; 16 bytes."""
    return hashlib.blake2b(source.encode(), key=secret, digest_size=N_SOURCE, person=b"source").digest()


def _seal(name: bytes, model: str, secret: bytes) -> bytes:
    return hashlib.blake2b(name + model.encode(), key=secret, digest_size=N_SEAL).digest()
