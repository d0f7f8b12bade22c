"""The language of workflow programs and the machine that runs them.

Everything that is imported from here is public; the modules below are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepward.vm.late import late

if TYPE_CHECKING:
    from stepward.vm.errors import DocumentError as DocumentError
    from stepward.vm.errors import EvaluationError as EvaluationError
    from stepward.vm.errors import ExpressionError as ExpressionError
    from stepward.vm.errors import NoCheckerWarning as NoCheckerWarning
    from stepward.vm.errors import PolicyError as PolicyError
    from stepward.vm.errors import Problem as Problem
    from stepward.vm.errors import ProgramError as ProgramError
    from stepward.vm.errors import StepwardError as StepwardError
    from stepward.vm.errors import UndefinedReferenceError as UndefinedReferenceError
    from stepward.vm.journal.memory import MemoryJournal as MemoryJournal
    from stepward.vm.journal.postgres import PostgresJournal as PostgresJournal
    from stepward.vm.journal.run_keys import CommandKeys as CommandKeys
    from stepward.vm.journal.run_keys import FileKeys as FileKeys
    from stepward.vm.journal.signing import SigningKey as SigningKey
    from stepward.vm.journal.sqlite import SQLiteJournal as SQLiteJournal
    from stepward.vm.language.flow import Flow as Flow
    from stepward.vm.language.meaning import Meaning as Meaning
    from stepward.vm.language.policy import Policy as Policy
    from stepward.vm.language.program import Program as Program
    from stepward.vm.language.transitions import Transition as Transition
    from stepward.vm.machine.declared import tool as tool
    from stepward.vm.machine.execution import ExecutionVM as ExecutionVM
    from stepward.vm.machine.migration import Migration as Migration
    from stepward.vm.machine.models import Model as Model
    from stepward.vm.machine.models import ModelFailed as ModelFailed
    from stepward.vm.machine.models import ModelReply as ModelReply
    from stepward.vm.machine.models import ModelRequest as ModelRequest
    from stepward.vm.machine.models import ScriptedModel as ScriptedModel
    from stepward.vm.machine.refusals import DeliveryRefused as DeliveryRefused
    from stepward.vm.machine.refusals import NoSuchRun as NoSuchRun
    from stepward.vm.machine.refusals import RunBusy as RunBusy
    from stepward.vm.machine.refusals import RunRefused as RunRefused
    from stepward.vm.machine.run import Run as Run
    from stepward.vm.machine.state import Limits as Limits
    from stepward.vm.machine.tools import InDoubt as InDoubt
    from stepward.vm.machine.tools import Suspend as Suspend
    from stepward.vm.machine.tools import ToolContext as ToolContext
    from stepward.vm.machine.tools import ToolError as ToolError
    from stepward.vm.machine.tools import Tools as Tools
    from stepward.vm.models.cache import CacheFault as CacheFault
    from stepward.vm.models.cache import ReplyCache as ReplyCache
    from stepward.vm.models.cache_redis import RedisCache as RedisCache
    from stepward.vm.models.cache_sqlite import SQLiteCache as SQLiteCache
    from stepward.vm.models.litellm import LiteLLMModel as LiteLLMModel
    from stepward.vm.models.named import NamedModels as NamedModels
    from stepward.vm.models.openai import OpenAIModel as OpenAIModel
    from stepward.vm.models.prices import PriceTable as PriceTable
    from stepward.vm.models.recorded import RecordedModel as RecordedModel
    from stepward.vm.models.refusals import ModelRefused as ModelRefused
    from stepward.vm.reading.source import Place as Place
    from stepward.vm.reading.source import Span as Span
    from stepward.vm.remote.pins import Pins as Pins
    from stepward.vm.remote.servers import HttpServer as HttpServer
    from stepward.vm.remote.servers import ServerRefused as ServerRefused
    from stepward.vm.remote.servers import StdioServer as StdioServer
    from stepward.vm.remote.tools import McpTools as McpTools
    from stepward.vm.telemetry.ids import trace_id_of as trace_id_of
    from stepward.vm.telemetry.telemetry import Telemetry as Telemetry

_HOMES = {
    "DocumentError": "errors",
    "EvaluationError": "errors",
    "ExpressionError": "errors",
    "NoCheckerWarning": "errors",
    "PolicyError": "errors",
    "Problem": "errors",
    "ProgramError": "errors",
    "StepwardError": "errors",
    "UndefinedReferenceError": "errors",
    "MemoryJournal": "journal.memory",
    "PostgresJournal": "journal.postgres",
    "CommandKeys": "journal.run_keys",
    "FileKeys": "journal.run_keys",
    "SigningKey": "journal.signing",
    "SQLiteJournal": "journal.sqlite",
    "Flow": "language.flow",
    "Transition": "language.transitions",
    "Meaning": "language.meaning",
    "Policy": "language.policy",
    "Program": "language.program",
    "DeliveryRefused": "machine.refusals",
    "ExecutionVM": "machine.execution",
    "NoSuchRun": "machine.refusals",
    "RunBusy": "machine.refusals",
    "RunRefused": "machine.refusals",
    "Migration": "machine.migration",
    "Model": "machine.models",
    "ModelFailed": "machine.models",
    "ModelReply": "machine.models",
    "ModelRequest": "machine.models",
    "ScriptedModel": "machine.models",
    "Run": "machine.run",
    "Limits": "machine.state",
    "InDoubt": "machine.tools",
    "Suspend": "machine.tools",
    "ToolError": "machine.tools",
    "ToolContext": "machine.tools",
    "Tools": "machine.tools",
    "CacheFault": "models.cache",
    "RedisCache": "models.cache_redis",
    "ReplyCache": "models.cache",
    "SQLiteCache": "models.cache_sqlite",
    "LiteLLMModel": "models.litellm",
    "ModelRefused": "models.refusals",
    "OpenAIModel": "models.openai",
    "PriceTable": "models.prices",
    "NamedModels": "models.named",
    "RecordedModel": "models.recorded",
    "Place": "reading.source",
    "Span": "reading.source",
    "Telemetry": "telemetry.telemetry",
    "trace_id_of": "telemetry.ids",
    "tool": "machine.declared",
    "HttpServer": "remote.servers",
    "McpTools": "remote.tools",
    "Pins": "remote.pins",
    "ServerRefused": "remote.servers",
    "StdioServer": "remote.servers",
}

__all__ = list(_HOMES)
__getattr__, __dir__ = late(globals(), "stepward.vm.", _HOMES)
