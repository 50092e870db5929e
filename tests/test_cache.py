"""The cache: a second scan says the same without looking, and looks again once anything changed that it depends on."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import pytest

from gafixer import files, jobs
from gafixer.cache import forms
from gafixer.cache.answers import Answers, signature
from gafixer.cache.store import Cache
from gafixer.findings import Detail
from gafixer.scan import Scanner
from gafixer.settings import Hierarchy, Layer
from tests import command

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from gafixer.findings import Finding

_DEFAULT = {"GAFIXER_CACHE_DIR": ""}
_SETTINGS = Hierarchy(Layer(select=("ALL",)), isolated=True)
_TRAIN = """\
import torch.nn.functional as F
from losses import token_loss
from transformers import Trainer

def train(model, loader, optimizer, steps):
    for index, batch in enumerate(loader):
        loss = token_loss(model(batch["input_ids"]), batch["labels"])
        (loss / steps).backward()
        if (index + 1) % steps == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
_LOSSES = """\
import torch.nn.functional as F

def token_loss(logits, labels):
    return F.cross_entropy(logits.view(-1, 10), labels.view(-1), ignore_index=0)
"""
_OLD = 1_600_000_000


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script and the module that it has its loss from, as they have been for long."""
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    _write(folder / "train.py", _TRAIN)
    _write(folder / "losses.py", _LOSSES)
    monkeypatch.chdir(folder)
    return folder


def gafixer(
    *arguments: str, cwd: Path, stdin: str = "", env: Mapping[str, str] = _DEFAULT
) -> subprocess.CompletedProcess[str]:
    """The command, its cache where it is by default."""
    return command.gafixer(*arguments, cwd=cwd, command=command.REAL, stdin=stdin, env=env)


def _write(path: Path, text: str, time: int = _OLD) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time, time))


def _scan(
    folder: Path, settings: Hierarchy = _SETTINGS, detail: Detail = Detail.EDITS, *, only_clean: bool = False
) -> tuple[list[Finding], list[str]]:
    """What is found, and the files that were looked into."""
    paths = sorted(files.find(["."], lambda _: (), lambda *_: None))
    cache = Cache(folder, settings, paths, detail, only_clean=only_clean)
    known = {path: outcome for path in paths if (outcome := cache.outcome(path)) is not None}
    left = [path for path in paths if path not in known]
    made = list(jobs.scan(left, Scanner(settings, paths, detail, records=True), 1, lambda _: None))
    for outcome in made:
        assert outcome.record is not None
        cache.learn(outcome.record)
    cache.pass_over(set(left) - {outcome.path for outcome in made if outcome.path is not None})
    cache.save()
    found = [f for outcome in (*known.values(), *made) for f in outcome.findings]
    return sorted(found, key=lambda f: f.order), [outcome.record.path for outcome in made if outcome.record]


def test_a_second_scan_looks_into_nothing(project: Path, tmp_path: Path) -> None:
    """And says the same, fixes included."""
    first, looked = _scan(tmp_path / "cache")
    assert looked == ["train.py"]
    assert {f.code for f in first} >= {"GA101"}
    assert any(f.fix is not None for f in first)
    assert _scan(tmp_path / "cache") == (first, [])


_CHANGES: dict[str, Callable[[Path], None]] = {
    "the file": lambda p: _write(p / "train.py", _TRAIN + "\nx = 1\n"),
    "the file, keeping its size and not its time": lambda p: _write(
        p / "train.py", _TRAIN.replace("F\n", "G\n"), _OLD + 1
    ),
    "a module that it imports": lambda p: _write(p / "losses.py", _LOSSES.replace("ignore_index=0", "ignore_index=10")),
    "the module goes": lambda p: (p / "losses.py").unlink(),
    "a package comes before the module": lambda p: _write(p / "losses" / "__init__.py", _LOSSES),
    "a library becomes the project's": lambda p: _write(p / "transformers.py", "class Trainer: pass\n"),
}


@pytest.mark.parametrize("change", _CHANGES)
def test_a_change_is_seen(project: Path, tmp_path: Path, change: str) -> None:
    """Whatever the scan of the file depends on; it says then what a first scan would."""
    _scan(tmp_path / "cache")
    _CHANGES[change](project)
    again, looked = _scan(tmp_path / "cache")
    assert "train.py" in looked
    assert again == _scan(tmp_path / "other")[0]


_MOVES: dict[str, Callable[[Path], None]] = {
    "nothing": lambda p: None,
    "a file that nobody looked for": lambda p: _write(p / "notes" / "more.py", "x = 1\n"),
    "another file that is looked for": lambda p: _write(p / "src" / "other" / "__init__.py", ""),
    "a marker of a project": lambda p: _write(p / "setup.py", ""),
}


@pytest.mark.parametrize("move", _MOVES)
@pytest.mark.parametrize("change", _CHANGES)
def test_a_change_is_seen_after_others(project: Path, tmp_path: Path, move: str, change: str) -> None:
    """What a scan found where it looked is as good as new when it was looked there again."""
    _write(project / "user.py", "import other\nfrom transformers import Trainer\n\nTrainer(other.model).train()\n")
    _scan(tmp_path / "cache")
    _MOVES[move](project)
    _scan(tmp_path / "cache")
    assert _scan(tmp_path / "cache")[1] == []
    _CHANGES[change](project)
    again, looked = _scan(tmp_path / "cache")
    assert "train.py" in looked
    assert again == _scan(tmp_path / "other")[0]


def test_while_nothing_moves_no_import_is_looked_for(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what files hold is compared then: nobody asks what an import means."""
    _scan(tmp_path / "cache")
    monkeypatch.setattr(Answers, "_existing", _refuse)
    assert _scan(tmp_path / "cache")[1] == []
    _write(project / "losses" / "__init__.py", _LOSSES)
    with pytest.raises(AssertionError, match="looked for"):
        _scan(tmp_path / "cache")


def _refuse(*asked: object) -> None:
    raise AssertionError(f"looked for {asked}")


def test_a_file_that_was_passed_over_is_not_read(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it changes: then it may train."""
    _write(project / "plain.py", "x = 1\n")
    _scan(tmp_path / "cache")
    read: list[str] = []
    real = files.read

    def noted(path: str) -> bytes:
        read.append(path)
        return real(path)

    monkeypatch.setattr(files, "read", noted)
    _scan(tmp_path / "cache")
    assert "plain.py" not in read
    _write(project / "plain.py", _TRAIN)
    assert "plain.py" in _scan(tmp_path / "cache")[1]
    _write(project / "plain.py", "x = 1\n")
    assert _scan(tmp_path / "cache")[0] == _scan(tmp_path / "other")[0]


def test_a_comment_that_settings_judge_is_no_file_to_pass_over(project: Path, tmp_path: Path) -> None:
    """Whether a comment that silences nothing is told depends on the rules that are selected."""
    _write(project / "quiet.py", "x = 1  # gafixer: ignore[GA101]\n")
    assert "quiet.py" in _scan(tmp_path / "cache", Hierarchy(Layer(select=("GA101",)), isolated=True))[1]
    found, _ = _scan(tmp_path / "cache")
    assert "GA901" in {f.code for f in found}


def test_what_is_not_known_of_a_file_is_no_reason_to_keep_it(project: Path, tmp_path: Path) -> None:
    """A question that can't be read may have had any answer."""
    first = _scan(tmp_path / "cache")
    document = json.loads(_only(tmp_path / "cache").read_bytes())
    document["questions"][0] = None
    _only(tmp_path / "cache").write_text(json.dumps(document))
    _write(project / "plain.py", "x = 1\n")
    cache = Cache(tmp_path / "cache", _SETTINGS, ["plain.py"], Detail.EDITS)
    cache.pass_over(["plain.py"])
    cache.save()
    assert _scan(tmp_path / "cache") == first


def test_what_a_scan_does_not_depend_on_may_change(project: Path, tmp_path: Path) -> None:
    """Another module, or the same bytes written again."""
    _scan(tmp_path / "cache")
    _write(project / "more.py", "x = 1\n")
    _write(project / "train.py", _TRAIN, _OLD + 9)
    assert _scan(tmp_path / "cache")[1] == []


def test_settings_outside_the_code_are_seen(project: Path, tmp_path: Path) -> None:
    """A configuration that says the steps, and a requirement."""
    _write(project / "train.py", re.sub(r"\bsteps\b", "accumulation_steps", _TRAIN))
    first, _ = _scan(tmp_path / "cache")
    _write(project / "config.yaml", "accumulation_steps: 8\n")
    again, looked = _scan(tmp_path / "cache")
    assert looked == ["train.py"]
    assert again != first
    assert _scan(tmp_path / "cache") == (again, [])


_USER = """\
from transformers import Trainer

def run(model, data):
    return Trainer(model, train_dataset=data).train()
"""
_OVERRIDE = """\
from transformers import Trainer

class Mine(Trainer):
    def compute_loss(self, model, inputs):
        return model(**inputs).loss
"""


def test_a_requirement_is_seen(project: Path, tmp_path: Path) -> None:
    """It decides what is said of a Trainer."""
    _write(project / "train.py", _USER)
    _write(project / "mine.py", _OVERRIDE)
    _scan(tmp_path / "cache")
    _write(project / "requirements.txt", "transformers==4.46.0\n")
    again, looked = _scan(tmp_path / "cache")
    assert "mine.py" in looked
    assert again == _scan(tmp_path / "other")[0]


_BASE = """\
class Base:
    def loss(self, logits, labels):
        raise NotImplementedError

    def train(self, model, loader, optimizer, steps):
        for index, batch in enumerate(loader):
            loss = self.loss(model(batch["input_ids"]), batch["labels"])
            (loss / steps).backward()
            if (index + 1) % steps == 0:
                optimizer.step()
                optimizer.zero_grad()
"""
_OWN = """\
from base import Base
from losses import token_loss

class Own(Base):
    def loss(self, logits, labels):
        return token_loss(logits, labels)
"""


def test_a_subclass_elsewhere_is_seen(project: Path, tmp_path: Path) -> None:
    """An abstract class is run as its subclasses, wherever they are."""
    _write(project / "base.py", _BASE)
    _scan(tmp_path / "cache")
    _write(project / "deep" / "own.py", _OWN)
    again, looked = _scan(tmp_path / "cache")
    assert "base.py" in looked
    assert again == _scan(tmp_path / "other")[0]


_PICKED = """\
import hydra
import registry

def train(config, model, loader, optimizer):
    criterion = {}
    for index, (x, y) in enumerate(loader):
        (criterion(model(x), y) / config.steps).backward()
        if (index + 1) % config.steps == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
_REGISTRY = """\
LOSSES = {}

def register(loss):
    LOSSES[loss.__name__] = loss
    return loss
"""
_REGISTERED = """\
from torch import nn
from registry import register

@register
class TokenLoss(nn.Module):
    def forward(self, logits, labels):
        return nn.functional.cross_entropy(logits, labels, ignore_index=0)
"""
_TARGET = "criterion:\n  _target_: torch.nn.CrossEntropyLoss\n  ignore_index: 0\n"


@pytest.mark.parametrize(
    ("picks", "name", "text"),
    [
        ("registry.LOSSES[config.loss]()", "deep/losses.py", _REGISTERED),
        ("hydra.utils.instantiate(config.criterion)", "conf/train.yaml", _TARGET),
    ],
)
def test_what_a_loss_is_picked_from_is_seen(project: Path, tmp_path: Path, picks: str, name: str, text: str) -> None:
    """A registry that is told of it, and configuration."""
    _write(project / "registry.py", _REGISTRY)
    _write(project / "train.py", _PICKED.format(picks))
    first, _ = _scan(tmp_path / "cache")
    _write(project / name, text)
    again, looked = _scan(tmp_path / "cache")
    assert "train.py" in looked
    assert again != first
    assert again == _scan(tmp_path / "other")[0]
    _write(project / name, text.replace("ignore_index: 0", "ignore_index: 1").replace("=0)", "=1)"))
    os.utime(project / name, (_OLD + 1, _OLD + 1))
    assert _scan(tmp_path / "cache") == (_scan(tmp_path / "third")[0], ["train.py"])


def test_other_settings_are_other_results(project: Path, tmp_path: Path) -> None:
    """Of all that findings depend on."""
    _scan(tmp_path / "cache")
    assert _scan(tmp_path / "cache", Hierarchy(Layer(select=("GA201",)), isolated=True))[1] == ["train.py"]
    assert (
        len(
            {
                signature(Hierarchy(layer, isolated=True).of("a.py"))
                for layer in (
                    Layer(),
                    Layer(unsafe_fixes=True),
                    Layer(steps_names=("k",)),
                    Layer(target_transformers="4.50"),
                )
            }
        )
        == 4
    )


def test_more_detail_is_looked_for_again(project: Path, tmp_path: Path) -> None:
    """What was kept without edits does for no format that shows them; the other way round it does."""
    assert _scan(tmp_path / "cache", detail=Detail.NOTHING)[1] == ["train.py"]
    assert _scan(tmp_path / "cache", detail=Detail.EDITS)[1] == ["train.py"]
    assert _scan(tmp_path / "cache", detail=Detail.NOTHING)[1] == []


def test_what_is_to_be_fixed_is_looked_into(project: Path, tmp_path: Path) -> None:
    """Of the cache only that nothing was found counts then."""
    _write(project / "clean.py", _TRAIN.replace("loss / steps", "loss.detach() * 0"))
    _scan(tmp_path / "cache")
    assert _scan(tmp_path / "cache", only_clean=True)[1] == ["train.py"]


def test_recent_files_are_read_again(project: Path, tmp_path: Path) -> None:
    """A file that was just written may be written again at the same time of its clock."""
    (project / "train.py").write_text(_TRAIN)
    state = (project / "train.py").stat()
    _scan(tmp_path / "cache")
    (project / "train.py").write_text(_TRAIN.replace("% steps", "% stept"))
    os.utime(project / "train.py", ns=(state.st_atime_ns, state.st_mtime_ns))
    assert _scan(tmp_path / "cache")[1] == ["train.py"]


def test_scans_of_parts_keep_the_rest(project: Path, tmp_path: Path) -> None:
    """What is known of files that a scan was not about stays."""
    _write(project / "other.py", _TRAIN)
    _scan(tmp_path / "cache")
    cache = Cache(tmp_path / "cache", _SETTINGS, ["other.py"], Detail.EDITS)
    _write(project / "other.py", _TRAIN + "\n")
    assert cache.outcome("other.py") is None
    every = ["losses.py", "other.py", "train.py"]
    (made,) = jobs.scan(["other.py"], Scanner(_SETTINGS, every, records=True), 1, lambda _: None)
    assert made.record is not None
    cache.learn(made.record)
    cache.save()
    assert _scan(tmp_path / "cache")[1] == []


def test_findings_come_back_as_they_were(project: Path, tmp_path: Path) -> None:
    """With all their places and edits."""
    found, _ = _scan(tmp_path / "cache")
    assert [forms.finding(json.loads(json.dumps(forms.form(f)))) for f in found] == found


# -- the file --------------------------------------------------------------------------------------------------------

_BROKEN = [
    b"",
    b"{",
    b"[]",
    b"{}",
    b'{"files": 1}',
    b"[" * 100_000,
    b"\xff",
    b'{"files": {}, "questions": [], "outcomes": {"train.py": 3}}',
]


def _only(cache: Path) -> Path:
    (found,) = cache.glob("*.json")
    return found


@pytest.mark.parametrize("content", _BROKEN)
def test_a_broken_file_is_none(project: Path, tmp_path: Path, content: bytes) -> None:
    """And is written anew."""
    first = _scan(tmp_path / "cache")
    _only(tmp_path / "cache").write_bytes(content)
    assert _scan(tmp_path / "cache") == first
    assert _scan(tmp_path / "cache") == (first[0], [])


def test_an_entry_that_is_no_finding_is_none(project: Path, tmp_path: Path) -> None:
    """Whoever wrote it: findings of other types never reach a report."""
    first = _scan(tmp_path / "cache")
    document = json.loads(_only(tmp_path / "cache").read_bytes())
    for wrong in (3, [3], [["GA101"]], [[None] * 9]):
        document["outcomes"]["train.py"][4] = wrong
        _only(tmp_path / "cache").write_text(json.dumps(document))
        assert _scan(tmp_path / "cache") == first


def test_a_folder_that_is_passed_over(project: Path) -> None:
    """By git, by backups, and by the scan itself."""
    assert gafixer("scan", "--isolated", cwd=project).returncode == 1
    folder = project / ".gafixer_cache"
    assert {path.name for path in folder.iterdir()} == {".gitignore", "CACHEDIR.TAG", _only(folder).name}
    assert (folder / ".gitignore").read_text() == "*\n"
    assert (folder / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")
    run = gafixer("scan", "--isolated", "--show-files", cwd=project)
    assert ".gafixer_cache" not in run.stdout


@pytest.mark.parametrize("asked", [("--no-cache",), ("-", "--stdin-filename", "train.py")])
def test_no_cache(project: Path, asked: tuple[str, ...]) -> None:
    """Where none is wanted, or nothing has a place."""
    gafixer("scan", *asked, cwd=project, stdin=_TRAIN)
    assert not (project / ".gafixer_cache").exists()


def test_it_is_where_it_is_said_to_be(project: Path, tmp_path: Path) -> None:
    """By the option, else by the environment, else by the settings, below their file only."""
    (project / "gafixer.toml").write_text('cache-dir = "build/cache"\n')
    gafixer("scan", cwd=project)
    assert (project / "build" / "cache" / "CACHEDIR.TAG").exists()
    gafixer("scan", cwd=project, env={"GAFIXER_CACHE_DIR": str(tmp_path / "env")})
    assert (tmp_path / "env" / "CACHEDIR.TAG").exists()
    gafixer("scan", "--cache-dir", "../option", cwd=project, env={"GAFIXER_CACHE_DIR": "no"})
    assert (tmp_path / "option" / "CACHEDIR.TAG").exists()
    assert not (project / "no").exists()
    for beyond in ("/tmp/cache", "..", "../x", "a/../../x", ".", ""):
        (project / "gafixer.toml").write_text(f'cache-dir = "{beyond}"\n')
        run = gafixer("scan", cwd=project)
        assert run.returncode == 2
        assert "must be a folder below this file's own" in run.stderr


def test_one_for_the_project(project: Path) -> None:
    """Wherever in it the scan is started."""
    _write(project / "inner" / "more.py", "x = 1\n")
    gafixer("scan", "..", cwd=project / "inner")
    assert (project / ".gafixer_cache" / "CACHEDIR.TAG").exists()


@pytest.mark.parametrize("link", [".gafixer_cache", "build"])
def test_nothing_is_written_through_a_link(project: Path, tmp_path: Path, link: str) -> None:
    """A repository can hold links to anywhere."""
    (tmp_path / "elsewhere").mkdir()
    (project / link).symlink_to(tmp_path / "elsewhere")
    if link == "build":
        (project / "gafixer.toml").write_text('cache-dir = "build/cache"\n')
    assert gafixer("scan", cwd=project).returncode == 1
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_files_of_it_that_are_links_are_replaced(project: Path, tmp_path: Path) -> None:
    """What they lead to stays."""
    gafixer("scan", cwd=project)
    target = tmp_path / "target"
    target.write_text("mine")
    for path in list((project / ".gafixer_cache").iterdir()):
        path.unlink()
        path.symlink_to(target)
    assert gafixer("scan", cwd=project).returncode == 1
    assert target.read_text() == "mine"


def test_where_nothing_can_be_written(project: Path) -> None:
    """A file in its place is no error, and neither is a pipe."""
    (project / ".gafixer_cache").write_text("")
    run = gafixer("scan", cwd=project)
    assert run.returncode == 1
    assert len(run.stderr.splitlines()) == 1
    (project / ".gafixer_cache").unlink()
    gafixer("scan", cwd=project)
    kept = _only(project / ".gafixer_cache")
    kept.unlink()
    os.mkfifo(kept)
    assert gafixer("scan", cwd=project).returncode == 1
