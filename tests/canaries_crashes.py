"""Canaries of the family "crashes"; a helper, no tests stand here."""

from __future__ import annotations

from canaries import Canary

CANARIES: tuple[Canary, ...] = ()
