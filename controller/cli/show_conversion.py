"""A conversion of a promoted model for people, from its document."""

from collections.abc import Mapping

from controller.cli.output import console, table
from controller.cli.show_study import listed, optional_number
from controller.cli.text import clipped, number, plain, size
from ledger.records import Json


def print_conversion(conversion: Mapping[str, Json]) -> None:
    """How it was judged, and every figure before and after."""
    reason = f" ({conversion['reason']})" if conversion.get("reason") else ""
    print(
        f"conversion {conversion['conversion']}, {plain(str(conversion['method']))} of "
        f"{plain(str(conversion['model']))}: {conversion['state']}{reason}"
    )
    if conversion.get("detail"):
        print(f"  {clipped(str(conversion['detail']), 400)}")
    if conversion.get("converted"):
        print(f"  artifact {conversion['converted']}")
    rows = [
        (
            plain(str(figure["name"])),
            _shown(figure, "unconverted"),
            _shown(figure, "converted"),
            _times(figure.get("ratio")),
        )
        for figure in listed(conversion, "figures")
    ]
    if rows:
        console().print(table("measured", ">unconverted", ">converted", ">ratio", rows=rows))


def _shown(figure: Mapping[str, Json], side: str) -> str:
    value = optional_number(figure.get(side))
    if value is None:
        return "-"
    return size(value) if str(figure["name"]).endswith("_bytes") else number(value)


def _times(value: Json) -> str:
    found = optional_number(value)
    return "-" if found is None else f"{found:.2f}"
