"""Which files a scan reads, against what git itself says where git is the judge."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gafixer import files
from gafixer.files import DEFAULT_EXCLUDE, Glob
from gafixer.programs import Script

if TYPE_CHECKING:
    from pathlib import Path


def tree(root: Path, **contents: str) -> Path:
    """Files under `root`: path -> text."""
    for name, text in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def names(*paths: Path, exclude: tuple[Glob, ...] = tuple(map(Glob, DEFAULT_EXCLUDE)), base: Path) -> list[str]:
    """What is found, relative to `base`."""
    return [os.path.relpath(path, base) for path in files.find(map(str, paths), lambda folder: exclude, no_warning)]


def nothing(folder: str) -> tuple[Glob, ...]:
    """Nothing is passed over."""
    return ()


def no_warning(folder: str, error: OSError) -> None:
    raise AssertionError((folder, error))


def empty(*paths: str) -> dict[str, str]:
    return dict.fromkeys(paths, "")


def test_python_files_in_order(tmp_path: Path) -> None:
    """Files of a folder, then its folders, each by name; nothing that is not Python; what was named, first."""
    tree(tmp_path, **empty("b.py", "a.py", "z.pyi", "notes.txt", "x/a.py", "B/c.py", "run"))
    assert names(tmp_path, base=tmp_path) == ["a.py", "b.py", "B/c.py", "x/a.py"]
    assert names(tmp_path / "run", tmp_path / "x", tmp_path, base=tmp_path) == [
        "run",
        "x/a.py",
        "a.py",
        "b.py",
        "B/c.py",
    ]


def test_paths_are_named_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative stays relative, and `.` is not repeated."""
    tree(tmp_path, **empty("a.py", "x/b.py"))
    monkeypatch.chdir(tmp_path)
    assert list(files.find(["."], nothing, no_warning)) == ["a.py", "x/b.py"]
    assert list(files.find(["x/../x/", "./a.py"], nothing, no_warning)) == ["x/b.py", "./a.py"]


def test_default_exclude(tmp_path: Path) -> None:
    """Environments and caches are passed over, unless they are named themselves."""
    tree(tmp_path, **empty("a.py", ".venv/b.py", "x/node_modules/c.py", "site-packages/d.py"))
    assert names(tmp_path, base=tmp_path) == ["a.py"]
    assert names(tmp_path / "site-packages", base=tmp_path) == ["site-packages/d.py"]


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        ("b.py", ["a.py", "x/a.py"]),
        ("x", ["a.py", "b.py"]),
        ("y/b.py", ["a.py", "x/a.py"]),
        ("y/x/*", ["a.py", "b.py"]),
        ("..", ["a.py", "b.py", "x/a.py"]),
    ],
)
def test_forced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, left: list[str]) -> None:
    """What is named is passed over if it, or a folder that it lies in, is excluded; folders above do not count."""
    tree(tmp_path / "y", **empty("a.py", "b.py", "x/a.py"))
    monkeypatch.chdir(tmp_path / "y")
    glob = (Glob(pattern, str(tmp_path)), Glob("y"))
    named = ["a.py", str(tmp_path / "y" / "b.py"), "x/a.py"]
    found = list(files.find(named, lambda folder: glob, no_warning, force=True))
    assert [os.path.relpath(path) for path in found] == [path for path in ["a.py", "b.py", "x/a.py"] if path in left]
    assert list(files.find(named, lambda folder: glob, no_warning)) == named


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        ("a.py", ["b.py", "x/b.py", "x/y/c.py"]),
        ("x", ["a.py", "b.py"]),
        ("x/", ["a.py", "b.py"]),
        ("[ab].py", ["x/y/c.py"]),
        ("x/b.py", ["a.py", "b.py", "x/a.py", "x/y/c.py"]),
        ("x/*.py", ["a.py", "b.py"]),
        ("./x/y", ["a.py", "b.py", "x/a.py", "x/b.py"]),
        ("y/c.py", ["a.py", "b.py", "x/a.py", "x/b.py", "x/y/c.py"]),
    ],
)
def test_exclude(tmp_path: Path, pattern: str, left: list[str]) -> None:
    """A name anywhere, or a path below the base; the base itself may hold characters that patterns give a meaning."""
    root = tree(tmp_path / "odd[1]*", **empty("a.py", "b.py", "x/a.py", "x/b.py", "x/y/c.py"))
    assert names(root, exclude=(Glob(pattern, str(root)),), base=root) == left


def test_absolute_exclude(tmp_path: Path) -> None:
    """An absolute pattern needs no base."""
    tree(tmp_path, **empty("a.py", "x/b.py"))
    assert names(tmp_path, exclude=(Glob(f"{tmp_path}/x"),), base=tmp_path) == ["a.py"]


def tracked(root: Path) -> set[str]:
    """The Python files that git would add."""
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard", "-z", "*.py"],
        cwd=root,
        capture_output=True,
        check=True,
        env=os.environ
        | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "XDG_CONFIG_HOME": os.devnull},
    )
    return set(os.fsdecode(listed.stdout).split("\0")) - {""}


def repository(root: Path) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "-q", "."], cwd=root, check=True)
    return root


FILES = empty("a.py", "b.py", "build/a.py", "x/a.py", "x/b.py", "x/build/c.py", "x/y/a.py", "x/y/keep.py", "foo1/a.py")


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        ("build/\n", ""),
        ("/build\n# a comment\n\n", ""),
        ("a.py\n", "!a.py\n"),
        ("x/*\n!x/y/\n", ""),
        ("x/\n!x/y/keep.py\n", ""),
        ("*.py\n!keep.py\n", "/a.py\n"),
        ("foo*\n!foo1/\n", ""),
        ("**/y/*.py\n!**/keep.py\n", ""),
        ("\\!odd.py\n!\n//\n[\nb.py  \n", ""),
        ("*.py[cod]\n*$py.class\n.venv\n", "y/a.py\n"),
    ],
)
def test_git_agrees(tmp_path: Path, outer: str, inner: str) -> None:
    """What is found is what git would add, with a .gitignore at the top and one below."""
    root = tree(repository(tmp_path / "r"), **FILES, **{".gitignore": outer, "x/.gitignore": inner})
    assert set(names(root, base=root)) == tracked(root)
    inside = {name for name in tracked(root) if name.startswith("x/")}
    if inside:
        assert set(names(root / "x", base=root)) == inside


LINES = st.lists(
    st.text(alphabet="!/*?.abkeptyx1[]", min_size=1, max_size=8)
    | st.sampled_from(["x/", "*.py", "!a.py", "/x/*", "y"]),
    max_size=5,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(outer=LINES, inner=LINES)
def test_leaving_out_patterns_changes_nothing(tmp_path: Path, outer: list[str], inner: list[str]) -> None:
    """Files are held against the patterns that can mean Python only; all patterns would say the same."""
    from gafixer import gitignore

    root = tree(tmp_path, **FILES, **{".gitignore": "\n".join(outer), "x/.gitignore": "\n".join(inner)})
    found = names(root, base=root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gitignore, "_can_mean_python", lambda line: True)
        assert names(root, base=root) == found


def test_info_exclude_and_nested_repository(tmp_path: Path) -> None:
    """The repository's own exclude file holds; a repository in a repository begins afresh."""
    root = tree(repository(tmp_path / "r"), **FILES, **{".gitignore": "a.py\n"})
    (root / ".git/info/exclude").write_text("b.py\n")
    tree(repository(root / "sub"), **empty("a.py", "b.py"))
    assert names(root, base=root) == ["sub/a.py", "sub/b.py", "x/build/c.py", "x/y/keep.py"]


def test_named_folder_is_meant(tmp_path: Path) -> None:
    """A folder that git ignores is scanned when it is named, and its own .gitignore still holds."""
    root = tree(repository(tmp_path / "r"), **FILES, **{".gitignore": "build/\n", "x/build/.gitignore": "d.py\n"})
    (root / "x/build/d.py").touch()
    assert names(root / "x/build", base=root) == ["x/build/c.py"]
    assert names(root / "build/a.py", base=root) == ["build/a.py"]


def test_pathspec_is_imported_only_for_patterns(tmp_path: Path) -> None:
    """A tree without ignore patterns does not pay for them."""
    tree(tmp_path, **empty("a.py"), **{".gitignore": "# nothing yet\n\n"})
    code = (
        "import sys; from gafixer import files; assert list(files.find(['.'], lambda folder: (), print)) == ['a.py']; "
    )
    for patterns, imported in [("", False), ("b.py\n", True)]:
        (tmp_path / ".gitignore").write_text(patterns)
        check = f"{code} assert ('pathspec' in sys.modules) is {imported}"
        subprocess.run([sys.executable, "-c", check], cwd=tmp_path, check=True)


def test_links_pipes_and_odd_names(tmp_path: Path) -> None:
    """Links to files are read, loops are not walked, pipes and dangling links are passed over, any name will do."""
    tree(tmp_path, **empty("a.py", "x/b.py"))
    (tmp_path / "link.py").symlink_to("a.py")
    (tmp_path / "x" / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "self.py").symlink_to("self.py")
    (tmp_path / "gone.py").symlink_to("nowhere.py")
    (tmp_path / "folder.py").mkdir()
    os.mkfifo(tmp_path / "pipe.py")
    odd = os.fsdecode(b"caf\xe9\n.py")
    (tmp_path / odd).touch()
    assert names(tmp_path, base=tmp_path) == ["a.py", odd, "link.py", "x/b.py"]
    assert names(tmp_path / "x" / "loop", base=tmp_path)[0] == "x/loop/a.py"


def test_deep_tree(tmp_path: Path) -> None:
    """No recursion: the walk goes as deep as paths can be written."""
    folders = [tmp_path]
    for _ in range(1200):
        folders.append(folders[-1] / "d")
        folders[-1].mkdir()
    (folders[-1] / "a.py").touch()
    assert len(list(files.find([str(tmp_path)], nothing, no_warning))) == 1
    (folders[-1] / "a.py").unlink()
    for folder in reversed(folders[1:]):  # removing trees recurses in the standard library
        folder.rmdir()


def test_unlisted_folder_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The walk goes on beside a folder that can't be listed; one that has vanished is no trouble."""
    tree(tmp_path, **empty("a.py", "secret/b.py", "vanishing/c.py", "x/d.py"))
    real = os.scandir

    def scandir(path: str) -> object:
        if path.endswith("secret"):
            raise PermissionError(13, "Permission denied")
        if path.endswith("vanishing"):
            raise FileNotFoundError(2, "No such file or directory")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    told: list[tuple[str, str]] = []
    found = list(files.find([str(tmp_path)], nothing, lambda folder, error: told.append((folder, files.reason(error)))))
    assert [os.path.relpath(path, tmp_path) for path in found] == ["a.py", "x/d.py"]
    assert told == [(f"{tmp_path}/secret", "permission denied")]


def test_read(tmp_path: Path) -> None:
    """All bytes of a regular file, of any size; nothing else is opened."""
    for size in (0, 1, 5_000_000):
        (tmp_path / "a.py").write_bytes(b"\x00\r\n" * size)
        assert files.read(str(tmp_path / "a.py")) == b"\x00\r\n" * size
    os.mkfifo(tmp_path / "pipe.py")
    for path in (str(tmp_path / "pipe.py"), "/dev/zero"):
        with pytest.raises(files.NotAFileError):
            files.read(path)
    with pytest.raises(IsADirectoryError):
        files.read(str(tmp_path))
    assert files.read("/proc/self/cmdline").startswith(os.fsencode(sys.executable)[:1])


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (b"a = '\xc3\xa9'\n", "a = 'é'\n"),
        (b"\xef\xbb\xbfa = 1\n", "a = 1\n"),
        (b"# coding: latin-1\na = '\xe9'\n", "# coding: latin-1\na = 'é'\n"),
        (b"a = '\xff'\n", "a = '\ufffd'\n"),
        (b"# coding: nonsense\na = 1\n", "# coding: nonsense\na = 1\n"),
    ],
)
def test_text(source: bytes, text: str) -> None:
    """The declared encoding, and no refusal."""
    assert Script(source).text(None) == text
