"""The program `perturank`, also as `python -m perturank`."""

from __future__ import annotations

from perturank import interrupts


def main() -> None:
    """Run the command line; Ctrl-C is one line also while it loads."""
    interrupts.end_at_interrupt()
    from perturank import cli

    cli.main()


if __name__ == "__main__":
    main()
