"""The error of a model that can't be used at all; `ModelFailed` is that of a single call."""

from __future__ import annotations

from stepward.vm.errors import StepwardError


class ModelRefused(StepwardError):  # noqa: N818 - reads better where it is caught than with a suffix
    """A model can't be made: a library is missing, or an option, a key, a table of prices or a recording is wrong."""
