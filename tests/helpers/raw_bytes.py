"""Requests that no client library would send: broken HTTP, JSON and MessagePack, as bytes from one seed."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

GOOD_JSON = b'{"documents": [{"id": "a", "features": [0.5, 1]}, {"id": "b", "features": [2, -1e3]}], "top": 2}'
GOOD_PACKED = b"\x82\xa3ids\x91\xa1a\xa8features\xc4\x08" + struct.pack("<ff", 1.0, 2.0)
PATHS = [b"rank", b"feedback", b"explain", b"rank/batch", b"feedback/batch", b"pin", b"rollback", b"file", b"versions"]
METHODS = [
    b"POST",
    b"PUT",
    b"GET",
    b"DELETE",
    b"PATCH",
    b"HEAD",
    b"OPTIONS",
    b"TRACE",
    b"CONNECT",
    b"get",
    b"X" * 50,
    b"",
]
READING = [b"GET"] * 12 + [b"HEAD"] * 3 + METHODS
TARGETS = [
    b"/v1/models/m/%s",
    b"/v1/models/%%00/%s",
    b"/v1/models/..%%2f..%%2fm/%s",
    b"/v1/models/%%ff%%fe/%s",
    b"//v1//models/m/%s",
    b"http://127.0.0.1/v1/models/m/%s?x=\xff",
    b"/v1/models/" + b"m" * 5000 + b"/%s",
    b"/v1/models/m/%s%%0d%%0aset-cookie:x",
    b"\x00%s",
    b"*",
]
STREAMS = [b"/v1/live"] * 4 + [
    b"/v1/live?x=\xff&x",
    b"/v1/live?x=%ff&x",
    b"/v1/live?" + b"x" * 5000,
    b"/v1/live#x",
    b"/v1/live/",
    b"//v1/live",
    b"/v1/%6cive",
    b"/v1/live%00",
    b"http://127.0.0.1/v1/live",
]
HEADERS = [
    b"content-type: application/msgpack",
    b"content-type: application/json; charset=utf-16",
    b"content-type: \xff\xfe",
    b"authorization: Bearer \xff",
    b"host: [",
    b"host: elsewhere.example",
    b"origin: null",
    b"x-request-id: a\tb",
    b"x-request-id: " + b"i" * 500,
    b"expect: 100-continue",
    b"connection: upgrade\r\nupgrade: h2c",
    b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: eA==\r\nsec-websocket-version: 13",
    b"no colon",
    b": no name",
    b"folded: a\r\n b",
    b"nul: \x00",
    b"large: " + b"x" * 70_000,
]
SECONDS_OF_SILENCE = 3.0
EVENT = b"}\n\n"  # how it ends
LENGTHS = [b"-1", b"+5", b"1e3", b"0x10", b"99999999999999999999", b"", b"7, 7", b"\xb2", b"8000001"]
NUMBERS = [
    b"1e999",
    b"-1e999",
    b"NaN",
    b"Infinity",
    b"-",
    b"1.",
    b"0" * 20 + b"1",
    b"9" * 5000,
    b"1e-999",
    b"1" + b"0" * 400,
]


@dataclass(frozen=True)
class Attempt:
    """Bytes, and how they are sent."""

    content: bytes
    manner: str  # whole, slow, cut (half of it, then half-closed), gone (half of it, then closed)


def attempt(chance: random.Random) -> Attempt:
    """Return the next attempt."""
    make = chance.choice([_noise, _mutated, _http, _http, _json, _json, _json, _packed, _packed])
    return _sent(make, chance)


def attempt_at_stream(chance: random.Random) -> Attempt:
    """Return the next attempt at the stream of events."""
    return _sent(chance.choice([_stream, _stream, _broken_stream]), chance)


def _sent(make: Callable[[random.Random], bytes], chance: random.Random) -> Attempt:
    manner = chance.choices(["whole", "slow", "cut", "gone"], [90, 3, 5, 2])[0]
    return Attempt(make(chance), manner)


def _noise(chance: random.Random) -> bytes:
    return chance.choice([b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01"]) + chance.randbytes(
        chance.randrange(200)
    )


def request(body: bytes, path: bytes = b"rank", *headers: bytes, method: bytes = b"POST") -> bytes:
    """Return a request that is whole HTTP."""
    head = [method + b" /v1/models/m/" + path + b" HTTP/1.1", b"host: 127.0.0.1", b"content-length: %d" % len(body)]
    return b"\r\n".join([*head, *headers, b"", body])


def _mutated(chance: random.Random) -> bytes:
    return damaged(request(GOOD_JSON, chance.choice(PATHS)), chance)


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Return it with a few bytes changed, left out, or sent twice."""
    found = bytearray(content)
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(found) + 1)
        end = at + chance.randrange(1, 8)
        change = chance.randrange(3)
        found[at:end] = [chance.randbytes(end - at), b"", bytes(found[at:end]) * 2][change]
    return bytes(found)


def _http(
    chance: random.Random, methods: Sequence[bytes] = METHODS[:4] * 3 + METHODS, targets: Sequence[bytes] = TARGETS
) -> bytes:
    """Return a request whose method, target, headers, lengths or chunks are odd."""
    target = chance.choice(targets)
    target = target.replace(b"%s", chance.choice(PATHS)).replace(b"%%", b"%")
    version = chance.choice([b"HTTP/1.1"] * 5 + [b"HTTP/1.0", b"HTTP/9.9", b"HTTP/", b""])
    head = [b" ".join([chance.choice(methods), target, version])]
    head += [b"host: 127.0.0.1"] * chance.choice([1, 1, 1, 1, 0, 2])
    head += chance.sample(HEADERS, chance.choice([0, 1, 1, 2]))
    body = GOOD_JSON
    match chance.randrange(4):
        case 0:
            head.append(b"content-length: " + chance.choice(LENGTHS))
        case 1:
            size = chance.choice([b"%x" % len(body), b"-1", b"zz", b"ffffffffffffffffff", b"5;x=\x01"])
            head.append(b"transfer-encoding: chunked")
            body = size + b"\r\n" + body + b"\r\n0\r\n\r\n"
        case 2:
            head += [b"content-length: %d" % (len(body) + chance.choice([-5, 5])), b"transfer-encoding: chunked"]
        case _:
            head.append(b"content-length: %d" % (len(body) + chance.choice([0, 0, -3, 4])))
    return chance.choice([b"\r\n", b"\r\n", b"\r\n", b"\n"]).join([*head, b"", body])


def _broken_stream(chance: random.Random) -> bytes:
    return _http(chance, READING, STREAMS)


def _stream(chance: random.Random) -> bytes:
    """Return a request for the stream that mostly is whole HTTP."""
    body = chance.choice([b"", b"", GOOD_JSON])
    version = chance.choice([b"HTTP/1.1"] * 4 + [b"HTTP/1.0"])
    head = [b" ".join([chance.choice(READING), chance.choice(STREAMS), version]), b"host: 127.0.0.1"]
    head += [b"content-length: %d" % len(body), *chance.sample(HEADERS, chance.choice([0, 0, 1]))]
    return b"\r\n".join([*head, b"", body])


def _json(chance: random.Random) -> bytes:
    body = [
        lambda: damaged(GOOD_JSON, chance),
        lambda: GOOD_JSON[: chance.randrange(len(GOOD_JSON))],
        lambda: GOOD_JSON.replace(b"0.5", chance.choice(NUMBERS)),
        lambda: GOOD_JSON.replace(
            b'"a"', b'"' + chance.choice([b"\\ud800", b"\xff\xfe", b"\\u0000", b"x" * 300]) + b'"'
        ),
        lambda: GOOD_JSON.replace(b'"top": 2', b'"top": 2, "top": 3'),
        lambda: GOOD_JSON.replace(b'"b"', b'"a"'),
        lambda: chance.choice([b"[", b'{"documents":', b'{"a":']) * chance.choice([10, 1000, 100_000]),
        lambda: GOOD_JSON.decode().encode(chance.choice(["utf-16", "utf-32", "utf-8-sig"])),
        lambda: b'{"n_features": %s, "settings": %s}' % (chance.choice(NUMBERS), b"[" * 500 + b"]" * 500),
        lambda: b'{"impression": "%s", "clicks": [%s]}' % (chance.randbytes(8).hex().encode(), b'"a",' * 500 + b'"a"'),
    ]
    made: Callable[[], bytes] = chance.choice(body)
    return request(made(), chance.choice(PATHS), method=chance.choice([b"POST", b"POST", b"PUT"]))


def _packed(chance: random.Random) -> bytes:
    nan = struct.pack("<ff", float("nan"), float("inf"))
    body = [
        lambda: damaged(GOOD_PACKED, chance),
        lambda: GOOD_PACKED[: chance.randrange(len(GOOD_PACKED))],
        lambda: GOOD_PACKED[:-8] + nan,
        lambda: GOOD_PACKED.replace(b"\xc4\x08", b"\xc6\xff\xff\xff\xff"),
        lambda: b"\x83" + GOOD_PACKED[1:6] + GOOD_PACKED[1:],  # ids, twice
        lambda: chance.choice([b"\x91", b"\x81\xa1a", b"\xdd\xff\xff\xff\xff"]) * chance.choice([10, 1000, 100_000]),
        lambda: b"\xc7" + chance.randbytes(30),
        lambda: chance.randbytes(chance.randrange(60)),
        lambda: b"\x81\xa9documents\x91\x82\xa2id\xa1a\xa8features\x92\xcb\x7f\xf8\0\0\0\0\0\0\x01",
    ]
    made: Callable[[], bytes] = chance.choice(body)
    return request(made(), chance.choice(PATHS), b"content-type: application/msgpack")


def answer(port: int, sent: Attempt, seconds: float) -> bytes:
    """Return what comes back: the first answer, or of a stream its first event, and whatever follows at once.

    Where nothing comes for some time, the service waits for more; then our side is closed, and so must its side be.
    TimeoutError: it does not close it.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        try:
            _send(connection, sent)
            if sent.manner == "gone":
                return b""
            connection.settimeout(SECONDS_OF_SILENCE)
            got = b""
            with contextlib.suppress(TimeoutError):
                while not _is_answer(got) and (part := connection.recv(65536)):
                    got += part
            connection.settimeout(seconds)
            with contextlib.suppress(OSError):  # the service may have closed it before
                connection.shutdown(socket.SHUT_WR)
            return got + b"".join(iter(lambda: connection.recv(65536), b""))
        except (ConnectionError, BrokenPipeError):
            return b""  # refused before everything was sent


def _is_answer(got: bytes) -> bool:
    """Return whether an answer has come: all of its head, and of a stream an event."""
    return b"\r\n\r\n" in got and (b"text/event-stream" not in got or EVENT in got)


def _send(connection: socket.socket, sent: Attempt) -> None:
    if sent.manner == "slow":
        step = max(1, len(sent.content) // 5)
        for at in range(0, len(sent.content), step):
            connection.sendall(sent.content[at : at + step])
            time.sleep(0.02)
        return
    n = len(sent.content)
    connection.sendall(sent.content[: n // 2] if sent.manner in ("cut", "gone") else sent.content)
