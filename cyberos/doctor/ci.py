"""What a CI service says in the environment: that it runs us, and where the work of a pull request is to go.

    CI=true  GITHUB_BASE_REF=main                                     GitHub, Gitea and Forgejo Actions
    CI=true  CI_MERGE_REQUEST_TARGET_BRANCH_NAME=main                 GitLab, which fetches no branch but may have
             CI_MERGE_REQUEST_DIFF_BASE_SHA=3f9c1d…                   the commit where the work began
    TF_BUILD=True  SYSTEM_PULLREQUEST_TARGETBRANCH=refs/heads/main    Azure Pipelines

Source: each service's list of predefined variables.
"""

from __future__ import annotations

import os
from typing import NamedTuple


class Service(NamedTuple):
    """The variables of one service: one that it always sets, the target branch's, and one or two more.

    `pull` says whether this is a pull request at all, where the branch is set in any case; `base` holds a commit of
    the target branch.
    """

    name: str
    mark: str
    branch: str
    pull: str = ""
    base: str = ""


class Target(NamedTuple):
    """The branch that a pull request is to be merged into, and a commit of it that the service names."""

    branch: str
    base: str | None


SERVICES = (
    Service("GitHub Actions", "GITHUB_ACTIONS", "GITHUB_BASE_REF"),
    Service(
        "GitLab CI",
        "GITLAB_CI",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME",
        base="CI_MERGE_REQUEST_DIFF_BASE_SHA",
    ),
    Service(
        "Bitbucket Pipelines",
        "BITBUCKET_BUILD_NUMBER",
        "BITBUCKET_PR_DESTINATION_BRANCH",
        base="BITBUCKET_PR_DESTINATION_COMMIT",
    ),
    Service("Azure Pipelines", "TF_BUILD", "SYSTEM_PULLREQUEST_TARGETBRANCH"),
    Service("Jenkins", "JENKINS_URL", "CHANGE_TARGET"),
    Service("Buildkite", "BUILDKITE", "BUILDKITE_PULL_REQUEST_BASE_BRANCH"),
    Service("Drone", "DRONE", "DRONE_TARGET_BRANCH", pull="DRONE_PULL_REQUEST"),
    Service("Woodpecker", "CI_PIPELINE_NUMBER", "CI_COMMIT_TARGET_BRANCH"),
    Service("Travis CI", "TRAVIS", "TRAVIS_BRANCH", pull="TRAVIS_PULL_REQUEST"),
    Service("AppVeyor", "APPVEYOR", "APPVEYOR_REPO_BRANCH", pull="APPVEYOR_PULL_REQUEST_NUMBER"),
    Service("Cirrus CI", "CIRRUS_CI", "CIRRUS_BASE_BRANCH"),
    Service("AWS CodeBuild", "CODEBUILD_BUILD_ID", "CODEBUILD_WEBHOOK_BASE_REF"),
)
_NO = ("", "0", "false", "no")


def runs_us() -> bool:
    """Report whether a CI service says that it runs us."""
    return any(_says(name) for name in ("CI", *(service.mark for service in SERVICES)))


def target() -> Target | None:
    """Give where the work is to go; None outside CI, and in a job that is for no pull request."""
    if not runs_us():
        return None
    for service in SERVICES:
        branch = os.environ.get(service.branch, "").removeprefix("refs/heads/")
        if branch and (not service.pull or _says(service.pull)):
            return Target(branch, os.environ.get(service.base) if service.base else None)
    return None


def _says(name: str) -> bool:
    return os.environ.get(name, "").lower() not in _NO
