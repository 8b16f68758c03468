"""Name to proposer. To add one: write it, name it here, and the contract tests cover it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, cast

from pydantic import ValidationError

from ledger.errors import InvalidInput, UnknownName
from ledger.records import Params
from proposers.chat_options import LLMDiffOptions, LLMOptions
from proposers.hybrid_options import HybridOptions, Part
from proposers.options import HostedOptions, NoOptions, Options, faults_of
from proposers.optuna_options import CmaesOptions, GpOptions, Nsga2Options, TpeOptions
from proposers.ppo_options import PpoOptions
from proposers.protocol import Proposer
from proposers.random_search import anything
from proposers.search_space import SearchSpace

if TYPE_CHECKING:
    import httpx


def _no_secret(name: str) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a proposer is made of."""

    space: SearchSpace
    options: Options
    mutable: tuple[str, ...] = ()
    """Files that a patch may change."""
    required_calls: tuple[str, ...] = ()
    """Calls that a patch has to leave in them."""
    read_secret: Callable[[str], str] = _no_secret
    """The value of the environment variable that an option names; raises InvalidInput."""
    transport: "Callable[[], httpx.BaseTransport] | None" = None
    """What carries requests to models, new for each; None: httpx's own, to any address."""
    is_valid: Callable[[Params], bool] = anything
    """Whether a point can be a trial: its plan may be one that no study can run. A proposal that
    is not valid costs nothing and fails at once; better not to make it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    build: Callable[[Setup], Proposer]
    """Raises InvalidInput for a space it cannot search. Imports what is heavy."""
    options: type[Options] = NoOptions
    exhausts: bool = False
    """Whether it ends by itself once every point of a finite space was proposed."""
    is_hosted: bool = False
    """Whether it runs in a process of its own, because it imports torch: there alone `build` is
    called, and what it raises fails the study's first call. Its options are HostedOptions, it is
    `is_slow`, it asks no models, and `sources` of the history it is told is None."""
    is_slow: bool = False
    """Whether a call may take longer than a tick: it is made beside the loop then."""
    asks_models: bool = False
    """Whether it asks a language model: its calls are priced, reserved and recorded, and it is
    told scores by the Ladder unless its options say otherwise."""
    spares_models: bool = False
    """Of one that asks models: whether it goes on without them when their budget is spent."""
    writes_patches: bool = False
    """Whether it changes program.mutable."""
    reads_scores: bool = False
    """Whether it is told every metric of a trial."""
    reads_times: bool = False
    """Whether it is told how long trials took."""
    has_arms: bool = False
    """Whether it is made of other proposers: its facts are theirs, see `describe`."""
    one_objective: bool = False
    """Whether it cannot look for a Pareto front."""
    modules: tuple[str, ...] = ()
    """What it imports that not every installation has."""
    extra: str = ""
    """Which extras of ARL, separated by commas, install those."""


def _grid(setup: Setup) -> Proposer:
    from proposers.grid import Grid

    return Grid(setup.space, setup.is_valid)


def _random(setup: Setup) -> Proposer:
    from proposers.random_search import RandomSearch

    return RandomSearch(setup.space, setup.is_valid)


def _optuna(name: str, setup: Setup) -> Proposer:
    _check_modules(name)
    from proposers.optuna_search import OptunaSearch

    return OptunaSearch(name, setup.space, setup.options, setup.is_valid)


def _ppo(setup: Setup) -> Proposer:
    _check_modules("ppo")
    from proposers.ppo import PpoSearch

    return PpoSearch(setup.space, cast(PpoOptions, setup.options), setup.is_valid)


def _check_modules(name: str) -> None:
    why = missing_modules(name)
    if why:
        raise InvalidInput(f"proposer.name {name!r}: {why}")


def missing_modules(name: str, options: Mapping[str, object] | None = None) -> str:
    """Which packages a registered proposer lacks here, and what installs them; else nothing."""
    registered = describe(name, options or {})
    missing = [module for module in registered.modules if find_spec(module) is None]
    if not missing:
        return ""
    return f"{' and '.join(missing)} missing; pip install 'arl[{registered.extra}]'"


def _llm(setup: Setup) -> Proposer:
    _check_httpx("llm")
    from proposers.chat import Chat
    from proposers.fallback import build_fallback
    from proposers.llm import LLM

    options = cast(LLMOptions, setup.options)
    chat = Chat(options, setup.read_secret, setup.transport)
    return LLM(setup.space, options, chat, build_fallback(setup))


def _llm_diff(setup: Setup) -> Proposer:
    _check_httpx("llm_diff")
    from proposers.chat import Chat
    from proposers.llm_diff import LLMDiff

    options = cast(LLMDiffOptions, setup.options)
    chat = Chat(options, setup.read_secret, setup.transport)
    return LLMDiff(setup.mutable, setup.required_calls, options, chat)


def _hybrid(setup: Setup) -> Proposer:
    from proposers.hybrid import Hybrid
    from proposers.hybrid_arms import build_arms

    options = cast(HybridOptions, setup.options)
    return Hybrid(build_arms(setup, options), setup.space, options)


def _check_httpx(name: str) -> None:
    if find_spec("httpx") is None:
        raise InvalidInput(f"proposer.name {name!r}: httpx is missing; pip install 'arl[llm]'")


PROPOSERS: Final[Mapping[str, Registered]] = {
    "grid": Registered(build=_grid, exhausts=True),
    "random": Registered(build=_random, exhausts=True),
    "tpe": Registered(
        build=partial(_optuna, "tpe"),
        options=TpeOptions,
        exhausts=True,
        modules=("optuna",),
        extra="optuna",
    ),
    "gp": Registered(
        build=partial(_optuna, "gp"),
        options=GpOptions,
        exhausts=True,
        is_hosted=True,
        is_slow=True,
        modules=("optuna", "scipy", "torch"),
        extra="optuna,train",
    ),
    "cmaes": Registered(
        build=partial(_optuna, "cmaes"),
        options=CmaesOptions,
        exhausts=True,
        one_objective=True,
        modules=("optuna", "cmaes"),
        extra="optuna",
    ),
    "nsga2": Registered(
        build=partial(_optuna, "nsga2"),
        options=Nsga2Options,
        exhausts=True,
        modules=("optuna",),
        extra="optuna",
    ),
    "sobol": Registered(
        build=partial(_optuna, "sobol"),
        exhausts=True,
        modules=("optuna", "scipy"),
        extra="optuna",
    ),
    "ppo": Registered(
        build=_ppo,
        options=PpoOptions,
        exhausts=True,
        is_hosted=True,
        is_slow=True,
        one_objective=True,
        modules=("stable_baselines3", "gymnasium", "torch", "safetensors"),
        extra="ppo",
    ),
    "llm": Registered(build=_llm, options=LLMOptions, is_slow=True, asks_models=True),
    "llm_diff": Registered(
        build=_llm_diff,
        options=LLMDiffOptions,
        is_slow=True,
        asks_models=True,
        writes_patches=True,
    ),
    "hybrid": Registered(build=_hybrid, options=HybridOptions, has_arms=True),
}


def find_proposer(name: str) -> Registered:
    """Raises UnknownName, saying which there are."""
    registered = PROPOSERS.get(name)
    if registered is None:
        raise UnknownName(f"proposer.name: {name!r} is not known; write one of {known()}")
    return registered


def parts(name: str, options: Mapping[str, object]) -> tuple[Part, ...]:
    """What a study with this proposer really asks: itself, or its arms. Raises UnknownName."""
    if find_proposer(name).has_arms:
        from proposers import hybrid_arms

        return hybrid_arms.parts(options)
    return (Part(name=name, options=options),)


def describe(name: str, options: Mapping[str, object]) -> Registered:
    """Its facts, however wrong its options: of one with arms, theirs. Raises UnknownName."""
    registered = find_proposer(name)
    if not registered.has_arms:
        return registered
    from proposers import hybrid_arms

    return hybrid_arms.describe(registered, options)


def option_problems(name: str, options: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """What is wrong with the options of a registered proposer: which one, and why."""
    model = find_proposer(name).options
    try:
        read = model.model_validate(dict(options))
    except ValidationError as error:
        yield from faults_of(name, model, error)
        return
    if isinstance(read, HybridOptions):
        from proposers import hybrid_arms

        yield from hybrid_arms.problems(read)


def read_options(name: str, options: Mapping[str, object]) -> Options:
    """The options of a proposer, checked. Raises UnknownName, InvalidInput."""
    for where, why in option_problems(name, options):
        raise InvalidInput(f"proposer.options.{where}: {why}; correct or remove it")
    return find_proposer(name).options.model_validate(dict(options))


def build_proposer(name: str, setup: Setup) -> Proposer:
    """One that is hosted comes in its wrapper, and its process is started by the first call.

    Raises UnknownName for a name that is not registered, InvalidInput for a space that the
    proposer does not take.
    """
    registered = find_proposer(name)
    if not registered.is_hosted:
        return registered.build(setup)
    _check_modules(name)
    from proposers.hosted import Hosted
    from proposers.hosted_messages import Build

    plain = replace(
        setup, space=dict(setup.space), read_secret=_no_secret, transport=None, is_valid=anything
    )
    build = Build(name=name, make=partial(_made, name, plain), space=plain.space)
    options = cast(HostedOptions, setup.options)
    return Hosted(build, is_valid=setup.is_valid, call_s=options.call_s)


def _made(name: str, plain: Setup, is_valid: Callable[[Params], bool]) -> Proposer:
    """Called where it is hosted; `is_valid` asks back."""
    return build_here(name, replace(plain, is_valid=is_valid))


def build_here(name: str, setup: Setup) -> Proposer:
    """In this process, also one that is hosted: for the process that hosts it, and tests."""
    return find_proposer(name).build(setup)


def known() -> str:
    return ", ".join(sorted(PROPOSERS))
