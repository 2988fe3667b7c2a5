"""Break each check of the doctor in turn, and show that its fixture catches it: `make mutation`.

A mutant is cyberos with one thing broken, in a process of its own:

    drop      everything that a rule finds is thrown away                            (each rule)
    select    the rule no longer names the errors that it selects                    (each rule with `select`)
    law       a keyword of memory.schema.json is struck out                          (each keyword of an episode's field)
    if        the condition above the place that names the rule never holds          (each such place in the code)

It is killed when a vault in `tests/bad/<rule>/` no longer trips that rule and no other, or when a test fails that comes
by the place: what a whole small vault cannot show (a file that goes while it is read, what only the index holds) is left
to the tests. Which vault and which test comes by which place is looked up first, with nothing broken, so that no mutant
is shown to more of them than can matter. With a survivor the exit code is 1.
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
import signal
import sys
import tempfile
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

TESTS = Path(__file__).parent
ROOT = TESTS.parent
RULES: list[dict[str, Any]] = yaml.safe_load((ROOT / "memory.invariants.yaml").read_text(encoding="utf-8"))["rules"]
IDS = [rule["id"] for rule in RULES]
CORE = ("text", "rows", "segments", "ledger", "frontmatter", "contract")
MODULES = (
    *(f"cyberos.core.{name}" for name in CORE),
    *(f"cyberos.doctor.{file.stem}" for file in sorted((ROOT / "cyberos/doctor").glob("*.py")) if file.stem[0] != "_"),
)
BAD = sorted(f"{path.parent.name}/{path.name}" for path in (TESTS / "bad").glob("*/*"))
SHELF = "/dev/shm" if os.path.isdir("/dev/shm") else None
# the tests that see what no vault can
SUITE = (
    "doctor/test_attacks.py",
    "doctor/test_ci.py",
    "doctor/test_doctor.py",
    "doctor/test_git.py",
    "doctor/test_messages.py",
    "doctor/test_staged.py",
    "doctor/test_unnoticed.py",
    "doctor/test_team.py",
    "core/test_text.py",
    "core/test_rows.py",
    "core/test_segments.py",
    "core/test_frontmatter.py",
    "core/test_episode.py",
    "core/test_writer.py",
    "core/test_writer_secrets.py",
    "test_contract.py",
    "test_hostile.py",
)
MOST_TESTS = 12  # that one mutant is shown, the quickest first
MOST_SECONDS = 120  # that one mutant may take; none needs more than a few
# mutants that change nothing that anybody could see, by name, and why; one that is killed has no place here
SPARED: dict[str, str] = {
    "law occurred_at/maxLength": "the pattern takes at most 30 characters too; the keyword tells it to forms and readers",
}
# a law is also held wherever an episode is made, which is where some of its limits are met first
OF_LAWS = ["tests/core/test_episode.py"]


class Mutant(NamedTuple):
    """One broken thing: the rule it belongs to, the kind of mutation, and where.

    A place in the code is `module:function:rule:n`, the n-th of the function that names the rule.
    """

    rule: str
    kind: str
    where: str

    @property
    def name(self) -> str:
        return f"{self.kind} {self.where or self.rule}"


class Reached(NamedTuple):
    """Who comes by a place: vaults of tests/bad, and tests, the quickest first."""

    cases: list[str]
    tests: list[str]


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
    for place, rule in zip(places(module), sites(tree_of(module)), strict=True):
        yield Mutant(rule[1].value, "if", place)


def places(module: str) -> list[str]:
    """Name each site of a module."""
    seen: Counter[str] = Counter()
    found = []
    for above, constant in sites(tree_of(module)):
        function = ".".join(node.name for node in above if isinstance(node, ast.FunctionDef | ast.ClassDef))
        name = f"{module}:{function}:{constant.value}"
        found.append(f"{name}:{seen[name]}")
        seen[name] += 1
    return found


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


class _Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads modules of cyberos with their trees changed."""

    def __init__(self, modules: Iterable[str], change: Callable[[str, ast.Module], None], **names: Any) -> None:
        self.modules, self.change, self.names = modules, change, names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self.modules:
            return None
        file = ROOT / (name.replace(".", "/") + ".py")
        return importlib.util.spec_from_file_location(name, file, loader=self)

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        tree = tree_of(module.__name__)
        self.change(module.__name__, tree)
        module.__dict__.update(self.names)
        exec(compile(ast.fix_missing_locations(tree), module.__file__, "exec"), module.__dict__)  # noqa: S102


def plant(mutant: Mutant) -> None:
    """Break this process's cyberos, which is not imported yet."""
    if mutant.kind == "if":
        module = mutant.where.split(":")[0]
        number = places(module).index(mutant.where)
        sys.meta_path.insert(0, _Loader([module], lambda _, tree: break_place(tree, number)))
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


def survey(*, asks_tests: bool) -> str:
    """Find who comes by each place, with nothing broken; JSON of {place: Reached}. Call in a process of its own."""
    now: set[str] = set()

    def listen(module: str, tree: ast.Module) -> None:
        for place, (above, constant) in zip(places(module), sites(tree), strict=True):
            heard = ast.Call(ast.Name("__heard__", ast.Load()), [ast.Constant(place), ast.Constant(constant.value)], [])
            _exchange(above[-1], constant, ast.copy_location(heard, constant))

    def heard(place: str, value: str) -> str:
        now.add(place)
        return value

    sys.meta_path.insert(0, _Loader(MODULES, listen, __heard__=heard))
    reached: dict[str, Reached] = {}
    for case in BAD:
        now.clear()
        if catches(case):
            return f"tests/bad/{case} fails"
        for place in now:
            reached.setdefault(place, Reached([], [])).cases.append(case)
    if asks_tests:
        took: dict[str, float] = {}
        heard_by: dict[str, set[str]] = {}

        class Listener:
            def pytest_runtest_logstart(self, nodeid: str) -> None:
                now.clear()

            def pytest_runtest_logreport(self, report: Any) -> None:
                took[report.nodeid] = took.get(report.nodeid, 0) + report.duration
                heard_by.setdefault(report.nodeid, set()).update(now)

        run_tests([str(TESTS / path) for path in SUITE], Listener())
        for test in sorted(took, key=lambda test: took[test]):
            for place in heard_by[test]:
                reached.setdefault(place, Reached([], [])).tests.append(test)
    return json.dumps({place: found._replace(tests=found.tests[:MOST_TESTS]) for place, found in reached.items()})


def coming_by(mutant: Mutant, reached: dict[str, Reached]) -> Reached:
    """Give the vaults and tests to which a mutant is shown."""
    if mutant.kind == "if":
        return reached.get(mutant.where, Reached([], []))
    if mutant.kind == "law":
        return Reached(BAD, OF_LAWS if any(found.tests for found in reached.values()) else [])
    tests = [test for place, found in reached.items() if place.split(":")[2] == mutant.rule for test in found.tests]
    return Reached(BAD, list(dict.fromkeys(tests))[:MOST_TESTS])


def _exchange(parent: ast.AST, old: ast.AST, new: ast.AST) -> None:
    for field, value in ast.iter_fields(parent):
        if value is old:
            setattr(parent, field, new)
        elif isinstance(value, list) and old in value:
            value[value.index(old)] = new


def killer(mutant: Mutant, reached: Reached) -> str:
    """Name what kills a mutant, or give the empty text; `reached` is who is asked. Call in a process of its own."""
    plant(mutant)
    own = [case for case in reached.cases if case.split("/")[0] == mutant.rule]
    for case in own:
        if catches(case):
            return f"tests/bad/{case}"
    for case in reached.cases:
        if case not in own and catches(case):
            return f"tests/bad/{case}" if not mutant.rule else f"another: tests/bad/{case}"
    if reached.tests and (failed := _first_failure(reached.tests)):
        return f"a test: {failed}"
    return ""


def _first_failure(tests: list[str]) -> str:
    found: list[str] = []

    class Listener:
        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed:
                found.append(report.nodeid.split("[")[0].replace("tests/", "", 1))

        def pytest_collectreport(self, report: Any) -> None:
            if report.failed:
                found.append(report.nodeid)

    run_tests([str(ROOT / test) for test in tests], Listener(), "-x")
    return found[0] if found else ""


def run_tests(tests: list[str], listener: object, *options: str) -> None:
    import pytest

    always = ["-p", "no:xdist", "-W", "ignore::pytest.PytestAssertRewriteWarning", "--rootdir", str(ROOT)]
    pytest.main([*always, *options, *tests], plugins=[listener])


def in_child(work: Callable[[], str], seconds: int = 0) -> str:
    """Run work in a fork of this process, and give its answer; after so many seconds it is ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(seconds)
        try:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                answer = work()
        except BaseException as error:  # noqa: BLE001 - the mutant may not even load
            answer = f"it does not run: {type(error).__name__}"
        with os.fdopen(writing, "w") as pipe:
            pipe.write(answer)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    return "it does not end: " if os.WIFSIGNALED(status) else answer


def main(chosen: list[str]) -> int:
    """Try every mutant, or those whose rule, kind or place was named; print the table.

    With `fixtures` among the names no test is asked.
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
    print("looking who comes by which place, with nothing broken …", flush=True)
    told = in_child(lambda: survey(asks_tests=asks_tests))
    if not told.startswith("{"):
        print(f"cyberos is broken before it is broken: {told}")
        return 2
    reached = {place: Reached(*found) for place, found in json.loads(told).items()}
    every = list(mutants())
    names = {mutant.name for mutant in every}
    faults = [f"there is no mutant {name!r} to spare" for name in SPARED if name not in names]
    every = [one for one in every if not chosen or not {one.rule, one.kind, one.where, one.name}.isdisjoint(chosen)]
    counts: Counter[str] = Counter()
    for number, mutant in enumerate(every, 1):
        known = coming_by(mutant, reached)
        by = in_child(lambda mutant=mutant, known=known: killer(mutant, known), MOST_SECONDS)  # type: ignore[misc]
        how = "SURVIVED" if not by else by.partition(": ")[0] if ": " in by else "its fixture"
        if mutant.name in SPARED:
            faults += [f"{mutant.name} is spared, and killed by {by}"] if by else []
            how = "spared"
        counts[how] += 1
        faults += [f"{mutant.name} survived"] if how == "SURVIVED" else []
        where = mutant.where or mutant.rule
        print(f"[{number:3}/{len(every)}] {mutant.kind:6} {where:80} {by or how}", flush=True)
    total = len(every) - counts["spared"]
    killed = total - counts["SURVIVED"]
    said = ", ".join(f"{count} by {how}" for how, count in counts.most_common() if how not in ("SURVIVED", "spared"))
    print(f"\n{killed} of {total} mutants killed ({killed / (total or 1):.0%}): {said}; {counts['spared']} spared")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
