"""What each entry changes in the tables. Rebuilding the rows from the entries runs this too."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from ledger.conversion_entries import ConversionEnded, ConversionMeasured, ConversionOpened
from ledger.entries import (
    ArtifactRecorded,
    AttemptEnded,
    AttemptExited,
    AttemptLaunching,
    AttemptStarted,
    BudgetChanged,
    CandidatePromoted,
    CandidateProposed,
    CommandApplied,
    Entry,
    FamilyMoved,
    FamilyOpened,
    HoldoutUsed,
    InputsFrozen,
    ModelCalled,
    ModelCallsReserved,
    ModelCallsSettled,
    NetworkRequested,
    ProposalsMade,
    ProposerWaits,
    StudyMoved,
    TrialDecided,
    TrialEnded,
    TrialEvaluated,
    TrialServed,
    ValuesReported,
)
from ledger.errors import InvalidInput
from ledger.import_entries import StudyImported, TrialImported
from ledger.project_attempts import (
    project_artifact,
    project_ended_attempt,
    project_exit,
    project_launch,
    project_start,
    project_values,
)
from ledger.project_conversions import (
    project_conversion_end,
    project_measured,
    project_opened,
)
from ledger.project_imports import project_imported_study, project_imported_trial
from ledger.project_model_calls import project_called, project_reserved, project_settled
from ledger.project_network import project_requests
from ledger.project_releases import project_release
from ledger.project_studies import (
    project_budget,
    project_command,
    project_family_move,
    project_family_opened,
    project_holdout_use,
    project_inputs,
    project_move,
    project_proposals,
    project_wait,
)
from ledger.project_trials import (
    project_decision,
    project_end,
    project_evaluation,
    project_proposed,
    project_served,
)
from ledger.projection import Projection
from ledger.retention_entries import ArtifactReleased
from ledger.setting_entries import SettingChanged

_Projector: TypeAlias = Callable[[Any, Projection], None]


def _nothing(_entry: CandidatePromoted | SettingChanged, _to: Projection) -> None:
    """The incumbent's row is projected from the service chain's `incumbent_set`; a changed
    setting has none."""


_PROJECTORS: Final[Mapping[type, _Projector]] = {
    StudyMoved: project_move,
    InputsFrozen: project_inputs,
    CommandApplied: project_command,
    BudgetChanged: project_budget,
    SettingChanged: _nothing,
    ProposalsMade: project_proposals,
    ProposerWaits: project_wait,
    ModelCallsReserved: project_reserved,
    ModelCalled: project_called,
    ModelCallsSettled: project_settled,
    FamilyOpened: project_family_opened,
    HoldoutUsed: project_holdout_use,
    FamilyMoved: project_family_move,
    CandidatePromoted: _nothing,
    ConversionOpened: project_opened,
    ConversionMeasured: project_measured,
    ConversionEnded: project_conversion_end,
    CandidateProposed: project_proposed,
    TrialEvaluated: project_evaluation,
    TrialDecided: project_decision,
    TrialServed: project_served,
    TrialEnded: project_end,
    AttemptLaunching: project_launch,
    AttemptStarted: project_start,
    ValuesReported: project_values,
    NetworkRequested: project_requests,
    AttemptExited: project_exit,
    AttemptEnded: project_ended_attempt,
    ArtifactRecorded: project_artifact,
    ArtifactReleased: project_release,
    StudyImported: project_imported_study,
    TrialImported: project_imported_trial,
}


def project(entry: Entry, to: Projection) -> None:
    """Queue the row changes of one entry. Raises IllegalTransition, BudgetExceeded,
    InvalidInput; a move that the row's present state refuses shows in `Projection.apply`."""
    projector = _PROJECTORS.get(type(entry))
    if projector is None:
        raise InvalidInput(
            f"entry {entry.kind}: only create_study, claim_study and append_service write it"
        )
    projector(entry, to)
