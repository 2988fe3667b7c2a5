"""Break each check of the doctor in turn, and show that its fixture catches it: `make mutation`.

A mutant is cyberos with one thing broken, in a process of its own:

    drop      everything that a rule finds is thrown away                            (each rule)
    select    the rule no longer names the errors that it selects                    (each rule with `select`)
    law       a keyword of memory.schema.json is struck out                          (each keyword of an episode's field)
    if        the condition above the place that names the rule never holds          (each such place in the code)

It is killed when a vault in `tests/bad/<rule>/` no longer trips that rule and no other. What a whole small vault cannot
show (a file that goes while it is read, a check that crashes) is left to the tests, and the table says so. With a
survivor the exit code is 1.
"""

from __future__ import annotations

import ast
import copy
import importlib.abc
import importlib.util
import inspect
import io
import json
import os
import sys
import tempfile
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TESTS = Path(__file__).parent
ROOT = TESTS.parent
RULES: list[dict[str, Any]] = yaml.safe_load((ROOT / "memory.invariants.yaml").read_text(encoding="utf-8"))["rules"]
IDS = [rule["id"] for rule in RULES]
CORE = ("text", "rows", "segments", "ledger", "frontmatter", "contract")
MODULES = (
    *(f"cyberos.core.{name}" for name in CORE),
    *(f"cyberos.doctor.{file.stem}" for file in sorted((ROOT / "cyberos/doctor").glob("*.py")) if file.stem[0] != "_"),
)
SHELF = "/dev/shm" if os.path.isdir("/dev/shm") else None
# the tests that see what no fixture can
SUITE = (
    "doctor/test_attacks.py",
    "doctor/test_doctor.py",
    "doctor/test_git.py",
    "core/test_text.py",
    "core/test_rows.py",
    "core/test_segments.py",
    "core/test_frontmatter.py",
)
# places that the doctor does not reach: what the writer refuses, what only another place's message needs
ELSEWHERE = ("core/test_episode.py", "core/test_reader.py", "test_contract.py", "core/test_writer.py", "cli")


class Mutant(NamedTuple):
    """One broken thing: the rule it belongs to, the kind of mutation, and where."""

    rule: str
    kind: str
    where: str


# --- the mutants ------------------------------------------------------------------------------------------------------


def mutants() -> Iterator[Mutant]:
    for rule in RULES:
        yield Mutant(rule["id"], "drop", "")
        if rule.get("select"):
            yield Mutant(rule["id"], "select", "")
    yield from _laws()
    for module in MODULES:
        yield from _places(module)


def _laws() -> Iterator[Mutant]:
    schema = json.loads((ROOT / "memory.schema.json").read_text(encoding="utf-8"))
    for field, law in schema["$defs"]["EpisodeFrontmatter"]["properties"].items():
        for keyword in law:
            is_said_by_enum = keyword == "type" and "enum" in law
            if keyword not in ("description", "const", "$comment") and not is_said_by_enum:
                yield Mutant("", "law", f"{field}/{keyword}")


def _places(module: str) -> Iterator[Mutant]:
    for number, (_, constant) in enumerate(sites(tree_of(module))):
        yield Mutant(constant.value, "if", f"{module}:{constant.lineno}:{number}")


def tree_of(module: str) -> ast.Module:
    file = ROOT / (module.replace(".", "/") + ".py")
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


def sites(tree: ast.Module) -> list[tuple[list[ast.AST], ast.Constant]]:
    """Find where functions name a rule in what they say, with all that stands around each place."""
    found = []

    def visit(node: ast.AST, above: list[ast.AST]) -> None:
        if isinstance(node, ast.Constant) and node.value in IDS:
            is_said = not any(isinstance(one, ast.Compare | ast.Subscript) for one in above)
            if is_said and any(isinstance(one, ast.FunctionDef) for one in above):
                found.append((above, node))
        for child in ast.iter_child_nodes(node):
            visit(child, [*above, node])

    visit(tree, [])
    return found


def break_place(tree: ast.Module, number: int) -> None:
    """Make the condition next above the place one that never leads there; without one, leave the statement out."""
    above, constant = sites(tree)[number]
    chain = [*above, constant]
    function = max(index for index, node in enumerate(chain) if isinstance(node, ast.FunctionDef))
    for index in range(len(chain) - 2, function, -1):
        node, child = chain[index], chain[index + 1]
        if isinstance(node, ast.If | ast.IfExp) and child is not node.test:
            body = node.body if isinstance(node.body, list) else [node.body]
            node.test = ast.copy_location(ast.Constant(child not in body), node.test)
            return
    statement = next(node for node in reversed(chain) if isinstance(node, ast.stmt))
    owner = next(node for node in reversed(chain) if statement in getattr(node, "body", ()))
    is_generator = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(chain[function]))
    spare = ast.parse("yield from ()" if is_generator else "pass").body[0]
    owner.body[owner.body.index(statement)] = ast.copy_location(spare, statement)


class _Broken(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module of cyberos with one place broken."""

    def __init__(self, module: str, number: int) -> None:
        self.module, self.number = module, number

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.module:
            return None
        file = ROOT / (name.replace(".", "/") + ".py")
        return importlib.util.spec_from_file_location(name, file, loader=self)

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        tree = tree_of(self.module)
        break_place(tree, self.number)
        exec(compile(ast.fix_missing_locations(tree), module.__file__, "exec"), module.__dict__)  # noqa: S102


def plant(mutant: Mutant) -> None:
    """Break this process's cyberos, which is not imported yet."""
    if mutant.kind == "if":
        module, _, number = mutant.where.rsplit(":", 2)
        sys.meta_path.insert(0, _Broken(module, int(number)))
        return
    from cyberos.core import contract

    if mutant.kind == "drop":
        from cyberos.doctor import examination

        drop(mutant.rule, examination, setattr)
    elif mutant.kind == "select":
        rules = contract.rules()
        rules[mutant.rule] = rules[mutant.rule]._replace(select={"at": "/nowhere"})
    elif mutant.kind == "law":
        field, keyword = mutant.where.split("/")
        schema = copy.deepcopy(contract.schema())
        del schema["$defs"]["EpisodeFrontmatter"]["properties"][field][keyword]
        contract.schema = lambda: schema  # type: ignore[assignment]


def drop(rule: str, module: Any, patch: Callable[[Any, str, Any], None]) -> None:
    """Throw away what the rule finds, as if its check had found nothing: patch the `examine` that a module has."""

    def without(*arguments: Any, **options: Any) -> Any:
        report = examine(*arguments, **options)
        return report._replace(findings=[finding for finding in report.findings if finding.rule != rule])

    examine = module.examine
    patch(module, "examine", without)


# --- what kills them --------------------------------------------------------------------------------------------------


def catches(case: str) -> bool:
    """Report whether a bad vault no longer gives what its folder says."""
    from doctor import test_fixtures

    check = test_fixtures.test_a_bad_vault_trips_the_rule_of_its_folder_and_no_other
    with tempfile.TemporaryDirectory(dir=SHELF) as folder:
        given = {"case": case, "tmp_path": Path(folder)}
        try:
            check(**{name: given[name] for name in inspect.signature(check).parameters})
        except Exception:  # noqa: BLE001 - a mutant may break in any way
            return True
    return False


def killer(mutant: Mutant, *, asks_tests: bool) -> str:
    """Name what kills a mutant, or give the empty text. Call in a process of its own."""
    plant(mutant)
    from doctor import test_fixtures

    own = [case for case in test_fixtures.BAD if case.split("/")[0] == mutant.rule]
    for case in own:
        if catches(case):
            return f"tests/bad/{case}"
    for case in test_fixtures.BAD:
        if case not in own and catches(case):
            return f"tests/bad/{case}" if not mutant.rule else f"another: tests/bad/{case}"
    for paths in (SUITE, ELSEWHERE) if asks_tests else ():
        if failed := _first_failure([str(TESTS / path) for path in paths]):
            return f"a test: {failed}"
    return ""


def _first_failure(paths: list[str]) -> str:
    import pytest

    found: list[str] = []

    class Listener:
        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed:
                found.append(report.nodeid.split("[")[0].replace("tests/", "", 1))

        def pytest_collectreport(self, report: Any) -> None:
            if report.failed:
                found.append(report.nodeid)

    pytest.main(
        ["-x", "-p", "no:xdist", "-W", "ignore::pytest.PytestAssertRewriteWarning", "--rootdir", str(ROOT), *paths],
        plugins=[Listener()],
    )
    return found[0] if found else ""


def in_child(work: Callable[[], str]) -> str:
    """Run work in a fork of this process, and give its answer."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                answer = work()
        except BaseException as error:  # noqa: BLE001 - the mutant may not even load
            answer = f"it does not run: {type(error).__name__}"
        os.write(writing, answer.encode()[:4000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(child, 0)
    return answer


def main(chosen: list[str]) -> int:
    """Try every mutant, or those whose rule, kind or place was named; print the table.

    With `fixtures` among the names no test is asked, which takes a minute and leaves more alive.
    """
    asks_tests = "fixtures" not in chosen
    chosen = [name for name in chosen if name != "fixtures"]
    sys.path[:0] = [str(TESTS), str(ROOT)]
    for who in ("AUTHOR", "COMMITTER"):
        os.environ |= {f"GIT_{who}_NAME": "Ada", f"GIT_{who}_EMAIL": "ada@example.org"}
    import click  # noqa: F401 - what every child needs and no mutant touches
    import frontmatter  # noqa: F401
    import jsonschema
    import jsonschema_rs  # noqa: F401

    _ = jsonschema.Draft202012Validator
    if fault := in_child(lambda: killer(Mutant("", "none", ""), asks_tests=False)):
        print(f"cyberos is broken before it is broken: {fault}")
        return 2
    counts: Counter[str] = Counter()
    survivors = []
    for mutant in mutants():
        if chosen and not {mutant.rule, mutant.kind, mutant.where, mutant.where.rpartition(":")[0]} & set(chosen):
            continue
        by = in_child(lambda mutant=mutant: killer(mutant, asks_tests=asks_tests))  # type: ignore[misc]
        how = "SURVIVED" if not by else by.partition(": ")[0] if ": " in by else "its fixture"
        counts[how] += 1
        survivors += [] if by else [mutant]
        where = mutant.where.rsplit(":", 1)[0] if mutant.kind == "if" else mutant.where
        print(f"{mutant.kind:7} {mutant.rule:34} {where:40} {by or 'SURVIVED'}", flush=True)
    total = sum(counts.values())
    told = ", ".join(f"{count} by {how}" for how, count in counts.most_common() if how != "SURVIVED")
    print(
        f"\n{total - len(survivors)} of {total} mutants killed ({(total - len(survivors)) / (total or 1):.0%}): {told}"
    )
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
