"""Reports: counted, and a partial one never looks like a full one."""

import pytest

from plugformer_testing import Outcome, Report, Status


def report(**counts: int) -> Report:
    outcomes = [
        Outcome(check=f"{status}-{number}", status=Status(status.replace("_", " ")), message="why")
        for status, count in counts.items()
        for number in range(count)
    ]
    return Report(
        subject="norm/mine",
        distribution="mine",
        version="1.0",
        source="abc",
        plugformer="0.1.0",
        options={"epsilon": 0.1},
        outcomes=tuple(outcomes),
    )


@pytest.mark.parametrize(
    ("counts", "summary", "passed"),
    [
        ({"passed": 23}, "23 of 23 checks passed", True),
        ({"passed": 22, "failed": 1}, "22 of 23 checks passed, 1 failed", False),
        ({"passed": 22, "expected_failure": 1}, "22 of 23 checks passed, 1 failed as declared", True),
        ({"passed": 5, "skipped": 18}, "PARTIAL: 5 of 23 checks ran, none of them failed", True),
        ({"passed": 22, "skipped": 1}, "PARTIAL: 22 of 23 checks ran, none of them failed", True),
        ({"passed": 4, "failed": 1, "skipped": 18}, "PARTIAL: 5 of 23 checks ran, 1 failed", False),
        ({"skipped": 23}, "PARTIAL: 0 of 23 checks ran", True),
    ],
)
def test_the_summary_tells_full_from_partial(counts, summary, passed):
    assert report(**counts).summary() == summary
    assert report(**counts).passed is passed


def test_json_holds_everything():
    record = report(passed=2, skipped=1).as_json()
    assert record["counts"] == {"checks": 3, "passed": 2, "failed": 0, "skipped": 1, "expected_failure": 0}
    assert record["summary"] == "PARTIAL: 2 of 3 checks ran, none of them failed"
    assert record["options"] == {"epsilon": 0.1}
    assert record["checks"][2] == {
        "check": "skipped-0",
        "status": "skipped",
        "message": "why",
        "case": "",
        "seconds": 0.0,
        "traceback": "",
    }
    assert {key: record[key] for key in ("subject", "distribution", "version", "source", "plugformer")} == {
        "subject": "norm/mine",
        "distribution": "mine",
        "version": "1.0",
        "source": "abc",
        "plugformer": "0.1.0",
    }


@pytest.mark.parametrize("status", [Status.SKIPPED, Status.FAILED, Status.EXPECTED_FAILURE])
def test_whatever_did_not_pass_says_why(status):
    with pytest.raises(ValueError, match=f"'shapes' {status}, but nobody says why"):
        Outcome(check="shapes", status=status, message=" ")
