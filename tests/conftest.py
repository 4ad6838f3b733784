"""Compiled programs are kept on disk: workers share them, and a second run has little left to compile."""

from perturank import machine

machine.keep_compiled_programs()
