"""A real PostgreSQL, started in a folder of its own; `initdb` refuses root, so then it runs as user postgres."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

from helpers.serving import children, is_running


def binaries() -> Path | None:
    """Return the folder of PostgreSQL's programs, newest first."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]), reverse=True)
    on_path = shutil.which("initdb")
    return found[0].parent if found else Path(on_path).parent if on_path else None


class Database:
    """One server that listens on a socket in its folder alone."""

    def __init__(self) -> None:
        programs = binaries()
        assert programs is not None
        self._programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="perturank-pg-"))
        self._as_other = (
            ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"] if os.geteuid() == 0 else []
        )
        if self._as_other:
            shutil.chown(self.folder, "postgres", "postgres")
        self._run("initdb", "-D", "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        self._server: subprocess.Popen[bytes] | None = None
        self._n = 0
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as_other, str(self._programs / program), *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        """Start the server and wait until it answers."""
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)
        command = [*self._as_other, str(self._programs / "postgres"), "-D", "data", "-k", str(self.folder)]
        command += ["-c", "listen_addresses=", "-c", "max_connections=60", "-c", "shared_buffers=16MB"]
        with (self.folder.parent / f"{self.folder.name}.log").open("ab") as lines:
            self._server = subprocess.Popen(
                command, cwd=self.folder, stdout=lines, stderr=lines, start_new_session=True
            )
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.1)
        raise AssertionError("PostgreSQL does not start")

    def url(self, name: str) -> str:
        """Return the address of a database."""
        return f"postgresql://postgres@/{name}?host={self.folder}"

    def fresh(self) -> str:
        """Return the address of a new, empty schema: a database of its own would take megabytes."""
        self._n += 1
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA test{self._n}".encode())
        return f"{self.url('postgres')}&options=-csearch_path%3Dtest{self._n}"

    def kill(self) -> None:
        """End all its processes at once; each has a session of its own."""
        assert self._server is not None
        family = [self._server.pid, *children(self._server.pid)]
        for process in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._server.wait()
        while any(map(is_running, family)):
            time.sleep(0.02)  # the last of them gives the shared memory back

    def close(self) -> None:
        """Stop it and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder.parent / f"{self.folder.name}.log").unlink(missing_ok=True)
