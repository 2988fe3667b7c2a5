"""A large vault is read by two processes: whatever happens to the second, the answer is that of one alone."""

import os

import pytest

from cyberos.core import files, layout
from cyberos.doctor import apart, examination
from cyberos.doctor.examination import examine


@pytest.fixture
def shared(repo):
    repo.log("work", 12)
    repo.commit("work")
    for path in sorted((repo.root / "memories/episodes").rglob("*.md"))[::5]:
        path.write_text(path.read_text().replace("Outcome: success", "Outcome: great"))
    (repo.root / "memories/stray.txt").write_text("lies where nothing may")
    return repo


@pytest.fixture
def forks(monkeypatch):
    """Take every vault for a large one, and give the processes that were begun."""
    begun, fork = [], os.fork

    def counted():
        child = fork()
        begun.append(child)
        return child

    monkeypatch.setattr(apart, "_LARGE", 0)
    monkeypatch.setattr(apart, "_can_fork", lambda: True)
    monkeypatch.setattr(os, "fork", counted)
    return begun


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
class TestForked:
    def test_two_find_what_one_does(self, shared, monkeypatch, forks):
        together = examine(shared.root, anchor="auto", is_full=True)
        assert len(forks) == 1
        monkeypatch.setattr(apart, "_can_fork", lambda: False)
        assert examine(shared.root, anchor="auto", is_full=True) == together
        assert together.count("error") >= 3

    def test_one_that_dies_is_replaced(self, shared, monkeypatch, forks):
        alone = examine(shared.root, anchor="auto", is_full=True)
        here, walked = os.getpid(), examination.Examination._walked

        def dies(self, entries):
            if os.getpid() != here:
                raise MemoryError
            return walked(self, entries)

        monkeypatch.setattr(examination.Examination, "_walked", dies)
        assert examine(shared.root, anchor="auto", is_full=True) == alone
        assert len(forks) == 2

    def test_an_edit_that_git_does_not_notice_is_seen_by_either(self, shared, forks, monkeypatch):
        compared = {}
        unlike = examination.Against.unlike
        monkeypatch.setattr(
            examination.Against, "unlike", lambda self, ids: (compared.update(ids), unlike(self, ids))[1]
        )
        examine(shared.root, anchor="auto", is_full=True)
        on_disk = {path.relative_to(shared.root).as_posix() for path in (shared.root / "memories").rglob("*.md")}
        assert on_disk <= compared.keys()
        assert len(forks) == 1


def test_each_folder_is_taken_once():
    claims = apart.Claims()
    assert claims("memories/episodes/d4")
    assert not claims("memories/episodes/d4")
    assert claims("memories/facts/d4")
    assert all(claims("memories/episodes/D4") for _ in range(2)), "one that no memory lies in is everybody's"


def test_a_small_vault_is_read_by_one(shared):
    assert not apart.is_large(str(shared.root))
    assert files.Files(shared.root).stat(layout.AUDIT) is not None
