"""The report of a real run says all that it should, and no text in it runs or loads anything."""

import json
import os
import shutil
import sys
from contextlib import closing

import pytest

from lefleet.cli import main
from lefleet.errors import BadInput
from lefleet.ledger import open_ledger
from lefleet.records import ApprovalAnswer
from lefleet.reports.report import REPORT, write_report
from tests.cli.test_view import controlled
from tests.gates import CYCLE, RUN
from tests.ledger.ledgers import REQUEST
from tests.reports.reading import ReportReader

EVIL = "</pre></title></style><script>alert(1)</script><img src=x onerror=f()>&#39;\"'\x00\u202e"
SECTIONS = ["Success over cycles", "Tasks", "Gates", "Films", "Training", "Lineage", "Budgets"]


@pytest.fixture(scope="module")
def written(workdir, tmp_path_factory):
    """Of the finished run."""
    from lefleet.queries.runs import RunReader

    out = tmp_path_factory.mktemp("report") / "demo.html"
    with closing(open_ledger(workdir)) as ledger:
        return write_report(RunReader(lambda: ledger, workdir), RUN, out, films=8)


def test_it_is_one_file_that_runs_and_loads_nothing(written):
    report = ReportReader(written.path)
    report.assert_harmless()
    first, policy = report.all("meta")[:2]
    assert first["charset"] == "utf-8"
    assert policy == {
        "http-equiv": "Content-Security-Policy",
        "content": "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'",
    }
    assert "http" not in written.path.read_text().replace("http-equiv", "")
    assert written.size == written.path.stat().st_size


def test_it_says_state_verdict_evidence_and_origin(written):
    report = ReportReader(written.path)
    text = report.text
    assert text.index("all 2 cycles are done") < text.index("The candidate is better than")
    assert text.index("The candidate is better than") < text.index(SECTIONS[0])
    for words in (
        *SECTIONS,
        "why promote",
        "Cycle 1 against cycle 0",
        "The line decides when it crosses a dashed bound.",
        "Made by cycle 1 of demo",
        "15",
        "Configuration",
        "First seed of every stage",
        "lerobot 0.",
    ):
        assert words in text, words
    assert [one for one in report.all("svg") if not one.get("aria-label")] == []
    assert len(report.all("svg")) == 3
    assert len(report.all("desc")) == 3


def test_films_of_pairs_are_side_by_side_and_inside(written):
    report = ReportReader(written.path)
    videos = report.all("video")
    assert (written.films, written.films_left_out) == (len(videos), 0) == (5, 0)
    assert all(one["src"].startswith("data:video/mp4;base64,") for one in videos)
    assert all(one["poster"].startswith("data:image/jpeg;base64,") for one in videos)
    assert "autoplay" not in videos[0]
    assert "Pair 1:" in report.text or "Pair " in report.text
    assert report.text.count("candidate :") == report.text.count("baseline :") == 1


@pytest.mark.parametrize(
    ("films", "most_bytes", "shown"), [(0, None, 0), (1, None, 3), (8, 1, 0), (8, 10**9, 5)]
)
def test_films_that_do_not_fit_are_left_out_and_counted(
    reader_of, workdir, tmp_path, monkeypatch, films, most_bytes, shown
):
    if most_bytes is not None:
        monkeypatch.setattr("lefleet.reports.films.MOST_BYTES", most_bytes)
    done = write_report(reader_of(workdir), RUN, tmp_path / "r.html", films=films)
    assert (done.films, done.films_left_out) == (shown, 5 - shown)
    said = f"{5 - shown} further films are left out"
    assert (said in ReportReader(done.path).text) == (shown < 5)


def test_a_film_that_is_a_link_to_elsewhere_is_not_put_in(reader_of, copied, tmp_path):
    secret = tmp_path / "secret.mp4"
    secret.write_bytes(b"secret")
    videos = sorted((copied / RUN / "cycle_1/evaluate/videos").iterdir())
    videos[0].unlink()
    videos[0].symlink_to(secret)
    done = write_report(reader_of(copied), RUN, tmp_path / "r.html", films=8)
    assert (done.films, done.films_left_out) == (4, 1)


def test_a_broken_film_is_shown_without_a_picture(reader_of, copied, tmp_path):
    videos = sorted((copied / RUN / "cycle_1/evaluate/videos").iterdir())
    videos[0].write_bytes(b"no film")
    done = write_report(reader_of(copied), RUN, tmp_path / "r.html", films=8)
    assert [("poster" in one) for one in ReportReader(done.path).all("video")].count(False) == 1


def test_texts_of_others_stay_texts(reader_of, copied, tmp_path):
    """Reasons, answers, logs, tasks and the configuration of a run that failed."""
    stage = copied / RUN / "cycle_2" / "train"
    stage.mkdir(parents=True)
    (stage / "log.txt").write_text(f"before\n{EVIL}\n")
    with closing(open_ledger(copied)) as ledger:
        asked = ledger.approvals.ask(
            RUN, "promote", EVIL, cycle=CYCLE, text=EVIL, evidence={}, timeout_s=0.0,
            on_timeout="reject",
        )  # fmt: skip
        answer = ApprovalAnswer(approved=False, who=EVIL, at=1e9, why=EVIL)
        assert ledger.approvals.answer(asked, answer)
        ledger.resume_run(RUN)
        attempt = ledger.start_attempt(RUN, 2, "train", REQUEST)
        ledger.end_attempt(attempt, "failed", EVIL)
        ledger.set_run_state(RUN, "failed", EVIL)
    done = write_report(reader_of(copied), RUN, tmp_path / "r.html", films=0)
    report = ReportReader(done.path)
    report.assert_harmless()
    assert report.text.count("<script>alert(1)</script>") >= 4
    assert "Rejected by" in report.text
    assert f"{RUN} failed in train of cycle 2" in report.text
    assert "�" in report.text
    assert report.all("img") == []


def test_a_running_run_is_reported_as_it_is_now(reader_of, copied, tmp_path):
    with closing(open_ledger(copied)) as ledger:
        ledger.resume_run(RUN)
        ledger.start_attempt(RUN, 2, "collect", REQUEST)
    (copied / RUN / "cycle_2/collect").mkdir(parents=True)
    with controlled(copied / RUN):
        done = write_report(reader_of(copied), RUN, tmp_path / "r.html", films=0)
    report = ReportReader(done.path)
    report.assert_harmless()
    assert "▶ running" in report.text
    assert "Current cycle" in report.text
    assert "▶ collect" in report.text


def test_a_run_that_has_just_begun_and_one_that_cannot_be_read(reader_of, tmp_path):
    from lefleet.records.border import encode
    from tests.loop.states import config

    with closing(open_ledger(tmp_path / "runs")) as ledger:
        ledger.create_run("new", json.loads(encode(config(name="new"))))
        ledger.create_run("foreign", {"name": "foreign", "colour": EVIL})
    for run, words in (("new", "No cycle has a result yet."), ("foreign", "unreadable")):
        done = write_report(reader_of(tmp_path / "runs"), run, tmp_path / f"{run}.html", films=8)
        report = ReportReader(done.path)
        report.assert_harmless()
        assert words in report.text


def test_an_earlier_report_is_replaced_and_another_file_is_not(reader_of, workdir, tmp_path):
    out = tmp_path / "r.html"
    for _ in range(2):
        write_report(reader_of(workdir), RUN, out, films=0)
    before = out.read_bytes()
    other = tmp_path / "mine.html"
    other.write_text("<p>mine</p>")
    for wrong in (other, tmp_path, tmp_path / "none" / "r.html"):
        with pytest.raises(BadInput, match="out: "):
            write_report(reader_of(workdir), RUN, wrong, films=0)
    with pytest.raises(BadInput, match="run: "):
        write_report(reader_of(workdir), "nobody", tmp_path / "n.html", films=0)
    assert other.read_text() == "<p>mine</p>"
    assert out.read_bytes()[:100] == before[:100]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["mine.html", "r.html"]


def test_a_full_disk_leaves_nothing_behind(reader_of, workdir, tmp_path):
    """A file that may not grow, as on a full disk."""
    import resource
    import signal

    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    reader = reader_of(workdir)
    reader.facts(RUN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(BadInput, match="cannot be written"):
            write_report(reader, RUN, tmp_path / "r.html", films=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert list(tmp_path.iterdir()) == []


def run(monkeypatch, capsys, *arguments: object) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["lefleet", "report", *map(str, arguments)])
    return main(), *capsys.readouterr()


def test_the_command_writes_into_the_folder_of_the_run(monkeypatch, capsys, copied):
    code, out, _ = run(monkeypatch, capsys, RUN, "--workdir", copied)
    assert code == 0
    assert out.startswith(f"Report:  {copied / RUN / REPORT} (")
    assert out.endswith("MB, 5 films)\n")
    code, out, _ = run(monkeypatch, capsys, RUN, "--workdir", copied, "--films", "0", "--json")
    assert json.loads(out) == {
        "path": str(copied / RUN / REPORT),
        "size": (copied / RUN / REPORT).stat().st_size,
        "films": 0,
        "films_left_out": 5,
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nobody"], "run: there is no run called nobody"),
        ([RUN, "--films", "-1"], "films: -1"),
        ([RUN, "--out", "."], "out: "),
    ],
)
def test_mistakes_are_told_in_one_line(monkeypatch, capsys, workdir, arguments, words):
    code, out, err = run(monkeypatch, capsys, *arguments, "--workdir", workdir)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("chromium"), reason="there is no browser")
def test_a_browser_shows_it_on_a_phone_without_a_complaint_or_a_request(written):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox"] if os.geteuid() == 0 else [],
        )
        page = browser.new_page(viewport={"width": 360, "height": 800}, color_scheme="dark")
        said, asked = [], []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url[:40]))
        page.goto(written.path.as_uri())
        page.wait_for_function("[...document.querySelectorAll('video')].every(v => v.readyState)")
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(14, 19, 24)"
        assert page.evaluate("document.querySelector('video').videoWidth") > 0
        assert said == []
        assert [one for one in asked if not one.startswith("data:")] == [written.path.as_uri()[:40]]
        browser.close()
