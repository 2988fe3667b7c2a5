"""The house (DESIGN 12): imports point down, modules and functions are short, few hands catch everything.

Every import is read, those inside functions too; only what stands under `if TYPE_CHECKING:` is left out.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "cyberos"

# from the ground up; each may import those before it. A new module of core gets its place here.
_CORE = """
    errors canonical text layout syscalls files lock frontmatter contract labels secrets
    rows pairs segments dag ledger checkpoint state git gitdir repository discovery recovery settings
    episode admission commit writer vault ranking render prompt
"""
CORE = _CORE.split()
ON_INDEX = ("backends", "reader", "semantic")  # core in name, but they stand on the index
PACKAGES = {"embed": 1, "index": 2, "doctor": 4, "record": 4, "agents": 4, "cli": 5}
TOP = ("cyberos", "cyberos.__main__")

HEAVY = {
    "whoosh",
    "numpy",
    "sentence_transformers",
    "onnxruntime",
    "huggingface_hub",
    "safetensors",
    "jsonschema",
    "jsonschema_rs",
    "yaml",
    "frontmatter",
    "mcp",
}
CATCHERS = {"cyberos.doctor.walker", "cyberos.cli.main"}
WRITERS = {"cyberos.core.syscalls", "cyberos.core.files", "cyberos.core.lock"}
WRITING = {
    "write",
    "pwrite",
    "replace",
    "rename",
    "link",
    "symlink",
    "unlink",
    "remove",
    "rmdir",
    "mkdir",
    "makedirs",
    "truncate",
    "ftruncate",
    "utime",
}


class Import(NamedTuple):
    """One import: of what, at which line, and whether it runs when the module is loaded."""

    name: str
    line: int
    is_eager: bool


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


FILES = {name_of(file): file for file in sorted(PACKAGE.rglob("*.py"))}
TREES = {name: ast.parse(file.read_text(encoding="utf-8")) for name, file in FILES.items()}


def imports(tree: ast.AST, *, is_eager: bool = True) -> list[Import]:
    found = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            found += [each for other in node.orelse for each in imports(other, is_eager=is_eager)]
            continue
        if isinstance(node, ast.Import):
            found += [Import(alias.name, node.lineno, is_eager) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            for alias in node.names:
                full = f"{base}.{alias.name}"
                found.append(Import(full if full in FILES else base, node.lineno, is_eager))
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        found += imports(node, is_eager=is_eager and not is_function)
    return found


IMPORTS = {name: imports(tree) for name, tree in TREES.items()}
OWN = {name: [each for each in found if each.name.split(".")[0] == "cyberos"] for name, found in IMPORTS.items()}


def floor(name: str) -> tuple[int, int]:
    """Give the floor of a module, and its place on it where that counts."""
    if name in TOP:
        return 6, 0
    _, package, *rest = name.split(".")
    if package != "core":
        return PACKAGES[package], 0
    if not rest:
        return -1, 0
    if rest[0] in ON_INDEX:
        return 3, ON_INDEX.index(rest[0])
    return 0, CORE.index(rest[0])


def test_every_module_has_a_floor():
    homeless = []
    for name in FILES:
        try:
            floor(name)
        except (KeyError, ValueError):
            homeless.append(name)
    assert homeless == [], "give each of these its place in CORE or PACKAGES"


def test_every_floor_has_its_module():
    assert [name for name in (*CORE, *ON_INDEX) if f"cyberos.core.{name}" not in FILES] == []


def test_imports_point_down():
    up = []
    for name, found in OWN.items():
        for each in found:
            mine, other = floor(name), floor(each.name)
            # within a package above core the modules are neighbours; core itself is stairs
            is_down = other < mine if mine[0] in (0, 3) else other[0] <= mine[0]
            if not is_down:
                up.append(f"{name}:{each.line} imports {each.name}")
    assert up == []


def test_no_module_is_reached_from_itself():
    reached: dict[str, set[str]] = {}

    def reach(name: str, path: tuple[str, ...]) -> set[str]:
        assert name not in path, f"a circle: {' -> '.join((*path, name))}"
        if name not in reached:
            below = {each.name for each in OWN.get(name, [])} - {name}
            reached[name] = below | {far for other in below for far in reach(other, (*path, name))}
        return reached[name]

    for name in FILES:
        reach(name, ())


def test_imports_are_absolute_and_packages_are_empty():
    assert [
        f"{name}:{each.line}" for name, found in IMPORTS.items() for each in found if each.name.startswith(".")
    ] == []
    assert [str(file) for file in PACKAGE.rglob("__init__.py") if file.read_bytes().strip()] == []


def test_heavy_imports_wait_until_they_are_needed():
    """Each costs tens of milliseconds, and most calls need none."""
    eager = [
        f"{name}:{each.line} imports {each.name}"
        for name, found in IMPORTS.items()
        for each in found
        if each.is_eager and each.name.split(".")[0] in HEAVY
    ]
    # the one named place of Whoosh, which is itself imported only when it is chosen
    assert [text for text in eager if not text.startswith("cyberos.index.fulltext_whoosh:")] == []


def test_only_the_named_places_import_whoosh():
    places = {name for name, found in IMPORTS.items() for each in found if each.name.split(".")[0] == "whoosh"}
    assert len(places) <= 1, places


@pytest.mark.parametrize("name", FILES)
def test_a_module_has_at_most_300_lines(name):
    assert len(FILES[name].read_text(encoding="utf-8").splitlines()) <= 300


@pytest.mark.parametrize("name", FILES)
def test_a_function_has_at_most_50_lines(name):
    functions = [node for node in ast.walk(TREES[name]) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert [
        f"{node.name}: {node.end_lineno - node.lineno + 1}" for node in functions if node.end_lineno - node.lineno >= 50
    ] == []


def keeps_everything(node: ast.ExceptHandler) -> bool:
    """Report whether a handler catches everything and does not end by raising it again."""
    kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    names = {"everything" if kind is None else ast.unparse(kind) for kind in kinds}
    last = node.body[-1]
    return bool(names & {"everything", "Exception", "BaseException"}) and not (
        isinstance(last, ast.Raise) and not last.exc
    )


def test_only_the_doctors_walker_and_the_command_line_keep_every_error():
    wide = [
        f"{name}:{node.lineno}"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and keeps_everything(node)
    ]
    assert {place.split(":")[0] for place in wide} <= CATCHERS, wide


def test_in_core_only_files_and_the_lock_write_to_disk():
    found = []
    for name, tree in TREES.items():
        if not name.startswith("cyberos.core") or name in WRITERS:
            continue
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name)):
                continue
            text = ast.unparse(node)
            called = ast.unparse(node.func)
            is_writing = called.startswith(("os.", "shutil.")) and called.split(".")[1] in WRITING
            is_writing |= called in ("os.open", "open", "shutil.copy", "shutil.rmtree") and "'rb'" not in text
            is_writing |= called.endswith((".write_text", ".write_bytes", ".touch", ".symlink_to", ".hardlink_to"))
            if is_writing:
                found.append(f"{name}:{node.lineno} {text}")
    assert found == []
