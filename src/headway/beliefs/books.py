"""The books of estimates by name, as `--estimates` names them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headway.beliefs.file import NO_BELIEFS, LearnedBeliefs
from headway.core.errors import UserError
from headway.core.estimates import Counts
from headway.core.job import Job
from headway.cycle.loop import Book
from headway.estimates.models.scaling import plain_speed
from headway.estimates.plain_books import DeclaredBook, LinearBook, NoEstimates, OracleBook, Truth
from headway.estimates.progress import ProgressBook

ESTIMATES = ("oracle", "declared", "progress", "linear", "none")


def make_book(
    estimates: str, truth: Truth | None = None, speed: Callable[[Job, Counts], float] = plain_speed,
    beliefs: LearnedBeliefs = NO_BELIEFS, on_types: Callable[[Job], Mapping[str, float]] | None = None,
) -> Book:  # fmt: skip
    """The book of estimates by name. Only virtual time has a truth for the oracle."""
    match estimates:
        case "oracle":
            if truth is None:
                raise UserError("--estimates oracle: only virtual time knows the truth; use declared or progress")
            return OracleBook(truth, speed, on_types)
        case "declared":
            return DeclaredBook()
        case "progress":
            return ProgressBook(history=beliefs.history)
        case "linear":
            return LinearBook()
        case "none":
            return NoEstimates()
    raise UserError(f"--estimates {estimates}: choose one of {', '.join(ESTIMATES)}")
