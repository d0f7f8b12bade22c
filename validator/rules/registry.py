"""Every rule, in the order of the codes. To add one: write its class in the file of its family, and list it here."""

from __future__ import annotations

from typing import Final

from stepward.validator.rules.arms import AmbiguousArm
from stepward.validator.rules.base import Rule
from stepward.validator.rules.budgets import BudgetTooSmall
from stepward.validator.rules.called import ImpossibleCall
from stepward.validator.rules.conditions import (
    ConditionSyntax,
    ConstantCondition,
    OverlappingCases,
    ShadowedCase,
    UncoveredCondition,
)
from stepward.validator.rules.control_flow import (
    CycleWithoutExit,
    MissingTarget,
    NoFailureEnding,
    SameBranches,
    UnboundedCycle,
    UnreachableStep,
)
from stepward.validator.rules.deadlines import MissingDeadline
from stepward.validator.rules.effects import EffectInLoop, FallbackForEffect, ParallelRace, RetriedEffect, SiblingRead
from stepward.validator.rules.errors import UnhandledError, UnusedCatch
from stepward.validator.rules.feasibility import InfeasibleStep
from stepward.validator.rules.functions import FunctionMismatch, KeyNotTaken
from stepward.validator.rules.guardrails import (
    ExclusiveBroken,
    ForbiddenState,
    GuardrailBypassed,
    GuardrailStale,
    MissingFollowUp,
    PolicyContradiction,
    RepeatedEffect,
    Unproved,
    VacuousGuardrail,
)
from stepward.validator.rules.housekeeping import (
    InternalError,
    RefusedProof,
    StaleBaseline,
    UnconfirmedWitness,
    UnknownToolInPolicy,
    UnusedSuppression,
    UnusedWaiver,
)
from stepward.validator.rules.items import LongList
from stepward.validator.rules.names import MaybeUndefined, UndeclaredInput, UndefinedVariable
from stepward.validator.rules.orders import ImpossibleOrder
from stepward.validator.rules.placeholders import ForeignPlaceholder
from stepward.validator.rules.shape import DuplicateId, DuplicateKey, NameCollision, Schema, TooLarge, Unreadable
from stepward.validator.rules.text_flow import SensitiveToModel, UnguardedTextToEffect
from stepward.validator.rules.tools import ToolArguments, UndeclaredTool
from stepward.validator.rules.types import ImpossibleValue, QuotedReference, TypeMismatch
from stepward.validator.rules.undeclared import NoManifest
from stepward.validator.rules.unread import NeverRead

RULES: Final[tuple[type[Rule], ...]] = (
    Unreadable,
    Schema,
    DuplicateKey,
    TooLarge,
    DuplicateId,
    NameCollision,
    MissingTarget,
    UnreachableStep,
    InfeasibleStep,
    CycleWithoutExit,
    UnboundedCycle,
    AmbiguousArm,
    NoFailureEnding,
    SameBranches,
    ImpossibleOrder,
    ImpossibleCall,
    UnhandledError,
    UnusedCatch,
    LongList,
    UndefinedVariable,
    MaybeUndefined,
    TypeMismatch,
    QuotedReference,
    ImpossibleValue,
    UndeclaredTool,
    ToolArguments,
    SensitiveToModel,
    UnguardedTextToEffect,
    UndeclaredInput,
    ForeignPlaceholder,
    NeverRead,
    NoManifest,
    FunctionMismatch,
    KeyNotTaken,
    ConditionSyntax,
    UncoveredCondition,
    ConstantCondition,
    ShadowedCase,
    OverlappingCases,
    GuardrailBypassed,
    GuardrailStale,
    ForbiddenState,
    RepeatedEffect,
    MissingFollowUp,
    ExclusiveBroken,
    VacuousGuardrail,
    Unproved,
    PolicyContradiction,
    ParallelRace,
    SiblingRead,
    RetriedEffect,
    EffectInLoop,
    FallbackForEffect,
    BudgetTooSmall,
    MissingDeadline,
    UnusedSuppression,
    UnusedWaiver,
    UnknownToolInPolicy,
    StaleBaseline,
    UnconfirmedWitness,
    RefusedProof,
    InternalError,
)

RULE_BY_CODE: Final[dict[str, type[Rule]]] = {rule.code: rule for rule in RULES}
