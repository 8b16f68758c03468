"""What it takes to repeat a trial outside ARL: programs, inputs by digest, expected scores."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controller.spec.loading import parse_study
from controller.spec.study import StudySpec
from controller.steps.attempt_specs import SOURCE_INPUT, program_of, train_document
from evaluator.bundle import Bundle, load_bundle
from evaluator.statistics import pooled_sd, student_t_ppf
from inner_trials import contract
from ledger import reads, summaries
from ledger.artifacts import ArtifactStore
from ledger.database import ReadSession
from ledger.errors import Conflict
from ledger.records import ArtifactRole, Candidate, Evaluation, Json, Study, TrialKind
from ledger.states import StudyState, TrialState
from targets import layout
from targets.protocol import Program

EVALUATOR_PLACE = "evaluator/bundle"
"""Where in the directory the frozen evaluator's files go."""
_ENVIRONMENT = {
    "PATH": layout.CLEAN_PATH,
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "PYTHONHASHSEED": "0",
    "CUDA_VISIBLE_DEVICES": "",
}
"""What the local target gives every program."""


@dataclass(slots=True, kw_only=True)
class Recipe:
    """A reproduction as `reproduction.json` holds it, and the trees to put beside it."""

    detail: reads.TrialDetail
    study: Study
    spec: StudySpec
    document: dict[str, Json]
    trees: dict[str, str] = field(default_factory=dict)
    """Where in the directory each stored tree goes: path to digest."""

    def place(self, where: str, digest: str) -> str:
        self.trees[where] = digest
        return where


def make_recipe(session: ReadSession, store: ArtifactStore, trial_id: str) -> Recipe:
    """Raises Conflict when the trial left nothing that could be compared."""
    detail = reads.get_trial(session, trial_id)
    study = reads.get_study(session, detail.trial.study_id)
    if study.state is StudyState.IMPORTED:
        raise Conflict(f"study {study.id} was imported: the ledger has no program to repeat")
    spec = parse_study(study.spec)
    if detail.trial.kind is TrialKind.CONVERSION:
        raise Conflict(
            f"trial {trial_id} converted a model and trained none: name the candidate "
            f"({detail.candidate.id}), and convert what it gives"
        )
    if not detail.evaluations:
        raise Conflict(
            f"trial {trial_id} has no score, so there is nothing to repeat: name one that has "
            f"(`arl show {study.id}` lists them)"
        )
    bundle = load_bundle(store, study.bundle_digest) if study.bundle_digest else None
    recipe = Recipe(detail=detail, study=study, spec=spec, document={})
    artifact = next((a.digest for a in detail.artifacts if a.role is ArtifactRole.MODEL), None)
    train = _train_step(recipe)
    evaluate = None if bundle is None else _evaluate_step(recipe, bundle)
    recipe.document = {
        "format": 1,
        "study": study.id,
        "name": study.name,
        "trial": detail.trial.id,
        "candidate": detail.candidate.id,
        "metric": spec.objective.metric,
        "direction": str(spec.objective.direction),
        "artifact": artifact,
        "expected": _expected(session, recipe),
        "train": train,
        "evaluate": evaluate,
        "trees": dict(recipe.trees),
    }
    return recipe


def choose_trial(session: ReadSession, candidate: Candidate) -> str:
    """The trial whose model was promoted, else the first one of the candidate with a score."""
    trials = [
        t for t in summaries.trials_of(session, candidate.id) if t.state is TrialState.COMPLETE
    ]
    confirmed = [t for t in trials if (t.stage or "").startswith("confirm")]
    scored = reads.load_evaluations(session, [t.id for t in trials])
    for trial in [*confirmed, *trials]:
        if scored.get(trial.id):
            return trial.id
    raise Conflict(f"candidate {candidate.id} has no trial with a score, so none to repeat")


# --- the two programs --------------------------------------------------------------------------


def _step(
    program: Program, inputs: Mapping[str, str], timeout_s: float, cpus: float
) -> dict[str, Json]:
    return {
        "argv": list(program.argv),
        "python": program.python,
        "environment": {
            **_ENVIRONMENT,
            "OMP_NUM_THREADS": str(max(1, int(cpus))),
            **program.environment,
        },
        "working_input": program.working_input,
        "inputs": dict(inputs),
        "timeout_s": timeout_s,
        "answerer": None,
    }


def _train_step(recipe: Recipe) -> dict[str, Json]:
    spec, trial, candidate = recipe.spec, recipe.detail.trial, recipe.detail.candidate
    trees = dict(recipe.study.inputs)
    if candidate.source_digest is not None:
        trees[SOURCE_INPUT] = candidate.source_digest
    inputs = {name: recipe.place(f"inputs/{name}", tree) for name, tree in trees.items()}
    resources = spec.resources
    step = _step(program_of(spec), inputs, resources.wall_time_s, resources.cpus)
    step["document"] = train_document(spec, candidate.params, trial_id=trial.id, seed=trial.seed)
    return step


def _evaluate_step(recipe: Recipe, bundle: Bundle) -> dict[str, Json]:
    spec = recipe.spec
    inputs = {"bundle": recipe.place(EVALUATOR_PLACE, bundle.code_tree)}
    splits = {
        str(scored.split): recipe.place(f"evaluator/{scored.split}", bundle.splits[scored.split])
        for scored in recipe.detail.evaluations
        if scored.split in bundle.splits
    }
    python = spec.evaluator.python or program_of(spec).python
    program = Program(argv=bundle.argv, python=python)
    cpus = spec.evaluator.cpus or spec.resources.cpus
    step = _step(program, inputs, spec.evaluator.wall_time_s, cpus)
    step["splits"] = dict(splits)
    step["document"] = {
        "format": contract.FORMAT,
        "trial": recipe.detail.trial.id,
        "kind": "evaluate",
        "parameters": {},
        "seed": 0,
        "options": dict(bundle.options),
    }
    if spec.evaluator.mode == "answers":
        step["answerer"] = _answerer_step(recipe)
    return step


def _answerer_step(recipe: Recipe) -> dict[str, Json]:
    spec, source = recipe.spec, recipe.detail.candidate.source_digest
    inputs = {} if source is None else {SOURCE_INPUT: f"inputs/{SOURCE_INPUT}"}
    program = Program(
        argv=spec.evaluator.answer_argv or (),
        python=program_of(spec).python,
        working_input=SOURCE_INPUT if source is not None else None,
    )
    step = _step(program, inputs, spec.evaluator.wall_time_s, spec.resources.cpus)
    step["document"] = {}
    return step


# --- what to expect ----------------------------------------------------------------------------


def _expected(session: ReadSession, recipe: Recipe) -> dict[str, Json]:
    """Each split's score, and where one more run of this candidate falls 95 % of the time."""
    runs = _runs(session, recipe)
    resolution = recipe.spec.evaluator.metrics.get(recipe.spec.objective.metric)
    least = resolution.resolution if resolution is not None else 0.0
    noise = summaries.latest_noise_floor(session, recipe.study.id) or 0.0
    found: dict[str, Json] = {}
    for scored in recipe.detail.evaluations:
        groups = [[e.value for e in group if e.split is scored.split] for group in runs]
        low, high, count = _interval(scored, groups, least=least, noise=noise)
        found[str(scored.split)] = {
            "value": scored.value,
            "low": low,
            "high": high,
            "runs": count,
        }
    return found


def _interval(
    scored: Evaluation, groups: Sequence[Sequence[float]], *, least: float, noise: float
) -> tuple[float, float, int]:
    """A 95 % prediction interval around the candidate's mean; its noise pooled with that of the
    baseline's runs on the same split (where nothing ran twice: twice the study's noise floor),
    and never below the metric's resolution."""
    own = groups[0]
    middle = math.fsum(own) / len(own)
    sd = pooled_sd(group for group in groups if len(group) > 1) or 0.0
    degrees = sum(len(group) - 1 for group in groups if len(group) > 1)
    reach = 2 * noise
    if degrees:
        reach = student_t_ppf(0.975, degrees) * sd * math.sqrt(1 + 1 / len(own))
    reach = max(reach, least, abs(scored.value - middle), 1e-9 * max(1.0, abs(middle)))
    return middle - reach, middle + reach, len(own)


def _runs(session: ReadSession, recipe: Recipe) -> list[list[Evaluation]]:
    """Scores of every run of the candidate, then of the baseline."""
    trials = summaries.trials_of(session, recipe.detail.candidate.id)
    own = [t.id for t in trials if t.kind is not TrialKind.CONVERSION]
    base = summaries.baseline_trial_ids(session, recipe.study.id)
    scores = reads.load_evaluations(session, [*own, *base])
    both = [own, [] if set(base) <= set(own) else base]
    return [[e for trial_id in ids for e in scores.get(trial_id, ())] for ids in both]
