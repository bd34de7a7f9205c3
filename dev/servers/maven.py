"""Java archives from Maven; they stay in its own repository, where it finds them again."""

import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from dev.servers.binaries import program
from dev.servers.process import ServerError

Artifact = tuple[str, str, str]
"""Group, name and version."""

_RESOLVE = "org.apache.maven.plugins:maven-dependency-plugin:2.8:build-classpath"
_SECONDS = 300.0


@cache
def class_path(what: str, artifacts: Sequence[Artifact]) -> str:
    """Let Maven fetch them with all they need, unless it has them; their paths, colons between.

    Raises ServerError, which names `what` they are, when it cannot.
    """
    with tempfile.TemporaryDirectory(prefix="maven-") as directory:
        project, answer = Path(directory) / "pom.xml", Path(directory) / "class-path"
        project.write_text(_project(artifacts))
        argv = [program("mvn", what), "-q", "-B", "-f", str(project), _RESOLVE]
        trouble = _run([*argv, f"-Dmdep.outputFile={answer}"])
        if trouble or not answer.exists():
            raise ServerError(f"mvn cannot fetch {what}: {trouble}")
        return answer.read_text().strip()


def _run(argv: list[str]) -> str:
    """Nothing when it succeeds, else the end of what it said."""
    try:
        ran = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"no end after {_SECONDS:.0f} s"
    return "" if ran.returncode == 0 else ran.stdout.strip()[-1500:] or f"status {ran.returncode}"


def _project(artifacts: Sequence[Artifact]) -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency>"
        for group, artifact, version in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>local</groupId><artifactId>class-path</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )
