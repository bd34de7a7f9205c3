"""The diary tells a worker at work from one whose run hangs."""

from pathlib import Path

from dev.chaos.diary import Diary

RUN = "calendar.outbox_publisher[{}]".format("0" * 36)
RECEIVED = f"Task {RUN} received\n"
SUCCESS = '{"event": "cycle completed", "outcome": "completed"}\n'
LOST = "Task handler raised error: WorkerLostError('Worker exited prematurely')\n"


def written(tmp_path: Path) -> tuple[Path, Diary]:
    log = tmp_path / "log"
    return log, Diary(log)


def add(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


def test_a_run_that_began_before_must_end(tmp_path: Path) -> None:
    log, diary = written(tmp_path)
    add(log, RECEIVED)
    diary.turn_page()
    assert not diary.all_well()
    add(log, SUCCESS)
    assert not diary.all_well()
    add(log, f"Task {RUN} succeeded in 60 s\n")
    assert diary.all_well()


def test_a_run_that_was_lost_with_its_child_has_ended(tmp_path: Path) -> None:
    log, diary = written(tmp_path)
    add(log, RECEIVED + SUCCESS)
    diary.turn_page()
    add(log, SUCCESS)
    assert not diary.all_well()
    add(log, LOST)
    assert diary.all_well()


def test_a_run_that_went_back_to_the_queue_is_not_waited_for(tmp_path: Path) -> None:
    log, diary = written(tmp_path)
    add(log, RECEIVED + "Restoring 1 unacknowledged message(s)\n")
    diary.turn_page()
    add(log, SUCCESS)
    assert diary.all_well()


def test_a_line_counts_when_it_is_whole(tmp_path: Path) -> None:
    log, diary = written(tmp_path)
    add(log, SUCCESS[:-1])
    assert not diary.all_well()
    add(log, "\n")
    assert diary.all_well()
