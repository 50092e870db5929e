"""The command line. Thin: options in, exit code out; what a command needs is imported when it runs."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from gafixer import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from click.shell_completion import CompletionItem

__all__ = ["cli", "main"]

# command -> the module that has it, the name there, what it does: listed without importing anything
_ELSEWHERE = {
    "verify": (
        "gafixer.parity.command",
        "verify",
        "Test whether the installed heads meet parity, before and after the patch.",
    ),
    "run": ("gafixer.run", "main", "Run a script or a module with the patched Transformers."),
}


class _Group(click.Group):
    """Commands that need torch live in modules of their own, imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *(name for name in _ELSEWHERE if _exists(_ELSEWHERE[name][0]))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _ELSEWHERE and _exists(_ELSEWHERE[cmd_name][0]):
            return _forward(cmd_name, *_ELSEWHERE[cmd_name])
        return super().get_command(ctx, cmd_name)


def _exists(module: str) -> bool:
    """Whether the package has this module; asked of the file system, since asking the importer imports its parents."""
    return Path(__file__).parent.joinpath(*module.split(".")[1:]).with_suffix(".py").is_file()


def _forward(name: str, module: str, attribute: str, summary: str) -> click.Command:
    """A command that hands all its arguments, --help too, to the module that knows them."""

    def call(arguments: tuple[str, ...]) -> None:
        target = getattr(importlib.import_module(module), attribute)
        if isinstance(target, click.Command):
            sys.exit(target.main(list(arguments), prog_name=f"gafixer {name}", standalone_mode=False))
        sys.exit(target(list(arguments)))

    class Forward(click.Command):
        def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
            target = getattr(importlib.import_module(module), attribute)
            return target.shell_complete(ctx, incomplete) if isinstance(target, click.Command) else []

    return Forward(
        name,
        callback=call,
        params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
        add_help_option=False,
        short_help=summary,
    )


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gafixer", message="%(prog)s %(version)s")
def cli() -> None:
    """Find gradient accumulation that does not equal one big batch."""


def _words(ctx: click.Context, param: click.Parameter, value: Sequence[str]) -> tuple[str, ...] | None:
    """Options that may be repeated, and hold several words with commas between; None when not given."""
    if not value:
        return None
    return tuple(word.strip() for part in value for word in part.split(",") if word.strip())


_FORMATS = click.Choice(
    ["full", "concise", "grouped", "json", "json-lines", "sarif", "github", "gitlab", "junit", "rdjson"]
)
_FILE = click.Path()  # completed by shells; what it must be is said in our own words
_SEVERITIES = click.Choice(["error", "warning", "info"])


def _rules(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes the last of several rules with commas between."""
    from click.shell_completion import CompletionItem

    from gafixer import rulebook

    before, comma, last = incomplete.rpartition(",")
    known = [(code, name) for code, name in rulebook.catalogue().items() if last in code or name.startswith(last)]
    return [CompletionItem(f"{before}{comma}{code}", help=name) for code, name in known]


class _Scan(click.Command):
    """Scan's options, one of which takes its value behind `=` only: what follows it else is a path."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, ["--add-ignore=" if word == "--add-ignore" else word for word in args])


@cli.command(cls=_Scan)
@click.argument("paths", nargs=-1, type=click.Path(allow_dash=True))
@click.option(
    "--select",
    multiple=True,
    callback=_words,
    shell_complete=_rules,
    metavar="RULES",
    help="Only these: codes, names, prefixes, ALL.",
)
@click.option("--ignore", multiple=True, callback=_words, shell_complete=_rules, metavar="RULES", help="Not these.")
@click.option(
    "--extend-select", multiple=True, callback=_words, shell_complete=_rules, metavar="RULES", help="These too."
)
@click.option(
    "--per-file-ignores",
    multiple=True,
    callback=_words,
    metavar="PATTERN:RULES",
    help="Not this rule in files of this pattern.",
)
@click.option("--min-severity", type=_SEVERITIES, help="Show nothing below.  [default: warning]")
@click.option("--output-format", type=_FORMATS, default="full", show_default=True)
@click.option(
    "-o", "--output-file", type=_FILE, metavar="FILE", help="Write the findings there, not to standard output."
)
@click.option("--statistics", is_flag=True, help="Count findings by rule and show only that.")
@click.option("-e", "--exit-zero", is_flag=True, help="Exit 0 even with findings.")
@click.option(
    "--exclude", multiple=True, callback=_words, metavar="GLOBS", help="Pass over these, not over the default ones."
)
@click.option("--extend-exclude", multiple=True, callback=_words, metavar="GLOBS", help="Pass over these too.")
@click.option("--force-exclude", is_flag=True, help="Pass over what is excluded even if it is named, as hooks do.")
@click.option("--stdin-filename", type=_FILE, metavar="PATH", help="The name of what `-` reads from standard input.")
@click.option("-j", "--jobs", type=click.IntRange(min=1), metavar="N", help="Processes.  [default: as many as pay]")
@click.option(
    "--config",
    multiple=True,
    metavar="FILE | 'KEY = VALUE'",
    help="Settings for all files from this file, or one setting as TOML.",
)
@click.option("--isolated", is_flag=True, help="Read no configuration file.")
@click.option("--target-transformers", metavar="RELEASES", help="The Transformers that is meant: 4.57, or '>=4.53,<5'.")
@click.option("--show-settings", is_flag=True, help="Tell the settings of the first file, and scan nothing.")
@click.option("--show-files", is_flag=True, help="List the files that would be scanned, and scan nothing.")
@click.option("--trace", metavar="FILE:LINE", help="Tell how the loss there was evaluated, and where it became opaque.")
@click.option("--fix", is_flag=True, help="Apply safe fixes to the files.")
@click.option("--diff", is_flag=True, help="Show what --fix would change, as a patch; change nothing.")
@click.option(
    "--unsafe-fixes/--no-unsafe-fixes", default=None, help="Apply, or show, also fixes that assume something."
)
@click.option("--fix-only", is_flag=True, help="Fix, and do not report what remains.")
@click.option(
    "--helpers",
    type=click.Choice(["private", "import"]),
    help="Fixes add a private function, or import gafixer.accumulate.  [default: private]",
)
@click.option(
    "--strategy",
    type=click.Choice(["auto", "rescale", "read-ahead"]),
    help="Fixes divide the gradients, or let the loader look ahead.  [default: auto, what fits]",
)
@click.option(
    "--to",
    type=click.Choice(["accelerate"]),
    help="With --fix or --diff: also turn plain PyTorch loops into loops of Accelerate.",
)
@click.option("--show-fixes", is_flag=True, help="List what was fixed.")
@click.option("--exit-non-zero-on-fix", is_flag=True, help="Exit 1 if something was fixed, even if nothing remains.")
@click.option("--ignore-noqa", is_flag=True, help="Report also what comments silence.")
@click.option(
    "--add-ignore",
    is_flag=False,
    flag_value="",
    metavar="[=REASON]",
    help="Silence what is found by a comment at each place, and report nothing.",
)
@click.option("--baseline", type=_FILE, metavar="FILE", help="Report only what this file does not know.")
@click.option("--update-baseline", is_flag=True, help="Take down in that file what is found, and report nothing.")
@click.option("--no-cache", is_flag=True, help="Neither use nor keep what earlier scans came to.")
@click.option(
    "--cache-dir",
    type=_FILE,
    envvar="GAFIXER_CACHE_DIR",
    metavar="FOLDER",
    help="The cache of earlier scans.  [default: .gafixer_cache at the root of the project]",
)
@click.option("-v", "--verbose", is_flag=True, help="Show the traceback of an internal error.")
def scan(**options: object) -> None:
    """Scan files and folders, the working directory by default; `-` is standard input.

    Exit code: 0 nothing found, 1 findings (or --diff would change something), 2 a wrong option, an unreadable file or
    setting, an internal error.
    """
    from gafixer import command
    from gafixer.options import Options

    sys.exit(command.scan(Options(**options)))  # type: ignore[arg-type]  # click checked them


@cli.command()
@click.argument("code", required=False, shell_complete=_rules)
@click.option("--all", "every", is_flag=True, help="All rules.")
def rule(code: str | None, every: bool) -> None:
    """Explain a rule, by code or name."""
    from gafixer import command

    if every == (code is not None):
        raise click.UsageError("name one rule, or use --all")
    sys.exit(command.explain(code))


def _internal(error: Exception) -> int:
    import traceback

    click.echo(f"gafixer: internal error: {' '.join(repr(error).split())} (GAFIXER_DEBUG=1 shows more)", err=True)
    if os.environ.get("GAFIXER_DEBUG"):
        traceback.print_exception(error)
    return 2


def main() -> NoReturn:
    """The `gafixer` command: no traceback for anything a user can do, but for what a script that it runs raises."""
    if sys.argv[1:2] == ["run"]:
        from gafixer import run

        sys.exit(run.main(sys.argv[2:]))
    try:
        code = cli.main(prog_name="gafixer", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except Exception as error:  # the last resort: a fault of our own is one line, too
        code = _internal(error)
    sys.exit(code)
