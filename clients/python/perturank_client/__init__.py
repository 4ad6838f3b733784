"""The clients of a perturank service: the same as `perturank.client`, without the rest of perturank."""

from . import client
from .__about__ import __version__
from .client import *  # noqa: F403
from .errors import BadInput

__all__ = ["BadInput", "__version__"]
__all__ += client.__all__
