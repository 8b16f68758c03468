"""The query of a list of trials: which, in which order, told in words of a URL."""

from typing import Annotated, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from controller.api.models.trials import Outcome
from ledger.records import TrialKind
from ledger.states import Reason, TrialState
from ledger.trial_fields import parse_condition
from ledger.trial_pages import TrialFilter

MOST_CONDITIONS = 20

Text = Annotated[str, StringConstraints(max_length=600, pattern=r"^[^\x00]*$")]


class TrialsWanted(BaseModel):
    """Which trials; what is left out asks nothing."""

    model_config = ConfigDict(extra="forbid")
    state: list[TrialState] | None = Field(None, description="Only these states")
    kind: list[TrialKind] | None = Field(None, description="Only these kinds")
    outcome: list[Outcome] | None = Field(
        None, description="Only these outcomes (kept, discarded, pruned, …)"
    )
    reason: list[Reason] | None = Field(None, description="Only these reasons")
    proposer: list[Text] | None = Field(None, description="Proposed by one of these")
    candidate: Text | None = Field(None, description="Executions of this candidate")
    family: Text | None = Field(None, description="Replays of this family")
    where: list[Text] | None = Field(
        None,
        max_length=MOST_CONDITIONS,
        description="Comparisons, all of which hold: a column (number, value, wall_s, created, "
        "params.NAME, scores.NAME, metrics.NAME), one of = != < <= > >=, and a number or text",
        examples=[["params.learning_rate>=0.001", "value>0.5", "params.optimizer=adam"]],
    )
    text: Text | None = Field(None, description="Occurs in ids, detail, parameters or rationale")

    def filter(self) -> TrialFilter:
        """Raises InvalidInput."""
        return TrialFilter(
            states=self.state,
            outcomes=self.outcome,
            kinds=self.kind,
            reasons=self.reason,
            proposers=self.proposer,
            candidate=self.candidate,
            family=self.family,
            conditions=[parse_condition(condition) for condition in self.where or ()],
            text=self.text,
        )


class TrialsListed(TrialsWanted):
    """The same with the order and the page."""

    sort: Text = Field(
        "number",
        description="A column, as in `where`; trials without one come last",
        examples=["value", "params.learning_rate", "metrics.train/loss"],
    )
    order: Literal["asc", "desc"] = Field("asc", description="Rising or falling")
    cursor: Text | None = Field(None, description="`next_cursor` of the page before")
    limit: int = Field(50, ge=1, le=500, description="Items of a page, at most")
    count: bool = Field(default=False, description="Also say how many there are in all")


Wanted = Annotated[TrialsWanted, Query()]
Listed = Annotated[TrialsListed, Query()]
