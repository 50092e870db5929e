"""The options of `gafixer scan`: what was typed, and the settings that it makes together with the files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gafixer import settings
from gafixer.files import Glob
from gafixer.findings import Detail, Severity
from gafixer.report import Format
from gafixer.selection import nearest
from gafixer.settings import Helpers, Hierarchy, Layer, SettingsError, Strategy

__all__ = ["Options", "hierarchy", "neighbour", "reject"]


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `gafixer scan`, as they were typed; None: not given."""

    paths: tuple[str, ...]
    select: tuple[str, ...] | None
    ignore: tuple[str, ...] | None
    extend_select: tuple[str, ...] | None
    per_file_ignores: tuple[str, ...] | None
    min_severity: str | None
    target_transformers: str | None
    output_format: str
    output_file: str | None
    statistics: bool
    exit_zero: bool
    exclude: tuple[str, ...] | None
    extend_exclude: tuple[str, ...] | None
    force_exclude: bool
    stdin_filename: str | None
    jobs: int | None
    config: tuple[str, ...]
    isolated: bool
    show_settings: bool
    show_files: bool
    trace: str | None
    verbose: bool
    fix: bool
    diff: bool
    unsafe_fixes: bool | None
    fix_only: bool
    show_fixes: bool
    exit_non_zero_on_fix: bool
    helpers: str | None
    strategy: str | None
    to: str | None
    ignore_noqa: bool
    add_ignore: str | None
    baseline: str | None
    update_baseline: bool
    no_cache: bool
    cache_dir: str | None

    @property
    def fixes(self) -> bool:
        """Whether files are to be changed."""
        return (self.fix or self.fix_only) and not self.diff

    @property
    def detail(self) -> Detail:
        """How much of the fixes the scan is to work out. Where files are changed, that works out fixes itself."""
        return Detail.NOTHING if self.fixes or self.diff else self.told

    @property
    def told(self) -> Detail:
        """How much of the fixes is told."""
        silent = self.add_ignore is not None or self.update_baseline or self.diff or self.fix_only
        return Detail.NOTHING if silent or self.statistics else Format(self.output_format).detail

    @property
    def add_ignore_reason(self) -> str:
        """What to write behind an added comment; empty: nothing."""
        return (self.add_ignore or "").strip()

    @property
    def stdin(self) -> bool:
        """Whether standard input is scanned, and no file."""
        return self.paths == ("-",)

    @property
    def stdin_name(self) -> str:
        """What standard input is called."""
        return self.stdin_filename or "-"


def hierarchy(options: Options) -> Hierarchy:
    """The settings of every file: those of the configuration files, then `--config key=value`, then the other options.

    Raises:
        SettingsError: an option can't be meant.
    """
    here = str(Path.cwd())
    files = [word for word in options.config if Path(word).is_file()]
    if len(files) > 1:
        raise SettingsError("--config takes one file")
    if files and options.isolated:
        raise SettingsError("--isolated reads no configuration file, and --config names one")
    inline = [settings.inline(_assignment(word), here) for word in options.config if word not in files]
    made = Hierarchy(
        *inline, _typed(options, here), config=Path(files[0]) if files else None, isolated=options.isolated
    )
    made.of_folder("")  # what can't be meant is told before anything is read
    return made


def _assignment(word: str) -> str:
    if "=" in word:
        return word
    if word.endswith(".toml"):
        near = neighbour(word)
        raise SettingsError(f"--config: {word}: no such file{near}")
    raise SettingsError(f"--config: '{word}' is neither a file nor 'key = value'")


def _typed(options: Options, here: str) -> Layer:
    return Layer(
        select=options.select,
        ignore=options.ignore or (),
        extend_select=options.extend_select or (),
        per_file_ignores=_per_file(options.per_file_ignores, here),
        min_severity=Severity(options.min_severity) if options.min_severity else None,
        exclude=None if options.exclude is None else tuple(Glob(word, here) for word in options.exclude),
        extend_exclude=tuple(Glob(word, here) for word in options.extend_exclude or ()),
        target_transformers=_target(options.target_transformers, here),
        helpers=Helpers(options.helpers) if options.helpers else None,
        strategy=Strategy(options.strategy) if options.strategy else None,
        unsafe_fixes=options.unsafe_fixes,
        ignore_comments=options.ignore_noqa or None,
    )


def _per_file(words: tuple[str, ...] | None, here: str) -> tuple[tuple[Glob, tuple[str, ...]], ...] | None:
    """`PATTERN:RULE` pairs, as ruff takes them."""
    if words is None:
        return None
    found: dict[str, list[str]] = {}
    for word in words:
        pattern, colon, rule = word.rpartition(":")
        if not colon or not pattern or not rule:
            raise SettingsError(f"--per-file-ignores takes PATTERN:RULE, not '{word}'")
        found.setdefault(pattern, []).append(rule)
    return tuple((Glob(pattern, here), tuple(rules)) for pattern, rules in found.items())


def _target(word: str | None, here: str) -> str | None:
    if word is None:
        return None
    quoted = word.replace("\\", "\\\\").replace('"', '\\"')
    return settings.inline(f'target-transformers = "{quoted}"', here).target_transformers


def reject(options: Options) -> None:
    """What can't be meant is refused before anything is read.

    Raises:
        SettingsError: standard input is mixed with files, or a path does not exist.
    """
    if "-" in options.paths and len(options.paths) > 1:
        raise SettingsError("standard input (-) can't be scanned together with files")
    if options.statistics and not Format(options.output_format).counts:
        raise SettingsError(f"--statistics can't be shown as {options.output_format}; use json or full")
    if options.add_ignore is not None:
        _reject_adding(options)
    if options.update_baseline:
        _reject_update(options)
    if options.to is not None and not (options.fixes or options.diff):
        raise SettingsError(f"--to {options.to} rewrites loops: it needs --fix, or --diff to see what it would do")
    if options.stdin_filename is not None and not options.stdin:
        raise SettingsError("--stdin-filename needs - as the path")
    for path in options.paths:
        if path != "-" and not (path and Path(path).exists()):
            raise SettingsError(f"{path}: no such file or folder{neighbour(path)}")


def _reject_update(options: Options) -> None:
    if options.baseline is None:
        raise SettingsError("--update-baseline needs --baseline FILE")
    if options.fixes or options.diff or options.add_ignore is not None:
        raise SettingsError("--update-baseline can't go with --fix, --fix-only, --diff or --add-ignore")


def _reject_adding(options: Options) -> None:
    if options.stdin:
        raise SettingsError("--add-ignore changes files, not standard input")
    if options.fixes or options.diff:
        raise SettingsError("--add-ignore can't go with --fix, --fix-only or --diff")
    if not options.add_ignore_reason.isprintable() or "#" in options.add_ignore_reason:
        raise SettingsError("--add-ignore takes a reason in one line, without #")


def neighbour(path: str) -> str:
    """The nearest name beside a path that does not exist."""
    wanted = Path(path)
    try:
        return nearest(str(wanted), [str(wanted.parent / entry.name) for entry in wanted.parent.iterdir()])
    except OSError:
        return ""
