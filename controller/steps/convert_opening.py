"""Opens conversions of a promoted model: those of the study file, or one that is asked for."""

from controller.spec.convert import ConvertSpec
from controller.spec.convert_rules import parse_conversion, resolved_conversion
from controller.steps.context import StepContext
from controller.steps.gate_input import winner_of
from controller.steps.view import StudyView
from ledger import reads
from ledger.conversion_entries import ConversionOpened
from ledger.errors import ArtifactCorrupt, Conflict, NotFound
from ledger.records import ArtifactRole, Family
from ledger.states import ConversionState, FamilyState, StudyState, TrialState


def open_all(ctx: StepContext, family: Family, actor: str) -> None:
    """Open what the study file asks for of a family's promoted winner."""
    for wanted in ctx.view.spec.convert:
        _open(ctx, family, wanted, actor)


def open_by_hand(ctx: StepContext, candidate_id: str, wanted: object, actor: str) -> None:
    """One conversion of a promoted candidate. Raises Conflict, InvalidInput, with what to do."""
    view = ctx.view
    conversion = parse_conversion(view.spec, wanted)
    family = _promoting_family(view, candidate_id)
    if view.study.state is not StudyState.COMPLETED:
        raise Conflict(
            f"study {view.study.name} is {view.study.state}; a model is converted once it is"
            " completed (its own conversions come with the promotion)"
        )
    settings = resolved_conversion(view.spec, conversion)
    for known in view.conversions.values():
        same = known.candidate_id == candidate_id and dict(known.settings) == settings
        if same and known.state in (ConversionState.SERVABLE, ConversionState.REFUSED):
            raise Conflict(
                f"conversion {known.id} was made with these settings and is {known.state}: the"
                " holdout is not asked the same thing twice"
            )
    for digest in _sources(ctx, family, 1).values():
        _check_intact(ctx, digest)
    ctx.move(StudyState.REPLAYING, detail=f"{conversion.method} of {candidate_id} for {actor}")
    _open(ctx, family, conversion, actor)


def _check_intact(ctx: StepContext, digest: str) -> None:
    try:
        ctx.store.verify(digest)
    except (ArtifactCorrupt, NotFound) as error:
        raise Conflict(f"the promoted model cannot be converted: {error}") from None


def _promoting_family(view: StudyView, candidate_id: str) -> Family:
    promoted = [f for f in view.families.values() if f.state is FamilyState.PROMOTED]
    of_it = [f for f in promoted if winner_of(f) == candidate_id]
    if of_it:
        return max(of_it, key=lambda f: f.number)
    known = ", ".join(winner_of(f) for f in promoted) or "none"
    raise Conflict(
        f"candidate {candidate_id} is not promoted: only a promoted model is converted; this"
        f" study promoted {known}"
    )


def _open(ctx: StepContext, family: Family, wanted: ConvertSpec, actor: str) -> None:
    number = len(ctx.view.conversions) + 1
    sources = _sources(ctx, family, wanted.seeds)
    ctx.add(
        ConversionOpened(
            conversion_id=f"{ctx.view.study.id}-v{number}",
            number=number,
            candidate_id=winner_of(family),
            model=family.model,
            method=wanted.method,
            settings=resolved_conversion(ctx.view.spec, wanted),
            sources=tuple(sources),
            digests=tuple(sources.values()),
            actor=actor,
        )
    )


def _sources(ctx: StepContext, family: Family, seeds: int) -> dict[str, str]:
    """The winner's confirmation runs and their models; the first one's was promoted. Raises
    Conflict when there is none."""
    trials = [
        m.trial_id
        for m in ctx.view.replays.get(family.id, ())
        if m.candidate_id == winner_of(family)
        and (m.stage or "").startswith("confirm")
        and m.state is TrialState.COMPLETE
    ]
    with ctx.ledger.read() as session:
        found = {
            trial_id: digest
            for trial_id in trials[:seeds]
            if (digest := reads.find_artifact(session, trial_id, ArtifactRole.MODEL))
        }
    if not found:
        raise Conflict(f"no confirmation run of {winner_of(family)} has a model to convert")
    return found
