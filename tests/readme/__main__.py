"""`python -m tests.readme`: make the pictures and tables of README again.

`python -m tests.readme VERIFIED...` first takes who divides from what `gafixer verify --output-format json` wrote in
environments of several releases, one file each.
"""

from __future__ import annotations

import json
from pathlib import Path

import click
from packaging.version import Version

from tests.readme import fault, sections, terminal

PICTURES = sections.README.parent / ".github" / "readme"


def pictures() -> dict[str, str]:
    """File name -> SVG."""
    return {"fault.svg": fault.picture(fault.measure()), "scan.svg": terminal.picture()}


@click.command()
@click.argument("verified", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(verified: tuple[Path, ...]) -> None:
    """Make README's pictures and tables from the code and, where given, from what `gafixer verify` wrote."""
    if verified:
        sections.DIVIDES.write_text(_measured(verified), encoding="utf-8")
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name, svg in pictures().items():
        (PICTURES / name).write_text(svg, encoding="utf-8")
    readme = sections.README.read_text(encoding="utf-8")
    sections.README.write_text(sections.filled(readme, sections.made()), encoding="utf-8")


def _measured(verified: tuple[Path, ...]) -> str:
    """What the table shows of each report, oldest release first."""
    reports = [json.loads(path.read_text(encoding="utf-8")) for path in verified]
    reports.sort(key=lambda report: Version(report["releases"]["transformers"]))
    rows = [
        {
            "transformers": report["releases"]["transformers"],
            "accelerate": report["releases"]["accelerate"],
            "divides": [{"loss": d["loss"], "ratio": round(d["ratio"], 4)} for d in report["divides"]],
        }
        for report in reports
    ]
    return json.dumps(rows, indent=1) + "\n"


if __name__ == "__main__":
    main()
