"""What the autoscaler asks Prometheus, asked on the real stack."""

from tests.alerts.night import Night
from tests.deployment import kubernetes
from tests.neighbour import wait_until


def test_every_question_of_the_autoscaler_has_one_answer_and_none_under_the_brake(
    watched: Night,
) -> None:
    """KEDA takes no answer for zero: appointments that a human holds back call for no worker."""
    spec = kubernetes.named("ScaledObject", "appointment-timeout-worker")["spec"]
    questions = [trigger["metadata"]["query"] for trigger in spec["triggers"]]

    def answers() -> list[int]:
        return [len(watched.prometheus.query(one)) for one in questions]

    wait_until(lambda: answers() == [1, 1], "an answer to each")
    watched.run("python -m app pause --reason 'bad import'")
    try:
        wait_until(lambda: answers() == [0, 1], "no answer to the first")
    finally:
        watched.run("python -m app resume")
    wait_until(lambda: answers() == [1, 1], "answers again")
